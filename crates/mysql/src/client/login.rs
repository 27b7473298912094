//! From a target to a connection: socket, TLS, password, session.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and the system's random numbers")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use seawall_net::notice_silence;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::answer;
use super::auth::{Channel, Login, Plugin, ServerKey, Withheld};
use super::connection::{Connection, Wire};
use super::encryption::{self, TlsMode};
use super::facts::{self, Flavour};
use super::handshake::{self, Greeting, Hello, Unusable, can};
use super::session;
use super::target::{Host, KeySource, Target};
use super::tls;
use super::url::wrong;
use crate::Error;

/// How long a server may take until it is ready for the first statement.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest file with a public key, in bytes.
const LARGEST_KEY: u64 = 64 << 10;

/// How often a server may ask for another way to log in, or for more of one.
const MOST_QUESTIONS: usize = 16;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// Statements and questions: text comes in UTF-8.
    #[default]
    Statements,
    /// Reading rows: values come as they are stored.
    Rows,
    /// Loading rows: the server may ask for the file of [`Connection::load`].
    Load,
}

impl Connection {
    /// Connects.
    pub async fn open(target: &Target) -> Result<Self, Error> {
        Self::open_for(target, Purpose::Statements).await
    }

    /// Connects for a purpose.
    pub async fn open_for(target: &Target, purpose: Purpose) -> Result<Self, Error> {
        let opening = async {
            let mut connection = match Self::greet(target, purpose, target.tls).await {
                // Old servers have no cipher that is still safe. An attacker on the network could cause this error too, but could
                // as well remove the server's offer of TLS: PREFERRED promises nothing.
                Err(Error::Tls { cause, .. }) if target.tls == TlsMode::Preferred => {
                    tracing::debug!("without TLS: {cause}");
                    Self::greet(target, purpose, TlsMode::Disabled).await?
                }
                greeted => greeted?,
            };
            connection.set_up(purpose).await?;
            Ok(connection)
        };
        match timeout(PATIENCE, opening).await {
            Ok(opened) => opened,
            Err(_) => {
                let cause = format!("no answer within {} seconds", PATIENCE.as_secs());
                Err(Error::Connection { server: target.to_string(), cause })
            }
        }
    }

    /// Makes the session independent of the settings of server, account and `init_connect`, and learns which server this is.
    async fn set_up(&mut self, purpose: Purpose) -> Result<(), Error> {
        for statement in session::first() {
            let mut attempt = 1;
            while let Err(error) = self.execute(&statement).await {
                // A limit of a millisecond may end even the statement that lifts it.
                if attempt == session::ATTEMPTS || !session::is_out_of_time(error.number()) {
                    return Err(error);
                }
                attempt += 1;
            }
        }
        let rows = self.query(&session::question()).await?;
        let variables: BTreeMap<String, String> =
            rows.iter().map(|row| (row.text(0).to_ascii_lowercase(), row.lossy(1))).collect();
        let value = |name: &str| variables.get(name).map(String::as_str);
        if let Some(version) = value("version") {
            let comment = value("version_comment").unwrap_or_default();
            (self.version, self.flavour) =
                (facts::version(version), Flavour::of(version, comment, value("aurora_version")));
        }
        if let Some(bytes) = value("max_allowed_packet").and_then(|bytes| bytes.parse().ok()) {
            self.max_packet = bytes;
        }
        for statement in session::statements(|name| variables.contains_key(name), purpose) {
            self.execute(&statement).await?;
        }
        Ok(())
    }

    /// Logs in.
    async fn greet(target: &Target, purpose: Purpose, mode: TlsMode) -> Result<Self, Error> {
        let server = target.to_string();
        let mut connection = Self {
            wire: wire(target, &server).await?,
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            sequence: 0,
            abilities: 0,
            in_answer: false,
            server,
            is_unspoken: target.is_unspoken,
            version: 0,
            flavour: Flavour::MySql,
            connection_id: 0,
            // Until the server tells: what every version takes.
            max_packet: 1 << 20,
        };
        let payload = connection.packet().await?;
        if payload.first() == Some(&answer::ERROR) {
            return Err(connection.refusal(&payload));
        }
        let greeting = handshake::greeting(&payload).map_err(|unusable| match unusable {
            Unusable::Old => connection.confused("a greeting of another protocol, or of a server that is too old"),
            Unusable::Cut => connection.confused("a greeting that is cut"),
        })?;
        connection.connection_id = greeting.connection_id;
        connection.version = facts::version(&greeting.version);
        connection.flavour = Flavour::of(&greeting.version, "", None);
        connection.log_in(target, purpose, mode, greeting).await?;
        Ok(connection)
    }

    async fn log_in(
        &mut self,
        target: &Target,
        purpose: Purpose,
        mode: TlsMode,
        greeting: Greeting,
    ) -> Result<(), Error> {
        let offered = greeting.abilities & can::SSL != 0;
        let encrypts = encryption::encrypts(mode, target.is_local(), offered);
        let tls = encrypts.map_err(|cause| Error::Tls {
            code: "mysql.tls",
            server: self.server.clone(),
            cause: format!("{cause}, and ssl-mode={} asks for it", mode.name()),
            next: "give the server a certificate (ssl_cert, ssl_key), or, where the network is safe, give ssl-mode=PREFERRED"
                .to_owned(),
        })?;
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| Error::Internal("the system gives no random numbers".to_owned()))?;
        let plugin = Plugin::to_begin_with(&greeting.plugin);
        let mut login = Login {
            password: target.find_password()?,
            channel: match (target.is_local(), tls) {
                (true, _) => Channel::Socket,
                (false, true) if target.tls.checks() => Channel::Checked,
                (false, true) => Channel::Encrypted,
                (false, false) => Channel::Plain,
            },
            key: server_key(&target.server_key)?,
            plugin,
            scramble: greeting.scramble,
            random,
            asked_for_key: false,
        };
        let auth = login.begin().map_err(|why| self.withheld(why))?;
        let hello = Hello {
            user: &target.user,
            database: &target.database,
            plugin: plugin.name(),
            auth: &auth,
            local_files: purpose == Purpose::Load,
            tls,
        };
        self.abilities = hello.abilities(greeting.abilities);
        if tls {
            // Bytes that came before TLS may be an attacker's.
            if !self.inbox.is_empty() {
                return Err(self.confused("more than a greeting before TLS"));
            }
            self.put(&hello.request_tls(greeting.abilities));
            self.flush().await?;
            let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
            self.wire = tls::begin(target, plain).await?;
        }
        let answer = hello.answer(greeting.abilities);
        let answer = answer.ok_or_else(|| wrong("user", "a name has a zero byte", "remove it"))?;
        self.put(&answer);
        self.flush().await?;
        self.authenticate(target, &mut login).await
    }

    async fn authenticate(&mut self, target: &Target, login: &mut Login) -> Result<(), Error> {
        for _ in 0..MOST_QUESTIONS {
            let payload = self.packet().await?;
            let answer = match payload.split_first() {
                Some((&answer::OK, _)) => return Ok(()),
                Some((&answer::ERROR, _)) => {
                    let error = self.refusal(&payload);
                    return Err(without_password(error, target, login));
                }
                Some((&answer::END, _)) => {
                    let (name, scramble) = handshake::switch(&payload).ok_or_else(|| Error::Password {
                        server: self.server.clone(),
                        cause: "it asks for the way of logging in of versions before 4.1, which protects no password"
                            .into(),
                        next: "give the account a password of a newer kind (old_passwords = 0)".to_owned(),
                    })?;
                    Some(login.switch(&name, scramble))
                }
                Some((1, data)) => login.more(data).transpose(),
                // MariaDB sends what a plugin says as it is, unless its first byte means something else.
                Some(_) if login.plugin == Plugin::Parsec => login.more(&payload).transpose(),
                _ => return Err(self.confused("an answer that doesn't belong to a login")),
            };
            if let Some(answer) = answer {
                let answer = answer.map_err(|why| self.withheld(why))?;
                self.put(&answer);
                self.flush().await?;
            }
        }
        Err(self.confused("questions without end"))
    }

    fn withheld(&self, why: Withheld) -> Error {
        Error::Password { server: self.server.clone(), cause: why.cause, next: why.next.to_owned() }
    }
}

/// The error of a login, told as a missing password where there was none.
fn without_password(error: Error, target: &Target, login: &Login) -> Error {
    match error {
        Error::Server { object, error } if login.password.is_none() && matches!(error.number, 1045 | 1698) => {
            Error::Password {
                server: object,
                cause: format!("no password is known: {error}"),
                next: target.where_passwords_are().to_owned(),
            }
        }
        error => error,
    }
}

fn server_key(source: &KeySource) -> Result<ServerKey, Error> {
    let file = match source {
        KeySource::None => return Ok(ServerKey::Unknown),
        KeySource::Any => return Ok(ServerKey::Any),
        KeySource::File(file) => file,
    };
    let unusable = |cause: &str| {
        wrong("server-public-key-path", &format!("{}: {cause}", file.display()), "name the server's public_key.pem")
    };
    let length = std::fs::metadata(file).map_err(|error| unusable(&error.to_string()))?.len();
    if length > LARGEST_KEY {
        return Err(unusable("this is no key"));
    }
    std::fs::read_to_string(file).map(ServerKey::Pem).map_err(|error| unusable(&error.to_string()))
}

/// The byte stream to the server.
async fn wire(target: &Target, server: &str) -> Result<Box<dyn Wire>, Error> {
    let away = |error: std::io::Error| Error::connection(server, &error);
    match &target.host {
        Host::Socket(file) => Ok(Box::new(UnixStream::connect(file).await.map_err(away)?)),
        Host::Tcp(name) => {
            let stream = TcpStream::connect((name.as_str(), target.port)).await.map_err(away)?;
            stream.set_nodelay(true).map_err(away)?;
            notice_silence(&stream).map_err(away)?;
            Ok(Box::new(stream))
        }
    }
}
