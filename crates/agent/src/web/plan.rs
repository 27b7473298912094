//! The restore planner: which command restores a moment beside the original, which point it reaches, and what it reads.
//!
//! Nothing is restored here. The plan comes from the library call of `seawall restore --dry-run`; of a server, whose restore needs a server, from what
//! its set holds. The command names the point that was found, so it reaches this point at any later time too.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{
    Clock as _, Engine, Failure, IntegrityCheck, Moment, NoProgress, PlannedObject, Point, RestoreRequest, SystemClock,
    When,
};
use seawall_engines::{EngineConfig, ask, read_when};

use super::look::Look;
use crate::fleet::{Origin, Seen};
use crate::restoring::{Named, Target, command, in_shell};

/// A restore that could be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    /// The point that it reaches.
    pub(super) point: Point,
    /// How many objects it reads, and their bytes.
    pub(super) read: (u64, u64),
    /// These objects, oldest first, where they are known one by one.
    pub(super) objects: Vec<PlannedObject>,
    /// What couldn't be proved of them.
    pub(super) doubts: Vec<String>,
    /// What does it, in a shell.
    pub(super) command: String,
    /// Whether a part of the command is to be replaced first.
    pub(super) has_gap: bool,
}

/// Plans a restore of the moment that `text` means.
pub(super) async fn plan(look: &Look, member: &Seen, text: &str) -> Result<Planned, Failure> {
    let when = read_when(text, SystemClock.now())?;
    let Some(engine) = &member.engine else {
        return Err(member.failure.clone().unwrap_or_else(|| crate::fleet::starting(&member.config.name)));
    };
    let target = Target::of(member.config.path(), &member.config.source().to_string());
    let output = match &member.config.engine {
        EngineConfig::Server(_) | EngineConfig::Cluster(_) => None,
        EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) => Some(target.file().unwrap_or_default()),
    };
    let named = named(member, look.actions().reloader().status().map(|status| status.file));
    let config = &member.config;
    let opener = look.actions().fleet().prover().filter(|_| !config.beside.is_empty());
    let work = async {
        // The command reads the vault that is chosen then, by the same rules.
        let chosen = match &opener {
            Some(opener) => Some(opener.database(&opener.newest(config, &when).await?.database).await?),
            None => None,
        };
        planned(chosen.as_deref().unwrap_or(&**engine), when.clone(), (output, false), (&named, &target)).await
    };
    look.turns().in_time(&member.config.name, work).await
}

/// The plan of an engine: with `output`, the file or folder, that of a dry run, which refuses an existing one without `force`; else what the
/// point holds. The command names the database and the target.
pub(super) async fn planned(
    engine: &dyn Engine,
    when: When,
    (output, force): (Option<PathBuf>, bool),
    (named, target): (&Named, &Target),
) -> Result<Planned, Failure> {
    let (point, read, objects, doubts) = match output {
        None => {
            let found = engine.history().contents(&when).await?;
            (found.point, (found.objects, found.stored_bytes), Vec::new(), found.doubts)
        }
        Some(output) => {
            let request = RestoreRequest { output, when, force, dry_run: true, integrity: IntegrityCheck::None };
            let found = ask::files(engine)?.restore(&request, Arc::new(NoProgress)).await?;
            let read = found.objects.iter().map(|object| object.bytes).sum();
            (found.point, (found.objects.len() as u64, read), found.objects, found.doubts)
        }
    };
    let command = in_shell(&command(named, target, &point.position));
    Ok(Planned { point, read, objects, doubts, command, has_gap: target.has_gap() })
}

/// How a command names the database. One that was registered isn't in the configuration.
fn named(member: &Seen, config: Option<String>) -> Named {
    match (config, member.origin) {
        (Some(file), Origin::Configured) => Named::In(file, member.config.name.clone()),
        (Some(file), Origin::Found) => Named::In(file, member.config.source().to_string()),
        (None, _) | (_, Origin::Registered) => Named::Vault(member.config.vault.to_string()),
    }
}

/// Moments to go on to from one: how far each is away for people, and the moment.
pub(super) fn steps(from: Moment, now: Moment) -> Vec<(&'static str, Moment)> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let back = [("1 day earlier", 1440), ("1 hour earlier", 60), ("1 minute earlier", 1)];
    let forth = [("1 minute later", 1), ("1 hour later", 60), ("1 day later", 1440)];
    let earlier = back.map(|(name, span)| (name, from.before(minutes(span))));
    let later = forth.map(|(name, span)| (name, from.after(minutes(span))));
    earlier.into_iter().chain(later).filter(|(_, at)| *at <= now && at.as_millis() >= 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stay_in_what_has_been() {
        let at = Moment::from_millis;
        let names =
            |from: i64, now: i64| -> Vec<&str> { steps(at(from), at(now)).into_iter().map(|(name, _)| name).collect() };
        let day = 86_400_000;
        assert_eq!(names(10 * day, 10 * day), ["1 day earlier", "1 hour earlier", "1 minute earlier"]);
        assert_eq!(names(10 * day, 20 * day).len(), 6);
        assert_eq!(names(0, 120_000), ["1 minute later"]);
        assert_eq!(steps(at(day), at(day))[0].1, at(0));
    }
}
