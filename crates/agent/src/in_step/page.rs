//! What is shown of environments that are kept in step: metrics under Lightning Stream's names, and a page for people.

use std::fmt::Write as _;

use seawall_lmdb::{EnvStatus, SessionStatus, Stamp};

use crate::services::metrics::Page;
use crate::services::resources::Resources;

/// The metrics, in Prometheus' text format.
pub(crate) fn metrics(statuses: &[SessionStatus], resources: &Resources, began: Stamp) -> String {
    let mut page = Page::default();
    syncer(&mut page, statuses);
    receiver(&mut page, statuses);
    upkeep(&mut page, statuses);
    environments(&mut page, statuses);
    // Under the names of the original's client library.
    crate::services::metrics::of_process(&mut page, resources, i64::try_from(began.0 / 1_000_000).unwrap_or(i64::MAX));
    page.into_text()
}

/// One family with a value for each environment that has one.
fn each(
    page: &mut Page,
    statuses: &[SessionStatus],
    (name, kind, help): (&str, &str, &str),
    value: impl Fn(&SessionStatus) -> Option<f64>,
) {
    page.family(name, kind, help);
    for status in statuses {
        if let Some(value) = value(status) {
            page.line(name, &[("lmdb", &status.database)], value);
        }
    }
}

/// One family with the sum over all environments.
fn all(page: &mut Page, statuses: &[SessionStatus], (name, help): (&str, &str), value: impl Fn(&SessionStatus) -> u64) {
    page.family(name, "counter", help);
    page.line(name, &[], statuses.iter().map(value).sum::<u64>());
}

fn seconds(stamp: Stamp) -> f64 {
    stamp.0 as f64 / 1e9
}

fn syncer(page: &mut Page, statuses: &[SessionStatus]) {
    let some = |number: u64| Some(number as f64);
    let name = |rest: &str| format!("lightningstream_syncer_snapshots_{rest}");
    each(page, statuses, (&name("generated_total"), "counter", "Snapshots that were sent."), |s| {
        some(s.storing.calls - s.storing.failures)
    });
    let last = (&*name("generated_last_unix_seconds"), "gauge", "When the last snapshot was taken.");
    each(page, statuses, last, |s| s.sent.map(|(stamp, _)| seconds(stamp)));
    let last = (&*name("generated_last_size_bytes"), "gauge", "Size of the last snapshot.");
    each(page, statuses, last, |s| s.sent.and_then(|(_, bytes)| some(bytes)));
    let failed = (&*name("store_failed_attempts_total"), "counter", "Attempts to send a snapshot that failed.");
    each(page, statuses, failed, |s| some(s.storing.failures));
    all(page, statuses, (&name("store_calls_total"), "Attempts to send a snapshot."), |s| s.storing.calls);
    all(page, statuses, (&name("store_bytes_total"), "Bytes of snapshots that were sent."), |s| s.storing.bytes);
    all(page, statuses, (&name("load_calls_total"), "Snapshots that were read."), |s| s.loading.calls);
    all(page, statuses, (&name("load_bytes_total"), "Bytes of snapshots that were read."), |s| s.loading.bytes);
    all(page, statuses, (&name("list_calls_total"), "Listings of the storage."), |s| s.listing.calls);
    let failed = (&*name("list_failed_total"), "counter", "Listings of the storage that failed.");
    each(page, statuses, failed, |s| some(s.listing.failures));
    let failed = name("load_failed_total");
    page.family(&failed, "counter", "Snapshots that could not be read.");
    for status in statuses {
        for (instance, count) in &status.loading_failed {
            page.line(&failed, &[("lmdb", &status.database), ("syncer_instance", instance)], count);
        }
    }
}

fn receiver(page: &mut Page, statuses: &[SessionStatus]) {
    let received = "lightningstream_receiver_snapshots_last_received_seconds";
    page.family(received, "gauge", "The time of the last snapshot that was merged.");
    for status in statuses {
        for (instance, (stamp, _)) in &status.received {
            page.line(received, &[("lmdb", &status.database), ("syncer_instance", instance)], seconds(*stamp));
        }
    }
    let count = ("lightningstream_receiver_snapshots_in_storage_count", "gauge", "Snapshots in the storage.");
    each(page, statuses, count, |s| Some(s.in_vault.0 as f64));
    let bytes = ("lightningstream_receiver_snapshots_in_storage_bytes", "gauge", "Their bytes.");
    each(page, statuses, bytes, |s| Some(s.in_vault.1 as f64));
    let replaced =
        ("seawall_lmdb_replaced_total", "counter", "How often another data file took the place of the one in use.");
    each(page, statuses, replaced, |s| Some(s.replaced as f64));
    let lost = ("seawall_lmdb_lost_total", "counter", "How often the newest own snapshot was lost from the vault.");
    each(page, statuses, lost, |s| Some(s.lost as f64));
    let alarms = ("seawall_lmdb_alarms", "gauge", "Errors with which the session goes on: a loss, two writers.");
    each(page, statuses, alarms, |s| Some(s.alarms.len() as f64));
    let damaged = ("seawall_lmdb_snapshots_damaged", "gauge", "Snapshots that are left out because they are damaged.");
    each(page, statuses, damaged, |s| Some(s.damaged.len() as f64));
}

fn upkeep(page: &mut Page, statuses: &[SessionStatus]) {
    let name = |rest: &str| format!("lightningstream_cleaner_{rest}");
    all(page, statuses, (&name("list_calls_total"), "How often the cleaner looked."), |s| s.cleaning.looks);
    all(page, statuses, (&name("delete_failed_total"), "Snapshots that could not be deleted."), |s| {
        s.cleaning.failures
    });
    let deleted = name("delete_total");
    page.family(&deleted, "counter", "Snapshots that were deleted.");
    for status in statuses {
        for (reason, count) in [("newer snapshot", status.cleaning.newer), ("stale instance", status.cleaning.gone)] {
            page.line(&deleted, &[("lmdb", &status.database), ("reason", reason)], count);
        }
    }
    let name = |rest: &str| format!("lightningstream_sweeper_{rest}");
    each(page, statuses, (&name("cleaned_total"), "counter", "Deletions that were forgotten."), |s| {
        Some(s.sweeping.forgotten as f64)
    });
    let known = (&*name("stats_available"), "gauge", "Whether there was a sweep.");
    each(page, statuses, known, |s| Some(f64::from(u8::from(s.sweeping.last.is_some()))));
    let total = (&*name("stats_total_entries"), "gauge", "Entries at the last sweep.");
    each(page, statuses, total, |s| s.sweeping.last.map(|(entries, _)| entries as f64));
    let deleted = (&*name("stats_deleted_entries"), "gauge", "Deletions among them.");
    each(page, statuses, deleted, |s| s.sweeping.last.map(|(_, deleted)| deleted as f64));
    let duration = name("duration_seconds");
    page.family(&duration, "summary", "Time spent sweeping.");
    for status in statuses {
        let (sweeps, nanos) = status.sweeping.sweeps;
        page.line(&format!("{duration}_sum"), &[("lmdb", &status.database)], nanos as f64 / 1e9);
        page.line(&format!("{duration}_count"), &[("lmdb", &status.database)], sweeps);
    }
}

fn environments(page: &mut Page, statuses: &[SessionStatus]) {
    let of = |value: fn(&EnvStatus) -> f64| move |status: &SessionStatus| status.environment.as_ref().map(value);
    let used = |env: &EnvStatus| env.dbis.iter().map(|(_, _, stat)| stat.bytes).sum::<u64>() as f64;
    each(page, statuses, ("lmdb_mapsize_bytes", "gauge", "Size of the map."), of(|env| env.info.map_size as f64));
    let readers = ("lmdb_env_readers_current", "gauge", "Reader slots in use.");
    each(page, statuses, readers, of(|env| env.info.readers.0.into()));
    let readers = ("lmdb_env_readers_max", "gauge", "Reader slots.");
    each(page, statuses, readers, of(|env| env.info.readers.1.into()));
    let last = ("lmdb_env_last_tnx_id", "gauge", "The last transaction.");
    each(page, statuses, last, of(|env| env.info.last_transaction as f64));
    each(page, statuses, ("lmdb_filesize_bytes", "gauge", "Size of the file."), of(|env| env.file_bytes as f64));
    let usage = ("lmdb_total_usage_bytes", "gauge", "Bytes of all DBIs.");
    each(page, statuses, usage, |s| s.environment.as_ref().map(used));
    let usage = ("lmdb_total_usage_fraction", "gauge", "The part of the map that they take.");
    each(page, statuses, usage, |s| s.environment.as_ref().map(|env| used(env) / env.info.map_size.max(1) as f64));
    for (name, help, value) in [
        ("lmdb_db_usage_bytes", "Bytes of a DBI.", 0),
        ("lmdb_stat_entries", "Entries of a DBI.", 1),
        ("lmdb_stat_depth", "Levels of a DBI.", 2),
    ] {
        page.family(name, "gauge", help);
        for (lmdb, db, _, stat) in dbis(statuses) {
            let value = [stat.bytes, stat.entries, stat.depth.into()].get(value).copied().unwrap_or_default();
            page.line(name, &[("lmdb", lmdb), ("db", db)], value);
        }
    }
    page.family("lmdb_stat_pages", "gauge", "Pages of a DBI.");
    for (lmdb, db, _, stat) in dbis(statuses) {
        let (branch, leaf, overflow) = stat.pages;
        for (kind, count) in [("branch", branch), ("leaf", leaf), ("overflow", overflow)] {
            page.line("lmdb_stat_pages", &[("lmdb", lmdb), ("db", db), ("pagetype", kind)], count);
        }
    }
}

/// Every DBI with the name of its environment.
fn dbis(statuses: &[SessionStatus]) -> impl Iterator<Item = (&str, &str, seawall_lmdb::Flags, &seawall_lmdb::DbiStat)> {
    statuses.iter().flat_map(|status| {
        let of = status.environment.iter().flat_map(|env| &env.dbis);
        of.map(|(name, flags, stat)| (status.database.as_str(), name.as_str(), *flags, stat))
    })
}

/// A page for people.
pub(crate) fn html(statuses: &[SessionStatus], version: &str) -> String {
    let mut page = String::from(
        "<!doctype html><html><head><meta charset=\"utf-8\"><title>Seawall</title><style>\
         body{font-family:sans-serif}td,th{padding:2px 10px;text-align:right}td:first-child,th:first-child{text-align:left}\
         </style></head><body>",
    );
    // Writing to a text can't fail.
    let _ = write!(page, "<h1>LMDB in step</h1><p>Seawall {}. ", escaped(version));
    page.push_str(
        "<a href=\"/healthz\">health</a> <a href=\"/metrics\">metrics</a> <a href=\"/storage\">storage</a></p>",
    );
    for status in statuses {
        let _ = write!(page, "<h2>{}</h2>", escaped(&status.database));
        let errors = [&status.listing, &status.loading, &status.storing, &status.local].map(|tried| &tried.error);
        for error in errors.into_iter().flatten().chain(&status.ended).chain(status.damaged.values()) {
            let _ = write!(page, "<p><b>{}</b></p>", escaped(error));
        }
        let Some(env) = &status.environment else { continue };
        let used: u64 = env.dbis.iter().map(|(_, _, stat)| stat.bytes).sum();
        let info = env.info;
        let _ = write!(
            page,
            "<p>map {} bytes, used {used}, file {}, last transaction {}, readers {} of {}</p><table><tr><th>DBI<th>bytes\
             <th>entries<th>depth<th>branch<th>leaf<th>overflow<th>flags</tr>",
            info.map_size, env.file_bytes, info.last_transaction, info.readers.0, info.readers.1
        );
        for (name, flags, stat) in &env.dbis {
            let (branch, leaf, overflow) = stat.pages;
            let _ = write!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{branch}<td>{leaf}<td>{overflow}<td>{flags}</tr>",
                escaped(name),
                stat.bytes,
                stat.entries,
                stat.depth
            );
        }
        page.push_str("</table>");
    }
    page.push_str("</body></html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_lmdb::{DbiStat, EnvInfo, Flags};

    use super::*;

    fn status() -> SessionStatus {
        let info = EnvInfo { map_size: 1000, used: 500, last_transaction: 7, readers: (1, 126) };
        let stat = DbiStat { entries: 3, bytes: 250, depth: 1, pages: (0, 1, 2) };
        let dbis = vec![("<d>".to_owned(), Flags::DUPSORT, stat)];
        SessionStatus {
            database: "main".to_owned(),
            sent: Some((Stamp(2_500_000_000), 9)),
            received: BTreeMap::from([("b".to_owned(), (Stamp(1_500_000_000), Default::default()))]),
            environment: Some(EnvStatus { info, file_bytes: 600, dbis }),
            ..SessionStatus::default()
        }
    }

    #[test]
    fn metrics_have_the_names_that_dashboards_know() {
        let text = metrics(&[status()], &Resources::of_process(), Stamp(2_500_000_000));
        for line in [
            "lightningstream_syncer_snapshots_generated_last_unix_seconds{lmdb=\"main\"} 2.5",
            "lightningstream_receiver_snapshots_last_received_seconds{lmdb=\"main\",syncer_instance=\"b\"} 1.5",
            "lightningstream_cleaner_delete_total{lmdb=\"main\",reason=\"stale instance\"} 0",
            "lightningstream_syncer_snapshots_list_calls_total 0",
            "lmdb_env_last_tnx_id{lmdb=\"main\"} 7",
            "process_start_time_seconds 2.5",
            "seawall_lmdb_replaced_total{lmdb=\"main\"} 0",
            "seawall_lmdb_lost_total{lmdb=\"main\"} 0",
            "lmdb_total_usage_fraction{lmdb=\"main\"} 0.25",
            "lmdb_stat_pages{lmdb=\"main\",db=\"<d>\",pagetype=\"overflow\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = families.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), families.len(), "every family stands once");
    }

    #[test]
    fn names_are_text_on_the_page() {
        let page = html(&[status()], "1.0");
        assert!(page.contains("<td>&lt;d&gt;<td>250<td>3<td>1<td>0<td>1<td>2<td>"), "{page}");
    }
}
