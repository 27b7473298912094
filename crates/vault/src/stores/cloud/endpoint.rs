//! Addresses of servers: completed, checked, and classified by network (private or public).

use crate::Error;
use crate::text::wrong;

/// Completes an endpoint. Without a scheme it is http for hosts in private networks and https for all others.
pub(crate) fn endpoint(value: &str) -> Result<String, Error> {
    let lower = value.to_ascii_lowercase();
    let (scheme, rest) = match lower.split_once("://") {
        None => ("", lower.as_str()),
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return Err(wrong("endpoint", "its scheme is neither http nor https", "write https://HOST")),
    };
    let rest = rest.trim_end_matches('/');
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if rest.is_empty() || !rest.chars().all(legal) || host_of(rest).is_empty() || !port_is_sound(rest) {
        return Err(wrong("endpoint", "this is no server's address", "write https://HOST or https://HOST:PORT"));
    }
    let scheme = match scheme {
        "" if is_private(host_of(rest)) => "http",
        "" => "https",
        scheme => scheme,
    };
    Ok(format!("{scheme}://{rest}"))
}

fn port_is_sound(authority: &str) -> bool {
    let tail = authority.rsplit_once(']').map_or(authority, |(_, tail)| tail);
    tail.split_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The host of `scheme://host:port/path` or `host:port`, without brackets.
pub(crate) fn host_of(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(host, _)| host);
    }
    authority.split(':').next().unwrap_or(authority)
}

/// Whether a host is on this machine or in a private network.
pub(crate) fn is_private(host: &str) -> bool {
    use std::net::IpAddr;
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private(),
        Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Err(_) => host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local"),
    }
}

/// Whether a host is on this machine or in a private network, so that a secret may go there without TLS. A name without a dot is
/// resolved there, and so are the endings that private networks and Kubernetes use.
pub(crate) fn is_near(host: &str) -> bool {
    let private = [".svc", ".lan", ".internal", ".home.arpa"];
    is_private(host) || !host.contains(['.', ':']) || private.iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_private_networks() {
        for host in [
            "localhost",
            "10.0.0.1",
            "fd00::1",
            "nas",
            "nas.local",
            "nats.default.svc",
            "db.svc.cluster.local",
            "nas.lan",
            "box.internal",
        ] {
            assert!(is_near(host), "{host}");
        }
        for host in ["example.com", "8.8.8.8", "2001:db8::1", "svc.example.com", "internal.example", "evil.svc.com"] {
            assert!(!is_near(host), "{host}");
        }
    }

    #[test]
    fn endpoints() {
        for (given, completed) in [
            ("localhost:9000", "http://localhost:9000"),
            ("127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("10.1.2.3", "http://10.1.2.3"),
            ("192.168.0.9:80", "http://192.168.0.9:80"),
            ("172.16.0.1", "http://172.16.0.1"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("nas.local", "http://nas.local"),
            ("a.localhost", "http://a.localhost"),
            ("172.32.0.1", "https://172.32.0.1"),
            ("minio.example.com:9000", "https://minio.example.com:9000"),
            ("http://minio.example.com/", "http://minio.example.com"),
            ("HTTPS://S3.Example.com", "https://s3.example.com"),
        ] {
            assert_eq!(endpoint(given), Ok(completed.to_owned()), "{given}");
        }
        for bad in
            ["", "/", "ftp://x", "https://", "https://u:p@h", "h/path", "h?x", "h:0", "h:99999", "h:x", ":90", "a b"]
        {
            assert!(endpoint(bad).is_err(), "{bad} was taken");
        }
    }
}
