//! Clocks that jump (I17): moments are never in the future, and a jump is reported. The engine's own tests simulate the
//! jumps. Here the state record says that the clock was different.

use seawall_tests::{Random, Stand, digest, model, wait};
use serde_json::Value;

/// Makes the record say that the wall clock was `millis` ahead of where it really was.
fn the_clock_stood(stand: &Stand, millis: i64) {
    let file = stand.state().join("state.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let wall = record["clock"]["belief"]["right"]["wall"].as_str().unwrap();
    let moved = wall.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_millis(millis);
    record["clock"]["belief"]["right"]["wall"] = Value::String(moved.to_string());
    std::fs::write(&file, record.to_string()).unwrap();
}

fn moment(stand: &Stand) -> jiff::Timestamp {
    stand.status()["protected"]["moment"].as_str().unwrap().parse().unwrap()
}

#[test]
fn a_clock_that_jumped_ahead_is_told_and_gives_no_moments() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    stand.replicate_once();
    let before = moment(&stand);
    // As if the clock had been an hour behind until now, and jumped.
    the_clock_stood(&stand, -3_600_000);
    let committed = app.commit(10);
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() == 0 && once.stderr.contains("sqlite.clock"), "{once}");
    assert_eq!(moment(&stand), before, "what the clock says isn't believed, and moments never decrease");
    let status = stand.status();
    assert_eq!(status["error"]["code"], "sqlite.clock");
    let alarms = status["alarms"].as_array().cloned().unwrap_or_default();
    let told = alarms.iter().find(|alarm| alarm["code"] == "alarm.clock").unwrap_or_else(|| panic!("{status}"));
    assert_eq!(told["severity"], "warning", "{told}");
    assert!(told["cause"].as_str().unwrap().contains("(sqlite.clock)"), "{told}");
    assert!(told["next"].as_str().is_some_and(|next| !next.is_empty()), "{told}");
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));

    // It is set right.
    the_clock_stood(&stand, 3_600_000);
    app.commit(1);
    stand.replicate_once();
    let status = stand.status();
    assert!(status["error"].is_null() && !status["alarms"].to_string().contains("alarm.clock"), "{status}");
    assert!(moment(&stand) > before, "{status}");
}

#[test]
fn a_clock_that_goes_with_the_time_is_not_told() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    stand.replicate_once();
    app.commit(10);
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() == 0 && !once.stderr.contains("sqlite.clock"), "{once}");
    assert_eq!(stand.status()["error"], Value::Null);
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
}
