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
    /// Foreign keys that are checked in the source: the table and what ends with the name.
    checked: Vec<(&'a str, &'a str)>,
    /// The size of the table that an entry is for, by the entry's place.
    sizes: Vec<u64>,
    /// How the entries of that place are made in two steps, if they are.
    steps: Vec<Option<TwoSteps>>,
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
        journal: &'a Journal,
    ) -> Result<Self, Error> {
        let is_checked = |entry: &Entry, kind| kind == Heavy::ForeignKey && unchecked(&entry.statement).is_some();
        let checked = entries.iter().filter(|(entry, kind)| is_checked(entry, *kind));
        let checked = checked.filter_map(|(entry, _)| Some((table(entry)?, entry.tag.as_str()))).collect();
        let entries: Vec<_> = entries.into_iter().filter(|(entry, _)| !journal.has(&step(entry))).collect();
        let rows = connection
            .query("SELECT oid::regclass::text, pg_table_size(oid) FROM pg_class WHERE relkind IN ('r', 'm')")
            .await?;
        let sizes: BTreeMap<String, u64> = rows.iter().map(|row| (row.text(0).to_owned(), row.number(1))).collect();
        let of = |entry: &Entry| table(entry).and_then(|name| sizes.get(name)).copied();
        // What isn't listed is partitioned, and its keys can't be made of indexes.
        let two = |(entry, kind): &(&Entry, Heavy)| of(entry).filter(|_| *kind == Heavy::Key).and(two_steps(entry));
        let steps = entries.iter().map(two).collect();
        let sizes = entries.iter().map(|(entry, _)| of(entry).unwrap_or(0)).collect();
        Ok(Self {
            target,
            encoding,
            entries,
            checked,
            sizes,
            steps,
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
        self.all_of(|kind| matches!(kind, Heavy::Index | Heavy::Key), jobs).await?;
        for (place, steps) in self.steps.iter().enumerate() {
            if let Some(TwoSteps { constraint, .. }) = steps {
                let (entry, _) = self.entries[place];
                let sql = format!("BEGIN; {constraint}; {}; COMMIT", Journal::note(&step(entry)));
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
        let waiting: Vec<usize> = (0..self.entries.len()).filter(|place| wanted(self.entries[*place].1)).collect();
        let alone = waiting.len() < jobs || jobs == 1;
        let jobs = jobs.min(waiting.len());
        let open = waiting.iter().map(|place| self.entries[*place].0.id).collect();
        *self.state() = State { waiting, open, tables: BTreeMap::new() };
        try_join_all((0..jobs).map(|_| self.worker(alone))).await.map(drop)
    }

    async fn worker(&self, alone: bool) -> Result<(), Error> {
        let mut connection = restore::connect(self.target, self.encoding).await?;
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
            free && !entry.needs.iter().any(|need| state.open.contains(need))
        };
        let place = state.waiting.iter().copied().filter(|place| can(place)).max_by_key(|place| self.sizes[*place])?;
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
            let note = Journal::note(&index_step(entry));
            let sql = format!("BEGIN; {setting}; {index}; {note}; COMMIT");
            return connection.execute(&sql).await.map_err(|error| error.about(about));
        }
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

    /// Checks the foreign keys that were made unchecked: not those that are so in the source, nor any that was there.
    async fn validate(&self, connection: &mut Connection, jobs: usize) -> Result<(), Error> {
        let sql = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f' AND NOT convalidated \
                   AND conparentid = 0";
        let keys = connection.query(sql).await?;
        let left: Vec<(String, String)> = keys
            .iter()
            .map(|row| (row.text(0).to_owned(), row.text(1).to_owned()))
            .filter(|(table, name)| self.is_checked(table, name))
            .collect();
        let left = Mutex::new(left);
        let worker = async || {
            let mut connection = restore::connect(self.target, self.encoding).await?;
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((table, name)) = next else { break };
                let sql = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {}", ident(&name));
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

    fn is_checked(&self, table_name: &str, name: &str) -> bool {
        let names = |tag: &str| tag.strip_suffix(name).is_some_and(|rest| rest.ends_with(' '));
        self.checked.iter().any(|(table, tag)| *table == table_name && names(tag))
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

/// A key as an index, which others of its table can be made beside, and a constraint that takes it over at once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TwoSteps {
    index: String,
    constraint: String,
}

/// How a plain primary key or unique constraint is made in two steps; `None` for anything else.
fn two_steps(entry: &Entry) -> Option<TwoSteps> {
    let name = table(entry)?;
    let rest = entry.statement.trim_start().strip_prefix("ALTER TABLE ONLY ")?.strip_prefix(name)?;
    let rest = rest.trim_start().strip_prefix("ADD CONSTRAINT ")?;
    let (constraint, rest) = rest.split_at(word(rest)?);
    let rest = rest.trim_start();
    let (kind, columns) =
        ["PRIMARY KEY ", "UNIQUE "].iter().find_map(|kind| Some((*kind, rest.strip_prefix(kind)?)))?;
    let columns = columns.trim_end().strip_suffix(';')?;
    // One list of columns and nothing behind it: neither INCLUDE nor DEFERRABLE nor a second statement.
    let mut quoted = false;
    let closing = columns.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c == ')'
    })?;
    let plain = columns.starts_with('(') && closing + 1 == columns.len() && !columns.ends_with(" WITHOUT OVERLAPS)");
    plain.then(|| TwoSteps {
        index: format!("CREATE UNIQUE INDEX {constraint} ON {name} USING btree {columns}"),
        constraint: format!("ALTER TABLE ONLY {name} ADD CONSTRAINT {constraint} {kind}USING INDEX {constraint}"),
    })
}

/// Where the name at the beginning of `text` ends.
fn word(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    })
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
    Some(&rest[..word(rest)?])
}

/// The statement of a foreign key with its check put off; none where the source has it so.
fn unchecked(statement: &str) -> Option<String> {
    let plain = statement.trim_end().strip_suffix(';')?;
    let is_left_so = [" NOT VALID", " NOT ENFORCED"].iter().any(|words| plain.ends_with(words));
    (!is_left_so).then(|| format!("{plain} NOT VALID"))
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
    fn plain_keys_are_made_of_indexes() {
        let made =
            two_steps(&entry("ALTER TABLE ONLY s.\"my t\"\n    ADD CONSTRAINT \"a b\" PRIMARY KEY (id, \"x)\");\n"));
        let expected = TwoSteps {
            index: "CREATE UNIQUE INDEX \"a b\" ON s.\"my t\" USING btree (id, \"x)\")".into(),
            constraint: "ALTER TABLE ONLY s.\"my t\" ADD CONSTRAINT \"a b\" PRIMARY KEY USING INDEX \"a b\"".into(),
        };
        assert_eq!(made, Some(expected));
        assert!(two_steps(&entry("ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE (b);\n")).is_some());
        for other in [
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b) INCLUDE (c);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE (b) DEFERRABLE INITIALLY DEFERRED;\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a UNIQUE NULLS NOT DISTINCT (b);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b);\n\nALTER TABLE s.t CLUSTER ON a;\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a EXCLUDE USING gist (b WITH =);\n",
            "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (b, c WITHOUT OVERLAPS);\n",
        ] {
            assert_eq!(two_steps(&entry(other)), None, "{other}");
        }
    }

    #[test]
    fn a_check_is_put_off_once() {
        assert_eq!(unchecked("ALTER … (id);\n").as_deref(), Some("ALTER … (id) NOT VALID"));
        assert_eq!(unchecked("ALTER … (id) NOT VALID;\n"), None);
        assert_eq!(unchecked("ALTER … (id) NOT ENFORCED;\n"), None);
    }
}
