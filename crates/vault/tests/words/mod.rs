//! An SSH server that takes words instead of keys, over OpenSSH's own program for SFTP.

use std::borrow::Cow;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::server::{Auth, Config, Handler, Msg, Response, Session};
use russh::{Channel, ChannelId, MethodKind, MethodSet};
use seawall_vault::testing::not_run;

const PROGRAM: &str = "/usr/lib/openssh/sftp-server";

/// How the server asks for the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// As a password.
    Password,
    /// As the answer to a question.
    Question,
}

/// Starts a server, and returns its port and its public key.
pub(crate) async fn start(what: &str, asks: Asks, word: &'static str) -> Option<(u16, String)> {
    if !std::path::Path::new(PROGRAM).is_file() {
        not_run(what, "there is no sftp-server");
        return None;
    }
    let key = PrivateKey::new(KeypairData::Ed25519(Ed25519Keypair::from_seed(&[7; 32])), "").expect("a key");
    let public = key.public_key().to_openssh().expect("a public key");
    let kind = if asks == Asks::Password { MethodKind::Password } else { MethodKind::KeyboardInteractive };
    let methods = MethodSet::from(&[kind][..]);
    let config = Config { keys: vec![key], methods, auth_rejection_time: Duration::ZERO, ..Config::default() };
    let config = Arc::new(config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let client = Client { asks, word, channels: HashMap::new() };
            let session = russh::server::run_stream(Arc::clone(&config), socket, client).await;
            if let Ok(session) = session {
                tokio::spawn(session);
            }
        }
    });
    Some((port, public))
}

struct Client {
    asks: Asks,
    word: &'static str,
    channels: HashMap<ChannelId, Channel<Msg>>,
}

impl Handler for Client {
    type Error = russh::Error;

    async fn auth_password(&mut self, _user: &str, word: &str) -> Result<Auth, Self::Error> {
        Ok(if self.asks == Asks::Password && word == self.word { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _user: &str,
        _methods: &str,
        answers: Option<Response<'a>>,
    ) -> Result<Auth, Self::Error> {
        let Some(mut answers) = answers else {
            return Ok(Auth::Partial {
                name: "".into(),
                instructions: "".into(),
                prompts: Cow::Borrowed(&[(Cow::Borrowed("Password:"), false)]),
            });
        };
        let is_right = self.asks == Asks::Question && answers.next().is_some_and(|answer| answer == self.word);
        Ok(if is_right { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: russh::server::ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        _name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Some(channel) = self.channels.remove(&id) else { return Ok(()) };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("two ends");
        let input = Stdio::from(OwnedFd::from(theirs.try_clone().expect("a copy")));
        let output = Stdio::from(OwnedFd::from(theirs));
        let mut program = Command::new(PROGRAM).stdin(input).stdout(output).spawn().expect("sftp-server can be run");
        ours.set_nonblocking(true).expect("an end for the runtime");
        let mut ours = tokio::net::UnixStream::from_std(ours).expect("an end");
        let accepted = session.channel_success(id);
        tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut channel.into_stream(), &mut ours).await;
            drop(ours);
            let _ = tokio::task::spawn_blocking(move || program.wait()).await;
        });
        accepted
    }
}
