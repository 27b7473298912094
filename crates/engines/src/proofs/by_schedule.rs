//! Proofs of a database of a configuration: reads its records, and makes and records a proof as its section `prove` says.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seawall_core::{Description, Failure, Fingerprints, Kind, Level, Moment, Progress, Proof, Prove, TaskKind, When};
use seawall_vault::{Vault, VaultUrl};
use tokio::time::Instant;

use super::due::{is_recorded, standing, successor_due};
use super::sets::SetProver;
use super::{ProofOrder, Proofs, Proving, Recorded, first_fault};
use crate::database::{DatabaseConfig, EngineConfig};
use crate::hooks::Operation;
use crate::open::Opener;

/// Records that are read of each vault.
const READ: usize = 20;

/// How long a vault of several may take to tell of its proofs, and of its points.
const READING: Duration = Duration::from_secs(60);

/// How long opening a vault and writing a record may take, beside the restores.
const AROUND: Duration = Duration::from_secs(300);

/// Bytes that a proof by itself leaves free: protection and the application may use the same disk.
const SPARE: u64 = 256 << 20;

/// A proof that was made, or why it couldn't be.
#[derive(Debug)]
pub struct Made {
    /// What came of it.
    pub proof: Proof,
    /// The key of its record, or why there is none; `None` if it wasn't worth one.
    pub recorded: Option<Result<String, Failure>>,
}

/// Why a proof of a database is made.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// Its schedule asks for one; this is the newest record.
    BySchedule(Option<&'a Proof>),
    /// A person asks for one.
    ByPerson,
}

/// What the records of one vault of several say, for the order of the proofs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    /// When the last proof ended, whatever it said.
    last: Option<Moment>,
    /// Whether a failed proof stands.
    failed: bool,
}

impl Told {
    fn of(proofs: &[Proof]) -> Self {
        let failed = standing(proofs).is_some_and(|proof| !proof.inconclusive && !proof.holds());
        Self { last: proofs.iter().map(|proof| proof.at).max(), failed }
    }
}

/// In which order vaults are taken: the one whose last proof is the oldest comes first. A person asks because of a failure that is told, so then
/// the vaults with a failed proof come before the others.
fn in_order(told: &[Told], asked: Asked<'_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..told.len()).collect();
    let is_first = |told: &Told| matches!(asked, Asked::ByPerson) && told.failed;
    order.sort_by_key(|at| told.get(*at).map(|told| (Reverse(is_first(told)), told.last)));
    order
}

/// What is known of the proofs of a database.
#[derive(Debug, Clone, Default)]
pub struct KnownProofs {
    /// The proof that tells how it stands.
    pub standing: Option<Proof>,
    /// When the next conclusive proof is or was due.
    pub due: Option<Moment>,
    /// What can't be told, each one sentence without a full stop.
    pub doubts: Vec<String>,
}

/// From when on the next conclusive proof is counted, as the board of a running process does: from the newest conclusive one, otherwise
/// since it is known that there is none. `noted` says since when this machine knows it; `proofs` are the newest first.
fn known_since(concluded: Option<Moment>, proofs: &[Proof], noted: impl FnOnce() -> Option<Moment>) -> Option<Moment> {
    concluded.or_else(|| noted().into_iter().chain(proofs.last().map(|proof| proof.at)).min())
}

impl Opener {
    /// The newest records of a database, from each of its vaults that can be reached.
    ///
    /// # Errors
    /// When none of them can be reached.
    pub async fn proofs(&self, database: &DatabaseConfig) -> Result<Recorded, Failure> {
        let vaults = database.each();
        let told = join_all(vaults.iter().map(|one| self.proofs_in(one))).await;
        Recorded::together(vaults.iter().map(|one| one.vault.to_string()).zip(told))
    }

    /// The newest records in one vault of a database, which [`DatabaseConfig::each`] gives.
    ///
    /// # Errors
    /// When it can't be reached.
    pub async fn proofs_in(&self, one: &DatabaseConfig) -> Result<Recorded, Failure> {
        let look = async { Proofs::of(self.vault_of(one).await?, &describe(one)).newest_that_tell(READ).await };
        match look.await {
            // A vault in a folder isn't there before the first object.
            Err(failure) if failure.kind == Kind::NotFound => Ok(Recorded::default()),
            told => told,
        }
    }

    /// What the records say of a database that is proved by a schedule, where no process tells. Nothing for a database without a
    /// schedule. Blocks.
    pub fn known_proofs(&self, database: &DatabaseConfig, recorded: Recorded, now: Moment) -> KnownProofs {
        let Some(proving) = &database.prove else { return KnownProofs::default() };
        let Recorded { proofs, doubts } = recorded;
        let concluded = proofs.iter().find(|proof| !proof.inconclusive).map(|proof| proof.at);
        let since = known_since(concluded, &proofs, || self.place_here(database).unproved(now));
        let due = since.map(|since| successor_due(&proving.schedule(&database.name), concluded, since));
        KnownProofs { standing: standing(&proofs).cloned(), due, doubts }
    }

    /// Proves a database as its section `prove` says, and records what came of it. `doubt` is what the proof can't answer because of what was
    /// before it.
    pub async fn prove_as(
        &self,
        database: &DatabaseConfig,
        proving: &Proving,
        asked: Asked<'_>,
        doubt: Option<String>,
    ) -> Made {
        let started = Instant::now();
        let order = self.order(database, proving);
        let task = self.journal().begin(TaskKind::Proof, &database.name, "");
        let mut vault = None;
        let work = self.proved(database, (asked, doubt), (order.clone(), task.progress()), proving.fresh, &mut vault);
        let bound = ProofOrder { within: Some(proving.within.saturating_add(AROUND)), ..order.clone() };
        let (mut proof, compared) = bound.in_time(&database.name, work).await.unwrap_or_else(|failure| {
            (order.inconclusive(&describe(database), &failure, started), Fingerprints::new())
        });
        let before = if let Asked::BySchedule(before) = asked { before } else { None };
        let is_recorded = is_recorded(&proof, before, &proving.schedule(&database.name));
        let recorded = match vault.filter(|_| is_recorded) {
            None => None,
            Some(vault) => {
                let proofs = Proofs::of(vault, &describe(database));
                let bound = ProofOrder { within: Some(AROUND), ..order };
                let written = proofs.record(&mut proof, &bound.when, &compared);
                Some(bound.in_time(&database.name, written).await)
            }
        };
        task.end(&first_fault(&proof).map_or(Ok(()), Err), |()| {
            let point = proof.point.as_ref().map_or("no point", |point| &point.position);
            format!("{point} was restored, level {}", proof.level.name())
        });
        Made { proof, recorded }
    }

    fn order(&self, database: &DatabaseConfig, proving: &Proving) -> ProofOrder {
        let place = || seawall_host::scratch_place(self.environment.get("TMPDIR").map(Path::new));
        ProofOrder {
            when: When::Latest,
            moments: proving.moments,
            // All of a set is compared, whatever the settings for all databases say.
            level: if matches!(database.engine, EngineConfig::Server(_)) { Level::Content } else { proving.level },
            within: Some(proving.within),
            place: proving.scratch.clone().unwrap_or_else(place),
            spare: SPARE,
            host: self.hostname.clone(),
            fresh: Arc::default(),
            isolated: proving.isolated,
        }
    }

    /// The database with the vault alone whose turn it is, and which vaults were passed over, and why. A vault is only known to be sound by
    /// its own proofs.
    async fn in_turn(
        &self,
        database: &DatabaseConfig,
        asked: Asked<'_>,
        when: &When,
    ) -> Result<(DatabaseConfig, Vec<String>), Failure> {
        let vaults = database.each();
        let mut passed = Vec::new();
        if vaults.len() > 1 {
            let all = join_all(vaults.iter().map(|one| within(READING, &one.vault, self.proofs_in(one)))).await;
            let (mut told, mut reached) = (Vec::new(), Vec::new());
            for (one, recorded) in vaults.into_iter().zip(all) {
                match recorded {
                    Ok(recorded) => {
                        told.push(Told::of(&recorded.proofs));
                        reached.push(one);
                    }
                    Err(failure) => passed.push(passed_over(&one, &failure)),
                }
            }
            for one in in_order(&told, asked).into_iter().filter_map(|at| reached.get(at)) {
                let look = async { self.database(one).await?.history().timeline().await };
                match within(READING, &one.vault, look).await {
                    // A vault that has nothing yet can't be proved.
                    Ok(timeline) if timeline.newest().is_none() => {}
                    Ok(_) => return Ok((one.clone(), passed)),
                    Err(failure) => passed.push(passed_over(one, &failure)),
                }
            }
        }
        Ok((self.newest(database, when).await?.database, passed))
    }

    /// Opens the vault whose turn it is, and makes the proof between its hooks. Returns beside it which objects were compared with
    /// their digests. `opened` becomes the vault as soon as it is open, for the record of a proof that takes too long.
    async fn proved(
        &self,
        database: &DatabaseConfig,
        (asked, doubt): (Asked<'_>, Option<String>),
        (mut order, progress): (ProofOrder, Arc<dyn Progress>),
        fresh: Option<Duration>,
        opened: &mut Option<Vault>,
    ) -> Result<(Proof, Fingerprints), Failure> {
        let are_several = !database.beside.is_empty();
        let (database, passed) = self.in_turn(database, asked, &order.when).await?;
        let (vault, engine) = self.database_and_vault(&database).await?;
        *opened = Some(vault.clone());
        let described = describe(&database);
        order.fresh = Proofs::of(vault.clone(), &described).fresh(fresh).await?;
        let of_sets;
        let prover: &dyn Prove = match (engine.proofs(), &database.engine) {
            (Some(prover), _) => prover,
            (None, EngineConfig::Server(server)) => {
                of_sets = SetProver::new(vault, None, server.source.limits().clone(), &self.environment);
                &of_sets
            }
            (None, _) => crate::ask::proofs(&*engine)?,
        };
        let mut made = None;
        let about = database.about(String::new());
        let done = database.hooks.around(Operation::Proof, &about, async {
            let work = order.prove(prover, engine.history(), &described, progress);
            let (proof, _) = made.insert(work.await?);
            proof.doubts.extend(passed.into_iter().chain(doubt));
            if are_several {
                proof.vault.clone_from(&described.vault);
            }
            first_fault(proof).map_or(Ok(()), Err)
        });
        // A proof that found a fault is one, though it failed for its hooks.
        match (done.await, made) {
            (_, Some(made)) => Ok(made),
            (Err(failure), None) => Err(failure),
            (Ok(()), None) => Err(super::order::none_was_made(&database.name)),
        }
    }
}

/// Work in one vault, which has a bound.
async fn within<T>(
    bound: Duration,
    vault: &VaultUrl,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(bound, work).await.unwrap_or_else(|_| {
        let cause = format!("it didn't answer within {} s", bound.as_secs());
        Err(Failure::new(
            Kind::Unavailable,
            "vault.unavailable",
            vault.to_string(),
            cause,
            "see whether its store is slow",
        ))
    })
}

/// Why a vault of several wasn't proved though it may have been its turn.
fn passed_over(one: &DatabaseConfig, failure: &Failure) -> String {
    format!("the vault {} was passed over: {} ({})", one.vault, failure.cause, failure.code)
}

/// What records call a database of a configuration.
fn describe(database: &DatabaseConfig) -> Description {
    Description {
        name: database.name.clone(),
        engine: database.engine.name(),
        source: Some(database.source().to_string()),
        vault: database.vault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vault_that_was_proved_longest_ago_is_next() {
        let told = |last: Option<i64>, failed| Told { last: last.map(Moment::from_millis), failed };
        let vaults = [told(Some(5), false), told(None, false), told(Some(9), true), told(Some(2), false)];
        assert_eq!(in_order(&vaults, Asked::BySchedule(None)), [1, 3, 0, 2]);
        assert_eq!(in_order(&vaults, Asked::ByPerson), [2, 1, 3, 0], "the failure is why a person asks");
        assert!(in_order(&[], Asked::ByPerson).is_empty());
    }

    #[test]
    fn a_failure_stands_until_a_proof_holds() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        let point = |seconds| Some(seawall_core::Point { position: String::new(), moment: at(seconds) });
        let holds = Proof { at: at(9), point: point(3), level: Level::Engine, ..Proof::default() };
        let fault = seawall_core::Fault { code: "x".into(), object: "o".into(), cause: "c".into() };
        let failed = Proof { at: at(5), faults: vec![fault], ..holds.clone() };
        let too_slow = Proof { at: at(12), inconclusive: true, ..failed.clone() };
        assert_eq!(Told::of(&[]), Told { last: None, failed: false });
        assert_eq!(Told::of(&[holds.clone(), failed.clone()]), Told { last: Some(at(9)), failed: false });
        assert_eq!(Told::of(&[too_slow.clone(), failed]), Told { last: Some(at(12)), failed: true });
        assert_eq!(Told::of(&[too_slow, holds]), Told { last: Some(at(12)), failed: false });
    }

    #[test]
    fn since_when_it_is_known_that_there_is_no_proof() {
        let at = |seconds: i64| Moment::from_millis(seconds * 1000);
        let inconclusive = |seconds| Proof { at: at(seconds), inconclusive: true, ..Proof::default() };
        let proofs = [inconclusive(9), inconclusive(5)];
        for (concluded, proofs, noted, expected) in [
            (Some(at(3)), &proofs[..], Some(at(1)), Some(at(3))),
            (None, &[], None, None),
            (None, &[], Some(at(7)), Some(at(7))),
            (None, &proofs, None, Some(at(5))),
            (None, &proofs, Some(at(7)), Some(at(5))),
            (None, &proofs, Some(at(2)), Some(at(2))),
        ] {
            assert_eq!(known_since(concluded, proofs, || noted), expected);
        }
    }
}
