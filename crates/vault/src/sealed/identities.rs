//! What opens objects: secret keys of the owner, from a file. They are read once, and a passphrase is asked for then.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use age::secrecy::{ExposeSecret as _, SecretString};
use age::{Callbacks, DecryptError, Decryptor, Identity as _};
use age_core::format::{FileKey, Stanza};
use seawall_core::Moment;

use super::hostkeys::write_private;
use super::recipients::{MOST, one_line, read_file};
use super::{Fault, fault};
use crate::{Error, Secret};

/// The largest work factor of a passphrase that is taken: about ten seconds of a fast processor.
const WORK: u8 = 22;

/// Asks a human. Not called but where a key needs it.
pub trait Prompt: Send + Sync + fmt::Debug {
    /// A passphrase, not shown while it is typed; `None` where there is no terminal.
    fn passphrase(&self, of: &str) -> Option<Secret>;

    /// Shows what to do, for example to touch a key.
    fn show(&self, message: &str);
}

/// Asks nobody: what needs a passphrase fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompt;

impl Prompt for NoPrompt {
    fn passphrase(&self, _of: &str) -> Option<Secret> {
        None
    }

    fn show(&self, _message: &str) {}
}

/// Secret keys. Clones share them; `Debug` shows how many there are.
#[derive(Clone, Default)]
pub struct Identities {
    keys: Arc<Vec<Key>>,
}

enum Key {
    X25519(age::x25519::Identity),
    Ssh(age::ssh::Identity),
    Plugin(age::plugin::Identity, Arc<dyn Prompt>),
}

impl Identities {
    /// No keys.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads a file: age identities (also those of plugins), an SSH key, or an age file that holds identities behind a
    /// passphrase. Blocks, also for a human.
    ///
    /// # Errors
    /// The file can't be read, holds no key, or its passphrase isn't given.
    pub fn read(path: &Path, prompt: &Arc<dyn Prompt>) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let refused = |cause: String| fault(Fault::Keys, &shown, cause);
        let content = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
        let keys = if content.starts_with(super::header::INTRO) || content.starts_with(b"-----BEGIN AGE ") {
            parse(&unlocked(&content, &shown, prompt)?, &shown, prompt)?
        } else if content.starts_with(b"-----BEGIN ") {
            vec![Key::Ssh(ssh(&content, &shown, prompt)?)]
        } else {
            parse(&read_file(path)?, &shown, prompt)?
        };
        if keys.is_empty() {
            return Err(refused("there is no secret key in the file".to_owned()));
        }
        Ok(Self { keys: Arc::new(keys) })
    }

    /// A new key: its text as a file of identities holds it, and its public key.
    pub fn generate() -> (Secret, String) {
        let key = age::x25519::Identity::generate();
        (Secret::new(key.to_string().expose_secret()), key.to_public().to_string())
    }

    /// Makes a new key and a file for it, which only this user can read and which says what it opens. Writes over nothing.
    /// Returns the public key. Blocks.
    ///
    /// # Errors
    /// There is a file already, or it can't be written.
    pub fn create(path: &Path, vault: &str, made: Moment) -> Result<String, Error> {
        let (secret, public) = Self::generate();
        let text = format!("{}\n# made {made}\n# public key: {public}\n{}\n", title(vault), secret.reveal());
        let refused = |cause: String| fault(Fault::Keys, path.display().to_string(), cause);
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| refused("this names no file".into()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        write_private(folder, name, text.as_bytes()).map_err(|error| refused(error.to_string()))?;
        Ok(public)
    }

    /// Whether a file is there, and is one that [`Identities::create`] made for this vault. `None` without a file. Blocks.
    ///
    /// # Errors
    /// It can't be read.
    pub fn is_made_for(path: &Path, vault: &str) -> Result<Option<bool>, Error> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            _ => {
                let content = std::fs::read(path)
                    .map_err(|error| fault(Fault::Keys, path.display().to_string(), error.to_string()))?;
                Ok(Some(content.split(|byte| *byte == b'\n').next() == Some(title(vault).as_bytes())))
            }
        }
    }

    /// The identities of a text: the lines of a file. `shown` names it in errors.
    ///
    /// # Errors
    /// A line is no identity, or there is none.
    pub fn parse(text: &Secret, shown: &str, prompt: &Arc<dyn Prompt>) -> Result<Self, Error> {
        let keys = parse(text.reveal(), shown, prompt)?;
        if keys.is_empty() {
            return Err(fault(Fault::Keys, shown, "there is no secret key in it"));
        }
        Ok(Self { keys: Arc::new(keys) })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether opening starts a program.
    pub(super) fn start_programs(&self) -> bool {
        self.keys.iter().any(|key| matches!(key, Key::Plugin(..)))
    }

    /// The public keys of those that tell it. A plugin's key doesn't.
    pub fn public(&self) -> Vec<String> {
        let public = |key: &Key| match key {
            Key::X25519(key) => Some(key.to_public().to_string()),
            Key::Ssh(key) => age::ssh::Recipient::try_from(key.clone()).ok().map(|key| key.to_string()),
            Key::Plugin(..) => None,
        };
        self.keys.iter().filter_map(public).collect()
    }

    /// The file key, by the first of these keys that opens a stanza.
    pub(super) fn unwrap(&self, stanzas: &[Stanza]) -> Option<FileKey> {
        self.keys.iter().find_map(|key| {
            let found = match key {
                Key::X25519(key) => key.unwrap_stanzas(stanzas),
                Key::Ssh(key) => key.unwrap_stanzas(stanzas),
                Key::Plugin(key, prompt) => {
                    let asks = Asks(prompt.clone());
                    match age::plugin::IdentityPluginV1::new(key.plugin(), std::slice::from_ref(key), asks) {
                        Ok(plugin) => plugin.unwrap_stanzas(stanzas),
                        Err(error) => Some(Err(error)),
                    }
                }
            };
            match found {
                Some(Ok(file)) => Some(file),
                Some(Err(error)) => {
                    tracing::debug!("an identity opens nothing: {}", one_line(&error));
                    None
                }
                None => None,
            }
        })
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} hidden]", self.keys.len())
    }
}

/// The first line of a new file of identities.
fn title(vault: &str) -> String {
    format!("# Seawall: the secret key of the vault {}", vault.escape_debug())
}

/// The lines of a file of identities. An error names the line and doesn't show it.
fn parse(content: &str, shown: &str, prompt: &Arc<dyn Prompt>) -> Result<Vec<Key>, Error> {
    let lines = content.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| {
        if let Ok(key) = line.parse::<age::x25519::Identity>() {
            return Ok(Key::X25519(key));
        }
        if let Ok(key) = line.parse::<age::plugin::Identity>() {
            return Ok(Key::Plugin(key, prompt.clone()));
        }
        let cause = if line.starts_with("age1") || line.starts_with("ssh-") {
            "this is a public key, which opens nothing"
        } else {
            "this is no secret key of age"
        };
        Err(fault(Fault::Keys, format!("{shown}, line {number}"), cause))
    });
    keys.collect()
}

/// What an age file behind a passphrase holds.
fn unlocked(content: &[u8], shown: &str, prompt: &Arc<dyn Prompt>) -> Result<String, Error> {
    let refused = |cause: String| fault(Fault::Keys, shown, cause);
    let sealed = |error: DecryptError| refused(one_line(&error));
    let decryptor = Decryptor::new_buffered(age::armor::ArmoredReader::new(content)).map_err(sealed)?;
    if !decryptor.is_scrypt() {
        return Err(refused("it is an encrypted file, but not one of identities behind a passphrase".to_owned()));
    }
    let passphrase = asked(shown, prompt)?;
    let mut key = age::scrypt::Identity::new(passphrase);
    key.set_max_work_factor(WORK);
    let opened = decryptor.decrypt(std::iter::once(&key as &dyn age::Identity));
    let opened = opened.map_err(|error| match error {
        DecryptError::DecryptionFailed | DecryptError::NoMatchingKeys => refused("the passphrase is wrong".to_owned()),
        error => sealed(error),
    })?;
    let mut text = String::new();
    opened.take(MOST).read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    Ok(text)
}

fn ssh(content: &[u8], shown: &str, prompt: &Arc<dyn Prompt>) -> Result<age::ssh::Identity, Error> {
    let refused = |cause: &str| fault(Fault::Keys, shown, cause);
    let key = age::ssh::Identity::from_buffer(content, None).map_err(|_| refused("this is no secret key of SSH"))?;
    match key {
        age::ssh::Identity::Encrypted(key) => {
            let opened = key.decrypt(asked(shown, prompt)?).map_err(|_| refused("the passphrase is wrong"))?;
            Ok(opened.into())
        }
        age::ssh::Identity::Unsupported(_) => Err(refused("age can't use this kind of key of SSH")),
        key => Ok(key),
    }
}

fn asked(shown: &str, prompt: &Arc<dyn Prompt>) -> Result<SecretString, Error> {
    let passphrase = prompt.passphrase(shown).map(|passphrase| SecretString::from(passphrase.reveal().to_owned()));
    passphrase.ok_or_else(|| fault(Fault::Keys, shown, "it needs a passphrase, and there is no terminal to ask for it"))
}

/// Hands on what a plugin's program asks for.
#[derive(Clone)]
struct Asks(Arc<dyn Prompt>);

impl Callbacks for Asks {
    fn display_message(&self, message: &str) {
        self.0.show(message);
    }

    fn confirm(&self, _message: &str, _yes: &str, _no: Option<&str>) -> Option<bool> {
        None
    }

    fn request_public_string(&self, _description: &str) -> Option<String> {
        None
    }

    fn request_passphrase(&self, description: &str) -> Option<SecretString> {
        self.0.passphrase(description).map(|passphrase| SecretString::from(passphrase.reveal().to_owned()))
    }
}
