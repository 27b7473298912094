//! Compares a vault with the recorded states of the database. Doesn't use the engine's own listing, plans and records.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{Clock as _, Moment, When};
use seawall_ltx::{Header, Txid};
use seawall_testing::invariants::Look;
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Policy, Prefix, Vault};

use crate::world::{Content, Scene};

/// The number of a state. Every commit makes a new one and writes it into the database, so that a restored one says which it
/// claims to be.
pub(crate) type State = u64;

/// What the application's database was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    contents: BTreeMap<State, Content>,
    /// The states in the order in which they were the database's.
    order: Vec<State>,
}

impl Records {
    /// The number of the next new state.
    pub(crate) fn next(&self) -> State {
        self.contents.keys().last().map_or(0, |newest| newest + 1)
    }

    /// The database has a state now, and this content.
    pub(crate) fn add(&mut self, state: State, content: Content) {
        self.contents.insert(state, content);
        self.order.push(state);
    }

    /// The database has an earlier state again.
    pub(crate) fn go_back(&mut self, state: State) {
        self.order.push(state);
    }

    /// The present state.
    pub(crate) fn present(&self) -> (State, &Content) {
        let state = *self.order.last().expect("a state");
        (state, &self.contents[&state])
    }
}

/// The objects of a vault by TXID: of level 0, or of level 9 if level 0 has none.
pub(crate) async fn objects(store: &MemoryStore) -> BTreeMap<u64, ObjectKey> {
    let vault = Vault::new(std::sync::Arc::new(store.clone()), Policy::default());
    let mut found = BTreeMap::new();
    for entry in vault.list(&Prefix::all(), None).await.expect("memory answers") {
        let key = entry.key.as_str();
        let Some((folder, name)) = key.rsplit_once('/') else { continue };
        let Some((_, max)) = name.strip_suffix(".ltx").and_then(|name| name.split_once('-')) else { continue };
        let max = u64::from_str_radix(max, 16).expect("a TXID");
        if folder.ends_with('0') || !found.contains_key(&max) {
            found.insert(max, entry.key);
        }
    }
    found
}

/// What a vault holds, for the invariants.
pub(crate) async fn look(store: &MemoryStore) -> Look {
    let vault = Vault::new(std::sync::Arc::new(store.clone()), Policy::default());
    let mut objects = Vec::new();
    for entry in vault.list(&Prefix::all(), None).await.expect("memory answers") {
        let bytes = vault.read(&entry.key, None, u64::MAX).await.expect("read");
        objects.push((entry.key.to_string(), bytes));
    }
    Look::of(objects)
}

/// The TXID of the newest complete copy.
pub(crate) async fn newest_base(store: &MemoryStore) -> Option<u64> {
    let vault = Vault::new(std::sync::Arc::new(store.clone()), Policy::default());
    let all = vault.list(&Prefix::all(), None).await.expect("memory answers");
    let max = |entry: &seawall_vault::Entry| {
        let (folder, name) = entry.key.as_str().rsplit_once('/')?;
        let (_, max) = name.strip_suffix(".ltx").filter(|_| folder.ends_with('9'))?.split_once('-')?;
        u64::from_str_radix(max, 16).ok()
    };
    all.iter().filter_map(max).max()
}

/// A point of the vault, and the state that it restored to.
struct Restored {
    txid: u64,
    moment: Moment,
    state: State,
    content: Content,
}

/// Restores every TXID and compares it with the record; then as many random moments. After an object that was `lost`
/// there may be the capture of a base whose copy was never uploaded; it wasn't reported as protected. Up to the TXID
/// `harmed` objects were damaged: points that can't be restored there are refused, and the others are right.
pub(crate) async fn compare(
    scene: &Scene,
    store: &MemoryStore,
    records: &Records,
    (lost, harmed): (&BTreeSet<u64>, u64),
    rng: &mut fastrand::Rng,
) {
    let (mut points, mut unreachable) = (Vec::new(), 0);
    let objects = objects(store).await;
    for (txid, key) in &objects {
        let position = Txid(*txid).to_string();
        let restored = scene.restore(When::Position(position.clone())).await;
        if lost.contains(&(txid - 1)) && restored.as_ref().is_err_and(|error| error.code == "sqlite.unreachable") {
            unreachable += 1;
            continue;
        }
        if *txid <= harmed && restored.is_err() {
            continue;
        }
        let content = restored.unwrap_or_else(|error| panic!("{position}: {error}: {objects:?}"));
        let state = state_of(&content);
        assert_eq!(Some(&content), records.contents.get(&state), "{position} is not state {state} as it was");
        // The object of that name may be the harmed one, where another one restores the point; then moments aren't compared either.
        let moment = if harmed == 0 { moment(store, key).await } else { Moment::from_millis(0) };
        points.push(Restored { txid: *txid, moment, state, content });
    }
    in_order(&points, &records.order);
    let newest = scene.restore(When::Latest).await.expect("restored");
    assert_eq!(newest, points.last().expect("a point").content);
    let findings = scene.verify().await.findings;
    assert!(findings.len() <= unreachable || harmed > 0, "{findings:?}");
    if harmed == 0 {
        moments(scene, &points, rng).await;
    }
}

/// The state that a database claims to be.
fn state_of(content: &Content) -> State {
    let rows = content.get("state").expect("the table");
    let number = rows[0].split("Integer(").nth(2).and_then(|rest| rest.strip_suffix(')')).expect("a number");
    number.parse().expect("a number")
}

async fn moment(store: &MemoryStore, key: &ObjectKey) -> Moment {
    let vault = Vault::new(std::sync::Arc::new(store.clone()), Policy::default());
    let head = vault.read(key, Some(0..100), 100).await.expect("read");
    Moment::from_millis(Header::parse(&head).expect("a header").timestamp_ms)
}

/// TXIDs hold states in the order in which the database had them.
fn in_order(points: &[Restored], history: &[State]) {
    let mut at = 0;
    for point in points {
        let ahead = history[at..].iter().position(|state| *state == point.state);
        let Some(ahead) = ahead else {
            panic!("{:x} holds state {}, older than the one before", point.txid, point.state)
        };
        at += ahead;
    }
}

async fn moments(scene: &Scene, points: &[Restored], rng: &mut fastrand::Rng) {
    let timeline = scene.engine().timeline().await.expect("a timeline");
    assert_eq!(timeline.spans.iter().map(|span| span.points).sum::<u64>(), points.len() as u64);
    let ends: Vec<String> = timeline.holes.iter().map(|hole| hole.to.position.clone()).collect();
    let (first, last) = (points[0].moment.as_millis(), points.last().map_or(0, |point| point.moment.as_millis()));
    let told: Vec<_> = points.iter().map(|point| (point.txid, point.moment.as_millis())).collect();
    assert!(points.is_sorted_by_key(|point| point.moment), "moments don't decrease: {told:x?}");
    for _ in 0..15 {
        let moment = match rng.u8(0..4) {
            0 => points[rng.usize(0..points.len())].moment,
            _ => Moment::from_millis(rng.i64(first - 2000..last + 5000)),
        };
        let behind = points.partition_point(|point| point.moment <= moment);
        let restored = scene.restore(When::Moment(moment)).await;
        let point = behind.checked_sub(1).map(|at| &points[at]);
        let next = points.get(behind);
        let in_hole = next.is_some_and(|next| ends.contains(&Txid(next.txid).to_string()));
        // Between points from before the clock jumped, and points in the future since.
        let future = |point: &Restored| point.moment.since(scene.clock.now()) > Duration::from_secs(2);
        let in_doubt = point.is_some_and(|point| point.moment != moment && !future(point)) && next.is_some_and(future);
        let shared = points.iter().filter(|point| point.moment == moment).count() > 1;
        match point.filter(|point| point.moment == moment || !in_hole) {
            // A clock that jumped left a record. The moments that it touches are refused, except for the moment of a
            // single point.
            Some(point)
                if (point.moment != moment || shared)
                    && restored.as_ref().is_err_and(|e| e.code == "sqlite.moments-in-doubt") =>
            {
                let recorded = timeline.notes.iter().any(|note| note.note.contains("the clock was wrong"));
                assert!(in_doubt || recorded || shared && future(point), "{moment} is in no doubt");
            }
            Some(_) if in_doubt => assert_eq!(restored.expect_err("in doubt").code, "sqlite.moments-in-doubt"),
            Some(point) => assert_eq!(restored.expect("restored"), point.content, "{moment}"),
            None => assert_eq!(restored.expect_err("before all, or in a hole").code, "sqlite.unreachable"),
        }
    }
}
