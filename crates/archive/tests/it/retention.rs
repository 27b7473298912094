//! Sets are retired by the chain, and deleted a grace later: what stays can be read, and nothing of others is touched.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seawall_archive::{Catalog, Codec, MaintenancePass, RetentionPolicy, maintain, pin, pins, timeline, verify};
use seawall_core::{Failure, Moment, NoProgress, Thinning, When};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Scheme, Vault};

use crate::support::{Still, id, objects, put, read, tables, vault, write};

const DAY: i64 = 86_400;

/// A vault with a set a day, and what others have put there.
async fn days(count: i64) -> (MemoryStore, Vault) {
    let store = MemoryStore::new();
    let vault = vault(&store);
    for day in 1..=count {
        write(&vault, id(day * DAY), Codec::default(), &tables(day as u64)).await.expect("written");
    }
    for foreign in
        ["family-photos.tar.gz", "sets/notes.txt", "chain/00000001.json.bak", "sets/20200101T000000000Z-00000001/x.zst"]
    {
        put(&vault, foreign, b"not ours".to_vec()).await;
    }
    (store, vault)
}

fn policy() -> RetentionPolicy {
    RetentionPolicy {
        enabled: true,
        window: Some(Duration::from_secs(2 * 86_400)),
        thinning: Thinning { minimum: 1, ..Thinning::default() },
        grace: Duration::from_secs(3600),
    }
}

fn at(seconds: i64) -> Moment {
    Moment::from_millis(seconds * 1000)
}

async fn upkeep(vault: &Vault, now: i64) -> MaintenancePass {
    maintain(vault, &policy(), at(now), 1, false).await.expect("done")
}

async fn left(vault: &Vault) -> Vec<String> {
    Catalog::read(vault).await.expect("read").sets().iter().map(|(_, manifest)| manifest.id.to_string()).collect()
}

fn ids(days: &[i64]) -> Vec<String> {
    days.iter().map(|day| id(day * DAY).to_string()).collect()
}

async fn findings(vault: &Vault) -> Vec<&'static str> {
    let verified = verify(vault, Moment::default(), Arc::new(NoProgress), 2).await.expect("verified");
    verified.findings.iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn sets_are_retired_first_and_deleted_a_grace_later() {
    let (store, vault) = days(5).await;
    let before: BTreeSet<String> = objects(&store).await.into_keys().collect();
    let now = 5 * DAY + 60;
    let dry = maintain(&vault, &policy(), at(now), 1, true).await.expect("planned");
    assert_eq!((dry.done.retired.len(), dry.done.removed.len(), dry.done.dry_run), (3, 0, true));
    assert_eq!(objects(&store).await.into_keys().collect::<BTreeSet<_>>(), before, "a dry run writes nothing");

    let first = upkeep(&vault, now).await;
    assert_eq!((first.done.retired.len(), first.done.removed.len()), (3, 0), "nothing is deleted yet");
    assert_eq!(first.next, Some(at(now + 3600)));
    assert_eq!(left(&vault).await, ids(&[4, 5]), "retired sets don't count any more");
    let after: BTreeSet<String> = objects(&store).await.into_keys().collect();
    assert!(after.is_superset(&before) && after.len() == before.len() + 1, "only a link was written");
    assert_eq!(findings(&vault).await, Vec::<&str>::new());
    assert_eq!(upkeep(&vault, now + 3599).await.done.removed, Vec::new(), "the grace isn't over");

    let second = upkeep(&vault, now + 3600).await;
    assert_eq!((second.done.removed.len(), second.next), (6, None), "three sets and their links");
    let names: Vec<String> = objects(&store).await.into_keys().collect();
    for day in ids(&[1, 2, 3]) {
        assert!(!names.iter().any(|name| name.contains(&day)), "{day} is gone");
    }
    for foreign in
        ["family-photos.tar.gz", "sets/notes.txt", "chain/00000001.json.bak", "sets/20200101T000000000Z-00000001/x.zst"]
    {
        assert!(names.contains(&foreign.to_owned()), "{foreign} isn't ours");
    }
    assert_eq!(findings(&vault).await, Vec::<&str>::new(), "a set that was retired may be missing");
    assert_eq!(read(&vault, &When::Latest).await.expect("read"), tables(5));
    assert_eq!(upkeep(&vault, now + 3600).await.done.removed, Vec::new(), "twice changes nothing");
    write(&vault, id(6 * DAY), Codec::default(), &tables(6)).await.expect("the chain goes on");
    assert_eq!(findings(&vault).await, Vec::<&str>::new());
}

#[tokio::test]
async fn a_set_that_is_missing_without_a_retirement_is_an_alarm_everywhere() {
    let (_, vault) = days(5).await;
    vault.delete(&[ObjectKey::new("chain/00000002.json").expect("a key")]).await.expect("deleted");
    assert_eq!(findings(&vault).await, ["archive.missing-link"]);
    let catalog = Catalog::read(&vault).await.expect("read");
    let holes = timeline(&catalog).holes;
    assert_eq!(holes.len(), 1);
    assert_eq!(holes[0].from.as_ref().map(|point| point.position.clone()), Some(id(DAY).to_string()));
    assert_eq!(holes[0].to.position, id(3 * DAY).to_string());
    assert!(holes[0].reason.starts_with("archive.missing-link: chain/00000002.json"), "{}", holes[0].reason);
    let refused = maintain(&vault, &policy(), at(9 * DAY), 1, false).await.expect_err("nothing is deleted");
    let failure = Failure::from(refused);
    assert_eq!(failure.code, "archive.alarm");
    assert_eq!(left(&vault).await, ids(&[1, 3, 4, 5]));
}

#[tokio::test]
async fn an_alarm_that_somebody_acknowledged_is_none_any_more_and_stays_a_hole() {
    let (store, vault) = days(5).await;
    let lost = ["chain/00000002.json", "chain/00000003.json"].map(|name| ObjectKey::new(name).expect("a key"));
    vault.delete(&lost).await.expect("deleted");
    let mut catalog = Catalog::read(&vault).await.expect("read");
    for numbers in [&[2, 4][..], &[6]] {
        let failure = Failure::from(catalog.acknowledge(numbers, at(6 * DAY), 1).await.expect_err("not missing"));
        assert_eq!(failure.code, "archive.not-missing");
    }
    catalog.acknowledge(&[2], at(6 * DAY), 1).await.expect("acknowledged");
    assert_eq!(findings(&vault).await, ["archive.missing-link"], "nobody spoke of the other one");
    catalog.acknowledge(&[3], at(6 * DAY), 2).await.expect("acknowledged");
    assert_eq!(findings(&vault).await, Vec::<&str>::new());
    let holes = timeline(&Catalog::read(&vault).await.expect("read")).holes;
    let reasons: Vec<&str> = holes.iter().map(|hole| hole.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "chain/00000002.json is missing, which was acknowledged at 1970-01-07T00:00:00.000Z",
            "chain/00000003.json is missing, which was acknowledged at 1970-01-07T00:00:00.000Z"
        ]
    );
    // Retention goes on, and leaves alone what the lost sets had.
    upkeep(&vault, 9 * DAY).await;
    assert_eq!(left(&vault).await, ids(&[5]));
    upkeep(&vault, 9 * DAY + 3600).await;
    let names: Vec<String> = objects(&store).await.into_keys().collect();
    assert!(names.contains(&format!("sets/{}/index.json", id(2 * DAY))), "{names:?}");
    assert_eq!(findings(&vault).await, Vec::<&str>::new());
    write(&vault, id(10 * DAY), Codec::default(), &tables(6)).await.expect("the chain goes on");
    assert_eq!((findings(&vault).await, read(&vault, &When::Latest).await.expect("read")), (vec![], tables(6)));
}

#[tokio::test]
async fn the_last_good_set_and_pinned_ones_stay() {
    let (store, vault) = days(5).await;
    // The two newest have lost a chunk each.
    for day in [4, 5] {
        let chunk = format!("sets/{}/00000000.zst", id(day * DAY));
        assert!(objects(&store).await.contains_key(&chunk));
        vault.delete(&[ObjectKey::new(chunk).expect("a key")]).await.expect("deleted");
    }
    pin(&vault, id(DAY), true).await.expect("pinned");
    pin(&vault, id(DAY), true).await.expect("twice is the same");
    assert_eq!(pins(&vault).await.expect("read"), [id(DAY)]);
    upkeep(&vault, 99 * DAY).await;
    assert_eq!(left(&vault).await, ids(&[1, 3, 4, 5]), "3 is the last good one, and what is newer isn't judged");
    pin(&vault, id(DAY), false).await.expect("unpinned");
    upkeep(&vault, 99 * DAY).await;
    assert_eq!(left(&vault).await, ids(&[3, 4, 5]));
    assert_eq!(read(&vault, &When::Position(id(3 * DAY).to_string())).await.expect("read"), tables(3));
}

#[tokio::test]
async fn what_an_interrupted_backup_left_goes_a_week_later() {
    let (store, vault) = days(1).await;
    let orphan = |name: &str| format!("sets/{}/{name}", id(2 * DAY));
    put(&vault, &orphan("00000000.zst"), b"chunk".to_vec()).await;
    let whole_but_for_its_link = format!("sets/{}/index.json", id(3 * DAY));
    put(&vault, &whole_but_for_its_link, b"index".to_vec()).await;
    // The store's clock is the real one, so that nothing here is a week old yet.
    upkeep(&vault, 99 * DAY).await;
    assert!(objects(&store).await.contains_key(&orphan("00000000.zst")));
    let now = Moment::from_millis(i64::MAX / 2);
    // Nobody believes in a present that is later than what the store says of its newest link.
    maintain(&vault, &policy(), now, 1, false).await.expect("done");
    assert!(objects(&store).await.contains_key(&orphan("00000000.zst")));
}

#[tokio::test]
async fn while_nothing_is_written_the_next_pass_is_in_the_future() {
    // The store's clock stands still at the newest object, and this host's goes on.
    let store = MemoryStore::with(Scheme::File, Arc::new(Still(5 * DAY * 1000)));
    let vault = vault(&store);
    for day in 1..=5 {
        write(&vault, id(day * DAY), Codec::default(), &tables(day as u64)).await.expect("written");
    }
    let now = 5 * DAY;
    assert_eq!(upkeep(&vault, now).await.next, Some(at(now + 3600)));
    for host in [now + 3599, now + 3600, now + 3601, now + 90 * DAY] {
        let pass = upkeep(&vault, host).await;
        assert_eq!(pass.done.removed, Vec::new(), "by the store's clock the grace isn't over");
        assert!(pass.next.is_some_and(|next| next > at(host)), "{host}: {:?}", pass.next);
    }
}
