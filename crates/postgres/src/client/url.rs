//! Reads the text of a URL, before the environment fills the missing parts.

use percent_encoding::percent_decode_str;

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

fn decode(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| wrong("URL", "it holds bytes that are not text", "check the characters after each `%`"))
}

/// Takes a URL apart. An unknown setting is refused, because the user may rely on it.
pub(super) fn parts(text: &str) -> Result<Parts, Error> {
    let next = "write postgresql://ROLE@HOST:PORT/DATABASE";
    let rest = text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"));
    let rest = rest.ok_or_else(|| wrong("URL", "it names no PostgreSQL server", next))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
    let (host, port) = match place.strip_prefix('[') {
        Some(v6) => {
            let (host, rest) = v6.split_once(']').ok_or_else(|| wrong("host", "a bracket isn't closed", next))?;
            (host, rest.strip_prefix(':').unwrap_or(""))
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let mut parts = Parts {
        host: Some(decode(host)?),
        port: Some(port.to_owned()),
        database: Some(decode(database)?),
        ..Parts::default()
    };
    if let Some(user) = user {
        let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
        parts.user = Some(decode(user)?);
        parts.password = password.map(decode).transpose()?;
    }
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
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
        *place = Some(value.into_owned());
    }
    Ok(parts)
}
