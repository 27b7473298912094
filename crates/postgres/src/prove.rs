//! A proof: a set is restored into a database that is thrown away, and what came of it is compared with the set.
//!
//! Row by row, whatever their order: what COPY gives for the restored tables is what the set has. Object by
//! object: the schema that `pg_dump` writes of the restored database has what the set's has. Sequences, large objects
//! and the properties of the database are compared as they are. Whatever can't be compared is a failure (I12).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::{Catalog, Digest, Manifest, SetReader};
use seawall_core::{Failure, Finding, Progress, When};
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::client::quote::{ident, literal};
use crate::client::{Connection, Filled, Target};
use crate::detail::{After, ItemDetail, ServerDetail};
use crate::inventory::{self, Table};
use crate::lines::{Rows, Sum};
use crate::restore::{self, What};
use crate::set::{self, Set};
use crate::throwaway::Throwaway;
use crate::toc::{self, Entry};
use crate::units::units;
use crate::{
    CopyFormat, Error, Limits, Properties, RestoreOptions, World, base, dump, prove_artefact, roles, snapshot, tools,
};

/// How much of a table is read at once.
const BUFFER: usize = 1 << 20;

/// How to prove.
#[derive(Debug, Clone)]
pub struct ProveOptions {
    /// Which set.
    pub when: When,
    /// The server on which the database is made; without, one is started here for it.
    pub to: Option<Target>,
    /// How much of the machine.
    pub limits: Limits,
}

/// What was proved.
#[derive(Debug, Clone)]
pub struct Proved {
    /// The set.
    pub manifest: Manifest,
    /// Databases that were restored and compared: one, or all of a server's.
    pub databases: u64,
    /// The version of the server into which it was restored, as a number: 150018.
    pub server_version: u32,
    /// Rows of those that were compared.
    pub rows: u64,
    /// Tables that were compared.
    pub tables: u64,
    /// Objects of the schema that were compared.
    pub objects: u64,
    /// What can't be compared in this kind of set.
    pub not_compared: Option<&'static str>,
    /// What differs; none is a proof.
    pub findings: Vec<Finding>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// Restores a set, compares, and removes what was restored.
pub async fn prove(
    vault: &Vault,
    options: &ProveOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Proved, Error> {
    let started = Instant::now();
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let is_artefact = manifest.artefact.is_some();
    let reader = set::open(vault, manifest.clone()).await?;
    let mut databases = vec![None];
    if let Ok(server) = ServerDetail::deserialize(&manifest.detail) {
        databases = server.databases.into_iter().map(Some).collect();
    }
    let mut proved = Proved {
        manifest,
        databases: 0,
        server_version: 0,
        rows: 0,
        tables: 0,
        objects: 0,
        not_compared: None,
        findings: Vec::new(),
        duration_ms: 0,
    };
    let mut ours = None;
    let proving = async {
        if is_artefact {
            return prove_artefact::run(&reader, options, world, progress, &mut ours, &mut proved).await;
        }
        for database in databases {
            let set = Set::open(Arc::clone(&reader), database.as_deref()).await?;
            let server = match &options.to {
                Some(server) => server.clone(),
                None => furnished(&mut ours, &set, options, world).await?,
            };
            prove_one(vault, &set, database, &server, options, world, Arc::clone(&progress), &mut proved).await?;
        }
        Ok(())
    };
    let done: Result<(), Error> = proving.await;
    if let Some(server) = ours {
        server.stop().await;
    }
    // Databases that were made for it are removed, whatever came of it.
    done.map_err(Error::without_what_stays)?;
    proved.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(proved)
}

/// Proves one database of a set on a server.
#[expect(clippy::too_many_arguments, reason = "what a proof is told, and where it tells what it found")]
async fn prove_one(
    vault: &Vault,
    set: &Set,
    database: Option<String>,
    server: &Target,
    options: &ProveOptions,
    world: &World,
    progress: Arc<dyn Progress>,
    proved: &mut Proved,
) -> Result<(), Error> {
    let name = format!("seawall_proof_{:08x}", world.nonce);
    let id = proved.manifest.id.to_string();
    let whole = RestoreOptions::whole(&id, database, options.limits.clone());
    let proof = Proof { set, target: server.with_database(&name), whole, world };
    let compared = proof.run(vault, progress, proved).await;
    let removed = proof.remove(&name).await;
    compared.and(removed)
}

/// A server of ours, started if it isn't yet, with everything that a target must have before the set is restored.
async fn furnished(
    ours: &mut Option<Throwaway>,
    set: &Set,
    options: &ProveOptions,
    world: &World,
) -> Result<Target, Error> {
    let started = match ours.take() {
        Some(server) => server,
        None => Throwaway::start(least(set), &options.limits, &world.environment).await?,
    };
    let server = ours.insert(started);
    server.has_room(set.detail.size)?;
    furnish(server, set).await?;
    Ok(server.target.clone())
}

/// The oldest server that takes the set, whose programs read its schema, too.
fn least(set: &Set) -> u32 {
    (set.detail.server_version / 10_000).max(set.detail.pg_dump)
}

/// Gives a server of ours what a target must have before a restore: roles and tablespaces, those that it hasn't.
async fn furnish(server: &Throwaway, set: &Set) -> Result<(), Error> {
    let mut connection = Connection::open(&server.target).await?;
    let superusers = toc::superusers(&set.schema.entries);
    let there = names(&mut connection, "SELECT rolname FROM pg_roles").await?;
    for role in roles(&set.schema.entries, &set.after).into_iter().filter(|role| !there.contains(role)) {
        let known = set.globals.roles.iter().find(|known| known.name == role);
        let create = match known {
            Some(known) => roles::create_plainly(known),
            None if superusers.contains(role.as_str()) => format!("CREATE ROLE {} SUPERUSER", ident(&role)),
            None => format!("CREATE ROLE {}", ident(&role)),
        };
        connection.execute(&create).await.map_err(|error| error.about(format!("role {role}")))?;
    }
    let mut spaces: BTreeSet<&str> = set.schema.entries.iter().map(|entry| entry.tablespace.as_str()).collect();
    spaces.extend(set.detail.locale.tablespace.as_deref());
    make_tablespaces(server, &mut connection, spaces).await?;
    connection.close().await;
    Ok(())
}

/// Makes the tablespaces that a server of ours hasn't.
pub(crate) async fn make_tablespaces(
    server: &Throwaway,
    connection: &mut Connection,
    spaces: BTreeSet<&str>,
) -> Result<(), Error> {
    let there = names(connection, "SELECT spcname FROM pg_tablespace").await?;
    for space in spaces.into_iter().filter(|space| !space.is_empty() && !there.contains(*space)) {
        let folder = server.folder(&format!("tablespace-{}", &Digest::of(space.as_bytes()).to_string()[..16]))?;
        let create = format!("CREATE TABLESPACE {} LOCATION {}", ident(space), literal(&folder));
        connection.execute(&create).await.map_err(|error| error.about(format!("tablespace {space}")))?;
    }
    Ok(())
}

pub(crate) async fn names(connection: &mut Connection, sql: &str) -> Result<BTreeSet<String>, Error> {
    Ok(connection.query(sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Every role that a set names, but for those in the texts of functions.
fn roles(entries: &[Entry], after: &After) -> Vec<String> {
    let mut roles: Vec<String> = toc::owners(entries).into_iter().map(str::to_owned).collect();
    for object in &after.large_objects {
        roles.push(object.owner.clone());
        roles.extend(object.grants.iter().flatten().map(|(grantee, ..)| grantee.clone()));
    }
    roles.push(after.properties.owner.clone());
    roles.extend(after.properties.grants.iter().flatten().map(|(grantee, ..)| grantee.clone()));
    roles.extend(after.properties.settings.iter().filter_map(|(role, _)| role.clone()));
    roles.extend(entries.iter().flat_map(toc::roles));
    roles.retain(|role| !role.is_empty() && !role.starts_with("pg_"));
    roles.sort();
    roles.dedup();
    roles
}

/// A proof under way.
struct Proof<'a> {
    set: &'a Set,
    target: Target,
    /// How it is restored.
    whole: RestoreOptions,
    world: &'a World,
}

impl Proof<'_> {
    async fn run(&self, vault: &Vault, progress: Arc<dyn Progress>, proved: &mut Proved) -> Result<(), Error> {
        restore::restore(vault, &self.target, &self.whole, self.world, Arc::clone(&progress)).await?;
        let mut connection = Connection::open(&self.target).await?;
        snapshot::prepare(&mut connection).await?;
        let version = connection.version;
        let tables = inventory::tables(&mut connection).await?;
        compare_after(&self.set.after, &inventory::after(&mut connection).await?, &mut proved.findings);
        connection.close().await;
        let entries = self.schema(version).await?;
        let same_words = version / 10_000 == self.set.detail.server_version / 10_000;
        compare_schemas(&self.set.schema.entries, &entries, same_words, &mut proved.findings);
        progress.begin("compare", Some(self.set.totals(|_| true).raw));
        let expected = self.expected().await?;
        let found = self.found(tables.into_iter().filter(|table| !table.parent).collect(), &*progress).await?;
        compare_rows(&expected, &found, &mut proved.findings);
        progress.finish();
        proved.databases += 1;
        proved.server_version = version;
        proved.rows += expected.iter().filter(|(name, _)| *name != LARGE_OBJECTS).map(|(_, sum)| sum.rows).sum::<u64>();
        proved.tables += expected.keys().filter(|name| *name != LARGE_OBJECTS).count() as u64;
        proved.objects += entries.iter().filter(|entry| is_object(entry)).count() as u64;
        Ok(())
    }

    /// Removes the database, whole or not.
    async fn remove(&self, name: &str) -> Result<(), Error> {
        let unfinished = What { options: &self.whole, chosen: None }.unfinished_name(self.set, name);
        remove(&self.target, [name, &unfinished]).await
    }

    /// The schema of the restored database.
    async fn schema(&self, version: u32) -> Result<Vec<Entry>, Error> {
        let least = (version / 10_000).max(self.set.detail.pg_dump);
        let tool = tools::find("pg_dump", least, &self.whole.limits, &self.world.environment).await?;
        let mut running = tool.start(&self.target, &base::schema_arguments(&self.set.detail.encoding))?;
        let mut archive = Vec::new();
        loop {
            archive.reserve(BUFFER);
            if !running.read(&mut archive).await? {
                break;
            }
        }
        running.finish().await?;
        let wrong = |cause| Error::Different { object: "the restored schema".to_owned(), cause };
        toc::parse(&archive).map_err(wrong)
    }

    /// What the rows of each item of the set come to.
    async fn expected(&self) -> Result<BTreeMap<String, Sum>, Error> {
        let (reader, items) = (&self.set.reader, &self.set.items);
        let wanted: Vec<bool> = items.iter().map(|item| name_of(item).is_some()).collect();
        let units = units(reader.index(), &wanted, &[], 1);
        // Of each item with rows, the forms of its columns.
        let rows: Vec<Option<Vec<String>>> = items.iter().map(|item| name_of(item).map(|_| forms_of(item))).collect();
        let rows = Arc::new(rows);
        let wrong = |cause: &str| set::corrupt(reader, format!("its rows in binary: {cause}"));
        let read = |unit: crate::units::Unit| {
            let (reader, rows) = (Arc::clone(reader), Arc::clone(&rows));
            async move {
                let mut sums: BTreeMap<u32, Rows> = BTreeMap::new();
                for number in unit.chunks {
                    let (_, bytes) = reader.chunk(number).await?;
                    let (reader, rows) = (Arc::clone(&reader), Arc::clone(&rows));
                    let job = tokio::task::spawn_blocking(move || {
                        let Some(chunk) = reader.index().chunks.get(number as usize) else { return Ok(sums) };
                        let mut raw = Vec::new();
                        for (frame, stored) in SetReader::frames(chunk, &bytes) {
                            if let Some(Some(forms)) = rows.get(frame.item as usize) {
                                reader.decode(number, frame, &stored, &mut raw)?;
                                let sum = sums.entry(frame.item).or_insert_with(|| Rows::new(forms));
                                sum.take(&raw).map_err(|cause| set::corrupt(&reader, cause))?;
                            }
                        }
                        Ok::<_, Error>(sums)
                    });
                    sums = job.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))??;
                }
                Ok::<_, Error>(sums)
            }
        };
        let jobs = self.whole.limits.jobs.max(1);
        let sums: Vec<BTreeMap<u32, Rows>> = stream::iter(units).map(read).buffered(jobs).try_collect().await?;
        // A table without rows has no chunk.
        let mut all: BTreeMap<String, Sum> =
            items.iter().filter_map(name_of).map(|name| (name, Sum::default())).collect();
        for (item, lines) in sums.into_iter().flatten() {
            let name = items.get(item as usize).and_then(name_of);
            all.entry(name.unwrap_or_default()).or_default().add(lines.end().map_err(wrong)?);
        }
        Ok(all)
    }

    /// What the rows of each restored table come to.
    async fn found(&self, tables: Vec<Table>, progress: &dyn Progress) -> Result<BTreeMap<String, Sum>, Error> {
        let forms: BTreeMap<String, Vec<String>> =
            self.set.items.iter().filter_map(|item| Some((name_of(item)?, forms_of(item)))).collect();
        let job = |mut table: Table| {
            table.binary = forms.get(&table.shown()).cloned().unwrap_or_default();
            (table.shown(), dump::copy(&table, None), table.binary)
        };
        let mut jobs: VecDeque<(String, String, Vec<String>)> = tables.into_iter().map(job).collect();
        if self.set.items.contains(&ItemDetail::LargeObjects) {
            jobs.push_back((LARGE_OBJECTS.to_owned(), dump::LARGE_OBJECTS.to_owned(), Vec::new()));
        }
        let workers = self.whole.limits.jobs.clamp(1, jobs.len().max(1));
        let (jobs, sums) = (Mutex::new(jobs), Mutex::new(BTreeMap::new()));
        let worker = async || {
            let mut connection = Connection::open(&self.target).await?;
            snapshot::prepare(&mut connection).await?;
            loop {
                let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((name, sql, forms)) = next else { break };
                let sum = rows(&mut connection, &sql, &forms, progress).await.map_err(|error| error.about(&*name))?;
                sums.lock().unwrap_or_else(PoisonError::into_inner).insert(name, sum);
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..workers).map(|_| worker())).await?;
        Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Removes databases of a proof, whole or not.
pub(crate) async fn remove(server: &Target, names: [&str; 2]) -> Result<(), Error> {
    for name in names {
        unsubscribe(&server.with_database(name)).await?;
    }
    let mut connection = Connection::open(&server.with_database("postgres")).await?;
    for name in names {
        let there = format!("SELECT datistemplate FROM pg_database WHERE datname = {}", literal(name));
        // What everybody may copy, nobody may drop.
        let keep_off = format!("ALTER DATABASE {} IS_TEMPLATE false", ident(name));
        if connection.query(&there).await?.first().is_some_and(|row| row.flag(0)) {
            connection.execute(&keep_off).await?;
        }
        connection.execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", ident(name))).await?;
    }
    connection.close().await;
    Ok(())
}

/// Removes subscriptions, which no database can be dropped with. They were restored turned off, and what they subscribe
/// to is left alone.
async fn unsubscribe(target: &Target) -> Result<(), Error> {
    let mut connection = match Connection::open(target).await {
        Ok(connection) => connection,
        Err(error) if error.sqlstate() == Some("3D000") => return Ok(()),
        Err(error) => return Err(error),
    };
    let sql = "SELECT subname FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid \
               WHERE d.datname = current_database()";
    for row in connection.query(sql).await? {
        let name = ident(row.text(0));
        for step in
            ["ALTER SUBSCRIPTION {} DISABLE", "ALTER SUBSCRIPTION {} SET (slot_name = NONE)", "DROP SUBSCRIPTION {}"]
        {
            connection.execute(&step.replace("{}", &name)).await.map_err(|error| error.about(row.text(0)))?;
        }
    }
    connection.close().await;
    Ok(())
}

/// What the rows of one COPY come to.
pub(crate) async fn rows(
    connection: &mut Connection,
    sql: &str,
    forms: &[String],
    progress: &dyn Progress,
) -> Result<Sum, Error> {
    let (mut rows, mut buffer) = (Rows::new(forms), Vec::with_capacity(BUFFER));
    let format = if forms.is_empty() { CopyFormat::Text } else { CopyFormat::Binary };
    let mut copying = connection.copy_out(sql, format).await?;
    let wrong = |cause: &str| Error::Different { object: "the restored rows".to_owned(), cause: cause.to_owned() };
    loop {
        let (filled, _) = copying.fill(&mut buffer).await?;
        progress.advance(buffer.len() as u64);
        let job = tokio::task::spawn_blocking(move || {
            let taken = rows.take(&buffer);
            buffer.clear();
            taken.map(|()| (rows, buffer))
        });
        let taken = job.await.map_err(|error| Error::Internal(format!("a job ended in a panic: {error}")))?;
        (rows, buffer) = taken.map_err(wrong)?;
        if filled == Filled::Done {
            return rows.end().map_err(wrong);
        }
    }
}

/// What pages of large objects are called.
pub(crate) const LARGE_OBJECTS: &str = "large objects";

/// The name of an item with rows.
fn name_of(item: &ItemDetail) -> Option<String> {
    match item {
        ItemDetail::Table { schema, name, .. } => Some(format!("{schema}.{name}")),
        ItemDetail::LargeObjects => Some(LARGE_OBJECTS.to_owned()),
        _ => None,
    }
}

/// The forms of the columns of an item whose rows are in binary.
fn forms_of(item: &ItemDetail) -> Vec<String> {
    match item {
        ItemDetail::Table { binary, .. } => binary.clone(),
        _ => Vec::new(),
    }
}

/// A finding.
pub(crate) fn different(object: impl Into<String>, cause: impl Into<String>, findings: &mut Vec<Finding>) {
    let Failure { code, object, cause, .. } =
        Failure::from(Error::Different { object: object.into(), cause: cause.into() });
    findings.push(Finding { code, object, cause });
}

/// Compares what tables' rows come to.
pub(crate) fn compare_rows(
    expected: &BTreeMap<String, Sum>,
    found: &BTreeMap<String, Sum>,
    findings: &mut Vec<Finding>,
) {
    for (name, wanted) in expected {
        match found.get(name) {
            Some(sum) if sum == wanted => {}
            Some(sum) if sum.rows == wanted.rows => different(name, "a row is not what it is in the set", findings),
            Some(sum) => {
                different(name, format!("it has {} rows, and {} in the set", sum.rows, wanted.rows), findings);
            }
            None => different(name, "it was not restored", findings),
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        different(name, "the set doesn't have it", findings);
    }
}

/// What must be the same of an object: its kind, schema, name, owner and, perhaps, the statement that makes it.
type Key<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

fn key(entry: &Entry, same_words: bool) -> Key<'_> {
    let statement = if same_words { entry.statement.as_str() } else { "" };
    (&entry.kind, &entry.schema, &entry.tag, &entry.owner, statement)
}

/// Whether an entry is of an object in the database: not a setting of `pg_dump`'s session, nor the database itself, which
/// has another name, and whose properties are compared by themselves.
pub(crate) fn is_object(entry: &Entry) -> bool {
    let session = ["ENCODING", "STDSTRINGS", "SEARCHPATH", "DATABASE", "DATABASE PROPERTIES"];
    !session.contains(&entry.kind.as_str()) && !entry.tag.starts_with("DATABASE ")
}

/// Compares schemas object by object, and by the statements that make them where the same version wrote both.
pub(crate) fn compare_schemas(expected: &[Entry], found: &[Entry], same_words: bool, findings: &mut Vec<Finding>) {
    let mut balance: BTreeMap<Key<'_>, i64> = BTreeMap::new();
    let key = |entry| key(entry, same_words);
    expected.iter().filter(|entry| is_object(entry)).for_each(|entry| *balance.entry(key(entry)).or_default() += 1);
    found.iter().filter(|entry| is_object(entry)).for_each(|entry| *balance.entry(key(entry)).or_default() -= 1);
    for ((kind, schema, tag, ..), count) in balance.into_iter().filter(|(_, count)| *count != 0) {
        let dot = if schema.is_empty() { "" } else { "." };
        let object = format!("{} {schema}{dot}{tag}", kind.to_lowercase());
        let cause = if count > 0 { "it is not as in the set, or missing" } else { "the set doesn't have it so" };
        different(object, cause, findings);
    }
}

/// Compares sequences, large objects and properties.
fn compare_after(expected: &After, found: &After, findings: &mut Vec<Finding>) {
    let sequences = |after: &After| -> BTreeMap<String, (i64, bool)> {
        let one = |s: &crate::Sequence| (format!("{}.{}", s.schema, s.name), (s.last, s.called));
        after.sequences.iter().map(one).collect()
    };
    let (wanted, there) = (sequences(expected), sequences(found));
    for (name, value) in &wanted {
        if there.get(name) != Some(value) {
            different(
                name,
                format!("the sequence stands at {:?}, and at {value:?} in the set", there.get(name)),
                findings,
            );
        }
    }
    let views = |after: &After| {
        let mut names: Vec<_> = after.refresh.iter().map(|view| (view.schema.clone(), view.name.clone())).collect();
        names.sort();
        names
    };
    if views(expected) != views(found) {
        different("materialized views", "others than those of the set are filled", findings);
    }
    let objects: BTreeMap<u32, _> = found.large_objects.iter().map(|object| (object.oid, object)).collect();
    for object in &expected.large_objects {
        if objects.get(&object.oid) != Some(&object) {
            different(format!("large object {}", object.oid), "it is not as in the set, or missing", findings);
        }
    }
    if objects.len() != expected.large_objects.len() {
        let counts = format!("there are {}, and {} in the set", objects.len(), expected.large_objects.len());
        different(LARGE_OBJECTS, counts, findings);
    }
    if in_order(&expected.properties) != in_order(&found.properties) {
        different("the database's own properties", "they are not those of the set", findings);
    }
}

/// Properties with their lists sorted: in which order they were granted and set, nobody knows.
pub(crate) fn in_order(properties: &Properties) -> Properties {
    let mut properties = properties.clone();
    properties.settings.sort();
    if let Some(grants) = &mut properties.grants {
        grants.sort();
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toc::Section;

    fn sum(text: &str) -> Sum {
        let mut rows = Rows::new(&[]);
        rows.take(text.as_bytes()).expect("text");
        rows.end().expect("text")
    }

    fn objects(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.object.as_str()).collect()
    }

    #[test]
    fn every_table_that_differs_is_named() {
        let expected = BTreeMap::from(["same", "less", "other", "gone"].map(|name| (name.to_owned(), sum("a\nb\n"))));
        let found = BTreeMap::from([
            ("same".to_owned(), sum("b\na\n")),
            ("less".to_owned(), sum("a\n")),
            ("other".to_owned(), sum("a\nc\n")),
            ("more".to_owned(), sum("")),
        ]);
        let mut findings = Vec::new();
        compare_rows(&expected, &found, &mut findings);
        assert_eq!(objects(&findings), ["gone", "less", "other", "more"]);
        assert!(findings[1].cause.contains("it has 1 rows, and 2 in the set"), "{findings:?}");
    }

    #[test]
    fn every_object_that_is_missing_or_different_is_named() {
        let entry = |kind: &str, tag: &str, statement: &str| Entry {
            id: 0,
            kind: kind.into(),
            tag: tag.into(),
            statement: statement.into(),
            schema: "public".into(),
            tablespace: String::new(),
            owner: "app".into(),
            section: Section::After,
            needs: Vec::new(),
        };
        let expected = [entry("INDEX", "a", "1"), entry("INDEX", "b", "1"), entry("TRIGGER", "t", "1")];
        let found = [entry("INDEX", "b", "2"), entry("INDEX", "a", "1")];
        for (same_words, named) in
            [(true, vec!["index public.b", "index public.b", "trigger public.t"]), (false, vec!["trigger public.t"])]
        {
            let mut findings = Vec::new();
            compare_schemas(&expected, &found, same_words, &mut findings);
            assert_eq!(objects(&findings), named);
        }
    }
}
