//! `seawall status`: how far each database is protected, from the running process, otherwise from the state records on
//! this machine.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_agent::alarms::{self, Judged, Keeper, Limits, Local, Place, judged, with_unread_proofs};
use seawall_agent::config::DatabaseConfig;
use seawall_agent::{
    ConfigStatus, KnownProofs, Opener, Recorded, VaultUrl, default_state_dir, read_state_dir, read_status,
};
use seawall_core::{
    Alarm, Clock as _, Description, Failure, Kind, LastError, Limit, Moment, Phase, Status, SystemClock, Underway,
    VaultStatus,
};
use tokio::time::Instant;

use super::doctor::places::{Away, each, place};
use crate::arguments::StatusArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::{configuration, runtime, table};

/// How many folders deep state records are looked for below the current folder.
const DEPTH: usize = 4;

/// Runs the command.
pub(crate) fn run(arguments: &StatusArguments, edge: &Edge) -> Result<Output, Failure> {
    let (results, config) = gather(arguments, edge)?;
    if results.is_empty() {
        return Err(Failure::new(
            Kind::NotFound,
            "command.no-state",
            edge.directory.display().to_string(),
            "no state records are below this folder, and there is no configuration",
            "name a database, or a configuration with --config",
        ));
    }
    let now = SystemClock.now();
    let checked = arguments.check.then(|| check(&results));
    let mut output = render(results, now);
    output.exit = checked.unwrap_or(output.exit);
    let missed = config.map(|config| super::reload::what_does_not_hold(&config, now)).unwrap_or_default();
    if !missed.is_empty() {
        // What runs isn't what the configuration says.
        if checked == Some(Exit::Done) {
            output.exit = Exit::Partly;
        }
        output.text.push_str(&format!("\n{missed}"));
    }
    Ok(output)
}

/// How long all records of proofs are waited for, together.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long those in one vault are waited for. A place that gives no answer for as long isn't asked again.
const PATIENCE_FOR_ONE: Duration = Duration::from_secs(4);

/// What the vaults say of the proofs of each database that is proved by a schedule, where no process tells.
///
/// # Errors
/// When the command is interrupted.
pub(super) fn proofs_of(
    opener: &Opener,
    databases: &[DatabaseConfig],
) -> Result<Vec<Result<KnownProofs, Failure>>, Failure> {
    let of = |(number, database): (usize, &DatabaseConfig)| {
        let vaults = if database.prove.is_some() { database.each() } else { Vec::new() };
        vaults.into_iter().map(move |one| (number, one))
    };
    let vaults: Vec<(usize, DatabaseConfig)> = databases.iter().enumerate().flat_map(of).collect();
    let within = (PATIENCE_FOR_ONE, PATIENCE);
    let url = |(_, one): &(usize, DatabaseConfig)| one.vault.clone();
    let told = runtime::run(async { Ok(in_time(&vaults, within, url, |(_, one)| opener.proofs_in(one)).await) })?;
    let mut by_database: Vec<Vec<(String, Result<Recorded, Failure>)>> = databases.iter().map(|_| Vec::new()).collect();
    for ((number, one), told) in vaults.iter().zip(told) {
        by_database[*number].push((one.vault.to_string(), told));
    }
    let now = SystemClock.now();
    let known = |(database, told)| Ok(opener.known_proofs(database, together(told)?, now));
    Ok(databases.iter().zip(by_database).map(known).collect())
}

/// The answer of each vault that comes in time: `within` is the time for one, and that for all.
async fn in_time<'a, I, T, F: Future<Output = Result<T, Failure>>>(
    vaults: &'a [I],
    within: (Duration, Duration),
    url: impl Fn(&I) -> VaultUrl,
    ask: impl Fn(&'a I) -> F,
) -> Vec<Result<T, Failure>> {
    let began = Instant::now();
    let ask = |vault: &'a I| {
        let (answer, object) = (ask(vault), url(vault).to_string());
        let patience = within.0.min(within.1.saturating_sub(began.elapsed()));
        async move {
            let late = |_| {
                let cause = "there was no answer in time";
                Err(Failure::new(Kind::Unavailable, "vault.timeout", object, cause, "see whether the store is up"))
            };
            // Without any time left it isn't even asked.
            let answer = async { if patience.is_zero() { std::future::pending().await } else { answer.await } };
            tokio::time::timeout(patience, answer).await.unwrap_or_else(late)
        }
    };
    each(vaults, |vault| place(&url(vault)), &mut Away::new(), ask).await
}

/// What the vaults of one database told. A vault that can't be reached is a doubt where another one can.
fn together(told: Vec<(String, Result<Recorded, Failure>)>) -> Result<Recorded, Failure> {
    let doubt = |(url, told): &(String, Result<Recorded, Failure>)| {
        let failure = told.as_ref().err()?;
        Some(format!("{url}: its records of proofs can't be read: {} [{}]", failure.cause, failure.code))
    };
    let doubts: Vec<String> = told.iter().filter_map(doubt).collect();
    let mut all = Recorded::together(told)?;
    all.doubts.extend(doubts);
    Ok(all)
}

/// A requested database, and its status.
struct Asked {
    /// Its engine; empty where only a path is known, and no record names the engine.
    engine: &'static str,
    source: PathBuf,
    status: Result<Status, Failure>,
    /// What can't be told of its proofs.
    doubts: Vec<String>,
}

impl Asked {
    /// A database that only its path names.
    fn at(source: PathBuf, status: Result<Status, Failure>) -> Self {
        Self { engine: "", source, status, doubts: Vec::new() }
    }
}

/// The running process's answer: its databases and its configuration.
type Running = (Vec<Status>, Option<ConfigStatus>);

/// The databases, and the configuration of the process that was asked.
fn gather(arguments: &StatusArguments, edge: &Edge) -> Result<(Vec<Asked>, Option<ConfigStatus>), Failure> {
    let (running, config) = running(arguments, edge)?.unzip();
    let config = config.flatten();
    Ok((asked(running, arguments, edge)?, config))
}

fn asked(running: Option<Vec<Status>>, arguments: &StatusArguments, edge: &Edge) -> Result<Vec<Asked>, Failure> {
    if !arguments.paths.is_empty() {
        let of = |path: &PathBuf| {
            let path = edge.absolute(path);
            let known = running.iter().flatten().find(|status| Path::new(&status.source) == path).cloned();
            known.map_or_else(|| of_path(path.clone()), |status| Asked::at(path.clone(), Ok(status)))
        };
        return Ok(arguments.paths.iter().map(of).collect());
    }
    if let Some(running) = running {
        return Ok(running.into_iter().map(|status| Asked::at(PathBuf::from(&status.source), Ok(status))).collect());
    }
    if let Some(config) = configuration::load(&arguments.socket.config, edge)? {
        let opener = edge.opener(runtime::working())?;
        let proved = proofs_of(&opener, &config.databases)?;
        let of = |(database, proved): (DatabaseConfig, Result<KnownProofs, Failure>)| {
            let (engine, source) = (database.engine.name(), database.source().to_string());
            let status = runtime::run(opener.recorded(&database));
            let status = status.map(|status| judged_by_records(&opener, &database, status, &proved, SystemClock.now()));
            let doubts = proved.map(|known| known.doubts).unwrap_or_default();
            let named = status.map(|status| Status { name: database.name, ..status });
            Asked { engine, source: PathBuf::from(source), status: named, doubts }
        };
        return Ok(config.databases.into_iter().zip(proved).map(of).collect());
    }
    let mut found = Vec::new();
    find(&edge.directory, DEPTH, &mut found);
    found.sort();
    Ok(found.into_iter().map(of_path).collect())
}

/// The running process's answer. `None` if no process is to be asked, or the configuration's process doesn't run.
fn running(arguments: &StatusArguments, edge: &Edge) -> Result<Option<Running>, Failure> {
    let named = arguments.socket.socket.is_some();
    // A status by path needs no configuration.
    if !named && !arguments.paths.is_empty() {
        return Ok(None);
    }
    if !named && super::agent::configured_socket(&arguments.socket.config, edge)?.is_none() {
        return Ok(None);
    }
    let control = super::agent::control(&arguments.socket, edge)?;
    match runtime::run(control.status()) {
        Ok(told) => Ok(Some(told)),
        Err(failure) if failure.code == "agent.no-process" && !named => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// A status that was recorded, judged where no process runs: by the records on this machine, and by what the vaults told of its proofs.
pub(super) fn judged_by_records(
    opener: &Opener,
    database: &DatabaseConfig,
    status: Status,
    proved: &Result<KnownProofs, Failure>,
    now: Moment,
) -> Status {
    let known = proved.as_ref().ok();
    let proof = known.and_then(|known| known.standing.clone()).or_else(|| status.proof.clone());
    let proof_due = known.and_then(|known| known.due);
    let local = Local { proof_due, ..opener.place_here(database).read(now) };
    let status = judged(Status { proof, ..status }, Keeper::Nobody, database.judged(), local, now);
    match proved {
        Ok(_) => status,
        Err(failure) => with_unread_proofs(status, failure, database.judged().limits, now),
    }
}

fn of_path(path: PathBuf) -> Asked {
    let (status, state) = match path.is_dir() {
        true => (read_state_dir(&path), path.clone()),
        false => (read_status(&path, None), default_state_dir(&path)),
    };
    // Only a configuration has other limits.
    let limits = Limits::default();
    let database = Judged { is_scheduled: false, limits: &limits };
    let local = Place::in_folder(state).read(SystemClock.now());
    Asked::at(path, status.map(|status| judged(status, Keeper::Nobody, database, local, SystemClock.now())))
}

/// The exit code of `--check`: critical alarms that aren't silenced fail, and so does a status that can't be read; warnings, and what
/// can't be told of proofs, make it partial.
fn check(asked: &[Asked]) -> Exit {
    let known = || asked.iter().filter_map(|asked| asked.status.as_ref().ok());
    let fails =
        asked.iter().any(|asked| asked.status.is_err()) || known().any(|status| alarms::is_urgent(&status.alarms));
    let doubts = asked.iter().any(|asked| !asked.doubts.is_empty());
    let warns = doubts || known().flat_map(|status| &status.alarms).any(|alarm| alarm.silenced_until.is_none());
    Exit::judge(!fails, !warns)
}

/// Collects state folders below `folder`. Folders that can't be read are skipped: they aren't ours.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with("-seawall") {
            // A restore leaves its note also where no process protects the database.
            let holds_more = |names: std::fs::ReadDir| {
                let mut names = names.flatten().map(|entry| entry.file_name()).peekable();
                names.peek().is_none() || names.any(|name| name != "restored.json")
            };
            if !std::fs::read_dir(entry.path()).is_ok_and(|names| !holds_more(names)) {
                found.push(entry.path());
            }
        } else if depth > 0 {
            find(&entry.path(), depth - 1, found);
        }
    }
}

fn render(asked: Vec<Asked>, now: Moment) -> Output {
    let exit = Exit::of_all(asked.iter().map(|asked| asked.status.as_ref().map(drop)));
    let known: Vec<&Status> = asked.iter().filter_map(|asked| asked.status.as_ref().ok()).collect();
    let mut text = String::new();
    if !known.is_empty() {
        let heading =
            ["database", "state", "protected up to", "lag", "waiting", "vault seen", "content read", "source"];
        text = table::table(&heading, known.iter().map(|status| row(status, now)).collect(), &[3, 4]);
    }
    for status in known {
        status.vaults.iter().for_each(|vault| text.push_str(&line_of(&status.name, vault, now)));
        if let Some(error) = &status.error {
            text.push_str(&format!(
                "\n{}: error[{}]: {} ({} times, {})\nnext: {}\n",
                status.name,
                error.code,
                error.message,
                error.count,
                table::ago(error.at, now),
                error.next
            ));
        }
        if let Some(proof) = &status.proof {
            text.push_str(&format!("\n{}: {}\n", status.name, super::prove::line(proof)));
        }
        status.alarms.iter().for_each(|alarm| text.push_str(&line_of_alarm(status, alarm, now)));
    }
    for Asked { status, doubts, .. } in &asked {
        let name = status.as_ref().map_or("", |status| &status.name);
        doubts.iter().for_each(|doubt| text.push_str(&format!("\n{name}: can't be told: {doubt}\n")));
    }
    text.push_str(&limits(&asked));
    let failures: Vec<Failure> = asked.iter().filter_map(|asked| asked.status.as_ref().err().cloned()).collect();
    let told = |Asked { engine, source, status, doubts }: Asked| {
        let status = status.unwrap_or_else(|failure| unknown(engine, &source, &failure, now));
        let mut json = to_json(&status);
        if let (false, Some(fields)) = (doubts.is_empty(), json.as_object_mut()) {
            fields.insert("proof_doubts".to_owned(), to_json(&doubts));
        }
        json
    };
    let all: Vec<_> = asked.into_iter().map(told).collect();
    Output { text, failures, json: to_json(&all), exit }
}

/// The status of a database without a readable record: not known to be protected, with the reason.
fn unknown(engine: &'static str, path: &Path, failure: &Failure, now: Moment) -> Status {
    let path = path.display().to_string();
    let database = Description { name: path.clone(), engine, source: Some(path), vault: String::new() };
    Status { error: Some(LastError::new(failure, now)), ..Status::new(database, Phase::Stopped, now) }
}

/// What the vaults can't do: one line for each missing ability, with the databases that it concerns.
fn limits(asked: &[Asked]) -> String {
    let known: Vec<&Status> = asked.iter().filter_map(|asked| asked.status.as_ref().ok()).collect();
    let mut found: Vec<(&Limit, Vec<&str>)> = Vec::new();
    for status in &known {
        for limit in &status.limits {
            match found.iter_mut().find(|(known, _)| *known == limit) {
                Some((_, names)) => names.push(&status.name),
                None => found.push((limit, vec![&status.name])),
            }
        }
    }
    let line = |(limit, names): (&Limit, Vec<&str>)| {
        let all = names.len() == known.len() && names.len() > 1;
        let of = if all { "all databases".to_owned() } else { names.join(", ") };
        format!("{of}: the vault has no {}: {}\n", limit.lacks, limit.effect)
    };
    let lines: String = found.into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// An alarm, with its next step unless the database's error tells both already.
fn line_of_alarm(status: &Status, alarm: &Alarm, now: Moment) -> String {
    let Alarm { code, severity, cause, next, since, silenced_until } = alarm;
    let (name, since) = (&status.name, table::ago(*since, now));
    let silenced = silenced_until.map_or_else(String::new, |until| format!(", silenced until {until}"));
    match &status.error {
        Some(error) if cause.contains(&error.message) => {
            format!("{name}: {}[{code}], since {since}{silenced}\n", severity.name())
        }
        _ => format!("\n{name}: {}[{code}]: {cause} (since {since}{silenced})\nnext: {next}\n", severity.name()),
    }
}

/// How one of several vaults stands.
pub(crate) fn line_of(name: &str, vault: &VaultStatus, now: Moment) -> String {
    let stands = match vault.behind_since {
        None => {
            let leads = if vault.leads { ", leads" } else { "" };
            let left = vault.objects_left.filter(|objects| *objects > 0);
            let left = left.map(|objects| {
                format!(", but for {objects} objects that can't be read, or don't belong to its history")
            });
            format!("in step{leads}{}", left.unwrap_or_default())
        }
        Some(since) => {
            let left = vault.objects_left.zip(vault.bytes_left).filter(|(objects, _)| *objects > 0);
            let left = left.map(|(objects, bytes)| format!(", lacks {objects} objects ({})", table::bytes(bytes)));
            let error = vault.error.as_ref().map(|error| format!(": error[{}]: {}", error.code, error.message));
            let differs = vault.error.as_ref().is_some_and(|error| error.code == "vault.differs");
            let stands = if differs { "differs, left alone since" } else { "behind since" };
            let behind = format!("{stands} {}", table::ago(since, now));
            behind + &left.unwrap_or_default() + &error.unwrap_or_default()
        }
    };
    format!("{name}: {}: {stands}\n", vault.url)
}

fn row(status: &Status, now: Moment) -> Vec<String> {
    let protected = status.protected.as_ref();
    vec![
        status.name.clone(),
        state(status.phase, status.progress.as_ref()),
        protected.map_or("-".into(), |point| format!("{} ({})", point.position, table::ago(point.moment, now))),
        table::bytes(status.lag_bytes),
        table::span(status.lag_ms),
        status.vault_seen_at.map_or("-".into(), |at| table::ago(at, now)),
        status.content_read_at.map_or("never".into(), |at| table::ago(at, now)),
        status.source.clone(),
    ]
}

/// The phase, and how far the copy or backup is that is being made: "base (45 %)", "protecting (dump, 3.0 MiB)".
pub(crate) fn state(phase: Phase, progress: Option<&Underway>) -> String {
    let phase = phase.name();
    let Some(underway) = progress else { return phase.to_owned() };
    let far = match underway.total_bytes {
        Some(total) if total > 0 => {
            format!("{} %", u128::from(underway.done_bytes.min(total)) * 100 / u128::from(total))
        }
        _ => table::bytes(underway.done_bytes),
    };
    if underway.stage == phase { format!("{phase} ({far})") } else { format!("{phase} ({}, {far})", underway.stage) }
}

#[cfg(test)]
mod tests {
    use seawall_core::Point;

    use super::*;

    fn status() -> Status {
        Status {
            name: "app".into(),
            engine: "sqlite".into(),
            source: "/data/app.db".into(),
            vault: "file:///v".into(),
            vaults: Vec::new(),
            limits: Vec::new(),
            phase: Phase::Failing,
            protected: Some(Point { position: "00000000000000af".into(), moment: Moment::from_millis(1_000) }),
            lag_bytes: 2048,
            lag_ms: 1_500,
            source_bytes: Some(8192),
            log_bytes: Some(4152),
            content_read_at: None,
            vault_seen_at: Some(Moment::from_millis(2_000)),
            proof: None,
            hole: None,
            credentials_end: None,
            alarms: Vec::new(),
            silenced_until: None,
            progress: None,
            error: Some(LastError {
                code: "vault.unavailable".into(),
                message: "file:///v: away".into(),
                next: "try again".into(),
                at: Moment::from_millis(59_000),
                count: 3,
            }),
            upkeep: None,
            at: Moment::from_millis(60_000),
        }
    }

    #[test]
    fn a_copy_that_is_being_made_tells_how_far_it_is() {
        let underway =
            |stage: &str, done_bytes, total_bytes| Some(Underway { stage: stage.into(), done_bytes, total_bytes });
        for (phase, progress, shown) in [
            (Phase::Protecting, None, "protecting"),
            (Phase::Base, underway("base", 45, Some(100)), "base (45 %)"),
            (Phase::Base, underway("base", 101, Some(100)), "base (100 %)"),
            (Phase::Base, underway("base", 0, Some(0)), "base (0 B)"),
            (Phase::Protecting, underway("dump", 2048, None), "protecting (dump, 2.0 KiB)"),
            (Phase::Protecting, underway("dump", u64::MAX / 2, Some(u64::MAX)), "protecting (dump, 49 %)"),
        ] {
            assert_eq!(state(phase, progress.as_ref()), shown);
        }
    }

    #[test]
    fn a_table_then_what_is_wrong() {
        let missing = Failure::new(Kind::NotFound, "state.none", "/x", "no record", "protect it");
        let lost = Asked { engine: "lmdb", ..Asked::at("/x".into(), Err(missing.clone())) };
        let asked = vec![Asked::at("/data/app.db".into(), Ok(status())), lost];
        let output = render(asked, Moment::from_millis(61_000));
        assert_eq!(output.exit, Exit::Partly);
        assert_eq!(
            output.text,
            "database  state    protected up to                       lag  waiting  vault seen  content read  source\n\
             app       failing  00000000000000af (1 min 0 s ago)  2.0 KiB    1.5 s  59.0 s ago  never         /data/app.db\n\
             \n\
             app: error[vault.unavailable]: file:///v: away (3 times, 2.0 s ago)\nnext: try again\n"
        );
        assert_eq!(output.failures, [missing]);
        assert_eq!(output.json[0]["phase"], "failing");
        assert_eq!((&output.json[1]["engine"], &output.json[1]["phase"]), (&"lmdb".into(), &"stopped".into()));
        assert_eq!(output.json[1]["error"]["code"], "state.none");
    }

    #[test]
    fn the_newest_proof_is_shown() {
        let proof = serde_json::json!({
            "database": "app", "engine": "sqlite", "at": "1970-01-01T00:00:00Z",
            "point": { "position": "01", "moment": "1970-01-01T00:00:00Z" }, "level": "content", "restore_ms": 41_000,
            "duration_ms": 60_000, "objects": 1, "read_bytes": 1, "restored_bytes": 8192, "faults": [], "host": "db1",
        });
        let proof = serde_json::from_value(proof).expect("a proof");
        let proved = Status { proof: Some(proof), error: None, ..status() };
        let output = render(vec![Asked::at("/x".into(), Ok(proved))], Moment::from_millis(61_000));
        assert!(
            output.text.contains("\napp: restored 8.0 KiB in 41.0 s on 1970-01-01 (level content, "),
            "{}",
            output.text
        );
        assert_eq!(output.json[0]["proof"]["restore_ms"], 41_000);
    }

    #[test]
    fn a_folder_with_nothing_but_the_note_of_a_restore_is_no_database() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, holds) in
            [(".a-seawall", &["restored.json"][..]), (".b-seawall", &["restored.json", "lock"]), (".c-seawall", &[])]
        {
            let state = folder.path().join(name);
            std::fs::create_dir(&state).expect("made");
            holds.iter().for_each(|name| std::fs::write(state.join(name), "").expect("written"));
        }
        let mut found = Vec::new();
        find(folder.path(), 1, &mut found);
        found.sort();
        assert_eq!(found, [".b-seawall", ".c-seawall"].map(|name| folder.path().join(name)));
    }

    #[test]
    fn proofs_that_are_not_known_are_told_and_count() {
        let away = Failure::new(Kind::Unavailable, "vault.timeout", "s3://b", "no answer within 10 s", "see to it");
        let known = || Asked::at("/x".into(), Ok(Status { error: None, ..status() }));
        let now = Moment::from_millis(61_000);
        for (unread, expected) in [(None, Exit::Done), (Some(away), Exit::Partly)] {
            let is_told = unread.is_some();
            let mut asked = known();
            if let Some(failure) = unread {
                asked.status = asked.status.map(|status| with_unread_proofs(status, &failure, &Limits::default(), now));
            }
            let asked = vec![asked];
            assert_eq!(check(&asked), expected);
            let output = render(asked, now);
            let told = "alarm.proof-unknown]: its proofs can't be read: no answer within 10 s (vault.timeout)";
            assert_eq!(output.text.contains(told), is_told, "{}", output.text);
            assert_eq!(output.json.to_string().contains("alarm.proof-unknown"), is_told, "{}", output.json);
        }
    }

    #[test]
    fn what_a_vault_of_several_does_not_tell_is_a_doubt() {
        let failure = || Failure::new(Kind::Unavailable, "vault.timeout", "s3://b", "no answer", "n");
        let odd = || Ok(Recorded { doubts: vec!["a record is odd".into()], ..Recorded::default() });
        let told = together(vec![("s3://b".into(), Err(failure())), ("/v".into(), odd())]).expect("one tells");
        assert_eq!(
            told.doubts,
            ["a record is odd", "s3://b: its records of proofs can't be read: no answer [vault.timeout]"]
        );
        assert_eq!(together(vec![("s3://b".into(), Err(failure()))]).map(drop), Err(failure()));
        let known = Asked::at("/x".into(), Ok(Status { error: None, ..status() }));
        let asked = vec![Asked { doubts: told.doubts, ..known }];
        assert_eq!(check(&asked), Exit::Partly);
        let output = render(asked, Moment::from_millis(61_000));
        assert!(output.text.contains("\napp: can't be told: a record is odd\n"), "{}", output.text);
        assert_eq!(output.json[0]["proof_doubts"][0], "a record is odd", "{}", output.json);
    }

    #[tokio::test]
    async fn many_vaults_of_a_place_that_is_away_take_no_longer_than_one() {
        let url = |name: &str| VaultUrl::parse(name).expect("a place");
        let vaults: Vec<VaultUrl> = (0..400)
            .map(|number| url(&format!("s3://{}/{number}", if number % 2 == 0 { "away" } else { "here" })))
            .collect();
        let asked = std::cell::Cell::new(0);
        let ask = async |vault: &VaultUrl| {
            if vault.to_string().contains("away") {
                asked.set(asked.get() + 1);
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        let within = (Duration::from_millis(50), Duration::from_secs(600));
        let told = in_time(&vaults, within, VaultUrl::clone, ask).await;
        assert_eq!((told.iter().filter(|told| told.is_ok()).count(), asked.get()), (200, 2));
        assert!(told.iter().flat_map(|told| told.as_ref().err()).all(|failure| failure.code == "vault.timeout"));

        // As many places: the time for all of them is bounded, too.
        let vaults: Vec<VaultUrl> = (0..400).map(|number| url(&format!("s3://away{number}/x"))).collect();
        let (began, within) = (Instant::now(), (Duration::from_millis(50), Duration::from_millis(120)));
        let told = in_time(&vaults, within, VaultUrl::clone, ask).await;
        assert!(told.len() == 400 && told.iter().all(Result::is_err));
        assert!(
            asked.get() < 60 && began.elapsed() < Duration::from_secs(20),
            "{} in {:?}",
            asked.get(),
            began.elapsed()
        );
    }

    #[test]
    fn what_vaults_lack_is_told_once() {
        let limit = |lacks: &str| Limit { lacks: lacks.into(), effect: "nothing".into() };
        let one = |name: &str, limits: &[&str]| {
            let limits = limits.iter().map(|lacks| limit(lacks)).collect();
            Asked::at("/x".into(), Ok(Status { name: name.into(), limits, error: None, ..status() }))
        };
        for (asked, expected) in [
            (vec![one("a", &[])], ""),
            (vec![one("a", &["stamps"])], "\na: the vault has no stamps: nothing\n"),
            (
                vec![one("a", &["create-only", "stamps"]), one("b", &["stamps"]), one("c", &[])],
                "\na: the vault has no create-only: nothing\na, b: the vault has no stamps: nothing\n",
            ),
            (vec![one("a", &["stamps"]), one("b", &["stamps"])], "\nall databases: the vault has no stamps: nothing\n"),
        ] {
            assert_eq!(limits(&asked), expected);
        }
        let output = render(vec![one("a", &["stamps"])], Moment::from_millis(61_000));
        assert!(output.text.ends_with("a: the vault has no stamps: nothing\n"), "{}", output.text);
        assert_eq!(output.json[0]["limits"][0]["lacks"], "stamps");
    }

    #[test]
    fn records_are_found_below_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [".app.db-seawall", "a/b/.x-seawall", "a/.git", "a/b-seawall", "1/2/3/4/5/.deep-seawall"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let mut found = Vec::new();
        find(folder.path(), DEPTH, &mut found);
        found.sort();
        assert_eq!(found, [folder.path().join(".app.db-seawall"), folder.path().join("a/b/.x-seawall")]);
    }
}
