//! Finds at a start which vaults differ: they hold what isn't of this database's history.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use super::compare::PAGE;
use super::decide::{Fact, Proof, Seen, differing, proof};
use super::judge::{Newer, Question, Stranger};
use super::kin::{Kin, holds_more, kin_of};
use super::members::{Shared, is_other_vault};
use super::prints::{Held, Newest, held, later};
use super::question::another;
use super::record::{Noted, Record};
use crate::{Error, ObjectKey, Vault};

/// How long one vault may take to show whether its objects belong to the history of another.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is known of the vaults.
pub(super) struct Judged {
    /// For each vault the error if it differs.
    pub(super) errors: Vec<Option<Error>>,
    /// Which of them lack what the record acknowledges.
    pub(super) lost: Vec<bool>,
    /// Which of them nothing shows to continue what another one holds, which the record knows.
    pub(super) doubted: Vec<bool>,
    /// Which of them have later names alone, and nothing shows whose.
    pub(super) unproved: Vec<bool>,
    /// What each of them lacks of the newest names that the record has, and what another process may have deleted on purpose.
    pub(super) gone: Vec<Vec<ObjectKey>>,
}

/// What a vault shows of the newest acknowledged objects.
#[derive(Debug)]
struct Shown {
    proof: Proof,
    /// The error of a vault that holds another object.
    error: Option<Error>,
    /// Names that it lacks, and that another process may have deleted on purpose.
    gone: Vec<ObjectKey>,
    /// Whether it has later names in the place of some of these: the record is older than the vault.
    beyond: bool,
}

impl Shown {
    fn only(proof: Proof, error: Option<Error>) -> Self {
        Self { proof, error, gone: Vec::new(), beyond: false }
    }
}

/// Which vaults differ, and which lack something. Vaults that can't lead anyhow aren't looked at here: they are when they catch up. `None`:
/// vaults are against one another, and nothing tells which of them is right.
pub(super) async fn differ(shared: &Shared, facts: &[Fact], before: Option<&Record>) -> Option<Judged> {
    let newest = before.map(|before| Newest::from_noted(&before.newest)).unwrap_or_default();
    let unrecorded = facts.iter().all(|fact| fact.recorded.is_none());
    let mut errors: Vec<Option<Error>> = facts.iter().map(|_| None).collect();
    // Each vault has its own deadline.
    let look = |(i, fact): (usize, &Fact)| {
        let (vault, newest, keeps) = (shared.vault(i), &newest, fact.keeps);
        let leads = fact.seen.is_some() && !fact.differs && (unrecorded || fact.recorded == Some(true));
        async move {
            if !leads {
                return None;
            }
            let nothing = Shown::only(Proof::Unknown, None);
            Some(timeout(PATIENCE, proof_of(vault, newest, before, keeps)).await.unwrap_or(nothing))
        }
    };
    let (mut proofs, mut gone, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for (i, shown) in join_all(facts.iter().enumerate().map(look)).await.into_iter().enumerate() {
        proofs.push(shown.as_ref().map(|shown| shown.proof));
        let shown = shown.unwrap_or_else(|| Shown::only(Proof::Unknown, None));
        errors[i] = shown.error;
        gone.push(shown.gone);
        beyond.push(shown.beyond);
    }
    let (accused, vouched) = accused(shared, facts, (&proofs, &beyond), &mut errors).await;
    let known = proofs.contains(&Some(Proof::Holds));
    let unproved = proofs.iter().zip(vouched).map(|(proof, vouched)| !vouched && *proof == Some(Proof::Beyond));
    let unproved: Vec<bool> = unproved.collect();
    let doubted = unproved.iter().map(|unproved| *unproved && known).collect();
    let differs = differing(&proofs, &accused)?;
    // All that are there hold another object. One that is away may be the only one that holds the acknowledged one.
    let all_other = proofs.iter().flatten().all(|proof| *proof == Proof::Other) && proofs.iter().any(Option::is_some);
    let away = facts.iter().any(|fact| fact.seen.is_none() && fact.recorded == Some(true));
    let differs = |i: usize| differs.get(i).copied().unwrap_or(false) || (all_other && away && proofs[i].is_some());
    let other = |i: usize| {
        let noted = before.and_then(|before| before.of(shared.vault(i).url()));
        let holds = facts.get(i).and_then(|fact| fact.seen.as_ref()).is_some_and(|seen| seen.holds);
        // What can be read counts more: a copy of our own has another identity.
        let is_ours = matches!(proofs.get(i).copied().flatten(), Some(Proof::Holds | Proof::Lost { some: true }));
        is_other_vault(shared.vault(i), noted?.identity.as_deref()).filter(|_| holds && !is_ours)
    };
    let errors =
        errors.into_iter().enumerate().map(|(i, error)| error.filter(|_| differs(i)).or_else(|| other(i))).collect();
    let lost = proofs.iter().map(|proof| matches!(proof, Some(Proof::Lost { .. }))).collect();
    Some(Judged { errors, lost, doubted, unproved, gone })
}

/// What a vault holds of the newest acknowledged objects.
async fn proof_of(vault: &Vault, newest: &Newest, before: Option<&Record>, keeps: bool) -> Shown {
    let (mut all, mut gone, mut beyond) = (Vec::new(), Vec::new(), false);
    let noted = before.and_then(|before| before.of(vault.url()));
    let cut_off = |key: &ObjectKey| before.is_some_and(|before| before.unfinished.contains_key(key.as_str()));
    for (key, print) in newest.all().filter(|(key, _)| !cut_off(key)) {
        // A vault that doesn't answer now shows that at the next request.
        match timeout(PAGE, held(vault, key, print)).await {
            Ok(Ok(Held::Other)) => return Shown::only(Proof::Other, Some(another(vault, key))),
            // Another process may have deleted an older one.
            Ok(Ok(Held::Gone)) if !newest.is_last_of_line(key) => gone.push(key.clone()),
            // It may have gone on with this history, too. Then the record is the older one.
            Ok(Ok(Held::Gone)) => match timeout(PAGE, later(vault, key)).await {
                Ok(Ok(later)) if later.iter().any(|key| !cut_off(key)) => {
                    beyond = true;
                    gone.push(key.clone());
                }
                Ok(Ok(_) | Err(_)) | Err(_) => all.push(Held::Gone),
            },
            Ok(Ok(held)) => all.push(held),
            Ok(Err(_)) | Err(_) => {}
        }
    }
    let proof = proof(&all, beyond, keeps, noted.is_some_and(Noted::is_sealed));
    Shown { proof, error: None, gone, beyond }
}

/// Which vault has objects that aren't of the history of which other one, and which vault was found to be of the history of one that holds
/// the recorded objects. `beyond`: which of them are newer than the record.
async fn accused(
    shared: &Shared,
    facts: &[Fact],
    (proofs, beyond): (&[Option<Proof>], &[bool]),
    errors: &mut [Option<Error>],
) -> (Vec<Vec<bool>>, Vec<bool>) {
    let mut accused = vec![vec![false; facts.len()]; facts.len()];
    let Some(judge) = &shared.judge else {
        let vouched = of_other_kin(shared, facts, proofs, (&mut accused, errors)).await;
        return (accused, vouched);
    };
    // Of a vault without anything that such a vault lacks nothing is asked.
    let is_part = |i: usize, j: usize| facts[i].seen.as_ref().is_some_and(|seen| !holds_more(seen, j));
    let is_vouched = |i: usize| (0..facts.len()).any(|j| i != j && proofs[j] == Some(Proof::Holds) && is_part(i, j));
    let mut vouched: Vec<bool> = (0..facts.len()).map(is_vouched).collect();
    let asked = |i: usize| (0..facts.len()).filter(move |j| *j != i && proofs[*j].is_some()).map(move |j| (i, j));
    let pairs = (0..facts.len()).filter(|i| proofs[*i].is_some()).flat_map(asked);
    let judged = pairs.filter_map(|(i, j)| {
        let fact = facts.get(i)?;
        let names = fact.seen.as_ref()?.odd.get(j).map(super::decide::Odd::names).filter(|names| !names.is_empty())?;
        Some(async move {
            let question = Question {
                suspect: shared.vault(i),
                names: &names,
                sound: shared.vault(j),
                // A vault that went on without this process knows of what the other one doesn't.
                recorded: proofs[j] == Some(Proof::Holds) && !(beyond[i] && proofs[i] == Some(Proof::Holds)),
                older_stay: fact.keeps,
                newer: Newer::Continues,
            };
            (i, j, timeout(PATIENCE, judge.stranger(question)).await)
        })
    });
    for (i, j, judged) in join_all(judged).await {
        let vault = shared.vault(i).url();
        match judged {
            Ok(Ok(Some(stranger))) => {
                accused[i][j] = true;
                errors[i].get_or_insert_with(|| strange(shared, i, &stranger));
            }
            Ok(Ok(None)) => vouched[i] |= proofs[j] == Some(Proof::Holds),
            Ok(Err(error)) => tracing::warn!(vault, "it can't be judged now: {error}"),
            Err(_) => tracing::warn!(vault, "it can't be judged now: no answer in time"),
        }
    }
    (accused, vouched)
}

/// Without a judge vaults accuse each other that hold different histories. Returns which of them are of one history with a vault that
/// holds the recorded objects, as far as that is asked.
async fn of_other_kin(
    shared: &Shared,
    facts: &[Fact],
    proofs: &[Option<Proof>],
    (accused, errors): (&mut [Vec<bool>], &mut [Option<Error>]),
) -> Vec<bool> {
    let vaults: Vec<&Vault> = shared.members.iter().map(|member| &member.vault).collect();
    let seen: Vec<Option<&Seen>> =
        facts.iter().zip(proofs).map(|(fact, proof)| fact.seen.as_ref().filter(|_| proof.is_some())).collect();
    let pairs: Vec<(usize, usize)> = (0..facts.len()).flat_map(|i| (0..facts.len()).map(move |j| (i, j))).collect();
    // An older vault holds nothing that the others lack, but for what they deleted.
    let more = |(i, j): &(usize, usize)| {
        let more = |i: usize, j: usize| seen[i].is_some_and(|seen| holds_more(seen, j));
        i != j && more(*i, *j) && more(*j, *i)
    };
    let mut vouched = vec![false; facts.len()];
    if !pairs.iter().any(more) && !proofs.contains(&Some(Proof::Beyond)) {
        return vouched;
    }
    let kin = kin_of(&vaults, &seen, None).await;
    for (i, j) in pairs {
        match kin[i][j] {
            Kin::Other => {
                accused[i][j] = true;
                errors[i].get_or_insert_with(|| other_history(shared.vault(i)));
            }
            Kin::Same => vouched[i] |= i != j && proofs[j] == Some(Proof::Holds),
            Kin::Unread | Kin::Unknown => {}
        }
    }
    vouched
}

/// The error of a vault that holds another history than others.
pub(super) fn other_history(vault: &Vault) -> Error {
    let cause = "it holds another history than other vaults of the database".to_owned();
    Error::Differs { object: vault.url().to_owned(), cause }
}

/// The error of a vault that holds nothing of this database.
pub(super) fn nothing_in_common(vault: &Vault) -> Error {
    let cause = "it holds objects, and none that the database's other vaults hold".to_owned();
    Error::Differs { object: vault.url().to_owned(), cause }
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

/// Whether a vault holds what the record acknowledges, and whether it holds none of that but later names. `vault` names objects as the first
/// vault does.
pub(super) async fn belongs_to(record: &Record, vault: &Vault) -> (Belongs, bool) {
    let newest = Newest::from_noted(&record.newest);
    let noted = record.of(vault.url()).and_then(|noted| noted.identity.as_deref());
    let shown = proof_of(vault, &newest, Some(record), false).await;
    let belongs = match (shown.proof, shown.error) {
        (Proof::Holds | Proof::Lost { some: true }, _) => Belongs::Yes,
        (_, Some(error)) => Belongs::No(error),
        (Proof::Other | Proof::Lost { .. } | Proof::Beyond | Proof::Unknown, None) => {
            is_other_vault(vault, noted).map_or(Belongs::Unknown, Belongs::No)
        }
    };
    (belongs, shown.proof == Proof::Beyond)
}
