//! `sftp://USER[:PASSWORD]@HOST[:PORT]/PATH`, Litestream's form.

use super::path::Root;
use super::settings::{self, SftpSettings};
use crate::place::apply_query;
use crate::text::decode;
use crate::{Error, PlaceSettings};

/// Reads the text after `sftp://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<SftpSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, host) = authority.rsplit_once('@').map_or((None, authority), |(login, host)| (Some(login), host));
    let mut settings = SftpSettings::default();
    (settings.host, settings.port) = settings::host(&decode(host, "host")?)?;
    settings.root = Root::of_url(&decode(path, "path")?)?;
    if let Some(login) = login {
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        settings.set("user", &decode(user, "user")?)?;
        if let Some(password) = password {
            settings.set("password", &decode(password, "password")?)?;
        }
    }
    apply_query(&mut settings, query, &["host", "path", "user"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, user, server, path, shown) in [
            ("me@h/srv/db", Some("me"), "h", "/srv/db", "sftp://me@h/srv/db"),
            ("me@H:2222/db/", Some("me"), "[h]:2222", "/db", "sftp://me@H:2222/db"),
            ("me@h:22/~/db", Some("me"), "h", "db", "sftp://me@h/~/db"),
            ("h/db?agent=false", None, "h", "/db", "sftp://h/db"),
            ("a%40b:pw@[::1]:23/db", Some("a@b"), "[::1]:23", "/db", "sftp://a%40b@[::1]:23/db"),
        ] {
            let settings = parse("sftp", text).expect(text);
            assert_eq!((settings.user.as_deref(), settings.server().as_str()), (user, server), "{text}");
            assert_eq!((settings.root.path(), settings.url().as_str()), (path, shown), "{text}");
            assert_eq!(parse("sftp", settings.url().trim_start_matches("sftp://")).expect("again").url(), shown);
        }
        for text in
            ["", "me@h", "me@h/", "me@/p", "me@h:0/p", "me@h/p?colour=red", "me@h/p?path=x", "me@h/p?agent=1&agent=1"]
        {
            assert!(parse("sftp", text).is_err(), "{text} was taken");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for text in ["me:hunter2@h/p", "me@h/p?password=hunter2&keyPassphrase=hunter2"] {
            let settings = parse("sftp", text).expect(text);
            assert_eq!(settings.password.as_ref().map(crate::Secret::reveal), Some("hunter2"));
            assert!(!format!("{settings:?} {}", settings.url()).contains("hunter2"), "{settings:?}");
        }
    }
}
