//! `gs://BUCKET/PATH`, Litestream's form.

use super::settings::GsSettings;
use crate::place::apply_query;
use crate::text::{clean_path, decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `gs://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<GsSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.contains('@') {
        let next = "leave what is before the `@` away, and set credentials-file or GOOGLE_APPLICATION_CREDENTIALS";
        return Err(wrong("bucket", "credentials don't belong before the bucket", next));
    }
    let mut settings = GsSettings::default();
    settings.set("bucket", &decode(bucket, "bucket")?)?;
    settings.path = clean_path(&decode(path, "path")?);
    apply_query(&mut settings, query, &["bucket", "path"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, bucket, path, endpoint) in [
            ("b/p", "b", "p", None),
            ("b", "b", "", None),
            ("b/", "b", "", None),
            ("my.bucket_1/a/../b/", "my.bucket_1", "b", None),
            ("b/a%20b", "b", "a b", None),
            ("b/p?endpoint=localhost:4443", "b", "p", Some("http://localhost:4443")),
            ("b/p?storageClass=NEARLINE", "b", "p", None),
        ] {
            let settings = parse("gs", text).expect(text);
            assert_eq!((&*settings.bucket, &*settings.path), (bucket, path), "{text}");
            assert_eq!(settings.endpoint.as_deref(), endpoint, "{text}");
        }
        for text in ["", "/p", "B/p", "b c/p", "id:key@b/p", "b/p?bucket=c", "b/p?colour=red", "b/p?endpoint=ftp://h"] {
            assert!(parse("gs", text).is_err(), "{text} was taken");
        }
        let settings = parse("gs", "b/p?credentials=hunter2").expect("a URL");
        assert!(!format!("{settings:?} {}", settings.url()).contains("hunter2"));
    }
}
