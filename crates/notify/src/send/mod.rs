//! Brings messages to channels: one attempt, within the channel's time.

mod command;
mod http;
mod smtp;

use std::time::Duration;

use seawall_core::{Clock as _, Moment, SystemClock};
use seawall_vault::HttpClient;

use crate::channel::{Channel, Held, Template, Way};
use crate::message::Message;
use crate::payload::{self, Payload};

/// A text for people, from an answer or an error, is cut to this many letters.
const BRIEF: usize = 200;

/// Why an attempt failed. It has no secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What happened, in one sentence without a full stop.
    pub(crate) cause: String,
    /// The next thing to do.
    pub(crate) next: &'static str,
    /// Whether another attempt can work.
    pub(crate) again: Again,
}

/// When another attempt makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Soon.
    Soon,
    /// After the time that the server asks for.
    After(Duration),
    /// Not until a person changes something.
    Later,
}

impl Trouble {
    pub(crate) fn new(cause: impl Into<String>, next: &'static str, again: Again) -> Self {
        let cause: String = cause.into();
        let plain = cause.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self { cause: plain.take(BRIEF).collect(), next, again }
    }

    /// A secret that can't be read, or isn't what it should be.
    fn unreadable(cause: String) -> Self {
        Self::new(cause, "make the file hold what its key asks for, and readable for this user", Again::Later)
    }
}

/// What attempts are made with.
#[derive(Debug, Clone)]
pub struct Sender {
    client: Option<HttpClient>,
    host: String,
}

impl Sender {
    /// A sender that tells the name of this `host`. Without a client it can't send over HTTP.
    pub fn new(client: Option<HttpClient>, host: &str) -> Self {
        Self { client, host: host.to_owned() }
    }

    /// The name of this host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Brings one message to a channel.
    pub(crate) async fn send(&self, channel: &Channel, message: &Message) -> Result<(), Trouble> {
        let attempt = self.attempt(channel, message);
        // Programs and mail servers keep to the limit themselves; this is for what they forget.
        match tokio::time::timeout(channel.timeout + Duration::from_secs(5), attempt).await {
            Ok(sent) => sent,
            Err(_) => Err(Trouble::new("it took too long", "look why it is slow, or raise timeout", Again::Soon)),
        }
    }

    async fn attempt(&self, channel: &Channel, message: &Message) -> Result<(), Trouble> {
        let post = async |url: &Held, payload: Payload| self.post(reveal(url).await?.as_str(), payload, channel).await;
        match &channel.way {
            Way::Webhook { url, secret } => {
                let secret = match secret {
                    Some(secret) => Some(reveal(secret).await?),
                    None => None,
                };
                post(url, payload::webhook(message, secret.as_deref(), second(SystemClock.now()))).await
            }
            Way::Slack(url) => post(url, payload::slack(message)).await,
            Way::Discord(url) => post(url, payload::discord(message)).await,
            Way::Teams(url) => post(url, payload::teams(message)).await,
            Way::Ntfy { url, token } => {
                let url = reveal(url).await?;
                let token = match token {
                    Some(token) => Some(reveal(token).await?),
                    None => None,
                };
                let (server, topic) = payload::topic_of(&url).ok_or_else(|| {
                    Trouble::unreadable("url: it has to end in a topic: https://ntfy.example/topic".to_owned())
                })?;
                self.post(server, payload::ntfy(message, topic, token.as_deref()), channel).await
            }
            Way::Template(Template { url, headers, body, escape }) => {
                post(url, payload::filled(body, *escape, headers, message)).await
            }
            Way::Smtp(server) => smtp::send(server, message, channel.timeout).await,
            Way::Command(words) => command::send(words, message, channel.timeout).await,
        }
    }

    async fn post(&self, url: &str, payload: Payload, channel: &Channel) -> Result<(), Trouble> {
        let none = || Trouble::new("TLS can't be set up", "look into the log for the cause", Again::Later);
        http::post(self.client.as_ref().ok_or_else(none)?, url, payload, channel.timeout).await
    }
}

async fn reveal(held: &Held) -> Result<String, Trouble> {
    let secret = held.now().await.map_err(Trouble::unreadable)?;
    match secret.reveal() {
        "" => Err(Trouble::unreadable("a file of a secret is empty".to_owned())),
        text => Ok(text.to_owned()),
    }
}

/// The second of a moment.
fn second(moment: Moment) -> i64 {
    moment.as_millis().div_euclid(1000)
}
