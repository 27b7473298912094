//! Is everything in step? The checks of Lightning Stream, under its names, and its document.
//!
//! Something that fails becomes a warning, and later a failure, once it has failed without a break for long enough. What
//! a session goes on without (a damaged snapshot) is a warning for as long as it is so.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_core::Moment;
use seawall_lmdb::{SessionStatus, Stamp, Tried};
use serde_json::{Value, json};

/// When something that fails is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// As a warning.
    pub warn: Duration,
    /// As a failure.
    pub error: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { warn: Duration::from_secs(60), error: Duration::from_secs(300) }
    }
}

/// How health is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthRules {
    /// Listing the storage.
    pub list: Patience,
    /// Reading snapshots.
    pub load: Patience,
    /// Writing snapshots.
    pub store: Patience,
    /// The start.
    pub start: Patience,
    /// Whether a start that takes long counts.
    pub report_start: bool,
    /// Whether it is told in the document's metadata that a start is over.
    pub start_in_metadata: bool,
}

impl Default for HealthRules {
    fn default() -> Self {
        let usual = Patience::default();
        Self { list: usual, load: usual, store: usual, start: usual, report_start: false, start_in_metadata: true }
    }
}

/// What is wrong, by the name of the check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Health {
    pub(crate) failures: BTreeMap<String, String>,
    pub(crate) warnings: BTreeMap<String, String>,
    /// Since when the first of the failures and of the warnings hold, where that is known.
    failing: Option<Stamp>,
    warned: Option<Stamp>,
}

impl Health {
    /// Adds something that has been so since a moment.
    fn add(&mut self, check: String, (since, now): (Stamp, Stamp), patience: Patience, text: String) {
        let lasts = Duration::from_nanos(now.0.saturating_sub(since.0));
        let after = |span: Duration| Stamp(since.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)));
        let earliest = |known: Option<Stamp>, new: Stamp| Some(known.map_or(new, |known| known.min(new)));
        if lasts >= patience.error {
            self.failures.insert(check, text);
            self.failing = earliest(self.failing, after(patience.error));
        } else if lasts >= patience.warn {
            self.warnings.insert(check, text);
            self.warned = earliest(self.warned, after(patience.warn));
        }
    }

    /// The word for it.
    pub(crate) fn status(&self) -> &'static str {
        match (self.failures.is_empty(), self.warnings.is_empty()) {
            (false, _) => "Unavailable",
            (true, false) => "Warning",
            (true, true) => "OK",
        }
    }
}

/// Judges how environments are doing.
pub(crate) fn judge(statuses: &[SessionStatus], rules: &HealthRules, now: Stamp) -> Health {
    let mut health = Health::default();
    let lasted = |since: Stamp| Duration::from_nanos(now.0.saturating_sub(since.0));
    for status in statuses {
        let name = &status.database;
        let mut tried = |what: &str, tried: &Tried, patience: Patience| {
            if let (Some(since), Some(error)) = (tried.since, &tried.error) {
                let text = format!("failing for {}s: {error}", lasted(since).as_secs());
                health.add(format!("{name}_{what}_failed_duration"), (since, now), patience, text);
            }
        };
        tried("storage_list", &status.listing, rules.list);
        tried("storage_load", &status.loading, rules.load);
        tried("storage_store", &status.storing, rules.store);
        // Ours: the environment itself can't be read or written, for example because its map is full.
        tried("lmdb", &status.local, Patience { warn: Duration::ZERO, ..Patience::default() });
        if !status.start.is_over() && rules.report_start {
            let text = format!("the start takes {}s so far", lasted(status.began).as_secs());
            health.add(format!("{name}_startup_in_progress"), (status.began, now), rules.start, text);
        }
        for (code, (failure, since, _)) in &status.alarms {
            let check = format!("{name}_{}", code.replace(['.', '-'], "_"));
            health.add(
                check,
                (*since, now),
                Patience { warn: Duration::ZERO, error: Duration::ZERO },
                failure.to_string(),
            );
        }
        if let Some((key, cause)) = status.damaged.first_key_value() {
            let text = format!("{} snapshots are left out: {key}: {cause}", status.damaged.len());
            health.warnings.insert(format!("{name}_snapshots_damaged"), text);
        }
        if !status.old_peers.is_empty() {
            let text = format!("snapshots are sent as gzip, because of {}", status.old_peers.join(", "));
            health.warnings.insert(format!("{name}_zstd_refused"), text);
        }
        if let Some(cause) = &status.ended {
            health.failures.insert(format!("{name}_ended"), cause.clone());
        }
    }
    health
}

/// Since when everything is as it is, as far as that is known; it may be asked for the first time long after.
pub(crate) fn since(health: &Health, statuses: &[SessionStatus], began: Stamp, now: Stamp) -> Stamp {
    let known = match (health.failures.is_empty(), health.warnings.is_empty()) {
        (false, _) => health.failing,
        (true, false) => health.warned,
        (true, true) => Some(statuses.iter().filter_map(SessionStatus::recovered).fold(began, Stamp::max)),
    };
    known.map_or(now, |since| since.max(began))
}

/// The document of `/healthz`. `since` is when the status became what it is.
pub(crate) fn document(
    health: &Health,
    statuses: &[SessionStatus],
    rules: &HealthRules,
    (now, since): (Stamp, Stamp),
    hostname: &str,
    version: &str,
) -> Value {
    let time = |stamp: Stamp| Moment::from_millis(i64::try_from(stamp.0 / 1_000_000).unwrap_or(i64::MAX)).to_string();
    let mut metadata = serde_json::Map::new();
    metadata.insert("hostname".to_owned(), hostname.into());
    metadata.insert("version".to_owned(), version.into());
    if rules.start_in_metadata {
        metadata.extend(statuses.iter().map(|s| (format!("startup_{}", s.database), s.start.is_over().into())));
    }
    json!({
        "ok": health.failures.is_empty(),
        "has_warnings": !health.warnings.is_empty(),
        "status": health.status(),
        "time": time(now),
        "since": time(since),
        "runtime": { "arch": std::env::consts::ARCH, "os": std::env::consts::OS, "version": version },
        "failures": health.failures,
        "warnings": health.warnings,
        "metadata": metadata,
    })
}

#[cfg(test)]
mod tests {
    use seawall_core::{Failure, Kind};
    use seawall_lmdb::Start;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn failing(seconds: u64) -> Tried {
        Tried { since: Some(Stamp((1000 - seconds) * SECOND)), error: Some("gone".to_owned()), ..Tried::default() }
    }

    fn status() -> SessionStatus {
        let start = Start { listed: true, merged: true, stored: true };
        SessionStatus { database: "main".to_owned(), start, ..SessionStatus::default() }
    }

    #[test]
    fn what_is_told_when() {
        let rules = HealthRules { report_start: true, ..HealthRules::default() };
        let starting = |began: u64| SessionStatus {
            start: Start { merged: false, ..status().start },
            began: Stamp((1000 - began) * SECOND),
            ..status()
        };
        let damaged = BTreeMap::from([("x.pb.gz".to_owned(), "cut".to_owned())]);
        let lost = Failure::new(Kind::Corrupt, "lmdb.lost", "x.pb.gz".to_owned(), "it is gone", "nothing");
        let alarms = BTreeMap::from([(lost.code, (lost, Stamp(1000 * SECOND), 1))]);
        for (status, word, check) in [
            (status(), "OK", None),
            (SessionStatus { listing: failing(59), ..status() }, "OK", None),
            (SessionStatus { listing: failing(60), ..status() }, "Warning", Some("main_storage_list_failed_duration")),
            (
                SessionStatus { loading: failing(300), ..status() },
                "Unavailable",
                Some("main_storage_load_failed_duration"),
            ),
            (SessionStatus { storing: failing(61), ..status() }, "Warning", Some("main_storage_store_failed_duration")),
            (SessionStatus { local: failing(0), ..status() }, "Warning", Some("main_lmdb_failed_duration")),
            (SessionStatus { local: failing(300), ..status() }, "Unavailable", Some("main_lmdb_failed_duration")),
            (SessionStatus { damaged, ..status() }, "Warning", Some("main_snapshots_damaged")),
            (SessionStatus { old_peers: vec!["ns2".to_owned()], ..status() }, "Warning", Some("main_zstd_refused")),
            (SessionStatus { ended: Some("refused".to_owned()), ..status() }, "Unavailable", Some("main_ended")),
            (SessionStatus { alarms, ..status() }, "Unavailable", Some("main_lmdb_lost")),
            (starting(59), "OK", None),
            (starting(60), "Warning", Some("main_startup_in_progress")),
            (starting(300), "Unavailable", Some("main_startup_in_progress")),
        ] {
            let statuses = [status];
            let health = judge(&statuses, &rules, Stamp(1000 * SECOND));
            assert_eq!(health.status(), word, "{statuses:?}");
            let found = health.failures.keys().chain(health.warnings.keys()).next().map(String::as_str);
            assert_eq!(found, check);
        }
        let silent = judge(&[starting(900)], &HealthRules::default(), Stamp(1000 * SECOND));
        assert_eq!(silent.status(), "OK");
    }

    #[test]
    fn since_when_it_is_so_does_not_depend_on_who_asks() {
        let (rules, now, began) = (HealthRules::default(), Stamp(1000 * SECOND), Stamp(100 * SECOND));
        let recovered = Tried { recovered: Some(Stamp(700 * SECOND)), ..Tried::default() };
        for (status, expected) in [
            (status(), 100),
            (SessionStatus { listing: recovered, ..status() }, 700),
            (SessionStatus { listing: failing(100), ..status() }, 960),
            (SessionStatus { listing: failing(400), ..status() }, 900),
            (SessionStatus { local: failing(7), ..status() }, 993),
            (SessionStatus { ended: Some("refused".to_owned()), ..status() }, 1000),
        ] {
            let statuses = [status];
            let health = judge(&statuses, &rules, now);
            assert_eq!(since(&health, &statuses, began, now), Stamp(expected * SECOND), "{statuses:?}");
        }
    }

    #[test]
    fn the_document() {
        let statuses = [SessionStatus { storing: failing(61), ..status() }];
        let rules = HealthRules::default();
        let health = judge(&statuses, &rules, Stamp(1000 * SECOND));
        let found = document(&health, &statuses, &rules, (Stamp(1000 * SECOND), Stamp(0)), "vm", "1.0");
        assert_eq!(found["ok"], true);
        assert_eq!(found["status"], "Warning");
        assert_eq!(found["since"], "1970-01-01T00:00:00.000Z");
        assert_eq!(found["warnings"]["main_storage_store_failed_duration"], "failing for 61s: gone");
        assert_eq!(found["metadata"]["startup_main"], true);
    }
}
