//! Making a set: of one database, or of every database of a server with what belongs to all of them.
//!
//! A snapshot shows all databases of a server, so a set of a server is one state. Definitions aren't in snapshots: they are listed
//! before the snapshots open and behind the reading of definitions, and a difference makes the attempt begin anew. If a table
//! changes later, the server refuses it (error 1412) or a comparison behind its rows finds it (`same`): that begins anew too.

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall_archive::names::{ProofName, unfinished};
use seawall_archive::{Budget, Catalog, Facts as SetFacts, Record, Sample, SetId, SetWriter};
use seawall_core::{Moment, Progress};
use seawall_vault::Vault;
use serde::Serialize;
use tokio::time::Instant;

use crate::artefact;
use crate::artefact::script::Source as ScriptSource;
use crate::catalog::engines::Rows;
use crate::catalog::facts::Facts;
use crate::catalog::inventory::{self, History, Table};
use crate::catalog::listing::Listing;
use crate::catalog::rights::{self, Account};
use crate::catalog::users;
use crate::client::{Connection, Purpose, Target};
use crate::detail::{DatabaseDetail, ItemDetail, ServerDetail, SetDetail, TableName, Taken};
use crate::dump::exchanged::{Places, Verdict};
use crate::dump::locks::{Held, Opening};
use crate::dump::same::{Same, Statements};
use crate::dump::script::Writing;
use crate::dump::{Readers, keys, locks, plan};
use crate::error::Side;
use crate::sample;
use crate::schema::table::{Foreign, Table as Statement};
use crate::schema::words::readable;
use crate::schema::{self, Schema, TableStatement};
use crate::{DumpOptions, Dumped, Error, Format, Limits, World};

/// The oldest servers that are known to work: MariaDB 10.3 has sequences and system versioning, MySQL 5.7 the columns of
/// `information_schema` that are asked for.
const OLDEST: (u32, u32) = (100_300, 50_700);

/// How often a state is taken anew when definitions change meanwhile.
const ATTEMPTS: u32 = 3;

/// Makes a set of the database that `target` names, or of the whole server when it names none, and lets it count.
///
/// # Errors
/// Whatever was skipped would be an error: a set that counts is complete. `mysql.blocked` where a lock isn't free in time,
/// `mysql.permission` with the GRANT for each right that is missing, `mysql.changing` where definitions changed in each of three
/// attempts.
pub async fn dump(
    target: &Target,
    vault: &Vault,
    options: &DumpOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Dumped, Error> {
    make_set(target, vault, options, world, progress).await.map_err(|error| error.during(Side::Backup))
}

async fn make_set(
    target: &Target,
    vault: &Vault,
    options: &DumpOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Dumped, Error> {
    let started = Instant::now();
    // Which rows a sample needs has to be remembered.
    let Limits { memory, jobs, .. } = options.limits;
    let (budget, room) = match options.sample {
        Some(_) => Budget::beside(memory, jobs)?,
        None => (Budget::new(memory, jobs)?, 0),
    };
    let mut catalog = Catalog::read(vault).await?;
    let source = Source::look(target, options).await?;
    if options.sample.is_some() && options.format == Format::Plain {
        return Err(artefact::of_a_sample(target));
    }
    if source.whole && options.format == Format::Plain {
        return Err(artefact::of_a_server(target));
    }
    catalog.check_identity(&source.identity(options.sample))?;
    let id = SetId::new(world.clock.now(), world.nonce);
    let writer = SetWriter::begin(vault.clone(), id, options.codec, budget, Arc::clone(&progress));
    let base = Base { writer, source: &source, target, options, room, world, progress };
    let (point, detail) = base.attempts().await?;
    let facts = SetFacts {
        engine: "mysql",
        identity: source.identity(options.sample),
        tool: concat!("seawall ", env!("CARGO_PKG_VERSION")).to_owned(),
        point,
        artefact: (options.format == Format::Plain).then(|| artefact::PLAIN.to_owned()),
        sample: options.sample,
        schedule: options.schedule.clone(),
        detail,
    };
    let manifest = base.writer.finish(facts, &*world.clock).await?;
    catalog.add(Record::Set(Box::new(manifest.clone()))).await?;
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let stages = base.writer.stages();
    let Source { whole, databases, left_out, .. } = source;
    Ok(Dumped {
        manifest,
        whole,
        databases,
        left_out,
        as_text: Vec::new(),
        invalid: Vec::new(),
        journals: Vec::new(),
        stages,
        duration_ms,
    })
}

/// What is known of the server before anything is read.
pub(super) struct Source {
    pub(super) facts: Facts,
    account: Account,
    /// What is read.
    databases: Vec<String>,
    /// What isn't, because a restore that isn't done is in it, or a proof.
    left_out: Vec<String>,
    /// Whether that is all of the server.
    whole: bool,
}

impl Source {
    async fn look(target: &Target, options: &DumpOptions) -> Result<Self, Error> {
        let source = Self::ask(target, options).await?;
        source.check_rights()?;
        Ok(source)
    }

    /// What the server says, whatever the account may read.
    pub(super) async fn ask(target: &Target, options: &DumpOptions) -> Result<Self, Error> {
        let whole = target.database.is_empty();
        let mut connection = Connection::open(target).await?;
        let facts = Facts::look(&mut connection).await?;
        check_version(target, &facts)?;
        let account = Account::look(&mut connection).await?;
        let (mut databases, mut left_out) = (Vec::new(), Vec::new());
        if whole {
            for name in inventory::databases(&mut connection).await? {
                let is_ours = ProofName::of(&name).is_some() || unfinished::is_one(&name);
                if is_ours {
                    left_out.push(name);
                } else if !options.excluded.contains(&name) {
                    databases.push(name);
                }
            }
        } else {
            // A server that ignores case knows the database by another name.
            let name = connection.one("SELECT DATABASE()").await?.text(0).to_owned();
            if inventory::is_system(&name) {
                return Err(of_the_server(&name));
            }
            databases.push(name);
        }
        connection.close().await;
        Ok(Self { facts, account, databases, left_out, whole })
    }

    /// Refuses if the account lacks a right that a backup needs.
    pub(super) fn check_rights(&self) -> Result<(), Error> {
        let lacks = rights::lacks(&self.facts, &self.account, &self.databases, self.whole);
        rights::refuse(&self.account.name, &lacks)
    }

    /// Whose sets these are. No database has an empty name, so that a whole server is nothing else.
    fn identity(&self, sample: Option<Sample>) -> String {
        let database = if self.whole { "" } else { self.databases.first().map_or("", String::as_str) };
        let identity = format!("{}/{database}", self.facts.server.identity);
        sample.map_or(identity.clone(), |sample| sample.identity(&identity))
    }
}

fn check_version(target: &Target, facts: &Facts) -> Result<(), Error> {
    let oldest = if facts.mariadb { OLDEST.0 } else { OLDEST.1 };
    if facts.server.version >= oldest {
        return Ok(());
    }
    Err(Error::Refused {
        code: "mysql.too-old",
        object: target.to_string(),
        cause: format!(
            "the server is version {}, and MariaDB 10.3 and MySQL 5.7 are the oldest that are known to work",
            facts.server.version_text
        ),
        next: "use the server's own tool".to_owned(),
    })
}

fn of_the_server(name: &str) -> Error {
    Error::Refused {
        code: "mysql.system-database",
        object: name.to_owned(),
        cause: "it belongs to the server itself, and another server's is different".to_owned(),
        next: "back up the whole server: its users, roles and grants come along as statements".to_owned(),
    }
}

/// Whether it may go well the next time: a definition changed, or vanished, meanwhile. A table that has become a view has no
/// index (1176).
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Refused { code, .. } => *code == "mysql.changing",
        other => matches!(
            other.number(),
            Some(
                1020 | 1051 | 1054 | 1146 | 1176 | 1213 | 1305 | 1347 | 1356 | 1360 | 1412 | 1539 | 1615 | 1735 | 4089
            )
        ),
    }
}

/// A set in the making.
struct Base<'a> {
    writer: SetWriter,
    source: &'a Source,
    target: &'a Target,
    options: &'a DumpOptions,
    /// Bytes of memory for which rows are in a sample.
    room: u64,
    world: &'a World,
    progress: Arc<dyn Progress>,
}

impl Base<'_> {
    /// Attempts until definitions stand still, but no more than three.
    async fn attempts(&self) -> Result<(Moment, serde_json::Value), Error> {
        let mark = self.writer.mark();
        let mut attempt = 1;
        loop {
            match self.read().await {
                Err(error) if attempt < ATTEMPTS && is_passing(&error) => {
                    tracing::warn!(attempt, "begun anew; a change of a definition may be the cause: {error}");
                    self.writer.go_back(mark);
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// One attempt: everything is in the vault, and nothing counts yet.
    async fn read(&self) -> Result<(Moment, serde_json::Value), Error> {
        let Source { facts, account, databases, whole, .. } = self.source;
        let mut scout = Connection::open(self.target).await?;
        let before = Listing::look(&mut scout, databases).await?;
        let mut tables = self.tables(&mut scout).await?;
        // A script is one stream of bytes.
        let one = DumpOptions { limits: Limits { jobs: 1, ..self.options.limits.clone() }, ..self.options.clone() };
        let places = match tables.iter().any(|table| !table.partitions.is_empty()) {
            true => Some(Places::look(&mut scout, facts).await?),
            false => None,
        };
        let opening = Opening {
            target: self.target,
            facts,
            account,
            databases,
            tables: &tables,
            options: if self.options.format == Format::Plain { &one } else { self.options },
            world: self.world,
        };
        let Held { mut snapshots, keeper, mut guard, mut taken, moment } = opening.open(&mut scout).await?;
        let Definitions { details, schemas, session } = self.definitions(&mut scout, &tables).await?;
        let after = Listing::look(&mut scout, databases).await?;
        if let Some(object) = before.difference(&after) {
            return Err(Error::Refused {
                code: "mysql.changing",
                object,
                cause: "it was created, changed or dropped while the backup began".to_owned(),
                next: "start again when no definition is being changed".to_owned(),
            });
        }
        taken.notes.extend(notes_of(&tables, facts));
        for (detail, schema) in details.iter().zip(&schemas) {
            taken.notes.extend(question_marks(schema, &detail.name, &tables));
        }
        tables.retain(|table| table.rows() != Rows::Elsewhere);
        let total: u64 = tables.iter().map(|table| table.bytes).sum();
        let name = if *whole { "server" } else { self.target.database.as_str() };
        self.progress.begin(&format!("dump {name}"), self.options.sample.is_none().then_some(total));
        let same = Same::new(statements(&details, &schemas), &before, session);
        let reading = async {
            if self.options.format == Format::Plain {
                let (Some(database), Some(schema), Some(snapshot)) =
                    (details.first(), schemas.first(), snapshots.into_iter().next())
                else {
                    return Err(Error::Internal("a script of nothing".to_owned()));
                };
                let history = tables.iter().any(|table| table.history(facts.takes_history) == History::Kept);
                let (server, moment) = (&facts.server, moment.to_string());
                let source = ScriptSource { database, schema, server, taken: &taken, moment, history };
                let writing = Writing { writer: &self.writer, facts, tables: &tables, same: &same, source };
                return writing.run(snapshot, keeper).await;
            }
            let bounds = keys::bounds(&mut scout, &tables).await?;
            let choices = match (self.options.sample, snapshots.first_mut()) {
                (Some(sample), Some(snapshot)) => {
                    let expected = references(&details, &schemas, &tables);
                    sample::choose(snapshot, &tables, &expected, sample, self.room).await?
                }
                _ => Vec::new(),
            };
            let work = plan::work(&tables, &bounds, &choices);
            let readers = Readers::new(&self.writer, *whole, facts, &tables, &same, work, keeper.is_some())?;
            readers.run(snapshots, keeper).await
        };
        // A guard that the server has ended is no failure: it keeps changes of definitions from ending an attempt, and no more.
        let staying = async {
            if let Some(guard) = &mut guard {
                locks::stay(guard).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = reading => done?,
            () = staying => {}
        }
        if let Some(guard) = guard {
            guard.close().await;
        }
        same.close().await;
        if let Some(places) = places {
            let verdict = places.compare(&Places::look(&mut scout, facts).await?);
            taken.notes.extend(noted(verdict)?);
        }
        scout.close().await;
        self.progress.finish();
        Ok((moment, self.detail(details, taken)?))
    }

    /// The manifest's detail.
    fn detail(&self, databases: Vec<DatabaseDetail>, taken: Taken) -> Result<serde_json::Value, Error> {
        let server = self.source.facts.server.clone();
        if self.source.whole {
            let databases = databases.into_iter().map(|database| database.name).collect();
            return json(&ServerDetail { databases, server, taken });
        }
        let database = databases.into_iter().next();
        let database = database.ok_or_else(|| Error::Internal("a set of no database".to_owned()))?;
        json(&SetDetail { database, server, taken })
    }

    /// All tables of all databases.
    async fn tables(&self, scout: &mut Connection) -> Result<Vec<Table>, Error> {
        let mut all = Vec::new();
        for database in &self.source.databases {
            all.extend(inventory::tables(scout, database).await?);
        }
        Ok(all)
    }

    /// Writes what isn't rows: schemas, databases, users.
    async fn definitions(&self, scout: &mut Connection, tables: &[Table]) -> Result<Definitions, Error> {
        let Source { facts, databases, whole, .. } = self.source;
        if *whole {
            let globals = users::read(scout, facts).await?;
            self.file(&self.writer, "globals.json", &ItemDetail::Globals, &globals).await?;
        }
        let mut session = Connection::open_for(self.target, Purpose::Rows).await?;
        let (mut details, mut schemas) = (Vec::with_capacity(databases.len()), Vec::with_capacity(databases.len()));
        for database in databases {
            let writer = if *whole { self.writer.of(database) } else { self.writer.clone() };
            let schema = schema::read::read(&mut session, database).await?;
            self.file(&writer, "schema.json", &ItemDetail::Schema, &schema).await?;
            let detail = database_detail(scout, database, tables).await?;
            if *whole {
                self.file(&writer, "database.json", &ItemDetail::Database, &detail).await?;
            }
            details.push(detail);
            schemas.push(schema);
        }
        Ok(Definitions { details, schemas, session })
    }

    /// A small file of our own.
    async fn file(
        &self,
        writer: &SetWriter,
        name: &str,
        detail: &ItemDetail,
        content: &impl Serialize,
    ) -> Result<(), Error> {
        Ok(writer.document(name, json(detail)?, content).await?)
    }
}

/// What a set says of partitions that may have been exchanged. An exchange that is seen ends the attempt. Pure.
fn noted(verdict: Verdict) -> Result<Option<String>, Error> {
    match verdict {
        Verdict::Same => Ok(None),
        Verdict::Exchanged(place) => Err(Error::Refused {
            code: "mysql.changing",
            object: place,
            cause: "a partition was exchanged with a table while the backup was made".to_owned(),
            next: "start again when no definition is being changed".to_owned(),
        }),
        Verdict::Unknown => Ok(Some(
            "tables were altered while the set was made, and without PROCESS it can't be seen whether one of them was exchanged with \
             a partition"
                .to_owned(),
        )),
    }
}

/// The definitions that are in the set.
struct Definitions {
    details: Vec<DatabaseDetail>,
    schemas: Vec<Schema>,
    /// The session that has read them.
    session: Connection,
}

/// A database that is there.
async fn database_detail(scout: &mut Connection, name: &str, tables: &[Table]) -> Result<DatabaseDetail, Error> {
    let Some(detail) = inventory::database(scout, name).await? else {
        return Err(Error::Refused {
            code: "mysql.changing",
            object: name.to_owned(),
            cause: "it was dropped while the backup began".to_owned(),
            next: "start again when no definition is being changed".to_owned(),
        });
    };
    let size = tables.iter().filter(|table| table.name.database == name).map(|table| table.bytes).sum();
    Ok(DatabaseDetail { size, ..detail })
}

/// The statements of all tables. Pure.
fn statements(details: &[DatabaseDetail], schemas: &[Schema]) -> Statements {
    let of = |(detail, schema): (&DatabaseDetail, &Schema)| {
        let database = detail.name.clone();
        let one = move |table: &TableStatement| {
            let name = TableName { database: database.clone(), name: table.name.clone() };
            (name, table.statement.bytes().to_vec())
        };
        schema.tables.iter().map(one).collect::<Vec<_>>()
    };
    details.iter().zip(schemas).flat_map(of).collect()
}

/// How many foreign keys each of some tables has to others of them, by its own statement. Pure.
fn references(details: &[DatabaseDetail], schemas: &[Schema], tables: &[Table]) -> BTreeMap<TableName, usize> {
    let mut references = BTreeMap::new();
    for (detail, schema) in details.iter().zip(schemas) {
        for table in &schema.tables {
            let is_there = |foreign: &Foreign| {
                let database = foreign.database.as_ref().unwrap_or(&detail.name);
                tables.iter().any(|table| table.name.database == *database && table.name.name == foreign.table)
            };
            let parsed = Statement::parse(&table.statement.text());
            let keys = parsed.map(|table| table.foreign_keys()).unwrap_or_default();
            let name = TableName { database: detail.name.clone(), name: table.name.clone() };
            references.insert(name, keys.iter().filter(|(foreign, _)| is_there(foreign)).count());
        }
    }
    references
}

/// Columns in whose definition the server shows a question mark, and which may hold characters that it doesn't show there. Pure.
fn question_marks(schema: &schema::Schema, database: &str, tables: &[Table]) -> Vec<String> {
    let is_wide = |table: &str, column: &str| {
        let found = tables.iter().find(|found| found.name.database == database && found.name.name == table);
        let column = found.and_then(|found| found.columns.iter().find(|found| found.name == column));
        let charset = column.and_then(|column| column.charset.as_deref()).unwrap_or_default();
        ["utf8mb4", "utf16", "utf16le", "utf32", "gb18030"].contains(&charset)
    };
    let mut notes = Vec::new();
    for statement in &schema.tables {
        let Some(table) = readable(statement.statement.bytes()).as_deref().and_then(Statement::parse) else { continue };
        for column in table.question_marks().filter(|column| is_wide(&table.name, column)) {
            notes.push(format!(
                "{database}.{}: the definition of column {column} has a question mark; where the source has a character beyond U+FFFF \
                 there, the server shows this mark instead, and the set has no other",
                table.name
            ));
        }
    }
    notes
}

/// What isn't in the set of some tables. Pure.
fn notes_of(tables: &[Table], facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    for table in tables {
        if table.rows() == Rows::Elsewhere {
            notes.push(format!(
                "{}: only the definition, because {} keeps no rows of its own",
                table.name, table.engine
            ));
        } else if table.history(facts.takes_history) == History::Lost {
            notes.push(format!(
                "{}: only the rows that are valid now, because their history can't be put back",
                table.name
            ));
        }
    }
    notes
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::Internal(format!("a document can't be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerError;

    #[test]
    fn what_is_tried_again() {
        let refused = |code| Error::Refused { code, object: "o".into(), cause: "c".into(), next: "n".into() };
        let server = |number| Error::Server {
            object: "o".into(),
            error: ServerError { number, state: "HY000".into(), message: "no".into() },
        };
        for (error, passing) in [
            (refused("mysql.changing"), true),
            (refused("mysql.unsupported"), false),
            (server(1412), true),
            (server(1146), true),
            (server(1176), true),
            (server(1142), false),
            (server(1205), false),
            (server(1045), false),
            (Error::Connection { server: "s".into(), cause: "c".into() }, false),
        ] {
            assert_eq!(is_passing(&error), passing, "{error}");
        }
    }
}
