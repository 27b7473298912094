//! Runs `benches/soak.py` for half a minute: several databases, random events, every restore compared.

use std::path::Path;
use std::process::Command;

use seawall_tests::{Random, peer, seawall};

fn soak(more: &[&str]) {
    let seed = Random::from_env().draw() >> 32;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/soak.py");
    let mut python = Command::new("python3");
    python.arg(script).args(["--seconds", "30", "--seed", &seed.to_string(), "--seawall"]).arg(seawall()).args(more);
    let done = python.output().expect("python3 runs");
    let (output, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{output}{errors}");
    assert!(output.contains("\"commits\""), "{output}{errors}");
}

#[test]
fn several_databases_in_a_folder() {
    soak(&[]);
}

#[test]
fn several_databases_on_s3() {
    let server = peer("versitygw");
    soak(&["--s3", server.to_str().expect("a name")]);
}
