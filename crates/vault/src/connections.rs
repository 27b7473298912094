//! One pool of connections for all vaults that share a policy: connections and TLS sessions cost more than requests.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder, Identity};

use crate::stores::{nats, sftp};
use crate::text::wrong;
use crate::{Error, Pem, Tls};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(90);

/// Connections to servers. Clones share them; [`crate::Policy::default`] begins with none.
#[derive(Clone, Default)]
pub struct Connections {
    clients: Arc<Mutex<BTreeMap<Trust, reqwest::Client>>>,
    /// Those of SSH.
    ssh: Arc<Mutex<Vec<Arc<sftp::Link>>>>,
    /// Those of NATS.
    nats: Arc<Mutex<Vec<Weak<nats::Link>>>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// Which servers are trusted. Only connections with equal trust are shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Trust {
    /// Any certificate is taken.
    pub(crate) everyone: bool,
    /// A file with additional certificate authorities, after the name of the setting that named it.
    pub(crate) bundle: Option<(&'static str, String)>,
    /// The TLS settings of the place itself.
    pub(crate) tls: Tls,
}

impl Trust {
    /// The trust that a place's settings ask for. `ca_file` is the setting `ca-file`.
    pub(crate) fn of(everyone: bool, ca_file: Option<&String>, tls: &Tls) -> Self {
        Self { everyone, bundle: ca_file.map(|file| ("ca-file", file.clone())), tls: tls.clone() }
    }
}

impl Connections {
    /// A client for other servers than stores, for example for heartbeats. It follows no redirections.
    ///
    /// # Errors
    /// When TLS can't be set up.
    pub fn plain(&self) -> Result<reqwest::Client, Error> {
        self.client(&Trust { everyone: false, bundle: None, tls: Tls::default() }, "HTTP")
    }

    /// The way to a server of SSH, which opens no connection by itself.
    pub(crate) fn ssh(&self, server: sftp::Server) -> Arc<sftp::Link> {
        let mut links = self.ssh.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.iter().find(|link| *link.server() == server) {
            return Arc::clone(link);
        }
        let link = Arc::new(sftp::Link::new(server));
        links.push(Arc::clone(&link));
        link
    }

    /// The connection to NATS that `fits`, or one that is made.
    pub(crate) fn nats(
        &self,
        fits: impl Fn(&nats::Link) -> bool,
        make: impl FnOnce() -> nats::Link,
    ) -> Arc<nats::Link> {
        let mut links = self.nats.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        if let Some(link) = links.iter().filter_map(Weak::upgrade).find(|link| fits(link)) {
            return link;
        }
        let link = Arc::new(make());
        links.push(Arc::downgrade(&link));
        link
    }

    /// The client for a trust, made on first use.
    pub(crate) fn client(&self, trust: &Trust, object: &str) -> Result<reqwest::Client, Error> {
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
    // The process's TLS provider. If the program has chosen one already, that provider stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .pool_idle_timeout(IDLE)
        .tcp_keepalive(Duration::from_secs(60))
        // A signature is valid for one host only, and credentials go to no other host (I13).
        .redirect(reqwest::redirect::Policy::none())
        .danger_accept_invalid_certs(trust.everyone);
    let Tls { authorities, system_too, identity } = &trust.tls;
    if let Some(pem) = authorities {
        let found = certificates("tls.ca", &read("tls.ca", pem)?)?;
        builder = if *system_too { builder.tls_certs_merge(found) } else { builder.tls_certs_only(found) };
    }
    if let Some((name, bundle)) = &trust.bundle {
        let pem = read(name, &Pem::File(bundle.clone()))?;
        builder = builder.tls_certs_merge(certificates(name, &pem)?);
    }
    if let Some(identity) = identity {
        builder = shows(builder, identity)?;
    }
    builder.build().map_err(|error| Error::Unavailable {
        object: object.to_owned(),
        cause: format!("TLS can't be set up: {error}"),
        retryable: false,
    })
}

fn read(object: &str, pem: &Pem) -> Result<Vec<u8>, Error> {
    match pem {
        Pem::Text(text) => Ok(text.reveal().as_bytes().to_vec()),
        Pem::File(path) => std::fs::read(path)
            .map_err(|error| wrong(object, &format!("{path}: {error}"), "name a file of PEM that can be read")),
    }
}

fn certificates(object: &str, pem: &[u8]) -> Result<Vec<Certificate>, Error> {
    match Certificate::from_pem_bundle(pem) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(wrong(object, "there are no PEM certificates in it", "give a file of PEM certificates")),
    }
}

/// Has a client show a certificate of its own.
fn shows(builder: ClientBuilder, (certificate, key): &(Pem, Pem)) -> Result<ClientBuilder, Error> {
    let pem = [read("tls.cert", certificate)?, b"\n".to_vec(), read("tls.key", key)?].concat();
    // The message quotes nothing from the file: it could be the key.
    let unusable = |_| wrong("tls.cert", "these are no PEM certificate and its key", "check tls.cert and tls.key");
    Ok(builder.identity(Identity::from_pem(&pem).map_err(unusable)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn only_equal_trust_is_shared() {
        let connections = Connections::default();
        let trust = |everyone| Trust { everyone, bundle: None, tls: Tls::default() };
        for everyone in [false, true, false, true] {
            connections.clone().client(&trust(everyone), "x").expect("a client");
        }
        assert_eq!(connections.clients.lock().expect("no panic").len(), 2);
        let missing = Trust { bundle: Some(("bundle", "/no/such/file".into())), ..trust(false) };
        assert!(matches!(connections.client(&missing, "x"), Err(Error::InvalidUrl { .. })));
    }

    #[test]
    fn what_is_no_certificate_or_key_is_refused_without_showing_it() {
        let text = |text: &str| Pem::Text(Secret::new(text));
        let none = Tls::default;
        for tls in [
            Tls { authorities: Some(Pem::File("/no/such/file".into())), ..none() },
            Tls { authorities: Some(text("hunter2")), ..none() },
            Tls { authorities: Some(text("")), system_too: true, ..none() },
            Tls { identity: Some((text("hunter2"), text("hunter2"))), ..none() },
            Tls { identity: Some((text(""), Pem::File("/no/such/file".into()))), ..none() },
        ] {
            let refused =
                Connections::default().client(&Trust { everyone: false, bundle: None, tls: tls.clone() }, "x");
            let Err(error @ Error::InvalidUrl { .. }) = refused else { panic!("{tls:?}") };
            assert!(!format!("{error} {error:?} {tls:?}").contains("hunter2"));
        }
    }
}
