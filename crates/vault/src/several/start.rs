//! The start: compares the names in all vaults, and decides which one leads.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use tokio::time::timeout;

use super::catch_up;
use super::compare::{self, Compared, PAGE, compare};
use super::decide::{Fact, Lead, Seen, is_trouble, lead};
use super::differ::{differ, other_history};
use super::kin::{apart, kin_of};
use super::lately::Lately;
use super::look;
use super::members::{Behind, Shared};
use super::prints::{Newest, Print, sample_of, telling};
use super::question::another;
use super::record::Record;
use crate::{Digest, Error, ObjectKey, Vault};

/// Compares the vaults, unless that was done.
pub(crate) async fn started(shared: &Arc<Shared>) -> Result<(), Error> {
    let mut started = shared.started.lock().await;
    if *started {
        return Ok(());
    }
    let _ = shared.runtime.set(tokio::runtime::Handle::current());
    if shared.state().before.is_none() {
        shared.load().await;
    }
    let before = shared.state().before.clone();
    let entered = join_all(shared.members.iter().map(|member| member.vault.enter())).await;
    let vaults: Vec<_> = shared.members.iter().map(|member| &member.vault).collect();
    let seen = compare(&vaults).await;
    let mut errors: Vec<Option<Error>> = Vec::new();
    let mut facts: Vec<Fact> = shared
        .members
        .iter()
        .zip(entered.into_iter().zip(seen))
        .enumerate()
        .map(|(i, (member, (entered, seen)))| {
            let noted = before.as_ref().and_then(|before| before.of(member.vault.url()));
            if noted.is_some_and(|noted| noted.keeps) {
                shared.keeps_from_now_on(i);
            }
            let seen = entered.and(seen);
            errors.push(seen.as_ref().err().cloned());
            Fact {
                recorded: noted.map(|noted| noted.behind_since_ms.is_none()),
                keeps: shared.keeps(i),
                differs: false,
                lost: false,
                doubted: false,
                seen: seen.ok(),
            }
        })
        .collect();
    let unrecorded = facts.iter().all(|fact| fact.recorded.is_none());
    let mut left = Vec::new();
    if unrecorded {
        left.extend(parted(shared, &vaults, &facts).await.ok_or_else(|| unsure(shared))?);
        left.iter().for_each(|(i, _)| facts[*i].differs = true);
    }
    let judged = differ(shared, &facts, before.as_ref()).await.ok_or_else(|| unsure(shared))?;
    for (fact, (lost, doubted)) in facts.iter_mut().zip(judged.lost.iter().zip(&judged.doubted)) {
        (fact.lost, fact.doubted) = (*lost, *doubted);
    }
    left.extend(judged.errors.into_iter().enumerate().filter_map(|(i, error)| Some((i, error?))));
    for (i, error) in left {
        tracing::error!(vault = shared.vault(i).url(), code = "vault.differs", "this vault is left alone: {error}");
        facts[i].differs = true;
        errors[i].get_or_insert(error);
    }
    // Who only reads may read an older state, and doesn't write upon it.
    let damaged = shared.notes() && shared.state().unreadable.is_some();
    let Lead::By { leader, mut in_step, sure } = lead(&facts, damaged) else {
        return Err(nobody(shared, &errors, &facts));
    };
    let leads_something = facts.get(leader).and_then(|fact| fact.seen.as_ref()).is_some_and(|seen| seen.tells);
    let alone = judged.unproved.get(leader).copied().unwrap_or(false);
    let unseen = (unrecorded && leads_something || alone) && facts.iter().any(|fact| fact.seen.is_none());
    // A start proves nothing: only a comparison with the vault that was away does.
    let still = before.as_ref().is_some_and(|before| before.unproved) && in_step.contains(&false);
    shared.state().unproved = unseen || still;
    if unrecorded && shared.notes() {
        compare_contents(shared, leader, &mut in_step, &mut errors).await;
    }
    if !sure {
        tracing::error!(
            vault = shared.vault(leader).url(),
            "the vaults hold different histories, and none is clearly the newest: the first one leads; look at the others"
        );
    }
    // A process that this record doesn't know of deleted these, because the leading vault lost nothing.
    let deleted = judged.gone.get(leader).filter(|_| !facts[leader].lost).map(Vec::as_slice).unwrap_or_default();
    newest(shared, leader, before.as_ref(), deleted).await;
    stand(shared, &in_step, errors, &facts);
    *started = true;
    drop(started);
    for (i, in_step) in in_step.into_iter().enumerate() {
        if !in_step {
            catch_up::begin(shared, i);
        }
    }
    look::begin(shared);
    shared.save().await;
    Ok(())
}

/// Without a record the vaults that hold one history go together: those that more of the others agree with. The others differ. `None`: as
/// many agree on another history.
async fn parted(shared: &Shared, vaults: &[&Vault], facts: &[Fact]) -> Option<Vec<(usize, Error)>> {
    let seen: Vec<Option<&Seen>> = facts.iter().map(|fact| fact.seen.as_ref()).collect();
    let kin = kin_of(vaults, &seen, shared.judge.as_deref()).await;
    Some(apart(&kin)?.into_iter().map(|i| (i, other_history(shared.vault(i)))).collect())
}

/// The error when vaults are against one another, and nothing tells which of them is right.
fn unsure(shared: &Shared) -> Error {
    let cause = "these vaults hold different histories, and nothing tells which one is the database's".to_owned();
    Error::Unsure { object: shared.all_urls(), cause }
}

/// Without a record nothing tells that the same names hold the same. Vaults with other content aren't in step. Tells which
/// vaults are away.
async fn compare_contents(shared: &Shared, leader: usize, in_step: &mut [bool], errors: &mut [Option<Error>]) {
    let from = shared.vault(leader);
    for (i, in_step) in in_step.iter_mut().enumerate() {
        if i == leader || !*in_step {
            continue;
        }
        // A vault that doesn't answer now shows that at the next request.
        let Ok(Ok(Some(error))) = timeout(PAGE, differs(from, shared.vault(i))).await else { continue };
        *in_step = false;
        if let Some(slot) = errors.get_mut(i) {
            *slot = Some(error);
        }
    }
    for (member, error) in shared.members.iter().zip(errors.iter()) {
        if let Some(error) = error.as_ref().filter(|error| is_trouble(error)) {
            tracing::warn!(
                vault = member.vault.url(),
                leads = from.url(),
                "this vault can't be compared, and there is no record of it: it may hold a newer history: {error}"
            );
        }
    }
}

/// The error for a vault that holds other content under a name.
async fn differs(leader: &Vault, member: &Vault) -> Result<Option<Error>, Error> {
    let telling = compare::missing(leader, member, &[]).await?.telling();
    Ok(match compare::common(leader, member, &telling).await? {
        Compared::Parted(key) => Some(another(member, &key)),
        Compared::Alike | Compared::Nothing => None,
    })
}

/// Takes the newest acknowledged names over from the record, but for the deleted ones, and those of writes that were cut off or not yet
/// recorded as done.
async fn newest(shared: &Shared, leader: usize, before: Option<&Record>, deleted: &[ObjectKey]) {
    let Some(before) = before else { return };
    let (mut newest, vault) = (Newest::from_noted(&before.newest), shared.vault(leader));
    deleted.iter().for_each(|key| newest.forget(key));
    for key in
        before.unfinished.keys().filter_map(|name| ObjectKey::new(name).ok()).filter(|key| telling(key).is_some())
    {
        let sample = async {
            let Some(meta) = vault.head(&key).await? else { return Ok(None) };
            sample_of(vault, &key, meta.size).await.map(Some)
        };
        match timeout(PAGE, sample).await {
            Ok(Ok(Some(sample))) => newest.note(&key, Print::of(&sample)),
            // It tells nothing.
            Ok(Ok(None) | Err::<_, Error>(_)) | Err(_) => newest.forget(&key),
        }
    }
    let mut state = shared.state();
    (state.lately, state.newest) = (Lately::begin(&newest), newest);
}

/// Notes which vaults are in step, and what the record says of the others.
fn stand(shared: &Arc<Shared>, in_step: &[bool], mut errors: Vec<Option<Error>>, facts: &[Fact]) {
    let now = shared.clock.now();
    let mut state = shared.state();
    let is_new = facts.iter().all(|fact| fact.recorded.is_none());
    let before = state.before.take().unwrap_or_default();
    let key = |name: &String| ObjectKey::new(name).ok();
    state.overwritten.extend(before.overwritten.iter().filter_map(key));
    for (i, member) in shared.members.iter().enumerate() {
        if let (Some(standing), Some(noted)) = (state.standings.get_mut(i), before.of(member.vault.url())) {
            standing.set_back = noted.set_back_ms.map(seawall_core::Moment::from_millis);
            standing.identity.clone_from(&noted.identity);
            standing.sealed = noted.sealed;
        }
        if in_step.get(i).copied().unwrap_or(false) {
            continue;
        }
        let noted = before.of(member.vault.url()).cloned().unwrap_or_default();
        let since = noted.behind_since_ms.map_or(now, seawall_core::Moment::from_millis);
        let mut behind = Behind::new(since, errors.get_mut(i).and_then(Option::take));
        behind.unmet = is_new || noted.unmet;
        behind.newest = Newest::from_noted(&noted.held);
        let mut is_set_back = false;
        if !is_new && noted.behind_since_ms.is_none() && before.of(member.vault.url()).is_some() {
            behind.newest = Newest::from_noted(&before.newest);
            is_set_back = facts.get(i).is_some_and(|fact| fact.lost && !fact.differs);
            if !noted.is_sealed() {
                behind.held = state.lately.names();
                behind.held.retain(|key| !before.unfinished.contains_key(key.as_str()));
            }
        }
        behind.deleted.extend(noted.deleted.iter().filter_map(key));
        let unfinished: BTreeMap<ObjectKey, Option<Digest>> = before
            .unfinished
            .iter()
            .chain(&noted.unfinished)
            .filter_map(|(name, digest)| Some((key(name)?, digest.as_ref().and_then(|digest| digest.parse().ok()))))
            .collect();
        behind.unfinished = unfinished;
        if let Some(standing) = state.standings.get_mut(i) {
            standing.behind = Some(behind);
            standing.set_back = if is_set_back { Some(now) } else { standing.set_back };
        }
    }
}

/// The error when no vault may lead: it names each with its reason.
fn nobody(shared: &Shared, errors: &[Option<Error>], facts: &[Fact]) -> Error {
    let reasons: Vec<String> = shared
        .members
        .iter()
        .zip(errors.iter().zip(facts))
        .map(|(member, (error, fact))| match error {
            Some(error) => error.to_string(),
            None if fact.lost => format!(
                "{}: it lacks what was acknowledged, and a vault that is away may have it; bring that vault back, or leave it out of \
                 `vaults` to go on without it",
                member.vault.url()
            ),
            None if shared.state().unreadable.is_some() => format!("{}: it can be reached", member.vault.url()),
            None => format!("{}: it was behind when it was left, and may lack something", member.vault.url()),
        })
        .collect();
    let Error::Unavailable { object, .. } = shared.nobody() else { return shared.nobody() };
    let retryable = errors.iter().flatten().any(Error::is_retryable) || errors.iter().any(Option::is_none);
    let unreadable = shared.state().unreadable.clone().filter(|_| shared.notes());
    let cause = match unreadable {
        Some(unreadable) => format!(
            "{unreadable}, and a vault that is away may be the only one that holds everything: {}; see to that vault, or remove \
             the record to go on without it",
            reasons.join("; ")
        ),
        None => format!("no vault that holds everything can be reached: {}", reasons.join("; ")),
    };
    Error::Unavailable { object, cause, retryable }
}
