//! A proof: a set is restored into a database that is thrown away, and what came of it is compared with the set.
//!
//! Row by row, whatever their order, in the form in which the rows were read for the set. Object by object: what the server says of
//! the restored database is what it said of the source's. What can't be compared is a failure (I12).
//!
//! The room: `throwaway` (a server for one proof), `compare` (is it the same?), `remains` (what a proof leaves).

pub(crate) mod compare;
pub(crate) mod remains;
pub(crate) mod throwaway;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::try_join_all;
use seawall_archive::Catalog;
use seawall_archive::compare::{self as sets, Difference, Lines, Name, Sum};
use seawall_archive::names::ProofName;
use seawall_core::Progress;
use seawall_vault::Vault;
use tokio::time::Instant;

use crate::artefact;
use crate::catalog::facts::Facts;
use crate::catalog::inventory::{self, History, Table};
use crate::client::quote::{name, text};
use crate::client::{Connection, Filled, Purpose, Target};
use crate::detail::ItemDetail;
use crate::dump::plan::{self, Part};
use crate::names::NAMES;
use crate::preflight::crossing::tablespaces;
use crate::prove::remains::Hold;
use crate::prove::throwaway::Throwaway;
use crate::restore::objects::EXPIRED;
use crate::schema::objects::definers;
use crate::schema::read;
use crate::set::{self, Set};
use crate::{Error, ProveOptions, Proved, RestoreOptions, World, restore};

/// How much of a table is read at once.
const BUFFER: usize = 1 << 20;

/// Restores a set, compares, and removes what was restored.
///
/// # Errors
/// The proof couldn't be made. What differs is no error, but a finding.
pub async fn prove(
    vault: &Vault,
    options: &ProveOptions,
    world: &World,
    progress: Arc<dyn Progress>,
) -> Result<Proved, Error> {
    let started = Instant::now();
    let manifest = Catalog::read(vault).await?.find(&options.when)?.clone();
    let reader = set::open(vault, manifest.clone()).await?;
    let mut proved = Proved::begin(manifest);
    if proved.manifest.artefact.is_some() {
        proved.not_compared = Some("the statements of the script around its rows");
    }
    let proof = ProofName::new(world.nonce);
    let mut ours = None;
    let hold = match &options.to {
        Some(server) => {
            let server = server.with_database("");
            remains::remove_left(&server).await?;
            Some(Hold::take(&server, proof).await?)
        }
        None => None,
    };
    let proving = async {
        for database in set::databases(&reader)? {
            let set = Set::open(Arc::clone(&reader), database.as_deref()).await?;
            let server = match &options.to {
                Some(server) => server.with_database(""),
                None => furnished(&mut ours, &set, options, world).await?,
            };
            let before = proved.findings.len();
            let one = Proof { set: &set, server: &server, proof, options, world };
            let compared = one.run(vault, &progress, &mut proved).await;
            remains::removed(&server, proof, compared).await?;
            if let Some(database) = &database {
                for finding in proved.findings.iter_mut().skip(before) {
                    finding.object = format!("{} in database {database}", finding.object);
                }
            }
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

/// A server of ours, started if it isn't yet, with everything that a target must have before the set is restored.
async fn furnished(
    ours: &mut Option<Throwaway>,
    set: &Set,
    options: &ProveOptions,
    world: &World,
) -> Result<Target, Error> {
    let started = match ours.take() {
        Some(server) => server,
        None => Throwaway::start(&set.server, &options.limits, &world.environment).await?,
    };
    let server = ours.insert(started);
    server.admit(set.detail.size)?;
    let mut connection = Connection::open(&server.target).await?;
    let schema = &set.schema;
    let objects = || [&schema.routines, &schema.views, &schema.triggers, &schema.events].into_iter().flatten();
    // Accounts that nothing can log in as, and that have no rights.
    for definer in definers(objects()) {
        let sql = match definer.rsplit_once('@') {
            Some((user, host)) => format!("CREATE USER IF NOT EXISTS {}@{} ACCOUNT LOCK", name(user), name(host)),
            None => format!("CREATE ROLE IF NOT EXISTS {}", name(definer)),
        };
        connection.execute(&sql).await.map_err(|error| error.about(format!("account {definer}")))?;
    }
    // Time zones by name: no event runs here, so that the name is all that counts.
    let zones: BTreeSet<&str> = objects().filter_map(|object| object.time_zone.as_deref()).collect();
    let is_name = |zone: &&str| !zone.starts_with(['+', '-']) && *zone != "SYSTEM";
    for (number, zone) in (9_000..).zip(zones.into_iter().filter(is_name)) {
        for sql in [
            format!("INSERT IGNORE INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES ({number}, 'N')"),
            format!("INSERT IGNORE INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ({}, {number})", text(zone)),
            format!(
                "INSERT IGNORE INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, \
                 Abbreviation) VALUES ({number}, 0, 0, 0, 'UTC')"
            ),
        ] {
            connection.execute(&sql).await?;
        }
    }
    if set.server.family == "mysql" {
        let statements: Vec<_> = schema.tables.iter().map(|table| table.statement.text()).collect();
        let rows = connection.query("SELECT name FROM information_schema.innodb_tablespaces").await.unwrap_or_default();
        for space in tablespaces(statements.iter().map(|statement| &**statement)) {
            if rows.iter().any(|row| row.text(0) == space) {
                continue;
            }
            // The file has a name of ours: the space's may be anything.
            let file = format!("seawall-{}.ibd", hex(space.as_bytes()));
            let sql = format!("CREATE TABLESPACE {} ADD DATAFILE {}", name(&space), text(&file));
            connection.execute(&sql).await.map_err(|error| error.about(format!("tablespace {space}")))?;
        }
    }
    connection.close().await;
    Ok(server.target.clone())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A proof of one database under way.
struct Proof<'a> {
    set: &'a Set,
    server: &'a Target,
    proof: ProofName,
    options: &'a ProveOptions,
    world: &'a World,
}

impl Proof<'_> {
    async fn run(
        &self,
        vault: &Vault,
        progress: &Arc<dyn Progress>,
        proved: &mut seawall_archive::server::Proved,
    ) -> Result<(), Error> {
        let target = self.server.with_database(&self.proof.whole());
        let id = proved.manifest.id.to_string();
        let whole = RestoreOptions::whole(&id, self.set.database.clone(), self.options.limits.clone());
        let started = Instant::now();
        let restored = restore(vault, &target, &whole, self.world, Arc::clone(progress)).await?;
        proved.restore_ms += u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut connection = Connection::open_for(self.server, Purpose::Rows).await?;
        let facts = Facts::look(&mut connection).await?;
        let database = self.proof.whole();
        let found = read::read(&mut connection, &database).await?;
        let same_words = facts.server.family == self.set.server.family
            && facts.server.version / 100 == self.set.server.version / 100;
        let of = compare::Restored { from: &self.set.detail.name, to: &database, same_words };
        let (mut differences, objects) = compare::schemas(&self.set.schema, &found, of);
        // A view that the server refuses for the want of another database is told, and no difference of its own.
        differences.retain(|one| {
            !restored.refused.iter().any(|(what, _)| what.replace(&database, &self.set.detail.name) == one.object)
        });
        // What no server takes back any more says nothing against the set.
        for (what, cause) in restored.refused.into_iter().filter(|(_, cause)| cause != EXPIRED) {
            differences.push(Difference::new(what, format!("it was refused: {cause}")));
        }
        progress.begin("compare", Some(self.set.reader.manifest().totals.raw));
        let expected = self.expected().await?;
        let tables = inventory::tables(&mut connection, &database).await?;
        connection.close().await;
        let there = self.found(&facts, tables, &**progress).await?;
        differences.extend(sets::rows(&expected, &there));
        progress.finish();
        proved.findings.extend(differences.into_iter().map(|one| one.finding(NAMES.different)));
        proved.databases += 1;
        let family = if facts.mariadb { "MariaDB" } else { "MySQL" };
        proved.server = format!("{family} {}", facts.server.version_text);
        proved.server_version = facts.server.version;
        proved.rows += expected.values().map(|sum| sum.rows).sum::<u64>();
        proved.tables += expected.len() as u64;
        proved.objects += objects;
        Ok(())
    }

    /// The tables of the set with the sums of their rows.
    async fn expected(&self) -> Result<BTreeMap<Name, Sum>, Error> {
        if let Some(script) = &self.set.script {
            let sums = artefact::read::sums(script, &self.set.reader).await?;
            return Ok(sums.into_iter().map(|(name, sum)| ((String::new(), name), sum)).collect());
        }
        let names: Vec<Option<String>> = self
            .set
            .items
            .iter()
            .map(|item| match item {
                Some(ItemDetail::Table { name, .. }) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let is_table: Vec<bool> = names.iter().map(Option::is_some).collect();
        let begin = move |item: u32| is_table.get(item as usize).copied().unwrap_or(false).then(Lines::default);
        let sums = sets::sums(&self.set.reader, begin, self.options.limits.jobs).await?;
        let of = |(place, name): (u32, Option<String>)| {
            Some(((String::new(), name?), sums.get(&place).copied().unwrap_or_default()))
        };
        Ok((0..).zip(names).filter_map(of).collect())
    }

    /// The tables of the restored database with the sums of their rows, read as for the set.
    async fn found(
        &self,
        facts: &Facts,
        tables: Vec<Table>,
        progress: &dyn Progress,
    ) -> Result<BTreeMap<Name, Sum>, Error> {
        let has_rows = |table: &&Table| table.rows() != crate::catalog::engines::Rows::Elsewhere;
        let left: VecDeque<&Table> = tables.iter().filter(has_rows).collect();
        let jobs = self.options.limits.jobs.max(1).min(left.len());
        let left = Mutex::new(left);
        let read = async || {
            let mut connection = Connection::open_for(self.server, Purpose::Rows).await?;
            let mut sums = Vec::new();
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(table) = next else { break };
                let sum = self.sum(&mut connection, facts, table, progress).await?;
                sums.push(((String::new(), table.name.name.clone()), sum));
            }
            connection.close().await;
            Ok::<_, Error>(sums)
        };
        let parts = try_join_all((0..jobs).map(|_| read())).await?;
        Ok(parts.into_iter().flatten().collect())
    }

    async fn sum(
        &self,
        connection: &mut Connection,
        facts: &Facts,
        table: &Table,
        progress: &dyn Progress,
    ) -> Result<Sum, Error> {
        // As the set has it, whatever this server could tell beside.
        let has_history = self.set.items.iter().any(
            |item| matches!(item, Some(ItemDetail::Table { name, history: true, .. }) if *name == table.name.name),
        );
        let history = if has_history { History::Kept } else { table.history(false) };
        let sql = plan::select(table, history, &Part::Whole, facts.mariadb);
        let about = |error: Error| error.about(table.name.to_string());
        let mut rows = connection.rows(&sql).await.map_err(about)?;
        let (mut lines, mut buffer) = (Lines::default(), Vec::with_capacity(BUFFER));
        loop {
            let (filled, _) = rows.fill(&mut buffer).await.map_err(about)?;
            lines.take(&buffer);
            progress.advance(buffer.len() as u64);
            buffer.clear();
            if filled == Filled::Done {
                return Ok(lines.end());
            }
        }
    }
}
