//! URLs of vaults: no panic, nothing leads above the bucket, and what is shown can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_vault::{PlaceSettings as _, VaultUrl};

fuzz_target!(|text: &str| {
    let Ok(url) = VaultUrl::parse(text) else { return };
    let _ = url.join("below");
    if let VaultUrl::S3(settings) = &url {
        assert!(!settings.bucket.is_empty() && !settings.bucket.contains('/'));
        let sound = settings.path.split('/').all(|segment| !matches!(segment, "" | "." | ".."));
        assert!(sound || settings.path.is_empty());
        let mut plain = settings.clone();
        (plain.access_key_id, plain.secret_access_key) = (None, None);
        assert_eq!(plain.check(), Ok(()));
    }
});
