//! Each code of `docs/errors.md`, raised through the real program.
//!
//! A case is a few lines of shell, in a folder that has databases and their vaults ([`stage`]). Its last command is the one that raises the
//! code. A test insists that the code is told with a next step, and that the exit code is the one that `seawall explain` has for the kind
//! of the error. Codes that another test of this crate raises, or that a test beside an engine's own server raises, are in [`elsewhere`],
//! and so are the few that no test can raise. A code of the document that is in neither fails [`every_code_is_raised`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

mod agent;
mod command;
mod elsewhere;
mod files;
mod lmdb;
mod servers;
mod sets;
mod sqlite;
mod stage;
mod stand_ins;
mod vaults;

use stage::Stage;

/// A code, and what raises it.
struct Case {
    code: &'static str,
    /// The exit code, where it isn't the one of the error's kind: a log or a status tells of the code, or of several databases one failed.
    exit: Option<i32>,
    /// The lines of shell. `ask` is `seawall … --json`; the other words are those of [`stage`].
    script: &'static str,
}

/// The exit code is the one that is explained.
const fn raise(code: &'static str, script: &'static str) -> Case {
    Case { code, exit: None, script }
}

/// The exit code is another one, because a command succeeds that tells of the code, or has exit codes of its own.
const fn raise_as(code: &'static str, exit: i32, script: &'static str) -> Case {
    Case { code, exit: Some(exit), script }
}

const ALL: [&[Case]; 10] = [
    agent::CASES,
    command::CASES,
    files::CASES,
    lmdb::CASES,
    servers::CASES,
    sets::BOTH,
    sets::MYSQL,
    sets::POSTGRES,
    sqlite::CASES,
    vaults::CASES,
];

/// A case that may not mount here ends with this.
const LEFT_OUT: i32 = 77;

/// What the program explains, by code.
fn explained(stage: &Stage) -> BTreeMap<String, Value> {
    let all = stage.run("ask explain").ok().json();
    let one = |item: &Value| (item["code"].as_str().unwrap().to_owned(), item.clone());
    all.as_array().unwrap().iter().map(one).collect()
}

/// Every object of a document that has this code.
fn told(document: &Value, code: &str) -> Vec<Value> {
    let below: Vec<Value> = match document {
        Value::Array(all) => all.iter().flat_map(|value| told(value, code)).collect(),
        Value::Object(all) => all.values().flat_map(|value| told(value, code)).collect(),
        _ => Vec::new(),
    };
    let itself = (document["code"] == code).then(|| document.clone());
    itself.into_iter().chain(below).collect()
}

/// Documents in an output: all of it, or one a line.
fn documents(text: &str) -> Vec<Value> {
    match serde_json::from_str(text) {
        Ok(document) => vec![document],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    }
}

/// What is wrong with the way in which a code is told, if anything.
fn wrong(case: &Case, stage: &Stage, explained: &BTreeMap<String, Value>) -> Option<String> {
    let Case { code, exit, script } = case;
    let Some(item) = explained.get(*code) else { return Some(format!("{code} isn't explained")) };
    let output = stage.fresh().run(script);
    if output.code() == LEFT_OUT && script.contains("unshare") {
        println!("left out, because mounting isn't allowed here: {code}");
        return None;
    }
    let said = |what: &str| Some(format!("{code}: {what}\n{script}\n{output}"));
    let kinds = item["kinds"].as_array().unwrap();
    let found: Vec<Value> = documents(&output.stdout).iter().flat_map(|document| told(document, code)).collect();
    let in_text = output.stderr.contains(&format!("[{code}]"))
        || documents(&output.stderr).iter().any(|line| line["code"] == *code);
    if found.is_empty() && !in_text {
        return said("it wasn't raised");
    }
    if output.stderr.contains("panicked") {
        return said("a panic");
    }
    // An error and an alarm have a next step; a finding of `verify` has none of its own.
    let has_step = |one: &Value| one["next"].as_str().is_none_or(|next| !next.is_empty());
    if !found.iter().all(has_step) || item["next"].as_str().is_none_or(str::is_empty) {
        return said("no next step");
    }
    let own = |one: &Value| ["kind", "severity"].iter().find_map(|key| one[*key].as_str().map(str::to_owned));
    // What is neither an error nor an alarm has a word of its own there.
    let is_other = |one: &&Value| {
        one["exit_code"].is_null() && !["critical", "warning"].contains(&one["kind"].as_str().unwrap_or_default())
    };
    let of_kind = |kind: &str| kinds.iter().find(|one| one["kind"] == kind || is_other(one));
    let kind = found.iter().find_map(own);
    if let Some(kind) = &kind
        && of_kind(kind).is_none()
    {
        return said(&format!("its kind is {kind}, and {kinds:?} are explained"));
    }
    if let Some(one) = kind.as_deref().and_then(of_kind)
        && let Some(retry) = one["retry"].as_bool()
        && retry != ["unavailable", "interrupted"].contains(&kind.as_deref().unwrap_or_default())
    {
        return said("explain says something else of trying again");
    }
    let expected: Vec<i64> = match (exit, kind.as_deref().and_then(of_kind)) {
        (Some(exit), _) => vec![(*exit).into()],
        (None, Some(one)) => one["exit_code"].as_i64().into_iter().collect(),
        (None, None) => kinds.iter().filter_map(|one| one["exit_code"].as_i64()).collect(),
    };
    let is_any = kinds.iter().any(|one| one["kind"] == "any");
    match expected.contains(&output.code().into()) || is_any && output.code() != 0 {
        true => None,
        false => said(&format!("the exit code is {}, and {expected:?} is explained", output.code())),
    }
}

/// Raises each code of a list.
fn check(cases: &[Case]) {
    check_on(&Stage::new(), cases);
}

fn check_on(stage: &Stage, cases: &[Case]) {
    let explained = explained(stage);
    let wrong: Vec<String> = cases.iter().filter_map(|case| wrong(case, stage, &explained)).collect();
    assert!(wrong.is_empty(), "{} of {} codes:\n\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

#[test]
fn of_the_command_line() {
    check(command::CASES);
}

#[test]
fn of_the_running_process() {
    check(agent::CASES);
}

#[test]
fn of_single_files() {
    check(files::CASES);
}

#[test]
fn of_environments() {
    check(lmdb::CASES);
}

#[test]
fn of_what_servers_answer() {
    check(servers::CASES);
}

#[test]
fn of_databases() {
    check(sqlite::CASES);
}

#[test]
fn of_places() {
    check(vaults::CASES);
}

#[test]
fn of_a_postgres_server_and_its_backups() {
    let server = crate::postgres::server::Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y')");
    let urls = [("SHOP", server.url("shop")), ("ALL", server.url("")), ("NEW", server.url("new"))];
    let stage = Stage::new().with(urls);
    stage.run(sets::POSTGRES_FOLDER).ok();
    check_on(&stage, sets::POSTGRES);
}

#[test]
fn of_a_mysql_server_and_its_backups() {
    let server = crate::mysql::server::Server::start();
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a int PRIMARY KEY, b text); INSERT INTO shop.t VALUES (1, 'x'), (2, 'y')");
    let stage = Stage::new().with([("SHOP", server.url("shop")), ("ALL", server.url("")), ("NEW", server.url("new"))]);
    stage.run(sets::MYSQL_FOLDER).ok();
    check_on(&stage, sets::MYSQL);
}

#[test]
fn of_a_postgres_set_and_a_mysql_server() {
    let (server, other) = (crate::postgres::server::Server::start(15), crate::mysql::server::Server::start());
    let stage = Stage::new().with([("SHOP", server.url("postgres")), ("OTHER", other.url(""))]);
    stage.run("ready backup \"$SHOP\" ./sets").ok();
    check_on(&stage, sets::BOTH);
}

/// Each code of the document is raised here, or by a test that exists and names it, or is one that no test can raise.
#[test]
fn every_code_is_raised() {
    let documented: BTreeSet<String> = explained(&Stage::empty()).into_keys().collect();
    let here: Vec<&str> = ALL.iter().flat_map(|cases| cases.iter().map(|case| case.code)).collect();
    let raised: BTreeSet<&str> = here.iter().copied().collect();
    assert_eq!(raised.len(), here.len(), "a code is raised twice");
    let named: BTreeSet<&str> = elsewhere::codes().collect();
    let both: Vec<&&str> = raised.intersection(&named).collect();
    assert!(both.is_empty(), "raised here, and listed as raised elsewhere: {both:?}");
    let known: BTreeSet<String> = raised.union(&named).map(|code| (*code).to_owned()).collect();
    let missing: Vec<&String> = documented.difference(&known).collect();
    let stale: Vec<&String> = known.difference(&documented).collect();
    assert!(missing.is_empty(), "no test raises {missing:#?}: add a case, or name the test that does");
    assert!(stale.is_empty(), "not in docs/errors.md: {stale:#?}");
}

#[test]
fn the_tests_that_are_named_exist_and_name_the_code() {
    let wrong = elsewhere::wrong();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
