//! `seawall vault rekey`: give an encrypted vault other recipients.

use std::path::Path;
use std::sync::Arc;

use seawall_agent::Opener;
use seawall_core::Failure;
use seawall_vault::rekey::{self, Change, Rekeyed};
use seawall_vault::{Access, Identities, Prompt, Recipients};
use serde_json::json;

use crate::arguments::VaultRekeyArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::Output;
use crate::progress::progress;
use crate::prompt::Terminal;
use crate::{runtime, server, table};

/// Runs the command.
pub(crate) fn run(arguments: &VaultRekeyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let change = change(arguments, edge)?;
    let Some(file) = edge.identity_file() else {
        let cause = "the headers of a vault are rewritten with a key that opens them";
        return Err(usage("usage.arguments", "--identity", cause, "give --identity FILE, or SEAWALL_IDENTITY_FILE"));
    };
    let prompt: Arc<dyn Prompt> = Arc::new(Terminal);
    let identities = Identities::read(&file, &prompt)?;
    let url = server::place(&arguments.vault, edge)?;
    let opener = Opener::new(edge.environment.clone(), 1);
    let progress = progress(edge, json);
    runtime::run(async {
        let raw = opener.vault_with(&url, Access::Names).await?;
        let done = rekey::run(&raw, &identities, &change, &*progress).await?;
        Ok(report(raw.url(), &change, &done, &file))
    })
}

fn change(arguments: &VaultRekeyArguments, edge: &Edge) -> Result<Change, Failure> {
    let recipients = Recipients::read(&arguments.recipient, &edge.directory)?;
    let removed = match &arguments.remove[..] {
        [] => None,
        texts => Some(Recipients::read(texts, &edge.directory)?),
    };
    let stays = recipients.names();
    if let Some(both) = removed.iter().flat_map(Recipients::names).find(|name| stays.contains(name)) {
        let next =
            "--recipient names each recipient of the new list, and --remove each recipient that the new list lacks";
        return Err(usage("usage.arguments", &both, "the recipient is to stay, and to be removed", next));
    }
    Ok(Change { recipients, removed, rewrite: arguments.rewrite })
}

fn report(vault: &str, change: &Change, done: &Rekeyed, file: &Path) -> Output {
    let names = change.recipients.names();
    let json = json!({
        "vault": vault,
        "recipients": names,
        "added": done.added,
        "removed": done.removed,
        "rewrite": change.rewrite,
        "records": done.records,
        "rewritten": done.rewritten,
        "already": done.already,
        "left": done.left,
        "failures": done.failures,
        "proved": done.proved,
        "versions": done.protection.versions,
        "locks": done.protection.locks,
    });
    Output {
        text: text(vault, change, done, file),
        failures: done.failures.clone(),
        json,
        exit: Exit::judge(done.left == 0, true),
    }
}

fn text(vault: &str, change: &Change, done: &Rekeyed, file: &Path) -> String {
    let removed = change.removed.as_ref().map(Recipients::names).unwrap_or_default();
    let mut text = format!("{vault}: encrypted vault, for these recipients from now on\n");
    change.recipients.names().iter().for_each(|name| {
        let new = if done.added.contains(name) { "  (new)" } else { "" };
        text += &format!("  {name}{new}\n");
    });
    removed.iter().for_each(|name| text += &format!("  not for {name}\n"));
    let count = |number: u64, thing: &str| table::count(usize::try_from(number).unwrap_or(usize::MAX), thing);
    text += &match change.rewrite {
        true => format!(
            "{} rewritten, {} for this list already, {} left as they are\n",
            count(done.rewritten, "object"),
            done.already,
            done.left
        ),
        false => {
            "objects that were there are for the recipients of before. With --rewrite they are for the new list, too\n"
                .to_owned()
        }
    };
    text += &match done.proved {
        true => format!("proved: {} opens what is written from now on\n", file.display()),
        false => format!("not proved: no key in {} is of the new list\n", file.display()),
    };
    text += "\nA process that was started for another list stops writing within a minute (vault.recipients), and keeps what it \
             has to send.\nName the new list in its configuration, and start it again.\n";
    if change.rewrite {
        text += "Then run this command once more: it rewrites what such a process wrote meanwhile.\n";
    }
    if !removed.is_empty() {
        text += &cannot(change.rewrite, done);
    }
    text
}

/// What removing a recipient can't do.
fn cannot(rewritten: bool, done: &Rekeyed) -> String {
    let mut text =
        "\nA removed key still opens copies. Its holder may have read and copied everything until now, and opens each \
                    such copy.\n"
            .to_owned();
    if !rewritten {
        text += "It also opens each object that was in the vault before, because none was rewritten.\n";
    }
    match (done.protection.versions, done.protection.locks) {
        (Some(true), locks) => {
            text += "The bucket keeps earlier versions of its objects. The removed key opens those, until they are deleted.\n";
            if locks == Some(true) {
                text += "Locked versions can't be deleted before their lock ends: a rewritten object is a new version beside them.\n";
            }
        }
        (None, _) => {
            text += "If the place keeps earlier versions of its objects, the removed key opens those, until they are deleted.\n"
        }
        (Some(false), _) => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use seawall_vault::Protection;

    use super::*;

    #[test]
    fn what_removing_can_not_do_is_said() {
        let done =
            |versions, locks| Rekeyed { protection: Protection { versions, locks, each: None }, ..Rekeyed::default() };
        for (rewritten, versions, locks, said) in [
            (true, Some(false), Some(false), [false, false, false]),
            (false, Some(false), None, [true, false, false]),
            (true, None, None, [false, true, false]),
            (true, Some(true), Some(false), [false, true, false]),
            (true, Some(true), Some(true), [false, true, true]),
        ] {
            let text = cannot(rewritten, &done(versions, locks));
            assert!(text.contains("copied everything"), "{text}");
            let found = ["none was rewritten", "earlier versions", "Locked versions"].map(|part| text.contains(part));
            assert_eq!(found, said, "{versions:?} {locks:?}");
        }
    }
}
