//! Folders on SFTP servers.

use seawall_vault::Scheme;

use super::{Kind, Litestream, Separate, encoded};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Sftp,
    common: &["concurrent-writes", "host-key", "password", "user"],
    native: &["agent", "key-passphrase"],
    files: &["key-passphrase-file", "key-path", "known-hosts", "password-file"],
    litestream: Some(Litestream { schemes: &["sftp"], keys: &[("host", "host"), ("key-path", "key-path")], url }),
};

/// A path that doesn't begin with `/` begins where a login begins.
fn url(separate: &Separate<'_>) -> Result<String, &'static str> {
    let host = separate.settings.get("host").ok_or("host")?;
    separate.settings.get("user").ok_or("user")?;
    let path = separate.path.ok_or("path")?;
    let home = if path.starts_with('/') { "" } else { "/~" };
    Ok(format!("sftp://{host}{home}/{}", encoded(path)))
}
