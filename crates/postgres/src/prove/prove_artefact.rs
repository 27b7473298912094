//! A proof of what `pg_dump` itself wrote: restored into a database that is thrown away, which is compared with what the
//! script came to while it was run.
//!
//! Rows of every COPY by number and content, whatever their order; objects by the statements that make them, as `pg_dump`
//! writes them of the restored database; sequences, materialized views, the pages of large objects, and the properties of
//! the database. Who owns large objects, and what is granted and said of them, isn't compared, nor are statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use seawall_archive::SetReader;
use seawall_archive::compare::{self as sets, Name, Sum};
use seawall_archive::names::ProofName;
use seawall_core::{Finding, Progress};

use crate::Proved;
use crate::catalog::globals;
use crate::catalog::grants;
use crate::catalog::inventory::{self, Table};
use crate::catalog::snapshot;
use crate::client::{Connection, Target, session};
use crate::dump::base;
use crate::journal;
use crate::preflight::bound;
use crate::preflight::grantors;
use crate::preflight::restorer::Destination;
use crate::prove::compare::{
    LARGE_OBJECTS, compare_schemas, different, in_order, is_object, position, tell, words_differ,
};
use crate::prove::remains;
use crate::prove::throwaway::Throwaway;
use crate::prove::{self, large_objects};
use crate::quote::literal;
use crate::restore::naming;
use crate::restore::replay::artefact::Artefact;
use crate::restore::replay::{Told, pipe};
use crate::schema::account::{Account, Contents};
use crate::schema::guard;
use crate::schema::owned::Owned;
use crate::schema::powers;
use crate::schema::script::Scanner;
use crate::schema::toc::Entry;
use crate::{Error, ProveOptions, RestoreOptions, World, dump, preflight, restore, tools};

/// How much of a schema is read at once.
const BUFFER: usize = 1 << 20;

/// What isn't compared.
const NOT_COMPARED: &str = "owners, grants and comments of large objects";

/// Proves the artefact that a set is.
pub(crate) async fn run(
    reader: &Arc<SetReader>,
    options: &ProveOptions,
    world: &World,
    progress: Arc<dyn Progress>,
    ours: &mut Option<Throwaway>,
    proved: &mut Proved,
) -> Result<(), Error> {
    let whole = RestoreOptions::whole(&proved.manifest.id.to_string(), None, options.limits.clone());
    let artefact = Artefact::open(Arc::clone(reader), &whole, world).await?;
    let server = match &options.to {
        Some(server) => server.clone(),
        None => furnished(ours, &artefact, options, world).await?,
    };
    let name = ProofName::new(world.nonce);
    let proof = Proof { artefact: &artefact, target: server.with_database(&name.whole()), name, whole: &whole, world };
    let compared = proof.run(&*progress, proved).await;
    remains::removed(&server, name, compared).await
}

/// A server of ours with everything that a target must have.
async fn furnished(
    ours: &mut Option<Throwaway>,
    artefact: &Artefact<'_>,
    options: &ProveOptions,
    world: &World,
) -> Result<Target, Error> {
    let detail = &artefact.detail;
    let least = (detail.server_version / 10_000).max(detail.pg_dump);
    let extensions = detail.extensions.iter().cloned().collect();
    let settings = |programs: &Path| bound::settings(&extensions, ProofName::new(world.nonce), programs);
    let server = ours.insert(Throwaway::start(least, settings, &options.limits, &world.environment).await?);
    server.admit(detail.size)?;
    let mut connection = server.connect().await?;
    let properties = &artefact.needs.properties;
    let mut roles: BTreeSet<&str> = artefact.needs.roles.iter().map(String::as_str).collect();
    roles.insert(&properties.owner);
    roles.extend(properties.settings.iter().filter_map(|(role, _)| role.as_deref()));
    roles.extend(grants::roles(properties.grants.as_deref().unwrap_or_default()));
    let there = prove::names(&mut connection, "SELECT rolname FROM pg_catalog.pg_roles").await?;
    let spelled = |role: &str| artefact.encoding().respelled(role, connection.encoding);
    let roles: Vec<String> = roles.into_iter().filter(|role| !role.is_empty()).map(spelled).collect();
    for role in roles.iter().filter(|role| !there.contains(*role)) {
        // Which of them are superusers, the set doesn't say.
        server.make_role(&mut connection, role, true).await?;
    }
    let mut spaces: BTreeSet<&str> = artefact.needs.tablespaces.iter().map(String::as_str).collect();
    spaces.extend(detail.locale.tablespace.as_deref());
    prove::make_tablespaces(server, &mut connection, spaces).await?;
    connection.close().await;
    Ok(server.target.clone())
}

/// A proof under way.
struct Proof<'a> {
    artefact: &'a Artefact<'a>,
    target: Target,
    /// What its databases are called.
    name: ProofName,
    whole: &'a RestoreOptions,
    world: &'a World,
}

impl Proof<'_> {
    async fn run(&self, progress: &dyn Progress, proved: &mut Proved) -> Result<(), Error> {
        let (mut connection, _) = globals::connect_to_or_beside(&self.target).await?;
        let look = self.artefact.lacks(&mut connection, &self.target, Destination::New { replaces: false }).await?;
        let block = connection.one("SHOW block_size").await?.number(0);
        connection.close().await;
        preflight::refuse(&self.target.to_string(), &look.lacks)?;
        let encoding = self.artefact.encoding();
        let mut told = Told { account: Some(Account::of(encoding, block)), ..Told::default() };
        let made = self.artefact.make(&self.target, progress, &mut told).await?;
        // With its name it gets its owner, its grants and its comment.
        let properties = (&self.artefact.needs.properties, self.whole.owners);
        naming::take_name(&self.target, &made.database, &self.target.database, false, properties).await?;
        let expected = told.account.unwrap_or_default().end();
        for strange in &expected.strange {
            different(strange, "this of the dump can't be compared", &mut proved.findings);
        }
        let read = self.target.for_databases();
        let mut connection = Connection::open(&read).await?;
        snapshot::prepare(&mut connection).await?;
        connection.speak(encoding).await?;
        self.look_as_it_did(&mut connection).await?;
        let version = connection.version;
        progress.begin("compare", Some(self.whole_size()));
        let found = self.rows(&mut connection, &expected, progress).await?;
        // An older version has left the journal of an interrupted restore in the set, and what is there is read without any.
        let journals = journal::all(&mut connection).await?;
        let mut texts = texts(&expected);
        texts.retain(|(schema, _), _| !journals.contains(schema));
        tell(sets::rows(&texts, &found), &mut proved.findings);
        self.compare_others(&mut connection, &expected, &mut proved.findings).await?;
        // Values in the schema are spelled as they were by the session of `pg_dump`.
        let mut options = session::deviations(&mut connection, true).await?;
        options.extend(self.settings_of_texts().cloned());
        connection.close().await;
        let schema = self.schema(&read.with_options(options.clone()), version, &expected.objects).await?;
        let same_words = version / 10_000 == self.artefact.detail.server_version / 10_000;
        let control = match same_words && words_differ(&expected.objects, &schema.objects) {
            true => Some(self.control(&expected, version, options).await?),
            false => None,
        };
        let control = control.as_ref().map(|control| &control.objects[..]);
        compare_schemas(&expected.objects, &schema.objects, same_words, control, &mut proved.findings);
        progress.finish();
        proved.databases += 1;
        proved.server_version = version;
        proved.server = format!("PostgreSQL {}.{}", version / 10_000, version % 10_000);
        proved.tables += expected.rows.len() as u64;
        proved.rows += expected.rows.values().map(|(_, sum)| sum.rows).sum::<u64>();
        proved.objects += schema.objects.iter().filter(|entry| is_object(entry)).count() as u64;
        proved.not_compared = Some(NOT_COMPARED);
        Ok(())
    }

    fn whole_size(&self) -> u64 {
        self.artefact.raw()
    }

    /// Sets a session to write values as `pg_dump`'s did.
    async fn look_as_it_did(&self, connection: &mut Connection) -> Result<(), Error> {
        for (name, value) in self.settings_of_texts() {
            let set = format!("SET {name} = {}", literal(value));
            connection.execute(&set).await.map_err(|error| error.about(&**name))?;
        }
        Ok(())
    }

    fn settings_of_texts(&self) -> impl Iterator<Item = &(String, String)> {
        self.artefact.needs.settings.iter().filter(|(name, _)| restore::OF_TEXTS.contains(&name.as_str()))
    }

    /// What the rows of each restored table come to, with the columns that the dump has.
    async fn rows(
        &self,
        connection: &mut Connection,
        expected: &Contents,
        progress: &dyn Progress,
    ) -> Result<BTreeMap<Name, Sum>, Error> {
        let mut sums = BTreeMap::new();
        for table in inventory::tables(connection).await?.into_iter().filter(|table| !table.parent) {
            let columns = expected.rows.get(&(table.schema.clone(), table.name.clone()));
            let columns = columns.map_or_else(|| table.columns.clone(), |(columns, _)| columns.clone());
            let table = Table { columns, ..table };
            let sum = prove::rows(connection, &dump::copy(&table, None), &[], progress).await;
            let sum = sum.map_err(|error| error.about(table.shown()))?;
            sums.insert((table.schema, table.name), sum);
        }
        connection.execute("SET bytea_output = hex").await?;
        sums.insert(large_objects(), prove::rows(connection, dump::LARGE_OBJECTS, &[], progress).await?);
        Ok(sums)
    }

    /// Compares sequences, materialized views, large objects and properties.
    async fn compare_others(
        &self,
        connection: &mut Connection,
        expected: &Contents,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let found = inventory::after(connection).await?;
        let sequences: BTreeMap<Name, (i64, bool)> =
            found.sequences.iter().map(|s| ((s.schema.clone(), s.name.clone()), (s.last, s.called))).collect();
        tell(sets::sequences(&expected.sequences, &sequences, "dump", position), findings);
        let filled: BTreeSet<_> = found.refresh.iter().map(|view| (view.schema.clone(), view.name.clone())).collect();
        if filled != expected.filled {
            different("materialized views", "others than those of the dump are filled", findings);
        }
        let objects: BTreeSet<u32> = found.large_objects.iter().map(|object| object.oid).collect();
        if objects != expected.large_objects {
            let counts = format!("there are {}, and {} in the dump", objects.len(), expected.large_objects.len());
            different(LARGE_OBJECTS, counts, findings);
        }
        if in_order(&self.artefact.needs.properties) != in_order(&found.properties) {
            different("the database's own properties", "they are not those of the set", findings);
        }
        Ok(())
    }

    /// The schema of what its own statements make without rows, one by one. What fails isn't there.
    async fn control(
        &self,
        expected: &Contents,
        version: u32,
        options: Vec<(String, String)>,
    ) -> Result<Contents, Error> {
        let target = prove::make_control(&self.target, self.name, &self.artefact.detail).await?;
        let mut connection = self.artefact.connect(&target).await?;
        let superuser = pipe::is_powerful(&mut connection).await?;
        let is_last = |statement: &&Vec<u8>| powers::is_of_event_triggers(statement);
        let (last, first): (Vec<_>, Vec<_>) = expected.script.iter().partition(is_last);
        for statement in first.into_iter().chain(last) {
            let words = if superuser { None } else { grantors::with_set_role(statement) };
            match guard::run(&mut connection, words.as_deref().unwrap_or(statement)).await {
                Err(error) if error.sqlstate().is_none() => return Err(error),
                _ => {}
            }
        }
        guard::finish(&mut connection, true).await?;
        connection.close().await;
        self.schema(&target.for_databases().with_options(options), version, &expected.objects).await
    }

    /// The schema of the restored database, in the words of a script.
    async fn schema(&self, made: &Target, version: u32, wanted: &[Entry]) -> Result<Contents, Error> {
        let least = (version / 10_000).max(self.artefact.detail.pg_dump);
        let tool = tools::find("pg_dump", least, &self.whole.limits, &self.world.environment).await?;
        let mut arguments = base::schema_arguments(&self.artefact.detail.encoding);
        arguments.push("--format=plain".to_owned());
        let mut running = tool.start(made, &arguments)?;
        let owned = Owned::new(wanted, self.target.logins());
        let account = Account::of(self.artefact.encoding(), 0).owned(owned);
        let (mut account, mut scanner, mut more) = (account, Scanner::default(), true);
        let wrong = |_| Error::Internal("what pg_dump has just written can't be read".to_owned());
        while more {
            let mut piece = Vec::with_capacity(BUFFER);
            more = running.read(&mut piece).await?;
            let mut rest = &piece[..];
            while !rest.is_empty() || !more {
                match rest.is_empty() {
                    true => scanner.end(),
                    false => rest = &rest[scanner.feed(rest)..],
                }
                while let Some(statement) = scanner.statement().map_err(wrong)? {
                    scanner.names().iter().for_each(|name| account.name(name));
                    account.statement(&statement);
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
        running.finish().await?;
        Ok(account.end())
    }
}

/// What the rows of each table of a dump come to, and the pages of large objects.
fn texts(contents: &Contents) -> BTreeMap<Name, Sum> {
    let mut texts: BTreeMap<Name, Sum> = contents.rows.iter().map(|(name, (_, sum))| (name.clone(), *sum)).collect();
    texts.insert(large_objects(), contents.pages);
    texts
}
