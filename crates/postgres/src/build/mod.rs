//! Indexes and constraints after the rows: many at once, the largest first, each noted in the journal by its own
//! transaction.
//!
//! The room: `statement` (what a statement is about), `unchecked` (foreign keys that are checked later), `refresh`
//! (materialized views), `statistics` (for the planner), `passing` (what fails at each repetition).

pub(crate) mod passing;
pub(crate) mod refresh;
mod statement;
pub(crate) mod statistics;
mod unchecked;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use tokio::sync::Notify;

use crate::Error;
use crate::build::statement::{TwoSteps, rivals, table, two_steps};
use crate::build::unchecked::{KEYS_OF_THIS, is_found_later, made_keys, referred_to, unchecked};
use crate::client::{Connection, Target};
use crate::journal::Journal;
use crate::load::connect::connect;
use crate::load::routed::Named;
use crate::quote::{ident, qualified};
use crate::schema::checked::{self, Constraint, Unchecked};
use crate::schema::toc::{self, Entry, Heavy};

/// What is to be made.
pub(crate) struct Build<'a> {
    pub(crate) target: &'a Target,
    pub(crate) encoding: &'a str,
    /// See [`toc::texts`].
    texts: &'static str,
    entries: Vec<(&'a Entry, Heavy)>,
    /// All entries of the set.
    all: &'a [Entry],
    /// The tables that are restored; without, everything.
    chosen: Option<&'a BTreeSet<Named>>,
    /// The size of the table that an entry is for, by the entry's place.
    sizes: Vec<u64>,
    /// How the entries of that place are made in two steps, if they are.
    steps: Vec<Option<TwoSteps>>,
    /// Whether the entry of that place is for a partitioned table: it has no rows, and its partitions' entries follow it.
    parents: Vec<bool>,
    /// The entry that the one of that place comes behind: see [`rivals`].
    rivals: Vec<Option<u32>>,
    /// Before version 18, the tables that an unchecked foreign key may refer to: those that aren't partitioned.
    plain: Option<BTreeSet<String>>,
    /// Steps that an earlier run has done.
    journal: &'a Journal,
    state: Mutex<State>,
    changed: Notify,
}

/// Who does what.
#[derive(Default)]
struct State {
    waiting: Vec<usize>,
    /// Entries by id that aren't done: what needs one of them has to wait.
    open: BTreeSet<u32>,
    /// Tables that are worked on: with a key by one alone, with indexes by any number.
    tables: BTreeMap<String, (usize, bool)>,
}

impl<'a> Build<'a> {
    /// Everything of `entries` that the journal doesn't have.
    pub(crate) async fn new(
        connection: &mut Connection,
        target: &'a Target,
        encoding: &'a str,
        entries: Vec<(&'a Entry, Heavy)>,
        all: &'a [Entry],
        chosen: Option<&'a BTreeSet<Named>>,
        journal: &'a Journal,
    ) -> Result<Self, Error> {
        let entries: Vec<_> = entries.into_iter().filter(|(entry, _)| !journal.has(&step(entry))).collect();
        let rows = connection
            .query(
                "SELECT oid::pg_catalog.regclass::pg_catalog.text, pg_catalog.pg_table_size(oid) \
                 FROM pg_catalog.pg_class WHERE relkind IN ('r', 'm')",
            )
            .await?;
        let sizes: BTreeMap<String, u64> = rows.iter().map(|row| (row.text(0).to_owned(), row.number(1))).collect();
        let rows = connection
            .query("SELECT oid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_class WHERE relkind = 'p'")
            .await?;
        let partitioned: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
        let of = |entry: &Entry| table(entry).and_then(|name| sizes.get(name)).copied();
        // Since version 18 a primary key that is made of an index says that a child's columns aren't null by themselves.
        let rows = match connection.version {
            180_000.. => {
                connection
                    .query("SELECT inhrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_inherits")
                    .await?
            }
            _ => Vec::new(),
        };
        let children: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
        let is_childs = |entry: &Entry| table(entry).is_some_and(|name| children.contains(name));
        // What isn't listed is partitioned, and its keys can't be made of indexes.
        let two = |(entry, kind): &(&Entry, Heavy)| {
            let steps = of(entry).filter(|_| *kind == Heavy::Key).and(two_steps(entry))?;
            (!steps.constraint.contains(" PRIMARY KEY USING INDEX ") || !is_childs(entry)).then_some(steps)
        };
        let steps = entries.iter().map(two).collect();
        let is_parent = |entry: &Entry| table(entry).is_some_and(|name| partitioned.contains(name));
        let parents = entries.iter().map(|(entry, _)| is_parent(entry)).collect();
        let plain = (connection.version < 180_000).then(|| sizes.keys().cloned().collect());
        let sizes = entries.iter().map(|(entry, _)| of(entry).unwrap_or(0)).collect();
        let rivals = rivals(&entries);
        Ok(Self {
            target,
            encoding,
            texts: toc::texts(all),
            entries,
            all,
            chosen,
            sizes,
            steps,
            parents,
            rivals,
            plain,
            journal,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes everything with `jobs` connections: keys and indexes, then what belongs together, then foreign keys,
    /// unchecked at first and then checked at once.
    pub(crate) async fn run(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        let is_first =
            |place: &usize| self.parents[*place] && matches!(self.entries[*place].1, Heavy::Index | Heavy::Key);
        for place in (0..self.entries.len()).filter(is_first) {
            self.make(connection, place).await?;
        }
        self.all_of(|kind| matches!(kind, Heavy::Index | Heavy::Key), jobs).await?;
        for (place, steps) in self.steps.iter().enumerate() {
            if let Some(TwoSteps { constraint, .. }) = steps {
                let (entry, _) = self.entries[place];
                let sql = format!("BEGIN; {constraint}; {}; COMMIT", self.journal.note(&step(entry)));
                connection.execute(&sql).await.map_err(|error| error.about(about(entry)))?;
            }
        }
        for kind in [Heavy::Attach, Heavy::ForeignKey] {
            for place in (0..self.entries.len()).filter(|place| self.entries[*place].1 == kind) {
                self.make(connection, place).await?;
            }
        }
        self.validate(connection, jobs).await
    }

    async fn all_of(&self, wanted: impl Fn(Heavy) -> bool, jobs: usize) -> Result<(), Error> {
        let is_wanted = |place: &usize| wanted(self.entries[*place].1) && !self.parents[*place];
        let waiting: Vec<usize> = (0..self.entries.len()).filter(is_wanted).collect();
        let alone = waiting.len() < jobs || jobs == 1;
        let jobs = jobs.min(waiting.len());
        let open = waiting.iter().map(|place| self.entries[*place].0.id).collect();
        *self.state() = State { waiting, open, tables: BTreeMap::new() };
        try_join_all((0..jobs).map(|_| self.worker(alone))).await.map(drop)
    }

    async fn worker(&self, alone: bool) -> Result<(), Error> {
        let mut connection = connect(self.target, self.encoding).await?;
        connection.execute(self.texts).await?;
        if !alone {
            // As many are made at once as there are jobs: helpers inside each would only be in each other's way.
            connection.execute("SET max_parallel_maintenance_workers = 0").await?;
        }
        loop {
            let changed = self.changed.notified();
            let next = {
                let mut state = self.state();
                if state.waiting.is_empty() { break } else { self.next(&mut state) }
            };
            let Some(place) = next else {
                changed.await;
                continue;
            };
            let made = self.make(&mut connection, place).await;
            self.done(place);
            made?;
        }
        connection.close().await;
        Ok(())
    }

    /// The largest that can be begun now.
    fn next(&self, state: &mut State) -> Option<usize> {
        let can = |place: &usize| {
            let (entry, alone) = (self.entries[*place].0, self.needs_the_table(*place));
            let free = table(entry)
                .and_then(|name| state.tables.get(name))
                .is_none_or(|(busy, taken)| *busy == 0 || !(alone || *taken));
            free && !entry.needs.iter().chain(&self.rivals[*place]).any(|need| state.open.contains(need))
        };
        // Of equally large ones the first.
        let first = |place: &usize| (self.sizes[*place], Reverse(*place));
        let place = state.waiting.iter().copied().filter(|place| can(place)).max_by_key(first)?;
        state.waiting.retain(|waiting| *waiting != place);
        if let Some(name) = table(self.entries[place].0) {
            let busy = state.tables.entry(name.to_owned()).or_default();
            *busy = (busy.0 + 1, self.needs_the_table(place));
        }
        Some(place)
    }

    /// Whether nothing else can be made on its table meanwhile.
    fn needs_the_table(&self, place: usize) -> bool {
        self.entries[place].1 != Heavy::Index && self.steps[place].is_none()
    }

    fn done(&self, place: usize) {
        let mut state = self.state();
        state.open.remove(&self.entries[place].0.id);
        if let Some(busy) = table(self.entries[place].0).and_then(|name| state.tables.get_mut(name)) {
            *busy = (busy.0.saturating_sub(1), false);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Makes one entry and notes it.
    async fn make(&self, connection: &mut Connection, place: usize) -> Result<(), Error> {
        let (entry, kind) = self.entries[place];
        let about = about(entry);
        let setting = format!("SET LOCAL default_tablespace = {}", ident(&entry.tablespace));
        let setting =
            if entry.tablespace.is_empty() { "SET LOCAL default_tablespace = ''".to_owned() } else { setting };
        if let Some(TwoSteps { index, .. }) = &self.steps[place] {
            if self.journal.has(&index_step(entry)) {
                return Ok(());
            }
            let note = self.journal.note(&index_step(entry));
            let sql = format!("BEGIN; {setting}; {index}; {note}; COMMIT");
            return connection.execute(&sql).await.map_err(|error| error.about(about));
        }
        let note = self.journal.note(&step(entry));
        let with = |statement: &str| format!("BEGIN; {setting}; {statement}\n; {note}; COMMIT");
        if kind == Heavy::ForeignKey
            && self.can_be_checked_later(&entry.statement)
            && let Some(unchecked) = unchecked(&entry.statement)
        {
            let made = connection.execute(&format!("BEGIN; {setting}; {unchecked}")).await;
            match made {
                // Partitioned tables can't have unchecked ones before version 18.
                Err(error) if matches!(error.sqlstate(), Some("0A000" | "42809")) => {}
                Err(error) => return Err(error.about(about)),
                Ok(()) => {
                    let made = made_keys(&connection.query(KEYS_OF_THIS).await?);
                    if is_found_later(&made, checked::constraint(&entry.statement), connection.version) {
                        let noted = connection.execute(&format!("{note}; COMMIT")).await;
                        return noted.map_err(|error| error.about(about));
                    }
                }
            }
            connection.execute("ROLLBACK").await?;
        }
        connection.execute(&with(&entry.statement)).await.map_err(|error| error.about(about))
    }

    /// Whether all of a foreign key is checked later. Before version 18 a check of one that refers to a partitioned table
    /// leaves what belongs to it in each partition as unchecked.
    fn can_be_checked_later(&self, statement: &str) -> bool {
        let Some(plain) = &self.plain else { return true };
        referred_to(statement).is_some_and(|table| plain.contains(table))
    }

    /// Checks the foreign keys that were made unchecked: not those that are so in the source, nor any that was there.
    async fn validate(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        let mut unproved = checked::still_unproved(connection, self.all, self.chosen).await?;
        unproved.retain(|one| one.is_whole_key);
        let jobs = jobs.min(unproved.len());
        let left = Mutex::new(unproved);
        let worker = async || {
            let mut connection = connect(self.target, self.encoding).await?;
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some(Unchecked { constraint: Constraint { schema, table, name }, .. }) = next else { break };
                let relation = qualified(&schema, &table);
                let sql = format!("ALTER TABLE {relation} VALIDATE CONSTRAINT {}", ident(&name));
                connection
                    .execute(&sql)
                    .await
                    .map_err(|error| error.about(format!("foreign key {name} of {relation}")))?;
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..jobs).map(|_| worker())).await.map(drop)
    }
}

fn step(entry: &Entry) -> String {
    format!("entry {}", entry.id)
}

fn index_step(entry: &Entry) -> String {
    format!("index of entry {}", entry.id)
}

fn about(entry: &Entry) -> String {
    format!("{} {}", entry.kind.to_lowercase(), entry.tag)
}
