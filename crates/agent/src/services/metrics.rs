//! Metrics in Prometheus' text format: one page, made when it is asked for, served on a listener of its own.
//!
//! A name that Litestream has means here what it means there, with the same label `db`, the path. What it doesn't have
//! is called `seawall_…`. Everything comes from [`Status`] and [`Figures`]; nothing is computed for metrics alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::{Method, StatusCode};
use seawall_core::{Figures, Proof, Status, VaultStatus, Work};
use seawall_engines::trouble;

use crate::control::{Actions, txid};
use crate::fleet::Seen;
use crate::http::{Answer, Handler, Request};
use crate::reload::ConfigStatus;
use crate::services::resources::Resources;

/// What every answer says it is.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves `GET /metrics`, and nothing else.
pub(crate) struct Metrics {
    pub(crate) actions: Arc<Actions>,
    /// One page at a time: each looks at every database.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

#[async_trait]
impl Handler for Metrics {
    async fn answer(&self, request: Request) -> Answer {
        if request.path != "/metrics" {
            return Answer::status(StatusCode::NOT_FOUND);
        }
        if request.method != Method::GET {
            return Answer::status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let _turn = self.turn.lock().await;
        let members = self.actions.members();
        let statuses = self.actions.known_status(&members).await;
        let sample = |(member, status): (&Seen, Status)| {
            let figures = member.engine.as_ref().map(|engine| engine.figures()).unwrap_or_default();
            Sample { status, figures }
        };
        let samples: Vec<Sample> = members.iter().zip(statuses).map(sample).collect();
        let resources = tokio::task::spawn_blocking(Resources::of_process).await.unwrap_or_default();
        let started = self.actions.started().as_millis();
        let body = render(&samples, &resources, self.actions.version(), started);
        let body = body + &of_config(self.actions.reloader().status().as_ref());
        Answer::new(StatusCode::OK, CONTENT_TYPE, body)
    }
}

/// What is known of one database.
pub(crate) struct Sample {
    pub(crate) status: Status,
    pub(crate) figures: Figures,
}

/// The page. `started` is in milliseconds since the Unix epoch.
pub(crate) fn render(samples: &[Sample], resources: &Resources, version: &str, started: i64) -> String {
    let mut page = Page::default();
    of_litestream(&mut page, samples);
    of_status(&mut page, samples);
    of_proofs(&mut page, samples);
    of_vaults(&mut page, samples);
    of_figures(&mut page, samples);
    page.family("seawall_info", "gauge", "The version of this process.");
    page.line("seawall_info", &[("version", version)], 1);
    page.family("seawall_databases", "gauge", "Databases that this process knows.");
    page.line("seawall_databases", &[], samples.len());
    of_process(&mut page, resources, started);
    page.into_text()
}

/// Whether the configuration was read again as it should; nothing where there is none.
fn of_config(config: Option<&ConfigStatus>) -> String {
    let mut page = Page::default();
    if let Some(ConfigStatus { loaded_at, error, .. }) = config {
        page.family("seawall_config_reload_success", "gauge", "Whether the last reload of the configuration worked.");
        page.line("seawall_config_reload_success", &[], u8::from(error.is_none()));
        page.family("seawall_config_loaded_timestamp_seconds", "gauge", "When what is in force was read.");
        page.line("seawall_config_loaded_timestamp_seconds", &[], loaded_at.as_millis() as f64 / 1e3);
    }
    page.into_text()
}

/// What Litestream has, under its names.
fn of_litestream(page: &mut Page, samples: &[Sample]) {
    let each = |page: &mut Page, name: &str, kind: &str, help: &str, value: &dyn Fn(&Sample) -> Option<f64>| {
        page.family(name, kind, help);
        for sample in samples {
            if let Some(value) = value(sample) {
                page.line(name, &[("db", &sample.status.source)], value);
            }
        }
    };
    let number = |number: u64| Some(number as f64);
    each(page, "litestream_db_size", "gauge", "Size of the database in bytes.", &|s| {
        s.status.source_bytes.and_then(number)
    });
    each(page, "litestream_wal_size", "gauge", "Size of the WAL file in bytes.", &|s| {
        s.status.log_bytes.and_then(number)
    });
    each(page, "litestream_txid", "gauge", "The newest transaction in the vault.", &|s| {
        number(txid(s.status.protected.as_ref()))
    });
    let captures = |s: &Sample| s.figures.captures;
    each(page, "litestream_sync_count", "counter", "Captures that were shipped.", &|s| number(captures(s).done));
    each(page, "litestream_sync_error_count", "counter", "Attempts to ship that failed.", &|s| {
        number(captures(s).failed)
    });
    each(page, "litestream_sync_seconds", "counter", "Time spent shipping captures.", &|s| seconds(&captures(s)));
    each(page, "litestream_sync_skipped_total", "counter", "Looks that found nothing new.", &|s| {
        number(s.figures.skipped)
    });
    each(page, "litestream_db_idle", "gauge", "Whether nothing waits to be shipped.", &|s| {
        number(u64::from(s.figures.idle))
    });
    each(page, "litestream_disk_full", "gauge", "Whether the last error is a full local disk.", &|s| {
        number(u64::from(s.status.error.as_ref().is_some_and(trouble::is_full_disk)))
    });
    let modes = [("mode", "PASSIVE")];
    for (name, help, value) in [
        ("litestream_checkpoint_count", "Checkpoints that emptied the WAL.", 0),
        ("litestream_checkpoint_seconds", "Time spent on them, shipping included.", 1),
    ] {
        page.family(name, "counter", help);
        for sample in samples {
            let labels = [("db", sample.status.source.as_str()), modes[0]];
            let work = sample.figures.checkpoints;
            match value {
                0 => page.line(name, &labels, work.done),
                _ => page.line(name, &labels, work.micros as f64 / 1e6),
            }
        }
    }
    of_replicas(page, samples);
}

/// Requests by kind of store and operation, over all databases, as Litestream counts them.
fn of_replicas(page: &mut Page, samples: &[Sample]) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut bytes: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for sample in samples {
        let kind = if sample.status.vault.starts_with("s3://") { "s3" } else { "file" };
        let requests = sample.figures.requests;
        for (operation, count) in operations(sample) {
            *counts.entry((kind, operation)).or_default() += count;
        }
        *bytes.entry((kind, "PUT")).or_default() += requests.bytes_up;
        *bytes.entry((kind, "GET")).or_default() += requests.bytes_down;
    }
    for (name, help, values) in [
        ("litestream_replica_operation_total", "Requests to stores.", counts),
        ("litestream_replica_operation_bytes", "Bytes to and from stores.", bytes),
    ] {
        page.family(name, "counter", help);
        for ((kind, operation), value) in values {
            page.line(name, &[("replica_type", kind), ("operation", operation)], value);
        }
    }
}

fn operations(sample: &Sample) -> [(&'static str, u64); 6] {
    let requests = sample.figures.requests;
    [
        ("PUT", requests.put),
        ("UPLOAD", requests.upload),
        ("GET", requests.get),
        ("HEAD", requests.head),
        ("LIST", requests.list),
        ("DELETE", requests.delete),
    ]
}

/// How each vault of the databases with several stands.
fn of_vaults(page: &mut Page, samples: &[Sample]) {
    if samples.iter().all(|sample| sample.status.vaults.is_empty()) {
        return;
    }
    let each = |page: &mut Page, name: &str, kind: &str, help: &str, value: &dyn Fn(&VaultStatus) -> Option<f64>| {
        page.family(name, kind, help);
        for Sample { status, .. } in samples {
            for vault in &status.vaults {
                if let Some(value) = value(vault) {
                    page.line(name, &[("db", &*status.source), ("name", &*status.name), ("vault", &*vault.url)], value);
                }
            }
        }
    };
    each(page, "seawall_vault_in_step", "gauge", "Whether a vault holds everything that is protected.", &|vault| {
        Some(f64::from(u8::from(vault.in_step)))
    });
    each(page, "seawall_vault_behind_seconds", "gauge", "For how long a vault has been behind.", &|vault| {
        Some(vault.lag_ms as f64 / 1e3)
    });
    each(page, "seawall_vault_objects_left", "gauge", "Objects that a vault lacks, once that is known.", &|vault| {
        vault.objects_left.map(|left| left as f64)
    });
    each(page, "seawall_vault_bytes_left", "gauge", "Bytes of these objects.", &|vault| {
        vault.bytes_left.map(|left| left as f64)
    });
    each(page, "seawall_vault_requests_failed_total", "counter", "Requests to a vault that failed.", &|vault| {
        Some(vault.requests.failures as f64)
    });
}

/// How far each database is protected.
fn of_status(page: &mut Page, samples: &[Sample]) {
    let each = |page: &mut Page, name: &str, help: &str, value: &dyn Fn(&Status) -> Option<f64>| {
        page.family(name, "gauge", help);
        for Sample { status, .. } in samples {
            if let Some(value) = value(status) {
                page.line(name, &labels(status), value);
            }
        }
    };
    each(
        page,
        "seawall_protected_timestamp_seconds",
        "The moment up to which everything is durable in the vault.",
        &|status| status.protected.as_ref().map(|point| point.moment.as_millis() as f64 / 1e3),
    );
    each(page, "seawall_lag_bytes", "Bytes of changes that are not in the vault yet.", &|status| {
        Some(status.lag_bytes as f64)
    });
    each(page, "seawall_lag_seconds", "How long the oldest of them has been waiting.", &|status| {
        Some(status.lag_ms as f64 / 1e3)
    });
    each(
        page,
        "seawall_content_read_timestamp_seconds",
        "When all that the newest state needs was last read back from the vault; no line where no reading is recorded.",
        &|status| status.content_read_at.map(|at| at.as_millis() as f64 / 1e3),
    );
    each(
        page,
        "seawall_vault_seen_timestamp_seconds",
        "When what the newest state needs was last seen in the vault by this process; no line before the first look.",
        &|status| status.vault_seen_at.map(|at| at.as_millis() as f64 / 1e3),
    );
    each(page, "seawall_errors_since_success", "Failures since the last success.", &|status| {
        Some(status.error.as_ref().map_or(0, |error| error.count) as f64)
    });
    page.family("seawall_alarm", "gauge", "An active alarm: 1 for as long as it lasts.");
    for Sample { status, .. } in samples {
        for alarm in &status.alarms {
            let [name, db] = labels(status);
            let silenced = if alarm.silenced_until.is_some() { "true" } else { "false" };
            let rest = [("code", &*alarm.code), ("severity", alarm.severity.name()), ("silenced", silenced)];
            page.line("seawall_alarm", &[&[name, db][..], &rest].concat(), 1);
        }
    }
    page.family("seawall_phase", "gauge", "What the protection is doing: 1 for the phase that it is in.");
    for Sample { status, .. } in samples {
        let [name, db] = labels(status);
        page.line("seawall_phase", &[name, db, ("phase", status.phase.name())], 1);
    }
}

/// The newest proof of each database that is proved by a schedule. Nothing where there is none.
fn of_proofs(page: &mut Page, samples: &[Sample]) {
    let proofs: Vec<(&Status, &Proof)> =
        samples.iter().filter_map(|sample| Some((&sample.status, sample.status.proof.as_ref()?))).collect();
    if proofs.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "seawall_proof_timestamp_seconds",
            "When the newest proof ended.",
            (|_, proof| proof.at.as_millis() as f64 / 1e3) as fn(&Status, &Proof) -> f64,
        ),
        ("seawall_proof_age_seconds", "How long ago that was.", |status, proof| {
            status.at.since(proof.at).as_secs_f64()
        }),
        ("seawall_proof_holds", "Whether the newest proof was made and found nothing wrong.", |_, proof| {
            f64::from(u8::from(proof.holds()))
        }),
        ("seawall_proof_conclusive", "Whether it could be made.", |_, proof| f64::from(u8::from(!proof.inconclusive))),
        ("seawall_proof_faults", "What it found wrong.", |_, proof| proof.faults.len() as f64),
        ("seawall_proof_duration_seconds", "How long it took.", |_, proof| proof.duration_ms as f64 / 1e3),
        ("seawall_proof_restore_seconds", "How long the restore of the newest point took.", |_, proof| {
            proof.restore_ms as f64 / 1e3
        }),
        ("seawall_proof_restored_bytes", "The size of what was restored.", |_, proof| proof.restored_bytes as f64),
        ("seawall_proof_read_bytes", "What was read from the vault for it.", |_, proof| proof.read_bytes as f64),
    ] {
        page.family(name, "gauge", help);
        for (status, proof) in &proofs {
            page.line(name, &labels(status), value(status, proof));
        }
    }
    page.family("seawall_proof_level", "gauge", "The level that it reached: 1 for that level.");
    for (status, proof) in &proofs {
        let [name, db] = labels(status);
        page.line("seawall_proof_level", &[name, db, ("level", proof.level.name())], 1);
    }
}

/// How a name ends, what it counts, and the value of one kind of work.
type Measure = (&'static str, &'static str, fn(Work) -> f64);

/// What is told of every kind of work.
const MEASURES: [Measure; 4] = [
    ("total", "how many", |w| w.done as f64),
    ("failed_total", "how many were in vain", |w| w.failed as f64),
    ("bytes_total", "their bytes", |w| w.bytes as f64),
    ("seconds_total", "their time", |w| w.micros as f64 / 1e6),
];

/// What was done since the process began.
fn of_figures(page: &mut Page, samples: &[Sample]) {
    for (name, help, what) in [
        ("bases", "complete copies", (|f| f.bases) as fn(&Figures) -> Work),
        ("restores", "restores", |f| f.restores),
        ("verifications", "verifications", |f| f.verifications),
        ("captures", "captures shipped", |f| f.captures),
    ] {
        for (end, unit, value) in MEASURES {
            let name = format!("seawall_{name}_{end}");
            page.family(&name, "counter", &format!("Of {help}: {unit}."));
            for sample in samples {
                page.line(&name, &labels(&sample.status), value(what(&sample.figures)));
            }
        }
    }
    of_levels(page, samples);
    page.family("seawall_requests_total", "counter", "Requests to the database's vault, by operation.");
    for sample in samples {
        let [name, db] = labels(&sample.status);
        for (operation, count) in operations(sample) {
            page.line("seawall_requests_total", &[name, db, ("operation", operation)], count);
        }
    }
    for (name, help, value) in [
        ("seawall_requests_retried_total", "Requests that repeated a failed one.", 0),
        ("seawall_requests_failed_total", "Requests that failed, refusals excepted.", 1),
    ] {
        page.family(name, "counter", help);
        for sample in samples {
            let requests = sample.figures.requests;
            let value = if value == 0 { requests.retries } else { requests.failures };
            page.line(name, &labels(&sample.status), value);
        }
    }
}

/// What is done by level. A level at which nothing was ever done has no line.
fn of_levels(page: &mut Page, samples: &[Sample]) {
    for (name, help, of) in [
        ("compactions", "merges, by the level of the result", (|f| &f.compactions) as fn(&Figures) -> &[Work; 10]),
        ("deletions", "objects deleted by retention, by level", |f| &f.deletions),
    ] {
        for (end, unit, value) in MEASURES {
            let name = format!("seawall_{name}_{end}");
            page.family(&name, "counter", &format!("Of {help}: {unit}."));
            for sample in samples {
                let [named, db] = labels(&sample.status);
                for (level, work) in of(&sample.figures).iter().enumerate() {
                    if *work != Work::default() {
                        page.line(&name, &[named, db, ("level", &level.to_string())], value(*work));
                    }
                }
            }
        }
    }
}

/// What the process uses, under the names that every exporter has.
/// What the process itself uses.
pub(crate) fn of_process(page: &mut Page, resources: &Resources, started: i64) {
    for (name, kind, help, value) in [
        ("process_cpu_seconds_total", "counter", "User and system time.", resources.cpu_seconds),
        ("process_resident_memory_bytes", "gauge", "Resident memory.", resources.resident_bytes),
        ("process_open_fds", "gauge", "Open file descriptors.", resources.open_files),
        ("process_max_fds", "gauge", "How many may be open.", resources.max_files),
        ("process_threads", "gauge", "Threads.", resources.threads),
        ("process_start_time_seconds", "gauge", "When it was started.", Some(started as f64 / 1e3)),
    ] {
        if let Some(value) = value {
            page.family(name, kind, help);
            page.line(name, &[], value);
        }
    }
}

fn labels(status: &Status) -> [(&'static str, &str); 2] {
    [("database", &status.name), ("db", &status.source)]
}

fn seconds(work: &Work) -> Option<f64> {
    Some(work.micros as f64 / 1e6)
}

/// Text in Prometheus' format.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    /// All of it.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text can't fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(text));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seawall_core::{Activity, LastError, Moment, Point, Requests};

    use super::*;

    fn sample(name: &str) -> Sample {
        let activity = Activity::default();
        activity.captures.done(4096, Duration::from_millis(1500));
        activity.compactions[1].done(512, Duration::from_secs(2));
        Sample {
            status: Status {
                name: name.to_owned(),
                engine: "stub".to_owned(),
                source: "/data/\"odd\"\\\n.db".to_owned(),
                vault: "s3://bucket/app".to_owned(),
                vaults: Vec::new(),
                limits: Vec::new(),
                phase: seawall_core::Phase::Failing,
                protected: Some(Point { position: "00000000000000af".into(), moment: Moment::from_millis(1_500) }),
                lag_bytes: 2048,
                lag_ms: 2500,
                source_bytes: Some(8192),
                log_bytes: None,
                content_read_at: Some(Moment::from_millis(2_500)),
                vault_seen_at: Some(Moment::from_millis(2_250)),
                proof: None,
                hole: None,
                credentials_end: None,
                alarms: Vec::new(),
                silenced_until: None,
                progress: None,
                error: Some(LastError {
                    code: "vault.unavailable".into(),
                    message: String::new(),
                    next: String::new(),
                    at: Moment::default(),
                    count: 3,
                }),
                upkeep: None,
                at: Moment::default(),
            },
            figures: activity.figures(Requests { put: 7, bytes_up: 9, ..Requests::default() }),
        }
    }

    /// No two lines of a page may have the same name and labels: one of them would be lost.
    #[test]
    fn databases_with_one_file_name_have_lines_of_their_own() {
        let at = |name: &str, folder: &str| {
            let mut sample = sample(name);
            sample.status.source = format!("/{folder}/app.db");
            sample
        };
        let page = render(&[at("one", "a"), at("two", "b")], &Resources::default(), "1.2.3", 5_000);
        let mut lines: Vec<_> = page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        let all = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), all, "{page}");
        assert_eq!(page.matches("litestream_txid{db=").count(), 2, "{page}");
    }

    #[test]
    fn the_page() {
        let page = render(&[sample("app")], &Resources::default(), "1.2.3", 5_000);
        let db = r#"db="/data/\"odd\"\\\n.db""#;
        for line in [
            format!("litestream_db_size{{{db}}} 8192"),
            format!("litestream_txid{{{db}}} 175"),
            format!("litestream_sync_count{{{db}}} 1"),
            format!("litestream_sync_seconds{{{db}}} 1.5"),
            format!("litestream_db_idle{{{db}}} 1"),
            "litestream_replica_operation_total{replica_type=\"s3\",operation=\"PUT\"} 7".to_owned(),
            "litestream_replica_operation_bytes{replica_type=\"s3\",operation=\"PUT\"} 9".to_owned(),
            format!("seawall_protected_timestamp_seconds{{database=\"app\",{db}}} 1.5"),
            format!("seawall_content_read_timestamp_seconds{{database=\"app\",{db}}} 2.5"),
            format!("seawall_vault_seen_timestamp_seconds{{database=\"app\",{db}}} 2.25"),
            format!("seawall_lag_seconds{{database=\"app\",{db}}} 2.5"),
            format!("seawall_errors_since_success{{database=\"app\",{db}}} 3"),
            format!("seawall_phase{{database=\"app\",{db},phase=\"failing\"}} 1"),
            format!("seawall_compactions_seconds_total{{database=\"app\",{db},level=\"1\"}} 2"),
            format!("seawall_requests_total{{database=\"app\",{db},operation=\"PUT\"}} 7"),
            "seawall_info{version=\"1.2.3\"} 1".to_owned(),
            "process_start_time_seconds 5".to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        assert!(!page.contains("litestream_wal_size{"), "what isn't known has no line");
        assert!(!page.contains("level=\"2\""));
    }

    #[test]
    fn a_proof_has_its_lines() {
        let proof = Proof {
            database: "app".into(),
            engine: "stub".into(),
            at: Moment::from_millis(2_000),
            point: Some(Point { position: "1".into(), moment: Moment::default() }),
            level: seawall_core::Level::Engine,
            restore_ms: 1_500,
            duration_ms: 4_000,
            objects: 1,
            read_bytes: 7,
            restored_bytes: 9,
            host: "h".into(),
            ..Proof::default()
        };
        let mut proved = sample("app");
        (proved.status.proof, proved.status.at) = (Some(proof), Moment::from_millis(5_000));
        let page = render(&[proved, sample("b")], &Resources::default(), "1", 0);
        for (line, value) in [
            ("timestamp_seconds", "2"),
            ("age_seconds", "3"),
            ("holds", "1"),
            ("conclusive", "1"),
            ("faults", "0"),
            ("duration_seconds", "4"),
            ("restore_seconds", "1.5"),
            ("restored_bytes", "9"),
            ("read_bytes", "7"),
        ] {
            let begin = format!("seawall_proof_{line}{{database=\"app\",");
            let found: Vec<&str> = page.lines().filter(|found| found.starts_with(&begin)).collect();
            assert!(found.len() == 1 && found[0].ends_with(&format!(" {value}")), "{line}: {found:?}");
        }
        assert!(page.contains("level=\"engine\"} 1") && !page.contains("seawall_proof_holds{database=\"b\""), "{page}");
    }

    #[test]
    fn every_family_stands_once_and_before_its_lines() {
        let page = render(&[sample("a"), sample("b")], &Resources::of_process(), "1", 0);
        let (mut known, mut present) = (std::collections::BTreeSet::new(), "");
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                present = rest.split(' ').next().expect("a name");
                assert!(known.insert(present), "{present} stands twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().expect("a name");
                assert_eq!(name, present, "{line}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(known.len() > 40, "{known:?}");
        #[cfg(target_os = "linux")]
        assert!(known.contains("process_resident_memory_bytes") && known.contains("process_max_fds"));
    }
}
