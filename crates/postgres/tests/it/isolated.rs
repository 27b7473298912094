//! The server that is started for a proof is isolated from the machine. A function inside it looks at what it can
//! reach. Only superusers can make this function, because it reads any file: it is the server's own function for
//! `lo_import`.

use std::process::Command;
use std::sync::Arc;

use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{ProveOptions, Proved, World, prove};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, environment, limits, vault};

/// The variable with the other process's task.
const TASK: &str = "SEAWALL_TEST_ISOLATED";

/// A value that only our environment has.
const CANARY: &str = "a-secret-of-the-vault";

/// A database with a check that, in a proof, reports everything it can see.
const LOOK: &str = "
CREATE FUNCTION public.import(text) RETURNS oid LANGUAGE internal STRICT AS 'be_lo_import';
CREATE FUNCTION public.seen(text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE object oid;
BEGIN object := public.import($1); RETURN encode(lo_get(object), 'escape'); END $$;
CREATE FUNCTION public.look(int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  IF current_database() NOT LIKE 'seawall%' THEN RETURN true; END IF;
  RAISE EXCEPTION 'environment <%> command <%> network <%> limits <%>', public.seen('/proc/1/environ'),
    public.seen('/proc/1/cmdline'), public.seen('/proc/self/net/dev'), public.seen('/proc/self/limits');
END $$;
CREATE TABLE t (a int CHECK (public.look(a))); INSERT INTO t VALUES (1)";

async fn proof(sql: &str) -> Result<Proved, Failure> {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", sql);
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    let options = ProveOptions { when: When::Latest, to: None, limits: limits(&server) };
    Ok(prove(&vault, &options, &World::real(environment()), Arc::new(NoProgress)).await?)
}

/// Runs a task in another process. The shell commands `begin` run before it.
fn run(begin: &str, task: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{begin} exec \"$0\" --exact isolated::in_another_process --ignored --nocapture")]);
    shell.arg(std::env::current_exe().expect("this program")).env(TASK, task).env("SEAWALL_CANARY", CANARY);
    let done = shell.output().expect("a shell");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the other process of the tests below"]
async fn in_another_process() {
    match std::env::var(TASK).expect("a task").as_str() {
        "look" => {
            let proved = proof("CREATE TABLE t AS SELECT 1 AS a").await.expect("proved");
            assert_eq!(proved.not_isolated, None);
            let failure = proof(LOOK).await.expect_err("it tells");
            let part = |name: &str| {
                let told = failure.cause.split_once(&format!("{name} <"));
                let from = told.unwrap_or_else(|| panic!("{failure:?}")).1;
                from.split_once('>').expect("told").0.to_owned()
            };
            let environment = part("environment");
            // `encode` shows a zero byte as `\000`.
            let variables = environment.split("\\000").filter_map(|pair| pair.split_once('='));
            for (name, value) in variables {
                match name {
                    "PATH" => assert_eq!(value, "/usr/sbin:/usr/bin:/sbin:/bin"),
                    "LC_ALL" => assert_eq!(value, "C"),
                    "HOME" | "TMPDIR" | "PWD" => assert!(value.contains("/seawall-proof-"), "{environment}"),
                    // PostgreSQL sets some for itself.
                    name => assert!(name.starts_with("PG") || name.starts_with("LC_"), "{environment}"),
                }
            }
            for ours in [CANARY, "CANARY", TASK, "CARGO"] {
                assert!(!environment.contains(ours), "{ours}: {environment}");
            }
            assert!(part("command").contains("postgres"), "the first process is its own: {failure:?}");
            let network = part("network");
            let interfaces: Vec<&str> =
                network.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
            assert_eq!(interfaces, ["lo"], "{network}");
            let limits = part("limits");
            let memory = limits.lines().find(|line| line.starts_with("Max address space")).expect("a limit");
            assert!(memory.contains("17179869184"), "{memory}");
        }
        "confined" => {
            let proved = proof("CREATE TABLE t AS SELECT 1 AS a").await.expect("proved");
            assert!(proved.not_isolated.is_some_and(|what| what.contains("network")), "{proved:?}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_server_of_a_proof_has_nothing_of_our_environment_no_network_and_a_limit_of_memory() {
    run("", "look");
}

/// Seawall can't raise this limit, so it can't isolate the server.
#[test]
fn a_proof_on_a_server_that_is_not_kept_apart_says_so() {
    run("ulimit -v 15000000;", "confined");
}
