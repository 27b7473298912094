//! When do credentials end? Some say it themselves. A text that says nothing, or isn't understood, has no end here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use seawall_core::Moment;

/// The longest token that is looked into.
const MOST: usize = 64 << 10;

/// The end of a shared access signature of Azure: `se`, a time or a day.
pub(crate) fn of_signature(token: &str) -> Option<Moment> {
    let mut pairs = token.get(..token.len().min(MOST))?.trim_start_matches('?').split('&');
    let value = pairs.find_map(|pair| pair.strip_prefix("se="))?;
    let text = percent_decode_str(value).decode_utf8().ok()?;
    of_text(&text).or_else(|| of_text(&format!("{text}T00:00:00Z")))
}

/// The end of a JSON web token: its claim `exp`, in seconds since 1970.
pub(crate) fn of_web_token(token: &str) -> Option<Moment> {
    let claims = token.trim().split('.').nth(1).filter(|claims| claims.len() <= MOST)?;
    let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let seconds = claims.get("exp")?.as_i64().filter(|seconds| *seconds > 0)?;
    Some(Moment::from_millis(seconds.checked_mul(1000)?))
}

/// The end that a variable names in RFC 3339, as `AWS_CREDENTIAL_EXPIRATION` does.
pub(crate) fn of_text(text: &str) -> Option<Moment> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<Moment> {
        Some(text.parse().expect("a moment"))
    }

    #[test]
    fn signatures_tell_their_end() {
        for (token, expected) in [
            ("sv=2024-11-04&ss=b&se=2026-12-01T10%3A00%3A00Z&sig=x%3D", at("2026-12-01T10:00:00Z")),
            ("?se=2026-12-01T10:00:00Z", at("2026-12-01T10:00:00Z")),
            ("sv=1&se=2026-12-01", at("2026-12-01T00:00:00Z")),
            ("sv=1&sse=2026-12-01", None),
            ("se=", None),
            ("se=%ff", None),
            ("se=soon", None),
            ("", None),
        ] {
            assert_eq!(of_signature(token), expected, "{token}");
        }
    }

    #[test]
    fn web_tokens_tell_their_end() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        for (token, expected) in [
            (token(r#"{"exp":1796119200,"sub":"a"}"#), Some(Moment::from_millis(1_796_119_200_000))),
            (token(r#"{"exp":0}"#), None),
            (token(r#"{"exp":9223372036854775807}"#), None),
            (token(r#"{"exp":"1796119200"}"#), None),
            (token(r#"{"sub":"a"}"#), None),
            (token("[]"), None),
            ("e30.!!.c".to_owned(), None),
            ("secret".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(of_web_token(&token), expected, "{token}");
        }
    }
}
