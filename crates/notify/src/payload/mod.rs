//! What each kind of channel reads. Pure functions from a message to a request; `send` brings it there.
//!
//! What a message says of databases comes from elsewhere. Here it is escaped for the reader: for JSON by the serializer, for
//! chats so that it is neither a mention nor a link nor markup.

mod chat;
mod ntfy;
mod template;

pub(crate) use chat::{discord, slack, teams};
pub(crate) use ntfy::{ntfy, topic_of};
pub(crate) use template::filled;
pub use template::{Escape, Text};

use ring::hmac;

use crate::message::Message;

/// A request by POST, beside its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Headers beside `Content-Type`. None of them has anything from a message in it.
    pub(crate) headers: Vec<(String, String)>,
    /// What the body is.
    pub(crate) content_type: &'static str,
    /// The body.
    pub(crate) body: String,
}

impl Payload {
    fn json(body: &serde_json::Value) -> Self {
        Self { headers: Vec::new(), content_type: "application/json", body: body.to_string() }
    }
}

/// The message itself, for programs. With a `secret` it is signed: HMAC-SHA256 of the second of the request, a full stop and the
/// body. A receiver that refuses old seconds can't be shown an old message again.
pub(crate) fn webhook(message: &Message, secret: Option<&str>, second: i64) -> Payload {
    let body = message.to_json();
    let mut headers = vec![("seawall-timestamp".to_owned(), second.to_string())];
    if let Some(secret) = secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let sum = hmac::sign(&key, format!("{second}.{body}").as_bytes());
        headers.push(("seawall-signature".to_owned(), format!("sha256={}", hex(sum.as_ref()))));
    }
    Payload { headers, content_type: "application/json", body }
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Event;
    use crate::message::tests::message;

    #[test]
    fn a_webhook_is_signed_with_its_second() {
        let message = message(Event::Raised, &["app"]);
        let signed = webhook(&message, Some("hush"), 1_800_000_000);
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"hush");
        let sum = hex(hmac::sign(&key, format!("1800000000.{}", signed.body).as_bytes()).as_ref());
        assert_eq!(
            signed.headers,
            [
                ("seawall-timestamp".to_owned(), "1800000000".to_owned()),
                ("seawall-signature".to_owned(), format!("sha256={sum}")),
            ]
        );
        assert!(!signed.body.contains("hush"));
        let other = webhook(&message, Some("hush"), 1_800_000_001);
        assert_ne!(other.headers, signed.headers);
        assert_eq!(webhook(&message, None, 0).headers.len(), 1);
        // RFC 4231, case 2: the sum is the one that others make.
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
        let sum = hex(hmac::sign(&key, b"what do ya want for nothing?").as_ref());
        assert_eq!(sum, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
