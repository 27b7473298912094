//! `seawall init`: from what runs on a host to a configuration that protects it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use seawall_lmdb::{Env, EnvOptions};
use seawall_tests::{App, Output, Random, Stand, digest, run, terminal};
use serde_json::{Value, json};

/// Tests of other things run on this host too: only the stand's folder counts.
fn init(stand: &Stand, args: &[&str]) -> Command {
    let mut command = stand.command();
    command.args(["init", "--below", "."]).args(args);
    command
}

fn places(document: &Value) -> Vec<String> {
    let things = document["found"]["things"].as_array().unwrap();
    let place = |thing: &Value| thing["path"].as_str().or_else(|| thing["folder"].as_str()).map(str::to_owned);
    things.iter().filter_map(place).collect()
}

fn text(path: &Path) -> String {
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn what_is_open_is_protected_and_restored() {
    let stand = Stand::folder(Random::from_env().seed());
    let hostile = stand.path("it's \"odd\": ${HOME}\n- # name.db");
    let mut app = stand.app();
    app.commit(7);
    let mut other = App::start(&hostile, stand.seed);
    other.commit(3);
    // What has the name of a database, and isn't open or is none.
    fs::write(stand.path("closed.db"), fs::read(stand.db()).unwrap()).unwrap();
    let _notes = fs::File::create(stand.path("notes.db")).unwrap();

    let made = run("seawall", init(&stand, &["--yes"]).arg("--json")).ok().json();
    assert_eq!(places(&made), [text(&stand.db()), text(&hostile)], "{made:#}");
    let names: Vec<&str> = made["databases"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names[0] == "app" && names[1].starts_with("it-s--odd"), "{names:?}");
    let file = stand.path("seawall.yml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let checked = stand.seawall(&["config", "check", "--json"]).ok().json();
    assert_eq!(checked["warnings"], json!([]));
    let paths: Vec<&str> = checked["databases"].as_array().unwrap().iter().filter_map(|d| d["path"].as_str()).collect();
    assert_eq!(paths, [text(&stand.db()), text(&hostile)]);
    stand.seawall(&["replicate", "--once"]).ok();
    app.close();
    other.close();
    for (name, source) in [(names[0], stand.db()), (names[1], hostile)] {
        let back = stand.path(&format!("back-{name}.db"));
        run("seawall", stand.command().args(["restore", name, "-o"]).arg(&back)).ok();
        assert_eq!(digest::of(&back), digest::of(&source), "{name}");
    }
}

#[test]
fn nothing_is_written_unasked_or_over_a_file() {
    let stand = Stand::folder(Random::from_env().seed());
    let file = stand.path("seawall.yml");
    let nothing = run("seawall", &mut init(&stand, &["--yes"])).exits(4);
    assert!(nothing.stderr.contains("[command.nothing-found]"), "{nothing}");
    let mut app = stand.app();
    app.commit(1);

    let unasked = run("seawall", &mut init(&stand, &[])).exits(1);
    assert!(unasked.stderr.contains("[command.no-answer]") && unasked.stdout.contains("app.db"), "{unasked}");
    let document = run("seawall", &mut init(&stand, &["--json"])).exits(1).json();
    assert_eq!(places(&document), [text(&stand.db())]);
    assert_eq!((&document["file"], &document["error"]["code"]), (&Value::Null, &json!("command.no-answer")));
    for secret in ["s3://bucket/p?secret-access-key=hush", "sftp://me:hush@host/p"] {
        let refused = run("seawall", &mut init(&stand, &["--yes", secret])).exits(2);
        assert!(refused.stderr.contains("[usage.secret]") && !refused.stderr.contains("hush"), "{refused}");
    }
    run("seawall", &mut init(&stand, &["--yes", "--keep", "soon"])).exits(2);
    assert!(!file.exists());

    fs::write(&file, "# mine").unwrap();
    let refused = run("seawall", &mut init(&stand, &["--yes"])).exits(1);
    assert!(refused.stderr.contains("[command.exists]"), "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine");
    run("seawall", &mut init(&stand, &["--yes", "--force", "--keep", "forever", "s3://bucket/prefix"])).ok();
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("\nvault: s3://bucket/prefix\n") && written.contains("keep: forever"), "{written}");
    let denied = run("seawall", &mut init(&stand, &["--yes", "-o", "no/such/folder.yml"])).exits(1);
    assert!(denied.stderr.contains("[command.not-written]"), "{denied}");
}

#[test]
fn a_person_is_asked_three_questions() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let environment = stand.path("env");
    fs::create_dir(&environment).unwrap();
    let _open = Env::open(&environment, &EnvOptions { create: true, ..EnvOptions::default() }).unwrap();
    let sockets = [stand.path(".s.PGSQL.5432"), stand.path("mysqld.sock")];
    let _listening = sockets.each_ref().map(|socket| UnixListener::bind(socket).unwrap());
    let converse = |typed: &str| -> Output { terminal::type_to("seawall", &mut init(&stand, &[]), typed) };

    // A wrong answer is asked for again, and a stream that ends writes nothing.
    let ended = converse("9\nnone\n\u{4}").exits(1);
    assert!(ended.stderr.contains("the list has no such number"), "{ended}");
    assert!(!stand.path("seawall.yml").exists());

    let output = converse("1-2\nbackup\n30d\n").ok();
    for question in ["Protect which?", "Keep them where?", "how long back?"] {
        assert_eq!(output.stderr.matches(question).count(), 1, "{output}");
    }
    let written = fs::read_to_string(stand.path("seawall.yml")).unwrap();
    let checked = stand.seawall(&["config", "check", "--json"]).ok().json();
    let found = |key: &str| -> Vec<String> {
        let databases = checked["databases"].as_array().unwrap();
        databases.iter().map(|database| database[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("engine"), ["sqlite", "lmdb"], "{written}");
    assert_eq!(found("path"), [text(&stand.db()), text(&environment)]);
    assert!(found("vault").iter().all(|vault| vault.contains("/backup/")), "{checked:#}");
    // Servers stand there, as comments, and without a password.
    for part in ["#- url: postgresql://backup@", "#- url: mysql://backup@localhost/?socket=", "~/.pgpass", "~/.my.cnf"]
    {
        assert!(written.contains(part), "{part}: {written}");
    }
}
