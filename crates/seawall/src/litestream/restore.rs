//! `litestream restore`: a database from its replica, once or kept up.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_agent::config::SWEEP_INTERVAL;
use seawall_agent::{LtxObject, Opener, Signals, VaultUrl, ask, is_there};
use seawall_core::{
    Failure, FollowRequest, IntegrityCheck, Moment, NoProgress, RestoreRequest, Restored, Shutdown, When,
};
use seawall_vault::FileStore;
use serde::Serialize;

use super::config::{self, Named};
use super::flags::{self, Flag, Flags};
use super::{Answer, Stop, json, ltx};
use crate::edge::Edge;
use crate::{runtime, table};

const FLAGS: [Flag; 14] = [
    flags::value("config"),
    flags::switch("no-expand-env"),
    flags::value("o"),
    flags::value("txid"),
    flags::value("timestamp"),
    flags::value("parallelism"),
    flags::switch("if-db-not-exists"),
    flags::switch("if-replica-exists"),
    flags::switch("dry-run"),
    flags::switch("force"),
    flags::switch("json"),
    flags::switch("f"),
    flags::value("follow-interval"),
    flags::value("integrity-check"),
];

/// The request, checked.
struct Asked {
    text: String,
    when: When,
    integrity: IntegrityCheck,
    follow: Option<Duration>,
    flags: Flags,
}

/// The summary to print.
#[derive(Serialize)]
struct Summary {
    db_path: String,
    replica: String,
    txid: String,
    duration_ms: u64,
    integrity_check: IntegrityCheck,
}

/// What would be restored, as it is printed.
#[derive(Serialize)]
struct Plan {
    source: String,
    target_path: String,
    replica: String,
    min_txid: String,
    max_txid: String,
    files: Vec<PlannedFile>,
}

#[derive(Serialize)]
struct PlannedFile {
    level: u8,
    name: String,
    min_txid: String,
    max_txid: String,
    size: u64,
    timestamp: String,
}

/// Runs the command.
pub(super) fn run(arguments: &[String], edge: &Edge) -> Answer {
    let asked = read(flags::parse(&FLAGS, arguments)?)?;
    if config::is_url(&asked.text) && asked.flags.get("o").is_none() {
        let hint = format!("litestream restore -o /path/to/db {}", asked.text);
        return Err(Stop::hinted("-o is required when restoring from a replica URL", hint));
    }
    let named = Named::find(&asked.text, &asked.flags, edge)?;
    let shown = asked.flags.get("o").map_or_else(|| config::path(&asked.text, edge), PathBuf::from);
    let output = config::path(&shown.to_string_lossy(), edge);
    if asked.flags.is_set("if-db-not-exists") && output.exists() {
        return Ok(String::new());
    }
    if asked.follow.is_none() {
        check_output(&output, &shown, asked.flags.is_set("force"))?;
    }
    let told_of = remembered(&named, edge).and_then(|()| carry_out(&asked, &named, &output, &shown, edge));
    match told_of {
        Err(failure) if is_nothing(&failure) && asked.flags.is_set("if-replica-exists") => {
            // Litestream takes a missing folder for a replica without a backup. Its disk may not be mounted.
            is_there(named.vault()).map(|()| String::new()).map_err(Stop::from)
        }
        Err(failure) => Err(told(&asked.when, failure)),
        Ok(answer) => answer,
    }
}

fn carry_out(asked: &Asked, named: &Named, output: &Path, shown: &Path, edge: &Edge) -> Result<Answer, Failure> {
    if let Some(interval) = asked.follow {
        return follow(asked, named, output, interval, edge).map(|()| Ok(String::new()));
    }
    let opener = edge.opener(runtime::working())?;
    let request = RestoreRequest {
        output: output.to_owned(),
        when: asked.when.clone(),
        force: asked.flags.is_set("force"),
        dry_run: asked.flags.is_set("dry-run"),
        integrity: asked.integrity,
    };
    let work = async {
        let engine = opener.vault(named.vault()).await?;
        let restored = ask::files(&*engine)?.restore(&request, Arc::new(NoProgress)).await?;
        let listed = if request.dry_run { opener.ltx_objects(named.vault()).await? } else { Vec::new() };
        Ok((restored, listed))
    };
    let (restored, listed) = runtime::run(work)?;
    for doubt in &restored.doubts {
        tracing::warn!("can't be told: {doubt}");
    }
    let replica = config::kind(named.vault());
    let as_json = asked.flags.is_set("json");
    Ok(match (request.dry_run, as_json) {
        (false, false) => Ok(String::new()),
        (false, true) => json(&Summary {
            db_path: shown.display().to_string(),
            replica,
            txid: restored.point.position,
            duration_ms: restored.duration_ms,
            integrity_check: asked.integrity,
        }),
        (true, as_json) => {
            let source = match named {
                Named::Replica(_) => asked.text.clone(),
                Named::Database(database) => database.source().to_string(),
            };
            let plan = plan(source, shown, replica, &restored, &listed);
            if as_json { json(&plan) } else { Ok(render(&plan)) }
        }
    })
}

fn follow(asked: &Asked, named: &Named, output: &Path, interval: Duration, edge: &Edge) -> Result<(), Failure> {
    let request = FollowRequest {
        output: output.to_owned(),
        force: asked.flags.is_set("force"),
        integrity: asked.integrity,
        interval,
        position_file: true,
    };
    let runtime = runtime::lasting(runtime::PROTECTING)?;
    let followed = runtime.block_on(async {
        let shutdown = Shutdown::new();
        let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
        let forwarding = tokio::spawn(signals.forward(shutdown.clone(), false));
        let mut opener = edge.opener(runtime::working())?;
        opener.watch(SWEEP_INTERVAL);
        let engine = opener.vault(named.vault()).await?;
        let standby = ask::standby(&*engine, &request.output)?;
        let followed = standby.follow(&request, &shutdown, Arc::new(NoProgress)).await;
        forwarding.abort();
        followed
    });
    runtime::end(runtime);
    followed.map(drop)
}

/// Checks the flags and turns them into a request.
fn read(flags: Flags) -> Result<Asked, Stop> {
    let missing = || {
        let hint = "litestream restore -o /path/to/db s3://bucket/prefix";
        Stop::hinted("database path or replica URL required", hint)
    };
    let txid = flags.get("txid").map(read_txid).transpose()?;
    let interval = match flags.get("follow-interval") {
        None => Duration::from_secs(1),
        Some(text) => seawall_core::parse_duration(text)
            .filter(|interval| !interval.is_zero())
            .ok_or_else(|| Stop::Usage(format!("invalid value \"{text}\" for flag -follow-interval: parse error")))?,
    };
    let text = flags.only_argument()?.ok_or_else(missing)?.to_owned();
    let moment = flags.get("timestamp").map(read_moment).transpose()?;
    let integrity = match flags.get("integrity-check") {
        None | Some("none") => IntegrityCheck::None,
        Some("quick") => IntegrityCheck::Quick,
        Some("full") => IntegrityCheck::Full,
        Some(other) => return Err(Stop::error(format!("invalid -integrity-check value: {other}"))),
    };
    let follow = flags.is_set("f").then_some(interval);
    if follow.is_some() && flags.is_set("dry-run") {
        return Err(Stop::error("cannot use -dry-run with -f"));
    }
    let when = match (txid, moment) {
        (Some(_), _) if follow.is_some() => return Err(Stop::error("cannot use follow mode with -txid")),
        (_, Some(_)) if follow.is_some() => return Err(Stop::error("cannot use follow mode with -timestamp")),
        (Some(_), Some(_)) => return Err(Stop::error("cannot use -txid with -timestamp")),
        (Some(txid), None) => When::Position(txid),
        (None, Some(moment)) => When::Moment(moment),
        (None, None) => When::Latest,
    };
    Ok(Asked { text, when, integrity, follow, flags })
}

fn read_txid(text: &str) -> Result<String, Stop> {
    let good = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bad = || Stop::Usage(format!("invalid value \"{text}\" for flag -txid: invalid txid format"));
    good.then(|| text.to_ascii_lowercase()).ok_or_else(bad)
}

fn read_moment(text: &str) -> Result<Moment, Stop> {
    let form = "invalid -timestamp, must specify in ISO 8601 format (e.g. 2000-01-01T00:00:00Z)";
    text.parse().map_err(|_| Stop::error(form))
}

/// Refuses to overwrite a file, in Litestream's words.
fn check_output(output: &Path, shown: &Path, force: bool) -> Result<(), Stop> {
    let shown = shown.display();
    match std::fs::metadata(output) {
        Ok(found) if found.is_dir() => Err(Stop::error(format!("cannot restore, output path is a directory: {shown}"))),
        Ok(found) if found.len() > 0 && !force => Err(Stop::error(format!(
            "cannot restore, output path already exists and is not empty: {shown}. Use -force to overwrite"
        ))),
        _ => Ok(()),
    }
}

/// Whether the replica is proved to hold no backup. A bucket that doesn't exist, or a backup of which a part is missing, is an error:
/// an application that goes on would begin a new database in the place of one that can be saved.
fn is_nothing(failure: &Failure) -> bool {
    failure.code == "sqlite.nothing-there"
}

/// Refuses the folder of a replica on a disk that isn't mounted, as this machine noted when it wrote there: what is underneath may be
/// nothing, or an older replica.
fn remembered(named: &Named, edge: &Edge) -> Result<(), Failure> {
    let Named::Database(database) = named else { return Ok(()) };
    let notes = Opener::new(edge.environment.clone(), 1).place_here(database).vault_notes();
    match (&database.vault, notes) {
        (VaultUrl::File(folder), Some(notes)) => Ok(FileStore::check_remembered(folder, &notes)?),
        _ => Ok(()),
    }
}

/// A moment or a TXID that isn't there, in Litestream's words.
fn told(when: &When, failure: Failure) -> Stop {
    match (when, failure.code) {
        (When::Moment(_), "sqlite.unreachable") => Stop::error("timestamp does not exist"),
        (When::Position(_), "sqlite.unreachable") => Stop::error("no matching backup files available"),
        _ => failure.into(),
    }
}

fn plan(source: String, target: &Path, replica: String, restored: &Restored, listed: &[LtxObject]) -> Plan {
    let file = |key: &str| {
        let object = listed.iter().find(|object| object.key == key)?;
        Some(PlannedFile {
            level: object.level,
            name: key.rsplit('/').next().unwrap_or(key).to_owned(),
            min_txid: object.min.to_string(),
            max_txid: object.max.to_string(),
            size: object.bytes,
            timestamp: ltx::seconds(object.modified),
        })
    };
    let files: Vec<PlannedFile> = restored.objects.iter().filter_map(|object| file(&object.key)).collect();
    let end = |file: Option<&PlannedFile>, of: fn(&PlannedFile) -> &String| file.map(of).cloned().unwrap_or_default();
    Plan {
        source,
        target_path: target.display().to_string(),
        replica,
        min_txid: end(files.first(), |file| &file.min_txid),
        max_txid: end(files.last(), |file| &file.max_txid),
        files,
    }
}

fn render(plan: &Plan) -> String {
    let cells = |file: &PlannedFile| {
        let PlannedFile { level, name, min_txid, max_txid, size, timestamp } = file;
        vec![level.to_string(), name.clone(), min_txid.clone(), max_txid.clone(), size.to_string(), timestamp.clone()]
    };
    let heading = ["level", "file", "min_txid", "max_txid", "size", "timestamp"];
    let files = table::table(&heading, plan.files.iter().map(cells).collect(), &[]);
    let Plan { source, target_path, replica, min_txid, max_txid, .. } = plan;
    format!(
        "Restore plan:\n  source: {source}\n  target: {target_path}\n  replica: {replica}\n  \
         txid range: {min_txid} - {max_txid}\n\nFiles to fetch:\n{files}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, Stop> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(flags::parse(&FLAGS, &arguments)?)
    }

    #[test]
    fn what_is_asked_for() {
        let when = |line: &str| asked(line).map(|asked| asked.when);
        assert_eq!(when("-txid 00000000000000AF s3://b/x"), Ok(When::Position("00000000000000af".into())));
        assert_eq!(when("-timestamp 1970-01-01T00:00:01Z /a.db"), Ok(When::Moment(Moment::from_millis(1000))));
        assert_eq!(when("-parallelism 3 /a.db"), Ok(When::Latest));
        assert_eq!(asked("-f -follow-interval 500ms /a.db").map(|a| a.follow), Ok(Some(Duration::from_millis(500))));
        assert_eq!(asked("-integrity-check=quick /a.db").map(|a| a.integrity), Ok(IntegrityCheck::Quick));
    }

    #[test]
    fn only_a_proved_absence_is_nothing() {
        for (code, expected) in [
            ("sqlite.nothing-there", true),
            ("sqlite.unreachable", false),
            ("vault.missing", false),
            ("vault.vanished", false),
            ("vault.denied", false),
        ] {
            let failure = Failure::new(seawall_core::Kind::Refused, code, "o", "c", "n");
            assert_eq!(is_nothing(&failure), expected, "{code}");
        }
    }

    #[test]
    fn what_is_refused() {
        for line in [
            "",
            "a b",
            "-txid zz /a",
            "-timestamp yesterday /a",
            "-f -txid 0000000000000001 /a",
            "-f -timestamp 1970-01-01T00:00:01Z /a",
            "-f -dry-run /a",
            "-integrity-check some /a",
            "-follow-interval 5 /a",
            "-txid 0000000000000001 -timestamp 1970-01-01T00:00:01Z /a",
        ] {
            assert!(asked(line).is_err(), "{line}");
        }
    }
}
