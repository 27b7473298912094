//! The services of a process: metrics, MCP, heartbeats. Each has a listener of its own, and none is on by default.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use seawall_tests::{Process, Random, Stand, ask_address, model, wait};
use serde_json::{Value, json};

const TOKEN: &str = "a-token-of-some-length";

/// `seawall replicate` with a configuration for the stand's database that ends with `more`.
fn configured(stand: &Stand, more: &str) -> Process {
    let config = stand.path("seawall.yml");
    let text = format!(
        "{more}\nsocket: {{ path: s.sock }}\nlogging: {{ type: json }}\ndatabases:\n  - path: app.db\n    vault: {}\n",
        stand.place.url()
    );
    std::fs::write(config, text).unwrap();
    Process::spawn("seawall", stand.command().arg("replicate"))
}

/// The address of a service, from the log.
pub(crate) fn address(process: &mut Process, service: &str) -> String {
    wait::until(&format!("{service} to listen"), wait::SOON, || {
        let log = process.stderr();
        let line = log.lines().find(|line| line.contains(&format!("{service}: listening")))?;
        let line: Value = serde_json::from_str(line).ok()?;
        Some(line["address"].as_str()?.to_owned())
    })
}

/// The samples of a page: each line's name with its labels, and its value.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn metrics_tell_what_is_so() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = configured(&stand, "metrics-addr: 127.0.0.1:0");
    let address = address(&mut seawall, "metrics");
    app.commit(10);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let scrape = || {
        let (status, page) = ask_address(&address, "GET", "/metrics", "", "");
        assert_eq!(status, 200, "{page}");
        samples(&page)
    };
    let path = stand.db().display().to_string();
    let (theirs, ours) = (format!("{{db=\"{path}\"}}"), format!("{{database=\"app\",db=\"{path}\"}}"));
    let before = scrape();
    let of = |page: &BTreeMap<String, f64>, name: &str, labels: &str| {
        *page.get(&format!("{name}{labels}")).unwrap_or_else(|| panic!("{name}{labels} is missing in {page:#?}"))
    };
    assert_eq!(of(&before, "litestream_txid", &theirs), stand.place.newest() as f64);
    assert_eq!(of(&before, "litestream_db_size", &theirs), std::fs::metadata(stand.db()).unwrap().len() as f64);
    assert!(of(&before, "litestream_wal_size", &theirs) > 0.0);
    assert_eq!(of(&before, "seawall_lag_bytes", &ours), 0.0);
    assert_eq!(of(&before, "seawall_lag_seconds", &ours), 0.0);
    assert_eq!(of(&before, "seawall_bases_total", &ours), 1.0);
    assert_eq!(of(&before, "seawall_databases", ""), 1.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let protected = of(&before, "seawall_protected_timestamp_seconds", &ours);
    assert!((now - protected).abs() < 120.0, "{protected} {now}");
    let put = format!("{{database=\"app\",db=\"{path}\",operation=\"PUT\"}}");
    // The base and the empty capture after it. The commits may be in the base.
    assert!(of(&before, "seawall_requests_total", &put) >= 2.0);
    app.commit(10);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let after = scrape();
    let grown = |name: &str, labels: &str| of(&after, name, labels) - of(&before, name, labels);
    assert!(grown("litestream_sync_count", &theirs) >= 1.0);
    assert!(grown("seawall_captures_bytes_total", &ours) > 0.0);
    assert_eq!(grown("seawall_bases_total", &ours), 0.0);
    assert_eq!(of(&after, "litestream_txid", &theirs), stand.place.newest() as f64);
    for (method, target, status) in
        [("GET", "/", 404), ("GET", "/debug/pprof/", 404), ("GET", "/list", 404), ("POST", "/metrics", 405)]
    {
        assert_eq!(ask_address(&address, method, target, "", "").0, status, "{method} {target}");
    }
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
}

#[test]
fn an_assistant_needs_the_token() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(5);
    let more = format!("mcp-addr: 127.0.0.1:0\nmcp-token: {TOKEN}\nmcp-actions: true");
    let mut seawall = configured(&stand, &more);
    let address = address(&mut seawall, "MCP");
    let body = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    let hello = body("initialize", json!({ "protocolVersion": "2025-06-18" }));
    for headers in ["", "authorization: Bearer wrong-token-of-length\r\n", "authorization: Basic eDp5\r\n"] {
        assert_eq!(ask_address(&address, "POST", "/mcp", headers, &hello).0, 401, "{headers}");
    }
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    let ask = |method: &str, params: Value| {
        let (status, answer) = ask_address(&address, "POST", "/mcp", &token, &body(method, params));
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["result"].clone()
    };
    assert_eq!(ask("initialize", json!({}))["serverInfo"]["name"], "seawall");
    // The service answers before the protection has its locks.
    let synced = wait::until("the protection runs", wait::SOON, || {
        let synced = ask("tools/call", json!({ "name": "seawall_sync", "arguments": { "database": "app" } }));
        Some(synced).filter(|synced| synced["structuredContent"]["error"]["code"] != "sqlite.not-running")
    });
    assert_eq!(synced["structuredContent"]["txid"], stand.place.newest(), "{synced}");
    let timeline = ask("tools/call", json!({ "name": "seawall_timeline", "arguments": { "database": "app" } }));
    assert_eq!(timeline["structuredContent"]["holes"], json!([]), "{timeline}");
    assert_eq!(model::check(&stand.restore(), stand.seed), 5);
    let log = seawall.stderr();
    assert!(!log.contains(TOKEN), "the token is in the log");
    seawall.stop().ok();
}

#[test]
fn a_heartbeat_is_refused_below_a_minute_and_its_url_is_not_shown() {
    let stand = Stand::folder(0);
    let mut process = configured(&stand, "heartbeat-url: http://127.0.0.1:1/hush\nheartbeat-interval: 10s");
    let output = process.wait(wait::SOON).exits(2);
    assert!(output.stderr.contains("heartbeat-interval") && !output.stderr.contains("hush"), "{output}");
}

/// The metrics that a text names.
fn named(text: &str) -> std::collections::BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("seawall_")).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_alert_rules_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let (dashboard, rules) = (read("grafana/seawall.json"), read("prometheus/seawall.rules.yml"));
    serde_json::from_str::<Value>(&dashboard).unwrap();
    assert!(named(&dashboard).len() > 9 && named(&rules).len() > 3);
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(3);
    // Metrics of proofs are there once one was made.
    let mut seawall = configured(&stand, "metrics-addr: 127.0.0.1:0\nprove: { schedule: \"H 5 1 1 *\" }");
    let address = address(&mut seawall, "metrics");
    wait::until("every metric", wait::SOON * 4, || {
        let page = ask_address(&address, "GET", "/metrics", "", "").1;
        let known: std::collections::BTreeSet<&str> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let missing: Vec<_> =
            named(&dashboard).union(&named(&rules)).filter(|name| !known.contains(*name)).copied().collect();
        if !page.contains("seawall_proof_holds{") {
            return None;
        }
        assert_eq!(missing, [""; 0]);
        Some(())
    });
    seawall.stop().ok();
}

/// A monitoring service, and the heartbeats that it got.
fn monitoring() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (got, beats) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
            if got.send(head).is_err() {
                return;
            }
        }
    });
    (address, beats)
}

#[test]
fn a_heartbeat_is_sent_while_all_is_well_and_withheld_while_an_alarm_is_critical() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let (address, beats) = monitoring();
    let more = format!("heartbeat-url: http://{address}/hush\nheartbeat-interval: 1m");
    let beat = |why: &str| {
        let head = wait::until(why, wait::SOON * 2, || beats.try_recv().ok());
        assert!(head.starts_with("GET /hush HTTP/1.1\r\n"), "{head}");
    };
    let mut seawall = configured(&stand, &more);
    beat("the first heartbeat");
    assert_eq!(stand.seawall(&["status", "--check"]).code(), 0);
    seawall.stop().ok();

    // The disk of the vault is away.
    let (vault, away) = (stand.place.root(), stand.path("away"));
    std::fs::rename(&vault, &away).unwrap();
    let mut seawall = configured(&stand, &more);
    wait::until("a heartbeat to be withheld", wait::SOON * 2, || {
        seawall.stderr().contains("no heartbeat").then_some(())
    });
    let told = stand.seawall(&["status", "--check"]).exits(1);
    assert!(told.stdout.contains("critical[alarm.failing]"), "{told}");
    assert!(beats.try_recv().is_err(), "one was sent");
    std::fs::rename(&away, &vault).unwrap();
    beat("a heartbeat of a process that is well again");
    assert_eq!(stand.seawall(&["status", "--check"]).code(), 0);
    assert!(!seawall.stderr().contains("hush"));
    seawall.stop().ok();
}
