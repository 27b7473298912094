//! What names, sizes and times of a database's objects add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use seawall_archive::{Schedule, SetId};
use seawall_core::{Moment, Point};

use super::names::Fact;
use super::trend::{self, Rhythm};

/// Complete copies that are remembered, the newest: enough for a trend.
const COPIES: usize = 64;

/// How far a moment in a name may be ahead of the store's own time.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// Instances that are remembered.
const INSTANCES: usize = 32;

/// About how many bytes of memory a set takes, here and in a row.
const OF_SET: usize = 120;

/// About how many bytes of memory the name of an instance takes beside its letters.
const OF_INSTANCE: usize = 64;

/// Days of the forecast.
pub(super) const DAYS: i64 = 30;

/// The form of a database's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// LTX files.
    Ltx,
    /// Files from before Litestream 0.5.
    Generations,
    /// Snapshots of an LMDB environment.
    Snapshots,
    /// Backup sets of a server.
    Sets,
    /// The files and the log of a PostgreSQL cluster.
    Cluster,
}

/// Bytes of a set, and whether its index is there.
#[derive(Debug, Clone, Copy, Default)]
struct Set {
    bytes: u64,
    is_whole: bool,
}

/// What is known of one database so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// `None` while only objects were seen that any engine may have.
    pub(super) form: Option<Form>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// Whether there is a file that begins with the first transaction. Each restore of a replica begins with such a file.
    pub(super) has_first: bool,
    /// The last transaction, and when its first object was written.
    last: Option<(u64, Moment)>,
    /// The newest snapshot, with its instance.
    snapshot: Option<(Moment, String)>,
    /// The newest complete copies.
    copies: Vec<(Moment, u64)>,
    sets: BTreeMap<SetId, Set>,
    /// The newest base of a cluster.
    pub(super) base: Option<SetId>,
    /// When the newest part of a cluster's log was written.
    pub(super) logged: Option<Moment>,
    /// The last link of the chain.
    pub(super) link: u64,
    pub(super) holes: u64,
    /// When the newest proof ended, by the name of its record.
    pub(super) proof: Option<Moment>,
    pub(super) instances: BTreeSet<String>,
    /// The bytes of their names.
    of_instances: usize,
    pub(super) is_encrypted: bool,
    /// Names with moments later than the store's own time of the object: of a wrong clock, or of a stranger.
    pub(super) later: u64,
}

/// What a tally comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sum {
    pub(super) newest: Option<Point>,
    /// Size of the newest complete copy, as it is stored.
    pub(super) copy_bytes: Option<u64>,
    /// Bytes a day by which complete copies grow.
    pub(super) growth: Option<i64>,
    pub(super) rhythm: Option<Rhythm>,
}

impl Tally {
    /// Takes up an object: what it is, its size, and when its content is from. Returns about how many bytes of memory it takes.
    pub(super) fn add(&mut self, fact: Fact, size: u64, modified: Moment) -> usize {
        let before = self.weight();
        self.take(fact, size, modified);
        self.weight().saturating_sub(before)
    }

    /// About how many bytes of memory its lists take.
    fn weight(&self) -> usize {
        const COPY: usize = size_of::<(Moment, u64)>();
        self.copies.len() * COPY + self.sets.len() * OF_SET + self.instances.len() * OF_INSTANCE + self.of_instances
    }

    fn take(&mut self, fact: Fact, size: u64, modified: Moment) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(size);
        let form = match &fact {
            Fact::Ltx(..) => Some(Form::Ltx),
            Fact::Generation => Some(Form::Generations),
            Fact::Snapshot(..) => Some(Form::Snapshots),
            Fact::Index(_) | Fact::Chunk(_) | Fact::Link(_) => Some(Form::Sets),
            Fact::Base(_) | Fact::BaseContent(_) | Fact::Log => Some(Form::Cluster),
            _ => None,
        };
        // A new replica may lie beside an old one: then the new one counts. Of a server's two kinds of backups, sets count.
        let gives_way = |known| known == Form::Generations || (known == Form::Cluster && form == Some(Form::Sets));
        if self.form.is_none_or(gives_way) {
            self.form = form.or(self.form);
        }
        match fact {
            Fact::Ltx(level, min, max) => {
                self.has_first |= min == 1;
                self.last = Some(match self.last {
                    Some((last, at)) if last > max => (last, at),
                    // Objects with the same transactions are merged from the first.
                    Some((last, at)) if last == max => (last, at.min(modified)),
                    _ => (max, modified),
                });
                if level == 9 {
                    self.copy(modified, size);
                }
            }
            Fact::Snapshot(_, at) if at > modified.after(SKEW) => self.later += 1,
            Fact::Index(id) if id.moment() > modified.after(SKEW) => self.later += 1,
            Fact::Base(id) if id.moment() > modified.after(SKEW) => self.later += 1,
            Fact::Base(id) => self.base = self.base.max(Some(id)),
            Fact::BaseContent(_) => {}
            Fact::Log => self.logged = self.logged.max(Some(modified)),
            Fact::Snapshot(instance, at) => {
                if self.snapshot.as_ref().is_none_or(|(newest, _)| *newest < at) {
                    self.snapshot = Some((at, instance.clone()));
                }
                if self.instances.len() < INSTANCES && !self.instances.contains(&instance) {
                    self.of_instances += instance.len();
                    self.instances.insert(instance);
                }
                self.copy(at, size);
            }
            Fact::Index(id) => {
                let set = self.sets.entry(id).or_default();
                (set.bytes, set.is_whole) = (set.bytes.saturating_add(size), true);
            }
            Fact::Chunk(id) => {
                let set = self.sets.entry(id).or_default();
                set.bytes = set.bytes.saturating_add(size);
            }
            Fact::Link(number) => self.link = self.link.max(number),
            Fact::Hole => self.holes += 1,
            Fact::Proof(at) => self.proof = self.proof.max(Some(at)),
            Fact::Encryption => self.is_encrypted = true,
            Fact::Generation => {
                if self.form == Some(Form::Generations) {
                    let at = self.last.map_or(modified, |(_, at)| at.max(modified));
                    self.last = Some((0, at));
                }
            }
            Fact::Other => {}
        }
    }

    fn copy(&mut self, at: Moment, size: u64) {
        if self.copies.len() < COPIES {
            self.copies.push((at, size));
        } else if let Some(oldest) = self.copies.iter_mut().min_by_key(|(at, _)| *at)
            && oldest.0 < at
        {
            // Names sort by instance before time.
            *oldest = (at, size);
        }
    }

    /// The sets whose index is there, oldest first, each with its bytes.
    pub(super) fn whole(&self) -> Vec<(SetId, u64)> {
        self.sets.iter().filter(|(_, set)| set.is_whole).map(|(id, set)| (*id, set.bytes)).collect()
    }

    /// What it comes to at `now`.
    pub(super) fn sum(&self, now: Moment) -> Sum {
        let (newest, copies): (Option<Point>, Vec<(Moment, u64)>) = match self.form {
            // Without a chain no set counts.
            Some(Form::Sets) if self.link == 0 => return Sum::default(),
            Some(Form::Sets) => return of_sets(&self.whole(), None, now),
            Some(Form::Snapshots) => {
                let newest = self.snapshot.as_ref();
                let newest = newest.map(|(at, instance)| Point { position: instance.clone(), moment: *at });
                (newest, self.copies.clone())
            }
            Some(Form::Ltx) => {
                let newest = self.last.map(|(last, moment)| Point { position: format!("{last:016x}"), moment });
                (newest, self.copies.clone())
            }
            // Positions of that format are pairs, and their order isn't that of their names.
            Some(Form::Generations) => {
                (self.last.map(|(_, moment)| Point { position: String::new(), moment }), Vec::new())
            }
            // Neither restores anything without the other.
            Some(Form::Cluster) => {
                let newest = self.base.zip(self.logged);
                (newest.map(|(base, moment)| Point { position: base.to_string(), moment }), Vec::new())
            }
            None => (None, Vec::new()),
        };
        // Only backup sets are made by the clock. The others follow their database's changes.
        Sum::of(newest, &copies, None)
    }
}

/// What sets come to at `now`, oldest first, each with its bytes. `schedule` is that of the newest, if it is known.
pub(super) fn of_sets(sets: &[(SetId, u64)], schedule: Option<&Schedule>, now: Moment) -> Sum {
    let newest = sets.last().map(|(id, _)| Point { position: id.to_string(), moment: id.moment() });
    let copies: Vec<(Moment, u64)> = sets.iter().map(|(id, bytes)| (id.moment(), *bytes)).collect();
    let moments: Vec<Moment> = copies.iter().map(|(at, _)| *at).collect();
    let rhythm = match schedule {
        Some(schedule) => trend::rhythm_by(schedule, &moments, now),
        None => trend::rhythm(&moments, now),
    };
    Sum::of(newest, &copies[copies.len().saturating_sub(COPIES)..], rhythm)
}

impl Sum {
    fn of(newest: Option<Point>, copies: &[(Moment, u64)], rhythm: Option<Rhythm>) -> Self {
        let copy_bytes = copies.iter().max_by_key(|(at, _)| *at).map(|(_, size)| *size);
        Self { newest, copy_bytes, growth: trend::growth(copies), rhythm }
    }

    /// How long ago the newest point was.
    pub(super) fn age(&self, now: Moment) -> Option<Duration> {
        self.newest.as_ref().map(|newest| now.since(newest.moment))
    }

    /// The size of a complete copy in a month.
    pub(super) fn forecast(&self) -> Option<u64> {
        Some(trend::forecast(self.copy_bytes?, self.growth?, DAYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Moment {
        Moment::from_millis(hours * 3_600_000)
    }

    fn tally(facts: &[(Fact, u64, i64)]) -> Tally {
        let mut tally = Tally::default();
        for (fact, size, hours) in facts {
            tally.add(fact.clone(), *size, at(*hours));
        }
        tally
    }

    fn told(tally: &Tally, now: i64) -> (Option<(String, i64)>, Option<u64>, Option<i64>) {
        let sum = tally.sum(at(now));
        let newest = sum.newest.map(|point| (point.position, point.moment.as_millis() / 3_600_000));
        (newest, sum.copy_bytes, sum.growth)
    }

    #[test]
    fn a_replica() {
        let sound = [
            (Fact::Ltx(0, 1, 5), 10, 60),
            (Fact::Ltx(0, 1, 6), 10, 61),
            (Fact::Ltx(1, 1, 6), 15, 62),
            (Fact::Ltx(9, 1, 1), 100, 0),
            (Fact::Ltx(9, 1, 3), 200, 24),
            (Fact::Ltx(9, 1, 5), 300, 48),
            (Fact::Hole, 1, 50),
            (Fact::Proof(at(7)), 1, 8),
            (Fact::Proof(at(5)), 1, 8),
            (Fact::Other, 3, 9),
        ];
        let tally = tally(&sound);
        assert_eq!(told(&tally, 99), (Some(("0000000000000006".into(), 61)), Some(300), Some(100)));
        assert_eq!((tally.objects, tally.bytes, tally.holes, tally.proof), (10, 641, 1, Some(at(7))));
        assert_eq!(tally.sum(at(99)).forecast(), Some(3300));
        assert_eq!(tally.sum(at(99)).rhythm, None, "a replica follows its database's changes");
        assert_eq!(told(&Tally::default(), 1), (None, None, None));
    }

    #[test]
    fn a_set_counts_once_its_index_is_there() {
        let id = |hours: i64| SetId::new(at(hours), 1);
        let mut facts = vec![(Fact::Link(3), 1, 1)];
        for (number, hours) in [0, 24, 48].into_iter().enumerate() {
            let size = 100 * (number as u64 + 1);
            facts.extend([(Fact::Chunk(id(hours)), size - 10, hours), (Fact::Index(id(hours)), 10, hours)]);
        }
        facts.push((Fact::Chunk(id(72)), 5, 72));
        let tally = tally(&facts);
        assert_eq!(told(&tally, 73), (Some((id(48).to_string(), 48)), Some(300), Some(100)));
        let rhythm = tally.sum(at(80)).rhythm.expect("three sets");
        assert_eq!((rhythm.every, rhythm.gaps, rhythm.due), (Duration::from_secs(24 * 3600), 0, Some(at(73))));
        assert_eq!(tally.form, Some(Form::Sets));
        let without_chain = Tally { link: 0, ..tally };
        assert_eq!(without_chain.sum(at(80)), Sum::default());
    }

    #[test]
    fn the_newest_instance() {
        let snapshot = |instance: &str, hours| Fact::Snapshot(instance.into(), at(hours));
        let future = (snapshot("d", 2000), 40, 9);
        let tally = tally(&[(snapshot("a", 5), 10, 5), (snapshot("b", 9), 20, 9), (snapshot("c", 7), 30, 7), future]);
        assert_eq!(told(&tally, 10), (Some(("b".into(), 9)), Some(20), None));
        assert_eq!((tally.instances.len(), tally.later), (3, 1));
    }

    #[test]
    fn the_newest_copies_are_remembered_whatever_their_names() {
        let mut tally = Tally::default();
        tally.add(Fact::Snapshot("a".into(), at(1000)), 7, at(1000));
        for hour in 0..100 {
            tally.add(Fact::Snapshot("b".into(), at(hour)), 5, at(hour));
        }
        assert_eq!((tally.copies.len(), tally.sum(at(1001)).copy_bytes), (COPIES, Some(7)));
    }

    #[test]
    fn what_is_remembered_is_weighed() {
        let id = |number| SetId::new(at(number), 1);
        let mut tally = Tally::default();
        for (fact, expected) in [
            (Fact::Ltx(0, 1, 5), 0),
            (Fact::Ltx(9, 1, 5), 16),
            (Fact::Index(id(1)), OF_SET),
            (Fact::Chunk(id(1)), 0),
            (Fact::Chunk(id(2)), OF_SET),
            (Fact::Snapshot("abc".into(), at(1)), OF_INSTANCE + 3 + 16),
            (Fact::Snapshot("abc".into(), at(1)), 16),
            (Fact::Hole, 0),
        ] {
            assert_eq!(tally.add(fact.clone(), 1, at(1)), expected, "{fact:?}");
        }
    }

    #[test]
    fn a_new_replica_beside_an_old_one() {
        for order in [[0, 1], [1, 0]] {
            let facts = [(Fact::Generation, 5, 1), (Fact::Ltx(0, 1, 4), 5, 3)];
            let tally = tally(&order.map(|at: usize| facts[at].clone()));
            assert_eq!(tally.form, Some(Form::Ltx));
            assert_eq!(told(&tally, 9).0, Some(("0000000000000004".into(), 3)));
        }
    }
}
