//! `seawall vault probe`, and what `status` and leases make of a store that lacks something.

use std::path::Path;

use seawall_tests::{Random, Stand, digest, model, run, wait};
use seawall_vault::testing::{BUCKET, S3Server, WebdavServer};
use serde_json::{Value, json};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn probe(stand: &Stand, url: &str, more: &[&str]) -> seawall_tests::Output {
    run("seawall", stand.command().args(["vault", "probe", url, "--rounds", "3", "--size", "3MiB"]).args(more))
}

/// The names of files below a folder that a probe has made.
fn leftovers(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(leftovers(&entry.path()));
        } else if name.starts_with("probe-") {
            found.push(name);
        }
    }
    found
}

fn able(told: &Value, name: &str) -> Value {
    told["abilities"][name]["able"].clone()
}

fn lacks(limits: &Value) -> Vec<&str> {
    limits.as_array().into_iter().flatten().map(|limit| limit["lacks"].as_str().unwrap()).collect()
}

#[test]
fn a_folder_in_use_is_probed_and_left_as_it_was() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let url = stand.place.url();
    let told = probe(&stand, &url, &["--json"]).ok().json();
    for name in ["write", "read", "ranged_read", "list", "delete", "stamps"] {
        assert_eq!(able(&told, name), true, "{name}: {told:#}");
    }
    assert_eq!(
        (&told["abilities"]["create_only"], &told["abilities"]["compare_and_swap"]),
        (&json!(true), &json!(true))
    );
    assert_eq!((&told["encrypted"], &told["limits"], &told["left"]), (&json!(false), &json!([]), &json!([])));
    for name in ["put", "get", "list"] {
        assert!(told["latency_ms"][name].as_f64().is_some_and(|time| time > 0.0), "{name}: {told:#}");
    }
    assert_eq!((&told["upload"]["bytes"], &told["download"]["bytes"]), (&json!(3 << 20), &json!(3 << 20)));
    // Requests without money: the provider of a folder isn't known.
    assert_eq!((&told["day"]["prices"], &told["day"]["busy"]["dollars"]), (&Value::Null, &Value::Null));
    assert!(told["day"]["busy"]["put"].as_u64().is_some_and(|count| count > 86_400), "{told:#}");
    assert_eq!(told["day"]["idle"]["put"], 0);
    assert_eq!(leftovers(&stand.place.root()), Vec::<String>::new());

    let args = ["vault", "probe", &url, "--rounds", "1", "--size", "0"];
    let text = run("seawall", stand.command().args(args)).ok().stdout;
    for words in ["compare-and-swap (If-Match)  yes", "so there are no prices", "upload"] {
        assert!(text.contains(words), "{words}: {text}");
    }

    // The writer went on meanwhile.
    app.commit(5);
    wait::until("the last commit to be in the vault", wait::SOON, || {
        (stand.status()["lag_bytes"] == 0 && seawall.running()).then_some(())
    });
    seawall.stop().ok();
    stand.seawall(&["verify", &url]).ok();
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), 35);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    assert_eq!(stand.status()["limits"], Value::Null, "a folder lacks nothing");
}

#[test]
fn an_encrypted_vault_is_probed_without_a_key() {
    let stand = Stand::folder(Random::from_env().seed());
    let url = stand.place.url();
    let key = stand.path("owner.key");
    let made = ["vault", "init", &url, "--generate", "-o", key.to_str().unwrap()];
    run("seawall", stand.command().args(made)).ok();
    let told = probe(&stand, &url, &["--json"]).ok().json();
    assert_eq!((&told["encrypted"], able(&told, "read")), (&json!(true), json!(true)), "{told:#}");
    // The vault is still one that the key opens.
    let again = ["vault", "init", &url, "--generate", "-o", key.to_str().unwrap()];
    let again = run("seawall", stand.command().args(again)).ok();
    assert!(again.stdout.contains("already there"), "{again}");
}

#[test]
fn s3_credentials_that_may_not_list_or_delete_are_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let server = runtime.block_on(S3Server::start_versioned("probing S3", folder.path())).unwrap();
    server.add_user("writer", "writer-secret");
    let policy = json!({ "Version": "2012-10-17", "Statement": [ {
        "Effect": "Allow",
        "Principal": { "AWS": ["writer"] },
        "Action": ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
        "Resource": [format!("arn:aws:s3:::{BUCKET}/*")],
    } ] });
    runtime.block_on(server.put_in(BUCKET, None, "policy", &policy.to_string(), &[]));
    let stand = Stand::folder(Random::from_env().seed());

    // The owner of the bucket.
    let url = server.url("sites/probed");
    let told = probe(&stand, &url, &["--json"]).ok().json();
    for name in ["write", "read", "ranged_read", "list", "delete", "stamps"] {
        assert_eq!(able(&told, name), true, "{name}: {told:#}");
    }
    assert_eq!(told["abilities"]["versions"], false, "{told:#}");
    assert_eq!((&told["left"], &told["day"]["prices"]), (&json!([]), &Value::Null), "versitygw isn't known");
    assert!(told["abilities"]["create_only"].is_boolean() && told["abilities"]["compare_and_swap"].is_boolean());
    assert_eq!(leftovers(folder.path()), Vec::<String>::new());

    let url = server.url_of("sites/probed", "writer", "writer-secret");
    let told = probe(&stand, &url, &["--json"]).ok().json();
    for (name, expected) in [("write", true), ("read", true), ("list", false), ("delete", false)] {
        assert_eq!(able(&told, name), expected, "{name}: {told:#}");
    }
    assert!(told["abilities"]["list"]["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{told:#}");
    let mut named: Vec<String> = told["left"]
        .as_array()
        .unwrap()
        .iter()
        .map(|left| left["key"].as_str().unwrap().trim_start_matches("seawall/").to_owned())
        .collect();
    let mut there = leftovers(folder.path());
    named.sort();
    there.sort();
    assert_eq!(named, there, "everything that is left is named");
    assert!(!there.is_empty());

    // A bucket that keeps versions says so, and that nothing is really gone.
    runtime.block_on(server.keep_versions());
    let text = probe(&stand, &server.url("sites/versioned"), &[]).ok().stdout;
    assert!(text.contains("The bucket keeps versions"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("versions") && line.contains("yes")), "{text}");
}

#[test]
fn an_object_lock_is_seen_on_s3() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let server = runtime.block_on(S3Server::start_versioned("probing Object Lock", folder.path())).unwrap();
    runtime.block_on(server.add_locking("locked", "GOVERNANCE", Some(2)));
    let stand = Stand::folder(Random::from_env().seed());
    let url = server.url("app").replacen(BUCKET, "locked", 1);
    let output = probe(&stand, &url, &["--json"]);
    let told = output.json();
    assert_eq!(told["abilities"]["object_lock"], true, "{told:#}");
    assert_eq!(told["abilities"]["lock_s"], 2 * 24 * 3600, "{told:#}");
    assert_eq!(able(&told, "write"), true);
}

#[test]
fn a_webdav_server_for_a_single_writer_says_so_in_status_and_refuses_leases() {
    let folder = tempfile::tempdir().unwrap();
    let server = runtime().block_on(WebdavServer::nginx("probing WebDAV", folder.path())).unwrap();
    let stand = Stand::folder(Random::from_env().seed());
    let url = server.url("harbour/app");
    let told = probe(&stand, &url, &["--json"]).ok().json();
    for (name, expected) in [("write", true), ("read", true), ("list", true), ("delete", true), ("stamps", false)] {
        assert_eq!(able(&told, name), expected, "{name}: {told:#}");
    }
    assert_eq!(
        (&told["abilities"]["create_only"], &told["abilities"]["compare_and_swap"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(lacks(&told["limits"]), ["create-only", "compare-and-swap", "stamps"], "{told:#}");
    assert_eq!(leftovers(folder.path()), Vec::<String>::new());

    let mut app = stand.app();
    app.commit(40);
    let db = stand.db();
    run("seawall", stand.command().args(["replicate", "--once"]).arg(&db).arg(&url)).ok();
    assert_eq!(lacks(&stand.status()["limits"]), ["create-only", "compare-and-swap", "stamps"]);
    let text = run("seawall", stand.command().arg("status").arg(&db)).ok().stdout;
    for words in ["the vault has no create-only: ", "let only one process write", "no compare-and-swap: no leases"] {
        assert!(text.contains(words), "{words}: {text}");
    }

    let leased = run("seawall", stand.command().args(["replicate", "--once", "--lease"]).arg(&db).arg(&url));
    assert_ne!(leased.code(), 0, "{leased}");
    let said = leased.to_string();
    assert!(said.contains("agent.no-leases") && said.contains("no compare-and-swap (If-Match)"), "{said}");
    assert!(!folder.path().join("files/harbour/app/lock.json").exists(), "no lease is written");

    let file = stand.new_file();
    run("seawall", stand.command().args(["restore", &url, "-o"]).arg(&file)).ok();
    assert_eq!(model::check(&file, stand.seed), 40);
    assert_eq!(digest::of(&file), digest::of(&db));
}

#[test]
fn a_bucket_that_is_not_there_is_a_failure_and_a_wrong_size_wrong_usage_with_s3() {
    let folder = tempfile::tempdir().unwrap();
    let server = runtime().block_on(S3Server::start("probing a missing bucket", folder.path())).unwrap();
    let stand = Stand::folder(Random::from_env().seed());
    let url = server.url("app").replacen(BUCKET, "missing", 1);
    let failed = probe(&stand, &url, &["--json"]);
    assert!([1, 4].contains(&failed.code()), "{failed}");
    assert!(failed.json()["error"]["code"].as_str().is_some_and(|code| code.starts_with("vault.")), "{failed}");
    let refused = run("seawall", stand.command().args(["vault", "probe", &url, "--size", "many"])).exits(2);
    assert!(refused.to_string().contains("--size"), "{refused}");
}
