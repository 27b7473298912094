//! `seawall vault init`: make an encrypted vault, and prove that its key opens it.
//!
//! The order: look at the place, write the key's file, read that file again, write the marker and the canary, read the
//! canary with the keys of the file. So whatever is left after a crash, the same command goes on with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_agent::{Opener, VaultUrl};
use seawall_core::{Clock as _, Failure, SystemClock};
use seawall_vault::canary::{self, Found, Left};
use seawall_vault::{Access, HostKeys, Identities, Prompt, Recipients, Sealing, Vault};
use serde_json::json;

use crate::arguments::VaultInitArguments;
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::prompt::Terminal;
use crate::{runtime, server};

/// Runs the command.
pub(crate) fn run(arguments: &VaultInitArguments, edge: &Edge) -> Result<Output, Failure> {
    if arguments.generate && edge.identity.is_some() {
        let next = "name the file for the new key with -o; for a key that exists, give --recipient";
        return Err(usage("usage.arguments", "--identity", "--generate makes a new key", next));
    }
    let url = server::place(&arguments.vault, edge)?;
    let opener = Opener::new(edge.environment.clone(), 1);
    runtime::run(async {
        let names = opener.vault_with(&url, Access::Names).await?;
        let found = Found::look(&names).await?;
        let keys = match arguments.generate {
            true => Keys::generated(&found, &names, &edge.absolute(&arguments.identity_out))?,
            false => Keys::given(arguments, edge)?,
        };
        let place = Place { opener: &opener, url: &url };
        let left = found.left(Some(&keys.recipients.names()), names.url())?;
        place.complete(left, &keys.recipients).await?;
        if !keys.identities.is_empty() {
            let sealing = Sealing::new(None, keys.identities.clone(), no_host_keys());
            canary::prove(&place.open(sealing).await?).await?;
        }
        Ok(report(names.url(), left, &keys))
    })
}

/// The keys of the vault's owner.
struct Keys {
    recipients: Recipients,
    /// Read from the file. None, if only public keys are here.
    identities: Identities,
    file: Option<PathBuf>,
    /// Whether the file was made by this command.
    made: bool,
}

impl Keys {
    /// A new key in a new file; the key of the file, if an earlier call made it for the same vault.
    fn generated(found: &Found, names: &Vault, file: &Path) -> Result<Self, Failure> {
        let made = match Identities::is_made_for(file, names.url())? {
            None => {
                found.left(None, names.url())?;
                Identities::create(file, names.url(), SystemClock.now())?;
                true
            }
            Some(true) => false,
            Some(false) => {
                let cause =
                    "there is a file already, and it isn't a key of this vault: no key is written over anything";
                let next = "name another file with -o, or give the public key of the present file with --recipient";
                return Err(usage("vault.key-file", &file.display().to_string(), cause, next));
            }
        };
        // As it is on the disk, and not as it was meant to be.
        let identities = read(file)?;
        let recipients = Recipients::read(identities.public(), Path::new(""))?;
        Ok(Self { recipients, identities, file: Some(file.to_owned()), made })
    }

    fn given(arguments: &VaultInitArguments, edge: &Edge) -> Result<Self, Failure> {
        let recipients = Recipients::read(&arguments.recipient, &edge.directory)?;
        let file = edge.identity_file();
        let identities = file.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Self { recipients, identities, file, made: false })
    }
}

fn read(file: &Path) -> Result<Identities, Failure> {
    let prompt: Arc<dyn Prompt> = Arc::new(Terminal);
    Ok(Identities::read(file, &prompt)?)
}

/// No key of a host, so that what is read is read with the owner's keys.
fn no_host_keys() -> HostKeys {
    HostKeys::new(None, Arc::new(SystemClock))
}

struct Place<'a> {
    opener: &'a Opener,
    url: &'a VaultUrl,
}

impl Place<'_> {
    async fn open(&self, sealing: Sealing) -> Result<Vault, Failure> {
        self.opener.vault_with(self.url, Access::Sealed(Arc::new(sealing))).await
    }

    async fn complete(&self, left: Left, recipients: &Recipients) -> Result<(), Failure> {
        if left == Left::Nothing {
            return Ok(());
        }
        let vault = self.open(Sealing::new(Some(recipients.clone()), Identities::none(), no_host_keys())).await?;
        if vault.needs_probe() {
            vault.probe().await?;
        }
        Ok(canary::write(&vault).await?)
    }
}

fn report(vault: &str, left: Left, keys: &Keys) -> Output {
    let names = keys.recipients.names();
    let file = keys.file.as_ref().map(|file| file.display().to_string());
    let done = match left {
        Left::Everything => "made",
        Left::Canary => "completed",
        Left::Nothing => "already there",
    };
    let mut text = format!("{vault}: encrypted vault, {done}\n");
    names.iter().for_each(|name| text.push_str(&format!("recipient: {name}\n")));
    match &file {
        Some(file) => text.push_str(&format!(
            "proved: the key in {file}, as it is on this disk, opened {}\n\n\
             Keep {file}: without it nothing in this vault can be read, and the key can't be made again.\n  \
             1. Copy it to two places that are neither this host nor the vault: a password manager, paper, a second person.\n  \
             2. Remove it from this host. Seawall doesn't need it to write.\n\
             The recipient is no secret: name it with --recipient, or under `encryption.recipients` in the configuration.\n",
            canary::NAME
        )),
        None => text.push_str(&format!(
            "not proved: no key was given, so it isn't known whether anybody can read this vault\n\
             To prove it, where the key is: seawall vault init {vault}{} --identity FILE\n",
            names.iter().map(|name| format!(" --recipient '{name}'")).collect::<String>()
        )),
    }
    let json = json!({
        "vault": vault,
        "done": done.replace(' ', "-"),
        "recipients": names,
        "canary": canary::NAME,
        "proved": file.is_some(),
        "identity": file,
        "identity_made": keys.made,
    });
    Output::done(text, &json)
}
