//! The keys of configurations for stores in Azure. The vault knows their meaning and checks their values.

use std::path::Path;

use seawall_vault::AbsSettings;

use crate::absolute;
use crate::error::Location;
use crate::fields::{At, Fields};
use crate::place::Keys;

/// Settings that only Azure's stores have, in all formats.
const OWN: [&str; 3] = ["account-key", "account-name", "sas-token"];

/// Settings that stores with parts and a server have, here as for S3.
const SHARED: [&str; 4] = ["concurrency", "endpoint", "part-size", "skip-verify"];

/// A setting that names a file; a relative path begins where the configuration is.
const FILE: &str = "account-key-file";

/// Reads the `abs` section of our own format; the file is relative to `here`.
///
/// # Errors
/// A key is unknown, or a value is no text.
pub fn read_native(mut fields: Fields, here: &Path) -> Result<Keys, Location> {
    let mut settings = Keys::new();
    for key in OWN.into_iter().chain(SHARED) {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, value);
        }
    }
    if let Some(At { value, .. }) = fields.text(FILE)? {
        settings.insert(FILE, absolute(Path::new(&value), here).display().to_string());
    }
    fields.finish()?;
    Ok(settings)
}

/// Takes the settings of a replica in Litestream's format. What Azure shares with S3 stands in `shared`.
///
/// # Errors
/// A value is no text.
pub fn take_litestream(fields: &mut Fields, shared: &Keys) -> Result<Keys, Location> {
    let mut settings = Keys::new();
    for key in OWN {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, value);
        }
    }
    for key in SHARED {
        if let Some(value) = shared.get(key) {
            settings.insert(key, value.clone());
        }
    }
    Ok(settings)
}

/// Whether a URL said something about a setting already.
pub fn is_set(abs: &AbsSettings, name: &str) -> bool {
    match name {
        "account-name" => abs.account.is_some(),
        "account-key" | "account-key-file" | "sas-token" => {
            abs.account_key.is_some() || abs.account_key_file.is_some() || abs.sas_token.is_some()
        }
        "concurrency" => abs.concurrency.is_some(),
        "endpoint" => abs.endpoint.is_some(),
        "part-size" => abs.part_size.is_some(),
        _ => false,
    }
}
