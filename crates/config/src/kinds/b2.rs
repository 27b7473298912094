//! Buckets of Backblaze B2. Litestream reaches them as S3's.

use seawall_vault::Scheme;

use super::Kind;

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::B2,
    common: &[],
    native: &[
        "access-key-id",
        "checksums",
        "concurrency",
        "endpoint",
        "object-lock-keep",
        "part-size",
        "region",
        "secret-access-key",
        "skip-verify",
    ],
    files: &["access-key-id-file", "ca-file", "secret-access-key-file"],
    litestream: None,
};
