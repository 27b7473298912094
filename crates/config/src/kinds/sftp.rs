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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Keys;

    #[test]
    fn separate_keys() {
        for (host, path, expected) in [
            ("h", Some("/srv/db"), Ok("sftp://h/srv/db")),
            ("h:2222", Some("db"), Ok("sftp://h:2222/~/db")),
            ("h", Some("/a b?c"), Ok("sftp://h/a b%3Fc")),
            ("h", None, Err("path")),
        ] {
            let settings = Keys::from([("host", host.to_owned()), ("user", "me".to_owned())]);
            let found = url(&Separate { bucket: None, path, settings: &settings });
            assert_eq!(found.as_deref(), expected.as_deref(), "{host} {path:?}");
        }
        let none = Keys::new();
        assert_eq!(url(&Separate { bucket: None, path: Some("/p"), settings: &none }), Err("host"));
    }
}
