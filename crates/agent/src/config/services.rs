//! What a process offers beside protection: control socket, metrics, MCP, the page, heartbeat, notifications. All of it is off by default.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::absolute;
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::web::{self, WebConfig};
use crate::services::token;

/// Where the control socket is unless something else is said.
pub const SOCKET: &str = "/var/run/seawall.sock";

/// Where Litestream's is.
const LITESTREAM_SOCKET: &str = "/var/run/litestream.sock";

/// The permissions of the control socket unless something else is said.
const PERMISSIONS: u32 = 0o600;

/// How often a heartbeat is sent unless something else is said, and at the most.
const HEARTBEAT: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(60));

/// What a process offers beside protection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Services {
    /// The control socket.
    pub socket: Option<SocketConfig>,
    /// Where metrics are served, and nothing else.
    pub metrics: Option<SocketAddr>,
    /// The MCP server.
    pub mcp: Option<McpConfig>,
    /// The page.
    pub web: Option<WebConfig>,
    /// The heartbeat.
    pub heartbeat: Option<HeartbeatConfig>,
    /// The channels that are told of alarms.
    pub notify: Vec<seawall_notify::Channel>,
}

/// The control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketConfig {
    /// Its path, absolute.
    pub path: PathBuf,
    /// Who may use it.
    pub permissions: u32,
}

impl SocketConfig {
    /// A socket that only its owner may use.
    pub fn new(path: PathBuf) -> Self {
        Self { path, permissions: PERMISSIONS }
    }
}

/// The MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// What every request must carry.
    pub token: Hidden,
    /// The file that holds the token, if one does.
    pub token_file: Option<PathBuf>,
    /// Whether what changes something is allowed.
    pub actions: bool,
}

/// The heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// The URL to ask for. It often holds a secret.
    pub url: Hidden,
    /// How often.
    pub interval: Duration,
}

/// A text that is never shown (I13).
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Who an address without a host means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// This machine alone.
    Loopback,
    /// Everyone, as in Litestream.
    Everyone,
}

/// Reads the keys of our own format but `notify`; files are relative to `here`.
pub(crate) fn read_native(top: &mut Fields, here: &Path) -> Result<Services, Location> {
    let socket = match top.section("socket")? {
        None => None,
        Some(mut section) => {
            let enabled = section.flag("enabled")?.is_none_or(|at| at.value);
            let socket = read_socket(&mut section, SOCKET, here)?;
            section.finish()?;
            enabled.then_some(socket)
        }
    };
    let metrics = address(top, "metrics-addr", Unnamed::Loopback)?.map(|at| at.value);
    let mcp = address(top, "mcp-addr", Unnamed::Loopback)?;
    let token = token::take(top, ("mcp-token", "mcp-token-file"), here)?;
    let actions = top.flag("mcp-actions")?.is_some_and(|at| at.value);
    let (mcp, web, heartbeat) = (read_mcp(mcp, token, actions)?, web::read(top, here)?, read_heartbeat(top)?);
    Ok(Services { socket, metrics, mcp, web, heartbeat, ..Services::default() })
}

/// Reads the keys of a `litestream.yml`. Its MCP server has no token; ours takes it from `token`, the environment's.
pub(crate) fn read_litestream(top: &mut Fields, here: &Path, token: Option<&str>) -> Result<Services, Location> {
    let socket = match top.section("socket")? {
        None => None,
        Some(mut section) => {
            let enabled = section.flag("enabled")?.is_some_and(|at| at.value);
            let socket = read_socket(&mut section, LITESTREAM_SOCKET, here)?;
            section.finish()?;
            enabled.then_some(socket)
        }
    };
    let metrics = address(top, "addr", Unnamed::Everyone)?.map(|at| at.value);
    let mcp = address(top, "mcp-addr", Unnamed::Everyone)?;
    let mcp = read_mcp(mcp, token.map(|token| (Hidden::new(token), None)), false)?;
    Ok(Services { socket, metrics, mcp, heartbeat: read_heartbeat(top)?, ..Services::default() })
}

fn read_socket(section: &mut Fields, default: &str, here: &Path) -> Result<SocketConfig, Location> {
    let path = section.text("path")?.map_or_else(|| default.to_owned(), |at| at.value);
    let permissions = section.parsed("permissions", "permissions as four octal digits, such as 0600", |text| {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= 0o777)
    })?;
    Ok(SocketConfig {
        path: absolute(Path::new(&path), here),
        permissions: permissions.map_or(PERMISSIONS, |at| at.value),
    })
}

fn read_mcp(
    address: Option<At<SocketAddr>>,
    token: Option<(Hidden, Option<PathBuf>)>,
    actions: bool,
) -> Result<Option<McpConfig>, Location> {
    match (address, token) {
        (None, _) => Ok(None),
        (Some(At { value: address, .. }), Some((token, token_file))) => {
            Ok(Some(McpConfig { address, token, token_file, actions }))
        }
        (Some(At { line, .. }), None) => {
            let next = "set mcp-token or mcp-token-file, or in a litestream.yml the variable SEAWALL_MCP_TOKEN";
            Err(Problem::Unsafe { cause: "an MCP server without a token serves everyone".into(), next: next.into() }
                .at(line))
        }
    }
}

fn read_heartbeat(top: &mut Fields) -> Result<Option<HeartbeatConfig>, Location> {
    let url = top.text("heartbeat-url")?.filter(|at| !at.value.is_empty());
    let interval = top.parsed("heartbeat-interval", "a time of at least 1m", |text| {
        seawall_core::parse_duration(text).filter(|span| *span >= HEARTBEAT.1)
    })?;
    let Some(At { line, value }) = url else { return Ok(None) };
    let plain = value.starts_with("https://") || value.starts_with("http://");
    if !plain || value.chars().any(|c| c.is_control() || c == ' ') {
        // The text itself is not shown: it may hold a secret.
        let expected = "takes a URL that begins with https:// or http://".to_owned();
        return Err(Problem::Value { key: "heartbeat-url".into(), expected, found: "something else".into() }.at(line));
    }
    let interval = interval.map_or(HEARTBEAT.0, |at| at.value);
    Ok(Some(HeartbeatConfig { url: Hidden(value), interval }))
}

pub(super) fn address(
    top: &mut Fields,
    key: &'static str,
    unnamed: Unnamed,
) -> Result<Option<At<SocketAddr>>, Location> {
    // An empty text turns a service off, in Litestream as here.
    let Some(At { line, value }) = top.text(key)?.filter(|at| !at.value.trim().is_empty()) else { return Ok(None) };
    match parse_address(value.trim(), unnamed) {
        Some(value) => Ok(Some(At { line, value })),
        None => {
            let expected = "takes an address and a port, such as 127.0.0.1:9090".to_owned();
            Err(Problem::Value { key: key.into(), expected, found: format!("\"{value}\"") }.at(line))
        }
    }
}

pub(super) fn parse_address(text: &str, unnamed: Unnamed) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let host: IpAddr = match (host, unnamed) {
        ("", Unnamed::Loopback) | ("localhost", _) => Ipv4Addr::LOCALHOST.into(),
        ("", Unnamed::Everyone) => Ipv6Addr::UNSPECIFIED.into(),
        (host, _) => match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inner) => inner.parse::<Ipv6Addr>().ok()?.into(),
            None => host.parse::<Ipv4Addr>().ok()?.into(),
        },
    };
    Some(SocketAddr::new(host, port))
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    fn native(text: &str) -> Result<Services, Location> {
        let mut fields = Fields::new("the top level", parse(text)?)?;
        let services = read_native(&mut fields, Path::new("/etc"))?;
        fields.finish()?;
        Ok(services)
    }

    #[test]
    fn addresses() {
        for (text, native, litestream) in [
            (":9090", Some("127.0.0.1:9090"), Some("[::]:9090")),
            ("localhost:1", Some("127.0.0.1:1"), Some("127.0.0.1:1")),
            ("0.0.0.0:80", Some("0.0.0.0:80"), Some("0.0.0.0:80")),
            ("[::1]:80", Some("[::1]:80"), Some("[::1]:80")),
            ("9090", None, None),
            ("host.example:80", None, None),
            ("127.0.0.1:", None, None),
            ("127.0.0.1:http", None, None),
            ("::1:80", None, None),
            ("1.2.3.4:99999", None, None),
        ] {
            let text_of = |unnamed| parse_address(text, unnamed).map(|address| address.to_string());
            assert_eq!(text_of(Unnamed::Loopback).as_deref(), native, "{text}");
            assert_eq!(text_of(Unnamed::Everyone).as_deref(), litestream, "{text}");
        }
    }

    #[test]
    fn what_is_off_and_what_is_on() {
        assert_eq!(native("{}"), Ok(Services::default()));
        assert_eq!(native("socket: { enabled: false }\nmetrics-addr: ''"), Ok(Services::default()));
        let services = native(
            "socket: { path: s.sock, permissions: 0660 }\nmetrics-addr: :9090\nmcp-addr: :9091\n\
             mcp-token: 0123456789abcdef\nmcp-actions: true\nheartbeat-url: https://beat.example/hush\n\
             heartbeat-interval: 2m\n",
        );
        let services = services.expect("services");
        assert!(!format!("{services:?}").contains("hush") && !format!("{services:?}").contains("0123456789"));
        assert_eq!(services.socket, Some(SocketConfig { path: "/etc/s.sock".into(), permissions: 0o660 }));
        assert_eq!(services.metrics.map(|at| at.port()), Some(9090));
        let mcp = services.mcp.expect("MCP");
        assert_eq!((mcp.address.port(), mcp.token.reveal(), mcp.actions), (9091, "0123456789abcdef", true));
        assert_eq!(services.heartbeat.map(|beat| beat.interval), Some(Duration::from_secs(120)));
        let socket = native("socket: {}").expect("services").socket;
        assert_eq!(socket, Some(SocketConfig::new(SOCKET.into())));
    }

    #[test]
    fn what_is_refused_shows_no_secret() {
        for text in [
            "mcp-addr: :9091",
            "mcp-addr: :9091\nmcp-token: hush",
            "mcp-token: 0123456789abcdef\nmcp-token-file: /x",
            "mcp-token-file: /no/such/file",
            "metrics-addr: everywhere",
            "heartbeat-url: hush",
            "heartbeat-url: https://a.example/hu sh",
            "heartbeat-url: https://a.example\nheartbeat-interval: 30s",
            "socket: { permissions: 0999 }",
            "socket: { mode: 0600 }",
        ] {
            let location = native(text).expect_err(text);
            assert!(!location.problem.to_string().contains("hush"), "{text}: {}", location.problem);
        }
    }
}
