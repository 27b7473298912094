//! `webdav://[USER:PASSWORD@]HOST[:PORT]/PATH`, Litestream's form; `webdavs://` is the same over TLS.

use super::settings::{WebdavSettings, server};
use crate::place::apply_query;
use crate::text::{clean_path, decode};
use crate::{Error, PlaceSettings};

/// Reads the text after `webdav://` or `webdavs://`.
pub(crate) fn parse(scheme: &str, rest: &str) -> Result<WebdavSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let mut settings = WebdavSettings {
        server: server(scheme, host)?,
        path: clean_path(&decode(path, "path")?),
        ..WebdavSettings::default()
    };
    if let Some(user) = user {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        settings.set("username", &decode(name, "user")?)?;
        settings.set("password", &decode(password, "user")?)?;
    }
    apply_query(&mut settings, query, &["url", "path"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (scheme, text, user, shown) in [
            ("webdav", "h/p", None, "webdav://h/p"),
            ("webdavs", "H.example:8443/a//b/./c/", None, "webdavs://h.example:8443/a/b/c"),
            ("webdavs", "me:pw@h/p", Some("me"), "webdavs://h/p"),
            ("webdavs", "me%40home:p%3Aw@h/a%20b", Some("me@home"), "webdavs://h/a b"),
            ("webdav", "[::1]:81/p?username=me", Some("me"), "webdav://[::1]:81/p"),
        ] {
            let settings = parse(scheme, text).expect(text);
            assert_eq!(settings.username.as_deref(), user, "{text}");
            assert_eq!(settings.url(), shown, "{text}");
        }
        for text in [
            "",
            "/p",
            "h",
            "h/",
            "h/..",
            "h:0/p",
            "h/p?path=q",
            "h/p?colour=red",
            "h/p?token=a&token=b",
            "a:b@h/p?token=c",
        ] {
            assert!(parse("webdav", text).is_err(), "{text} was taken");
        }
        let settings = parse("webdavs", "me:hunter2@h/p").expect("a URL");
        assert!(!format!("{settings:?} {}", settings.url()).contains("hunter2"));
    }
}
