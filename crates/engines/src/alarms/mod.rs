//! What should a person know about the protection of a database now, and do? One pure function from facts to alarms.
//!
//! `seawall status`, metrics, heartbeats and notifications show what it decides; none of them judges for itself. [`limits`] has
//! the borders and severities of a configuration, and [`local`] reads the facts that only the machine knows.

pub mod limits;
pub mod local;
mod silence;
#[cfg(test)]
mod tests;
mod unproved;

use std::time::Duration;

use seawall_core::{Alarm, Failure, LastError, Moment, Phase, RENEWED_LOCKS, Severity, Status, VaultStatus};

pub use self::limits::Limits;
pub use self::local::{Judged, Local, Place, judged, with_unread_proofs};
pub use self::silence::silence_until;
use crate::trouble;

/// Everything that the judgement depends on, beside the limits and the time.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// What the engine says. Its alarms aren't read.
    pub status: &'a Status,
    /// Which process answers for the database.
    pub keeper: Keeper,
    /// Whether backups are made by a schedule. Then the lag is the time since a backup should have been made.
    pub is_scheduled: bool,
    /// What the machine knows.
    pub local: Local,
}

/// Which process answers for a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// A process runs its protection.
    Running,
    /// A process knows it, and was asked to stop its protection, or doesn't run it yet.
    Resting,
    /// No process is known.
    Nobody,
}

/// How often merging or deleting fails in a row before it counts as stuck: one failure may be a store that was away.
const STUCK: u64 = 3;

/// How many times the limit a proof may be late before that is critical.
const LONG: u32 = 7;

/// For how long the hole is told that a restore made.
const AFTER_A_RESTORE: Duration = Duration::from_secs(3600);

/// The next step for a database that waits for something that its error names.
const SEE_STATUS: &str = "`seawall status` shows what the database does; its log says why";

/// What a person should know about a database, most severe first. A silence marks every alarm and removes none.
pub fn alarms(facts: &Facts<'_>, limits: &Limits, now: Moment) -> Vec<Alarm> {
    let found = of_phase(facts)
        .into_iter()
        .chain(of_lag(facts, limits, now))
        .chain(of_error(facts.status))
        .chain(of_upkeep(facts.status))
        .chain(of_proof(facts.status))
        .chain(of_proof_age(facts, limits, now))
        .chain(of_hole(facts.status, limits, now))
        .chain(of_credentials(facts.status, limits, now))
        .chain(of_vaults(facts.status, limits))
        .chain(of_disk(facts, limits));
    let silenced_until = facts.local.silenced_until.filter(|until| *until > now);
    let rated = |alarm: Alarm| {
        let severity = limits.severity(&alarm.code, alarm.severity)?;
        Some(Alarm { severity, silenced_until, ..alarm })
    };
    let mut alarms: Vec<Alarm> = found.filter_map(rated).collect();
    alarms.sort_by_key(|alarm| std::cmp::Reverse(alarm.severity));
    alarms
}

/// Whether a person has to act now: a critical alarm that isn't silenced.
pub fn is_urgent(alarms: &[Alarm]) -> bool {
    alarms.iter().any(|alarm| alarm.severity == Severity::Critical && alarm.silenced_until.is_none())
}

/// Alarms of something that happened once. Another one later has its own moment.
const OF_EVENTS: [&str; 1] = ["alarm.hole"];

/// Gives an alarm that was active before the moment at which it was first seen, if that is earlier.
pub fn keep_since(before: &[Alarm], now: &mut [Alarm]) {
    for alarm in now.iter_mut().filter(|alarm| !OF_EVENTS.contains(&&*alarm.code)) {
        if let Some(known) = before.iter().find(|known| known.code == alarm.code) {
            alarm.since = alarm.since.min(known.since);
        }
    }
}

/// An alarm that nobody has silenced.
fn alarm(code: &str, severity: Severity, cause: impl Into<String>, next: impl Into<String>, since: Moment) -> Alarm {
    Alarm { code: code.to_owned(), severity, cause: cause.into(), next: next.into(), since, silenced_until: None }
}

/// Of an error that keeps its own next step.
fn of(error: &LastError, code: &str, severity: Severity, what: &str) -> Alarm {
    alarm(code, severity, format!("{what}: {} ({})", error.message, error.code), error.next.clone(), error.at)
}

/// What the phase alone says.
fn of_phase(facts: &Facts<'_>) -> Option<Alarm> {
    let Status { phase, error, at, .. } = facts.status;
    let told = |code, what: &str| match error {
        Some(error) => of(error, code, Severity::Critical, what),
        None => alarm(code, Severity::Critical, what, SEE_STATUS, *at),
    };
    if let Some((error, is_missing)) = error.as_ref().and_then(|error| Some((error, trouble::is_of_folder(error)?))) {
        let severity = if is_missing { Severity::Critical } else { Severity::Warning };
        return Some(of(error, "alarm.folder", severity, "a folder of databases"));
    }
    match phase {
        Phase::Halted => Some(told("alarm.halted", "protection has stopped until a person acts")),
        // The other alarm has the error's text and its next step.
        Phase::Failing if error.as_ref().is_some_and(trouble::holds_commits) => {
            let (cause, next) =
                ("protection fails and is retried, as alarm.commits-wait says", "see alarm.commits-wait");
            Some(alarm("alarm.failing", Severity::Critical, cause, next, error.as_ref().map_or(*at, |error| error.at)))
        }
        Phase::Failing => Some(told("alarm.failing", "protection fails and is retried")),
        // A database that was never there has no error.
        Phase::Waiting if error.is_some() => Some(told("alarm.failing", "the database isn't there")),
        Phase::Stopped if facts.keeper == Keeper::Running => None,
        Phase::Stopped if facts.keeper == Keeper::Resting => {
            let next = "`seawall start` begins the protection again";
            Some(alarm("alarm.stopped", Severity::Warning, "protection was stopped by request", next, *at))
        }
        Phase::Stopped => {
            let next = "start `seawall replicate`, or see why its process ended";
            Some(alarm("alarm.stopped", Severity::Critical, "no process protects the database", next, *at))
        }
        _ => None,
    }
}

/// Whether changes wait for longer than they may, or a backup is late.
fn of_lag(facts: &Facts<'_>, limits: &Limits, now: Moment) -> Option<Alarm> {
    let Status { phase, error, progress, lag_ms, protected, .. } = facts.status;
    // Another process has the lease and protects the database; what this process knows of it is old.
    let waits_for_turn = error.as_ref().is_some_and(trouble::is_in_turn);
    if matches!(phase, Phase::Stopped | Phase::Waiting) || waits_for_turn {
        return None;
    }
    let waits = Duration::from_millis(*lag_ms);
    let since = now.before(waits);
    let span = span(waits);
    if facts.is_scheduled {
        // A backup that is being made ends the delay, or its failure is an alarm of its own. One that hangs does neither.
        // A program of the user's that runs before it shows no progress.
        let unmoved = facts.local.unmoved;
        let is_first = protected.is_none() && (progress.is_some() || *phase == Phase::Base);
        let hangs = |limit| progress.is_none() && !is_first || unmoved > limit;
        let late = limits.backup_overdue.is_some_and(|limit| (waits > limit || is_first) && hangs(limit));
        let cause = match progress {
            _ if is_first => format!("the first backup hasn't moved for {}", self::span(unmoved)),
            None => format!("a backup should have been made {span} ago"),
            Some(_) => format!(
                "a backup should have been made {span} ago, and the one that is being made hasn't moved for {}",
                self::span(unmoved)
            ),
        };
        let next = "see in the log why it wasn't made; `seawall backup` makes one now";
        return late.then(|| alarm("alarm.backup-overdue", Severity::Critical, cause, next, since));
    }
    let late = limits.lag.is_some_and(|limit| waits > limit);
    let cause = format!("the oldest change that isn't in the vault waits for {span}");
    let next = "see whether the vault answers and is fast enough: `seawall vault probe` measures it";
    late.then(|| alarm("alarm.lag", Severity::Critical, cause, next, since))
}

/// What an error means with which protection goes on. In other phases the phase's alarm tells the error.
fn of_error(status: &Status) -> Option<Alarm> {
    let error = status.error.as_ref()?;
    let goes_on = matches!(status.phase, Phase::Protecting | Phase::Base);
    if trouble::is_full_disk(error) {
        return Some(of(error, "alarm.disk", Severity::Critical, "the local disk is full"));
    }
    if trouble::is_of_clock(error) {
        return Some(of(error, "alarm.clock", Severity::Warning, "this machine's clock is wrong"));
    }
    // Beside the phase's alarm, which says that protection fails: this one says what that means to the application.
    if trouble::holds_commits(error) {
        let what = "the application waits: the server's commits wait for the vault";
        return Some(of(error, "alarm.commits-wait", Severity::Critical, what));
    }
    if !goes_on {
        return None;
    }
    if trouble::fills_servers_disk(error) {
        let what = "the server's disk could fill while the vault is away";
        return Some(of(error, "alarm.slot-unbounded", Severity::Warning, what));
    }
    if trouble::leaves_unsafe(error) {
        let what = "protection goes on, and the vault isn't what it should be";
        return Some(of(error, "alarm.unsafe", Severity::Critical, what));
    }
    let is_of_upkeep = status.upkeep.as_ref().is_some_and(|upkeep| upkeep.code == error.code);
    (!is_of_upkeep).then(|| of(error, "alarm.error", Severity::Warning, "protection goes on with an error"))
}

/// Whether retention works.
fn of_upkeep(status: &Status) -> Option<Alarm> {
    let error = status.upkeep.as_ref()?;
    if trouble::breaks_chain(error) {
        let what = "the chain of backups has a link that is missing or wrong, and nothing is deleted";
        return Some(of(error, "alarm.chain", Severity::Critical, what));
    }
    let stuck = error.count >= STUCK;
    stuck.then(|| {
        of(error, "alarm.retention", Severity::Warning, "merging or deleting in the vault fails again and again")
    })
}

/// Whether the newest proof holds. One that couldn't be made says nothing about the vault.
fn of_proof(status: &Status) -> Option<Alarm> {
    let proof = status.proof.as_ref().filter(|proof| !proof.holds())?;
    let what = proof.faults.first().map_or_else(
        || "it found no point to restore".to_owned(),
        |fault| format!("{}: {} ({})", fault.object, fault.cause, fault.code),
    );
    let more = proof.faults.len().saturating_sub(1);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let (severity, cause, next) = match proof.inconclusive {
        true => {
            let next = "remove the cause (`seawall explain` knows the code); it is made again by itself, or now with `seawall verify --restore`";
            (Severity::Warning, format!("the newest proof couldn't be made: {what}{more}"), next)
        }
        false => {
            let next = match &*status.engine {
                "sqlite" | "lmdb" => {
                    "restore an earlier point that is sound (`--at`), then protect into a new prefix, which begins with a base"
                }
                _ => {
                    "make another backup (`seawall backup`), and prove it; until then restore an earlier one that is sound (`--at`)"
                }
            };
            (Severity::Critical, format!("the newest proof failed: {what}{more}"), next)
        }
    };
    Some(alarm("alarm.proof-failed", severity, cause, next, proof.at))
}

/// The alarm that the records of a database's proofs can't be read.
fn of_unread_proofs(failure: &Failure, now: Moment) -> Alarm {
    let cause = format!("its proofs can't be read: {} ({})", failure.cause, failure.code);
    alarm("alarm.proof-unknown", Severity::Warning, cause, failure.next.clone(), now)
}

/// Whether a proof is as new as its schedule asks for. Before the first point there is nothing to prove.
fn of_proof_age(facts: &Facts<'_>, limits: &Limits, now: Moment) -> Option<Alarm> {
    let (due, limit) = (facts.local.proof_due?, limits.proof_age?);
    let is_late = facts.status.protected.is_some() && now.since(due) > limit;
    let cause = format!("a proof has been due since {due}, and was to be made within {}", span(limit));
    let next = "see what the log says of proofs, or prove it with `seawall verify --restore`";
    // A database that can't be proved for long isn't known to be restorable.
    let severity = if now.since(due) > limit.saturating_mul(LONG) { Severity::Critical } else { Severity::Warning };
    is_late.then(|| alarm("alarm.proof-age", severity, cause, next, due.after(limit)))
}

/// Whether a new hole is in the history. It can't be mended, so it is told for a while; for a shorter one if a restore made it, because
/// its user expects it.
fn of_hole(status: &Status, limits: &Limits, now: Moment) -> Option<Alarm> {
    let (hole, limit) = (status.hole.as_ref()?, limits.hole?);
    let limit = if hole.restored { limit.min(AFTER_A_RESTORE) } else { limit };
    let since = hole.to.moment;
    let from = hole.from.as_ref().map_or_else(|| "the beginning".to_owned(), |point| point.moment.to_string());
    let cause = format!("what was committed between {from} and {since} can't be restored: {}", hole.reason);
    let next = match hole.restored {
        true => "nothing, if the restore was meant: the points before it can still be restored (`seawall timeline`)",
        false => "restore a point before or after it (`seawall timeline` shows both); remove the cause that it names",
    };
    (now.since(since) < limit).then(|| alarm("alarm.hole", Severity::Warning, cause, next, since))
}

/// Whether the credentials of a vault end soon.
fn of_credentials(status: &Status, limits: &Limits, now: Moment) -> Option<Alarm> {
    let (end, limit) = (status.credentials_end?, limits.credentials?);
    let begin = end.before(limit);
    let (severity, cause) = match now < end {
        true => (Severity::Warning, format!("the credentials of the vault end at {end}")),
        false => (Severity::Critical, format!("the credentials of the vault ended at {end}")),
    };
    let next = "give the process new ones, and restart it, or use credentials that are renewed by themselves";
    (now >= begin).then(|| alarm("alarm.credentials", severity, cause, next, begin))
}

/// For how long it is told that a vault was emptied or set back.
const TOLD_LOSS: Duration = Duration::from_secs(86_400);

/// Whether each vault is in step, and can what a vault should.
fn of_vaults<'a>(status: &'a Status, limits: &'a Limits) -> impl Iterator<Item = Alarm> + 'a {
    let is_behind = |lag_ms: u64| limits.vault_behind.is_some_and(|limit| Duration::from_millis(lag_ms) > limit);
    let is_strange = |vault: &VaultStatus| vault.error.as_ref().is_some_and(|error| error.code == "vault.differs");
    let mut strange = status.vaults.iter().filter(move |vault| is_strange(vault));
    let strange = strange.next().map(|vault| {
        let more = strange.count();
        let more = if more > 0 { format!(" ({more} more vaults differ)") } else { String::new() };
        let (cause, next) =
            vault.error.as_ref().map(|error| (error.message.clone(), error.next.clone())).unwrap_or_default();
        let cause = format!("the vault {} differs from the others: {cause}{more}", vault.url);
        alarm("alarm.vault-differs", Severity::Critical, cause, next, vault.behind_since.unwrap_or(status.at))
    });
    let mut behind = status.vaults.iter().filter(move |vault| is_behind(vault.lag_ms) && !is_strange(vault));
    let behind = behind.next().map(|vault| {
        let more = behind.count();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let cause =
            format!("the vault {} is behind for {}{more}", vault.url, span(Duration::from_millis(vault.lag_ms)));
        let next = vault.error.as_ref().map_or_else(|| "see whether it answers".to_owned(), |error| error.next.clone());
        alarm("alarm.vault-behind", Severity::Warning, cause, next, vault.behind_since.unwrap_or(status.at))
    });
    let lost =
        status.vaults.iter().filter(|vault| !is_strange(vault)).filter_map(|vault| Some((vault, vault.set_back?)));
    let lost = lost.filter(|(_, at)| status.at.since(*at) < TOLD_LOSS).max_by_key(|(_, at)| *at).map(|(vault, at)| {
        let cause = format!("the vault {} lacked objects that it had before: it was emptied, or set back", vault.url);
        let next = match vault.in_step {
            true => "find out who did that. What the other vaults hold is in it again",
            false => "find out who did that. It gets what the other vaults hold",
        };
        alarm("alarm.vault-set-back", Severity::Warning, cause, next, at)
    });
    let limit = |lacks: &str| status.limits.iter().find(|limit| limit.lacks == lacks);
    let weak = limit("create-only").map(|limit| {
        let cause = format!("the vault has no {}: {}", limit.lacks, limit.effect);
        let next = "use a store that has conditional writes, or set this alarm's severity to off";
        alarm("alarm.vault-weak", Severity::Warning, cause, next, status.at)
    });
    let not_renewed = limit(RENEWED_LOCKS).map(|limit| {
        let next =
            "use a bucket with Object Lock and credentials with s3:PutObjectRetention, or remove object-lock-keep";
        alarm("alarm.locks-not-renewed", Severity::Critical, limit.effect.clone(), next, status.at)
    });
    strange.into_iter().chain(behind).chain(lost).chain(weak).chain(not_renewed)
}

/// Whether the disk of the state directory has room. A full one is told by its error.
fn of_disk(facts: &Facts<'_>, limits: &Limits) -> Option<Alarm> {
    let free = facts.local.free.filter(|free| *free < limits.state_free)?;
    let is_full = facts.status.error.as_ref().is_some_and(trouble::is_full_disk);
    let cause = format!("the disk of the state directory has {} left", size(free));
    let next = "free some space: on a full disk protection stops as soon as the vault is away";
    (!is_full).then(|| alarm("alarm.disk", Severity::Warning, cause, next, facts.status.at))
}

/// A span of time for people, in its two largest units.
fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    if bytes < MIB { format!("{bytes} bytes") } else { format!("{} MiB", bytes / MIB) }
}
