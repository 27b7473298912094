//! `seawall demo`: protects, kills and restores a database that it makes itself.

use std::time::Duration;

use seawall_tests::{Process, Stand};

#[test]
fn the_demo_does_its_job_and_says_what_to_type_next() {
    let stand = Stand::folder(0);
    for run in 1..=2 {
        let output = Process::spawn("seawall", stand.command().arg("demo")).wait(Duration::from_secs(60)).ok();
        assert!(output.stdout.contains("seawall replicate"), "run {run}: {output}");
        assert!(output.stdout.contains("seawall restore"), "run {run}: {output}");
    }
    assert!(stand.path("vault").is_dir());
}

#[test]
fn the_demo_in_json() {
    let stand = Stand::folder(0);
    let output = Process::spawn("seawall", stand.command().args(["demo", "--json"])).wait(Duration::from_secs(60)).ok();
    assert!(output.json().is_object(), "{output}");
}
