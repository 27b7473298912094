//! Tables for the URL parser.

use super::*;
use crate::Secret;

fn s3(text: &str) -> S3Settings {
    match VaultUrl::parse(text) {
        Ok(VaultUrl::S3(settings)) => *settings,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn folders() {
    for (text, path) in [
        ("./vault", "./vault"),
        ("vault", "vault"),
        ("/x", "/x"),
        ("a b", "a b"),
        ("with?mark", "with?mark"),
        ("100%", "100%"),
        ("c:x", "c:x"),
        ("file:///x", "/x"),
        ("FILE:///x/y", "/x/y"),
        ("file://localhost/x", "/x"),
        ("file:///a%20b", "/a b"),
    ] {
        assert_eq!(VaultUrl::parse(text), Ok(VaultUrl::File(path.into())), "{text}");
    }
}

#[test]
fn buckets() {
    // (URL, bucket, path, endpoint, region, path style)
    let table = [
        ("s3://b/p", "b", "p", None, None, None),
        ("s3://b", "b", "", None, None, None),
        ("s3://b/..", "b", "", None, None, None),
        ("S3://b/p/q/", "b", "p/q", None, None, None),
        ("s3://b//p/./x/../q", "b", "p/q", None, None, None),
        ("s3://b/a%20b", "b", "a b", None, None, None),
        ("s3://b.s3.eu-west-1.amazonaws.com/p", "b", "p", None, Some("eu-west-1"), None),
        ("s3://b/p?region=eu-west-2", "b", "p", None, Some("eu-west-2"), None),
        ("s3://b/p?endpoint=localhost:9000", "b", "p", Some("http://localhost:9000"), None, None),
        ("s3://b/p?endpoint=https://h&forcePathStyle=false", "b", "p", Some("https://h"), None, Some(false)),
        ("s3://b/p?endpoint=h&force-path-style=true", "b", "p", Some("https://h"), None, Some(true)),
        ("s3://b.localhost:9000/p", "b", "p", Some("http://localhost:9000"), Some("us-east-1"), Some(true)),
        (
            "s3://arn:aws:s3:us-east-1:123456789012:accesspoint/ap/p/q",
            "ap-123456789012",
            "p/q",
            Some("https://s3-accesspoint.us-east-1.amazonaws.com"),
            Some("us-east-1"),
            Some(false),
        ),
        (
            "s3://b.nyc3.digitaloceanspaces.com/p?region=other",
            "b",
            "p",
            Some("https://nyc3.digitaloceanspaces.com"),
            Some("other"),
            None,
        ),
    ];
    for (text, bucket, path, endpoint, region, path_style) in table {
        let found = s3(text);
        let shown = (&*found.bucket, &*found.path, found.endpoint.as_deref(), found.region.as_deref());
        assert_eq!(shown, (bucket, path, endpoint, region), "{text}");
        assert_eq!(found.force_path_style, path_style, "{text}");
    }
}

#[test]
fn every_setting_from_a_query() {
    let found = s3("s3://b/p?skipVerify=true&concurrency=3&partSize=16MiB&storageClass=STANDARD_IA&sseKmsKeyId=k\
         &putObjectContentMD5=true&checksums=false&signPayload=false&signAcceptEncoding=true&requireContentMD5=false\
         &sseCustomerAlgorithm=AES256&sseCustomerKey=QQ%3D%3D&sseCustomerKeyMD5=x&profile=backup");
    assert!(found.skip_verify && found.checksums == Some(false));
    assert_eq!((found.concurrency, found.part_size), (Some(3), Some(16 << 20)));
    assert_eq!(found.sse_customer_key, Some(Secret::new("QQ==")));
    assert_eq!(found.profile.as_deref(), Some("backup"));
}

#[test]
fn what_is_refused_and_what_it_says() {
    for (text, cause, next) in [
        ("", "there is no place", "give a folder, file:///path, s3://bucket/path or abs://account@container/path"),
        ("s4://b/p", "s4: there is no such scheme", "did you mean `s3`?"),
        ("s3://b/p?forcePathStile=1", "force-path-stile: there is no such setting", "did you mean `force-path-style`?"),
        ("s3:b/p", "the slashes behind the scheme are missing", "write s3://…, or ./s3:… for a folder"),
        ("file://x", "a file URL has three slashes", "write file:///path, or a plain path"),
        ("s3://localhost:9000/p", "bucket: there is no bucket", "write s3://BUCKET/PATH or s3://BUCKET.HOST:PORT/PATH"),
        ("s3:///p", "bucket: there is no bucket", "write s3://BUCKET/PATH"),
    ] {
        match VaultUrl::parse(text) {
            Err(Error::InvalidUrl { cause: c, next: n, .. }) => assert_eq!((&*c, &*n), (cause, next), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "s3://b c/p",
        "s3://b/p\n",
        "s3://b/%00",
        "s3://b/%ff",
        "s3://../p",
        "s3://b/p?endpoint=ftp://h",
        "s3://b/p?region=a&region=b",
        "s3://b/p?bucket=c",
        "s3://b/p?partSize=1",
        "s3://id@b/p",
        "file:///x?y=1",
        "file:///%00",
        "a\0b",
        "s3://b.h:0/p",
        "s3://b.h:99999/p",
        "s3://b.:9/p",
        "s3://b/p?accessKeyId=x",
        "s3://b/p?endpoint=http://h.example&sseCustomerKey=QQ==",
    ] {
        assert!(VaultUrl::parse(text).is_err(), "{text:?} was taken");
    }
}

#[test]
fn secrets_are_taken_and_never_shown() {
    for text in [
        "s3://AKID:hunter2@b/p",
        "s3://b/p?access-key-id=AKID&secret-access-key=hunter2",
        "s3://b/p?accessKeyId=AKID&secretAccessKey=hunter2&endpoint=h",
    ] {
        let url = VaultUrl::parse(text).expect("with secrets");
        let VaultUrl::S3(settings) = &url else { panic!("{url:?}") };
        assert_eq!(settings.secret_access_key, Some(Secret::new("hunter2")));
        assert!(!format!("{url} {url:?} {url:#?}").contains("hunter2"), "{url:?}");
    }
    for text in [
        "sftp://me:hunter2@h/p",
        "webdav://me:hunter2@h/p",
        "nats://me:hunter2@h/b",
        "nats://h/b?token=hunter2",
        "b2://bkt/p?region=us-west-004&access-key-id=AKID&secret-access-key=hunter2",
        "oss://bkt/p?access-key-id=AKID&secret-access-key=hunter2",
        "gs://bkt/p?credentials=hunter2",
        "abs://acct@container/p?account-key=aHVudGVyMg==",
    ] {
        let url = VaultUrl::parse(text).expect("with secrets");
        assert!(!format!("{url} {url:?} {url:#?}").contains("hunter2"), "{url:?}");
    }
    for text in [
        "s3://AKID:hunter2@b/p?x=y",
        "s3://b/p?secretAccessKey=hunter2",
        "s3:AKID:hunter2@b/p",
        "s5://AKID:hunter2@b/p",
        "s3://AKID:hunter2@b/p\u{7}",
        "sftp://me:hunter2@h",
        "sftp://me:hunter2@h/p?pasword=hunter2",
        "sftp:me:hunter2@h/p",
        "s3://b/p?secretAccessKey=hunter2&secretAccessKey=hunter2",
        "s3://b/p?partSize=hunter2",
    ] {
        let error = VaultUrl::parse(text).expect_err(text);
        let failure = seawall_core::Failure::from(error.clone());
        assert!(!format!("{error} {error:?} {failure} {failure:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn folders_on_servers_of_sftp() {
    for (text, shown, path, below) in [
        ("sftp://me:hunter2@h/srv/db", "sftp://me@h/srv/db", "/srv/db", "sftp://me@h/srv/db/x/y.db"),
        ("SFTP://me@h:2222/~/db/?agent=false", "sftp://me@h:2222/~/db", "db", "sftp://me@h:2222/~/db/x/y.db"),
    ] {
        let url = VaultUrl::parse(text).expect(text);
        let VaultUrl::Sftp(settings) = &url else { panic!("{url:?}") };
        assert_eq!((url.to_string().as_str(), settings.path()), (shown, path), "{text}");
        assert_eq!(url.root(), "", "objects are files below the path");
        assert_eq!(url.join("x/y.db").expect("below").to_string(), below);
        assert!(!format!("{url} {url:?} {url:#?}").contains("hunter2"), "{url:?}");
    }
}

#[test]
fn databases_of_a_folder() {
    let url = VaultUrl::parse("s3://b/p").expect("URL");
    assert_eq!(url.join("x/y.db"), VaultUrl::parse("s3://b/p/x/y.db"));
    assert_eq!(VaultUrl::parse("/v").expect("URL").join("x"), Ok(VaultUrl::File("/v/x".into())));
    for bad in ["", "/x", "../x", "a/../../b", "./x", "a\nb"] {
        assert!(url.join(bad).is_err(), "{bad:?}");
    }
}
