//! `--json` of every command: one document, with the fields that are documented.

use seawall_tests::{Random, Stand, protected};
use serde_json::Value;

fn is_point(value: &Value) -> bool {
    value["position"].as_str().is_some_and(|p| p.len() == 16)
        && value["moment"].as_str().is_some_and(|m| m.ends_with('Z'))
}

#[test]
fn every_command_speaks_json() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(25);
    let mut seawall = stand.replicate();
    let newest = stand.until_protected(&mut seawall);
    let status = stand.status();
    assert_eq!(protected(&status), Some(newest));
    assert_eq!(status["engine"], "sqlite");
    assert_eq!(status["phase"], "protecting");
    assert_eq!(status["lag_bytes"], 0);
    assert_eq!(status["error"], Value::Null);
    assert!(status["source"].as_str().unwrap().ends_with("app.db"), "{status}");
    seawall.stop().ok();
    assert_eq!(stand.status()["phase"], "stopped");

    let url = stand.place.url();
    let timeline = stand.seawall(&["timeline", &url, "--json"]).ok().json();
    let spans = timeline["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 1, "{timeline}");
    assert!(is_point(&spans[0]["from"]) && is_point(&spans[0]["to"]), "{timeline}");
    assert_eq!(spans[0]["to"]["position"], format!("{:016x}", stand.place.newest()));
    assert_eq!(timeline["holes"], Value::Array(vec![]));
    let level = |name: &str| {
        timeline["levels"].as_array().unwrap().iter().find(|l| l["level"] == name).unwrap_or(&Value::Null).clone()
    };
    assert_eq!(level("0")["objects"], stand.place.files(0).len());
    assert_eq!(level("9")["objects"], 1);

    let verification = stand.seawall(&["verify", &url, "--json"]).ok().json();
    assert!(is_point(&verification["newest"]), "{verification}");
    assert_eq!(verification["findings"], Value::Array(vec![]));
    assert_eq!(verification["objects"], stand.place.files(0).len() + 1);
    assert!(verification["bytes"].as_u64().unwrap() > 0);

    let file = stand.new_file();
    let target = file.to_str().unwrap();
    let plan = stand.seawall(&["restore", &url, "-o", target, "--dry-run", "--json"]).ok().json();
    assert_eq!(plan["dry_run"], true);
    assert!(!plan["objects"].as_array().unwrap().is_empty(), "{plan}");
    assert!(plan["objects"][0]["key"].as_str().is_some() && plan["objects"][0]["bytes"].as_u64().is_some(), "{plan}");
    assert!(!file.exists(), "a dry run writes nothing");
    let restored = stand.seawall(&["restore", &url, "-o", target, "--json"]).ok().json();
    assert!(is_point(&restored["point"]), "{restored}");
    assert_eq!(restored["dry_run"], false);
    assert_eq!(restored["bytes"], std::fs::metadata(&file).unwrap().len());
    assert_eq!(restored["objects"], plan["objects"]);

    let config = stand.litestream_yml("");
    let checked = stand.seawall(&["config", "check", "--json", "--config", config.to_str().unwrap()]).ok();
    assert!(checked.json().is_object() || checked.json().is_array(), "{checked}");
}

#[test]
fn errors_speak_json_too() {
    let stand = Stand::folder(0);
    let output = stand.seawall(&["timeline", &stand.place.url(), "--json"]).exits(4);
    let text = if output.stdout.trim().is_empty() { &output.stderr } else { &output.stdout };
    let error: Value = serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("no JSON: {e}\n{output}"));
    let error = if error["error"].is_object() { &error["error"] } else { &error };
    for field in ["kind", "code", "object", "cause", "next"] {
        assert!(error[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {output}");
    }
}

#[test]
fn a_pipe_gets_no_progress_and_no_escape_sequences() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(25);
    stand.replicate_once();
    let url = stand.place.url();
    let file = stand.new_file();
    for args in [
        &["timeline", &url][..],
        &["verify", &url],
        &["restore", &url, "-o", file.to_str().unwrap()],
        &["status", "app.db"],
    ] {
        let output = stand.seawall(args).ok();
        assert!(!output.stdout.contains('\x1b') && !output.stderr.contains('\x1b'), "{output}");
        assert!(!output.stdout.contains('\r') && !output.stderr.contains('\r'), "{output}");
    }
}

#[test]
fn progress_is_lines_of_json_for_programs() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(25);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    let output = stand.seawall(&["verify", &stand.place.url(), "--json", "--progress", "json"]).ok();
    let told: Vec<Value> = output.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ended: Vec<&Value> = told.iter().filter(|line| line["progress"] == "end").collect();
    assert!(ended.iter().any(|line| line["done_bytes"].as_u64() > Some(0) && line["stage"].is_string()), "{told:?}");
    assert_eq!(told.iter().filter(|line| line["progress"] == "begin").count(), ended.len(), "{told:?}");
    assert!(output.json()["findings"].as_array().is_some_and(Vec::is_empty));
    let silent = stand.seawall(&["verify", &stand.place.url(), "--progress", "none"]).ok();
    assert!(!silent.stderr.contains("progress"), "{}", silent.stderr);
}
