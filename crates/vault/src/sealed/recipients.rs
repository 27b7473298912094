//! For whom objects are encrypted: the owner's public keys, as text or as a file of them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use age::{NoCallbacks, Recipient as _};
use age_core::format::{FileKey, Stanza};

use super::{Fault, fault};
use crate::Error;

/// The most bytes of a file of recipients, or of one of identities.
pub(super) const MOST: u64 = 1 << 20;

/// The most recipients of a vault.
const MANY: usize = 64;

/// Public keys, each once, in the order of their texts. Never none.
#[derive(Clone)]
pub struct Recipients(BTreeMap<String, Recipient>);

#[derive(Clone)]
enum Recipient {
    X25519(age::x25519::Recipient),
    Ssh(age::ssh::Recipient),
    Plugin(age::plugin::Recipient),
}

impl Recipients {
    /// Reads recipients: `age1…`, `ssh-ed25519 …`, `ssh-rsa …`, or paths of files with one in each line. Relative paths
    /// begin at `base`. Blocks.
    ///
    /// # Errors
    /// Something is no recipient, or there is none.
    pub fn read<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, base: &Path) -> Result<Self, Error> {
        let mut found = BTreeMap::new();
        for text in texts {
            let text = text.as_ref().trim();
            if ["age1", "ssh-"].iter().any(|begin| text.starts_with(begin)) || is_secret(text) {
                let (name, recipient) = parse(text, text)?;
                found.insert(name, recipient);
                continue;
            }
            let path = base.join(text);
            let shown = path.display().to_string();
            let content = read_file(&path)?;
            let before = found.len();
            let lines = content.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
            for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
                let (name, recipient) = parse(line, &format!("{shown}, line {number}"))?;
                found.insert(name, recipient);
            }
            if found.len() == before && content.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
                return Err(fault(Fault::Keys, shown, "there is no recipient in the file"));
            }
        }
        Self::of(found)
    }

    fn of(found: BTreeMap<String, Recipient>) -> Result<Self, Error> {
        match found.len() {
            0 => Err(fault(Fault::Keys, "recipients", "there is none")),
            1..=MANY => Ok(Self(found)),
            many => Err(fault(Fault::Keys, "recipients", format!("{many} are too many; {MANY} may be"))),
        }
    }

    /// Their texts: what may be shown and compared.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// These and others together.
    pub fn and(&self, others: &Recipients) -> Result<Self, Error> {
        Self::of(self.0.iter().chain(&others.0).map(|(name, one)| (name.clone(), one.clone())).collect())
    }

    /// These without those of these texts.
    pub fn without(&self, names: &[String]) -> Result<Self, Error> {
        Self::of(
            self.0.iter().filter(|(name, _)| !names.contains(name)).map(|(n, one)| (n.clone(), one.clone())).collect(),
        )
    }

    /// Whether wrapping a key starts a program.
    pub(super) fn start_programs(&self) -> bool {
        self.0.values().any(|one| matches!(one, Recipient::Plugin(_)))
    }

    /// The stanzas that hold a file key for each of them.
    pub(super) fn wrap(&self, file: &FileKey) -> Result<Vec<Stanza>, Error> {
        let mut stanzas = Vec::with_capacity(self.0.len() + 1);
        for (name, recipient) in &self.0 {
            let wrapped = match recipient {
                Recipient::X25519(recipient) => recipient.wrap_file_key(file),
                Recipient::Ssh(recipient) => recipient.wrap_file_key(file),
                Recipient::Plugin(recipient) => {
                    let one = std::slice::from_ref(recipient);
                    age::plugin::RecipientPluginV1::new(recipient.plugin(), one, &[], NoCallbacks)
                        .and_then(|plugin| plugin.wrap_file_key(file))
                }
            };
            let (mut found, labels) = wrapped.map_err(|error| fault(Fault::Keys, name, one_line(&error)))?;
            if !labels.is_empty() {
                let cause = "this kind of key asks not to be used beside others, as the host's own key is";
                return Err(fault(Fault::Keys, name, cause));
            }
            stanzas.append(&mut found);
        }
        Ok(stanzas)
    }
}

impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl PartialEq for Recipients {
    fn eq(&self, other: &Self) -> bool {
        self.0.keys().eq(other.0.keys())
    }
}

impl Eq for Recipients {}

fn is_secret(text: &str) -> bool {
    text.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("AGE-"))
}

/// One recipient. `shown` says where it was read.
fn parse(text: &str, shown: &str) -> Result<(String, Recipient), Error> {
    // A secret key in the place of a public one must not be shown, nor be used.
    if is_secret(text) {
        let cause = "this is a secret key; give its public key, which `age-keygen -y` prints";
        return Err(fault(Fault::Keys, "recipients", cause));
    }
    let refused = |cause: &str| fault(Fault::Keys, shown, cause);
    if text.starts_with("ssh-") {
        // Without the comment, which isn't part of the key.
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        let text = words.join(" ");
        let recipient: age::ssh::Recipient =
            text.parse().map_err(|_| refused("this is no public key of SSH that age knows: ssh-ed25519 or ssh-rsa"))?;
        return Ok((text, Recipient::Ssh(recipient)));
    }
    if let Ok(recipient) = text.parse::<age::x25519::Recipient>() {
        return Ok((recipient.to_string(), Recipient::X25519(recipient)));
    }
    if let Ok(recipient) = text.parse::<age::plugin::Recipient>() {
        return Ok((recipient.to_string(), Recipient::Plugin(recipient)));
    }
    Err(refused("this is no recipient: age1…, ssh-ed25519 … or ssh-rsa …"))
}

pub(super) fn read_file(path: &Path) -> Result<String, Error> {
    let shown = path.display().to_string();
    let refused = |cause: String| fault(Fault::Keys, &shown, cause);
    let size = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?.len();
    if size > MOST {
        return Err(refused(format!("it has {size} bytes, which no file of keys has")));
    }
    std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))
}

/// The first line of an error, which goes on with advice of its own.
pub(super) fn one_line(error: &impl fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    const SSH: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN";

    fn read(texts: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("keys"), format!("# ours\n\n{ONE}\n{SSH} somebody@host\n")).expect("written");
        std::fs::write(folder.path().join("none"), "# nothing\n").expect("written");
        std::fs::write(folder.path().join("bad"), format!("{ONE}\nrubbish\n")).expect("written");
        let found = Recipients::read(texts, folder.path());
        found.map(|found| found.names()).map_err(|error| error.to_string())
    }

    #[test]
    fn texts_and_files() {
        assert_eq!(read(&[ONE]), Ok(vec![ONE.to_owned()]));
        assert_eq!(read(&["keys"]), Ok(vec![ONE.to_owned(), SSH.to_owned()]));
        assert_eq!(read(&[&format!("{SSH} a comment"), "keys", ONE]), Ok(vec![ONE.to_owned(), SSH.to_owned()]));
        for (bad, said) in [
            (&[][..], "there is none"),
            (&["none"][..], "no recipient in the file"),
            (&["bad"][..], "line 2"),
            (&["missing"][..], "No such file"),
            (&["age1nonsense"][..], "age1nonsense: this is no recipient"),
            (&["ssh-dss AAAA"][..], "ssh-ed25519 or ssh-rsa"),
        ] {
            let error = read(bad).expect_err("refused");
            assert!(error.contains(said), "{bad:?}: {error}");
        }
    }

    #[test]
    fn a_secret_key_is_not_shown() {
        let secret = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";
        for text in [secret.to_owned(), secret.to_lowercase()] {
            let error = read(&[&text]).expect_err("refused");
            assert!(!error.to_uppercase().contains("1GQ9778"), "{error}");
        }
    }
}
