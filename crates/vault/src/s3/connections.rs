//! One pool of connections for all vaults that share a policy: connections and TLS sessions cost more than requests.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::settings::wrong;

/// How long a connection may take to stand.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(90);

/// Connections to servers. Clones share them; [`crate::Policy::default`] begins with none.
#[derive(Clone, Default)]
pub struct Connections {
    clients: Arc<Mutex<BTreeMap<Trust, reqwest::Client>>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// Which servers are believed; only connections with equal trust are shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trust {
    /// Any certificate is taken.
    pub(super) everyone: bool,
    /// A file of further authorities.
    pub(super) bundle: Option<String>,
}

impl Connections {
    /// A client for others than stores, for example for heartbeats: redirections are not followed.
    ///
    /// # Errors
    /// When TLS can't be set up.
    pub fn plain(&self) -> Result<reqwest::Client, Error> {
        self.client(&Trust { everyone: false, bundle: None }, "HTTP")
    }

    /// The client for a trust, made on first use.
    pub(super) fn client(&self, trust: &Trust, object: &str) -> Result<reqwest::Client, Error> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(trust) {
            return Ok(client.clone());
        }
        let client = build(trust, object)?;
        clients.insert(trust.clone(), client.clone());
        Ok(client)
    }
}

fn build(trust: &Trust, object: &str) -> Result<reqwest::Client, Error> {
    // The process's TLS provider. Someone may have chosen one already, and then it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .tcp_keepalive(Duration::from_secs(60))
        // A signature holds for one host, and credentials go to no other (I13).
        .redirect(reqwest::redirect::Policy::none())
        .danger_accept_invalid_certs(trust.everyone);
    if let Some(bundle) = &trust.bundle {
        let unusable = |cause: &str| wrong("AWS_CA_BUNDLE", cause, "name a file of PEM certificates");
        let pem = std::fs::read(bundle).map_err(|error| unusable(&error.to_string()))?;
        let certificates =
            reqwest::Certificate::from_pem_bundle(&pem).map_err(|_| unusable("these are no PEM certificates"))?;
        if certificates.is_empty() {
            return Err(unusable("there are no PEM certificates in it"));
        }
        for certificate in certificates {
            builder = builder.add_root_certificate(certificate);
        }
    }
    builder.build().map_err(|error| Error::Unavailable {
        object: object.to_owned(),
        cause: format!("TLS can't be set up: {error}"),
        retryable: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_trust_is_shared() {
        let connections = Connections::default();
        let trust = |everyone| Trust { everyone, bundle: None };
        for everyone in [false, true, false, true] {
            connections.clone().client(&trust(everyone), "x").expect("a client");
        }
        assert_eq!(connections.clients.lock().expect("no panic").len(), 2);
        let missing = Trust { everyone: false, bundle: Some("/no/such/file".into()) };
        assert!(matches!(connections.client(&missing, "x"), Err(Error::InvalidUrl { .. })));
    }
}
