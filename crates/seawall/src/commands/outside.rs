//! `seawall restore --to` and `seawall verify` of a file that another program left.

use std::path::Path;

use seawall_agent::ServerUrl;
use seawall_agent::outside::{self, Dump, FilePart, FileRestored, FileVerified, Key};
use seawall_archive::preflight::Lack;
use seawall_archive::server::{Filled, RestoreOptions};
use seawall_core::{Failure, When};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::backup::limits;
use super::restore_server::options;
use crate::arguments::{RestoreArguments, VerifyArguments};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, brief, to_json};
use crate::progress::progress;
use crate::{runtime, table};

/// The variable in which dbbackup looks for its key.
const VARIABLE: &str = "DBBACKUP_ENCRYPTION_KEY";

/// The backup of another program that a text names, if it names one.
pub(crate) fn look(text: &str, key_file: Option<&Path>, edge: &Edge) -> Result<Option<Dump>, Failure> {
    if text.is_empty() || text.contains("://") {
        return Ok(None);
    }
    let key = match (key_file, edge.environment.get(VARIABLE).filter(|key| !key.is_empty())) {
        (Some(file), _) => Some(Key::read(&edge.absolute(file))?),
        // A passphrase there is no reason to refuse what isn't encrypted.
        (None, Some(key)) => Key::parse(key.as_bytes(), VARIABLE).ok(),
        (None, None) => None,
    };
    Dump::look(&edge.absolute(Path::new(text)), key.as_ref(), key_file.is_some())
}

/// Restores it.
pub(crate) fn restore(
    arguments: &RestoreArguments,
    dump: &Dump,
    to: &ServerUrl,
    edge: &Edge,
    (when, json): (&When, bool),
) -> Result<Output, Failure> {
    let object = dump.object();
    if *when != When::Latest || arguments.past.as_stored_at.is_some() || arguments.scratch.is_some() {
        let cause = "it is a file, which has only the moment of its backup";
        return Err(usage("usage.arguments", &object, cause, "leave --at, --as-stored-at and --scratch out"));
    }
    let options = options(arguments, When::Latest)?;
    let progress = progress(edge, json);
    let (restored, duration) = runtime::run_with(runtime::serving(options.limits.jobs), async {
        let started = Instant::now();
        let restored = outside::restore_file(dump, to, &options, &edge.environment, progress).await?;
        Ok((restored, u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)))
    })?;
    let document = document(dump, to, &options, &restored, duration);
    let exit = match options.dry_run {
        true => Exit::judge(restored.lacks.is_empty(), true),
        false => Exit::judge(true, is_whole(&restored)),
    };
    Ok(Output { text: render(dump, to, &options, &restored, duration), failures: Vec::new(), json: document, exit })
}

/// Whether all that the backup has was restored.
fn is_whole(restored: &FileRestored) -> bool {
    let whole = |filled: &Filled| filled.refused.is_empty() && filled.warnings.is_empty();
    restored.refused.is_empty()
        && restored.missing.is_empty()
        && restored.databases.iter().all(|(_, filled)| whole(filled))
}

fn pairs(pairs: &[(String, String)], what: &str, why: &str) -> Vec<Value> {
    pairs.iter().map(|(object, cause)| json!({ what: object, why: cause })).collect()
}

fn powers(powers: &[(String, Vec<String>)]) -> Vec<Value> {
    powers.iter().map(|(role, powers)| json!({ "role": role, "powers": powers })).collect()
}

/// Roles that get power over the server, for people.
fn told_powers(powers: &[(String, Vec<String>)]) -> String {
    let line = |(role, powers): &(String, Vec<String>)| {
        format!("power over the server: the new role {role}: {}\n", powers.join(", "))
    };
    powers.iter().map(line).collect()
}

/// What the file is, for programs.
fn about(dump: &Dump) -> Value {
    json!({
        "file": dump.object(),
        "kind": dump.kind(),
        "compression": dump.compression().name(),
        "encrypted": dump.is_encrypted(),
        "checksum": dump.checksum(),
        "made": dump.sidecar.timestamp,
        "server": dump.sidecar.database_version,
    })
}

fn document(dump: &Dump, to: &ServerUrl, options: &RestoreOptions, restored: &FileRestored, duration: u64) -> Value {
    let database = |(name, filled): &(String, Filled)| {
        json!({
            "name": name,
            "rows": filled.rows,
            "notes": filled.notes,
            "refused": pairs(&filled.refused, "what", "cause"),
            "without_statistics": pairs(&filled.without_statistics, "table", "cause"),
            "warnings": filled.warnings,
            "doubts": filled.doubts,
            "passed_over": filled.passed_over,
        })
    };
    json!({
        "backup": about(dump),
        "target": to.to_string(),
        "databases": restored.databases.iter().map(database).collect::<Vec<_>>(),
        "roles": restored.roles,
        "powers": powers(&restored.powers),
        "missing": restored.missing,
        "kept": pairs(&restored.kept, "what", "how"),
        "refused": pairs(&restored.refused, "what", "cause"),
        "without": restored.without,
        "ignored": restored.ignored,
        "dry_run": options.dry_run,
        "lacks": to_json(&restored.lacks),
        "duration_ms": duration,
    })
}

fn render(dump: &Dump, to: &ServerUrl, options: &RestoreOptions, restored: &FileRestored, duration: u64) -> String {
    let (object, mut text) = (dump.object(), String::new());
    match options.dry_run {
        true => text.push_str(&format!("{to}: would be restored from {object}; nothing was written\n")),
        false => text.push_str(&format!("{to}: restored from {object} in {}\n", table::span(duration))),
    }
    for (name, filled) in &restored.databases {
        match options.dry_run {
            true => text.push_str(&format!("{name}\n")),
            false => {
                let rows = usize::try_from(filled.rows).unwrap_or(usize::MAX);
                text.push_str(&format!("{name}: {}\n", table::count(rows, "row")));
            }
        }
        for note in &filled.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        for (what, cause) in &filled.refused {
            text.push_str(&format!("refused by the server: {what}: {cause}\n"));
        }
        for warning in &filled.warnings {
            text.push_str(&format!("changed by the server: {warning}\n"));
        }
        for (table, cause) in &filled.without_statistics {
            text.push_str(&format!("no statistics of {table}: {cause}\nnext: mend that, then ANALYZE {table}\n"));
        }
        for doubt in &filled.doubts {
            text.push_str(&format!("in doubt: {doubt}\n"));
        }
        for statement in &filled.passed_over {
            text.push_str(&format!("passed over, because it is about the database as a whole: {statement}\n"));
        }
    }
    for name in &restored.missing {
        text.push_str(&format!("missing in the backup: the database {name}, which its metadata lists\n"));
    }
    if !restored.roles.is_empty() {
        text.push_str(&format!("{}: {}\n", table::count(restored.roles.len(), "new role"), restored.roles.join(", ")));
    }
    text.push_str(&told_powers(&restored.powers));
    for (what, how) in &restored.kept {
        text.push_str(&format!("kept as it is: {what}: {how}\n"));
    }
    for (what, cause) in &restored.refused {
        text.push_str(&format!("refused by the server: {what}: {cause}\n"));
    }
    for Lack { cause, mend } in &restored.lacks {
        text.push_str(&format!("missing: {}\nnext: {mend}\n", brief(cause)));
    }
    text + &without(&restored.without, &restored.ignored)
}

fn without(without: &[String], ignored: &[String]) -> String {
    let mut text: String = without.iter().map(|what| format!("note: {what}\n")).collect();
    if !ignored.is_empty() {
        text.push_str(&format!("not read: {}\n", ignored.join(", ")));
    }
    text
}

/// Reads it to its end.
pub(crate) fn verify(arguments: &VerifyArguments, dump: &Dump, edge: &Edge, json: bool) -> Result<Output, Failure> {
    if arguments.past.as_stored_at.is_some() {
        let cause = "it is a file, which has only the moment of its backup";
        return Err(usage("usage.arguments", &dump.object(), cause, "leave --as-stored-at out"));
    }
    if arguments.restore || arguments.strong {
        let cause = "it is a backup of another program, which is read without them";
        let next = "leave --restore and --strong out; `seawall restore FILE --to URL` proves that it can be restored";
        return Err(usage("usage.arguments", &dump.object(), cause, next));
    }
    let (limits, progress) = (limits(&arguments.server)?, progress(edge, json));
    let verified = runtime::run_with(runtime::serving(limits.jobs), async {
        outside::verify_file(dump, &limits, &edge.environment, progress).await
    })?;
    let FileVerified { parts, without: lacks, ignored, missing, powers: roles } = &verified;
    let part = |part: &FilePart| {
        json!({
            "database": part.database,
            "form": part.form,
            "server": part.server,
            "statements": part.statements,
            "rows": part.rows,
        })
    };
    let document = json!({
        "backup": about(dump),
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
        "without": lacks,
        "ignored": ignored,
        "missing": missing,
        "powers": powers(roles),
    });
    let row = |part: &FilePart| {
        let name = part.database.clone().unwrap_or_else(|| "-".to_owned());
        let rows = part.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string());
        vec![name, part.form.to_owned(), part.server.to_owned(), part.statements.to_string(), rows]
    };
    let heading = ["database", "form", "server", "statements", "rows"];
    let rows = table::table(&heading, parts.iter().map(row).collect(), &[3, 4]);
    let sum = match dump.checksum() {
        Some("sha256") => "its checksum is right".to_owned(),
        Some(_) => {
            let bytes = dump.checked_bytes().unwrap_or_default();
            format!("the first {bytes} of its {} bytes have the checksum", dump.size)
        }
        None => "no checksum is beside it".to_owned(),
    };
    let is_encrypted = if dump.is_encrypted() { ", encrypted" } else { "" };
    let (object, kind, compression) = (dump.object(), dump.kind(), dump.compression().name());
    let (found, exit) = match missing.is_empty() {
        true => ("nothing wrong", Exit::Done),
        false => ("not all of it is there or understood", Exit::Partly),
    };
    let missed: String = missing.iter().map(|what| format!("missing or not understood: {what}\n")).collect();
    let text = format!(
        "{rows}\n{object}: {kind}, compression {compression}{is_encrypted}: read to its end, {found}, {sum}; its statements weren't run\n{missed}{}{}",
        told_powers(roles),
        without(lacks, ignored)
    );
    Ok(Output { exit, ..Output::done(text, &document) })
}
