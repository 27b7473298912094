//! Maps an answer of a server to an error variant, by kinds and codes and never by words.

use opendal_core::ErrorKind;

use super::reason::Reason;
use super::transport::BAD_BUCKET;
use crate::{Condition, Error};

/// A finding of the transport that OpenDAL has no kind for. It travels as the source of OpenDAL's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Notice {
    /// The server has no space (507).
    #[error("the server has no space left")]
    Full,
    /// The server doesn't know us (401).
    #[error("the server does not accept these credentials")]
    Unauthorized,
    /// Not found (404), but by its code it isn't the object that is missing: some servers say so of users.
    #[error("the server refused with the code {0}")]
    Refused(String),
    /// A web page in the place of the service's answer (200, `text/html`).
    #[error("a web page came instead of the server's answer: a proxy or a login page of the network answered")]
    WebPage,
    /// Success (200) with another document than the listing that was asked for, and its code if it has one.
    #[error("the server's answer is no listing{}", if .0.is_empty() { String::new() } else { format!(", but says {}", .0) })]
    NoListing(String),
    /// No answer before the deadline.
    #[error("no answer in time")]
    Silence,
    /// A server's answer is larger than any sound one.
    #[error("the answer is too large")]
    Flood,
    /// A request for a range was answered with something else.
    #[error("the server ignored the range that was asked for")]
    WrongRange,
    /// A range begins at or behind the object's end.
    #[error("the object ends before the range")]
    BehindEnd,
}

/// The longest text of a server that is shown.
const SHOWN: usize = 300;

/// The decision for an error of a request under `condition`. `reason` says why there were no keys.
pub(crate) fn classify(object: String, error: &opendal_core::Error, condition: &Condition, reason: &Reason) -> Error {
    let cause = describe(error);
    if let Some(notice) = find::<Notice>(error) {
        return match notice {
            Notice::Full => Error::Full { object, cause: notice.to_string() },
            Notice::Refused(code) if code == BAD_BUCKET => Error::InvalidUrl {
                object,
                cause: "the server says that no bucket can have this name".to_owned(),
                next: "correct the bucket's name in the URL; most servers take 3 to 63 of the characters a-z, 0-9, `.` and `-`"
                    .to_owned(),
            },
            Notice::Unauthorized | Notice::Refused(_) => Error::Denied { object, cause: notice.to_string() },
            Notice::Silence | Notice::WebPage | Notice::NoListing(_) => {
                Error::Unavailable { object, cause: notice.to_string(), retryable: true }
            }
            Notice::BehindEnd => Error::OutOfRange { object, start: 0 },
            Notice::Flood | Notice::WrongRange => Error::Corrupt { object, cause: notice.to_string() },
        };
    }
    if find::<reqsign_core::Error>(error).is_some_and(|e| e.kind() == reqsign_core::ErrorKind::CredentialInvalid) {
        let cause = reason.get().unwrap_or_else(|| "there are no usable credentials".to_owned());
        return Error::Denied { object, cause: shown(&cause) };
    }
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound { object },
        // OpenDAL's kind for NoSuchBucket; settings are checked before any request.
        ErrorKind::ConfigInvalid => Error::Missing { object, cause: "the bucket does not exist".to_owned() },
        ErrorKind::PermissionDenied => Error::Denied { object, cause },
        ErrorKind::AlreadyExists => Error::AlreadyExists { object },
        ErrorKind::ConditionNotMatch => match condition {
            Condition::Create => Error::AlreadyExists { object },
            Condition::Match(_) | Condition::Always => Error::Precondition { object },
        },
        ErrorKind::RangeNotSatisfied => Error::OutOfRange { object, start: 0 },
        ErrorKind::Unsupported => Error::Unsupported { object, cause },
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => Error::InvalidKey { object, cause },
        ErrorKind::RateLimited => Error::Unavailable { object, cause, retryable: true },
        // A conflict of two conditional writes is worth another attempt exactly where OpenDAL says so.
        _ => Error::Unavailable { object, cause, retryable: error.is_temporary() },
    }
}

fn find<T: std::error::Error + 'static>(error: &opendal_core::Error) -> Option<&T> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// The message of the server or the network, without the request, which could hold a private name.
fn describe(error: &opendal_core::Error) -> String {
    let mut text = error.message().to_owned();
    let mut last = None;
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        last = Some(error.to_string());
        source = error.source();
    }
    if let Some(last) = last {
        text = format!("{text}: {last}");
    }
    let shown = shown(&text);
    if shown.is_empty() { "the server gave no reason".to_owned() } else { shown }
}

/// A text of others, without control characters and not too long.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;

    #[test]
    fn decisions() {
        let stale = Condition::Match(Tag::new("x"));
        for (error, condition, expected) in [
            (ErrorKind::NotFound, &Condition::Always, "vault.not-found"),
            (ErrorKind::ConfigInvalid, &Condition::Always, "vault.missing"),
            (ErrorKind::PermissionDenied, &Condition::Always, "vault.denied"),
            (ErrorKind::ConditionNotMatch, &Condition::Create, "vault.exists"),
            (ErrorKind::ConditionNotMatch, &stale, "vault.changed"),
            (ErrorKind::RateLimited, &Condition::Always, "vault.unavailable"),
            (ErrorKind::RangeNotSatisfied, &Condition::Always, "vault.short"),
            (ErrorKind::Unexpected, &Condition::Always, "vault.unavailable"),
        ] {
            let error = classify("o".into(), &opendal_core::Error::new(error, "m"), condition, &Reason::default());
            assert_eq!(seawall_core::Failure::from(error).code, expected);
        }
        let unexpected = || opendal_core::Error::new(ErrorKind::Unexpected, "m");
        for (error, retryable) in [
            (unexpected(), false),
            (unexpected().set_temporary(), true),
            (unexpected().set_source(Notice::Silence), true),
            (unexpected().set_source(Notice::WebPage), true),
            (opendal_core::Error::new(ErrorKind::Conflict, "m"), false),
            (opendal_core::Error::new(ErrorKind::Conflict, "m").set_temporary(), true),
        ] {
            assert_eq!(
                classify("o".into(), &error, &Condition::Create, &Reason::default()).is_retryable(),
                retryable,
                "{error:?}"
            );
        }
        let full = classify("o".into(), &unexpected().set_source(Notice::Full), &Condition::Create, &Reason::default());
        assert!(matches!(full, Error::Full { .. }), "{full:?}");
        let named = unexpected().set_source(Notice::Refused(BAD_BUCKET.to_owned()));
        let named = classify("s3://lk/app".into(), &named, &Condition::Always, &Reason::default());
        let failure = seawall_core::Failure::from(named);
        assert_eq!((failure.kind, failure.code), (seawall_core::Kind::Usage, "vault.url"), "{failure:?}");
        assert_eq!(failure.object, "s3://lk/app");
        let nobody = reqsign_core::Error::credential_invalid("none");
        let denied = classify("o".into(), &unexpected().set_source(nobody), &Condition::Create, &Reason::default());
        assert!(matches!(denied, Error::Denied { .. }), "{denied:?}");
    }
}
