//! Sets in an encrypted vault, on a host without a key of the owner: days pass, keys of the host come and go.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use seawall_archive::{
    Catalog, Codec, Content, Error, MaintenancePass, RetentionPolicy, SetId, SetWriter, is_link, maintain, timeline,
    verify,
};
use seawall_core::{Clock, Failure, Moment, NoProgress, Steady, Thinning, When};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{
    Access, HostKeys, Identities, NoPrompt, ObjectKey, Policy, Prompt, Recipients, SealedStore, Sealing, Secret, Vault,
};

use crate::support::{budget, count, feed, id, objects, read, tables, write};

const DAY: i64 = 86_400;

/// A clock that a test sets, in seconds.
#[derive(Debug, Clone, Default)]
struct Hands(Arc<AtomicI64>);

impl Clock for Hands {
    fn now(&self) -> Moment {
        Moment::from_millis(self.0.load(Ordering::SeqCst) * 1000)
    }

    fn steady(&self) -> Steady {
        Steady { boot: 0, millis: 0 }
    }
}

/// A store, the owner of a vault in it, and the folder of a host's keys.
struct Stand {
    store: MemoryStore,
    secret: Secret,
    public: String,
    keys: tempfile::TempDir,
    hands: Hands,
}

impl Stand {
    fn new() -> Self {
        let (secret, public) = Identities::generate();
        let keys = tempfile::tempdir().expect("a folder");
        Self { store: MemoryStore::new(), secret, public, keys, hands: Hands::default() }
    }

    fn vault(&self, recipients: bool, identities: Identities, keys: Option<&Path>) -> Vault {
        let recipients = recipients.then(|| Recipients::read([&self.public], Path::new("")).expect("a recipient"));
        let keys = HostKeys::new(keys.map(Path::to_owned), Arc::new(self.hands.clone()));
        let access = Access::Sealed(Arc::new(Sealing::new(recipients, identities, keys).lasting(is_link)));
        let store = SealedStore::new(Arc::new(self.store.clone()), access);
        Vault::new(Arc::new(store), Policy { seed: 1, ..Policy::default() })
    }

    fn identities(&self) -> Identities {
        let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
        Identities::parse(&self.secret, "the key", &prompt).expect("an identity")
    }

    /// A process of the host, which starts now.
    fn host(&self) -> Vault {
        self.vault(true, Identities::none(), Some(self.keys.path()))
    }

    /// The owner elsewhere.
    fn owner(&self) -> Vault {
        self.vault(false, self.identities(), None)
    }

    async fn day(&self, day: i64) {
        self.hands.0.store(day * DAY, Ordering::SeqCst);
        write(&self.host(), id(day * DAY), Codec::default(), &tables(day as u64)).await.expect("written");
    }

    fn key_files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.keys.path()).expect("the folder");
        let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".key")).collect()
    }
}

fn policy(days: u64) -> RetentionPolicy {
    RetentionPolicy {
        enabled: true,
        window: Some(Duration::from_secs(days * 86_400)),
        thinning: Thinning { minimum: 1, ..Thinning::default() },
        grace: Duration::from_secs(3600),
    }
}

async fn upkeep(vault: &Vault, days: u64, now: i64) -> MaintenancePass {
    maintain(vault, &policy(days), Moment::from_millis(now * 1000), 1, false).await.expect("done")
}

async fn left(vault: &Vault) -> Vec<SetId> {
    Catalog::read(vault).await.expect("read").sets().iter().map(|(_, manifest)| manifest.id).collect()
}

async fn codes(vault: &Vault) -> Vec<&'static str> {
    let verified = verify(vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    verified.findings.iter().map(|finding| finding.code).collect()
}

fn code(error: Error) -> &'static str {
    Failure::from(error).code
}

fn ids(days: impl IntoIterator<Item = i64>) -> Vec<SetId> {
    days.into_iter().map(|day| id(day * DAY)).collect()
}

async fn set(vault: &Vault, day: i64) -> Result<Vec<(String, Vec<u8>)>, Error> {
    read(vault, &When::Position(id(day * DAY).to_string())).await
}

#[tokio::test]
async fn a_host_retains_sets_for_long_and_reads_no_old_content() {
    let stand = Stand::new();
    for day in 1..=16 {
        stand.day(day).await;
        let done = upkeep(&stand.host(), 8, day * DAY + 60).await;
        assert_eq!(done.sealed, 0, "day {day}");
    }
    assert_eq!(upkeep(&stand.host(), 8, 16 * DAY + 7200).await.next, None, "nothing waits any more");
    let host = stand.host();
    assert_eq!(left(&host).await, ids(9..=16), "retention decided on sets whose keys are gone");
    let names: Vec<String> = objects(&stand.store).await.into_keys().collect();
    assert!(!names.iter().any(|name| name.contains(&id(8 * DAY).to_string())), "and deleted them");
    assert_eq!(stand.key_files().len(), 4, "three days, and the one for the chain: {:?}", stand.key_files());
    // None of the host's keys opens what is older: not a chunk, and not the index.
    for (day, opens) in [(16, true), (15, true), (13, false), (9, false)] {
        let found = set(&host, day).await;
        match opens {
            true => assert_eq!(found.expect("a recent key"), tables(day as u64), "day {day}"),
            false => assert_eq!(code(found.expect_err("no key")), "vault.no-key", "day {day}"),
        }
    }
    let owner = stand.owner();
    assert_eq!(codes(&owner).await, Vec::<&str>::new());
    for day in 9..=16 {
        assert_eq!(set(&owner, day).await.expect("the owner's key"), tables(day as u64), "day {day}");
    }
}

#[tokio::test]
async fn a_host_that_lost_its_keys_goes_on_and_leaves_alone_what_it_cannot_read() {
    let stand = Stand::new();
    for day in 1..=5 {
        stand.day(day).await;
    }
    // The newest of the links is a retirement, so that links before it are missing.
    upkeep(&stand.host(), 2, 5 * DAY + 60).await;
    upkeep(&stand.host(), 2, 5 * DAY + 3700).await;
    assert_eq!(left(&stand.host()).await, ids(4..=5));
    std::fs::remove_dir_all(stand.keys.path()).expect("removed");

    let host = stand.host();
    assert_eq!(left(&host).await, Vec::new());
    assert_eq!(code(read(&host, &When::Latest).await.expect_err("no key")), "vault.no-key");
    let refused = verify(&host, Moment::default(), Arc::new(NoProgress), 2).await.expect_err("nothing can be checked");
    assert_eq!(code(refused), "vault.no-key");
    for day in 8..=12 {
        stand.day(day).await;
    }
    let host = stand.host();
    let done = upkeep(&host, 2, 12 * DAY + 60).await;
    assert_eq!((done.sealed, done.done.retired.len(), done.done.removed.len()), (3, 3, 0));
    assert_eq!(upkeep(&host, 2, 12 * DAY + 3700).await.done.removed.len(), 6, "three sets and their links");
    assert_eq!(left(&host).await, ids(11..=12));
    assert_eq!(read(&host, &When::Latest).await.expect("its own key"), tables(12));
    let before = timeline(&Catalog::read(&host).await.expect("read"));
    assert_eq!(before.holes.len(), 3, "the timeline says what it can't see: {:?}", before.holes);
    assert!(before.holes[0].reason.contains("no key of this host opens it"), "{:?}", before.holes);

    // The owner reads all of it as one chain, and retention with the owner's key takes the rest.
    let owner = stand.owner();
    assert_eq!(left(&owner).await, ids([4, 5, 11, 12]));
    assert_eq!(codes(&owner).await, Vec::<&str>::new());
    for day in [4, 5, 11, 12] {
        assert_eq!(set(&owner, day).await.expect("the owner's key"), tables(day as u64), "day {day}");
    }
    let with_identity = stand.vault(true, stand.identities(), Some(stand.keys.path()));
    upkeep(&with_identity, 2, 12 * DAY + 4000).await;
    upkeep(&with_identity, 2, 12 * DAY + 8000).await;
    assert_eq!(left(&owner).await, ids(11..=12));
    assert_eq!(codes(&owner).await, Vec::<&str>::new());
}

#[tokio::test]
async fn what_cannot_be_read_hides_no_deletion_behind_it() {
    let stand = Stand::new();
    for day in 1..=3 {
        stand.day(day).await;
    }
    std::fs::remove_dir_all(stand.keys.path()).expect("removed");
    for day in 4..=6 {
        stand.day(day).await;
    }
    let host = stand.host();
    host.delete(&[ObjectKey::new("chain/00000005.json").expect("a key")]).await.expect("deleted");
    let now = Moment::from_millis(9 * DAY * 1000);
    let refused = maintain(&host, &policy(2), now, 1, false).await.expect_err("an alarm");
    assert_eq!(code(refused), "archive.alarm");
    // Sealed links aren't missing, so none can be acknowledged as missing.
    let mut catalog = Catalog::read(&host).await.expect("read");
    let refused = catalog.acknowledge(&[2], Moment::default(), 1).await.expect_err("it is there");
    assert_eq!(code(refused), "archive.not-missing");
    assert_eq!(codes(&stand.owner()).await, ["archive.missing-link"]);
}

#[tokio::test]
async fn what_an_interrupted_backup_left_before_the_keys_were_lost_stays() {
    let stand = Stand::new();
    let begin = async |day: i64| {
        let (vault, set) = (stand.host(), id(day * DAY));
        let writer = SetWriter::begin(vault, set, Codec::default(), budget(), Arc::new(NoProgress));
        let tables = tables(9);
        let item = |name: &String| writer.item(name.clone(), Content::Lines, serde_json::json!({}));
        let numbered = tables.iter().map(|(name, rows)| (item(name), rows)).collect();
        feed(&writer, numbered).await.expect("written");
        writer
    };
    drop(begin(1).await);
    stand.day(2).await;
    std::fs::remove_dir_all(stand.keys.path()).expect("removed");
    let later = begin(3).await;
    count(&stand.host(), &later, id(3 * DAY)).await.expect("it counts");
    let done = upkeep(&stand.host(), 9999, i64::from(u32::MAX)).await;
    assert_eq!((done.sealed, done.done.removed.len()), (1, 0));
    assert_eq!(left(&stand.host()).await, ids([3]));
}
