//! Indexes and constraints after the rows: many at once, the largest first, each noted in the journal by its own
//! transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use tokio::sync::Notify;

use crate::client::quote::ident;
use crate::client::{Connection, Target};
use crate::journal::Journal;
use crate::toc::{Entry, Heavy};
use crate::{Error, restore};

/// What is to be made.
pub(crate) struct Build<'a> {
    pub(crate) target: &'a Target,
    pub(crate) encoding: &'a str,
    entries: Vec<(&'a Entry, Heavy)>,
    /// Foreign keys that the source has unchecked: the table and what ends with the name.
    unchecked: Vec<(&'a str, &'a str)>,
    /// The size of the table that an entry is for, by the entry's place.
    sizes: Vec<u64>,
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
        journal: &Journal,
    ) -> Result<Self, Error> {
        let is_unchecked = |entry: &Entry, kind| kind == Heavy::ForeignKey && unchecked(&entry.statement).is_none();
        let unchecked = entries.iter().filter(|(entry, kind)| is_unchecked(entry, *kind));
        let unchecked = unchecked.filter_map(|(entry, _)| Some((table(entry)?, entry.tag.as_str()))).collect();
        let entries: Vec<_> = entries.into_iter().filter(|(entry, _)| !journal.has(&step(entry))).collect();
        let rows = connection
            .query("SELECT oid::regclass::text, pg_table_size(oid) FROM pg_class WHERE relkind IN ('r', 'm')")
            .await?;
        let sizes: BTreeMap<String, u64> = rows.iter().map(|row| (row.text(0).to_owned(), row.number(1))).collect();
        let sizes =
            entries.iter().map(|(entry, _)| table(entry).and_then(|name| sizes.get(name)).copied().unwrap_or(0));
        let sizes = sizes.collect();
        Ok(Self { target, encoding, entries, unchecked, sizes, state: Mutex::default(), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes everything with `jobs` connections: keys and indexes, then what belongs together, then foreign keys,
    /// unchecked at first and then checked at once.
    pub(crate) async fn run(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        self.all_of(|kind| matches!(kind, Heavy::Index | Heavy::Key), jobs).await?;
        for kind in [Heavy::Attach, Heavy::ForeignKey] {
            for place in (0..self.entries.len()).filter(|place| self.entries[*place].1 == kind) {
                self.make(connection, place).await?;
            }
        }
        self.validate(connection, jobs).await
    }

    async fn all_of(&self, wanted: impl Fn(Heavy) -> bool, jobs: usize) -> Result<(), Error> {
        let waiting: Vec<usize> = (0..self.entries.len()).filter(|place| wanted(self.entries[*place].1)).collect();
        let jobs = jobs.min(waiting.len());
        let open = waiting.iter().map(|place| self.entries[*place].0.id).collect();
        *self.state() = State { waiting, open, tables: BTreeMap::new() };
        try_join_all((0..jobs).map(|_| self.worker())).await.map(drop)
    }

    async fn worker(&self) -> Result<(), Error> {
        let mut connection = restore::connect(self.target, self.encoding).await?;
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
            let (entry, kind) = self.entries[*place];
            let free = table(entry)
                .and_then(|name| state.tables.get(name))
                .is_none_or(|(busy, alone)| *busy == 0 || (kind == Heavy::Index && !alone));
            free && !entry.needs.iter().any(|need| state.open.contains(need))
        };
        let place = state.waiting.iter().copied().filter(|place| can(place)).max_by_key(|place| self.sizes[*place])?;
        state.waiting.retain(|waiting| *waiting != place);
        if let Some(name) = table(self.entries[place].0) {
            let busy = state.tables.entry(name.to_owned()).or_default();
            *busy = (busy.0 + 1, self.entries[place].1 != Heavy::Index);
        }
        Some(place)
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
        let about = format!("{} {}", entry.kind.to_lowercase(), entry.tag);
        let setting = format!("SET LOCAL default_tablespace = {}", ident(&entry.tablespace));
        let setting =
            if entry.tablespace.is_empty() { "SET LOCAL default_tablespace = ''".to_owned() } else { setting };
        let note = Journal::note(&step(entry));
        let with = |statement: &str| format!("BEGIN; {setting}; {statement}\n; {note}; COMMIT");
        if kind == Heavy::ForeignKey
            && let Some(unchecked) = unchecked(&entry.statement)
        {
            match connection.execute(&with(&unchecked)).await {
                // Partitioned tables can't have unchecked ones before version 18.
                Err(error) if matches!(error.sqlstate(), Some("0A000" | "42809")) => {
                    connection.execute("ROLLBACK").await?;
                }
                made => return made.map_err(|error| error.about(about)),
            }
        }
        connection.execute(&with(&entry.statement)).await.map_err(|error| error.about(about))
    }

    /// Checks the foreign keys that were made unchecked, and not those that were unchecked in the source.
    async fn validate(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        // Whatever of them the source left unchecked is made by now, so its statement tells.
        let sql = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f' AND NOT convalidated \
                   AND conparentid = 0";
        let keys = connection.query(sql).await?;
        let left: Vec<(String, String)> = keys
            .iter()
            .map(|row| (row.text(0).to_owned(), ident(row.text(1))))
            .filter(|(table, name)| !self.stays_unchecked(table, name))
            .collect();
        let left = Mutex::new(left);
        let worker = async || {
            let mut connection = restore::connect(self.target, self.encoding).await?;
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((table, name)) = next else { break };
                let sql = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {name}");
                connection
                    .execute(&sql)
                    .await
                    .map_err(|error| error.about(format!("foreign key {name} of {table}")))?;
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        let jobs = jobs.min(left.lock().unwrap_or_else(PoisonError::into_inner).len());
        try_join_all((0..jobs).map(|_| worker())).await.map(drop)
    }

    fn stays_unchecked(&self, table_name: &str, name: &str) -> bool {
        let plain = name.trim_matches('"').replace("\"\"", "\"");
        self.unchecked.iter().any(|(table, tag)| *table == table_name && tag.ends_with(&plain))
    }
}

fn step(entry: &Entry) -> String {
    format!("entry {}", entry.id)
}

/// The table that a statement of `pg_dump` is about: `CREATE INDEX … ON [ONLY] table USING …`, `ALTER TABLE ONLY table`.
/// Only to keep statements from waiting for each other: where it is wrong they do wait.
fn table(entry: &Entry) -> Option<&str> {
    let statement = entry.statement.trim_start();
    let rest = match statement.strip_prefix("ALTER TABLE ") {
        Some(rest) => rest,
        None => statement.split_once(" ON ")?.1,
    };
    let rest = rest.strip_prefix("ONLY ").unwrap_or(rest);
    let mut quoted = false;
    let end = rest.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    });
    Some(&rest[..end?])
}

/// The statement of a foreign key with its check put off; none where the source has it so.
fn unchecked(statement: &str) -> Option<String> {
    let plain = statement.trim_end().strip_suffix(';')?;
    (!plain.ends_with(" NOT VALID")).then(|| format!("{plain} NOT VALID"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toc::Section;

    fn entry(statement: &str) -> Entry {
        Entry {
            id: 1,
            kind: "INDEX".into(),
            tag: String::new(),
            statement: statement.into(),
            schema: String::new(),
            tablespace: String::new(),
            owner: String::new(),
            section: Section::After,
            needs: Vec::new(),
        }
    }

    #[test]
    fn the_table_of_a_statement() {
        for (statement, name) in [
            ("CREATE INDEX a ON public.orders USING btree (at);\n", Some("public.orders")),
            ("CREATE UNIQUE INDEX a ON ONLY public.\"my orders\" USING btree (at);", Some("public.\"my orders\"")),
            ("ALTER TABLE ONLY public.orders\n    ADD CONSTRAINT a PRIMARY KEY (id);\n", Some("public.orders")),
            ("ALTER TABLE public.\"a\"\"b c\" ADD x;", Some("public.\"a\"\"b c\"")),
            ("SELECT 1;", None),
        ] {
            assert_eq!(table(&entry(statement)), name, "{statement}");
        }
    }

    #[test]
    fn a_check_is_put_off_once() {
        assert_eq!(unchecked("ALTER … (id);\n").as_deref(), Some("ALTER … (id) NOT VALID"));
        assert_eq!(unchecked("ALTER … (id) NOT VALID;\n"), None);
    }
}
