//! Versions and Object Lock of a bucket, in S3's own requests.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, StatusCode};
use md5::{Digest as _, Md5};
use seawall_core::Moment;

use super::requests::{Answer, Requests, element};
use crate::{Error, Lock, LockMode, Protection};

/// Years of a lock are at most this long.
const YEAR: u64 = 366;

/// The longest lock that is believed, in days: S3's own bound, a hundred years.
const LONGEST: u64 = 36_500;

/// What the bucket does against changes of its objects. Credentials without the rights to ask learn nothing.
pub(super) async fn of_bucket(requests: &Requests, object: &str) -> Result<Protection, Error> {
    let ask = async |what: &str| {
        let answer = requests.send(Method::GET, None, &[(what, "")], &[], Vec::new()).await?;
        settled(&answer, object).map(|told| (told, answer))
    };
    let (told, answer) = ask("versioning").await?;
    let versions = told.map(|told| told && element(&answer.body, "Status") == Some("Enabled"));
    // There are no locks without versions.
    if versions == Some(false) {
        return Ok(Protection { versions, locks: Some(false), each: None });
    }
    let (told, answer) = ask("object-lock").await?;
    let locks = told.map(|told| told && element(&answer.body, "ObjectLockEnabled") == Some("Enabled"));
    let each = if locks == Some(true) { default_lock(&answer.body) } else { None };
    Ok(Protection { versions: if locks == Some(true) { Some(true) } else { versions }, locks, each })
}

/// Whether the bucket has what was asked for; `None` if these credentials may not know.
fn settled(answer: &Answer, object: &str) -> Result<Option<bool>, Error> {
    match answer.status {
        status if status.is_success() => Ok(Some(true)),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Ok(None),
        _ if answer.code() == "NoSuchBucket" => Err(answer.refusal(object)),
        StatusCode::NOT_IMPLEMENTED => Ok(Some(false)),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Err(answer.refusal(object)),
        // Servers have many codes for what they don't know.
        _ => Ok(Some(false)),
    }
}

/// The lock that each new object gets.
fn default_lock(xml: &[u8]) -> Option<(LockMode, Duration)> {
    let number = |name: &str| element(xml, name)?.parse::<u64>().ok();
    let mode = LockMode::named(element(xml, "Mode")?)?;
    let days = number("Days").or_else(|| number("Years")?.checked_mul(YEAR))?;
    Some((mode, Duration::from_secs(days.min(LONGEST) * 24 * 3600)))
}

/// The lock of an object with this name in the bucket.
pub(super) async fn of_object(
    requests: &Requests,
    name: &str,
    version: Option<&str>,
    object: &str,
) -> Result<Lock, Error> {
    let answer = requests.head(name, version).await?;
    match answer.status.is_success() {
        true => Ok(lock(&answer.headers)),
        false => Err(answer.refusal(object)),
    }
}

fn lock(headers: &HeaderMap) -> Lock {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let until: Option<Moment> = text("x-amz-object-lock-retain-until-date").and_then(|text| text.parse().ok());
    let mode = text("x-amz-object-lock-mode").and_then(LockMode::named);
    let held = text("x-amz-object-lock-legal-hold") == Some("ON");
    Lock { until: until.filter(|_| mode.is_some()), mode, held }
}

/// Gives an object with this name in the bucket another lock, which ends later (PutObjectRetention).
pub(super) async fn set_lock(
    requests: &Requests,
    name: &str,
    (mode, until): (LockMode, Moment),
    object: &str,
) -> Result<(), Error> {
    let body = retention(mode, until);
    // S3 refuses this request without a checksum of its body.
    let headers = [("content-md5", STANDARD.encode(Md5::digest(&body)))];
    let answer = requests.send(Method::PUT, Some(name), &[("retention", "")], &headers, body.into_bytes()).await?;
    match (answer.status, answer.code()) {
        (status, _) if status.is_success() => Ok(()),
        (StatusCode::BAD_REQUEST, "InvalidRequest" | "ObjectLockConfigurationNotFoundError") => {
            let cause = format!("it has no Object Lock ({})", answer.code());
            Err(Error::Unsupported { object: object.to_owned(), cause })
        }
        _ => Err(answer.refusal(object)),
    }
}

/// The document that asks for a lock.
fn retention(mode: LockMode, until: Moment) -> String {
    format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>",
        mode.name(),
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn default_locks() {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let rule = |inner: &str| {
            format!(
                "<ObjectLockConfiguration><Rule><DefaultRetention>{inner}</DefaultRetention></Rule></ObjectLockConfiguration>"
            )
        };
        for (inner, expected) in [
            ("<Mode>COMPLIANCE</Mode><Days>30</Days>", Some((LockMode::Compliance, days(30)))),
            ("<Mode>GOVERNANCE</Mode><Years>2</Years>", Some((LockMode::Governance, days(732)))),
            ("<Mode>GOVERNANCE</Mode><Years>99999999999999999999</Years>", None),
            ("<Mode>GOVERNANCE</Mode><Days>18446744073709551615</Days>", Some((LockMode::Governance, days(36_500)))),
            ("<Mode>GOVERNANCE</Mode><Days>-1</Days>", None),
            ("<Mode>OTHER</Mode><Days>1</Days>", None),
            ("<Days>1</Days>", None),
            ("", None),
        ] {
            assert_eq!(default_lock(rule(inner).as_bytes()), expected, "{inner}");
        }
    }

    #[test]
    fn what_asks_for_a_lock() {
        let body = retention(LockMode::Compliance, Moment::from_millis(2_000));
        assert!(body.contains("<Mode>COMPLIANCE</Mode>"), "{body}");
        assert!(body.contains("<RetainUntilDate>1970-01-01T00:00:02"), "{body}");
    }

    #[test]
    fn locks_in_headers() {
        let at = Moment::from_millis(1_000);
        let locked = |until, mode| Lock { until, mode: Some(mode), held: false };
        for (mode, until, hold, expected) in [
            ("COMPLIANCE", "1970-01-01T00:00:01Z", "", locked(Some(at), LockMode::Compliance)),
            ("GOVERNANCE", "1970-01-01T00:00:01.000Z", "OFF", locked(Some(at), LockMode::Governance)),
            ("", "1970-01-01T00:00:01Z", "ON", Lock { held: true, ..Lock::default() }),
            ("COMPLIANCE", "tomorrow", "", locked(None, LockMode::Compliance)),
            ("", "", "", Lock::default()),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-object-lock-mode", HeaderValue::from_static(mode));
            headers.insert("x-amz-object-lock-retain-until-date", HeaderValue::from_static(until));
            headers.insert("x-amz-object-lock-legal-hold", HeaderValue::from_static(hold));
            assert_eq!(lock(&headers), expected, "{mode} {until} {hold}");
        }
    }
}
