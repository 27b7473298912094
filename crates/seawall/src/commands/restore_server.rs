//! `seawall restore --to`: get a server's database back.

use std::sync::Arc;

use seawall_agent::config::EngineConfig;
use seawall_agent::extract::{Extracted, Ways, restore_into};
use seawall_agent::recover::Reached;
use seawall_agent::{Opener, Operation, SCRATCH, ServerUrl};
use seawall_archive::World;
use seawall_archive::preflight::Lack;
use seawall_archive::server::{Limits, RestoreOptions, Restored};
use seawall_core::{Failure, Kind, Progress, When};
use seawall_host::PrivateFolder;
use seawall_vault::{Access, Vault, VaultUrl};
use serde_json::json;

use super::backup::{content, limits, notes, tell};
use crate::arguments::RestoreArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, brief, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, server, source, table};

/// Runs the command.
pub(crate) fn run(
    arguments: &RestoreArguments,
    to: &str,
    edge: &Edge,
    when: When,
    json: bool,
) -> Result<Output, Failure> {
    let target = server::url(to, edge)?;
    if !target.has_definers() && !arguments.definer.is_empty() {
        let cause = "--definer is for MySQL and MariaDB, whose objects have definers, and this is another server";
        return Err(usage("usage.arguments", to, cause, "leave it out"));
    }
    if let Some(dump) = super::outside::look(
        arguments.source.as_deref().unwrap_or_default(),
        arguments.encryption_key_file.as_deref(),
        edge,
    )? {
        return super::outside::restore(arguments, &dump, &target, edge, (&when, json));
    }
    let (shown, url) = (target.to_string(), target.clone());
    let target = target.destination(&edge.environment);
    let named = arguments.source.as_deref().unwrap_or_default();
    let found = Source::find(named, &arguments.config, edge)?.there()?.past(&arguments.past)?;
    let (found, place, told) = match found {
        Source::Vault(place) => (Source::Vault(place.clone()), place, String::new()),
        Source::Database(database) if database.path().is_none() => {
            let opener = edge.opener(runtime::working())?;
            let choice = runtime::run(opener.newest(&database, &when))?;
            let told = if database.beside.is_empty() { String::new() } else { source::told(&choice) };
            // What is read is what is told.
            (Source::Database(Box::new(choice.database.clone())), choice.database.vault, told)
        }
        Source::Database(_) => {
            let next = "name the vault that holds the backups of a server";
            return Err(usage("usage.server", named, "this is a database file of the configuration", next));
        }
    };
    let options = options(arguments, when)?;
    let progress = progress(edge, json);
    let work = async {
        let opener = edge.opener(1)?;
        let (vault, is_cluster) = match &found {
            // With the keys that its configuration names.
            Source::Database(database) if matches!(database.engine, EngineConfig::Cluster(_)) => {
                (opener.database_and_vault(database).await?.0, true)
            }
            _ => (opener.vault_alone(&place).await?, opener.holds_cluster(&place).await?),
        };
        if is_cluster {
            return extract(&opener, &vault, &url, &options, arguments, (edge, progress)).await;
        }
        let of_clusters = [("--scratch", arguments.scratch.is_some()), ("--not-isolated", arguments.not_isolated)];
        if let Some((name, _)) = of_clusters.iter().find(|(_, is_given)| *is_given) {
            let cause = format!("{name} is of PostgreSQL clusters, and this vault holds backups of a server");
            return Err(usage("usage.arguments", named, &cause, "leave it out"));
        }
        Ok((target.restore(&vault, &options, progress).await?, None))
    };
    let (restored, cluster) = runtime::run_with(runtime::serving(options.limits.jobs), async {
        match options.dry_run {
            true => work.await,
            false => found.around(Operation::Restore, shown, work).await,
        }
    })?;
    let left_out = restored.left_out.iter().map(|(what, needs)| json!({ "what": what, "needs": needs }));
    let left_out: Vec<_> = left_out.collect();
    let kept: Vec<_> = restored.kept.iter().map(|(what, how)| json!({ "what": what, "how": how })).collect();
    let without = restored.without_statistics.iter().map(|(table, cause)| json!({ "table": table, "cause": cause }));
    let without: Vec<_> = without.collect();
    let unfilled = restored.unfilled.iter().map(|(view, cause)| json!({ "view": view, "cause": cause }));
    let unfilled: Vec<_> = unfilled.collect();
    let refused = restored.refused.iter().map(|(what, cause)| json!({ "what": what, "cause": cause }));
    let refused: Vec<_> = refused.collect();
    let document = json!({
        "set": to_json(&restored.manifest),
        "target": restored.target,
        "resumed": restored.resumed,
        "databases": restored.databases,
        "roles": restored.roles,
        "kept": kept,
        "left_out": left_out,
        "refused": refused,
        "without_statistics": without,
        "unfilled": unfilled,
        "dry_run": restored.dry_run,
        "lacks": to_json(&restored.lacks),
        "doubts": restored.doubts,
        "later": restored.later,
        "duration_ms": restored.duration_ms,
        "cluster": cluster.as_ref().map(Cluster::document),
    });
    let recovered = cluster.as_ref().map_or_else(String::new, Cluster::text);
    let mut output = Output::done(told + &recovered + &render(&restored), &document);
    output.exit = match &cluster {
        Some(cluster) if !cluster.is_whole() => Exit::judge(exit(&restored) != Exit::Failed, false),
        _ => exit(&restored),
    };
    Ok(tell(output, &options.limits))
}

/// How a restore into a server is asked for.
pub(super) fn options(arguments: &RestoreArguments, when: When) -> Result<RestoreOptions, Failure> {
    Ok(RestoreOptions {
        when,
        clean: arguments.clean,
        tables: arguments.table.clone(),
        data_only: arguments.data_only,
        owners: !arguments.no_owner,
        definers: arguments.definer.clone(),
        without_superuser: arguments.without_superuser,
        database: arguments.database.clone(),
        dry_run: arguments.dry_run,
        limits: Limits { isolated: !arguments.not_isolated, ..limits(&arguments.server)? },
    })
}

/// Takes databases out of a cluster: it is recovered in a folder that goes afterwards, and so is the backup that is made there.
async fn extract(
    opener: &Opener,
    vault: &Vault,
    to: &ServerUrl,
    options: &RestoreOptions,
    arguments: &RestoreArguments,
    (edge, progress): (&Edge, Arc<dyn Progress>),
) -> Result<(Restored, Option<Cluster>), Failure> {
    let ServerUrl::Postgres(target) = to else {
        let next = "name a PostgreSQL server with --to, or a folder with -o";
        return Err(usage(
            "usage.server",
            vault.url(),
            "it holds a PostgreSQL cluster, and --to is another server",
            next,
        ));
    };
    let place = edge.scratch(arguments.scratch.as_deref());
    let failed = |error: std::io::Error| {
        let next = "name a folder that exists and can be written with --scratch";
        Failure::new(
            Kind::Unavailable,
            "proof.scratch",
            place.display().to_string(),
            format!("no folder can be made there: {error}"),
            next,
        )
    };
    // A killed restore leaves it, and the next restore or proof removes it.
    let folder = PrivateFolder::new(&place, SCRATCH, "restore", None).map_err(failed)?;
    let between = opener.vault_with(&VaultUrl::parse(&folder.path().display().to_string())?, Access::Plain).await?;
    let world = World::real(edge.environment.clone());
    let ways = Ways { place: &place, between: &between };
    let done = restore_into(vault, target, options, ways, &world, progress).await;
    drop(between);
    folder.remove();
    done.map(|Extracted { restored, reached, is_doubtful, empty, left_out, not_isolated }| {
        (restored, Some(Cluster { reached, is_doubtful, empty, left_out, not_isolated }))
    })
}

/// What the recovery of a cluster and the backup out of it came to.
struct Cluster {
    reached: Reached,
    is_doubtful: bool,
    empty: Vec<String>,
    left_out: Vec<String>,
    not_isolated: Option<&'static str>,
}

impl Cluster {
    fn is_whole(&self) -> bool {
        self.empty.is_empty() && self.left_out.is_empty()
    }

    fn document(&self) -> serde_json::Value {
        json!({
            "lsn": self.reached.lsn,
            "moment": self.reached.moment,
            "ends_before_target": self.is_doubtful,
            "empty": self.empty,
            "left_out": self.left_out,
            "not_isolated": self.not_isolated,
        })
    }

    fn text(&self) -> String {
        let lsn = self.reached.lsn.map_or_else(|| "an unknown position".to_owned(), |lsn| lsn.to_string());
        let moment = self.reached.moment.map_or_else(String::new, |moment| format!(", last commit at {moment}"));
        let mut text = format!("the cluster was recovered to {lsn}{moment}\n");
        if self.is_doubtful {
            text.push_str("the vault has nothing from after that: what the server committed before the moment, and the vault never got, isn't known\n");
        }
        for table in &self.empty {
            text.push_str(&format!("restored without rows, because no base has rows of unlogged tables: {table}\n"));
        }
        for what in &self.left_out {
            text.push_str(&format!("left out: {what}\n"));
        }
        if let Some(why) = self.not_isolated {
            text.push_str(&format!("the server that recovered wasn't kept apart: {why}\n"));
        }
        text
    }
}

/// A plan that can't be carried out has failed, as the restore would; one that leaves something out hasn't.
fn exit(restored: &Restored) -> Exit {
    let can_be_done = !restored.dry_run || restored.lacks.is_empty();
    Exit::judge(can_be_done, restored.dry_run || is_whole(restored))
}

/// Whether everything was restored exactly.
fn is_whole(restored: &Restored) -> bool {
    restored.left_out.is_empty()
        && restored.kept.is_empty()
        && restored.refused.is_empty()
        && restored.unfilled.is_empty()
}

fn render(restored: &Restored) -> String {
    let Restored { manifest, target, resumed, left_out, without_statistics, databases, .. } = restored;
    let Restored { roles, kept, refused, unfilled, dry_run, lacks, doubts, later, duration_ms, .. } = restored;
    let totals = manifest.totals;
    let items = if manifest.artefact.is_some() { String::new() } else { format!(" of {} items", totals.items) };
    let what =
        format!("{}{items}, {} from {}", content(manifest), table::bytes(totals.raw), table::bytes(totals.stored));
    let mut told = String::new();
    if !databases.is_empty() {
        told.push_str(&format!("{}: {}\n", table::count(databases.len(), "database"), databases.join(", ")));
    }
    if !roles.is_empty() {
        told.push_str(&format!("{}: {}\n", table::count(roles.len(), "new role"), roles.join(", ")));
    }
    for (what, how) in kept {
        told.push_str(&format!("kept as it is: {what}: {how}\n"));
    }
    for (what, needs) in left_out {
        told.push_str(&format!("left out: {what}: it needs the {needs}, which isn't restored\n"));
    }
    for (what, cause) in refused {
        told.push_str(&format!("refused by the server: {what}: {cause}\n"));
    }
    for (view, cause) in unfilled {
        told.push_str(&format!(
            "left without rows: the materialized view {view}: {cause}\n\
             next: mend that, then REFRESH MATERIALIZED VIEW {view}\n"
        ));
    }
    for (table, cause) in without_statistics {
        told.push_str(&format!("no statistics of {table}: {cause}\nnext: mend that, then ANALYZE {table}\n"));
    }
    told.push_str(&notes(manifest));
    if *dry_run {
        let mut text = format!(
            "{target}: would be restored to {} ({}); nothing was written\n{what}\n",
            manifest.point, manifest.id
        );
        for Lack { cause, mend } in lacks {
            text.push_str(&format!("missing: {}\nnext: {mend}\n", brief(cause)));
        }
        for doubt in doubts {
            text.push_str(&format!("in doubt: {doubt}\n"));
        }
        for what in later {
            text.push_str(&format!("made when the database has its name, to which it is bound: {what}\n"));
        }
        return text + &told;
    }
    let how = if *resumed { "restored, continuing an earlier restore," } else { "restored" };
    format!("{target}: {how} to {} ({})\n{what} in {}\n{told}", manifest.point, manifest.id, table::span(*duration_ms))
}
