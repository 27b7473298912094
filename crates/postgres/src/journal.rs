//! Which steps of a restore are done: a table in the target, written in the transaction of each step, so that a restore
//! that was interrupted anywhere goes on, and does each step exactly once.
//!
//! The journal says what is done, never what is planned: a resume may have other settings. Beside each loaded chunk it keeps
//! how many rows the server took, and the end of a restore compares the sums with the set.
//!
//! A server that crashes empties its unlogged tables, whatever the journal says of them. So it has an unlogged table
//! itself, with a row: where that is gone, so are the rows of others.
//!
//! Its schema has a name of its own for each restore, so that it meets no schema of the set, not even the journal of an older
//! restore that is in the set. What is a journal of ours is told by its shape and its name together: [`IS_OURS`].

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::Digest;
use seawall_archive::load::Notes;
use seawall_archive::names::unfinished;

use crate::Error;
use crate::catalog::journals::IS_OURS;
use crate::client::{Connection, Target};
use crate::quote::literal;
use crate::schema::replica;

/// What the names of journals' schemas begin with.
const SCHEMA: &str = "seawall_restore";

/// The schemas that are journals of restores that aren't done.
pub(crate) async fn all(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let ours = format!("SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE {IS_OURS} ORDER BY 1");
    Ok(connection.query(&ours).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Journals that the role itself or a superuser has made: no other role can have written into them, or hung anything on them.
pub(crate) async fn trusted(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let ours = format!(
        "SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE {IS_OURS} AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r \
         WHERE NOT (r.rolsuper OR r.rolname = current_user) AND (r.oid = n.nspowner \
           OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relowner = r.oid))) ORDER BY 1"
    );
    Ok(connection.query(&ours).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Those of a restore that has given its database a name, and isn't done: only the same restore can take the name back.
pub(crate) async fn named(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let mut named = Vec::new();
    for schema in trusted(connection).await? {
        let noted = format!(
            "SELECT EXISTS (SELECT FROM {schema}.journal WHERE pg_catalog.starts_with(step, {}))",
            literal(NAMED)
        );
        if connection.one(&noted).await?.flag(0) {
            named.push(schema);
        }
    }
    Ok(named)
}

/// What the note of the names in a journal begins with.
pub(crate) const NAMED: &str = "named ";

/// The name of the schema for the journal of a restore of this title.
pub(crate) fn name(title: &str) -> String {
    format!("{SCHEMA}_{}", &Digest::of(title.as_bytes()).to_string()[..8])
}

/// The steps that are done.
#[derive(Debug)]
pub(crate) struct Journal {
    /// The schema that it is in.
    pub(crate) schema: String,
    notes: Notes,
    /// Whether the server crashed since it was begun, and emptied what is unlogged.
    crashed: bool,
}

/// Whether a crash of the server would have emptied tables.
pub(crate) async fn has_unlogged_tables(connection: &mut Connection) -> Result<bool, Error> {
    let unlogged = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relpersistence = 'u' AND c.relkind = 'r' AND NOT {IS_OURS})"
    );
    Ok(connection.one(&unlogged).await?.flag(0))
}

/// Whether this restore was begun by a version that kept no rows of chunks: nothing can go on with that. The journal of
/// another restore, which is only a part of the set, has another title.
pub(crate) async fn is_of_before(connection: &mut Connection, title: &str) -> Result<bool, Error> {
    if !trusted(connection).await?.iter().any(|schema| schema == SCHEMA) {
        return Ok(false);
    }
    let noted = format!("SELECT EXISTS (SELECT FROM {SCHEMA}.journal WHERE step = {})", literal(title));
    Ok(connection.one(&noted).await?.flag(0))
}

impl Journal {
    /// The journal of a restore of this title: begun, or found. `None` when there is another one's.
    pub(crate) async fn open(connection: &mut Connection, title: &str) -> Result<Option<Self>, Error> {
        let (schema, there) = (name(title), all(connection).await?);
        if there.contains(&schema) {
            if !trusted(connection).await?.contains(&schema) {
                return Err(foreign(schema));
            }
            return Self::read(connection, schema, title).await;
        }
        if !there.is_empty() {
            return Ok(None);
        }
        let begin = format!(
            "CREATE SCHEMA {schema}; \
             COMMENT ON SCHEMA {schema} IS 'Seawall: what is done of a restore under way. It goes when the restore is done.'; \
             CREATE TABLE {schema}.journal (step pg_catalog.text PRIMARY KEY); \
             CREATE TABLE {schema}.loaded (chunk pg_catalog.int8, item pg_catalog.int8, rows pg_catalog.int8, PRIMARY KEY (chunk, item)); \
             INSERT INTO {schema}.journal VALUES ({}); CREATE UNLOGGED TABLE {schema}.uncrashed (since pg_catalog.text); \
             INSERT INTO {schema}.uncrashed VALUES ('the beginning')",
            literal(title)
        );
        replica::unseen(connection, &begin).await?;
        Ok(Some(Self { schema, notes: Notes::default(), crashed: false }))
    }

    async fn read(connection: &mut Connection, schema: String, title: &str) -> Result<Option<Self>, Error> {
        let notes = Notes::new(steps(connection, &schema).await?);
        let crashed = connection.query(&format!("SELECT since FROM {schema}.uncrashed")).await?.is_empty();
        Ok(notes.is_of(title).then_some(Self { schema, notes, crashed }))
    }

    /// Whether tables may have lost rows that were loaded: nothing can be gone on with.
    pub(crate) async fn has_lost_rows(&self, connection: &mut Connection) -> Result<bool, Error> {
        Ok(self.crashed && self.is_resumed() && has_unlogged_tables(connection).await?)
    }

    /// Whether an earlier run has done anything.
    pub(crate) fn is_resumed(&self) -> bool {
        self.notes.is_resumed()
    }

    /// The same journal for a part of the restore, whose steps have names of their own.
    pub(crate) fn part(&self, part: &str) -> Self {
        Self { schema: self.schema.clone(), notes: self.notes.part(part), crashed: self.crashed }
    }

    /// Whether a step is done.
    pub(crate) fn has(&self, step: &str) -> bool {
        self.notes.has(step)
    }

    /// What follows the name of a step of this part that is done.
    pub(crate) fn said(&self, step: &str) -> Option<&str> {
        self.notes.said(step)
    }

    /// What earlier runs have left out, and why.
    pub(crate) fn left_out(&self) -> Vec<(String, String)> {
        self.notes.left_out()
    }

    /// The chunks that are loaded.
    pub(crate) fn chunks(&self) -> BTreeSet<u32> {
        self.notes.chunks()
    }

    /// The statement that notes a step, to be run in its transaction.
    pub(crate) fn note(&self, step: &str) -> String {
        self.insert(&self.notes.step(step))
    }

    /// The statement that notes what was left out, and why, for the resume that tells it again.
    pub(crate) fn note_left_out(&self, what: &str, cause: &str) -> String {
        self.insert(&self.notes.omission(what, cause)) + " ON CONFLICT DO NOTHING"
    }

    /// The statement that notes a chunk as loaded.
    pub(crate) fn note_chunk(&self, number: u32) -> String {
        self.insert(&self.notes.chunk(number))
    }

    fn insert(&self, note: &str) -> String {
        format!("INSERT INTO {}.journal VALUES ({})", self.schema, literal(note))
    }

    /// The statement that notes how many rows of an item the server took, of chunks that begin with this one.
    pub(crate) fn note_rows(&self, first: u32, item: u32, rows: u64) -> String {
        format!(
            "INSERT INTO {}.loaded AS l VALUES ({first}, {item}, {rows}) \
             ON CONFLICT (chunk, item) DO UPDATE SET rows = l.rows + excluded.rows",
            self.schema
        )
    }

    /// What the server has noted by now: the chunks that are loaded, and the rows of each item.
    pub(crate) async fn loaded(
        &self,
        connection: &mut Connection,
    ) -> Result<(BTreeSet<u32>, BTreeMap<u32, u64>), Error> {
        let Self { schema, .. } = self;
        let notes = self.notes.anew(steps(connection, schema).await?);
        let rows =
            connection.query(&format!("SELECT item, pg_catalog.sum(rows) FROM {schema}.loaded GROUP BY item")).await?;
        let of = |row: &crate::client::Row| (u32::try_from(row.number(0)).unwrap_or(u32::MAX), row.number(1));
        Ok((notes.chunks(), rows.iter().map(of).collect()))
    }

    /// Removes the journal, and runs what comes last in the same transaction, behind the statement `whole`, which says of a
    /// database that has no name yet that all of it is made: the restore is done.
    pub(crate) async fn remove(&self, connection: &mut Connection, whole: &str, last: &[u8]) -> Result<(), Error> {
        let mut all = format!("DROP SCHEMA {} CASCADE;\n{whole}", self.schema).into_bytes();
        all.extend_from_slice(last);
        replica::unseen_script(connection, &all).await
    }
}

/// A journal that another role made says nothing, and runs what that role has hung on it.
fn foreign(schema: String) -> Error {
    Error::Refused {
        code: "postgres.not-ours",
        object: format!("schema {schema}"),
        cause: "it is the journal of this restore, and belongs to another role, which can have put anything into it"
            .to_owned(),
        next: format!(
            "go on as the role that it belongs to; or empty the database, DROP SCHEMA {schema} CASCADE, and start again"
        ),
    }
}

/// All that a journal says.
async fn steps(connection: &mut Connection, schema: &str) -> Result<BTreeSet<String>, Error> {
    let steps = connection.query(&format!("SELECT step FROM {schema}.journal")).await?;
    Ok(steps.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Whether a database is one that a restore makes and hasn't done yet: its name tells, or, of older versions, its name and the
/// journal in it.
pub(crate) async fn is_unfinished(target: &Target) -> Result<bool, Error> {
    if unfinished::is_one(&target.database) {
        return Ok(true);
    }
    if !unfinished::may_be_of_before(&target.database) {
        return Ok(false);
    }
    let mut connection = Connection::open(target).await?;
    let is_one = !all(&mut connection).await?.is_empty();
    connection.close().await;
    Ok(is_one)
}
