//! `seawall backup`: make a complete copy of a server's database now.

use seawall_archive::{Codec, Stages};
use seawall_core::Failure;
use seawall_postgres::{DumpOptions, Dumped, Limits, Target, World};
use serde_json::json;

use crate::arguments::{BackupArguments, ServerArguments};
use crate::edge::{Edge, usage};
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::{runtime, server, table};

/// Runs the command.
pub(crate) fn run(arguments: &BackupArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let target = server::target(&arguments.source, edge)?;
    let options = DumpOptions {
        limits: limits(&arguments.server)?,
        codec: codec(&arguments.compression)?,
        excluded: arguments.exclude_database.clone(),
        role_passwords: arguments.role_passwords,
    };
    if !target.database.is_empty() && (options.role_passwords || !options.excluded.is_empty()) {
        let cause = "--role-passwords and --exclude-database are of a whole server's backup, and a database is named";
        return Err(usage(
            "usage.arguments",
            &target.to_string(),
            cause,
            "end the URL behind the slash, or leave them out",
        ));
    }
    let limit = arguments.upload_limit.as_deref().map(|text| server::size("--upload-limit", text)).transpose()?;
    let vault = server::place(&arguments.vault, edge)?;
    let progress = progress(edge, json);
    let world = World::real(edge.environment.clone());
    let (place, dumped) = runtime::run_with(runtime::serving(options.limits.jobs), async {
        let vault = server::open(&vault, edge, limit).await?;
        let dumped = seawall_postgres::dump(&target, &vault, &options, &world, progress).await?;
        Ok((vault.url().to_owned(), dumped))
    })?;
    let mut document = to_json(&dumped.manifest);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(place));
        fields.insert("databases".into(), json!(dumped.databases));
        fields.insert("duration_ms".into(), json!(dumped.duration_ms));
        fields.insert("stages".into(), to_json(&dumped.stages));
    }
    Ok(Output::done(render(&target, &place, &dumped), &document))
}

/// How much of the machine a run may use.
pub(crate) fn limits(arguments: &ServerArguments) -> Result<Limits, Failure> {
    let defaults = Limits::default();
    let memory = arguments.memory.as_deref().map(|text| server::size("--memory", text)).transpose()?;
    Ok(Limits {
        jobs: arguments.jobs.map_or_else(runtime::cores, usize::from),
        memory: memory.unwrap_or(defaults.memory),
        bindir: arguments.pg_bindir.clone(),
    })
}

fn codec(text: &str) -> Result<Codec, Failure> {
    text.parse().map_err(|cause: String| usage("usage.arguments", "--compression", &cause, "correct it"))
}

fn render(target: &Target, place: &str, dumped: &Dumped) -> String {
    let Dumped { manifest, databases, stages, duration_ms } = dumped;
    let totals = manifest.totals;
    let databases = match target.database.is_empty() {
        true => format!("{}: {}\n", table::count(databases.len(), "database"), databases.join(", ")),
        false => String::new(),
    };
    let rate = totals.raw.saturating_mul(1000) / (*duration_ms).max(1);
    format!(
        "{target}: the state of {} is in {place} as {}\n{databases}{} rows, {} as {} in {}, {}/s{}\n",
        manifest.point,
        manifest.id,
        totals.rows,
        table::bytes(totals.raw),
        table::bytes(totals.stored),
        table::span(*duration_ms),
        table::bytes(rate),
        waited(stages)
    )
}

/// What held the work up most.
pub(crate) fn waited(stages: &Stages) -> String {
    stages.bottleneck().map_or_else(String::new, |(stage, percent)| format!("; waited for: {stage} {percent} %"))
}
