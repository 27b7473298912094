//! Reads the text of a URL, before the environment fills the missing parts.

use seawall_net::Url;

use crate::Error;

/// The parts that it names.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) host: Option<String>,
    pub(super) port: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) sslmode: Option<String>,
    pub(super) sslrootcert: Option<String>,
    pub(super) channel_binding: Option<String>,
}

/// The error for a wrong part.
pub(super) fn wrong(object: &str, cause: &str, next: &str) -> Error {
    Error::Url { object: object.to_owned(), cause: cause.to_owned(), next: next.to_owned() }
}

/// Takes a URL apart. An unknown setting is refused, because the user may rely on it.
pub(super) fn parts(text: &str) -> Result<Parts, Error> {
    let next = "write postgresql://ROLE@HOST:PORT/DATABASE";
    let rest = text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"));
    let rest = rest.ok_or_else(|| wrong("URL", "it names no PostgreSQL server", next))?;
    let url = Url::parse(rest).map_err(|unreadable| {
        let (object, cause, next) = unreadable.words();
        wrong(object, cause, next)
    })?;
    let mut parts = Parts {
        host: Some(url.host),
        port: Some(url.port),
        user: url.user,
        password: url.password,
        database: Some(url.database),
        ..Parts::default()
    };
    for (name, value) in url.settings {
        let place = match &*name {
            "host" => &mut parts.host,
            "port" => &mut parts.port,
            "user" => &mut parts.user,
            "password" => &mut parts.password,
            "dbname" => &mut parts.database,
            "sslmode" => &mut parts.sslmode,
            "sslrootcert" => &mut parts.sslrootcert,
            "channel_binding" => &mut parts.channel_binding,
            _ => {
                let known = "known are host, port, user, password, dbname, sslmode, sslrootcert and channel_binding";
                return Err(wrong(&name.escape_debug().to_string(), "there is no such setting", known));
            }
        };
        *place = Some(value);
    }
    Ok(parts)
}
