//! Buckets of Alibaba Cloud.

use seawall_vault::Scheme;

use super::{Kind, Litestream};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Oss,
    common: &["access-key-id", "concurrency", "endpoint", "part-size", "region", "secret-access-key"],
    native: &["session-token", "skip-verify"],
    files: &["ca-file"],
    litestream: Some(Litestream { schemes: &["oss"], keys: &[], url: |separate| separate.in_bucket("oss") }),
};
