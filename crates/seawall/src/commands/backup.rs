//! `seawall backup`: make a complete copy of a server's database now.

use std::path::Path;

use seawall_agent::config::EngineConfig;
use seawall_agent::{BackupRequest, this_machine};
use seawall_archive::server::{AsText, Dumped, Limits};
use seawall_archive::{Manifest, Stages};
use seawall_core::Failure;
use serde_json::json;

use crate::arguments::{BackupArguments, ServerArguments};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::{configuration, runtime, server, table};

/// Runs the command.
pub(crate) fn run(arguments: &BackupArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    match &arguments.vault {
        Some(vault) if arguments.physical => super::backup_cluster::run(arguments, vault, edge, json),
        Some(vault) => of_url(arguments, vault, edge, json),
        None => by_name(arguments, edge, json),
    }
}

/// A source and a place, as the command line says.
fn of_url(arguments: &BackupArguments, vault: &str, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let source = server::url(&arguments.source, edge)?;
    let limits = limits(&arguments.server)?;
    let request = BackupRequest {
        limits: limits.clone(),
        format: arguments.format.clone(),
        sample: arguments.sample.clone(),
        copy: arguments.copy.clone(),
        compression: compression(arguments.compression.as_deref(), &limits),
        excluded: arguments.exclude_database.clone(),
        role_passwords: arguments.role_passwords,
    };
    let source = source.backed_up(request, &edge.environment)?;
    let limit = arguments.upload_limit.as_deref().map(|text| server::size("--upload-limit", text)).transpose()?;
    let vault = server::place(vault, edge)?;
    let encryption = arguments.encryption.read(edge)?;
    let progress = progress(edge, json);
    let (place, dumped) = runtime::run_with(runtime::serving(limits.jobs), async {
        let vault = server::open(&vault, edge, limit, encryption.as_ref()).await?;
        let dumped = source.back_up(&vault, 0, progress).await?;
        Ok((vault.url().to_owned(), dumped))
    })?;
    Ok(tell(output(&source.url(), &place, &dumped), &limits))
}

/// A server's database of the configuration, as that says.
fn by_name(arguments: &BackupArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let ServerArguments { profile, jobs, memory, pg_bindir } = &arguments.server;
    let how = [
        ("--profile", profile.is_some()),
        ("--jobs", jobs.is_some()),
        ("--memory", memory.is_some()),
        ("--pg-bindir", pg_bindir.is_some()),
        ("--format", arguments.format.is_some()),
        ("--sample", arguments.sample.is_some()),
        ("--copy", arguments.copy.is_some()),
        ("--compression", arguments.compression.is_some()),
        ("--upload-limit", arguments.upload_limit.is_some()),
        ("--role-passwords", arguments.role_passwords),
        ("--recipient", !arguments.encryption.recipient.is_empty()),
        ("--exclude-database", !arguments.exclude_database.is_empty()),
    ];
    let name = &arguments.source;
    if let Some((flag, _)) = how.iter().find(|(_, is_given)| *is_given) {
        let cause = format!("{flag} is given, and no vault: the configuration says how {name} is backed up");
        return Err(usage("usage.arguments", name, &cause, "name a vault, or say it in the configuration"));
    }
    let config = configuration::require(&arguments.config, edge)?;
    let database = config.find(name, &edge.directory);
    let Some((database, limits)) = database.as_ref().and_then(|found| Some((found, found.server_limits()?))) else {
        return Err(no_server(name, &config.file));
    };
    let progress = progress(edge, json);
    let mut opener = edge.opener(runtime::working())?;
    if let Some(limit) = config.upload_limit {
        opener.limit_uploads(limit);
    }
    if matches!(database.engine, EngineConfig::Cluster(_)) {
        return super::backup_cluster::by_name(database, &opener, limits, progress);
    }
    let dumped = runtime::run_with(runtime::serving(limits.jobs), async {
        let server = opener.server(database).await?.ok_or_else(|| no_server(name, &config.file))?;
        server.backup(progress).await
    })?;
    Ok(tell(output(&database.source().to_string(), &database.vault.to_string(), &dumped), limits))
}

/// The configuration has no database of a server with this name.
fn no_server(name: &str, config: &Path) -> Failure {
    let cause = format!("no server's database of {} is called so", config.display());
    let next = "name one that has a url, or name SOURCE and VAULT; files are protected by `seawall replicate`";
    usage("usage.server", name, &cause, next)
}

fn output(source: &str, place: &str, dumped: &Dumped) -> Output {
    let mut document = to_json(&dumped.manifest);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(place));
        fields.insert("databases".into(), json!(dumped.databases));
        let invalid = dumped.invalid.iter().map(|(database, index)| json!({ "database": database, "index": index }));
        fields.insert("invalid_indexes".into(), invalid.collect());
        let journals =
            dumped.journals.iter().map(|(database, schema)| json!({ "database": database, "schema": schema }));
        fields.insert("journals".into(), journals.collect());
        fields.insert("as_text".into(), to_json(&dumped.as_text));
        fields.insert("left_out".into(), json!(dumped.left_out));
        fields.insert("duration_ms".into(), json!(dumped.duration_ms));
        fields.insert("stages".into(), to_json(&dumped.stages));
    }
    let mut output = Output::done(render(source, place, dumped), &document);
    output.exit =
        Exit::judge(true, dumped.invalid.is_empty() && dumped.left_out.is_empty() && dumped.journals.is_empty());
    output
}

/// How much of the machine a run may use.
pub(crate) fn limits(arguments: &ServerArguments) -> Result<Limits, Failure> {
    let mut limits = Limits { jobs: runtime::cores(), bindir: arguments.pg_bindir.clone(), ..Limits::default() };
    if let Some(profile) = arguments.profile {
        limits.choose(profile, this_machine());
    }
    let memory = arguments.memory.as_deref().map(|text| server::size("--memory", text)).transpose()?;
    limits.jobs = arguments.jobs.map_or(limits.jobs, usize::from);
    limits.memory = memory.unwrap_or(limits.memory);
    Ok(limits)
}

/// The compression that a backup is asked for: what the command line says, or the profile.
pub(crate) fn compression(said: Option<&str>, limits: &Limits) -> Option<String> {
    said.map(str::to_owned).or_else(|| Some(limits.profile?.codec().to_string()))
}

/// Says what a run could use. People are told if they chose a profile, and programs always.
pub(crate) fn tell(mut output: Output, limits: &Limits) -> Output {
    let Limits { jobs, memory, profile, .. } = limits;
    if let Some(profile) = profile {
        let connections = table::count(*jobs, "connection");
        output.text.push_str(&format!("profile {profile}: {connections}, {} for buffers\n", table::bytes(*memory)));
    }
    if let Some(fields) = output.json.as_object_mut() {
        let limits = json!({ "profile": profile.map(|profile| profile.name()), "jobs": jobs, "memory": memory });
        fields.insert("limits".into(), limits);
    }
    output
}

fn render(source: &str, place: &str, dumped: &Dumped) -> String {
    let Dumped { manifest, whole, databases, left_out, as_text, invalid, journals, stages, duration_ms } = dumped;
    let totals = manifest.totals;
    let left = |name: &String| {
        format!(
            "left out: {name}: a restore or a proof that isn't done is in it, or an interrupted DROP DATABASE has left it invalid\nnext: repeat that, or drop the database\n"
        )
    };
    let left_out: String = left_out.iter().map(left).collect();
    let journal = |(database, schema): &(String, String)| {
        format!(
            "left out: the schema {schema} of {database}: it is the journal of a restore that isn't done\n\
             next: repeat that restore; or, if no database replaced-by-seawall-… is there, give it up: DROP SCHEMA {schema} CASCADE\n"
        )
    };
    let journals: String = journals.iter().map(journal).collect();
    let databases = match whole {
        true => format!("{}: {}\n", table::count(databases.len(), "database"), databases.join(", ")),
        false => String::new(),
    };
    let rate = totals.raw.saturating_mul(1000) / (*duration_ms).max(1);
    let invalid = invalid.iter().map(|(database, index)| {
        format!("left out: the index {index} of {database}: it is invalid\nnext: REINDEX INDEX {index}, or DROP INDEX {index}\n")
    });
    let invalid: String = invalid.collect();
    format!(
        "{source}: the state of {} is in {place} as {}\n{databases}{}, {} as {} in {}, {}/s{}\n{left_out}{journals}{invalid}{}{}",
        manifest.point,
        manifest.id,
        content(manifest),
        table::bytes(totals.raw),
        table::bytes(totals.stored),
        table::span(*duration_ms),
        table::bytes(rate),
        waited(stages),
        kept_as_text(as_text),
        notes(manifest)
    )
}

/// The most tables that are named.
const NAMED: usize = 10;

/// Tables that were read as text where binary was asked for.
fn kept_as_text(tables: &[AsText]) -> String {
    let line = |AsText { table, column, r#type: kind, .. }: &AsText| {
        format!("as text, not binary: {table} ({column} is {kind})\n")
    };
    let mut lines: String = tables.iter().take(NAMED).map(line).collect();
    if tables.len() > NAMED {
        lines.push_str(&format!("as text, not binary: {} more; --json names all\n", tables.len() - NAMED));
    }
    lines
}

/// What a set says of its own limits: what isn't in it, and which rows may be of a later moment. PostgreSQL's sets have none.
pub(crate) fn notes(manifest: &Manifest) -> String {
    let taken = &manifest.detail["taken"];
    let list = |field: &str| taken[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let late = list("not_consistent").iter().filter_map(|table| {
        let (database, name) = (table["database"].as_str()?, table["name"].as_str()?);
        Some(format!("{database}.{name}: its rows may be of a later moment, because they couldn't be locked"))
    });
    let notes: Vec<String> =
        list("notes").iter().filter_map(|note| Some(note.as_str()?.to_owned())).chain(late).collect();
    // A set may come from anyone: a note is one line.
    let line = |note: &String| format!("note: {}\n", note.replace('\n', "\\n"));
    let mut lines: String = notes.iter().take(NAMED).map(line).collect();
    if notes.len() > NAMED {
        lines.push_str(&format!("note: {} more; --json names all\n", notes.len() - NAMED));
    }
    lines
}

/// The content of a set: rows, the rows of a sample, or a file of `pg_dump`, whose rows aren't counted.
pub(crate) fn content(manifest: &Manifest) -> String {
    match (&manifest.artefact, manifest.sample) {
        (Some(format), _) if manifest.engine == "mysql" => format!("a {format} script of SQL"),
        (Some(format), _) => format!("pg_dump's {format}"),
        (None, Some(sample)) => format!("a sample of {sample}: {} rows", manifest.totals.rows),
        (None, None) => format!("{} rows", manifest.totals.rows),
    }
}

/// What held the work up most.
pub(crate) fn waited(stages: &Stages) -> String {
    let Some((stage, percent)) = stages.bottleneck() else { return String::new() };
    format!(
        "; waited for: {stage} {percent} %{}",
        match stages.connections {
            0 => String::new(),
            some => format!(", {} at the end", table::count(some, "connection")),
        }
    )
}
