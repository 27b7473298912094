//! The prefix of a backup that is made to be measured: its name, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_core::{Failure, Kind};
use seawall_vault::{Access, ObjectKey, Prefix, Vault, VaultUrl};

use crate::open::Opener;
use crate::proofs::random_below;

/// What its name begins with.
pub(super) const SCRATCH: &str = "seawall-bench-";

/// How long its end may take.
const END: Duration = Duration::from_secs(60);

/// After a backup was cut off, an upload may still arrive for so long.
const LATE: Duration = Duration::from_secs(1);

/// The prefix of one run.
#[derive(Debug)]
pub struct Scratch {
    folder: String,
    /// Whether something may be there.
    begun: AtomicBool,
    tell: fn(&str),
}

impl Scratch {
    /// A prefix that no other run has. `tell` gets its URL before anything is written there.
    pub fn new(tell: fn(&str)) -> Self {
        Self { folder: format!("{SCRATCH}{:016x}", random_below(u64::MAX)), begun: AtomicBool::new(false), tell }
    }

    /// The place in a vault, which is told to the user.
    pub(super) fn begin(&self, vault: &VaultUrl) -> Result<VaultUrl, Failure> {
        let place = vault.join(&self.folder)?;
        (self.tell)(&place.to_string());
        self.begun.store(true, Ordering::Relaxed);
        Ok(place)
    }
}

/// Whether a vault has this prefix because it was made to be measured.
pub(crate) fn is_scratch(root: &str) -> bool {
    let nonce = root.rsplit('/').next().and_then(|name| name.strip_prefix(SCRATCH));
    nonce.is_some_and(|nonce| nonce.len() == 16 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Opener {
    /// Deletes what a run wrote, if it wrote anything, within a minute. `was_cut` says that the backup ended before its time, so that an
    /// upload may still arrive.
    ///
    /// # Errors
    /// `bench.left-behind`, with the prefix, when something may still be there.
    pub async fn end_bench(&self, vault: &VaultUrl, scratch: &Scratch, was_cut: bool) -> Result<(), Failure> {
        if !scratch.begun.load(Ordering::Relaxed) {
            return Ok(());
        }
        let place = vault.join(&scratch.folder)?.to_string();
        // From above: an encrypted vault doesn't list what it says of its own encryption.
        let opened = self.vault_with(vault, Access::Names);
        let ended = async { end(&opened.await?, &scratch.folder, was_cut).await };
        in_time(&place, ended).await?;
        scratch.begun.store(false, Ordering::Relaxed);
        Ok(())
    }
}

async fn in_time(place: &str, ended: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    match tokio::time::timeout(END, ended).await {
        Ok(ended) => ended.map_err(|failure| left(place, failure.kind, &failure.cause)),
        Err(_) => Err(left(place, Kind::Unavailable, &format!("it took longer than {} s", END.as_secs()))),
    }
}

async fn end(vault: &Vault, folder: &str, was_cut: bool) -> Result<(), Failure> {
    empty(vault, folder).await?;
    if was_cut {
        tokio::time::sleep(LATE).await;
        empty(vault, folder).await?;
    }
    Ok(())
}

/// Deletes everything in a folder.
async fn empty(vault: &Vault, folder: &str) -> Result<(), Failure> {
    let entries = vault.list(&Prefix::new(format!("{folder}/"))?, None).await?;
    let keys: Vec<ObjectKey> = entries.into_iter().map(|entry| entry.key).collect();
    if !keys.is_empty() {
        vault.delete(&keys).await?;
    }
    Ok(())
}

fn left(place: &str, kind: Kind, cause: &str) -> Failure {
    Failure::new(
        kind,
        "bench.left-behind",
        place,
        format!("the backup that was measured couldn't be deleted: {cause}"),
        "delete everything below this prefix; nothing else is there",
    )
}

/// What comes of a backup and of its end. A prefix that is left is told whatever else went wrong.
pub(super) fn both<T>(made: Result<T, Failure>, ended: Result<(), Failure>) -> Result<T, Failure> {
    match (made, ended) {
        (made, Ok(())) => made,
        (Ok(_), Err(left)) => Err(left),
        (Err(failure), Err(mut left)) => {
            left.cause = format!("{}; before that the backup failed: {} ({})", left.cause, failure.cause, failure.code);
            Err(left)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::simulated::SimulatedStore;
    use seawall_vault::{Error, Policy};

    use super::*;

    fn vault(store: &SimulatedStore) -> Vault {
        Vault::new(Arc::new(store.clone()), Policy { attempts: 1, ..Policy::default() })
    }

    async fn filled() -> SimulatedStore {
        let store = SimulatedStore::new(MemoryStore::new(), 1);
        for name in ["seawall-bench-0/sets/x", "seawall-bench-0/chain/1", "shop/chain/1"] {
            let key = ObjectKey::new(name).expect("a name");
            vault(&store).put(&key, Bytes::from_static(b"rows"), None).await.expect("put");
        }
        store
    }

    async fn names(store: &SimulatedStore) -> Vec<String> {
        let truth = Vault::new(Arc::new(store.truth().clone()), Policy::default());
        let entries = truth.list(&Prefix::all(), None).await.expect("listed");
        entries.into_iter().map(|entry| entry.key.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_prefix_is_emptied_and_an_upload_that_arrives_late_with_it() {
        let store = filled().await;
        let (vault, late) = (vault(&store), ObjectKey::new("seawall-bench-0/late").expect("a name"));
        let arrives = async {
            tokio::time::sleep(LATE / 2).await;
            vault.put(&late, Bytes::from_static(b"rows"), None).await.expect("put");
        };
        let (ended, ()) = tokio::join!(end(&vault, "seawall-bench-0", true), arrives);
        ended.expect("emptied");
        assert_eq!(names(&store).await, ["shop/chain/1"]);
    }

    #[tokio::test]
    async fn a_prefix_that_is_left_is_named_whatever_else_failed() {
        let store = filled().await;
        store.forbid("delete", Error::Denied { object: "x".to_owned(), cause: "403".to_owned() });
        let vault = vault(&store);
        let ended = in_time("s3://b/seawall-bench-0", end(&vault, "seawall-bench-0", false)).await;
        let failed = Err::<(), _>(Failure::new(Kind::Unavailable, "vault.unavailable", "s3://b", "gone", "wait"));
        for made in [Ok(()), failed] {
            let tells_both = made.is_err();
            let told = both(made, ended.clone()).expect_err("left");
            assert_eq!((told.code, &*told.object), ("bench.left-behind", "s3://b/seawall-bench-0"));
            assert_eq!(told.cause.contains("vault.unavailable"), tells_both, "{}", told.cause);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_hangs_is_given_up() {
        let told = in_time("s3://b/seawall-bench-0", std::future::pending()).await.expect_err("given up");
        assert_eq!(told.code, "bench.left-behind");
    }

    #[test]
    fn names_of_runs() {
        let made = Scratch::new(|_| {}).folder;
        for (root, expected) in [
            (made.as_str(), true),
            ("eu/seawall-bench-00000000000000ff", true),
            ("seawall-bench-00000000000000ff/x", false),
            ("seawall-bench-mine", false),
            ("seawall-bench", false),
            ("", false),
        ] {
            assert_eq!(is_scratch(root), expected, "{root}");
        }
    }
}
