//! The requests to JetStream that an object store needs (NATS's "JetStream wire API"), and what their answers mean.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Request, RequestErrorKind, StatusCode, Subscriber};
use base64::Engine as _;
use bytes::Bytes;
use seawall_core::Moment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::info;
use super::link::{Line, Link};
use crate::{Condition, Error};

/// The most bytes of a description of an object.
const LARGEST_INFO: usize = 256 << 10;

/// A bucket on a server.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub(super) link: Arc<Link>,
    pub(super) bucket: String,
    /// The place for messages.
    pub(super) url: String,
    /// How long an answer may take.
    pub(super) attempt: Duration,
}

/// The newest message with a subject.
pub(super) struct Latest {
    pub(super) sequence: u64,
    pub(super) time: Moment,
    pub(super) payload: Vec<u8>,
}

/// What an answer of JetStream may say in place of what was asked for.
#[derive(Debug, Deserialize)]
struct Fault {
    code: u16,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Answer<T> {
    error: Option<Fault>,
    #[serde(flatten)]
    told: Option<T>,
}

#[derive(Deserialize)]
struct Published {
    seq: u64,
}

#[derive(Deserialize)]
struct Got {
    message: Stored,
}

#[derive(Deserialize)]
struct Stored {
    seq: u64,
    #[serde(default)]
    data: String,
    time: String,
}

#[derive(Deserialize)]
struct Created {
    name: String,
    #[serde(default)]
    num_pending: u64,
}

#[derive(Deserialize)]
struct Purged {
    #[serde(default)]
    #[expect(dead_code, reason = "an answer without it is an error's")]
    success: bool,
}

impl Api {
    /// The name of the stream behind the bucket.
    fn stream(&self) -> String {
        format!("OBJ_{}", self.bucket)
    }

    async fn ask(&self, object: &str, subject: String, request: Request) -> Result<Message, Error> {
        let line = self.link.line(object).await?;
        let request = request.timeout(Some(self.attempt));
        let answer = tokio::select! {
            answer = line.client.send_request(subject, request) => answer,
            () = line.lost() => return Err(away(object, "the connection broke".to_owned())),
        };
        answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => self.no_bucket(),
            // A server that forbids a request says so beside it, and doesn't answer.
            RequestErrorKind::TimedOut => match line.complaint() {
                Some(text) => away(object, format!("no answer; the server said: {text}")),
                None => Error::Timeout { object: object.to_owned(), after: self.attempt },
            },
            RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => Error::InvalidKey {
                object: object.to_owned(),
                cause: "its name is too long for this server".to_owned(),
            },
            RequestErrorKind::Other => away(object, "the connection broke".to_owned()),
        })
    }

    async fn call<T: DeserializeOwned>(
        &self,
        object: &str,
        name: &str,
        body: &serde_json::Value,
        condition: &Condition,
    ) -> Result<T, Error> {
        let request = Request::new().payload(body.to_string().into());
        let answer = self.ask(object, format!("$JS.API.{name}"), request).await?;
        told(object, &self.url, &answer.payload, condition)
    }

    /// Publishes a message, and returns its place in the stream.
    pub(super) async fn publish(
        &self,
        object: &str,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        condition: &Condition,
    ) -> Result<u64, Error> {
        let request = Request::new().headers(headers).payload(payload);
        let answer = self.ask(object, subject, request).await?;
        told::<Published>(object, &self.url, &answer.payload, condition).map(|published| published.seq)
    }

    /// Opens a way for messages that are confirmed later than they are sent.
    pub(super) async fn pipeline(&self, object: &str) -> Result<Pipeline, Error> {
        let line = self.link.line(object).await?;
        let inbox = line.client.new_inbox();
        let subscriber = line.client.subscribe(format!("{inbox}.*")).await;
        let subscriber = subscriber.map_err(|_| away(object, "the connection broke".to_owned()))?;
        Ok(Pipeline { api: self.clone(), line, inbox, subscriber, object: object.to_owned() })
    }

    /// The error for a request that nothing takes.
    fn no_bucket(&self) -> Error {
        let cause = format!("nothing answers for the bucket {}: there is none, or JetStream is off", self.bucket);
        Error::Missing { object: self.url.clone(), cause }
    }

    /// The newest message with a subject, as the leader of the stream has it.
    pub(super) async fn latest(&self, object: &str, subject: &str) -> Result<Latest, Error> {
        let name = format!("STREAM.MSG.GET.{}", self.stream());
        let got: Got = self.call(object, &name, &json!({ "last_by_subj": subject }), &Condition::Always).await?;
        let corrupt = |cause: &str| Error::Corrupt { object: object.to_owned(), cause: cause.to_owned() };
        if got.message.data.len() > LARGEST_INFO {
            return Err(corrupt("its description is too large"));
        }
        let payload = base64::engine::general_purpose::STANDARD.decode(got.message.data);
        Ok(Latest {
            sequence: got.message.seq,
            time: got.message.time.parse().map_err(|_| corrupt("its message has no time"))?,
            payload: payload.map_err(|_| corrupt("its description is no base64"))?,
        })
    }

    /// The only message with a subject, from any copy of the stream; `None` if this copy doesn't have it, or gives none this way.
    pub(super) async fn only(&self, object: &str, subject: &str) -> Result<Option<Bytes>, Error> {
        let request = Request::new();
        match self.ask(object, format!("$JS.API.DIRECT.GET.{}.{subject}", self.stream()), request).await {
            Ok(message) if message.status.is_none() => Ok(Some(message.payload)),
            Ok(_) | Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes all messages with a subject up to a place in the stream.
    pub(super) async fn purge(&self, object: &str, subject: &str, up_to: Option<u64>) -> Result<(), Error> {
        let name = format!("STREAM.PURGE.{}", self.stream());
        let mut body = json!({ "filter": subject });
        if let Some(sequence) = up_to {
            body["seq"] = json!(sequence.saturating_add(1));
        }
        self.call::<Purged>(object, &name, &body, &Condition::Always).await.map(drop)
    }

    /// Begins to read messages in their order; `first` is a place in the stream, `None` asks for the newest of each subject.
    pub(super) async fn read(&self, object: &str, subject: &str, first: Option<u64>) -> Result<Reader, Error> {
        let stream = self.stream();
        let mut config = json!({
            "ack_policy": "none",
            "replay_policy": "instant",
            "filter_subject": subject,
            "inactive_threshold": 30_000_000_000_u64,
            "mem_storage": true,
            "num_replicas": 1,
            "deliver_policy": "last_per_subject",
        });
        if let Some(first) = first {
            config["deliver_policy"] = json!("by_start_sequence");
            config["opt_start_seq"] = json!(first.max(1));
        }
        let line = self.link.line(object).await?;
        let name = format!("CONSUMER.CREATE.{stream}");
        let body = json!({ "stream_name": stream, "config": config });
        let created: Created = self.call(object, &name, &body, &Condition::Always).await?;
        let inbox = line.client.new_inbox();
        let subscriber = line.client.subscribe(inbox.clone()).await;
        let subscriber = subscriber.map_err(|_| away(object, "the connection broke".to_owned()))?;
        Ok(Reader {
            line,
            subscriber,
            inbox,
            next: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{}", created.name),
            end: format!("$JS.API.CONSUMER.DELETE.{stream}.{}", created.name),
            object: object.to_owned(),
            patience: self.attempt,
            left: created.num_pending,
            asked: 0,
            taken: 0,
        })
    }
}

/// Messages on their way into the stream, on one connection and so in their order.
pub(super) struct Pipeline {
    api: Api,
    line: Line,
    inbox: String,
    subscriber: Subscriber,
    object: String,
}

impl Pipeline {
    /// Sends a message. Returns when it is on its way.
    pub(super) async fn send(
        &mut self,
        number: u64,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<(), Error> {
        let reply = format!("{}.{number}", self.inbox);
        let sending = self.line.client.publish_with_reply_and_headers(subject, reply, headers, payload);
        tokio::select! {
            sent = sending => sent.map_err(|_| away(&self.object, "the connection broke".to_owned())),
            () = self.line.lost() => Err(away(&self.object, "the connection broke".to_owned())),
        }
    }

    /// The number of a message that is stored, and its place in the stream.
    pub(super) async fn confirmed(&mut self) -> Result<(u64, u64), Error> {
        use futures::StreamExt as _;
        let broke = || away(&self.object, "the connection broke".to_owned());
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.api.attempt, self.subscriber.next()) => answer,
            () = self.line.lost() => return Err(broke()),
        };
        let answer = match answer {
            Ok(answer) => answer.ok_or_else(broke)?,
            Err(_) => return Err(Error::Timeout { object: self.object.clone(), after: self.api.attempt }),
        };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            return Err(self.api.no_bucket());
        }
        let published: Published = told(&self.object, &self.api.url, &answer.payload, &Condition::Always)?;
        let number = answer.subject.rsplit('.').next().and_then(|number| number.parse().ok());
        let cause = "the answer belongs to no message".to_owned();
        let number = number.ok_or_else(|| Error::Corrupt { object: self.object.clone(), cause })?;
        Ok((number, published.seq))
    }
}

/// Messages that a consumer of the stream delivers. They are asked for in small numbers, so that memory is bounded.
pub(super) struct Reader {
    line: Line,
    subscriber: Subscriber,
    inbox: String,
    next: String,
    end: String,
    object: String,
    patience: Duration,
    /// Messages that the server still has for us.
    left: u64,
    /// Messages asked for that have not come.
    asked: u64,
    /// Messages that came.
    taken: u64,
}

impl Reader {
    /// The next message, or `None` if the server has no more. At most `window` messages are on their way.
    pub(super) async fn next(&mut self, window: u64) -> Result<Option<Message>, Error> {
        use futures::StreamExt as _;
        if self.left == 0 {
            return Ok(None);
        }
        if self.asked * 2 <= window {
            let more = (window - self.asked).max(1);
            // The server forgets a request that nobody waits for any more.
            let request = json!({ "batch": more, "expires": 2 * self.patience.as_nanos() as u64 }).to_string();
            let sent = self.line.client.publish_with_reply(self.next.clone(), self.inbox.clone(), request.into()).await;
            sent.map_err(|_| away(&self.object, "the connection broke".to_owned()))?;
            self.asked += more;
        }
        let message = tokio::select! {
            message = tokio::time::timeout(self.patience, self.subscriber.next()) => message,
            () = self.line.lost() => return Err(away(&self.object, "the connection broke".to_owned())),
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => return Err(away(&self.object, "the connection broke".to_owned())),
            Err(_) => return Err(Error::Timeout { object: self.object.clone(), after: self.patience }),
        };
        if message.status.is_some_and(|status| status != StatusCode::OK) {
            return Err(away(&self.object, format!("the server ended the reading ({:?})", message.status)));
        }
        let Some(place) = message.reply.as_ref().and_then(|reply| Place::read(reply)) else {
            let cause = "the server sent a message that is none of its stream".to_owned();
            return Err(Error::Corrupt { object: self.object.clone(), cause });
        };
        self.taken += 1;
        if place.number != self.taken {
            return Err(away(&self.object, "a message got lost".to_owned()));
        }
        self.asked = self.asked.saturating_sub(1);
        self.left = place.left;
        Ok(Some(message))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Best effort: the server forgets an unused consumer by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (client, end) = (self.line.client.clone(), std::mem::take(&mut self.end));
            runtime.spawn(async move {
                let _ = client.publish(end, Bytes::new()).await;
            });
        }
    }
}

/// What the subject for the acknowledgement of a message tells of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its place in the stream.
    pub(super) sequence: u64,
    /// Its number among those delivered to this consumer, from 1.
    number: u64,
    /// When it was stored.
    pub(super) time: Moment,
    /// Messages behind it.
    left: u64,
}

impl Place {
    pub(super) fn read(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        // Newer servers put a domain and an account first, and may put more last.
        let rest = match tokens.len() {
            7 => tokens.get(3..)?,
            9.. => tokens.get(5..)?,
            _ => return None,
        };
        let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
        let nanos = i64::try_from(number(2)?).ok()?;
        Some(Self {
            sequence: number(0)?,
            number: number(1)?,
            time: Moment::from_millis(nanos / 1_000_000),
            left: number(3)?,
        })
    }
}

fn away(object: &str, cause: String) -> Error {
    Error::Unavailable { object: object.to_owned(), cause, retryable: true }
}

/// What an answer tells, or its error.
fn told<T: DeserializeOwned>(object: &str, url: &str, payload: &[u8], condition: &Condition) -> Result<T, Error> {
    let corrupt = || Error::Corrupt { object: object.to_owned(), cause: "the answer is none of JetStream".to_owned() };
    let answer: Answer<T> = serde_json::from_slice(payload).map_err(|_| corrupt())?;
    match (answer.error, answer.told) {
        (Some(fault), _) => Err(decide(object, url, &fault, condition)),
        (None, Some(told)) => Ok(told),
        (None, None) => Err(corrupt()),
    }
}

/// The decision for an error of JetStream, by its codes (the server's `errors.json`).
fn decide(object: &str, url: &str, fault: &Fault, condition: &Condition) -> Error {
    let words: String = fault.description.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let cause = format!("{words} ({} {})", fault.code, fault.err_code);
    let object = object.to_owned();
    match (fault.err_code, fault.code) {
        // Wrong last sequence of the subject; newer servers have a second code.
        (10071 | 10164, _) => match condition {
            Condition::Create => Error::AlreadyExists { object },
            Condition::Match(_) | Condition::Always => Error::Precondition { object },
        },
        // No message found.
        (10037, _) => Error::NotFound { object },
        // Stream not found.
        (10059, _) => Error::Missing { object: url.to_owned(), cause: "there is no such bucket".to_owned() },
        // Resources, memory, storage or bytes used up; the account's limits.
        (10002 | 10023 | 10028 | 10047 | 10077 | 10122 | 10123, _) => Error::Full { object, cause },
        (10054, _) => Error::InvalidKey { object, cause },
        (_, 401 | 403) => Error::Denied { object, cause },
        (_, 404) => Error::NotFound { object },
        (_, 400) => Error::Unavailable { object, cause, retryable: false },
        _ => Error::Unavailable { object, cause, retryable: true },
    }
}

impl Api {
    /// The name of an object for messages.
    pub(super) fn name(&self, name: &str) -> String {
        format!("nats:{}/{name}", self.bucket)
    }

    /// The subject of an object's description.
    pub(super) fn subject(&self, name: &str) -> String {
        info::subject(&self.bucket, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;

    #[test]
    fn decisions() {
        let tag = Condition::Match(Tag::new("1"));
        for (err_code, code, condition, expected, retryable) in [
            (10071, 400, &Condition::Create, "vault.exists", false),
            (10164, 400, &tag, "vault.changed", false),
            (10037, 404, &Condition::Always, "vault.not-found", false),
            (10059, 404, &Condition::Always, "vault.missing", false),
            (10047, 500, &Condition::Always, "vault.full", false),
            (10077, 400, &Condition::Always, "vault.full", false),
            (0, 403, &Condition::Always, "vault.denied", false),
            (10008, 503, &Condition::Always, "vault.unavailable", true),
            (1, 400, &Condition::Always, "vault.unavailable", false),
        ] {
            let fault = Fault { code, err_code, description: "words".to_owned() };
            let error = decide("o", "u", &fault, condition);
            assert_eq!(error.is_retryable(), retryable, "{err_code}");
            assert_eq!(seawall_core::Failure::from(error).code, expected, "{err_code}");
        }
    }

    #[test]
    fn answers() {
        let read = |text: &str| told::<Published>("o", "u", text.as_bytes(), &Condition::Create).map(|p| p.seq);
        assert_eq!(read(r#"{"stream":"OBJ_b","seq":7}"#), Ok(7));
        assert!(matches!(
            read(r#"{"error":{"code":400,"err_code":10071,"description":"x"}}"#),
            Err(Error::AlreadyExists { .. })
        ));
        for text in ["", "{}", "[]", r#"{"seq":-1}"#] {
            assert!(matches!(read(text), Err(Error::Corrupt { .. })), "{text}");
        }
    }

    #[test]
    fn places_in_a_stream() {
        let time = Moment::from_millis(1_700_000_000_123);
        let place = |sequence| Some(Place { sequence, number: 2, time, left: 5 });
        for (reply, expected) in [
            ("$JS.ACK.OBJ_b.c.1.17.2.1700000000123456789.5", place(17)),
            ("$JS.ACK._.hash.OBJ_b.c.1.17.2.1700000000123456789.5", place(17)),
            ("$JS.ACK.hub.hash.OBJ_b.c.1.17.2.1700000000123456789.5.token", place(17)),
            ("$JS.ACK.OBJ_b.c.1.x.2.1700000000123456789.5", None),
            ("$JS.ACK.OBJ_b", None),
            ("_INBOX.x", None),
        ] {
            assert_eq!(Place::read(reply), expected, "{reply}");
        }
    }
}
