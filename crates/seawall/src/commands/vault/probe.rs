//! `seawall vault probe`: what a store can, how fast it is, and what a day of protection costs there.

use std::time::Duration;

use seawall_agent::cost::{self, Day, Load, Prices};
use seawall_agent::{Opener, VaultUrl};
use seawall_core::{Failure, SystemClock};
use seawall_vault::trial::{self, Effort, Finding, Transfer, Trial};
use seawall_vault::{Access, Protection};
use serde_json::{Value, json};

use crate::arguments::VaultProbeArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;
use crate::{runtime, server, table};

/// A clock that differs by less than this is right: many stores tell whole seconds.
pub(in crate::commands) const SAME_CLOCK_MS: u64 = 5_000;

/// Runs the command.
pub(crate) fn run(arguments: &VaultProbeArguments, edge: &Edge) -> Result<Output, Failure> {
    let url = server::place(&arguments.vault, edge)?;
    let size = if arguments.size == "0" { 0 } else { server::size("--size", &arguments.size)? };
    let effort = Effort { rounds: arguments.rounds, size, lanes: 1 };
    let opener = Opener::new(edge.environment.clone(), 1);
    runtime::run(async {
        // An encrypted vault is tried without any key.
        let names = opener.vault_with(&url, Access::Names).await?;
        let trial = trial::run(&names, effort, &SystemClock).await?;
        let batch = names.abilities().delete_batch as u64;
        Ok(report(names.url(), &trial, effort, &Costs::of(&url, batch)))
    })
}

/// What a day costs.
struct Costs {
    idle: Day,
    busy: Day,
    prices: Option<&'static Prices>,
}

impl Costs {
    fn of(url: &VaultUrl, delete_batch: u64) -> Self {
        let day = |load: &Load| cost::day(load, delete_batch);
        Self { idle: day(&Load::IDLE), busy: day(&Load::BUSY), prices: Prices::of(url) }
    }
}

fn report(vault: &str, trial: &Trial, effort: Effort, costs: &Costs) -> Output {
    let text = format!(
        "{vault}\n\n{}{}\n{}\n{}",
        table::table(&["ability", "", ""], abilities(trial), &[]),
        limits(trial),
        speeds(trial, effort),
        day(costs)
    );
    let text = format!("{text}{}", left(trial));
    let json = json!({
        "vault": vault,
        "abilities": {
            "write": of_finding(&trial.write),
            "read": of_finding(&trial.read),
            "ranged_read": of_finding(&trial.ranges),
            "list": of_finding(&trial.list),
            "delete": of_finding(&trial.delete),
            "stamps": of_finding(&trial.stamps),
            "create_only": trial.conditions.map(|found| found.exclusive_create()),
            "compare_and_swap": trial.conditions.map(|found| found.exclusive_update()),
            "versions": trial.protection.and_then(|protection| protection.versions),
            "object_lock": trial.protection.and_then(|protection| protection.locks),
            "lock_s": trial.protection.and_then(|protection| protection.each).map(|(_, span)| span.as_secs()),
        },
        "limits": trial.limits,
        "encrypted": trial.recipients.as_ref().map(|recipients| !recipients.is_empty()),
        "clock_ahead_ms": trial.clock_ahead_ms,
        "rounds": effort.rounds,
        "latency_ms": { "put": millis(trial.put), "get": millis(trial.get), "list": millis(trial.list_time) },
        "upload": trial.upload.map(of_transfer),
        "download": trial.download.map(of_transfer),
        "day": {
            "idle": of_day(&costs.idle, costs.prices),
            "busy": of_day(&costs.busy, costs.prices),
            "prices": costs.prices.map(|prices| json!({
                "provider": prices.provider,
                "source": prices.source,
                "read": prices.read,
                "storage_gb_month": prices.storage,
            })),
        },
        "written": { "objects": trial.written.0, "bytes": trial.written.1 },
        "left": trial.left.iter().map(|left| json!({ "key": left.key, "cause": left.cause })).collect::<Vec<_>>(),
    });
    Output { exit: judge(trial), ..Output::done(text, &json) }
}

/// Partly done, if these credentials may not write, or an object is left that they might have deleted.
fn judge(trial: &Trial) -> Exit {
    let left = trial.left.iter().any(|left| !left.denied);
    Exit::judge(true, trial.write == Finding::Yes && !left)
}

fn abilities(trial: &Trial) -> Vec<Vec<String>> {
    let row = |name: &str, (found, note): (&str, String)| vec![name.to_owned(), found.to_owned(), note];
    let finding = |finding: &Finding| match finding {
        Finding::Yes => ("yes", String::new()),
        Finding::No(cause) => ("no", cause.clone()),
        Finding::Unknown => ("unknown", String::new()),
    };
    let told = |known: Option<bool>| (known.map_or("unknown", |able| if able { "yes" } else { "no" }), String::new());
    let create = trial.conditions.map(|found| found.exclusive_create());
    let update = trial.conditions.map(|found| found.exclusive_update());
    let protection = trial.protection.unwrap_or_default();
    let encrypted = trial.recipients.as_ref().map(|recipients| !recipients.is_empty());
    vec![
        row("write", finding(&trial.write)),
        row("read", finding(&trial.read)),
        row("ranged read", finding(&trial.ranges)),
        row("list", finding(&trial.list)),
        row("delete", finding(&trial.delete)),
        row("create-only write", told(create)),
        row("compare-and-swap (If-Match)", told(update)),
        row("stamps", finding(&trial.stamps)),
        row("versions", told(protection.versions)),
        row("Object Lock", (told(protection.locks).0, of_lock(&protection))),
        row("encrypted by Seawall", told(encrypted)),
    ]
}

fn of_lock(protection: &Protection) -> String {
    protection.each.map_or_else(String::new, |(mode, span)| {
        format!("each new object for {} ({mode})", table::span(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    })
}

fn limits(trial: &Trial) -> String {
    let lines = trial.limits.iter().map(|limit| format!("no {}: {}\n", limit.lacks, limit.effect));
    let mut text: String = lines.collect();
    if let Some(ahead) = trial.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() >= SAME_CLOCK_MS) {
        let way = if ahead > 0 { "ahead of" } else { "behind" };
        text.push_str(&format!("its clock is {} {way} this machine's\n", table::span(ahead.unsigned_abs())));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn speeds(trial: &Trial, effort: Effort) -> String {
    let time = |time: Option<Duration>| millis(time).map_or_else(|| "-".to_owned(), |time| format!("{time:.1} ms"));
    let rate = |moved: Option<Transfer>| {
        moved.map_or_else(|| "-".to_owned(), |moved| format!("{}/s", table::bytes(moved.rate())))
    };
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let rounds = table::count(effort.rounds as usize, "round");
    let rows = vec![
        row("small PUT", time(trial.put)),
        row("small GET", time(trial.get)),
        row("LIST", time(trial.list_time)),
        row("upload", rate(trial.upload)),
        row("download", rate(trial.download)),
    ];
    let of_large =
        if effort.size == 0 { String::new() } else { format!("; {} in one object", table::bytes(effort.size)) };
    let heading = format!("speed (median of {rounds}{of_large})");
    table::table(&[&heading, ""], rows, &[1])
}

fn day(costs: &Costs) -> String {
    let row = |name: &str, day: &Day| {
        let money = costs.prices.map_or_else(|| "unknown".to_owned(), |prices| format!("${:.4}", prices.of_day(day)));
        let counts = [day.put, day.get, day.list, day.delete].map(|count| count.to_string());
        let bytes = [day.bytes_up, day.bytes_down].map(table::bytes);
        [vec![name.to_owned()], counts.to_vec(), bytes.to_vec(), vec![money]].concat()
    };
    let heading = ["a day of one SQLite database", "PUT", "GET", "LIST", "DELETE", "up", "down", "cost"];
    let rows = vec![row("idle", &costs.idle), row("busy: a commit of 4 KiB each second", &costs.busy)];
    let table = table::table(&heading, rows, &[1, 2, 3, 4, 5, 6, 7]);
    let prices = costs.prices.map_or_else(
        || "The provider isn't known by its endpoint, so there are no prices.\n".to_owned(),
        |prices| {
            format!(
                "Prices of {}, read in {} from {}: requests and bytes read, without free allowances. What is kept costs \
                 ${} for a GB and month.\n",
                prices.provider, prices.read, prices.source, prices.storage
            )
        },
    );
    format!(
        "{table}Computed for default settings and a complete copy of 100 MiB each day; bytes are at most these.\n{prices}"
    )
}

fn left(trial: &Trial) -> String {
    let mut text = String::new();
    if let Some(first) = trial.left.first() {
        text.push_str(&format!("\nnot deleted: {}\n", first.cause));
        trial.left.iter().for_each(|left| text.push_str(&format!("  {}\n", left.key)));
    } else if trial.protection.is_some_and(|protection| protection.versions == Some(true)) {
        let (objects, bytes) = trial.written;
        text.push_str(&format!(
            "\nThe bucket keeps versions: the {objects} deleted objects ({}) stay as old versions until a rule of the bucket \
             removes them.\n",
            table::bytes(bytes)
        ));
    }
    text
}

fn of_finding(finding: &Finding) -> Value {
    let (able, cause) = match finding {
        Finding::Yes => (Some(true), None),
        Finding::No(cause) => (Some(false), Some(cause)),
        Finding::Unknown => (None, None),
    };
    json!({ "able": able, "cause": cause })
}

fn of_transfer(moved: Transfer) -> Value {
    json!({ "bytes": moved.bytes, "ms": millis(Some(moved.took)), "bytes_per_second": moved.rate() })
}

fn of_day(day: &Day, prices: Option<&Prices>) -> Value {
    json!({
        "put": day.put,
        "get": day.get,
        "list": day.list,
        "delete": day.delete,
        "bytes_up": day.bytes_up,
        "bytes_down": day.bytes_down,
        "dollars": prices.map(|prices| prices.of_day(day)),
    })
}

/// Milliseconds with a fraction.
fn millis(time: Option<Duration>) -> Option<f64> {
    time.map(|time| (time.as_secs_f64() * 1e6).round() / 1000.0)
}
