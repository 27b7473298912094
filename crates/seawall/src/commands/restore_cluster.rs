//! `seawall restore` of a PostgreSQL cluster's files and log.

use std::path::{Path, PathBuf};

use seawall_agent::recover::{self, Delivery, Handover, RecoverOptions, Recovered, Target};
use seawall_archive::{SetId, World};
use seawall_core::{Failure, Kind, When};
use seawall_vault::Vault;
use serde_json::{Value, json};

use super::backup::{limits, tell};
use crate::arguments::{Integrity, RestoreArguments};
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::progress::progress;
use crate::source::Source;
use crate::{configuration, table};

/// Whether the command line asks for a cluster's files.
pub(super) fn is_asked(arguments: &RestoreArguments) -> bool {
    let is_named = arguments.target.is_some() || arguments.timeline.is_some();
    arguments.physical || arguments.start || arguments.delta || is_named || !arguments.tablespace.is_empty()
}

/// Restores the cluster that a vault holds. `told`: which of several vaults that is.
pub(super) async fn restore(
    arguments: &RestoreArguments,
    source: &Source,
    (vault, told): (&Vault, String),
    when: &When,
    edge: &Edge,
    json: bool,
) -> Result<Output, Failure> {
    let Some(output) = &arguments.output else {
        let next = "name the data directory to make with -o DIR";
        return Err(usage("usage.no-output", vault.url(), "no folder to restore into is named", next));
    };
    let of_files = [
        ("--if-missing", arguments.if_missing),
        ("--force", arguments.force),
        ("--as-new", arguments.as_new),
        ("--as-stored-at", arguments.past.as_stored_at.is_some()),
        ("--integrity", arguments.integrity != Integrity::None),
    ];
    if let Some((flag, _)) = of_files.iter().find(|(_, is_given)| *is_given) {
        let cause = format!("{flag} is of other databases, and this vault holds the files and the log of a cluster");
        return Err(usage("usage.arguments", flag, &cause, "leave it out"));
    }
    let (target, from) = target(arguments.target.as_deref(), when)?;
    let options = RecoverOptions {
        target,
        from,
        timeline: arguments.timeline.map(std::num::NonZeroU32::get),
        output: edge.absolute(output),
        tablespaces: arguments.tablespace.iter().map(|text| mapping(text)).collect::<Result<_, _>>()?,
        limits: limits(&arguments.server)?,
        delta: arguments.delta,
        dry_run: arguments.dry_run,
        start: arguments.start,
        delivery: Delivery::Fetched(handover(arguments, source, edge)?),
    };
    let world = World::real(edge.environment.clone());
    let recovered = recover::recover(vault, &options, &world, progress(edge, json)).await?;
    let output = Output::done(told + &render(&options, &recovered), &document(vault, &options, &recovered));
    Ok(tell(output, &options.limits))
}

/// What `--target` and `--at` ask for together.
fn target(target: Option<&str>, when: &When) -> Result<(Target, Option<SetId>), Failure> {
    let next = "give the name of a base as `seawall timeline` shows it, a moment, or --target lsn:…, xid:… or name:…";
    let base = |text: &str| text.parse::<SetId>().map_err(|()| usage("usage.when", "--at", "this is no base", next));
    let Some(text) = target else {
        return Ok(match when {
            When::Latest => (Target::Latest, None),
            When::Moment(moment) => (Target::Moment(*moment), None),
            When::Position(position) => (Target::Base(base(position)?), None),
        });
    };
    let target = Target::parse(text).map_err(|cause| usage("usage.arguments", "--target", &cause, "correct it"))?;
    match when {
        When::Latest => Ok((target, None)),
        When::Position(position) => Ok((target, Some(base(position)?))),
        When::Moment(_) => {
            let cause = "it says what to reach, and so does --at";
            Err(usage("usage.arguments", "--target", cause, "leave one of them out"))
        }
    }
}

/// Old and new place of a tablespace.
fn mapping(text: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let places = text.split_once('=').filter(|(old, new)| !old.is_empty() && !new.is_empty());
    let wrong =
        || usage("usage.arguments", "--tablespace", &format!("{text} isn't OLD=NEW"), "give two absolute paths");
    places.map(|(old, new)| (old.into(), new.into())).ok_or_else(wrong)
}

/// What the server's restore_command needs when it runs.
fn handover(arguments: &RestoreArguments, source: &Source, edge: &Edge) -> Result<Handover, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        let next = "start Seawall by the path of its program";
        Failure::new(Kind::Unavailable, "postgres.io", "seawall", format!("its own path isn't known: {error}"), next)
    })?;
    let (vault, config) = match source {
        // As it was typed: a URL as it is shown may leave secrets out.
        Source::Vault(_) => (typed(arguments.source.as_deref().unwrap_or_default(), edge), None),
        // Of the configuration's variables all are needed, also those of other databases: it is read as a whole.
        // The server runs the command in its data directory, where no default configuration is.
        Source::Database(database) => (database.name.clone(), configuration::file(&arguments.config, edge)?),
    };
    let (config, variables) = config.unzip();
    Ok(Handover {
        program,
        vault,
        config: config.map(|config: PathBuf| edge.absolute(&config)),
        variables: variables.unwrap_or_default(),
        identity: edge.identity_file(),
        environment: edge.environment.clone(),
    })
}

/// A vault on the command line, from the root if it is a folder.
fn typed(text: &str, edge: &Edge) -> String {
    match text.contains("://") {
        true => text.to_owned(),
        false => edge.absolute(Path::new(text)).display().to_string(),
    }
}

fn document(vault: &Vault, options: &RecoverOptions, recovered: &Recovered) -> Value {
    let Recovered { manifest, timeline, reach, until, is_doubtful, files, bytes, written, duration_ms, reached } =
        recovered;
    let reached = reached
        .as_ref()
        .map(|reached| json!({ "lsn": reached.lsn, "moment": reached.moment, "timeline": reached.timeline }));
    json!({
        "vault": vault.url(),
        "output": options.output,
        "base": manifest.id,
        "system": manifest.system,
        "timeline": timeline,
        "log": { "from": manifest.start, "to": reach, "until": until, "ends_before_target": is_doubtful },
        "files": files,
        "bytes": bytes,
        "written_bytes": written,
        "needs_bytes": manifest.needs(),
        "dry_run": options.dry_run,
        "reached": reached,
        "duration_ms": duration_ms,
    })
}

fn render(options: &RecoverOptions, recovered: &Recovered) -> String {
    let Recovered { manifest, timeline, reach, until, is_doubtful, files, bytes, written, duration_ms, reached } =
        recovered;
    let output = options.output.display();
    let files = table::count(usize::try_from(*files).unwrap_or(usize::MAX), "file");
    let ends = match is_doubtful {
        true => format!(
            "\nnote: the vault has nothing from after {until}: if the server committed something between that and the moment, it isn't there"
        ),
        false => String::new(),
    };
    let log =
        format!("the log on timeline {timeline} goes from {} to {reach}, written at {until}{ends}", manifest.start);
    if options.dry_run {
        return format!(
            "{output}: would be restored from the base {}: {files}, {} from {}; nothing was written\n{log}\n",
            manifest.id,
            table::bytes(*bytes),
            table::bytes(manifest.needs())
        );
    }
    let notes: String = manifest.notes.iter().map(|note| format!("note: {note}\n")).collect();
    let major = manifest.version / 10_000;
    let next = match reached {
        Some(reached) => {
            let lsn = reached.lsn.map_or_else(|| "the end of the base".to_owned(), |lsn| lsn.to_string());
            let moment = reached.moment.map_or_else(String::new, |at| format!(", last commit at {at}"));
            format!(
                "recovered to {lsn}{moment}; the server is stopped, and goes on with timeline {}\n",
                reached.timeline
            )
        }
        None => format!(
            "start a server of version {major} there: it recovers to the target, then it takes writes\n\
             note: when it has recovered, and before a standby is made of it, end what is set for the recovery alone: {}\n",
            recover::resets()
        ),
    };
    let there = match options.delta {
        true => format!(", of which {} were written", table::bytes(*written)),
        false => String::new(),
    };
    format!(
        "{output}: restored from the base {}\n{files}, {}{there} in {}\n{log}\n{next}\
         note: archive_mode is off, synchronous_standby_names is empty, and subscriptions don't run (max_logical_replication_workers = 0) in postgresql.auto.conf; set them when the original is gone, and another vault is \
         named, with ALTER SYSTEM SET and a restart\n{notes}",
        manifest.id,
        table::bytes(*bytes),
        table::span(*duration_ms),
    )
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn what_is_asked_for() {
        let id = "20261121T101112000Z-0000000a";
        let base: SetId = id.parse().expect("a name");
        let moment = When::Moment(Moment::from_millis(5));
        for (text, when, expected) in [
            (None, When::Latest, Ok((Target::Latest, None))),
            (None, moment.clone(), Ok((Target::Moment(Moment::from_millis(5)), None))),
            (None, When::Position(id.into()), Ok((Target::Base(base), None))),
            (Some("xid:745"), When::Latest, Ok((Target::Xid(745), None))),
            (Some("xid:745"), When::Position(id.into()), Ok((Target::Xid(745), Some(base)))),
            (None, When::Position("00000000000000af".into()), Err("usage.when")),
            (Some("xid:745"), moment, Err("usage.arguments")),
            (Some("x"), When::Latest, Err("usage.arguments")),
        ] {
            assert_eq!(target(text, &when).map_err(|failure| failure.code), expected, "{text:?} {when:?}");
        }
        assert_eq!(mapping("/a=/b").expect("two places"), ("/a".into(), "/b".into()));
        for wrong in ["/a", "=/b", "/a="] {
            assert_eq!(mapping(wrong).expect_err(wrong).code, "usage.arguments");
        }
    }
}
