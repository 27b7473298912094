//! One proof: restores the newest point, or the one that was asked for, and as many others, each into a scratch folder that is gone
//! afterwards.
//!
//! A proof that takes too long is dropped. That leaves nothing behind: the scratch folder goes with the work, and the work on other
//! threads ends as soon as it notices.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use seawall_core::{
    Checked, Clock as _, Description, Failure, Fault, Fingerprints, History, Kind, Level, Panicked, Progress, Proof,
    ProofRequest, Prove, SystemClock, When,
};
use seawall_host::PrivateFolder;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::due::TOO_LONG;
use super::moments::{holds, moments};

/// Bytes that a proof leaves free on its disk, if it was told nothing else.
const LEFT: u64 = 64 << 20;

/// How often it is looked at what a proof leaves.
const LOOK: Duration = Duration::from_millis(500);

/// How the names of scratch folders begin.
pub const SCRATCH: &str = "seawall-proof-";

/// What to prove, how, and who asks.
#[derive(Debug, Clone)]
pub struct ProofOrder {
    /// The point to restore.
    pub when: When,
    /// How many moments of the timeline are restored beside it.
    pub moments: u32,
    /// How thoroughly to check.
    pub level: Level,
    /// How long all of it may take; `None` sets no bound.
    pub within: Option<Duration>,
    /// The folder in which scratch folders are made.
    pub place: PathBuf,
    /// Bytes that must stay free on its disk.
    pub spare: u64,
    /// The name of this host.
    pub host: String,
    /// Objects that needn't be compared with their digests, because a recent proof did that.
    pub fresh: Arc<Fingerprints>,
    /// Whether a server that is started for the proof must be kept from our files, our environment and the network.
    pub isolated: bool,
}

impl ProofOrder {
    /// Makes the proof. Returns also which objects were compared with their digests, and are right.
    ///
    /// # Errors
    /// When the proof couldn't be made, or took too long. What is wrong with the vault's objects is in the proof.
    pub async fn prove(
        &self,
        prover: &dyn Prove,
        history: &dyn History,
        database: &Description,
        progress: Arc<dyn Progress>,
    ) -> Result<(Proof, Fingerprints), Failure> {
        let started = Instant::now();
        let work = AssertUnwindSafe(self.checked(prover, history, progress)).catch_unwind();
        let work = async { work.await.unwrap_or_else(|_| Err(defect(&database.name, "a panic ended the proof"))) };
        let mut checked = self.in_time(&database.name, work).await?;
        let compared = std::mem::take(&mut checked.compared);
        Ok((self.proof(database, checked, started), compared))
    }

    /// The result of work, if it is there in time.
    ///
    /// # Errors
    /// Those of the work, and `proof.too-long`.
    pub async fn in_time<T>(&self, name: &str, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let Some(within) = self.within else { return work.await };
        tokio::time::timeout(within, work).await.unwrap_or_else(|_| {
            let cause = format!("it wasn't done within {within:?}, and was ended");
            let next = "allow more time (--within, or prove.within), or prove fewer moments";
            Err(Failure::new(Kind::Unavailable, TOO_LONG, name, cause, next))
        })
    }

    async fn checked(
        &self,
        prover: &dyn Prove,
        history: &dyn History,
        progress: Arc<dyn Progress>,
    ) -> Result<Checked, Failure> {
        let mut checked = self.at(&self.when, prover, Arc::clone(&self.fresh), Arc::clone(&progress)).await?;
        self.others(&mut checked, prover, history, progress).await?;
        Ok(checked)
    }

    /// Restores as many other moments as were asked for, and adds what is found there.
    ///
    /// # Errors
    /// When one of them couldn't be proved.
    pub async fn others(
        &self,
        checked: &mut Checked,
        prover: &dyn Prove,
        history: &dyn History,
        progress: Arc<dyn Progress>,
    ) -> Result<(), Failure> {
        if self.moments == 0 {
            return Ok(());
        }
        for at in moments(&history.timeline().await?, self.moments, random_below) {
            // What this proof compared needn't be compared again.
            let fresh = Arc::new(self.fresh.union(&checked.compared).copied().collect());
            match self.at(&When::Moment(at), prover, fresh, Arc::clone(&progress)).await {
                Ok(mut other) => {
                    for fault in &mut other.faults {
                        fault.cause = format!("{} (at {at})", fault.cause);
                    }
                    checked.add(other);
                }
                // Another process merged or deleted meanwhile, or the clock of the database was set.
                Err(failure) if is_about_the_point(&failure) => match holds(&history.timeline().await?, at) {
                    true if failure.code != "sqlite.moments-in-doubt" => checked.fault(Fault {
                        cause: format!("{} (at {at}, which the timeline has)", failure.cause),
                        ..failure.into()
                    }),
                    _ => checked.doubts.push(format!("{at} wasn't restored: {}", failure.cause)),
                },
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Restores one point, and checks it.
    async fn at(
        &self,
        when: &When,
        prover: &dyn Prove,
        fresh: Arc<Fingerprints>,
        progress: Arc<dyn Progress>,
    ) -> Result<Checked, Failure> {
        let place = self.place.clone();
        let made = spawn_blocking(move || PrivateFolder::new(&place, SCRATCH, "proof", None)).await;
        let made = made.map_err(|panic| scratch(&self.place, &Panicked::from(panic).to_string()))?;
        let folder = made.map_err(|error| scratch(&self.place, &error.to_string()))?;
        let request = ProofRequest {
            when: when.clone(),
            level: self.level,
            scratch: folder.path().to_owned(),
            spare: self.spare,
            fresh,
            isolated: self.isolated,
        };
        if seawall_host::is_in_memory(folder.path()) {
            tracing::warn!(folder = %self.place.display(), "it is in memory (tmpfs): the proof takes memory of this host, not of a disk");
        }
        // The work that is dropped ends by itself, and its files go with the folder.
        let checked = tokio::select! {
            biased;
            checked = prover.prove(&request, progress) => checked,
            failure = until_full(&request) => Err(failure),
        };
        // Removing a large file takes a while, and a failure to do so is logged.
        drop(spawn_blocking(move || folder.remove()).await);
        checked
    }

    /// The proof that follows from what was found.
    pub fn proof(&self, database: &Description, checked: Checked, started: Instant) -> Proof {
        let Checked {
            point,
            restore_ms,
            objects,
            read_bytes,
            restored_bytes,
            faults,
            doubts,
            reachable,
            moments,
            compared: _,
            fresh_bytes,
        } = checked;
        Proof {
            database: database.name.clone(),
            engine: database.engine.to_owned(),
            at: SystemClock.now(),
            point,
            level: self.level.min(reachable),
            restore_ms,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            objects,
            read_bytes,
            fresh_bytes,
            restored_bytes,
            moments,
            faults,
            inconclusive: false,
            doubts,
            host: self.host.clone(),
            vault: String::new(),
        }
    }

    /// What is recorded of a proof that couldn't be made.
    pub fn inconclusive(&self, database: &Description, failure: &Failure, started: Instant) -> Proof {
        let checked = Checked { faults: vec![failure.clone().into()], ..Checked::default() };
        Proof { inconclusive: true, ..self.proof(database, checked, started) }
    }
}

/// Waits until a proof has left too little room on its disk for others.
async fn until_full(request: &ProofRequest) -> Failure {
    let free = || {
        let folder = request.scratch.clone();
        async { spawn_blocking(move || seawall_host::free_space(&folder)).await.ok().flatten() }
    };
    // A disk that is nearly full already isn't the proof's fault.
    let least = free().await.map_or(0, |free| request.spare.max(LEFT).min(free / 2));
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(free) = free().await.filter(|free| *free < least) {
            return request.no_room(format!("the proof left only {free} bytes free there, and was ended"));
        }
    }
}

/// The failure that the first fault of a proof is, for what runs after one that failed.
pub fn first_fault(proof: &Proof) -> Option<Failure> {
    let fault = proof.faults.first()?;
    let (cause, next) =
        (format!("{} ({})", fault.cause, fault.code), "see `seawall timeline`, which shows the newest proofs");
    Some(Failure::new(Kind::Corrupt, "proof.failed", &fault.object, cause, next))
}

/// A defect: the work ended without a proof and without a failure.
pub(super) fn none_was_made(name: &str) -> Failure {
    defect(name, "no proof was made")
}

fn defect(name: &str, cause: &str) -> Failure {
    Failure::new(Kind::Internal, "proof.internal", name, cause, "report this with the log: it is a defect")
}

/// Whether a failure is about the point that was asked for, and not about the vault or this host.
fn is_about_the_point(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::NotFound | Kind::Refused | Kind::Corrupt)
}

/// A random number below another one.
pub(crate) fn random_below(most: u64) -> u64 {
    let mut bytes = [0; 8];
    #[expect(clippy::disallowed_methods, reason = "this is the edge where randomness enters")]
    let filled = getrandom::fill(&mut bytes);
    match filled {
        Ok(()) => u64::from_ne_bytes(bytes).checked_rem(most).unwrap_or(0),
        // The system has no randomness: some moment is better than none.
        Err(_) => SystemClock.now().as_millis().unsigned_abs().checked_rem(most).unwrap_or(0),
    }
}

fn scratch(place: &Path, cause: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "proof.scratch",
        place.display().to_string(),
        format!("no folder can be made there: {cause}"),
        "name a folder that exists and can be written with --scratch, or prove.scratch",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use seawall_core::{Contents, Digests, Maintain, Moment, NoProgress, Pins, Point, Span, Timeline, Verification};

    use super::*;

    /// Restores nothing, and answers by the moment that is asked for.
    struct Stub {
        spans: Mutex<Vec<Span>>,
        hangs: bool,
    }

    fn point(second: i64) -> Point {
        Point { position: second.to_string(), moment: Moment::from_millis(second * 1000) }
    }

    #[async_trait]
    impl Prove for Stub {
        async fn prove(&self, request: &ProofRequest, _progress: Arc<dyn Progress>) -> Result<Checked, Failure> {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            let newest = Checked { point: Some(point(9)), objects: 1, ..Checked::default() };
            let When::Moment(at) = request.when else { return Ok(newest) };
            assert_ne!(at.as_millis(), 6000, "a defect in an engine");
            let refused = |code| Failure::new(Kind::Refused, code, "vault", "it can't be reached", "look");
            match at.as_millis() {
                1000 => Ok(Checked { point: Some(point(1)), ..newest }),
                2000 => Err(refused("sqlite.unreachable")),
                3000 => Err(refused("sqlite.moments-in-doubt")),
                4000 => {
                    self.spans.lock().expect("whole").retain(|span| span.from.moment != at);
                    Err(refused("sqlite.unreachable"))
                }
                _ => Err(Failure::new(Kind::Unavailable, "vault.unavailable", "vault", "away", "wait")),
            }
        }
    }

    #[async_trait]
    impl History for Stub {
        async fn timeline(&self) -> Result<Timeline, Failure> {
            Ok(Timeline { spans: self.spans.lock().expect("whole").clone(), ..Timeline::default() })
        }

        async fn contents(&self, _when: &When) -> Result<Contents, Failure> {
            Err(Failure::new(Kind::Internal, "stub", "vault", "not asked for", "look"))
        }

        async fn verify(&self, _progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
            Err(Failure::new(Kind::Internal, "stub", "vault", "not asked for", "look"))
        }

        fn digests(&self) -> Option<&dyn Digests> {
            None
        }

        fn maintenance(&self) -> Option<&dyn Maintain> {
            None
        }

        fn pins(&self) -> Option<&dyn Pins> {
            None
        }
    }

    async fn proved(seconds: &[i64], within: Option<Duration>) -> Result<Proof, Failure> {
        let span = |second: &i64| Span { from: point(*second), to: point(*second), points: 1 };
        let spans = seconds.iter().chain([&9]).map(span).collect();
        let stub = Stub { spans: Mutex::new(spans), hangs: within.is_some() };
        let place = tempfile::tempdir().expect("a folder");
        let order = ProofOrder {
            when: When::Latest,
            moments: 8,
            level: Level::Content,
            within,
            place: place.path().to_owned(),
            spare: 0,
            host: "here".into(),
            fresh: Arc::default(),
            isolated: true,
        };
        let database = Description { name: "app".into(), engine: "sqlite", source: None, vault: "vault".into() };
        let proof = order.prove(&stub, &stub, &database, Arc::new(NoProgress)).await.map(|(proof, _)| proof);
        assert!(place.path().read_dir().expect("listed").next().is_none(), "nothing is left");
        proof
    }

    #[tokio::test]
    async fn what_each_moment_adds() {
        for (second, moments, faults, doubts) in [(1, 1, 0, 0), (2, 0, 1, 0), (3, 0, 0, 1), (4, 0, 0, 1)] {
            let proof = proved(&[second], None).await.expect("a proof");
            let found = (proof.moments.len(), proof.faults.len(), proof.doubts.len());
            assert_eq!(found, (moments, faults, doubts), "{second}: {proof:?}");
            assert_eq!((proof.point.clone(), proof.holds()), (Some(point(9)), faults == 0));
        }
        for (second, code) in [(5, "vault.unavailable"), (6, "proof.internal")] {
            assert_eq!(proved(&[second], None).await.map_err(|failure| failure.code), Err(code));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_ended_and_leaves_nothing() {
        let late = proved(&[1], Some(Duration::from_secs(5))).await;
        assert_eq!(late.map_err(|failure| failure.code), Err(TOO_LONG));
    }
}
