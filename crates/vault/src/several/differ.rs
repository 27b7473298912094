//! Finds at a start which vaults differ: they hold what isn't of this database's history.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use super::compare::PAGE;
use super::decide::{Fact, Proof, differing};
use super::judge::{Question, Stranger};
use super::members::Shared;
use super::prints::{Held, Newest, held};
use super::question::another;
use super::record::{self, Record};
use crate::{Error, ObjectKey, Vault};

/// How long one vault may take to show whether its objects belong to the history of another.
const PATIENCE: Duration = Duration::from_secs(30);

/// For each vault the error if it differs. Vaults that can't lead anyhow aren't looked at here: they are when they catch up.
pub(super) async fn differ(shared: &Shared, facts: &[Fact], before: Option<&Record>) -> Vec<Option<Error>> {
    let newest = before.map(|before| Newest::from_noted(&before.newest)).unwrap_or_default();
    let unrecorded = facts.iter().all(|fact| fact.recorded.is_none());
    let mut errors: Vec<Option<Error>> = facts.iter().map(|_| None).collect();
    let mut proofs = Vec::new();
    for (i, fact) in facts.iter().enumerate() {
        let leads = fact.seen.is_some() && (unrecorded || fact.recorded == Some(true));
        proofs.push(match leads {
            true => {
                let (proof, error) = proof_of(shared.vault(i), &newest, before).await;
                errors[i] = error;
                Some(proof)
            }
            false => None,
        });
    }
    let accused = accused(shared, facts, &proofs, &mut errors).await;
    let differs = differing(&proofs, &accused);
    // All that are there hold another object. One that is away may be the only one that holds the acknowledged one.
    let all_other = proofs.iter().flatten().all(|proof| *proof == Proof::Other) && proofs.iter().any(Option::is_some);
    let away = facts.iter().any(|fact| fact.seen.is_none() && fact.recorded == Some(true));
    let differs = |i: usize| differs.get(i).copied().unwrap_or(false) || (all_other && away && proofs[i].is_some());
    errors.into_iter().enumerate().map(|(i, error)| error.filter(|_| differs(i))).collect()
}

/// What a vault holds of the newest acknowledged objects.
async fn proof_of(vault: &Vault, newest: &Newest, before: Option<&Record>) -> (Proof, Option<Error>) {
    let mut proof = Proof::Unknown;
    let cut_off = |key: &ObjectKey| before.is_some_and(|before| before.unfinished.contains_key(key.as_str()));
    for (key, print) in newest.all().filter(|(key, _)| !cut_off(key)) {
        // A vault that doesn't answer now shows that at the next request.
        match timeout(PAGE, held(vault, key, print)).await {
            Ok(Ok(Held::Same)) => proof = Proof::Holds,
            Ok(Ok(Held::Other)) => return (Proof::Other, Some(another(vault, key))),
            Ok(Ok(Held::Gone | Held::Locked) | Err(_)) | Err(_) => {}
        }
    }
    (proof, None)
}

/// Which vault has objects that aren't of the history of which other one.
async fn accused(
    shared: &Shared,
    facts: &[Fact],
    proofs: &[Option<Proof>],
    errors: &mut [Option<Error>],
) -> Vec<Vec<bool>> {
    let mut accused = vec![vec![false; facts.len()]; facts.len()];
    let Some(judge) = &shared.judge else { return accused };
    for (i, fact) in facts.iter().enumerate().filter(|(i, _)| proofs[*i].is_some()) {
        for j in (0..facts.len()).filter(|j| *j != i && proofs[*j].is_some()) {
            let names =
                fact.seen.as_ref().and_then(|seen| seen.odd.get(j)).map(super::decide::Odd::names).unwrap_or_default();
            if names.is_empty() {
                continue;
            }
            let question = Question {
                suspect: shared.vault(i),
                names: &names,
                sound: shared.vault(j),
                recorded: proofs[j] == Some(Proof::Holds),
                older_stay: fact.keeps,
                complete: false,
            };
            match timeout(PATIENCE, judge.stranger(question)).await {
                Ok(Ok(Some(stranger))) => {
                    accused[i][j] = true;
                    errors[i].get_or_insert_with(|| strange(shared, i, &stranger));
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(vault = shared.vault(i).url(), "it can't be judged now: {error}"),
                Err(_) => tracing::warn!(vault = shared.vault(i).url(), "it can't be judged now: no answer in time"),
            }
        }
    }
    accused
}

/// The error of a vault with a stranger in it.
pub(super) fn strange(shared: &Shared, i: usize, stranger: &Stranger) -> Error {
    Error::Differs { object: shared.vault(i).object(&stranger.key), cause: stranger.why.clone() }
}

/// What a vault shows of the history that a record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belongs {
    /// It holds the newest acknowledged objects.
    Yes,
    /// It holds another object under the name of one.
    No(Error),
    /// It holds none of them, or there is no record.
    Unknown,
}

/// Whether a vault holds what the record at `path` acknowledges. `vault` names objects as the first vault does.
pub async fn belongs(path: &Path, vault: &Vault) -> Belongs {
    let path = path.to_owned();
    let Ok(Ok(Some(record))) = tokio::task::spawn_blocking(move || record::load(&path)).await else {
        return Belongs::Unknown;
    };
    let newest = Newest::from_noted(&record.newest);
    match proof_of(vault, &newest, Some(&record)).await {
        (Proof::Holds, _) => Belongs::Yes,
        (_, Some(error)) => Belongs::No(error),
        (Proof::Other | Proof::Unknown, None) => Belongs::Unknown,
    }
}
