//! The text of a server's URL: `SCHEME://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE`. Pure.

use percent_encoding::percent_decode_str;

/// The parts of a URL behind its scheme, decoded. What it doesn't give is empty, but for the user.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Url {
    /// The user, where there is an `@`.
    pub user: Option<String>,
    /// The password, where the user has a `:`.
    pub password: Option<String>,
    /// A name, an address (of IPv6 without its brackets), or a path.
    pub host: String,
    /// What stands behind the host's `:`.
    pub port: String,
    /// What stands between the first `/` and the `?`.
    pub database: String,
    /// Names and values, as they stand.
    pub settings: Vec<(String, String)>,
}

/// Why a URL can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Bytes behind a `%` that are not text.
    NotText,
    /// The bracket of an address of IPv6 isn't closed.
    OpenBracket,
}

impl Unreadable {
    /// The wrong part, the cause, and the next thing to do.
    pub fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::NotText => ("URL", "it holds bytes that are not text", "check the characters after each `%`"),
            Self::OpenBracket => ("host", "a bracket isn't closed", "write an address of IPv6 as [::1]"),
        }
    }
}

impl Url {
    /// Takes a URL apart whose scheme and `://` are gone.
    ///
    /// # Errors
    /// [`Unreadable`]. What the parts mean isn't looked at.
    pub fn parse(rest: &str) -> Result<Self, Unreadable> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        let (host, port) = match place.strip_prefix('[') {
            Some(v6) => {
                let (host, rest) = v6.split_once(']').ok_or(Unreadable::OpenBracket)?;
                (host, rest.strip_prefix(':').unwrap_or(""))
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let (user, password) = match user.map(|user| user.split_once(':').ok_or(user)) {
            Some(Ok((user, password))) => (Some(user), Some(password)),
            Some(Err(user)) => (Some(user), None),
            None => (None, None),
        };
        let settings = form_urlencoded::parse(query.as_bytes());
        Ok(Self {
            user: user.map(decode).transpose()?,
            password: password.map(decode).transpose()?,
            host: decode(host)?,
            port: port.to_owned(),
            database: decode(database)?,
            settings: settings.map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
        })
    }
}

fn decode(text: &str) -> Result<String, Unreadable> {
    percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| Unreadable::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, user, password, host, port, database) in [
            ("u:p@h:1/d", Some("u"), Some("p"), "h", "1", "d"),
            ("u@h/d", Some("u"), None, "h", "", "d"),
            ("h", None, None, "h", "", ""),
            ("", None, None, "", "", ""),
            ("u:@h", Some("u"), Some(""), "h", "", ""),
            ("u:a:b@c@h", Some("u"), Some("a:b@c"), "h", "", ""),
            ("[::1]:5/d%2Fe", None, None, "::1", "5", "d/e"),
            ("[::1]", None, None, "::1", "", ""),
            ("%2Ftmp%2Fs/d", None, None, "/tmp/s", "", "d"),
            ("h/a/b", None, None, "h", "", "a/b"),
        ] {
            let url = Url::parse(text).expect(text);
            let expected = Url {
                user: user.map(str::to_owned),
                password: password.map(str::to_owned),
                host: host.to_owned(),
                port: port.to_owned(),
                database: database.to_owned(),
                settings: Vec::new(),
            };
            assert_eq!(url, expected, "{text}");
        }
        let settings = Url::parse("h/d?a=b%20c&e").expect("a URL").settings;
        assert_eq!(settings, [("a".to_owned(), "b c".to_owned()), ("e".to_owned(), String::new())]);
        assert_eq!(Url::parse("[::1/d"), Err(Unreadable::OpenBracket));
        assert_eq!(Url::parse("%ff@h/d"), Err(Unreadable::NotText));
    }
}
