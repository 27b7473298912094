//! `seawall restore`: get a database back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_agent::config::EngineConfig;
use seawall_agent::{Opener, Operation, ask};
use seawall_core::{Failure, Kind, Progress, RestoreRequest, Restored, Rewritten};
use serde_json::json;

use crate::arguments::{Common, RestoreArguments};
use crate::edge::Edge;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, source, table};

/// Runs the command.
pub(crate) fn run(arguments: &RestoreArguments, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    let when = source::when(&arguments.at)?;
    if let Some(to) = &arguments.to {
        return super::restore_server::run(arguments, to, edge, when, common.json);
    }
    if arguments.all {
        return super::restore_all::run(arguments, &request(arguments)?, edge);
    }
    let there = existing(arguments, edge)?;
    if let Some(Existing { path, is_known: true }) = &there {
        return Ok(skipped(path));
    }
    let source = source_of(arguments, edge)?;
    let opener = edge.opener(runtime::working())?;
    let jobs = arguments.server.jobs.map_or_else(runtime::cores, usize::from);
    if super::restore_cluster::is_asked(arguments) || holds_cluster(&source, arguments, &opener)? {
        let request = RestoreRequest { output: arguments.output.clone().unwrap_or_default(), ..request(arguments)? };
        let work = async {
            let (chosen, told) = source.clone().newest(&opener, &request.when).await?;
            let (vault, _) = chosen.open_with_vault(&opener).await?;
            super::restore_cluster::restore(arguments, &source, (&vault, told), &request.when, edge, common.json).await
        };
        return runtime::run_with(runtime::serving(jobs), between(&source, &request, work));
    }
    if let Some(existing) = &there {
        return Ok(skipped(&existing.path));
    }
    let (source, request) = prepare(arguments, edge)?;
    if arguments.follow {
        return super::follow::run(&source, request, arguments.follow_interval, common, edge);
    }
    let progress = progress(edge, common.json);
    if arguments.as_new {
        let work = async {
            let engine = source.open(&opener).await?;
            ask::rollback(&*engine)?.restore_as_new(&request, progress).await
        };
        let done = runtime::run(between(&source, &request, work))?;
        return Ok(rolled_back(&done));
    }
    let (told, restored) = match runtime::run(restore(&source, &request, &opener, progress)) {
        Err(failure) if arguments.allow_empty && is_empty(&failure) => return Ok(nothing_there(&request.output)),
        done => done?,
    };
    Ok(Output::done(told + &render(&restored), &document(&restored)))
}

/// The answer where nothing is restored, because something is there.
fn skipped(existing: &Path) -> Output {
    let document = json!({ "skipped": true, "output": existing });
    Output::done(format!("{} exists; nothing was restored\n", existing.display()), &document)
}

/// Whether the vault is proved to hold no backup. A bucket that doesn't exist, or a backup of which a part is missing, is another failure:
/// an application that goes on would begin a new database in the place of one that can be saved.
fn is_empty(failure: &Failure) -> bool {
    matches!(failure.code, "sqlite.nothing-there" | "lmdb.nothing-there")
}

/// The answer where nothing is restored, because the vault has nothing.
fn nothing_there(output: &Path) -> Output {
    let document = json!({ "skipped": true, "output": output });
    Output::done("the vault has no backup yet; nothing was restored\n", &document)
}

/// What is asked for, still without a file.
fn request(arguments: &RestoreArguments) -> Result<RestoreRequest, Failure> {
    Ok(RestoreRequest {
        output: PathBuf::new(),
        when: source::when(&arguments.at)?,
        force: arguments.force,
        dry_run: arguments.dry_run,
        integrity: arguments.integrity.check(),
    })
}

/// What is restored into which file.
pub(crate) fn prepare(arguments: &RestoreArguments, edge: &Edge) -> Result<(Source, RestoreRequest), Failure> {
    let source = source_of(arguments, edge)?;
    let request = RestoreRequest { output: output(arguments, &source, edge)?, ..request(arguments)? };
    Ok((source, request))
}

/// What is there, and so isn't restored.
struct Existing {
    path: PathBuf,
    /// Whether no vault has to be asked. A folder may be that of a cluster, and then only the vault knows.
    is_known: bool,
}

/// The file that is there, and so isn't restored. No vault is asked: it may be away, and the file is what the application needs.
fn existing(arguments: &RestoreArguments, edge: &Edge) -> Result<Option<Existing>, Failure> {
    if !arguments.if_missing || arguments.follow || super::restore_cluster::is_asked(arguments) {
        return Ok(None);
    }
    let source = Source::find(arguments.source.as_deref().unwrap_or_default(), &arguments.config, edge)?;
    let output = match &source {
        Source::Database(database) if matches!(database.engine, EngineConfig::Cluster(_)) => None,
        source => named_output(arguments, source, edge),
    };
    let there = output.filter(|output| std::fs::symlink_metadata(output).is_ok());
    let is_configured = matches!(source, Source::Database(_));
    Ok(there.map(|path| Existing { is_known: is_configured || !path.is_dir(), path }))
}

/// What is restored.
fn source_of(arguments: &RestoreArguments, edge: &Edge) -> Result<Source, Failure> {
    let source = Source::find(arguments.source.as_deref().unwrap_or_default(), &arguments.config, edge)?;
    source.there()?.past(&arguments.past)
}

/// Restores into a file, or says what would be done. Says also which of several vaults was read.
pub(crate) async fn restore(
    source: &Source,
    request: &RestoreRequest,
    opener: &Opener,
    progress: Arc<dyn Progress>,
) -> Result<(String, Restored), Failure> {
    let work = async {
        let restored = |source: Source| {
            let progress = progress.clone();
            async move { ask::files(&*source.open(opener).await?)?.restore(request, progress).await }
        };
        source.with_newest(opener, &request.when, restored).await
    };
    between(source, request, work).await
}

/// Does the work of a restore between its hooks. One that only says what it would do has none.
async fn between<T>(
    source: &Source,
    request: &RestoreRequest,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match request.dry_run {
        true => work.await,
        false => source.around(Operation::Restore, request.output.display().to_string(), work).await,
    }
}

/// The file to make, if one is named: the path that was given, otherwise the database's own.
fn named_output(arguments: &RestoreArguments, source: &Source, edge: &Edge) -> Option<PathBuf> {
    match (&arguments.output, source) {
        (Some(output), _) => Some(edge.absolute(output)),
        (None, Source::Database(database)) => database.path().map(ToOwned::to_owned),
        (None, Source::Vault(_)) => None,
    }
}

fn output(arguments: &RestoreArguments, source: &Source, edge: &Edge) -> Result<PathBuf, Failure> {
    match named_output(arguments, source, edge) {
        Some(output) => Ok(output),
        None => {
            let object = match source {
                Source::Vault(vault) => vault.to_string(),
                Source::Database(database) => database.name.clone(),
            };
            let cause = "no file to restore into is named";
            let next = match holds_sets(source, edge) {
                true => format!(
                    "name a server, because its backups are here: seawall restore {object} --to postgresql://ROLE@HOST/DATABASE; \
                     what pg_dump made also goes into a file, with -o FILE"
                ),
                false => "name one with -o FILE".to_owned(),
            };
            Err(Failure::new(Kind::Usage, "usage.no-output", object, cause, next))
        }
    }
}

/// Whether a source is a cluster that is protected continuously, or a vault that holds nothing but the files and the log of a
/// cluster. A vault is only asked where a folder is named that can be made of them.
fn holds_cluster(source: &Source, arguments: &RestoreArguments, opener: &Opener) -> Result<bool, Failure> {
    match source {
        Source::Vault(url) if arguments.output.is_some() && !arguments.follow => {
            // Connections end with the runtime that they were made in.
            runtime::run(opener.apart(1).holds_cluster(url))
        }
        Source::Database(database) => Ok(matches!(database.engine, EngineConfig::Cluster(_))),
        Source::Vault(_) => Ok(false),
    }
}

/// Whether the vault holds backups of a server, if the vault answers.
fn holds_sets(source: &Source, edge: &Edge) -> bool {
    match source {
        Source::Database(database) => database.path().is_none(),
        Source::Vault(_) => runtime::run(super::prove_server::sets_of(source, edge)).is_ok_and(|found| found.is_some()),
    }
}

/// The changes, made or planned, of a rollback in the fleet.
fn rolled_back((restored, rewritten): &(Restored, Vec<Rewritten>)) -> Output {
    let numbers = |row: &Rewritten| [row.restored, row.deleted, row.unchanged].map(|number| number.to_string());
    let row = |row: &Rewritten| std::iter::once(row.table.clone()).chain(numbers(row)).collect::<Vec<_>>();
    let heading = ["table", "restored", "deleted", "unchanged"];
    let changes = table::table(&heading, rewritten.iter().map(row).collect(), &[1, 2, 3]);
    let told = match restored.dry_run {
        true => "would win over everything that is in the vault now; nothing was written",
        false => "wins over everything that is in the vault; keep it in step, and the fleet follows",
    };
    let point = table::point(&restored.point);
    let text = format!("{changes}\n{}: {point} {told}\n", restored.output.display());
    let mut document = document(restored);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("rewritten".into(), to_json(rewritten));
    }
    Output::done(text, &document)
}

fn document(restored: &Restored) -> serde_json::Value {
    let mut document = to_json(restored);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("skipped".into(), json!(false));
    }
    document
}

/// What was restored, or would be, for people.
pub(crate) fn render(restored: &Restored) -> String {
    let Restored { point, output, bytes, objects, duration_ms, dry_run, doubts } = restored;
    let doubts: String = doubts.iter().map(|doubt| format!("can't be told: {doubt}\n")).collect();
    let read: u64 = objects.iter().map(|object| object.bytes).sum();
    let (output, point, read) = (output.display(), table::point(point), table::bytes(read));
    if !dry_run {
        let (size, span) = (table::bytes(*bytes), table::span(*duration_ms));
        return format!(
            "{output}: restored to {point}\n{size} from {} ({read}) in {span}\n{doubts}",
            table::count(objects.len(), "object")
        );
    }
    let rows = objects.iter().map(|object| vec![object.key.clone(), table::bytes(object.bytes)]).collect();
    let objects = table::count(objects.len(), "object");
    format!(
        "{}\n{output}: would be restored to {point} from {objects} ({read}); nothing was written\n{doubts}",
        table::table(&["object", "size"], rows, &[1])
    )
}

#[cfg(test)]
mod tests {
    use seawall_core::{PlannedObject, Point};

    use super::*;

    fn restored(dry_run: bool) -> Restored {
        Restored {
            point: Point { position: "000000000000000a".into(), moment: "2026-11-21T10:00:00Z".parse().expect("time") },
            output: "/x/back.db".into(),
            bytes: 8192,
            objects: vec![PlannedObject { key: "0000/a.ltx".into(), bytes: 2048 }],
            duration_ms: 40,
            dry_run,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn what_could_not_be_proved_is_said() {
        for dry_run in [false, true] {
            let found = Restored { doubts: vec!["2 objects of another program: a, b".into()], ..restored(dry_run) };
            let expected = format!("{}can't be told: 2 objects of another program: a, b\n", render(&restored(dry_run)));
            assert_eq!(render(&found), expected);
            assert_eq!(document(&found)["doubts"], json!(["2 objects of another program: a, b"]));
        }
    }

    #[test]
    fn for_people() {
        assert_eq!(
            render(&restored(false)),
            "/x/back.db: restored to 2026-11-21T10:00:00.000Z (000000000000000a)\n8.0 KiB from 1 object (2.0 KiB) in 40 ms\n"
        );
        assert_eq!(
            render(&restored(true)),
            "object         size\n0000/a.ltx  2.0 KiB\n\n/x/back.db: would be restored to \
             2026-11-21T10:00:00.000Z (000000000000000a) from 1 object (2.0 KiB); nothing was written\n"
        );
    }

    #[test]
    fn for_programs() {
        assert_eq!(
            document(&restored(false)),
            json!({
                "point": { "position": "000000000000000a", "moment": "2026-11-21T10:00:00.000Z" },
                "output": "/x/back.db",
                "bytes": 8192,
                "objects": [{ "key": "0000/a.ltx", "bytes": 2048 }],
                "duration_ms": 40,
                "dry_run": false,
                "doubts": [],
                "skipped": false,
            })
        );
    }
}
