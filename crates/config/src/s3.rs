//! The keys of configurations for S3 stores. The vault knows their meaning and checks their values.

use std::path::Path;

use seawall_vault::S3Settings;

use crate::absolute;
use crate::error::Location;
use crate::fields::{At, Fields};
use crate::place::Keys;

/// Keys that both formats have.
const COMMON: [&str; 12] = [
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
];

/// Keys that name files; relative paths begin where the configuration is.
const FILES: [&str; 3] = ["access-key-id-file", "secret-access-key-file", "sse-customer-key-path"];

/// Keys that our own format has besides.
const NATIVE: [&str; 3] = ["checksums", "profile", "session-token"];

/// Keys that only Litestream's format has. The vault checks them; its requests do what they ask for anyway.
const LITESTREAM: [&str; 5] =
    ["put-object-content-md5", "require-content-md5", "sign-accept-encoding", "sign-payload", "sse-customer-key-path"];

/// Reads the `s3` section of our own format; files are relative to `here`.
pub fn read_native(mut fields: Fields, here: &Path) -> Result<Keys, Location> {
    let mut settings = Keys::new();
    take(&mut fields, &COMMON, &mut settings)?;
    take(&mut fields, &NATIVE, &mut settings)?;
    for key in FILES {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, absolute(Path::new(&value), here).display().to_string());
        }
    }
    fields.finish()?;
    Ok(settings)
}

/// Takes the settings of a replica in Litestream's format.
pub fn take_litestream(fields: &mut Fields) -> Result<Keys, Location> {
    let mut settings = Keys::new();
    take(fields, &COMMON, &mut settings)?;
    take(fields, &LITESTREAM, &mut settings)?;
    Ok(settings)
}

fn take(fields: &mut Fields, keys: &[&'static str], settings: &mut Keys) -> Result<(), Location> {
    for key in keys {
        if let Some(At { value, .. }) = fields.text(key)? {
            settings.insert(key, value);
        }
    }
    Ok(())
}

/// Whether a URL said something about a setting already.
pub fn is_set(s3: &S3Settings, name: &str) -> bool {
    match name {
        "access-key-id"
        | "access-key-id-file"
        | "secret-access-key"
        | "secret-access-key-file"
        | "session-token"
        | "profile" => s3.access_key_id.is_some() || s3.access_key_id_file.is_some() || s3.profile.is_some(),
        "concurrency" => s3.concurrency.is_some(),
        "endpoint" => s3.endpoint.is_some(),
        "force-path-style" => s3.force_path_style.is_some(),
        "part-size" => s3.part_size.is_some(),
        "region" => s3.region.is_some(),
        "sse-customer-algorithm" => s3.sse_customer_algorithm.is_some(),
        "sse-customer-key" | "sse-customer-key-path" => {
            s3.sse_customer_key.is_some() || s3.sse_customer_key_path.is_some()
        }
        "sse-kms-key-id" => s3.sse_kms_key_id.is_some(),
        "storage-class" => s3.storage_class.is_some(),
        _ => false,
    }
}
