//! Containers of Azure.

use seawall_vault::Scheme;

use super::{Kind, Litestream};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Abs,
    common: &["account-key", "account-name", "concurrency", "endpoint", "part-size", "sas-token", "skip-verify"],
    native: &[],
    files: &["account-key-file", "ca-file"],
    litestream: Some(Litestream { schemes: &["abs"], keys: &[], url: |separate| separate.in_bucket("abs") }),
};
