//! Random histories under random policies, with merges and deletions: every point that the policy promises can be
//! restored exactly, and a restore that was planned before finds its objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::abilities::*;
use seawall_core::{Clock, IntegrityCheck, Moment, NoProgress, RestoreRequest, When};
use seawall_sqlite::{LevelPolicy, Retention, Upkeep};
use seawall_vault::memory::MemoryStore;
use seawall_vault::{ObjectKey, Store};

use crate::world::{SCHEMA, Scene, content_of, insert};

type Content = BTreeMap<String, Vec<String>>;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A state that was captured.
struct Capture {
    position: String,
    moment: Moment,
    content: Content,
}

/// A restore that was planned and not carried out yet.
struct Planned {
    at: Moment,
    objects: Vec<String>,
}

struct History {
    seed: u64,
    random: fastrand::Rng,
    scene: Scene,
    store: MemoryStore,
    app: rusqlite::Connection,
    captures: Vec<Capture>,
    /// Bases by their positions, as they were first seen.
    bases: BTreeMap<String, Moment>,
    planned: Vec<Planned>,
}

#[tokio::test]
async fn of_every_policy_are_kept() {
    for seed in 0..8 {
        let mut history = History::begin(seed);
        for _ in 0..50 {
            history.step().await;
            history.check().await;
        }
        assert!(history.planned.len() > 5, "seed {seed}: nothing was planned");
    }
}

fn policy(random: &mut fastrand::Rng) -> Upkeep {
    let span =
        |random: &mut fastrand::Rng, choices: &[u64]| Duration::from_secs(choices[random.usize(..choices.len())]);
    let keep = |random: &mut fastrand::Rng| random.bool().then(|| span(random, &[2 * MINUTE, 10 * MINUTE, HOUR]));
    let levels = [30, 2 * MINUTE, 10 * MINUTE].map(|seconds| {
        let interval = Duration::from_secs(seconds);
        LevelPolicy { interval, keep: keep(random) }
    });
    let count = |random: &mut fastrand::Rng| if random.bool() { 0 } else { random.u32(1..4) };
    Upkeep {
        levels: levels[..random.usize(1..=3)].to_vec(),
        base_interval: Some(span(random, &[15 * MINUTE, HOUR, 5 * HOUR])),
        retention: Retention {
            l0: (random.u8(..5) > 0).then(|| span(random, &[0, 30, 5 * MINUTE])),
            window: (random.u8(..5) > 0).then(|| span(random, &[0, 10 * MINUTE, HOUR, 6 * HOUR])),
            grace: span(random, &[MINUTE, 15 * MINUTE]),
            minimum: random.u32(1..4),
            hourly: count(random),
            daily: count(random),
            ..Retention::default()
        },
        ..Upkeep::default()
    }
}

impl History {
    fn begin(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut scene, store) = Scene::in_memory();
        scene.upkeep = Arc::new(policy(&mut random));
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        let (captures, bases, planned) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { seed, random, scene, store, app, captures, bases, planned }
    }

    fn now(&self) -> Moment {
        self.scene.clock.now()
    }

    /// Some time passes, a commit happens or not, a point is taken, and the due work is done.
    async fn step(&mut self) {
        let seconds = match self.random.u8(..10) {
            0..=5 => self.random.u64(1..20),
            6..=7 => self.random.u64(30..10 * MINUTE),
            8 => self.random.u64(10 * MINUTE..2 * HOUR),
            _ => self.random.u64(2 * HOUR..30 * HOUR),
        };
        self.scene.tick(i64::try_from(seconds * 1000).expect("small"));
        match self.random.u8(..12) {
            0..=8 => insert(&self.app, self.random.u32(1..4), self.random.u32(1..9000)),
            9 => self.app.execute_batch("DELETE FROM t WHERE id % 3 > 0; VACUUM").expect("shrunk"),
            // An unobserved restart: the next capture is a base after a hole.
            10 => {
                insert(&self.app, 1, 10);
                self.app.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("cut");
                insert(&self.app, 1, 10);
            }
            _ => {}
        }
        let point = self.scene.point().await;
        let known = self.captures.last().is_some_and(|last| last.position == point.position);
        if !known {
            let content = content_of(&self.app);
            self.captures.push(Capture { position: point.position, moment: point.moment, content });
        }
        for key in self.keys("0009/").await {
            let position = key[22..38].to_owned();
            let capture = self.captures.iter().find(|capture| capture.position == position);
            // The first base has no capture of its own, but its successor is the same state.
            let moment = capture.map_or(self.captures[0].moment, |capture| capture.moment);
            self.bases.entry(position).or_insert(moment);
        }
    }

    async fn keys(&self, prefix: &str) -> Vec<String> {
        let prefix = seawall_vault::Prefix::new(prefix).expect("a prefix");
        let page = self.store.list(&prefix, None, 10_000).await.expect("a listing");
        page.entries.iter().map(|entry| entry.key.to_string()).collect()
    }

    async fn check(&mut self) {
        let again = self.scene.engine().maintain(true).await.expect("a rehearsal");
        assert_eq!((again.made, again.removed), (vec![], vec![]), "seed {}: the second time", self.seed);
        self.check_planned().await;
        let promised = self.promised();
        let (last, others) = promised.split_last().expect("the newest is promised");
        self.restores(*last).await;
        for _ in 0..others.len().min(2) {
            let one = others[self.random.usize(..others.len())];
            self.restores(one).await;
        }
        self.every_moment_of_the_window().await;
        assert_eq!(self.scene.verify().await.findings, [], "seed {}", self.seed);
    }

    /// Positions that must be restorable now: the newest, the young ones, and the bases that the calendar chooses.
    fn promised(&self) -> Vec<usize> {
        let (retention, now) = (&self.scene.upkeep.retention, self.now());
        let precise = retention.l0.unwrap_or(Duration::MAX).min(retention.window.unwrap_or(Duration::MAX));
        let mut promised: Vec<usize> = Vec::new();
        for (index, capture) in self.captures.iter().enumerate() {
            let young = now.since(capture.moment) <= precise;
            if young || self.chosen_bases().contains(&capture.position) || index + 1 == self.captures.len() {
                promised.push(index);
            }
        }
        promised
    }

    /// The newest base of each of the last hours and days that have one, told from the text of their moments.
    fn chosen_bases(&self) -> Vec<String> {
        let retention = &self.scene.upkeep.retention;
        let mut chosen: Vec<String> = self.bases.keys().rev().take(retention.minimum as usize).cloned().collect();
        for (count, digits) in [(retention.hourly, "2026-11-22T01".len()), (retention.daily, "2026-11-22".len())] {
            let mut periods: BTreeMap<String, String> = BTreeMap::new();
            for (position, moment) in &self.bases {
                periods.insert(moment.to_string()[..digits].to_owned(), position.clone());
            }
            chosen.extend(periods.values().rev().take(count as usize).cloned());
        }
        chosen
    }

    async fn restores(&mut self, index: usize) {
        let capture = &self.captures[index];
        let what = format!("seed {}, {}: {:?}", self.seed, capture.position, self.scene.upkeep);
        let when = When::Position(capture.position.clone());
        let restored = self.scene.restore(when.clone()).await;
        assert_eq!(restored.unwrap_or_else(|e| unreachable!("{what}: {e}")), capture.content, "{what}");
        let request = RestoreRequest {
            output: self.scene.path("never.db"),
            when,
            force: false,
            dry_run: true,
            integrity: IntegrityCheck::None,
        };
        let plan = self.scene.engine().restore(&request, Arc::new(NoProgress)).await.expect("a plan");
        let objects = plan.objects.into_iter().map(|object| object.key).collect();
        self.planned.push(Planned { at: self.now(), objects });
    }

    /// Restores that were planned within the last grace period can still be read.
    async fn check_planned(&self) {
        let grace = self.scene.upkeep.retention.grace;
        for planned in self.planned.iter().filter(|planned| self.now().since(planned.at) <= grace) {
            for object in &planned.objects {
                let key = ObjectKey::new(object).expect("a key");
                let found = self.store.head(&key).await;
                assert!(found.is_ok(), "seed {}: {object} is gone since {}", self.seed, planned.at);
            }
        }
    }

    /// A moment of the window is reached to the precision of the levels that keep objects of that age.
    async fn every_moment_of_the_window(&mut self) {
        let Upkeep { levels, retention, .. } = &*self.scene.upkeep;
        let now = self.now();
        let window = retention.window.unwrap_or(Duration::MAX);
        let inside: Vec<usize> =
            (0..self.captures.len()).filter(|index| now.since(self.captures[*index].moment) <= window).collect();
        let Some(at) = (!inside.is_empty()).then(|| inside[self.random.usize(..inside.len())]) else { return };
        let wanted = &self.captures[at];
        let age = now.since(wanted.moment);
        let precise = levels.iter().find(|level| level.keep.is_none_or(|keep| age <= keep));
        let precision = precise.or(levels.last()).map_or(Duration::ZERO, |level| level.interval);
        let reached = self.scene.restore(When::Moment(wanted.moment)).await;
        let what = format!("seed {}, {} at {}: {:?}", self.seed, wanted.position, wanted.moment, self.scene.upkeep);
        match reached {
            Ok(content) => {
                let reached = self.captures[..=at].iter().rposition(|capture| capture.content == content);
                let reached = reached.unwrap_or_else(|| unreachable!("{what}: no state that ever was"));
                // Everything between the point that was reached and the one that was asked for is of one window.
                let skipped = self.captures[reached + 1..=at]
                    .first()
                    .map_or(Duration::ZERO, |first| wanted.moment.since(first.moment));
                assert!(skipped < precision, "{what}: {skipped:?} were skipped");
            }
            Err(failure) => {
                // Nothing before it: the first window of a history, or of one that begins behind a hole.
                assert_eq!(failure.code, "sqlite.unreachable", "{what}: {failure}");
                let since =
                    self.captures[..=at].iter().rev().take_while(|capture| !self.bases.contains_key(&capture.position));
                let begun = since.last().map_or(Duration::ZERO, |first| wanted.moment.since(first.moment));
                assert!(begun < precision, "{what}: {failure}");
            }
        }
    }
}
