//! Folders on WebDAV servers.

use seawall_vault::Scheme;

use super::{Kind, Litestream, Separate, encoded};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Webdav,
    common: &[],
    native: &["password", "plain-password", "skip-verify", "token", "username"],
    files: &["ca-file"],
    litestream: Some(Litestream {
        schemes: &["webdav", "webdavs"],
        keys: &[("webdav-password", "password"), ("webdav-url", "url"), ("webdav-username", "username")],
        url: of_server,
    }),
};

/// The URL of a path below a server that a setting names, which may have a folder of its own.
fn of_server(separate: &Separate<'_>) -> Result<String, &'static str> {
    let server = separate.settings.get("url").ok_or("webdav-url")?;
    let path = encoded(separate.path.unwrap_or_default());
    let (scheme, place) = server.split_once("://").unwrap_or(("", server));
    let scheme = match scheme {
        "http" => "webdav",
        "https" => "webdavs",
        other => other,
    };
    Ok(format!("{scheme}://{}/{path}", place.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Keys;

    #[test]
    fn a_server_and_a_path() {
        for (server, path, expected) in [
            ("https://h", Some("/a b/c"), "webdavs://h/a b/c"),
            ("http://h:81/dav/", Some("p?"), "webdav://h:81/dav/p%3F"),
            ("http://h:81/dav", None, "webdav://h:81/dav/"),
            ("ftp://h", Some("p"), "ftp://h/p"),
        ] {
            let settings = Keys::from([("url", server.to_owned())]);
            let separate = Separate { bucket: None, path, settings: &settings };
            assert_eq!(of_server(&separate).as_deref(), Ok(expected), "{server}");
        }
        let none = Keys::new();
        assert_eq!(of_server(&Separate { bucket: None, path: None, settings: &none }), Err("webdav-url"));
    }
}
