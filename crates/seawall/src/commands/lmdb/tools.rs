//! The commands for single snapshots and environments.

use std::path::Path;

use seawall_agent::config::LmdbConfig;
use seawall_core::{Failure, Kind, Moment};
use seawall_lmdb::{EnvOptions, EnvStatus, Local, Migration, Settings, Stamp, migrate, snapshots, view};
use seawall_vault::{Policy, Vault};
use serde_json::{Value, json};

use super::faithful::{self, Faithful};
use super::show::Printer;
use super::{load, select};
use crate::arguments::Common;
use crate::arguments::lmdb::{ConfigArgument, DumpArguments, EnvironmentArguments, MigrateArguments, SnapshotsCommand};
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::runtime;
use crate::table::table;

/// Runs one of the commands about snapshots.
pub(crate) fn snapshots(command: &SnapshotsCommand, edge: &Edge, common: &Common) -> Result<Output, Failure> {
    let (json, faithful) = (common.json, common.as_original && !common.json);
    let told = |output: Output| if faithful { output.without_text() } else { output };
    match command {
        SnapshotsCommand::Dump { name, dbi, local: true, .. } if faithful => {
            let only = dbi.as_ref().map(|dbi| dbi.as_bytes());
            Printer::finished(snapshots::show_file(&edge.absolute(name), only, &mut Faithful::new()))
        }
        SnapshotsCommand::Dump { config, name, dbi, .. } if faithful => {
            let (name, only) = (name.display().to_string(), dbi.clone().map(String::into_bytes));
            let show = async |vault: &Vault| Ok(snapshots::show(vault, &name, only, Faithful::new()).await);
            Printer::finished(within(config, edge, show)?.map(drop))
        }
        SnapshotsCommand::Dump { name, dbi, local: true, .. } => {
            let only = dbi.as_ref().map(|dbi| dbi.as_bytes());
            let shown = snapshots::show_file(&edge.absolute(name), only, &mut Printer::new(json));
            Printer::finished(shown)
        }
        SnapshotsCommand::Dump { config, name, dbi, .. } => {
            let (name, only) = (name.display().to_string(), dbi.clone().map(String::into_bytes));
            let show = async |vault: &Vault| Ok(snapshots::show(vault, &name, only, Printer::new(json)).await);
            Printer::finished(within(config, edge, show)?.map(drop))
        }
        SnapshotsCommand::List { config, long, prefix, time } => {
            let objects = within(config, edge, async |vault| snapshots::list(vault, prefix, *time).await)?;
            let line = |object: &snapshots::Object| {
                let between = if faithful { '\t' } else { ' ' };
                if *long {
                    format!("{:>12}{between}{}\n", object.bytes, object.name)
                } else {
                    format!("{}\n", object.name)
                }
            };
            let document = |object: &snapshots::Object| json!({ "name": object.name, "bytes": object.bytes, "time": object.stamp.map(moment) });
            let documents: Vec<_> = objects.iter().map(document).collect();
            Ok(Output::done(objects.iter().map(line).collect::<String>(), &json!({ "snapshots": documents })))
        }
        SnapshotsCommand::Get { config, name, output } => {
            let output = edge.absolute(output.as_deref().unwrap_or(Path::new(name)));
            // The original writes over a file that is there.
            let overwrite = common.as_original;
            let bytes = within(config, edge, async |vault| snapshots::get(vault, name, &output, overwrite).await)?;
            let text = format!("{}: {bytes} bytes\n", output.display());
            Ok(told(Output::done(text, &json!({ "name": name, "output": output, "bytes": bytes }))))
        }
        SnapshotsCommand::Put { config, file, name, force } => {
            let own = file.file_name().and_then(|name| name.to_str());
            let Some(name) = name.as_deref().or(own) else {
                return Err(usage("usage.arguments", &file.display().to_string(), "it has no name", "use --name"));
            };
            let file = edge.absolute(file);
            let bytes = within(config, edge, async |vault| snapshots::put(vault, &file, name, *force).await)?;
            Ok(told(Output::done(format!("{name}: {bytes} bytes\n"), &json!({ "name": name, "bytes": bytes }))))
        }
        SnapshotsCommand::Remove { config, name } => {
            match within(config, edge, async |vault| snapshots::remove(vault, name).await) {
                // Lightning Stream reports success when the snapshot to remove doesn't exist.
                Err(failure) if faithful && failure.kind == Kind::NotFound => {}
                removed => removed?,
            }
            Ok(told(Output::done(format!("{name}: removed\n"), &json!({ "name": name }))))
        }
    }
}

pub(super) fn moment(stamp: Stamp) -> Moment {
    Moment::from_millis(i64::try_from(stamp.0 / 1_000_000).unwrap_or(i64::MAX))
}

/// Does something with the storage of a configuration.
fn within<T>(
    config: &ConfigArgument,
    edge: &Edge,
    work: impl AsyncFnOnce(&Vault) -> Result<T, seawall_lmdb::Error>,
) -> Result<T, Failure> {
    let config = load(&config.config, edge)?;
    runtime::run(async {
        // Each environment has a note of the same place.
        let notes = config.databases.iter().filter_map(LmdbConfig::vault_notes).find(|notes| notes.exists());
        let policy = Policy { notes, ..Policy::default() };
        let vault = Vault::open(&config.vault, &edge.environment, policy).await?;
        Ok(work(&vault).await?)
    })
}

/// Does something with each environment that is meant, opened by `open`.
fn each<T>(
    arguments: &EnvironmentArguments,
    edge: &Edge,
    open: impl Fn(&LmdbConfig) -> Result<Local, seawall_lmdb::Error>,
    work: impl Fn(&Local) -> Result<T, seawall_lmdb::Error>,
) -> Result<Vec<(String, T)>, Failure> {
    let mut config = load(&arguments.config.config, edge)?;
    select(&mut config, &arguments.only_db)?;
    let one = |database: &LmdbConfig| Ok((database.name.clone(), work(&open(database)?)?));
    config.databases.iter().map(one).collect()
}

/// Opens an environment; none is made.
fn open(database: &LmdbConfig) -> Result<Local, seawall_lmdb::Error> {
    let options = EnvOptions { create: false, ..database.options.clone() };
    Local::open(&database.path, &options, Settings::new(database.schema.clone()))
}

/// Opens it while no Seawall process keeps it in step.
fn open_alone(database: &LmdbConfig) -> Result<Local, seawall_lmdb::Error> {
    let options = EnvOptions { create: false, ..database.options.clone() };
    Local::open_alone(&database.path, &options, Settings::new(database.schema.clone()))
}

/// `seawall lmdb dump`
pub(crate) fn dump(arguments: &DumpArguments, edge: &Edge, common: &Common) -> Result<Output, Failure> {
    let (mut config, json) = (load(&arguments.config.config, edge)?, common.json);
    if common.as_original && !json {
        config.databases.retain(|database| arguments.only_db.is_empty() || arguments.only_db.contains(&database.name));
        config.databases.sort_by(|a, b| a.name.cmp(&b.name));
        let show = |database: &LmdbConfig| {
            let (local, mut printer) = (open(database)?, Faithful::new());
            printer.environment(&database.name);
            view::environment(local.env(), &database.schema, arguments.hide, &mut printer)
        };
        return Printer::finished(config.databases.iter().try_for_each(show));
    }
    select(&mut config, &arguments.only_db)?;
    let mut printer = Printer::new(json);
    let output = |source| seawall_lmdb::Error::Io { path: "standard output".into(), source };
    let mut show = || {
        for database in &config.databases {
            let local = open(database)?;
            printer.environment(&database.name).map_err(output)?;
            view::environment(local.env(), &database.schema, arguments.hide, &mut printer)?;
        }
        printer.close().map_err(output)
    };
    Printer::finished(show())
}

/// `seawall lmdb migrate-timestamps`
pub(crate) fn migrate_timestamps(arguments: &MigrateArguments, edge: &Edge) -> Result<Output, Failure> {
    let mut config = load(&arguments.config.config, edge)?;
    select(&mut config, arguments.database.as_slice())?;
    let [database] = config.databases.as_slice() else {
        let cause = "the configuration has several environments";
        return Err(usage("usage.arguments", "--database", cause, "name one of those under lmdbs"));
    };
    let migration = Migration {
        from: arguments.src_dbi.clone().into_bytes(),
        to: arguments.dst_dbi.clone().into_bytes(),
        add_deletions: arguments.add_delete_entries,
        may_be_missing: arguments.ignore_src_dbi_not_present,
    };
    let done = migrate(open(database)?.env(), &migration)?;
    let text = format!(
        "{}: {} entries, {} times raised, {} deletions added\n",
        database.name, done.entries, done.raised, done.deletions
    );
    let document = json!({
        "name": database.name, "entries": done.entries, "raised": done.raised, "deletions": done.deletions,
    });
    Ok(Output::done(text, &document))
}

/// `seawall lmdb stats`
pub(crate) fn stats(arguments: &EnvironmentArguments, edge: &Edge, common: &Common) -> Result<Output, Failure> {
    let mut all = each(arguments, edge, open, Local::status)?;
    let mut shown: fn(&str, &EnvStatus) -> String = stats_text;
    if common.as_original {
        all.sort_by(|a, b| a.0.cmp(&b.0));
        shown = faithful::stats;
    }
    let text: String = all.iter().map(|(name, status)| shown(name, status)).collect();
    let documents: Vec<Value> = all.iter().map(|(name, status)| stats_json(name, status)).collect();
    Ok(Output::done(text, &json!({ "databases": documents })))
}

fn stats_text(name: &str, status: &EnvStatus) -> String {
    let info = status.info;
    let rows = status.dbis.iter().map(|(dbi, flags, stat)| {
        let (branch, leaf, overflow) = stat.pages;
        let numbers = [stat.bytes, stat.entries, stat.depth.into(), branch, leaf, overflow];
        let mut row = vec![dbi.clone()];
        row.extend(numbers.iter().map(u64::to_string));
        row.push(flags.to_string());
        row
    });
    let heading = ["dbi", "bytes", "entries", "depth", "branch", "leaf", "overflow", "flags"];
    format!(
        "{name}: map {} bytes, used {}, file {}, last transaction {}, readers {} of {}\n{}",
        info.map_size,
        info.used,
        status.file_bytes,
        info.last_transaction,
        info.readers.0,
        info.readers.1,
        table(&heading, rows.collect(), &[1, 2, 3, 4, 5, 6])
    )
}

fn stats_json(name: &str, status: &EnvStatus) -> Value {
    let info = status.info;
    let dbi = |(dbi, flags, stat): &(String, seawall_lmdb::Flags, seawall_lmdb::DbiStat)| {
        let (branch, leaf, overflow) = stat.pages;
        json!({
            "name": dbi, "flags": flags.to_string(), "bytes": stat.bytes, "entries": stat.entries, "depth": stat.depth,
            "branch_pages": branch, "leaf_pages": leaf, "overflow_pages": overflow,
        })
    };
    json!({
        "name": name,
        "map_bytes": info.map_size,
        "used_bytes": info.used,
        "file_bytes": status.file_bytes,
        "last_transaction": info.last_transaction,
        "readers": info.readers.0,
        "max_readers": info.readers.1,
        "dbis": status.dbis.iter().map(dbi).collect::<Vec<_>>(),
    })
}

/// `seawall lmdb drop-shadow`
pub(crate) fn drop_shadow(arguments: &EnvironmentArguments, edge: &Edge) -> Result<Output, Failure> {
    // A session that runs would take every record for a new one.
    let all = each(arguments, edge, open_alone, Local::drop_shadows)?;
    let line = |(name, shadows): &(String, Vec<String>)| format!("{name}: dropped {} shadows\n", shadows.len());
    let document = |(name, shadows): &(String, Vec<String>)| json!({ "name": name, "dropped": shadows });
    let documents: Vec<_> = all.iter().map(document).collect();
    Ok(Output::done(all.iter().map(line).collect::<String>(), &json!({ "databases": documents })))
}
