//! `oss://BUCKET/PATH` and `oss://BUCKET.oss-REGION.aliyuncs.com/PATH`, Litestream's forms.

use super::settings::OssSettings;
use crate::place::apply_query;
use crate::text::{clean_path, decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `oss://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<OssSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains('@') {
        let next = "leave what is before the `@` away, and set ALIBABA_CLOUD_ACCESS_KEY_ID and …_SECRET";
        return Err(wrong("bucket", "keys don't belong before the bucket", next));
    }
    let authority = decode(authority, "bucket")?;
    let mut settings = OssSettings::default();
    match authority.split_once('.') {
        None => settings.set("bucket", &authority)?,
        Some((bucket, server)) => {
            let next = "write oss://BUCKET/PATH or oss://BUCKET.oss-REGION.aliyuncs.com/PATH";
            if super::settings::region_of(server).is_none() {
                return Err(wrong("bucket", "this is no bucket of Alibaba Cloud", next));
            }
            settings.set("bucket", bucket)?;
            settings.set("endpoint", &format!("https://{server}"))?;
        }
    }
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
        for (text, bucket, path, endpoint, region) in [
            ("bkt/p", "bkt", "p", None, "cn-hangzhou"),
            ("bkt", "bkt", "", None, "cn-hangzhou"),
            ("bkt/p?region=eu-central-1", "bkt", "p", None, "eu-central-1"),
            (
                "bkt.oss-us-west-1.aliyuncs.com/p/q/",
                "bkt",
                "p/q",
                Some("https://oss-us-west-1.aliyuncs.com"),
                "us-west-1",
            ),
            (
                "bkt.oss-cn-beijing-internal.aliyuncs.com/p",
                "bkt",
                "p",
                Some("https://oss-cn-beijing-internal.aliyuncs.com"),
                "cn-beijing",
            ),
            (
                "bkt/p?endpoint=oss-cn-beijing.aliyuncs.com",
                "bkt",
                "p",
                Some("https://oss-cn-beijing.aliyuncs.com"),
                "cn-beijing",
            ),
            ("bkt/p?endpoint=http://127.0.0.1:9&region=r", "bkt", "p", Some("http://127.0.0.1:9"), "r"),
        ] {
            let settings = parse("oss", text).expect(text);
            assert_eq!((&*settings.bucket, &*settings.path), (bucket, path), "{text}");
            assert_eq!((settings.endpoint.as_deref(), &*settings.region()), (endpoint, region), "{text}");
        }
        for text in
            ["", "/p", "Bkt/p", "bkt.example.com/p", "id:key@bkt/p", "bkt/p?bucket=c", "bkt/p?part-size=1", "b/p"]
        {
            assert!(parse("oss", text).is_err(), "{text} was taken");
        }
        let settings = parse("oss", "bkt/p?access-key-id=i&secretAccessKey=hunter2").expect("a URL");
        assert!(!format!("{settings:?} {}", settings.url()).contains("hunter2"));
    }
}
