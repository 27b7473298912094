//! The key `web`: where the page is served, and who may see it.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use super::document::{Node, Value};
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::services::{Hidden, Unnamed, parse_address};
use crate::services::token;

/// What is expected of an address.
const ADDRESS: &str = "takes an address and a port, such as 127.0.0.1:8400";

/// The page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// What a visitor must know; `None` lets everyone on this machine look.
    pub token: Option<Hidden>,
    /// The file that holds the token, if one does.
    pub token_file: Option<PathBuf>,
    /// The path below which a reverse proxy serves it: empty, or `/` and a name, without `/` at the end.
    pub prefix: String,
    /// Further names under which it is visited, in lower case.
    pub hosts: Vec<String>,
    /// Whether visitors who logged in may act: sync, prove, restore and others.
    pub actions: bool,
}

impl WebConfig {
    /// The address of `replicate --web` unless one is named.
    pub const ADDRESS: &str = "127.0.0.1:8400";

    /// A page for this machine, as the command line names it. `None` for a text that is no address.
    pub fn parse(text: &str) -> Option<Self> {
        let address = parse_address(text.trim(), Unnamed::Loopback)?;
        Some(Self { address, token: None, token_file: None, prefix: String::new(), hosts: Vec::new(), actions: false })
    }

    /// Reads the token from a file, which is read again at each request.
    ///
    /// # Errors
    /// Why there is no token: a text without the name of the file.
    pub fn read_token(&mut self, file: &Path) -> Result<(), String> {
        let text = token::read(file).map_err(|error| error.to_string())?;
        if !token::is_sound(&text) {
            return Err("it holds no token of at least 16 letters, digits or signs".to_owned());
        }
        (self.token, self.token_file) = (Some(Hidden::new(text)), Some(file.to_owned()));
        Ok(())
    }

    /// A path below which a reverse proxy serves the page, in the form of [`WebConfig::prefix`]; `None` for a text that is no such path.
    pub fn path(text: &str) -> Option<String> {
        path(text)
    }

    /// A name under which the page is visited, in the form of [`WebConfig::hosts`]; `None` for a text that is no name of a host.
    pub fn host(text: &str) -> Option<String> {
        host(text)
    }

    /// Whether only those see it who may: without a token it must be for this machine alone. A name of another machine on an address of this
    /// one means a proxy, which brings visitors from elsewhere.
    pub fn is_guarded(&self) -> bool {
        self.token.is_some() || (self.address.ip().is_loopback() && self.proxied().is_none())
    }

    /// The first name under which only a proxy's visitors come.
    fn proxied(&self) -> Option<&String> {
        let is_here = |name: &String| {
            let ip = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            name == "localhost" || name.ends_with(".localhost") || ip.is_ok_and(|ip| ip.is_loopback())
        };
        self.hosts.iter().find(|name| !is_here(name))
    }

    /// Why a page that isn't guarded is refused.
    pub fn unguarded(&self) -> String {
        if self.address.ip().is_loopback()
            && let Some(name) = self.proxied()
        {
            return format!(
                "a page without a token that a proxy serves as {name} shows itself to everyone who reaches the proxy"
            );
        }
        format!("a page on {} without a token shows itself to everyone who reaches it", self.address)
    }
}

/// Reads `web`: an address, or a mapping. An empty text turns the page off.
pub(super) fn read(top: &mut Fields, here: &Path) -> Result<Option<WebConfig>, Location> {
    let Some(Node { line, value }) = top.take("web") else { return Ok(None) };
    let config = match value {
        Value::Text(text) if text.trim().is_empty() => return Ok(None),
        Value::Text(text) => WebConfig::parse(&text).ok_or_else(|| no_address("web", &text, line))?,
        value => read_section(Fields::new("web", Node { line, value })?, here)?,
    };
    if config.actions && config.token.is_none() {
        let cause = "a page with actions and without a token lets every program of this machine act".to_owned();
        let next = "set web.token or web.token-file, or leave web.actions out".to_owned();
        return Err(Problem::Unsafe { cause, next }.at(line));
    }
    if config.is_guarded() {
        return Ok(Some(config));
    }
    let cause = config.unguarded();
    let next = "set web.token or web.token-file, or listen on 127.0.0.1 without web.hosts".to_owned();
    Err(Problem::Unsafe { cause, next }.at(line))
}

fn read_section(mut section: Fields, here: &Path) -> Result<WebConfig, Location> {
    let listen = section.text("listen")?;
    let At { line, value } = listen.unwrap_or(At { line: section.line, value: WebConfig::ADDRESS.to_owned() });
    let mut config = WebConfig::parse(&value).ok_or_else(|| no_address("listen", &value, line))?;
    if let Some((token, file)) = token::take(&mut section, ("token", "token-file"), here)? {
        (config.token, config.token_file) = (Some(token), file);
    }
    let prefix =
        section.parsed("prefix", "a path such as /seawall, of letters, digits, \"/\", \".\", \"_\" and \"-\"", path)?;
    config.prefix = prefix.map(|at| at.value).unwrap_or_default();
    for At { line, value } in section.texts("hosts")? {
        let host = host(&value).ok_or_else(|| {
            let expected = "takes names of hosts without a port, such as seawall.example".to_owned();
            Problem::Value { key: "hosts".into(), expected, found: format!("\"{value}\"") }.at(line)
        })?;
        config.hosts.push(host);
    }
    config.actions = section.flag("actions")?.is_some_and(|at| at.value);
    section.finish()?;
    Ok(config)
}

fn no_address(key: &str, text: &str, line: usize) -> Location {
    Problem::Value { key: key.into(), expected: ADDRESS.into(), found: format!("\"{text}\"") }.at(line)
}

/// A path as links begin with it.
fn path(text: &str) -> Option<String> {
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        !name.is_empty() && !matches!(name, "." | "..") && name.chars().all(is_plain)
    };
    let names = text.strip_prefix('/')?.trim_end_matches('/');
    (names.is_empty() || names.split('/').all(is_name))
        .then(|| if names.is_empty() { String::new() } else { format!("/{names}") })
}

/// The name of a host in lower case.
fn host(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    fn web(text: &str) -> Result<Option<WebConfig>, Location> {
        let mut fields = Fields::new("the top level", parse(text)?)?;
        let web = read(&mut fields, Path::new("/etc"))?;
        fields.finish()?;
        Ok(web)
    }

    #[test]
    fn where_and_for_whom() {
        let plain = |address: &str| WebConfig::parse(address).expect("an address");
        for (text, expected) in [
            ("{}", None),
            ("web: ''", None),
            ("web: 127.0.0.1:8400", Some(plain("127.0.0.1:8400"))),
            ("web: ':1'", Some(plain("127.0.0.1:1"))),
            ("web: '[::1]:8400'", Some(plain("[::1]:8400"))),
            ("web: { listen: localhost:2 }", Some(plain("127.0.0.1:2"))),
            ("web: { prefix: / }", Some(plain(WebConfig::ADDRESS))),
            (
                "web: { prefix: /a/b-c/, hosts: [ Seawall.example, b ], token: 0123456789abcdef }",
                Some(WebConfig {
                    prefix: "/a/b-c".into(),
                    hosts: vec!["seawall.example".into(), "b".into()],
                    token: Some(Hidden::new("0123456789abcdef")),
                    ..plain(WebConfig::ADDRESS)
                }),
            ),
            (
                "web: { listen: '0.0.0.0:80', token: 0123456789abcdef }",
                Some(WebConfig { token: Some(Hidden::new("0123456789abcdef")), ..plain("0.0.0.0:80") }),
            ),
            (
                "web: { token: 0123456789abcdef, actions: true }",
                Some(WebConfig {
                    token: Some(Hidden::new("0123456789abcdef")),
                    actions: true,
                    ..plain(WebConfig::ADDRESS)
                }),
            ),
            (
                "web: { hosts: [ localhost, 127.0.0.2 ] }",
                Some(WebConfig { hosts: vec!["localhost".into(), "127.0.0.2".into()], ..plain(WebConfig::ADDRESS) }),
            ),
            ("web: { actions: false }", Some(plain(WebConfig::ADDRESS))),
        ] {
            assert_eq!(web(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "web: 8400",
            "web: 0.0.0.0:8400",
            "web: '[::]:8400'",
            "web: 192.0.2.1:80",
            "web: { listen: 0.0.0.0:80 }",
            "web: { hosts: [ seawall.example ] }",
            "web: { listen: somewhere }",
            "web: { token: hush }",
            "web: { token: 0123456789abcdef, token-file: /x }",
            "web: { token-file: /no/such/file }",
            "web: { prefix: seawall }",
            "web: { prefix: /a/../b }",
            "web: { prefix: '/a\"b' }",
            "web: { hosts: 'a:80' }",
            "web: { listne: ':1' }",
            "web: { actions: true }",
            "web: { actions: perhaps, token: 0123456789abcdef }",
            "web: [ 127.0.0.1:8400 ]",
        ] {
            let location = web(text).expect_err(text);
            assert!(!location.problem.to_string().contains("hush"), "{text}: {}", location.problem);
        }
    }
}
