//! One SSH connection: reach the server, check its key, log in, open sessions of SFTP.

use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::client::{self, Config, DisconnectReason, Handle};
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{ChannelMsg, Preferred, cipher};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::credentials::{self, Way};
use super::hosts::{self, Recorded, Verdict};
use super::path::Root;
use super::session::{Patience, Session};
use super::settings::{PORT, SftpSettings};
use crate::text::wrong;
use crate::{Environment, Error};

/// How long the server may take to be reached.
const REACH: Duration = Duration::from_secs(10);

/// How long a connection may take in all: key exchange, login, the first session.
const ALL: Duration = Duration::from_secs(25);

/// The bytes that a session may receive before they are confirmed.
const WINDOW: u32 = 4 << 20;

/// The ciphers that are offered: first what processors compute by themselves.
const CIPHERS: [cipher::Name; 5] =
    [cipher::AES_256_GCM, cipher::CHACHA20_POLY1305, cipher::AES_256_CTR, cipher::AES_192_CTR, cipher::AES_128_CTR];

/// How a server is reached, from settings and environment. Two places with equal servers share a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    settings: SftpSettings,
    ways: Vec<Way>,
    /// Files with the keys of servers; those that aren't there are no mistake unless the user named them.
    known_hosts: Vec<String>,
    pub(super) patience: Patience,
}

impl Server {
    pub(super) fn new(settings: &SftpSettings, environment: &Environment, patience: Patience) -> Self {
        let of_user = environment.get("HOME").map(|home| format!("{home}/.ssh/known_hosts"));
        let usual = || of_user.into_iter().chain(Some("/etc/ssh/ssh_known_hosts".to_owned())).collect();
        let known_hosts = settings.known_hosts.as_ref().map_or_else(usual, |file| vec![file.clone()]);
        let ways = credentials::ways(settings, environment);
        // The folder is no part of the server.
        let settings = SftpSettings { root: Root::default(), concurrent_writes: None, ..settings.clone() };
        Self { settings, ways, known_hosts, patience }
    }

    /// The server for messages.
    fn url(&self) -> String {
        self.settings.login()
    }

    fn away(&self, cause: impl std::fmt::Display, retryable: bool) -> Error {
        Error::Unavailable { object: self.url(), cause: cause.to_string(), retryable }
    }

    /// What is recorded of the server's key, read now.
    async fn recorded(&self) -> Result<Recorded, Error> {
        let name = self.settings.server();
        if let Some(key) = &self.settings.host_key {
            let key = PublicKey::from_openssh(key);
            let key = key.map_err(|_| wrong("host-key", "this is no public key", "write it as in known_hosts"))?;
            return Ok(Recorded { keys: vec![(key, "the setting host-key".to_owned())], revoked: Vec::new() });
        }
        let (files, named) = (self.known_hosts.clone(), self.settings.known_hosts.is_some());
        let read = tokio::task::spawn_blocking(move || {
            let mut recorded = Recorded::default();
            for file in files {
                match credentials::text(&file) {
                    Ok(text) => recorded.add(&file, &text, &name),
                    Err(error) if named => {
                        return Err(wrong("known-hosts", &format!("{file}: {error}"), "name a file that can be read"));
                    }
                    // Otherwise the server is unknown, which is said.
                    Err(_) => {}
                }
            }
            Ok(recorded)
        });
        read.await.map_err(|error| self.away(error, false))?
    }

    /// A connection with one session.
    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        let limit = ALL.min(self.patience.silence * 2);
        match timeout(limit, self.connect_at_last()).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { object: self.url(), after: limit }),
        }
    }

    async fn connect_at_last(&self) -> Result<Connection, Error> {
        let recorded = self.recorded().await?;
        let port = self.settings.port.unwrap_or(PORT);
        let reach = REACH.min(self.patience.silence);
        let stream = match timeout(reach, TcpStream::connect((self.settings.host.as_str(), port))).await {
            Ok(stream) => stream.map_err(|error| self.away(error, true))?,
            Err(_) => return Err(Error::Timeout { object: self.url(), after: reach }),
        };
        let (stream, plug) = plug(stream).map_err(|error| self.away(error, true))?;
        let preferred = Preferred { key: recorded.kinds().into(), cipher: (&CIPHERS).into(), ..Preferred::default() };
        let config = Config { preferred, window_size: WINDOW, nodelay: true, ..Config::default() };
        let (shown, farewell) = (Arc::default(), Arc::default());
        let checking = Client { recorded, shown: Arc::clone(&shown), farewell: Arc::clone(&farewell) };
        let ssh = client::connect_stream(Arc::new(config), stream, checking).await;
        let mut ssh = match ssh {
            Ok(ssh) => ssh,
            Err(error) => return Err(self.no_connection(&error, &shown)),
        };
        credentials::log_in(&mut ssh, &self.settings, &self.ways, &self.url(), &farewell).await?;
        let connection = Connection { ssh, plug };
        Ok(connection)
    }

    /// A further session of a connection.
    pub(super) async fn session(&self, connection: &Connection) -> Result<Session, Error> {
        let limit = ALL.min(self.patience.silence * 2);
        match timeout(limit, self.begin(connection)).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { object: self.url(), after: limit }),
        }
    }

    async fn begin(&self, connection: &Connection) -> Result<Session, Error> {
        let away = |error: russh::Error| match error {
            russh::Error::ChannelOpenFailure(reason) => self.away(format!("no session: {reason:?}"), true),
            error => self.away(error, true),
        };
        let mut channel = connection.ssh.channel_open_session().await.map_err(away)?;
        channel.request_subsystem(true, "sftp").await.map_err(away)?;
        loop {
            match channel.wait().await {
                Some(ChannelMsg::Success) => break,
                Some(ChannelMsg::Failure) => {
                    let cause = "the server doesn't serve SFTP".to_owned();
                    return Err(Error::Unsupported { object: self.url(), cause });
                }
                Some(_) => {}
                None => return Err(self.away("the connection ended", true)),
            }
        }
        Session::begin(channel.into_stream(), self.patience).await.map_err(|cause| self.away(cause, true))
    }

    /// The error of a connection that didn't come to a login.
    fn no_connection(&self, error: &russh::Error, shown: &Mutex<Option<(PublicKey, Verdict)>>) -> Error {
        let shown = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((key, verdict)) = shown {
            return self.stranger(&key, verdict);
        }
        match error {
            russh::Error::NoCommonAlgo { kind, theirs, .. } => {
                let cause = format!("no common algorithm ({kind:?}); the server has {}", theirs.join(", "));
                Error::Unsupported { object: self.url(), cause }
            }
            error => self.away(format!("the connection did not begin: {error}"), true),
        }
    }

    /// The error for a server that isn't known, or isn't the one that was known.
    fn stranger(&self, key: &PublicKey, verdict: Verdict) -> Error {
        let (print, line) = (hosts::fingerprint(key), hosts::line(&self.settings.server(), key));
        let file = self.known_hosts.first().map_or("known_hosts", String::as_str);
        let kind = key.algorithm();
        let (cause, next) = match verdict {
            Verdict::Changed(place) => (
                format!("the server shows another key than is recorded ({place}): {kind} {print}"),
                "find out why: somebody else may answer in its place. If the server got a new key, record it there"
                    .to_owned(),
            ),
            Verdict::Revoked(place) => (
                format!("the server shows a key that was revoked ({place}): {kind} {print}"),
                "ask who runs the server".to_owned(),
            ),
            _ => (
                format!("the server's key is not known: {kind} {print}"),
                format!(
                    "compare the fingerprint with the server's; if it is the same, add this line to {file}: {line}"
                ),
            ),
        };
        Error::HostKey { object: self.url(), cause, next }
    }
}

/// A second hold of a socket, to end it from outside.
fn plug(stream: TcpStream) -> std::io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let plug = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, plug))
}

/// A connection that is logged in. It ends when dropped.
pub(super) struct Connection {
    ssh: Handle<Client>,
    plug: std::net::TcpStream,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.ssh.is_closed()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The library's task may wait for the network; then this wakes it.
        let _ = self.plug.shutdown(Shutdown::Both);
    }
}

/// Checks a server's key when it is shown.
pub(super) struct Client {
    recorded: Recorded,
    /// A key that was refused.
    shown: Arc<Mutex<Option<(PublicKey, Verdict)>>>,
    farewell: Arc<Farewell>,
}

/// Why the connection ended: the server's words, or that it takes no further way to log in. Nothing if the connection
/// broke.
pub(super) type Farewell = Mutex<Option<String>>;

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        // Certificates aren't asked for.
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else { return Ok(false) };
        let verdict = self.recorded.judge(key);
        let same = verdict == Verdict::Same;
        if !same {
            *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some((key.clone(), verdict));
        }
        Ok(same)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Self::Error>) -> Result<(), Self::Error> {
        match reason {
            DisconnectReason::ReceivedDisconnect(told) => {
                let words: String = told.message.chars().take(200).collect();
                *self.farewell.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.escape_debug().to_string());
                Ok(())
            }
            DisconnectReason::Error(error) => {
                if matches!(error, russh::Error::NoAuthMethod) {
                    let told = "the server takes no other way".to_owned();
                    *self.farewell.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
                }
                Err(error)
            }
        }
    }
}
