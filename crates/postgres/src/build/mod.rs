//! Indexes and constraints after the rows: many at once, the largest first, each noted in the journal by its own
//! transaction.
//!
//! The room: `refresh` (materialized views), `statistics` (for the planner), `passing` (what fails at each repetition).

pub(crate) mod passing;
pub(crate) mod refresh;
pub(crate) mod statistics;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::try_join_all;
use tokio::sync::Notify;

use crate::Error;
use crate::client::{Connection, Row, Target};
use crate::journal::Journal;
use crate::load::connect::connect;
use crate::load::routed::Named;
use crate::quote::{ident, qualified};
use crate::schema::checked::{self, Constraint, Unchecked};
use crate::schema::toc::{self, Entry, Heavy};

/// The foreign keys that this transaction has made, and whether each was made for a partition.
const KEYS_OF_THIS: &str = "SELECT n.nspname, c.relname, k.conname, k.conparentid <> 0 FROM pg_catalog.pg_constraint k \
     JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE k.contype = 'f' AND k.xmin = pg_catalog.pg_current_xact_id()::pg_catalog.xid";

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

/// The foreign keys that a transaction has made, and whether each was made for a partition.
fn made_keys(rows: &[Row]) -> Vec<(Constraint, bool)> {
    let key = |row: &Row| {
        let [schema, table, name] = [0, 1, 2].map(|column| row.text(column).to_owned());
        (Constraint { schema, table, name }, row.flag(3))
    };
    rows.iter().map(key).collect()
}

/// Whether the check of an unchecked key that a statement has `made` can be put off: it is the one that the statement was
/// read to make, so that it is found again, a resume included. Before version 18 it has none for partitions: only the whole
/// would be checked later.
fn is_found_later(made: &[(Constraint, bool)], read: Option<Constraint>, version: u32) -> bool {
    let mut whole = made.iter().filter(|(_, of_a_partition)| !of_a_partition).map(|(key, _)| key);
    let is_it = whole.next().is_some_and(|key| read.is_some_and(|read| read == *key)) && whole.next().is_none();
    is_it && (version >= 180_000 || made.len() == 1)
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

/// For each entry the one before it, if there is one, that makes another unique index of the same columns. A foreign key
/// depends on the first that was made of those, so that they are made in the order in which `pg_dump` has them.
fn rivals(entries: &[(&Entry, Heavy)]) -> Vec<Option<u32>> {
    let mut last = BTreeMap::new();
    let mut rivals = Vec::with_capacity(entries.len());
    for (entry, _) in entries {
        let columns = table(entry).zip(unique_columns(&entry.statement));
        rivals.push(columns.and_then(|columns| last.insert(columns, entry.id)));
    }
    rivals
}

/// The columns of a unique index or key, in the order of their letters.
fn unique_columns(statement: &str) -> Option<Vec<&str>> {
    let words = ["PRIMARY KEY (", "UNIQUE (", "UNIQUE NULLS NOT DISTINCT ("];
    let list = match statement.trim_start().strip_prefix("CREATE UNIQUE INDEX ") {
        Some(rest) => rest.split_once(" USING ")?.1.split_once('(')?.1,
        None => words.iter().find_map(|word| Some(statement.split_once(word)?.1))?,
    };
    let mut columns: Vec<&str> = list.split_once(')')?.0.split(", ").collect();
    columns.sort_unstable();
    Some(columns)
}

/// The table that a foreign key refers to.
fn referred_to(statement: &str) -> Option<&str> {
    let mut quoted = false;
    let is_outside = |(at, c): (usize, char)| {
        quoted ^= c == '"';
        (!quoted && statement[at..].starts_with(" REFERENCES ")).then_some(at + " REFERENCES ".len())
    };
    let rest = &statement[statement.char_indices().find_map(is_outside)?..];
    let mut quoted = false;
    let end = rest.find(|c: char| {
        quoted ^= c == '"';
        !quoted && c == '('
    })?;
    Some(&rest[..end])
}

/// The statement of a foreign key with its check put off; none where the source has it so.
fn unchecked(statement: &str) -> Option<String> {
    let plain = statement.trim_end().strip_suffix(';')?;
    (!checked::is_left_unchecked(statement)).then(|| format!("{plain} NOT VALID"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

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
    fn unique_indexes_of_the_same_columns_are_made_in_their_order() {
        let made = [
            (1, "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT a PRIMARY KEY (at, id);\n"),
            (2, "CREATE UNIQUE INDEX b ON ONLY s.t USING btree (id, at);"),
            (3, "CREATE UNIQUE INDEX c ON s.other USING btree (id, at);"),
            (4, "CREATE INDEX d ON s.t USING btree (id, at);"),
            (5, "CREATE UNIQUE INDEX e ON s.t USING btree (at, id) INCLUDE (c);"),
            (6, "ALTER TABLE ONLY s.t\n    ADD CONSTRAINT f UNIQUE (at);\n"),
        ];
        let entries = made.map(|(id, statement)| Entry { id, ..entry(statement) });
        let entries: Vec<_> = entries.iter().map(|entry| (entry, Heavy::Index)).collect();
        assert_eq!(rivals(&entries), [None, Some(1), None, None, Some(2), None]);
    }

    #[test]
    fn the_table_that_a_key_refers_to() {
        for (statement, table) in [
            ("ALTER TABLE ONLY s.t\n ADD CONSTRAINT a FOREIGN KEY (b) REFERENCES s.other(id);", Some("s.other")),
            (
                "ALTER TABLE ONLY s.t ADD CONSTRAINT \" REFERENCES x(\" FOREIGN KEY (b) REFERENCES \"s (\".t(id);",
                Some("\"s (\".t"),
            ),
            ("ALTER TABLE ONLY s.t ADD CONSTRAINT a CHECK (b);", None),
        ] {
            assert_eq!(referred_to(statement), table, "{statement}");
        }
    }

    #[test]
    fn the_check_of_a_key_is_put_off_only_where_the_key_is_found_again() {
        let key = |table: &str, name: &str| Constraint { schema: "s".into(), table: table.into(), name: name.into() };
        let (whole, other, part) = ((key("a", "b c"), false), (key("a b", "c"), false), (key("a1", "k"), true));
        for (made, read, version, later) in [
            (vec![whole.clone()], Some(key("a", "b c")), 150_000, true),
            (vec![whole.clone()], Some(key("a b", "c")), 150_000, false),
            (vec![whole.clone()], None, 150_000, false),
            (vec![whole.clone(), other.clone()], Some(key("a", "b c")), 180_000, false),
            (vec![part.clone(), whole.clone()], Some(key("a", "b c")), 180_000, true),
            (vec![part.clone(), whole.clone()], Some(key("a", "b c")), 170_000, false),
            (vec![part.clone()], Some(key("a1", "k")), 180_000, false),
            (vec![], Some(key("a", "b c")), 180_000, false),
        ] {
            assert_eq!(is_found_later(&made, read, version), later, "{made:?}");
        }
    }

    #[test]
    fn a_check_is_put_off_once() {
        assert_eq!(unchecked("ALTER … (id);\n").as_deref(), Some("ALTER … (id) NOT VALID"));
        assert_eq!(unchecked("ALTER … (id) NOT VALID;\n"), None);
        assert_eq!(unchecked("ALTER … (id) NOT ENFORCED;\n"), None);
    }
}
