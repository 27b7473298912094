//! One connection to a server, made when it is needed and closed when it isn't (I6).
//!
//! A connection that broke is given up: what waits for an answer fails at once, and the next request connects anew. So the
//! vault's retries decide, and a server that refuses us says so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::settings::Access;
use crate::{Error, Secret};

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// How long a connection may take, if no setting says otherwise.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection that several places may share.
#[derive(Debug)]
pub(crate) struct Link {
    server: String,
    access: Access,
    state: Mutex<State>,
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    line: Option<Line>,
    used: Option<Instant>,
}

/// A connection that stands.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) client: Client,
    /// Whether it broke.
    lost: watch::Receiver<bool>,
    /// The last complaint of the server, for messages.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Line {
    /// Waits until the connection breaks.
    pub(super) async fn lost(&self) {
        let mut lost = self.lost.clone();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// What the server complained about last.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Link {
    /// A connection to be made to a server.
    pub(super) fn new(server: String, access: Access) -> Self {
        Self { server, access, state: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Whether it is a connection to that server with that access.
    pub(super) fn is_for(&self, server: &str, access: &Access) -> bool {
        self.server == server && self.access == *access
    }

    fn standing(&self) -> Option<Line> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used = Some(Instant::now());
        if state.line.as_ref().is_some_and(Line::is_lost) {
            state.line = None;
        }
        state.line.clone()
    }

    /// The connection, made now if there is none.
    pub(super) async fn line(self: &Arc<Self>, object: &str) -> Result<Line, Error> {
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let line = self.connect(object).await?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).line = Some(line.clone());
        tokio::spawn(close_when_idle(Arc::clone(self)));
        Ok(line)
    }

    async fn connect(&self, object: &str) -> Result<Line, Error> {
        // The process's TLS provider. If the program has chosen one already, that provider stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (tell, lost) = watch::channel(false);
        let complaint = Arc::new(Mutex::new(None));
        let (tell, heard) = (Arc::new(tell), Arc::clone(&complaint));
        let options = self.options(object).await?.event_callback(move |event| {
            let (tell, heard) = (Arc::clone(&tell), Arc::clone(&heard));
            async move {
                match event {
                    Event::Disconnected | Event::Closed => drop(tell.send(true)),
                    Event::ServerError(ServerError::Other(text)) => {
                        let text = text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
                        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    }
                    _ => {}
                }
            }
        });
        let patience = self.access.timeout.unwrap_or(CONNECT);
        let address = format!("nats://{}", self.server);
        match tokio::time::timeout(patience, options.connect(address)).await {
            Ok(Ok(client)) => Ok(Line { client, lost, complaint }),
            Ok(Err(error)) => Err(classify(object, error.kind(), &error)),
            Err(_) => Err(Error::Timeout { object: object.to_owned(), after: patience }),
        }
    }

    async fn options(&self, object: &str) -> Result<ConnectOptions, Error> {
        let Access { jwt, seed, creds, nkey, username, password, token, .. } = &self.access;
        let shown = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let unusable = |cause: &str| Error::Denied { object: object.to_owned(), cause: cause.to_owned() };
        let options = match (shown(jwt), shown(seed), creds, shown(nkey)) {
            (Some(jwt), Some(seed), ..) => {
                let text = format!(
                    "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
                     -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
                );
                // No message quotes the secrets.
                ConnectOptions::with_credentials(&text)
                    .map_err(|_| unusable("jwt and seed are no credentials of NATS"))?
            }
            (_, _, Some(file), _) => ConnectOptions::with_credentials_file(file)
                .await
                .map_err(|error| unusable(&format!("creds: {file}: {}", error.kind())))?,
            // A public key says nothing that its seed doesn't.
            (_, Some(seed), _, Some(_)) | (_, None, _, Some(seed)) => ConnectOptions::with_nkey(seed),
            _ => match (username, shown(password), shown(token)) {
                (_, _, Some(token)) => ConnectOptions::with_token(token),
                (None, None, None) => ConnectOptions::new(),
                (name, password, None) => {
                    let name = name.clone().unwrap_or_default();
                    ConnectOptions::with_user_and_password(name, password.unwrap_or_default())
                }
            },
        };
        let mut options = options
            .name("seawall")
            .require_tls(self.access.tls || !self.access.root_cas.is_empty())
            .connection_timeout(self.access.timeout.unwrap_or(CONNECT))
            // Later than an unused connection is closed. The server asks, too.
            .ping_interval(2 * IDLE)
            .subscription_capacity(1024)
            .ignore_discovered_servers();
        for file in &self.access.root_cas {
            options = options.add_root_certificates(file.into());
        }
        if let (Some(certificate), Some(key)) = (&self.access.client_cert, &self.access.client_key) {
            options = options.add_client_certificate(certificate.into(), key.into());
        }
        Ok(options)
    }
}

/// Closes a connection that isn't used any more. The only timer, and only while there is a connection.
async fn close_when_idle(link: Arc<Link>) {
    loop {
        let until = {
            let mut state = link.state.lock().unwrap_or_else(PoisonError::into_inner);
            let until = state.used.map(|used| used + IDLE).filter(|until| *until > Instant::now());
            match (until, &state.line) {
                (Some(until), Some(line)) if !line.is_lost() => until,
                _ => {
                    state.line = None;
                    return;
                }
            }
        };
        tokio::time::sleep_until(until).await;
    }
}

/// The decision for a connection that could not be made.
fn classify(object: &str, kind: ConnectErrorKind, error: &async_nats::ConnectError) -> Error {
    let object = object.to_owned();
    match kind {
        ConnectErrorKind::AuthorizationViolation => {
            Error::Denied { object, cause: "the server does not accept these credentials".to_owned() }
        }
        ConnectErrorKind::Authentication => {
            Error::Denied { object, cause: "the seed is none of NATS, so it can't sign".to_owned() }
        }
        ConnectErrorKind::ServerParse => {
            Error::Unavailable { object, cause: "this is no address of a server".to_owned(), retryable: false }
        }
        _ => {
            let cause = std::error::Error::source(error).map_or_else(|| kind.to_string(), ToString::to_string);
            let cause = cause.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
            Error::Unavailable { object, cause, retryable: true }
        }
    }
}
