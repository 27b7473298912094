//! A proof: a set is restored into a database that is thrown away, and what came of it is compared with the set.
//!
//! Row by row, whatever their order: what COPY gives for the restored tables is what the set has. Object by
//! object: the schema that `pg_dump` writes of the restored database has what the set's has. Sequences, large objects
//! and the properties of the database are compared as they are. Whatever can't be compared is a failure (I12).
//!
//! The room: `compare` and `rows` (is it the same?), `prove_artefact` (for `pg_dump`'s own formats), `throwaway` (a server for
//! one proof), `remains` (what it leaves).

pub(crate) mod compare;
pub(crate) mod prove_artefact;
pub(crate) mod remains;
pub(crate) mod rows;
pub(crate) mod throwaway;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_archive::compare::{self as sets, Name, Sum, Summing as _, shown};
use seawall_archive::names::ProofName;
use seawall_archive::{Catalog, Digest};
use seawall_core::{Finding, Progress, blocking};
use seawall_vault::Vault;
use serde::Deserialize as _;
use tokio::time::Instant;

use crate::catalog::globals;
use crate::catalog::globals::Attribute;
use crate::catalog::grants;
use crate::catalog::inventory::{self, Table};
use crate::catalog::pages;
use crate::catalog::records::After;
use crate::catalog::snapshot;
use crate::client::{Connection, Filled, Target, session};
use crate::detail::{ItemDetail, ServerDetail, SetDetail};
use crate::dump::base;
use crate::journal;
use crate::load::connect::connect;
use crate::load::routed;
use crate::preflight::bound;
use crate::prove::compare::{LARGE_OBJECTS, compare_after, compare_schemas, different, is_object, tell, words_differ};
use crate::prove::remains::Hold;
use crate::prove::rows::Rows;
use crate::prove::throwaway::Throwaway;
use crate::quote::{ident, literal, qualified};
use crate::restore::set::{self, Set};
use crate::schema::for_the_server;
use crate::schema::guard;
use crate::schema::owned::Owned;
use crate::schema::toc::{self, Entry};
use crate::{CopyFormat, Error, ProveOptions, Proved, RestoreOptions, World, dump, preflight, restore, tools};

/// How much of a table is read at once.
const BUFFER: usize = 1 << 20;

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
    let mut proved = Proved::begin(manifest);
    let extensions = match options.to {
        Some(_) => BTreeSet::new(),
        None => set::extensions(&reader, &databases).await?,
    };
    let mut ours = None;
    let hold = match &options.to {
        Some(server) => {
            remains::remove_left(server).await?;
            Some(Hold::take(server, ProofName::new(world.nonce)).await?)
        }
        None => None,
    };
    let proving = async {
        if is_artefact {
            return prove_artefact::run(&reader, options, world, progress, &mut ours, &mut proved).await;
        }
        for database in databases {
            let set = Set::open(Arc::clone(&reader), database.as_deref()).await;
            let set = set.map_err(|error| match &database {
                Some(database) => error.in_database(database),
                None => error,
            })?;
            let server = match &options.to {
                Some(server) => server.clone(),
                None => furnished(&mut ours, &set, &extensions, options, world).await?,
            };
            prove_one(vault, &set, database, &server, options, world, Arc::clone(&progress), &mut proved).await?;
        }
        Ok(())
    };
    let mut done: Result<(), Error> = proving.await;
    if let Some(server) = ours {
        done = done.map_err(|error| server.explain(error));
        proved.not_isolated = server.not_isolated();
        server.stop().await;
    }
    drop(hold);
    done?;
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
    let name = ProofName::new(world.nonce);
    let id = proved.manifest.id.to_string();
    let whole = RestoreOptions::whole(&id, database.clone(), options.limits.clone());
    let proof = Proof { set, target: server.with_database(&name.whole()), name, whole, world };
    let first = proved.findings.len();
    let compared = proof.run(vault, progress, proved).await;
    let compared = remains::removed(server, name, compared).await;
    let Some(database) = database else { return compared };
    for finding in proved.findings.iter_mut().skip(first) {
        finding.object = format!("{} in database {database}", finding.object);
    }
    compared.map_err(|error| error.in_database(&database))
}

/// A server of ours, started if it isn't yet, with everything that a target must have before the set is restored.
async fn furnished(
    ours: &mut Option<Throwaway>,
    set: &Set,
    extensions: &BTreeSet<String>,
    options: &ProveOptions,
    world: &World,
) -> Result<Target, Error> {
    let started = match ours.take() {
        Some(server) => server,
        None => {
            let settings = |programs: &Path| bound::settings(extensions, ProofName::new(world.nonce), programs);
            Throwaway::start(least(set), settings, &options.limits, &world.environment).await?
        }
    };
    let server = ours.insert(started);
    server.admit(set.detail.size)?;
    furnish(server, set).await?;
    Ok(server.target.clone())
}

/// The oldest server that takes the set, whose programs read its schema, too.
fn least(set: &Set) -> u32 {
    (set.detail.server_version / 10_000).max(set.detail.pg_dump)
}

/// Gives a server of ours what a target must have before a restore: roles and tablespaces, those that it hasn't.
async fn furnish(server: &Throwaway, set: &Set) -> Result<(), Error> {
    let mut connection = server.connect().await?;
    let superusers = toc::superusers(&set.schema.entries);
    let encoding = set.detail.text_encoding().unwrap_or_default();
    let there = names(&mut connection, "SELECT rolname FROM pg_catalog.pg_roles").await?;
    for role in roles(&set.schema.entries, &set.after) {
        // The same bytes, which the database that is made will look for.
        let spelled = encoding.respelled(&role, connection.encoding);
        if there.contains(&spelled) {
            continue;
        }
        let may_be_one = match set.globals.roles.iter().find(|known| known.name == spelled) {
            Some(known) => known.attributes.contains(&Attribute::Superuser),
            // A set of one database doesn't say which roles are superusers.
            None => role == "postgres" || superusers.contains(role.as_str()),
        };
        server.make_role(&mut connection, &spelled, may_be_one).await?;
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
    let there = names(connection, "SELECT spcname FROM pg_catalog.pg_tablespace").await?;
    for space in spaces.into_iter().filter(|space| !space.is_empty() && !there.contains(*space)) {
        let folder = server.folder(&format!("tablespace-{}", &Digest::of(space.as_bytes()).to_string()[..16]))?;
        let owner = ident(&server.target.user);
        let create = format!("CREATE TABLESPACE {} OWNER {owner} LOCATION {}", ident(space), literal(&folder));
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
        roles.extend(grants::roles(object.grants.as_deref().unwrap_or_default()).map(str::to_owned));
    }
    roles.push(after.properties.owner.clone());
    roles.extend(grants::roles(after.properties.grants.as_deref().unwrap_or_default()).map(str::to_owned));
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
    /// What its databases are called.
    name: ProofName,
    /// How it is restored.
    whole: RestoreOptions,
    world: &'a World,
}

impl Proof<'_> {
    /// Refuses a server on which the pages of large objects have another size: they couldn't be compared.
    async fn has_such_pages(&self) -> Result<(), Error> {
        if !self.set.items.contains(&ItemDetail::LargeObjects) {
            return Ok(());
        }
        let mut connection = globals::connect(&self.target).await?;
        let block = connection.one("SHOW block_size").await?.number(0);
        connection.close().await;
        match pages::why_not_compared(self.set.detail.page(), block) {
            None => Ok(()),
            Some(cause) => Err(Error::Refused {
                code: "postgres.block-size",
                object: self.target.to_string(),
                cause,
                next: "prove it with --to on a server that is built as the source's; a restore needs no such server"
                    .to_owned(),
            }),
        }
    }

    async fn run(&self, vault: &Vault, progress: Arc<dyn Progress>, proved: &mut Proved) -> Result<(), Error> {
        self.has_such_pages().await?;
        let started = Instant::now();
        let restored = restore::restore(vault, &self.target, &self.whole, self.world, Arc::clone(&progress)).await?;
        proved.restore_ms += u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let read = self.target.for_databases();
        let mut connection = self.connect().await?;
        let version = connection.version;
        let tables = inventory::tables(&mut connection).await?;
        let journals = journal::all(&mut connection).await?;
        let roots = routed::roots(&mut connection, &self.set.detail.locale.encoding).await?;
        let mut after = self.set.after.clone();
        for (view, cause) in restored.unfilled {
            after.refresh.retain(|known| qualified(&known.schema, &known.name) != view);
            different(view, format!("it can't be filled: {cause}"), &mut proved.findings);
        }
        compare_after(&after, &inventory::after(&mut connection).await?, &mut proved.findings);
        let options = session::deviations(&mut connection, false).await?;
        connection.close().await;
        let entries = self.schema(version, &read.with_options(options.clone())).await?;
        let same_words = version / 10_000 == self.set.detail.server_version / 10_000;
        let wanted = &self.set.schema.entries;
        let control = match same_words && words_differ(wanted, &entries) {
            true => self.control(version, options).await?,
            false => None,
        };
        compare_schemas(wanted, &entries, same_words, control.as_deref(), &mut proved.findings);
        progress.begin("compare", Some(self.set.totals(|_| true).raw));
        let mut expected = self.expected().await?;
        // An older version has left the journal of an interrupted restore in the set, and what is there is read without any.
        expected.retain(|(schema, _), _| !journals.contains(schema));
        let tables = tables.into_iter().filter(|table| !table.parent).collect();
        let found = self.found(tables, &*progress, &mut proved.findings).await?;
        let differing = sets::rows(&together(&expected, &roots), &together(&found, &roots));
        tell(differing, &mut proved.findings);
        progress.finish();
        proved.databases += 1;
        proved.server_version = version;
        proved.server = format!("PostgreSQL {}.{}", version / 10_000, version % 10_000);
        proved.rows +=
            expected.iter().filter(|(name, _)| **name != large_objects()).map(|(_, sum)| sum.rows).sum::<u64>();
        proved.tables += expected.keys().filter(|name| **name != large_objects()).count() as u64;
        proved.objects += entries.iter().filter(|entry| is_object(entry)).count() as u64;
        Ok(())
    }

    /// A connection that reads what was restored as the set has it.
    async fn connect(&self) -> Result<Connection, Error> {
        let mut connection = Connection::open(&self.target.for_databases()).await?;
        snapshot::prepare(&mut connection).await?;
        connection.speak(self.set.detail.text_encoding().unwrap_or_default()).await?;
        Ok(connection)
    }

    /// The schema of what `pg_restore` by itself makes of the set's, without rows; none if it can't be had.
    async fn control(&self, version: u32, options: Vec<(String, String)>) -> Result<Option<Vec<Entry>>, Error> {
        let target = make_control(&self.target, self.name, &self.set.detail).await?;
        if target.keeper().is_some() {
            self.control_by_plain_role(&target, version).await?;
        } else {
            self.set.schema.restore_by_itself(&target, &self.whole, self.world).await?;
        }
        self.schema(version, &target.for_databases().with_options(options)).await.map(Some)
    }

    /// Makes a control where no superuser runs what is in a set.
    async fn control_by_plain_role(&self, target: &Target, version: u32) -> Result<(), Error> {
        let (schema, encoding) = (&self.set.schema, &self.set.detail.encoding);
        let script = for_the_server(&schema.script(|_| true, &self.whole, self.world).await?, version);
        let mut connection = connect(target, encoding).await?;
        guard::watch(&mut connection, target).await?;
        guard::set(&mut connection, toc::texts(&schema.entries)).await?;
        guard::script(&mut connection, &script, true).await?;
        guard::finish(&mut connection, true).await?;
        connection.close().await;
        Ok(())
    }

    /// The schema of the restored database.
    async fn schema(&self, version: u32, target: &Target) -> Result<Vec<Entry>, Error> {
        let least = (version / 10_000).max(self.set.detail.pg_dump);
        let tool = tools::find("pg_dump", least, &self.whole.limits, &self.world.environment).await?;
        let archive = tool.start(target, &base::schema_arguments(&self.set.detail.encoding))?.all().await?;
        let wrong = |cause| Error::Different { object: "the restored schema".to_owned(), cause };
        let owned = Owned::new(&self.set.schema.entries, self.target.logins());
        Ok(toc::parse(&archive).map_err(wrong)?.into_iter().map(|entry| owned.entry(entry)).collect())
    }

    /// What the rows of each item of the set come to.
    async fn expected(&self) -> Result<BTreeMap<Name, Sum>, Error> {
        let items = &self.set.items;
        // Of each item with rows, the forms of its columns.
        let forms: Vec<Option<Vec<String>>> = items.iter().map(|item| name_of(item).map(|_| forms_of(item))).collect();
        let begin = move |item: u32| forms.get(item as usize)?.as_deref().map(Rows::new);
        let sums = sets::sums(&self.set.reader, begin, self.whole.limits.jobs).await?;
        // A table without rows has no chunk.
        let mut all: BTreeMap<Name, Sum> =
            items.iter().filter_map(name_of).map(|name| (name, Sum::default())).collect();
        for (item, sum) in sums {
            let name = items.get(item as usize).and_then(name_of);
            all.entry(name.unwrap_or_default()).or_default().add(sum);
        }
        Ok(all)
    }

    /// What the rows of each restored table come to; a table with other columns than in the set is named instead.
    async fn found(
        &self,
        tables: Vec<Table>,
        progress: &dyn Progress,
        findings: &mut Vec<Finding>,
    ) -> Result<BTreeMap<Name, Sum>, Error> {
        let in_the_set: BTreeMap<Name, (&[String], &[String])> =
            self.set.items.iter().filter_map(|item| Some((name_of(item)?, columns_of(item)?))).collect();
        let mut jobs: VecDeque<(Name, String, Vec<String>)> = VecDeque::new();
        for table in tables {
            let name = (table.schema.clone(), table.name.clone());
            let table = match in_the_set.get(&name) {
                Some((columns, forms)) => as_in_the_set(table, columns, forms),
                None => Some(table),
            };
            match table {
                Some(table) => jobs.push_back((name, dump::copy(&table, None), table.binary)),
                None => different(shown(&name), "its columns are not those of the set", findings),
            }
        }
        if self.set.items.contains(&ItemDetail::LargeObjects) {
            jobs.push_back((large_objects(), dump::LARGE_OBJECTS.to_owned(), Vec::new()));
        }
        let workers = self.whole.limits.jobs.clamp(1, jobs.len().max(1));
        let (jobs, sums) = (Mutex::new(jobs), Mutex::new(BTreeMap::new()));
        let worker = async || {
            let mut connection = self.connect().await?;
            loop {
                let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some((name, sql, forms)) = next else { break };
                let sum = rows(&mut connection, &sql, &forms, progress).await;
                let sum = sum.map_err(|error| error.about(shown(&name)))?;
                sums.lock().unwrap_or_else(PoisonError::into_inner).insert(name, sum);
            }
            connection.close().await;
            Ok::<_, Error>(())
        };
        try_join_all((0..workers).map(|_| worker())).await?;
        Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes the empty database of a control.
pub(crate) async fn make_control(server: &Target, proof: ProofName, detail: &SetDetail) -> Result<Target, Error> {
    let name = proof.control();
    let mut connection = globals::connect(server).await?;
    let create = preflight::create_database(&name, server, detail, connection.version);
    connection.execute(&create).await.map_err(|error| error.about(format!("database {name}")))?;
    connection.close().await;
    Ok(server.with_database(&name))
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
        let job = blocking(move || {
            rows.take(&buffer).map_err(wrong)?;
            buffer.clear();
            Ok::<_, Error>((rows, buffer))
        });
        (rows, buffer) = job.await?;
        if filled == Filled::Done {
            return rows.end().map_err(wrong);
        }
    }
}

/// What pages of large objects are called.
pub(crate) fn large_objects() -> Name {
    (String::new(), LARGE_OBJECTS.to_owned())
}

/// The name of an item with rows.
fn name_of(item: &ItemDetail) -> Option<Name> {
    match item {
        ItemDetail::Table { schema, name, .. } => Some((schema.clone(), name.clone())),
        ItemDetail::LargeObjects => Some(large_objects()),
        _ => None,
    }
}

/// A table as it has to be read so that its rows are those of the set: the columns in their order there, which is another
/// one where a column of a parent came later. None if it has other columns.
fn as_in_the_set(table: Table, columns: &[String], forms: &[String]) -> Option<Table> {
    let same = columns.len() == table.columns.len() && columns.iter().all(|column| table.columns.contains(column));
    same.then(|| Table { columns: columns.to_vec(), binary: forms.to_vec(), ..table })
}

/// The columns of a table's item, and their forms where its rows are in binary.
fn columns_of(item: &ItemDetail) -> Option<(&[String], &[String])> {
    match item {
        ItemDetail::Table { columns, binary, .. } => Some((columns, binary)),
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

/// Sums of tables, with one for all partitions that have their rows by a hash which isn't the same everywhere: which of them
/// has which row is the server's to say.
fn together(sums: &BTreeMap<Name, Sum>, roots: &BTreeMap<Name, Name>) -> BTreeMap<Name, Sum> {
    let mut all: BTreeMap<Name, Sum> = BTreeMap::new();
    for (name, sum) in sums {
        all.entry(roots.get(name).unwrap_or(name).clone()).or_default().add(*sum);
    }
    all
}
