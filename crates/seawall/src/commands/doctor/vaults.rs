//! The checks of the vaults: each is tried out once, with a few small objects.

use std::collections::BTreeMap;
use std::path::Path;

use seawall_agent::config::{Config, DatabaseConfig};
use seawall_agent::{Opener, VaultUrl};
use seawall_core::{Failure, SystemClock};
use seawall_vault::trial::{self, Effort, Finding as Ability, Trial};
use seawall_vault::{Access, FileStore};

use super::finding::Finding;
use super::places::{Away, each, place};
use crate::commands::vault::probe::SAME_CLOCK_MS;
use crate::edge::Edge;
use crate::runtime;

/// S3 refuses requests whose clock differs by this.
const REFUSED_CLOCK_MS: u64 = 900_000;

/// Tries out each vault of the configuration. Places that turn out to be away are added to `away`.
///
/// # Errors
/// When the command is interrupted.
pub(super) fn of_all(config: &Config, edge: &Edge, away: &mut Away) -> Result<Vec<Finding>, Failure> {
    // An encrypted vault is tried without any key.
    let opener = Opener::new(edge.environment.clone(), 1);
    let of_database = |database: &DatabaseConfig| {
        let notes = opener.place_here(database).vault_notes();
        std::iter::once(database.vault.clone())
            .chain(database.beside.iter().map(|beside| beside.url.clone()))
            .map(|url| (url, notes.clone()))
            .collect::<Vec<_>>()
    };
    let (mut unique, mut gone) = (BTreeMap::new(), BTreeMap::new());
    for (url, notes) in config.databases.iter().flat_map(of_database) {
        if let Some(failure) = vanished(&url, notes.as_deref()) {
            gone.insert(url.to_string(), failure);
        }
        unique.insert(url.to_string(), url);
    }
    unique.retain(|shown, _| !gone.contains_key(shown));
    let (urls, missing): (Vec<(String, VaultUrl)>, Vec<_>) = unique.into_iter().partition(|(_, url)| is_there(url));
    let try_out = async |(_, url): &(String, VaultUrl)| {
        let names = opener.vault_with(url, Access::Names).await?;
        Ok(trial::run(&names, Effort { rounds: 1, size: 0, lanes: 1 }, &SystemClock).await?)
    };
    let tried = runtime::run(async { Ok(each(&urls, |(_, url)| place(url), away, try_out).await) })?;
    let tried = urls.iter().zip(tried).flat_map(|((shown, _), tried)| of_one(shown, tried));
    let gone = gone.into_iter().flat_map(|(shown, failure)| of_one(&shown, Err(failure)));
    Ok(tried.chain(missing.iter().map(|(shown, _)| of_missing(shown))).chain(gone).collect())
}

/// Why a folder isn't tried out that this machine wrote to before, and that isn't there: a trial would make it.
fn vanished(url: &VaultUrl, notes: Option<&Path>) -> Option<Failure> {
    let (VaultUrl::File(folder), Some(notes)) = (url, notes) else { return None };
    FileStore::check_remembered(folder, notes).err().map(Failure::from)
}

/// Whether a vault may be tried out. To write into a folder that is missing would make it: beside a disk that isn't mounted, where a
/// process would then begin the vault anew.
fn is_there(url: &VaultUrl) -> bool {
    match url {
        VaultUrl::File(folder) => folder.try_exists().unwrap_or(true),
        _ => true,
    }
}

fn of_missing(vault: &str) -> Finding {
    let meaning = "the folder isn't there; the first start makes it, wherever its path leads then";
    let next =
        "mount the disk of the vault if it isn't mounted; a new vault needs nothing more than: seawall replicate";
    Finding::warning("vault", vault, meaning, next)
}

fn of_one(vault: &str, tried: Result<Trial, Failure>) -> Vec<Finding> {
    const CHECK: &str = "vault";
    let trial = match tried {
        Ok(trial) => trial,
        Err(failure) => {
            let meaning = format!("{} ({})", failure.cause, failure.code);
            return vec![Finding::wrong(CHECK, vault, meaning, failure.next)];
        }
    };
    let mut found = Vec::new();
    let probe = format!("seawall vault probe '{vault}'");
    for (what, ability) in [("write", &trial.write), ("read", &trial.read)] {
        if let Ability::No(why) = ability {
            found.push(Finding::wrong(CHECK, vault, format!("these credentials can't {what} there: {why}"), &probe));
        }
    }
    for (what, ability, effect) in [
        ("list", &trial.list, "a restart without its state record begins with a complete copy"),
        ("delete", &trial.delete, "retention deletes nothing, and the vault grows"),
    ] {
        if let Ability::No(why) = ability {
            let next = format!("allow it, or rely on the store's own expiry (docs/operating.md): {probe}");
            found.push(Finding::warning(
                CHECK,
                vault,
                format!("these credentials can't {what} there, so {effect}: {why}"),
                next,
            ));
        }
    }
    for limit in &trial.limits {
        let meaning = format!("the store has no {}: {}", limit.lacks, limit.effect);
        found.push(Finding::warning(CHECK, vault, meaning, &probe));
    }
    if let Some(ahead) = trial.clock_ahead_ms {
        found.extend(of_clock(vault, ahead));
    }
    if found.is_empty() {
        found.push(Finding::fine(CHECK, vault, "a small object was written, read and deleted there"));
    }
    found
}

/// The clock of this machine, which the store's clock is ahead of by so much.
fn of_clock(vault: &str, ahead_ms: i64) -> Option<Finding> {
    let differs = ahead_ms.unsigned_abs();
    let (before, seconds) = (if ahead_ms > 0 { "behind" } else { "ahead of" }, differs / 1000);
    let meaning = format!("this machine's clock is {seconds} s {before} the clock of {vault}");
    let next = "set the clock: timedatectl set-ntp true";
    match differs {
        ..SAME_CLOCK_MS => None,
        SAME_CLOCK_MS..REFUSED_CLOCK_MS => {
            let meaning = format!("{meaning}; the moments of points are wrong by as much");
            Some(Finding::warning("clock", "this machine", meaning, next))
        }
        _ => Some(Finding::wrong("clock", "this machine", format!("{meaning}; S3 refuses such requests"), next)),
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::Kind;

    use super::super::finding::Verdict::{Fine, Warning, Wrong};
    use super::*;

    #[test]
    fn what_a_trial_means() {
        let no = || Ability::No("403".to_owned());
        let good = || Trial {
            write: Ability::Yes,
            read: Ability::Yes,
            list: Ability::Yes,
            delete: Ability::Yes,
            ..Trial::default()
        };
        let failure = Failure::new(Kind::Unavailable, "vault.unavailable", "/v", "away", "wait");
        for (tried, expected) in [
            (Ok(good()), Fine),
            (Ok(Trial { write: no(), ..good() }), Wrong),
            (Ok(Trial { read: no(), ..good() }), Wrong),
            (Ok(Trial { list: no(), ..good() }), Warning),
            (Ok(Trial { delete: no(), ..good() }), Warning),
            (Ok(Trial { clock_ahead_ms: Some(-6_000), ..good() }), Warning),
            (Err(failure), Wrong),
        ] {
            let found = of_one("file:///v", tried);
            assert_eq!(found.iter().map(|finding| finding.verdict).collect::<Vec<_>>(), [expected], "{found:?}");
        }
    }

    #[test]
    fn borders_of_the_clock() {
        for (ahead, expected) in [
            (0, None),
            (4_999, None),
            (5_000, Some(Warning)),
            (-899_999, Some(Warning)),
            (900_000, Some(Wrong)),
            (i64::MIN, Some(Wrong)),
        ] {
            assert_eq!(of_clock("v", ahead).map(|finding| finding.verdict), expected, "{ahead}");
        }
    }
}
