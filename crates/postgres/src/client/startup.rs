//! From a target to a connection: socket, TLS, password.

use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use seawall_net::{BETWEEN, QUESTIONS, SILENCE, notice_silence};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::connection::{Connection, Wire};
use super::encryption::{self, Way};
use super::session;
use super::target::{Host, Target};
use super::text::TextEncoding;
use super::tls;
use crate::Error;

/// How long a server may take until it is ready for the first statement.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same as a setting for PostgreSQL's programs. Their other settings are in their environment.
pub(crate) fn keepalives() -> String {
    let (idle, interval) = (SILENCE.as_secs(), BETWEEN.as_secs());
    let all = (SILENCE + BETWEEN * QUESTIONS).as_millis();
    format!(
        "--dbname=keepalives_idle={idle} keepalives_interval={interval} keepalives_count={QUESTIONS} tcp_user_timeout={all}"
    )
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(target: &Target) -> Result<Self, Error> {
        let opening = async {
            let mut connection = Self::greet(target).await?;
            connection.execute(session::FIRST).await?;
            let facts = connection.one(session::FACTS).await?;
            connection.version = u32::try_from(facts.number(0)).unwrap_or(0);
            connection.execute(&session::settings(connection.version)).await?;
            // Another kind of server may have other encodings, and is asked for UTF-8.
            if let Some(its) = TextEncoding::of(facts.text(1)) {
                connection.speak(its).await?;
            }
            Ok(connection)
        };
        match timeout(PATIENCE, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(too_late(target)),
        }
    }

    /// Connects to the process of the server that sends its log. It has no SQL, and no settings.
    pub(crate) async fn open_stream(target: &Target) -> Result<Self, Error> {
        match timeout(PATIENCE, Self::greet_for(target, true)).await {
            Ok(greeted) => greeted,
            Err(_) => Err(too_late(target)),
        }
    }

    /// Logs in, in the ways that `sslmode` allows.
    async fn greet(target: &Target) -> Result<Self, Error> {
        Self::greet_for(target, false).await
    }

    async fn greet_for(target: &Target, stream: bool) -> Result<Self, Error> {
        let mut failures = Vec::new();
        for way in encryption::ways(target.tls, target.is_local()) {
            match Self::greet_by(*way, target, stream).await {
                Err(error) if encryption::is_about_the_way(&error) => failures.push((*way, error)),
                greeted => return greeted,
            }
        }
        Err(encryption::telling(failures).unwrap_or_else(|| Error::Internal("no way to connect".to_owned())))
    }

    async fn greet_by(way: Way, target: &Target, stream: bool) -> Result<Self, Error> {
        let server = target.to_string();
        let wire = wire(way, target, &server).await?;
        let mut connection = Self {
            wire,
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            server,
            version: 0,
            encoding: TextEncoding::UTF8,
            not_granted: None,
            is_unspoken: target.is_unspoken,
            guard: None,
        };
        let parameters = [
            ("user", target.user.as_str()),
            ("database", target.database_or_own()),
            ("application_name", "seawall"),
            ("client_encoding", "UTF8"),
        ];
        let defect = |error: std::io::Error| Error::Internal(format!("a startup message: {error}"));
        let replication = stream.then_some(("replication", "true"));
        // They count before those of roles and databases.
        let options = session::options(&target.options);
        let options = (!options.is_empty()).then_some(("options", options.as_str()));
        let parameters = parameters.into_iter().chain(replication).chain(options);
        frontend::startup_message(parameters, &mut connection.outbox).map_err(defect)?;
        connection.flush().await?;
        connection.authenticate(target).await?;
        loop {
            match connection.message().await? {
                Message::BackendKeyData(_) => {}
                Message::ReadyForQuery(_) => return Ok(connection),
                Message::ErrorResponse(body) => return Err(connection.refusal(&body)),
                _ => return Err(connection.confused("an answer that doesn't belong to a greeting")),
            }
        }
    }

    async fn authenticate(&mut self, target: &Target) -> Result<(), Error> {
        let defect = |error: std::io::Error| Error::Internal(format!("a password message: {error}"));
        loop {
            self.outbox.clear();
            match self.message().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    let password = password(target)?;
                    frontend::password_message(password.as_bytes(), &mut self.outbox).map_err(defect)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(target.user.as_bytes(), password(target)?.as_bytes(), body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.outbox).map_err(defect)?;
                }
                Message::AuthenticationSasl(body) => {
                    self.scram(&body, &password(target)?).await?;
                    continue;
                }
                Message::ErrorResponse(body) => return Err(self.refusal(&body)),
                _ => {
                    let cause = "it asks for a way to log in that is not built: known are passwords (SCRAM, MD5, plain), \
                                 peer and trust";
                    return Err(Error::Password { server: self.server.clone(), cause: cause.to_owned() });
                }
            }
            self.flush().await?;
        }
    }

    async fn scram(&mut self, body: &AuthenticationSaslBody, password: &str) -> Result<(), Error> {
        let offered: Vec<&str> = body.mechanisms().collect().map_err(|error| self.confused(&error.to_string()))?;
        if !offered.contains(&SCRAM_SHA_256) {
            let cause = format!("it asks for {}, which is not built", offered.join(", "));
            return Err(Error::Password { server: self.server.clone(), cause });
        }
        let defect = |error: std::io::Error| Error::Internal(format!("a password message: {error}"));
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.outbox).map_err(defect)?;
        self.flush().await?;
        match self.message().await? {
            Message::AuthenticationSaslContinue(body) => {
                scram.update(body.data()).map_err(|error| self.confused(&error.to_string()))?;
            }
            Message::ErrorResponse(body) => return Err(self.refusal(&body)),
            _ => return Err(self.confused("an answer that doesn't belong to a login")),
        }
        frontend::sasl_response(scram.message(), &mut self.outbox).map_err(defect)?;
        self.flush().await?;
        match self.message().await? {
            // The server proves that it knows the password as well.
            Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).map_err(|error| {
                let cause =
                    format!("it doesn't know the password itself, and is not the server it claims to be: {error}");
                Error::Password { server: self.server.clone(), cause }
            }),
            Message::ErrorResponse(body) => Err(self.refusal(&body)),
            _ => Err(self.confused("an answer that doesn't belong to a login")),
        }
    }
}

fn too_late(target: &Target) -> Error {
    let cause = format!("no answer within {} seconds", PATIENCE.as_secs());
    Error::Connection { server: target.to_string(), cause }
}

/// The byte stream to the server, encrypted if that was asked for.
async fn wire(way: Way, target: &Target, server: &str) -> Result<Box<dyn Wire>, Error> {
    let away = |error: std::io::Error| Error::connection(server, &error);
    let name = match &target.host {
        Host::Socket(folder) => {
            let socket = folder.join(format!(".s.PGSQL.{}", target.port));
            return Ok(Box::new(UnixStream::connect(socket).await.map_err(away)?));
        }
        Host::Tcp(name) => name,
    };
    let mut stream = TcpStream::connect((name.as_str(), target.port)).await.map_err(away)?;
    stream.set_nodelay(true).map_err(away)?;
    notice_silence(&stream).map_err(away)?;
    if way == Way::Plain {
        return Ok(Box::new(stream));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await.map_err(away)?;
    if stream.read_u8().await.map_err(away)? == b'S' {
        return Ok(Box::new(tls::begin(target, name, stream).await?));
    }
    Err(Error::Tls {
        code: "postgres.tls",
        server: server.to_owned(),
        cause: format!("the server has no TLS, and sslmode={} asks for it", target.tls.name()),
        next: "set ssl = on on the server, or, where the network is safe, give sslmode=prefer".to_owned(),
    })
}

/// The password, when the server asks for one.
fn password(target: &Target) -> Result<String, Error> {
    target.find_password().map_err(|why| Error::Password {
        server: target.to_string(),
        cause: format!("it asks for a password, and {why}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_postgresql_notice_that_a_network_is_gone() {
        assert_eq!(
            keepalives(),
            "--dbname=keepalives_idle=60 keepalives_interval=10 keepalives_count=6 tcp_user_timeout=120000"
        );
    }
}
