//! `b2://BUCKET/PATH?region=REGION`.

use super::settings::B2Settings;
use crate::place::apply_query;
use crate::text::{decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `b2://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<B2Settings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        let next = "leave what is before the `@` away, and set B2_APPLICATION_KEY_ID and B2_APPLICATION_KEY";
        return Err(wrong("bucket", "keys don't belong before the bucket", next));
    }
    let mut settings = B2Settings::default();
    settings.set("bucket", &decode(bucket, "bucket")?)?;
    settings.set("path", &decode(path, "path")?)?;
    apply_query(&mut settings, query, &["bucket", "path"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, path, endpoint) in [
            ("b/p?region=us-west-004", "p", Some("https://s3.us-west-004.backblazeb2.com")),
            ("b?region=eu-central-003", "", Some("https://s3.eu-central-003.backblazeb2.com")),
            ("b/p", "p", None),
            ("b/p?endpoint=127.0.0.1:9", "p", Some("http://127.0.0.1:9")),
            ("b/p?region=r&endpoint=https://h", "p", Some("https://h")),
        ] {
            let settings = parse("b2", text).expect(text);
            assert_eq!((settings.path(), settings.endpoint()), (path, endpoint), "{text}");
        }
        for text in
            ["", "b/p?region=a.b/c", "id:key@b/p?region=r", "b/p?region=r&storage-class=x", "b/p?path=x&region=r"]
        {
            assert!(parse("b2", text).is_err(), "{text} was taken");
        }
    }
}
