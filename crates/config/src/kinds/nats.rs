//! Buckets of the object store of NATS.

use seawall_vault::Scheme;

use super::{Kind, Litestream};

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
        // Litestream takes the server from the URL alone, and without one its client asks this machine.
        url: |separate| separate.in_bucket("nats://127.0.0.1:4222").map(|url| url.replacen("4222://", "4222/", 1)),
    }),
};
