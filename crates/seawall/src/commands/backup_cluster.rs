//! `seawall backup --physical`: the files of a PostgreSQL cluster, as the base of its log.

use std::sync::Arc;

use seawall_agent::base::{self, Damaged, Made};
use seawall_agent::config::DatabaseConfig;
use seawall_agent::{Opener, recover};
use seawall_archive::World;
use seawall_archive::log::TimelineId;
use seawall_archive::server::Limits;
use seawall_core::{Failure, Progress};
use serde_json::{Value, json};

use super::backup::{limits, tell};
use crate::arguments::BackupArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::{runtime, server, table};

/// Runs the command.
pub(super) fn run(arguments: &BackupArguments, vault: &str, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let target = server::url(&arguments.source, edge)?.cluster()?;
    let limits = limits(&arguments.server)?;
    let limit = arguments.upload_limit.as_deref().map(|text| server::size("--upload-limit", text)).transpose()?;
    let vault = server::place(vault, edge)?;
    let followed = arguments.timeline.and_then(|number| TimelineId::new(number.get()));
    let options = base::Options { followed, full: arguments.full };
    let encryption = arguments.encryption.read(edge)?;
    let progress = progress(edge, json);
    let world = World::real(edge.environment.clone());
    let (place, made, log) = runtime::run_with(runtime::serving(limits.jobs), async {
        let vault = server::open(&vault, edge, limit, encryption.as_ref()).await?;
        let made = base::back_up_with(options, &target, &vault, &limits, &world, progress).await?;
        let log = recover::lacks_log(&vault, &made.manifest).await?;
        Ok((vault.url().to_owned(), made, log))
    })?;
    Ok(tell(output(&target.to_string(), &place, &made, log), &limits))
}

/// Makes a base of a cluster of the configuration, as that says.
pub(super) fn by_name(
    database: &DatabaseConfig,
    opener: &Opener,
    limits: &Limits,
    progress: Arc<dyn Progress>,
) -> Result<Output, Failure> {
    let (made, log) = runtime::run_with(runtime::serving(limits.jobs), async {
        let cluster = opener.cluster(database).await?;
        let cluster = cluster.ok_or_else(|| usage("usage.server", &database.name, "it is no cluster", "correct it"))?;
        let made = cluster.base(progress).await?;
        let log = recover::lacks_log(cluster.vault(), &made.manifest).await?;
        Ok((made, log))
    })?;
    Ok(tell(output(&database.source().to_string(), &database.vault.to_string(), &made, log), limits))
}

fn output(source: &str, place: &str, made: &Made, lacks_log: bool) -> Output {
    let mut output = Output::done(render(source, place, made, lacks_log), &document(place, made, lacks_log));
    output.exit = Exit::judge(true, made.manifest.damaged.is_empty());
    output
}

/// What a program is told: the manifest without its lists of objects.
fn document(place: &str, made: &Made, lacks_log: bool) -> Value {
    let Made { manifest, before, duration_ms } = made;
    let mut document = to_json(manifest);
    if let Some(fields) = document.as_object_mut() {
        for list in ["packs", "index", "uses", "label", "tablespace_map"] {
            fields.remove(list);
        }
        fields.insert("vault".into(), json!(place));
        fields.insert("before".into(), json!(before.map(|id| id.to_string())));
        fields.insert("needs_bytes".into(), json!(manifest.needs()));
        fields.insert("log_is_there".into(), json!(!lacks_log));
        fields.insert("duration_ms".into(), json!(duration_ms));
    }
    document
}

fn render(source: &str, place: &str, made: &Made, lacks_log: bool) -> String {
    let Made { manifest, before, duration_ms } = made;
    let totals = manifest.totals;
    let rate = totals.bytes.saturating_mul(1000) / (*duration_ms).max(1);
    let sent = match before {
        Some(before) => {
            format!("{} changed since {before}: {} sent", table::bytes(totals.sent), table::bytes(totals.stored))
        }
        None => format!("{} sent", table::bytes(totals.stored)),
    };
    let damaged: String = manifest.damaged.iter().map(damage).collect();
    let notes: String = manifest.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let unchecked = match manifest.checksums {
        true => "",
        false => "note: the cluster's pages have no checksums, so damage in them isn't seen\n",
    };
    let log = match lacks_log {
        true => format!(
            "note: the log that this base needs, up to {}, isn't in the vault yet; without it the base restores nothing\n",
            manifest.stop
        ),
        false => String::new(),
    };
    format!(
        "{source}: the files of the cluster {} are in {place} as {}\n{}, {}; {sent} in {}, {}/s\n\
         timeline {}, log from {} to {}\n{damaged}{notes}{unchecked}{log}",
        manifest.system,
        manifest.id,
        table::count(usize::try_from(totals.files).unwrap_or(usize::MAX), "file"),
        table::bytes(totals.bytes),
        table::span(*duration_ms),
        table::bytes(rate),
        manifest.timeline,
        manifest.start,
        manifest.stop,
    )
}

fn damage(damaged: &Damaged) -> String {
    let pages: Vec<String> = damaged.pages.iter().take(10).map(u32::to_string).collect();
    let more = damaged.count - pages.len() as u64;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "damaged: {}: pages {}{more} have wrong checksums\nnext: check the disk, find the relation with pg_filenode_relation, and \
         restore it from an earlier base\n",
        damaged.path,
        pages.join(", ")
    )
}
