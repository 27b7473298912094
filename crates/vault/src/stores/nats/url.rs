//! `nats://[USER:PASSWORD@]HOST[:PORT]/BUCKET[/PATH]`, Litestream's form, which has no path.

use super::settings::NatsSettings;
use crate::place::apply_query;
use crate::stores::cloud::endpoint::endpoint;
use crate::text::{clean_path, decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `nats://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<NatsSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let server = endpoint(&format!("http://{host}"))
        .map_err(|_| wrong("server", "this is no server's address", "write nats://HOST:PORT/BUCKET"))?;
    let (bucket, path) = path.split_once('/').unwrap_or((path, ""));
    let mut settings = NatsSettings {
        server: server.trim_start_matches("http://").to_owned(),
        bucket: decode(bucket, "bucket")?,
        path: clean_path(&decode(path, "path")?),
        ..NatsSettings::default()
    };
    match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
        // As NATS reads it: a user alone is a token.
        Some((token, "")) => settings.set("token", &decode(token, "user")?)?,
        Some((name, password)) => {
            settings.set("username", &decode(name, "user")?)?;
            settings.set("password", &decode(password, "user")?)?;
        }
        None => {}
    }
    apply_query(&mut settings, query, &["bucket", "path"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, user, shown) in [
            ("h/b", None, "nats://h/b"),
            ("H:4222/b/x//y/", None, "nats://h:4222/b/x/y"),
            ("me:pw@h/b", Some("me"), "nats://h/b"),
            ("secret@[::1]:1/b_-9", None, "nats://[::1]:1/b_-9"),
            ("h/b?username=me&password=pw", Some("me"), "nats://h/b"),
        ] {
            let settings = parse("nats", text).expect(text);
            assert_eq!(settings.access.username.as_deref(), user, "{text}");
            assert_eq!(settings.url(), shown, "{text}");
        }
        for text in ["", "h", "h/", "/b", "h/b.c", "h:0/b", "h/b?bucket=c", "h/b?colour=red", "a:b@h/b?token=c"] {
            assert!(parse("nats", text).is_err(), "{text} was taken");
        }
        for text in ["me:hunter2@h/b", "hunter2@h/b", "h/b?jwt=hunter2&seed=hunter2", "h/b?nkey=hunter2"] {
            let settings = parse("nats", text).expect(text);
            assert!(!format!("{settings:?} {}", settings.url()).contains("hunter2"), "{text}");
        }
    }
}
