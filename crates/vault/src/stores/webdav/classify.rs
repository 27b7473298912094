//! From a server's status to a decision, by codes and never by words.

use http::StatusCode;

use crate::Error;

/// The decision for an answer that is no success. `method` is named in messages.
pub(super) fn classify(object: &str, method: &str, status: StatusCode) -> Error {
    let object = object.to_owned();
    let cause = |text: &str| format!("{text} ({method}: {})", status.as_u16());
    let away = |text: &str, retryable| Error::Unavailable { object: object.clone(), cause: cause(text), retryable };
    match status.as_u16() {
        300..=399 => away("the server sends requests to another address; give that address", false),
        // Some servers take the unread rest of a refused request for a request. The next connection begins anew.
        400 => away("the server did not understand the request", true),
        401 => Error::Denied { object, cause: cause("the server does not accept these credentials") },
        403 => Error::Denied { object, cause: cause("the server does not allow it") },
        404 | 410 => Error::NotFound { object },
        405 | 501 => {
            Error::Unsupported { object, cause: cause("the server can't do that; is WebDAV switched on here?") }
        }
        408 | 425 | 429 | 502 | 503 | 504 => away("the server is busy or away", true),
        409 => away("a folder above is missing", true),
        411 => {
            Error::Unsupported { object, cause: cause("the server takes no uploads whose length isn't known before") }
        }
        // The only conditions that are sent say that the name must be free.
        412 => Error::AlreadyExists { object },
        413 => Error::Unsupported { object, cause: cause("the server takes no uploads of this size") },
        416 => Error::OutOfRange { object, start: 0 },
        423 => away("another program holds a lock on it", true),
        507 => Error::Full { object, cause: cause("the server has no space left") },
        500..=599 => away("the server failed", true),
        _ => away("the server refused the request", false),
    }
}

/// The decision for a request that got no whole answer. What the client says is about the network; the address is left out.
pub(super) fn unanswered(object: &str, error: reqwest::Error) -> Error {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(deeper) = source {
        text = format!("{text}: {deeper}");
        source = deeper.source();
    }
    let cause = text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Error::Unavailable { object: object.to_owned(), cause, retryable: !error.is_builder() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions() {
        for (status, code, retryable) in [
            (301, "vault.unavailable", false),
            (400, "vault.unavailable", true),
            (401, "vault.denied", false),
            (403, "vault.denied", false),
            (404, "vault.not-found", false),
            (405, "vault.unsupported", false),
            (409, "vault.unavailable", true),
            (411, "vault.unsupported", false),
            (412, "vault.exists", false),
            (413, "vault.unsupported", false),
            (416, "vault.short", false),
            (423, "vault.unavailable", true),
            (429, "vault.unavailable", true),
            (500, "vault.unavailable", true),
            (501, "vault.unsupported", false),
            (503, "vault.unavailable", true),
            (507, "vault.full", false),
        ] {
            let error = classify("o", "PUT", StatusCode::from_u16(status).expect("a status"));
            assert_eq!(error.is_retryable(), retryable, "{status}");
            assert_eq!(seawall_core::Failure::from(error).code, code, "{status}");
        }
    }
}
