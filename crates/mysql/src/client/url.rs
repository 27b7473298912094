//! Reads the text of a URL, before option files and the environment fill the missing parts. Pure.

use seawall_net::Url;

use crate::Error;

/// The parts that it names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) host: Option<String>,
    pub(super) port: Option<String>,
    pub(super) socket: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) ssl_mode: Option<String>,
    pub(super) ssl_ca: Option<String>,
    pub(super) ssl_cert: Option<String>,
    pub(super) ssl_key: Option<String>,
    pub(super) server_public_key_path: Option<String>,
    pub(super) get_server_public_key: Option<String>,
    pub(super) defaults_file: Option<String>,
    pub(super) login_path: Option<String>,
}

impl Parts {
    /// The place of a setting that URLs and option files share.
    pub(super) fn setting(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "host" => &mut self.host,
            "port" => &mut self.port,
            "socket" => &mut self.socket,
            "user" => &mut self.user,
            "password" => &mut self.password,
            "database" => &mut self.database,
            "ssl-mode" => &mut self.ssl_mode,
            "ssl-ca" => &mut self.ssl_ca,
            "ssl-cert" => &mut self.ssl_cert,
            "ssl-key" => &mut self.ssl_key,
            "server-public-key-path" => &mut self.server_public_key_path,
            "get-server-public-key" => &mut self.get_server_public_key,
            _ => return None,
        })
    }
}

/// The error for a wrong part.
pub(super) fn wrong(object: &str, cause: &str, next: &str) -> Error {
    Error::Url { object: object.to_owned(), cause: cause.to_owned(), next: next.to_owned() }
}

/// Whether `text` names a server of this kind.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("mysql://") || text.starts_with("mariadb://")
}

/// Takes a URL apart. An unknown setting is refused, because the user may rely on it.
pub(super) fn parts(text: &str) -> Result<Parts, Error> {
    let next = "write mysql://USER@HOST:PORT/DATABASE";
    let rest = text.strip_prefix("mysql://").or_else(|| text.strip_prefix("mariadb://"));
    let rest = rest.ok_or_else(|| wrong("URL", "it names no MySQL or MariaDB server", next))?;
    let url = Url::parse(rest).map_err(|unreadable| {
        let (object, cause, next) = unreadable.words();
        wrong(object, cause, next)
    })?;
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut parts = Parts {
        host: given(url.host),
        port: given(url.port),
        user: url.user.and_then(given),
        password: url.password,
        database: given(url.database),
        ..Parts::default()
    };
    for (name, value) in url.settings {
        let setting = name.replace('_', "-");
        let place = match &*setting {
            "defaults-file" => Some(&mut parts.defaults_file),
            "login-path" => Some(&mut parts.login_path),
            setting => parts.setting(setting),
        };
        let Some(place) = place else {
            let known = "known are host, port, socket, user, password, database, ssl-mode, ssl-ca, ssl-cert, ssl-key, \
                         server-public-key-path, get-server-public-key, defaults-file and login-path";
            return Err(wrong(&name.escape_debug().to_string(), "there is no such setting", known));
        };
        *place = Some(value);
    }
    Ok(parts)
}
