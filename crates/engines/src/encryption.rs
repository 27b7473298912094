//! Encryption of vaults as a configuration or a command line asks for it, and where a host keeps its keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use seawall_config::document::{Node, Value};
use seawall_config::{Fields, Location, Problem, absolute};
use seawall_core::{Failure, SystemClock};
use seawall_postgres::physical::base::{InBases, in_bases};
use seawall_vault::{
    Access, Digest, Environment, HostKeys, Identities, NoPrompt, ObjectKey, Prompt, Recipients, Sealing, VaultUrl,
};

use crate::alarms::Place;

/// For whom a vault is encrypted, and what opens all of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The owner's public keys.
    pub recipients: Recipients,
    /// A file with secret keys of the owner, where this process needs them.
    pub identity: Option<PathBuf>,
}

impl Encryption {
    /// Encryption for these recipients, without a key of the owner here.
    pub fn of(recipients: Recipients) -> Self {
        Self { recipients, identity: None }
    }

    /// Takes the key `encryption` of a mapping; relative paths begin at `here`. A key without a value is an error: nothing
    /// that is left out by mistake may switch encryption off.
    ///
    /// # Errors
    /// When it doesn't name recipients, or these can't be read.
    pub fn take(fields: &mut Fields, here: &Path) -> Result<Option<Self>, Location> {
        let Some(node) = fields.take_even_empty("encryption") else { return Ok(None) };
        let mut section = Fields::new("encryption", node)?;
        let missing = section.missing("recipients");
        let node = section.take("recipients").ok_or(missing)?;
        let recipients = recipients(node, here)?;
        let identity = section.text("identity")?.map(|at| absolute(Path::new(&at.value), here));
        section.finish()?;
        Ok(Some(Self { recipients, identity }))
    }
}

/// One recipient, or a list of them.
fn recipients(node: Node, here: &Path) -> Result<Recipients, Location> {
    let line = node.line;
    let expected = || "takes a list of recipients: age1…, ssh-ed25519 … or a file of them".to_owned();
    let wrong = |line, found: &str| {
        Problem::Value { key: "recipients".into(), expected: expected(), found: found.into() }.at(line)
    };
    let nodes = match node.value {
        Value::List(nodes) => nodes,
        Value::Text(_) => vec![node],
        other => return Err(wrong(line, other.shape())),
    };
    let texts = nodes.into_iter().map(|node| match node.value {
        Value::Text(text) => Ok(text),
        other => Err(wrong(node.line, other.shape())),
    });
    let texts: Vec<String> = texts.collect::<Result<_, Location>>()?;
    if texts.is_empty() {
        return Err(wrong(line, "an empty list"));
    }
    Recipients::read(&texts, here).map_err(|error| {
        Problem::Value { key: "recipients".into(), expected: expected(), found: error.to_string() }.at(line)
    })
}

/// The folder for what this host remembers beside no database: of the service, or of the user. `None` if there is neither.
pub fn state_folder(environment: &Environment) -> Option<PathBuf> {
    let variable = |name| environment.get(name).filter(|text| text.starts_with('/')).map(PathBuf::from);
    // systemd gives a service with several state folders a list of them.
    let service = environment.get("STATE_DIRECTORY").and_then(|text| text.split(':').next());
    let state = service.filter(|text| text.starts_with('/')).map(PathBuf::from);
    let state = state.or_else(|| variable("XDG_STATE_HOME").map(|home| home.join("seawall")));
    state.or_else(|| variable("HOME").map(|home| home.join(".local/state/seawall")))
}

/// The folder of the host's keys for a vault whose database has no folder of its own.
pub(crate) fn keys_of(vault: &VaultUrl, environment: &Environment) -> Option<PathBuf> {
    state_folder(environment).map(|state| state.join("keys").join(short_name(vault)))
}

/// The file with the silence of a database that has no folder of its own.
pub(crate) fn silence_of(vault: &VaultUrl, environment: &Environment) -> Option<PathBuf> {
    silence_called(&short_name(vault), environment)
}

/// Where the silence of a folder of databases is on this machine.
pub fn place_of_folder(folder: &Path, environment: &Environment) -> Place {
    Place { state: None, silence: silence_called(&shortened(folder.as_os_str().as_encoded_bytes()), environment) }
}

fn silence_called(name: &str, environment: &Environment) -> Option<PathBuf> {
    state_folder(environment).map(|state| state.join("silences").join(format!("{name}.json")))
}

/// A name for a vault that is one for its URL, and a file's.
fn short_name(vault: &VaultUrl) -> String {
    shortened(vault.to_string().as_bytes())
}

/// A name of a file for `bytes`.
fn shortened(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string().chars().take(16).collect()
}

/// The owner's keys of one process, and whom it asks for a passphrase.
#[derive(Debug)]
pub(crate) struct Owner {
    given: Identities,
    /// Whether they count for a vault of which nothing else is said.
    asked: bool,
    prompt: Arc<dyn Prompt>,
    /// What was read from files that a configuration names.
    read: Mutex<BTreeMap<PathBuf, Identities>>,
}

impl Default for Owner {
    fn default() -> Self {
        Self { given: Identities::none(), asked: false, prompt: Arc::new(NoPrompt), read: Mutex::default() }
    }
}

impl Owner {
    /// The keys of this file. `asked` says that the user named the file for this command.
    pub(crate) fn new(file: Option<&Path>, asked: bool, prompt: Arc<dyn Prompt>) -> Result<Self, Failure> {
        let given = file.map(|file| Identities::read(file, &prompt)).transpose()?.unwrap_or_default();
        Ok(Self { given, asked, prompt, read: Mutex::default() })
    }

    /// Whether there is any key for this process.
    pub(crate) fn any(&self) -> bool {
        !self.given.is_empty()
    }

    /// How a vault alone is opened: as an encrypted one, if there is any key.
    pub(crate) fn alone(&self) -> Access {
        match self.given.is_empty() {
            true => Access::Plain,
            false => {
                let keys = HostKeys::new(None, Arc::new(SystemClock));
                Access::Sealed(sealing(None, self.given.clone(), keys))
            }
        }
    }

    /// How the place of a copy is written that is encrypted like this. Once the copy is whole, [`Sealing::forget_copy`] removes the
    /// keys of this host that open it.
    pub(crate) fn of_a_copy(&self, encryption: &Encryption, folder: Option<PathBuf>) -> Result<Arc<Sealing>, Failure> {
        let keys = HostKeys::new(folder, Arc::new(SystemClock)).of_a_copy();
        Ok(sealing(Some(encryption.recipients.clone()), self.identities(encryption)?, keys))
    }

    fn identities(&self, encryption: &Encryption) -> Result<Identities, Failure> {
        match &encryption.identity {
            Some(file) if self.given.is_empty() => self.read(file),
            _ => Ok(self.given.clone()),
        }
    }

    /// How the vault of a database is opened that is encrypted like this. The host's keys are in `folder`.
    pub(crate) fn of(&self, encryption: Option<&Encryption>, folder: Option<PathBuf>) -> Result<Access, Failure> {
        match encryption {
            Some(encryption) => {
                let keys = HostKeys::new(folder, Arc::new(SystemClock));
                let identities = self.identities(encryption)?;
                Ok(Access::Sealed(sealing(Some(encryption.recipients.clone()), identities, keys)))
            }
            None if self.asked => Ok(self.alone()),
            None => Ok(Access::Plain),
        }
    }

    fn read(&self, file: &Path) -> Result<Identities, Failure> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identities) = read.get(file) {
            return Ok(identities.clone());
        }
        let identities = Identities::read(file, &self.prompt)?;
        read.insert(file.to_owned(), identities.clone());
        Ok(identities)
    }
}

fn sealing(recipients: Option<Recipients>, identities: Identities, keys: HostKeys) -> Arc<Sealing> {
    Arc::new(Sealing::new(recipients, identities, keys).lasting(is_lasting))
}

/// Which objects this host reads as long as they exist.
fn is_lasting(key: &ObjectKey) -> bool {
    seawall_archive::is_link(key)
        || seawall_archive::log::is_lasting(key)
        || is_manifest(key)
        || seawall_sqlite::is_record(key)
}

/// Whether an object is the manifest of a cluster's base: it names files and settings, and holds no content. Retention and the next base
/// read it.
fn is_manifest(key: &ObjectKey) -> bool {
    matches!(in_bases(key.as_str()), Some((_, _, InBases::Manifest(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

    fn take(text: &str) -> Result<Option<Vec<String>>, String> {
        let tree = seawall_config::document::parse(text).expect("a document");
        let mut fields = Fields::new("the top level", tree).expect("a mapping");
        let taken = Encryption::take(&mut fields, Path::new("/no/such/folder"));
        taken.map(|found| found.map(|found| found.recipients.names())).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_typo_never_switches_it_off() {
        assert_eq!(take("vault: x\n"), Ok(None));
        for good in [format!("encryption: {{ recipients: [{ONE}] }}"), format!("encryption: {{ recipients: {ONE} }}")] {
            assert_eq!(take(&good), Ok(Some(vec![ONE.to_owned()])), "{good}");
        }
        for bad in [
            "encryption:\n",
            "encryption: {}\n",
            "encryption: true\n",
            "encryption: { recipients: }\n",
            "encryption: { recipients: [] }\n",
            "encryption: { recipients: {} }\n",
            "encryption: { recipients: [[a]] }\n",
            "encryption: { recipients: [keys.txt] }\n",
            "encryption: { recipients: [age1nonsense] }\n",
            "encryption: { identity: x }\n",
            &format!("encryption: {{ recipient: [{ONE}] }}\n"),
            &format!("encryption: {{ recipients: [{ONE}], identitty: x }}\n"),
        ] {
            assert!(take(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_a_host_remembers() {
        for (variables, expected) in [
            (&[("STATE_DIRECTORY", "/var/lib/seawall:/x"), ("HOME", "/h")][..], Some("/var/lib/seawall")),
            (&[("XDG_STATE_HOME", "/state"), ("HOME", "/h")], Some("/state/seawall")),
            (&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")], Some("/h/.local/state/seawall")),
            (&[], None),
        ] {
            let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(state_folder(&environment), expected.map(PathBuf::from), "{variables:?}");
        }
    }
}
