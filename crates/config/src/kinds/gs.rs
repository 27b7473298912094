//! Buckets of Google Cloud Storage.

use seawall_vault::Scheme;

use super::{Kind, Litestream};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Gs,
    common: &[],
    native: &["credentials", "endpoint", "skip-verify", "storage-class"],
    files: &["ca-file", "credentials-file"],
    // Litestream has Google's usual ways of finding credentials, and no setting.
    litestream: Some(Litestream { schemes: &["gs"], keys: &[], url: |separate| separate.in_bucket("gs") }),
};
