//! Buckets of S3 and of servers that speak its protocol.

use seawall_vault::Scheme;

use super::{Kind, Litestream};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::S3,
    common: &[
        "access-key-id",
        "concurrency",
        "endpoint",
        "force-path-style",
        "part-size",
        "region",
        "secret-access-key",
        "skip-verify",
        "sse-customer-algorithm",
        "sse-customer-key",
        "sse-kms-key-id",
        "storage-class",
    ],
    native: &["checksums", "object-lock-keep", "profile", "session-token"],
    files: &["access-key-id-file", "ca-file", "secret-access-key-file", "sse-customer-key-path"],
    litestream: Some(Litestream {
        schemes: &["s3"],
        // The vault checks those that ask for checksums and signatures; its requests do what they ask for anyway.
        keys: &[
            ("put-object-content-md5", "put-object-content-md5"),
            ("require-content-md5", "require-content-md5"),
            ("sign-accept-encoding", "sign-accept-encoding"),
            ("sign-payload", "sign-payload"),
            ("sse-customer-key-path", "sse-customer-key-path"),
        ],
        url: |separate| separate.in_bucket("s3"),
    }),
};
