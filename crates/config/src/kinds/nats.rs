//! Buckets of the object store of NATS.

use seawall_vault::Scheme;

use super::{Kind, Litestream, Separate};

pub(super) const KIND: Kind = Kind {
    scheme: Scheme::Nats,
    common: &["jwt", "nkey", "password", "seed", "timeout", "tls", "token", "username"],
    native: &["plain-password"],
    files: &["client-cert", "client-key", "creds", "root-cas"],
    litestream: Some(Litestream {
        schemes: &["nats"],
        // The vault's own retries reconnect; it checks the two settings that speak of that.
        keys: &[
            ("client-cert", "client-cert"),
            ("client-key", "client-key"),
            ("creds", "creds"),
            ("max-reconnects", "max-reconnects"),
            ("reconnect-wait", "reconnect-wait"),
            ("root-cas", "root-cas"),
        ],
        url: on_this_machine,
    }),
};

/// Litestream takes the server from a URL alone, and without one its client asks this machine. It uses no path.
fn on_this_machine(separate: &Separate<'_>) -> Result<String, &'static str> {
    Ok(format!("nats://127.0.0.1:4222/{}", separate.bucket.ok_or("bucket")?))
}

/// A URL of a server alone with a bucket.
pub(super) fn with_bucket(url: &str, bucket: &str) -> Option<String> {
    let server = url.strip_prefix("nats://")?.trim_end_matches('/');
    (!server.contains(['/', '?'])).then(|| format!("nats://{server}/{bucket}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_beside_a_server() {
        for (url, expected) in [
            ("nats://h:4222", Some("nats://h:4222/b")),
            ("nats://h/", Some("nats://h/b")),
            ("nats://h/a", None),
            ("nats://h?x", None),
            ("s3://h", None),
        ] {
            assert_eq!(with_bucket(url, "b").as_deref(), expected, "{url}");
        }
    }
}
