//! How to log in: what is offered to a server, in which order. Files are read at each login, so a change of them counts.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::agent::client::AgentClient;
use russh::keys::{Error as KeyError, HashAlg, PrivateKey, PrivateKeyWithHashAlg, decode_secret_key};
use russh::{MethodKind, MethodSet};

use super::connect::{Client, Farewell};
use super::ecdsa::short_key;
use super::rsa::RsaSigner;
use super::settings::SftpSettings;
use crate::text::wrong;
use crate::{Environment, Error, Secret};

/// The most bytes of a file with a key, a word, or keys of servers.
const LARGEST: u64 = 4 << 20;

/// The most keys of an agent that are offered: a server ends the connection after a few.
const AGENT_KEYS: usize = 5;

/// Rounds of questions of one login by words.
const QUESTIONS: usize = 4;

/// A way to log in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// The key in a file that the user named.
    Key(String),
    /// The keys of an agent, at a socket.
    Agent(String),
    /// The key in one of the usual files, if there is one without a passphrase.
    Usual(String),
    /// The password.
    Password,
}

/// The ways to log in, in their order: what the user named comes first. Without a name the agent and the usual files
/// are tried.
pub(super) fn ways(settings: &SftpSettings, environment: &Environment) -> Vec<Way> {
    let has_password = settings.password.is_some() || settings.password_file.is_some();
    let mut ways: Vec<Way> = settings.key_path.clone().map(Way::Key).into_iter().collect();
    if has_password {
        ways.push(Way::Password);
    }
    if !ways.is_empty() {
        return ways;
    }
    if settings.agent != Some(false) {
        ways.extend(environment.get("SSH_AUTH_SOCK").map(|socket| Way::Agent(socket.to_owned())));
    }
    if let Some(home) = environment.get("HOME") {
        let usual = ["id_ed25519", "id_ecdsa", "id_rsa"].map(|name| Way::Usual(format!("{home}/.ssh/{name}")));
        ways.extend(usual);
    }
    ways
}

/// The text of a small file.
pub(super) fn text(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a file that a setting names, off the runtime's own threads.
async fn read(setting: &'static str, path: &str) -> Result<String, Error> {
    let from = path.to_owned();
    let read = tokio::task::spawn_blocking(move || text(&from)).await;
    let unreadable = |cause: String| wrong(setting, &cause, "name a file that can be read");
    read.map_err(|error| unreadable(error.to_string()))?.map_err(|error| unreadable(format!("{path}: {error}")))
}

/// A word that is given, or in a file.
async fn word(given: Option<&Secret>, setting: &'static str, file: Option<&String>) -> Result<Option<Secret>, Error> {
    match (given, file) {
        (Some(word), _) => Ok(Some(word.clone())),
        (None, Some(file)) => Ok(Some(Secret::new(read(setting, file).await?.trim_end_matches(['\r', '\n'])))),
        (None, None) => Ok(None),
    }
}

/// Logs in by the first way that the server takes.
pub(super) async fn log_in(
    ssh: &mut Handle<Client>,
    settings: &SftpSettings,
    ways: &[Way],
    url: &str,
    farewell: &Farewell,
) -> Result<(), Error> {
    let user = settings.user.clone().unwrap_or_default();
    let mut login = Login { ssh, user, url, takes: None, told: BTreeMap::new(), farewell };
    for (number, way) in ways.iter().enumerate() {
        let (name, result) = match way {
            Way::Key(path) => {
                let passphrase = word(
                    settings.key_passphrase.as_ref(),
                    "key-passphrase-file",
                    settings.key_passphrase_file.as_ref(),
                );
                let key = decoded(path, &read("key-path", path).await?, passphrase.await?.as_ref())?;
                (format!("the key in {path}"), login.with_key(key).await?)
            }
            Way::Usual(path) => {
                let Some(key) = usual(path).await else { continue };
                (format!("the key in {path}"), login.with_key(key).await?)
            }
            Way::Agent(socket) => (format!("the agent at {socket}"), login.with_agent(socket).await?),
            Way::Password => {
                let Some(password) =
                    word(settings.password.as_ref(), "password-file", settings.password_file.as_ref()).await?
                else {
                    continue;
                };
                ("the password".to_owned(), login.with_password(&password).await?)
            }
        };
        match result {
            None => return Ok(()),
            Some(why) => drop(login.told.insert(number, format!("{name}: {why}"))),
        }
    }
    let told = login.told.into_values().collect::<Vec<_>>().join("; ");
    let told = if told.is_empty() {
        "there is no key, no agent and no password (give key-path, or password, or start an agent)".to_owned()
    } else {
        format!("the server took no way to log in as {} ({told})", login.user)
    };
    Err(Error::Denied { object: url.to_owned(), cause: told })
}

/// A key that the user named.
fn decoded(path: &str, text: &str, passphrase: Option<&Secret>) -> Result<PrivateKey, Error> {
    let no = |cause: &str, next: &str| wrong("key-path", &format!("{path}: {cause}"), next);
    private_key(text, passphrase).map_err(|error| match error {
        KeyError::KeyIsEncrypted => no("the key has a passphrase", "give key-passphrase or key-passphrase-file"),
        // The library's message quotes nothing of the file, and says little.
        _ if passphrase.is_some() => no("the key can't be read with this passphrase", "check both"),
        _ => no(
            "this is no private key in OpenSSH's format",
            "name a private key; `ssh-keygen -p -f FILE` rewrites an old one in this format",
        ),
    })
}

/// One of the usual keys, if it is there and needs no passphrase.
async fn usual(path: &str) -> Option<PrivateKey> {
    if !Path::new(path).exists() {
        return None;
    }
    private_key(&read("key-path", path).await.ok()?, None).ok()
}

/// The key in a file's text.
fn private_key(text: &str, passphrase: Option<&Secret>) -> Result<PrivateKey, KeyError> {
    decode_secret_key(text, passphrase.map(Secret::reveal)).or_else(|error| short_key(text, passphrase).ok_or(error))
}

struct Login<'a> {
    ssh: &'a mut Handle<Client>,
    user: String,
    url: &'a str,
    /// The ways that the server takes, once it told.
    takes: Option<MethodSet>,
    /// Why each way failed.
    told: BTreeMap<usize, String>,
    farewell: &'a Farewell,
}

impl Login<'_> {
    fn broken(&self, error: &impl std::fmt::Display) -> Error {
        let cause = format!("the login did not end: {error}");
        Error::Unavailable { object: self.url.to_owned(), cause, retryable: true }
    }

    /// Whether the server takes a way, as far as it told.
    fn is_taken(&self, kind: MethodKind) -> bool {
        self.takes.as_ref().is_none_or(|takes| takes.contains(&kind))
    }

    /// `None` if the login succeeded, otherwise why it didn't.
    ///
    /// # Errors
    /// The connection broke, which the library reports as a refusal.
    async fn outcome(&mut self, result: AuthResult) -> Result<Option<String>, Error> {
        let AuthResult::Failure { remaining_methods, partial_success } = result else { return Ok(None) };
        if remaining_methods.is_empty() || self.ssh.is_closed() {
            // The library ends a connection to a server that takes no further way. It tells the cause of each end
            // only after it has closed its queue.
            let _ = (&mut *self.ssh).await;
            let told = self.farewell.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let told = told.ok_or_else(|| self.broken(&"the connection broke"))?;
            self.takes = Some(MethodSet::empty());
            return Ok(Some(format!("refused, and the login ended: {told}")));
        }
        let list = remaining_methods.iter().map(<&str>::from).collect::<Vec<_>>().join(", ");
        self.takes = Some(remaining_methods);
        Ok(Some(match partial_success {
            true => format!("taken, and the server asks for {list} as well"),
            false => format!("refused; the server takes {list}"),
        }))
    }

    async fn with_key(&mut self, key: PrivateKey) -> Result<Option<String>, Error> {
        if !self.is_taken(MethodKind::PublicKey) {
            return Ok(Some("it takes no keys".to_owned()));
        }
        let user = self.user.clone();
        let result = if key.algorithm().is_rsa() {
            let hash = self.hash().await?;
            let Some(mut signer) = RsaSigner::new(&key, hash) else {
                return Ok(Some("this RSA key can't be used".to_owned()));
            };
            let public = key.public_key().clone();
            let signed = self.ssh.authenticate_publickey_with(user, public, Some(hash), &mut signer).await;
            signed.map_err(|error| self.broken(&error))?
        } else {
            let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
            self.ssh.authenticate_publickey(user, key).await.map_err(|error| self.broken(&error))?
        };
        self.outcome(result).await
    }

    /// The hash of signatures by RSA keys; never SHA-1.
    async fn hash(&mut self) -> Result<HashAlg, Error> {
        let best = self.ssh.best_supported_rsa_hash().await.map_err(|error| self.broken(&error))?;
        Ok(best.flatten().unwrap_or(HashAlg::Sha256))
    }

    async fn with_agent(&mut self, socket: &str) -> Result<Option<String>, Error> {
        if !self.is_taken(MethodKind::PublicKey) {
            return Ok(Some("it takes no keys".to_owned()));
        }
        let mut agent = match AgentClient::connect_uds(socket).await {
            Ok(agent) => agent,
            Err(error) => return Ok(Some(format!("no agent answers: {error}"))),
        };
        let keys = match agent.request_identities().await {
            Ok(keys) => keys,
            Err(error) => return Ok(Some(format!("the agent doesn't tell its keys: {error}"))),
        };
        let mut told = "it has no keys".to_owned();
        for key in keys.iter().take(AGENT_KEYS) {
            let public = key.public_key().into_owned();
            let hash = if public.algorithm().is_rsa() { Some(self.hash().await?) } else { None };
            let user = self.user.clone();
            match self.ssh.authenticate_publickey_with(user, public, hash, &mut agent).await {
                Ok(result) => match self.outcome(result).await? {
                    None => return Ok(None),
                    Some(why) => told = format!("{} of its keys: {why}", keys.len().min(AGENT_KEYS)),
                },
                Err(error) => told = format!("it doesn't sign: {error}"),
            }
        }
        Ok(Some(told))
    }

    /// By the word itself, and else as the answer to a question, which some servers ask instead.
    async fn with_password(&mut self, password: &Secret) -> Result<Option<String>, Error> {
        let mut told = "it takes no passwords".to_owned();
        if self.is_taken(MethodKind::Password) {
            let tried = self.ssh.authenticate_password(self.user.clone(), password.reveal()).await;
            let tried = tried.map_err(|error| self.broken(&error))?;
            match self.outcome(tried).await? {
                None => return Ok(None),
                Some(why) => told = why,
            }
        }
        if !self.is_taken(MethodKind::KeyboardInteractive) || self.ssh.is_closed() {
            return Ok(Some(told));
        }
        let begun = self.ssh.authenticate_keyboard_interactive_start(self.user.clone(), None).await;
        let mut step = begun.map_err(|error| self.broken(&error))?;
        for _ in 0..QUESTIONS {
            match step {
                KeyboardInteractiveAuthResponse::Success => return Ok(None),
                KeyboardInteractiveAuthResponse::Failure { .. } => break,
                KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                    // A question whose answer may be seen asks for something else.
                    let answer = |echo: bool| if echo { String::new() } else { password.reveal().to_owned() };
                    let answers = prompts.iter().map(|prompt| answer(prompt.echo)).collect();
                    let next = self.ssh.authenticate_keyboard_interactive_respond(answers).await;
                    step = next.map_err(|error| self.broken(&error))?;
                }
            }
        }
        Ok(Some(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSettings as _;

    #[test]
    fn what_is_named_comes_first() {
        let variables = [("SSH_AUTH_SOCK", "/agent"), ("HOME", "/home/me")];
        let environment: Environment = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = || Way::Key("/key".into());
        let usual = |name: &str| Way::Usual(format!("/home/me/.ssh/{name}"));
        let all_usual = || vec![usual("id_ed25519"), usual("id_ecdsa"), usual("id_rsa")];
        for (set, expected) in [
            (vec![], [vec![Way::Agent("/agent".into())], all_usual()].concat()),
            (vec![("agent", "false")], all_usual()),
            (vec![("key-path", "/key")], vec![key()]),
            (vec![("password-file", "/word")], vec![Way::Password]),
            (vec![("key-path", "/key"), ("password", "x")], vec![key(), Way::Password]),
        ] {
            let mut settings = SftpSettings::default();
            set.iter().for_each(|(name, value)| settings.set(name, value).expect("a setting"));
            assert_eq!(ways(&settings, &environment), expected, "{set:?}");
        }
        assert_eq!(ways(&SftpSettings::default(), &Environment::empty()), []);
    }

    #[test]
    fn keys_that_can_not_be_read_show_nothing() {
        for (text, passphrase) in [("hunter2", None), ("hunter2", Some("hunter2")), ("", None)] {
            let error = decoded("/key", text, passphrase.map(Secret::new).as_ref()).expect_err("no key");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
