//! `seawall bench`: how fast a backup is here, beside the ceilings of source, codec and store.

use seawall_agent::bench::{Figure, OfServer, OfStore, Scratch};
use seawall_agent::{BackupRequest, ServerUrl};
use seawall_core::Failure;
use serde_json::{Value, json};

use super::backup::{compression, limits, waited};
use crate::arguments::BenchArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, complain, to_json};
use crate::progress::progress;
use crate::{runtime, server, table};

/// Runs the command.
pub(crate) fn run(arguments: &BenchArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    match ServerUrl::is_url(&arguments.source) {
        true => of_server(arguments, edge, json),
        false => of_vault(arguments, edge),
    }
}

/// A store alone.
fn of_vault(arguments: &BenchArguments, edge: &Edge) -> Result<Output, Failure> {
    if let Some(second) = &arguments.vault {
        let cause = format!("{} is no server, and a second place is named", arguments.source);
        let next = "name a server and a vault, or one vault";
        return Err(usage("usage.arguments", second, &cause, next));
    }
    let place = server::place(&arguments.source, edge)?;
    let limits = limits(&arguments.server)?;
    let jobs = limits.jobs;
    let opener = edge.opener(runtime::working())?;
    let found = runtime::run_with(runtime::serving(jobs), opener.bench_store(&place, jobs, limits.memory))?;
    let text = format!(
        "{}\n{}{}{}",
        machine_line(),
        table::table(&["", "a second", "moved", "in"], store(&found), &[1, 2, 3]),
        kept(&found),
        left(&found)
    );
    let document = json!({ "machine": machine(), "store": found });
    Ok(Output { exit: Exit::judge(true, found.left.is_empty()), ..Output::done(text, &document) })
}

fn of_server(arguments: &BenchArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let source = server::url(&arguments.source, edge)?;
    let limits = limits(&arguments.server)?;
    let jobs = limits.jobs;
    let compression = compression(arguments.compression.as_deref(), &limits);
    let request = BackupRequest { limits, compression, ..BackupRequest::default() };
    let vault = arguments.vault.as_deref().map(|vault| server::place(vault, edge)).transpose()?;
    let encryption = arguments.encryption.read(edge)?;
    let opener = edge.opener(runtime::working())?;
    let progress = progress(edge, json);
    let scratch = Scratch::new(|place| {
        let end = "It is deleted at the end; if this process is killed, delete everything below it.";
        complain(&format!("The backup that is measured is made below {place}. {end}\n"));
    });
    let measured = async {
        let into = (vault.as_ref(), encryption.as_ref(), &scratch);
        opener.bench_server(&source, &request, &edge.environment, into, progress).await
    };
    let tidied = async || match &vault {
        Some(vault) => opener.end_bench(vault, &scratch, true).await,
        None => Ok(()),
    };
    let found = runtime::run_tidied(runtime::serving(jobs), measured, tidied)?;
    let mut document = to_json(&found);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("machine".into(), machine());
    }
    let is_whole = found.store.as_ref().is_none_or(|store| store.left.is_empty());
    Ok(Output { exit: Exit::judge(true, is_whole), ..Output::done(render(&found), &document) })
}

fn render(found: &OfServer) -> String {
    let OfServer { source, jobs, read, codec, store: of_store, backup, bound, ceiling } = found;
    let mut rows = vec![row("source: rows read into nothing", *read)];
    if let Some(codec) = codec {
        rows.push(row(
            &format!("codec: {} to {} %, {jobs} at once", codec.name, percent(codec.per_mille)),
            codec.figure,
        ));
    }
    rows.extend(of_store.iter().flat_map(store));
    let place = match (backup.in_vault, of_store) {
        (true, _) => "into the vault".to_owned(),
        (false, None) => "into nothing".to_owned(),
        (false, Some(store)) => format!("into nothing: {}", store.keeps_rows().unwrap_or("the vault takes no rows")),
    };
    rows.push(row(&format!("a whole backup, {place}"), backup.figure));
    let share = u128::from(backup.figure.bytes_per_second) * 100 / u128::from((*ceiling).max(1));
    let stored = table::bytes(backup.stored);
    let lowest = match bound {
        Some(bound) => format!("The lowest ceiling is that of the {bound}"),
        None => "The backup was faster than the lowest figure above, which was measured colder (without rows in the server's memory) or in \
                 other conditions, and bounds nothing. That figure"
            .to_owned(),
    };
    format!(
        "{source}\n{}, {} with {jobs} connections\n{}\n{lowest}: {} of rows a second. The backup of {} rows ({stored} stored) reaches {share} % of it{}\n{}{}",
        machine_line(),
        table::bytes(read.bytes),
        table::table(&["", "a second", "moved", "in"], rows, &[1, 2, 3]),
        table::bytes(*ceiling),
        backup.rows,
        waited(&backup.stages),
        of_store.as_ref().map(kept).unwrap_or_default(),
        of_store.as_ref().map(left).unwrap_or_default(),
    )
}

fn row(name: &str, figure: Figure) -> Vec<String> {
    vec![name.to_owned(), table::bytes(figure.bytes_per_second), table::bytes(figure.bytes), table::span(figure.ms)]
}

fn store(found: &OfStore) -> Vec<Vec<String>> {
    let lanes = table::count(found.lanes, "object");
    let moved = [("written", found.up), ("read", found.down)];
    let moved =
        moved.into_iter().filter_map(|(what, figure)| Some(row(&format!("store: {what}, {lanes} at once"), figure?)));
    let times = [("a small write", found.put_ms), ("a small read", found.get_ms)];
    let times = times.into_iter().filter_map(|(what, ms)| {
        Some(vec![format!("store: {what}"), String::new(), "1.0 KiB".to_owned(), table::span(ms?)])
    });
    moved.chain(times).collect()
}

fn left(found: &OfStore) -> String {
    let left = found.left.iter().map(|name| format!("not deleted: {name}\n"));
    let earlier =
        found.earlier.iter().map(|name| format!("left behind by an earlier run, delete everything below it: {name}\n"));
    left.chain(earlier).collect()
}

/// What a person should know of a store that doesn't give up what is deleted.
fn kept(found: &OfStore) -> String {
    let Some(why) = found.keeps_rows() else { return String::new() };
    let written = if found.up.is_none() { "only small objects were written" } else { "what was written may stay" };
    format!("{}: {why}; {written}\n", found.vault)
}

fn percent(per_mille: u64) -> String {
    format!("{}.{}", per_mille / 10, per_mille % 10)
}

/// The machine that was measured: figures without it say nothing.
fn machine() -> Value {
    json!({ "cores": runtime::cores(), "arch": std::env::consts::ARCH, "os": std::env::consts::OS,
            "optimised": !cfg!(debug_assertions), "version": env!("CARGO_PKG_VERSION") })
}

fn machine_line() -> String {
    let build = if cfg!(debug_assertions) { ", a build for tests: several times slower" } else { "" };
    format!(
        "seawall {} on {} ({}){build}",
        env!("CARGO_PKG_VERSION"),
        table::count(runtime::cores(), "core"),
        std::env::consts::ARCH
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(keeps_deleted: Option<bool>, up: Option<Figure>) -> OfStore {
        let (put_ms, get_ms, down, left, earlier) = Default::default();
        let (vault, encrypted) = ("s3://b".to_owned(), Some(false));
        OfStore { vault, lanes: 1, put_ms, get_ms, up, down, encrypted, keeps_deleted, deletes: true, left, earlier }
    }

    #[test]
    fn a_store_that_keeps_what_is_deleted_is_told() {
        let figure = Figure { bytes: 1, ms: 1, bytes_per_second: 1 };
        for (keeps, up, told) in [
            (Some(false), Some(figure), ""),
            (Some(true), None, "s3://b: the vault keeps what is deleted; only small objects were written\n"),
            (
                None,
                Some(figure),
                "s3://b: whether the vault keeps what is deleted isn't known; what was written may stay\n",
            ),
        ] {
            assert_eq!(kept(&store(keeps, up)), told);
        }
        let found = OfStore { earlier: vec!["seawall-bench-1".to_owned()], ..store(Some(false), None) };
        assert!(left(&found).contains("seawall-bench-1"));
    }

    #[test]
    fn shares() {
        assert_eq!(
            (percent(0), percent(5), percent(253), percent(1002)),
            ("0.0".into(), "0.5".into(), "25.3".into(), "100.2".into())
        );
    }
}
