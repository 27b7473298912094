//! `seawall backup`, `timeline`, `verify` and `restore --to` on a real PostgreSQL server, by the command line alone.

use std::time::Duration;

use seawall_tests::{Output, Place, Process, Random, Stand, wait};
use serde_json::Value;

#[path = "../../crates/postgres/tests/it/server.rs"]
#[expect(dead_code, reason = "the engine's own tests use all of it")]
pub(crate) mod server;
use server::Server;

/// Debian's version. Its `pg_dump` is found without a setting.
const MAJOR: u32 = 15;

/// A number and a hash of all rows, whatever their order.
pub(crate) const CONTENT: &str = "SELECT (SELECT count(*) || ' ' || sum(hashtextextended(b::text, 0)) FROM big b), \
                       (SELECT count(*) || ' ' || sum(hashtextextended(s::text, 0)) FROM small s), \
                       (SELECT string_agg(conname || pg_get_constraintdef(oid) || convalidated, ';' ORDER BY conname) \
                        FROM pg_constraint WHERE connamespace = 'public'::regnamespace), \
                       (SELECT string_agg(indexdef, ';' ORDER BY indexdef) FROM pg_indexes WHERE schemaname = 'public'), \
                       (SELECT last_value FROM small_id_seq), (SELECT count(*) FROM pg_largeobject_metadata)";

/// A server whose database `shop` has about `rows` rows of 600 bytes, a key, an index and a foreign key.
pub(crate) fn shop(rows: u32) -> Server {
    let server = Server::start(MAJOR);
    server.sql("postgres", "CREATE DATABASE shop");
    let fill = format!(
        "CREATE TABLE big (id int PRIMARY KEY, filler text); \
         INSERT INTO big SELECT i, string_agg(md5(i * 20.5 + j || 'x'), ' ') FROM generate_series(1, {rows}) i, \
         generate_series(1, 16) j GROUP BY i; CREATE INDEX big_filler ON big (md5(filler)); \
         CREATE TABLE small (id serial PRIMARY KEY, big int REFERENCES big); \
         INSERT INTO small (big) SELECT id FROM big LIMIT 100; SELECT lo_from_bytea(0, 'x') FROM generate_series(1, 50)"
    );
    server.sql("shop", &fill);
    server
}

/// One job and little memory: many small chunks, so that there is much to interrupt.
const SLOWLY: [&str; 4] = ["--jobs", "1", "--memory", "24MB"];

fn backup(stand: &Stand, server: &Server) -> Process {
    let (from, to) = (server.url("shop"), stand.place.url());
    Process::spawn("seawall", stand.command().args(["backup", &from, &to]).args(SLOWLY))
}

fn restore(stand: &Stand, server: &Server, database: &str) -> Process {
    let (from, to) = (stand.place.url(), server.url(database));
    Process::spawn("seawall", stand.command().args(["restore", &from, "--to", &to]).args(SLOWLY))
}

/// Checks that nothing of ours is left on the server or in one of its databases.
pub(crate) fn nothing_stays(server: &Server, database: &str) {
    let schemas = "SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname ~ 'seawall|^pg_(toast_)?temp_'";
    assert_eq!(server.sql(database, schemas), "", "schemas");
    let rest = "SELECT (SELECT count(*) FROM pg_database WHERE datname ~ 'seawall'), (SELECT count(*) FROM pg_ls_dir('pg_snapshots')), \
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'seawall')";
    wait::until("the server to be left", wait::SOON, || (server.sql("postgres", rest) == "0|0|0|0").then_some(()));
}

pub(crate) fn end(mut process: Process) -> Output {
    process.wait(Duration::from_secs(120))
}

#[test]
fn postgres_there_and_back_by_the_command_line() {
    let (stand, server) = (Stand::folder(1), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    stand.seawall(&["timeline", &vault]).exits(4);

    let made = stand.seawall(&["backup", &source, &vault, "--json"]).ok().json();
    assert_eq!((made["engine"].as_str(), made["totals"]["rows"].as_u64()), (Some("postgres"), Some(5_150)), "{made}");
    for stage in ["server", "codec", "vault"] {
        assert!(made["stages"][stage]["waited_ms"].is_u64(), "{made}");
    }
    let said = stand.seawall(&["backup", &source, &vault, "--compression", "lz4"]).ok();
    assert!(said.stdout.contains("5150 rows") && said.stdout.contains("waited for: "), "{said}");

    let timeline = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    assert_eq!(timeline["spans"].as_array().map(Vec::len), Some(2), "{timeline}");
    assert_eq!(timeline["spans"][0]["from"]["position"], made["id"], "{timeline}");
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");

    let databases = "SELECT count(*) FROM pg_database";
    let before = server.sql("postgres", databases);
    let proved = stand.seawall(&["verify", &vault, "--restore", "--to", &server.url("postgres"), "--json"]).ok().json();
    assert_eq!(
        (&proved["proof"]["findings"], &proved["proof"]["tables"]),
        (&Value::Array(vec![]), &Value::from(2)),
        "{proved}"
    );
    let said = stand.seawall(&["verify", &vault, "--restore"]).ok();
    assert!(said.stdout.contains("5100 rows of 2 tables") && said.stdout.contains("all as in the set"), "{said}");
    assert_eq!(server.sql("postgres", databases), before, "nothing stays");

    let target = server.url("copy");
    let plan = stand.seawall(&["restore", &vault, "--to", &target, "--dry-run", "--json"]).ok().json();
    assert_eq!((&plan["dry_run"], &plan["lacks"]), (&Value::Bool(true), &Value::Array(vec![])), "{plan}");
    let there = "SELECT count(*) FROM pg_database WHERE datname = 'copy'";
    assert_eq!(server.sql("postgres", there), "0", "a dry run makes nothing");
    let id = made["id"].as_str().unwrap();
    let back = stand.seawall(&["restore", &vault, "--to", &target, "--at", id, "--json"]).ok().json();
    assert_eq!((back["set"]["id"].as_str(), &back["resumed"]), (Some(id), &Value::Bool(false)), "{back}");
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));

    let refused = stand.seawall(&["restore", &vault, "--to", &target]).exits(1);
    assert!(refused.stderr.contains("error[postgres.not-empty]"), "{refused}");
    server.sql("copy", "DROP TABLE small; CREATE TABLE another (a int)");
    stand.seawall(&["restore", &vault, "--to", &target, "--clean"]).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    assert_eq!(server.sql("copy", "SELECT to_regclass('another') IS NULL"), "t");
}

#[test]
fn postgres_profiles_choose_connections_memory_and_compression() {
    let (stand, server) = (Stand::folder(1), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let backup = |more: &[&str]| stand.seawall(&[&["backup", &source, &vault, "--json"], more].concat()).ok().json();

    let turbo = backup(&["--profile", "turbo"]);
    assert_eq!((&turbo["limits"]["profile"], turbo["codec"].as_str()), (&Value::from("turbo"), Some("lz4")), "{turbo}");
    let jobs = turbo["limits"]["jobs"].as_u64().expect("a number");
    assert!(jobs >= 1 && jobs <= (2 * cores).min(16) as u64, "{turbo}");
    let said = backup(&["--profile", "turbo", "--jobs", "1", "--memory", "48MiB", "--compression", "zstd:3"]);
    assert_eq!(
        (&said["limits"]["jobs"], &said["limits"]["memory"]),
        (&Value::from(1), &Value::from(48 << 20)),
        "{said}"
    );
    assert_eq!(said["codec"]["zstd"]["level"], 3, "{said}");
    let without = backup(&[]);
    assert_eq!((&without["limits"]["profile"], &without["limits"]["jobs"]), (&Value::Null, &Value::from(cores)));

    let target = server.url("copy");
    let back = stand.seawall(&["restore", &vault, "--to", &target, "--profile", "conservative"]).ok();
    assert!(back.stdout.contains("profile conservative: 1 connection, "), "{back}");
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    let proved = stand.seawall(&["verify", &vault, "--restore", "--profile", "balanced", "--json"]).ok().json();
    assert_eq!(proved["limits"]["profile"], "balanced", "{proved}");

    let config = format!(
        "vault: {vault}\ndatabases:\n  - name: shop\n    url: {source}\n    schedule: 0 3 1 1 *\n    backup: {{ profile: max-performance, jobs: 3 }}\n"
    );
    std::fs::write(stand.path("seawall.yml"), config).expect("written");
    let file = stand.path("seawall.yml").display().to_string();
    let named = stand.seawall(&["backup", "shop", "--config", &file, "--json"]).ok().json();
    let limits = &named["limits"];
    assert_eq!((&limits["profile"], &limits["jobs"]), (&Value::from("max-performance"), &Value::from(3)), "{named}");
    let refused = stand.seawall(&["backup", &source, &vault, "--profile", "fast"]).exits(2);
    assert!(refused.stderr.contains("give conservative, balanced"), "{refused}");
}

#[test]
fn postgres_in_binary_by_the_command_line() {
    let (stand, server) = (Stand::folder(6), shop(5_000));
    server.sql("shop", "CREATE TYPE pair AS (a int, b text); CREATE TABLE pairs (id int, p pair); INSERT INTO pairs VALUES (1, (2, 'x'))");
    let (source, vault) = (server.url("shop"), stand.place.url());
    let plain = stand.seawall(&["backup", &source, &vault, "--json"]).ok().json();
    assert_eq!(plain["as_text"], Value::Array(vec![]), "{plain}");
    let made = stand.seawall(&["backup", &source, &vault, "--copy", "binary", "--json"]).ok().json();
    let pairs =
        serde_json::json!([{ "database": "shop", "table": "public.pairs", "column": "p", "type": "public.pair" }]);
    assert_eq!((&made["as_text"], &made["totals"]["rows"]), (&pairs, &plain["totals"]["rows"]), "{made}");
    let said = stand.seawall(&["backup", &source, &vault, "--copy", "binary"]).ok();
    assert!(said.stdout.contains("as text, not binary: public.pairs (p is public.pair)\n"), "{said}");
    let proved = stand.seawall(&["verify", &vault, "--restore"]).ok();
    assert!(proved.stdout.contains("5101 rows of 3 tables") && proved.stdout.contains("all as in the set"), "{proved}");
    stand.seawall(&["restore", &vault, "--to", &server.url("copy")]).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    server.sql("copy", "DROP TABLE small; ALTER TABLE big ALTER id TYPE float4; TRUNCATE big");
    for (arguments, exit, code) in [
        (
            &["restore", &vault, "--to", &server.url("copy"), "--data-only", "--table", "big"][..],
            1,
            "postgres.other-types",
        ),
        (&["backup", &source, &vault, "--copy", "csv"], 2, "usage.arguments"),
        (&["backup", &source, &vault, "--copy", "binary", "--format", "custom"], 2, "usage.arguments"),
    ] {
        let failed = stand.seawall(arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
    }
}

#[test]
fn postgres_whatever_is_wrong_has_its_exit_code_and_names_the_next_step() {
    let (stand, server) = (Stand::folder(2), shop(10));
    let (source, vault, other) = (server.url("shop"), stand.place.url(), server.url("postgres"));
    stand.seawall(&["backup", &source, &vault]).ok();
    for (arguments, exit, code) in [
        (vec!["backup", &server.url("nothing"), &vault], 4, "postgres.no-database"),
        (vec!["backup", "postgresql://x@%2Fnowhere/shop", &vault], 1, "postgres.connection"),
        (vec!["backup", "oracle://x@h/shop", &vault], 2, "usage.server"),
        (vec!["backup", &source, &vault, "--memory", "1MB"], 2, "archive.memory"),
        (vec!["backup", &source, &vault, "--compression", "rar"], 2, "usage.arguments"),
        (vec!["backup", &source, &vault, "--pg-bindir", "/nowhere"], 1, "postgres.tool"),
        (vec!["backup", &other, &vault], 1, "archive.other-database"),
        (vec!["restore", &vault, "--to", &server.url("copy"), "--at", "2020-01-01T00:00:00Z"], 4, "archive.no-set"),
        (vec!["restore", &vault, "--to", "postgresql://x@%2Fnowhere/shop"], 1, "postgres.connection"),
    ] {
        let failed = stand.seawall(&arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
        assert!(failed.stderr.contains("\nnext: "), "{failed}");
    }
    // A wrong password isn't tried on a server that trusts; a role that isn't there is refused, and nothing is shown.
    let secret = server.url_as("nobody:hunter2", "shop");
    let failed = stand.seawall(&["backup", &secret, &vault]).exits(1);
    assert!(failed.stderr.contains("error[postgres.login]") && !failed.stderr.contains("hunter2"), "{failed}");
    assert!(failed.stderr.contains("warning: the URL holds a password"), "{failed}");
}

#[test]
fn postgres_a_plan_that_can_not_be_carried_out_fails_as_the_restore_would() {
    let (stand, server) = (Stand::folder(6), shop(10));
    server.sql("postgres", "CREATE ROLE grantee; CREATE ROLE restorer LOGIN CREATEDB");
    server.sql("shop", "GRANT SELECT ON big TO grantee");
    let (vault, target) = (stand.place.url(), server.url("copy"));
    stand.seawall(&["backup", &server.url("shop"), &vault]).ok();
    stand.seawall(&["restore", &vault, "--to", &target, "--dry-run"]).ok();
    server.sql("shop", "REVOKE ALL ON big FROM grantee");
    server.sql("postgres", "DROP ROLE grantee");
    let plan = stand.seawall(&["restore", &vault, "--to", &target, "--dry-run"]).exits(1);
    assert!(plan.stdout.contains("missing: the role grantee is missing\nnext: CREATE ROLE \"grantee\";"), "{plan}");
    let plan = stand.seawall(&["restore", &vault, "--to", &target, "--dry-run", "--json"]).exits(1).json();
    assert_eq!(plan["lacks"][0]["mend"], Value::from("CREATE ROLE \"grantee\";"), "{plan}");
    let refused = stand.seawall(&["restore", &vault, "--to", &target]).exits(1);
    assert!(refused.stderr.contains("error[postgres.not-ready]"), "{refused}");
    server.sql("postgres", "CREATE ROLE \"grantee\";");
    stand.seawall(&["restore", &vault, "--to", &target]).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn postgres_names_that_a_terminal_would_obey_are_shown_escaped() {
    let (stand, server) = (Stand::folder(7), Server::start(MAJOR));
    let name = "x\u{1b}]0;title\u{7}\u{9b}2J\r";
    server.sql("postgres", &format!("CREATE DATABASE \"{name}\""));
    server.sql(name, &format!("CREATE TABLE \"{name}\" AS SELECT 1 AS a"));
    let (source, vault) = (server.url("x%1B%5D0;title%07%C2%9B2J%0D"), stand.place.url());
    let made = stand.seawall(&["backup", &source, &vault]).ok();
    let copy = server.url("copy%1B");
    let restored = stand.seawall(&["restore", &vault, "--to", &copy, "--table", name]).ok();
    let there = stand.seawall(&["restore", &vault, "--to", &copy, "--table", name]).exits(1);
    let nowhere = stand.seawall(&["restore", &vault, "--to", &copy, "--table", "y\u{1b}"]).exits(1);
    for said in [&made, &restored, &there, &nowhere] {
        let all = format!("{}{}", said.stdout, said.stderr);
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!all.contains(obeyed), "{all:?}");
    }
    assert!(there.stderr.contains("x\\u{1b}]0;title\\u{7}\\u{9b}2J\\r"), "{there}");
    assert!(nowhere.stderr.contains("y\\u{1b}"), "{nowhere}");
    let document = stand.seawall(&["restore", &vault, "--to", &copy, "--table", name, "--json"]).exits(1).json();
    assert!(document["error"]["cause"].as_str().is_some_and(|cause| cause.contains(name)), "JSON has it as it is");
}

#[test]
fn postgres_remedies_name_what_helps() {
    let (stand, server) = (Stand::folder(8), shop(10));
    let (source, vault, target) = (server.url("shop"), stand.place.url(), server.url("copy"));
    stand.seawall(&["backup", &source, &vault]).ok();
    for (arguments, exit, code, next) in [
        (vec!["restore", &vault], 2, "usage.no-output", "--to postgresql://"),
        (vec!["restore", &vault, "-o", "file"], 2, "archive.only-sets", "--to URL"),
        (vec!["restore", &vault, "--to", &target, "--at", "notaset"], 2, "usage.when", "the name of a set"),
        (vec!["backup", &source, "/proc/nosuch/v"], 1, "vault.no-folder", "leads through folders"),
        (vec!["backup", &source, "/dev/full/x"], 1, "vault.no-folder", "leads through folders"),
    ] {
        let failed = stand.seawall(&arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
        let told = failed.stderr.split_once("\nnext: ").expect("a next step").1;
        assert!(told.contains(next), "{failed}");
    }
    let failed = stand.seawall(&["backup", &source, "/dev/full/x"]).exits(1);
    assert!(failed.stderr.contains("os error"), "the errno is told: {failed}");

    // The rest of a vault without its chain is still recognised as a server's, with no set that counts.
    std::fs::remove_dir_all(format!("{vault}/chain")).unwrap();
    let verified = stand.seawall(&["verify", &vault]).exits(4);
    assert!(verified.stderr.contains("error[archive.no-set]"), "{verified}");
    assert!(verified.stderr.contains("no chain/ that names them"), "{verified}");
    let failed = stand.seawall(&["restore", &vault, "--to", &target]).exits(4);
    assert!(failed.stderr.contains("error[archive.no-set]"), "{failed}");
}

#[test]
fn postgres_backups_that_were_killed_leave_nothing_that_counts() {
    killed_backups(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn postgres_backups_into_s3_that_were_killed_leave_nothing_that_counts() {
    killed_backups(&Stand::bucket(Random::from_env().seed()));
}

fn killed_backups(stand: &Stand) {
    let server = shop(40_000);
    let started = std::time::Instant::now();
    end(backup(stand, &server)).ok();
    let whole = started.elapsed();
    let mut random = Random::from_env();
    let mut killed = 0;
    for _ in 0..6 {
        let mut process = backup(stand, &server);
        std::thread::sleep(random.between(Duration::ZERO, whole));
        process.kill_9();
        killed += 1;
        nothing_stays(&server, "shop");
    }
    let vault = stand.place.url();
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    let timeline = stand.seawall(&["timeline", &vault, "--json"]).ok().json();
    let sets = timeline["spans"].as_array().map_or(0, Vec::len);
    assert!((1..=1 + killed).contains(&sets), "{timeline}");
    server.sql("shop", "DELETE FROM big WHERE id > 39000 AND id NOT IN (SELECT big FROM small)");
    end(backup(stand, &server)).ok();
    end(restore(stand, &server, "copy")).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn postgres_restores_that_were_killed_go_on() {
    let (stand, server) = (Stand::folder(Random::from_env().seed()), shop(40_000));
    let mut random = Random::from_env();
    end(backup(&stand, &server)).ok();
    let started = std::time::Instant::now();
    end(restore(&stand, &server, "first")).ok();
    let whole = started.elapsed();
    for _ in 0..6 {
        let mut process = restore(&stand, &server, "copy");
        std::thread::sleep(random.between(Duration::ZERO, whole / 2));
        process.kill_9();
        if server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'") == "1" {
            break;
        }
    }
    let last = end(restore(&stand, &server, "copy"));
    // If the last kill came too late, the database is complete, and is refused because it isn't empty.
    assert!(last.code() == 0 || last.stderr.contains("error[postgres.not-empty]"), "{last}");
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    nothing_stays(&server, "copy");
}

#[test]
fn postgres_what_a_store_has_lost_or_changed_is_found_and_refused() {
    let (stand, server) = (Stand::folder(3), shop(5_000));
    stand.seawall(&["backup", &server.url("shop"), &stand.place.url()]).ok();
    let Place::Folder(folder) = &stand.place else { unreachable!("it is a folder") };
    let set = std::fs::read_dir(folder.join("sets")).unwrap().next().unwrap().unwrap().path();
    let chunk = set.join("00000000.zst");
    let whole = std::fs::read(&chunk).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damage in [Some(flipped), Some(whole[..whole.len() - 1].to_vec()), None] {
        match damage {
            Some(bytes) => std::fs::write(&chunk, bytes).unwrap(),
            None => std::fs::remove_file(&chunk).unwrap(),
        }
        let found = stand.seawall(&["verify", &stand.place.url()]).exits(1);
        assert!(found.stdout.contains("00000000.zst"), "{found}");
        let refused = end(restore(&stand, &server, "copy"));
        assert!(refused.code() != 0 && refused.stderr.contains("00000000.zst"), "{refused}");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    }
}

#[test]
fn postgres_by_its_name_in_the_configuration() {
    let (stand, server) = (Stand::folder(3), shop(500));
    let config = stand.path("seawall.yml");
    let url = server.url("shop");
    let text = format!(
        "databases:\n  - url: '{url}'\n    vault: {}\n    schedule: '0 3 * * *'\n    retention: {{ keep: 1ms, minimum: 2, grace: 1ms }}\n    \
         backup: {{ jobs: 2, memory: 32MiB }}\n",
        stand.place.url()
    );
    std::fs::write(&config, &text).unwrap();
    let config = config.to_str().unwrap();
    let run = |arguments: &[&str]| stand.seawall(&[arguments, &["--config", config]].concat());
    let once = run(&["replicate", "--once", "--json"]).ok().json();
    let first = once["databases"][0]["protected"]["position"].as_str().unwrap().to_owned();
    server.sql("shop", "DELETE FROM small WHERE id > 50");
    let ids: Vec<String> =
        (0..3).map(|_| run(&["backup", "shop", "--json"]).ok().json()["id"].as_str().unwrap().to_owned()).collect();
    let status = run(&["status", "--json"]).ok().json();
    assert_eq!(
        (&status[0]["engine"], &status[0]["phase"]),
        (&Value::from("postgres"), &Value::from("stopped")),
        "{status}"
    );
    assert_eq!(status[0]["protected"]["position"].as_str(), Some(ids[2].as_str()), "{status}");
    assert_eq!(run(&["timeline", "shop", "--json"]).ok().json()["spans"].as_array().map(Vec::len), Some(4));

    run(&["pin", "shop", "--at", &first]).ok();
    let dry = run(&["maintain", "shop", "--dry-run", "--json"]).ok().json();
    let retired = format!("sets/{}/", ids[0]);
    assert_eq!(dry["retired"][0]["key"].as_str(), Some(retired.as_str()), "{dry}");
    assert_eq!(dry["retired"].as_array().map(Vec::len), Some(1), "two stay by number, one by its pin: {dry}");
    let said = run(&["maintain", "shop"]).ok();
    assert!(said.stdout.contains("0 objects (0 B) deleted, 1 set retired"), "{said}");
    let timeline = run(&["timeline", "shop", "--json"]).ok().json();
    assert_eq!(
        (timeline["spans"].as_array().map(Vec::len), &timeline["pins"][0]),
        (Some(3), &Value::from(first.as_str()))
    );
    let proved = run(&["verify", "shop", "--restore", "--at", &first]).ok();
    assert!(proved.stdout.contains("all as in the set"), "{proved}");
    assert_eq!(run(&["verify", "shop", "--json"]).ok().json()["findings"], Value::Array(vec![]));

    // A running process proves it by itself, with an earlier set, on servers of its own.
    std::fs::remove_dir_all(stand.place.root().join("seawall/proofs")).unwrap();
    let by_itself = "socket: { path: s.sock }\nprove: { schedule: 0 5 1 1 *, level: engine, moments: 1 }\ndatabases:";
    std::fs::write(config, text.replace("databases:", by_itself)).unwrap();
    let mut seawall = Process::spawn("seawall", stand.command().args(["replicate", "--config", config]));
    let proof = wait::until("a proof", wait::SOON * 4, || {
        let proof = run(&["status", "--json"]).ok().json()[0]["proof"].clone();
        proof.is_object().then_some(proof)
    });
    assert_eq!((&proof["engine"], &proof["faults"]), (&Value::from("postgres"), &Value::Array(vec![])), "{proof}");
    assert_eq!(proof["level"], "content", "{proof}");
    assert_eq!(proof["moments"].as_array().map(Vec::len), Some(1), "{proof}");
    assert_eq!(run(&["timeline", "shop", "--json"]).ok().json()["proofs"][0], proof);
    seawall.stop().ok();

    let target = server.url("then");
    run(&["restore", "shop", "--to", &target, "--at", &first]).ok();
    assert_eq!(server.sql("then", "SELECT count(*) FROM small"), "100");
    run(&["restore", "shop", "--to", &server.url("now")]).ok();
    assert_eq!(server.sql("now", "SELECT count(*) FROM small"), "50");
    for (arguments, exit, code) in [
        (&["backup", "other"][..], 2, "usage.server"),
        (&["backup", "shop", "--jobs", "2"], 2, "usage.arguments"),
        (&["restore", "shop", "-o", "file"], 2, "postgres.no-file"),
    ] {
        let failed = run(arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
    }
}

#[test]
fn postgres_what_pg_dump_makes_is_kept_and_comes_back_in_either_way() {
    let (stand, server) = (Stand::folder(5), shop(5_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    for (format, name) in [("custom", "database.dump"), ("directory", "database"), ("plain", "database.sql")] {
        let made = stand.seawall(&["backup", &source, &vault, "--format", format, "--json"]).ok().json();
        assert_eq!(made["artefact"].as_str(), Some(format), "{made}");
        let id = made["id"].as_str().unwrap();
        let file = stand.path(name);
        let file = file.to_str().unwrap();
        let restored = stand.seawall(&["restore", &vault, "--at", id, "-o", file, "--json"]).ok().json();
        assert_eq!(restored["point"]["position"].as_str(), Some(id), "{restored}");
        server.sql("postgres", &format!("CREATE DATABASE by_hand_{format}"));
        let by_hand = format!("by_hand_{format}");
        let (tool, arguments) = match format {
            "custom" => ("pg_restore", vec!["--exit-on-error", "--dbname", &by_hand, file]),
            "directory" => ("pg_restore", vec!["--jobs=2", "--exit-on-error", "--dbname", &by_hand, file]),
            _ => ("psql", vec!["-Xq", "-v", "ON_ERROR_STOP=1", "--dbname", &by_hand, "-f", file]),
        };
        let mut tool = server.tool(tool);
        tool.args(arguments);
        server::output(tool);
        assert_eq!(server.sql(&by_hand, CONTENT), server.sql("shop", CONTENT));
        let proved = stand.seawall(&["verify", &vault, "--restore", "--at", id]).ok();
        let summary = "5100 rows of 2 tables, ";
        assert!(
            proved.stdout.contains(summary) && proved.stdout.contains("all as in the set; not compared: "),
            "{proved}"
        );
        let said = stand.seawall(&["restore", &vault, "--at", id, "--to", &server.url(format)]).ok();
        assert!(said.stdout.contains(&format!("pg_dump's {format}, ")), "{said}");
        assert_eq!(server.sql(format, CONTENT), server.sql("shop", CONTENT));
    }
    let said = stand.seawall(&["timeline", &vault]).ok();
    assert!(said.stdout.contains("tool writes it: custom") && said.stdout.contains("tool writes it: plain"), "{said}");
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    let there = stand.path("database.sql");
    for (arguments, exit, code) in [
        (&["backup", &source, &vault, "--format", "tar"][..], 2, "usage.format"),
        (&["backup", &server.url(""), &vault, "--format", "plain"], 1, "postgres.vendor-format"),
        (&["restore", &vault, "--to", &server.url("x"), "--table", "big"], 1, "postgres.vendor-format"),
        (&["restore", &vault, "-o", there.to_str().unwrap()], 1, "archive.target-exists"),
    ] {
        let failed = stand.seawall(arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")), "{failed}");
    }
}

#[test]
fn postgres_a_sample_is_told_everywhere_and_kept_apart_from_backups() {
    let (stand, server) = (Stand::folder(7), shop(3_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let made = stand.seawall(&["backup", &source, &vault, "--sample", "10.0%"]).ok();
    assert!(made.stdout.contains("a sample of 10%: "), "{made}");
    let made = stand.seawall(&["backup", &source, &vault, "--sample", "10%", "--json"]).ok().json();
    assert_eq!(made["sample"].as_str(), Some("10%"), "{made}");
    assert!(made["identity"].as_str().unwrap().starts_with("sample 10% of "), "{made}");
    let said = stand.seawall(&["timeline", &vault]).ok();
    assert_eq!(said.stdout.matches("no backup: a sample of 10% of the rows").count(), 2, "{said}");
    let proved = stand.seawall(&["verify", &vault, "--restore"]).ok();
    assert!(proved.stdout.contains("a sample of 10%: ") && proved.stdout.contains("all as in the set"), "{proved}");
    let restored = stand.seawall(&["restore", &vault, "--to", &server.url("copy")]).ok();
    assert!(restored.stdout.contains("a sample of 10%: "), "{restored}");
    let json = stand.seawall(&["restore", &vault, "--to", &server.url("again"), "--dry-run", "--json"]).ok().json();
    assert_eq!(json["set"]["sample"].as_str(), Some("10%"), "{json}");
    let rows: u32 = server.sql("copy", "SELECT count(*) FROM big").parse().unwrap();
    assert!((200..600).contains(&rows), "{rows}");
    assert_eq!(
        server.sql("copy", "SELECT count(*), count(b.id) FROM small s LEFT JOIN big b ON b.id = s.big"),
        "100|100"
    );
    let config = stand.path("seawall.yml");
    std::fs::write(
        &config,
        format!("databases:\n  - url: '{source}'\n    vault: {vault}\n    schedule: '0 3 * * *'\n"),
    )
    .unwrap();
    for (arguments, exit, code, said) in [
        (&["backup", &source, &vault][..], 1, "archive.other-database", "it holds backups of sample 10% of "),
        (&["backup", &source, &vault, "--sample", "1%"], 1, "archive.other-database", "not of sample 1% of "),
        (&["backup", &source, &vault, "--sample", "10"], 2, "usage.arguments", "from 0.0001% to 100%"),
        (&["backup", &source, &vault, "--sample", "0%"], 2, "usage.arguments", "from 0.0001% to 100%"),
        (&["backup", &source, &vault, "--sample", "101%"], 2, "usage.arguments", "from 0.0001% to 100%"),
        (&["backup", &source, &vault, "--sample", "10%", "--format", "custom"], 2, "usage.arguments", "has every row"),
        (&["backup", "shop", "--sample", "10%"], 2, "usage.arguments", "--sample is given, and no vault"),
        (&["replicate", "--once", "--config", config.to_str().unwrap()], 1, "archive.other-database", "sample 10% of "),
    ] {
        let failed = stand.seawall(arguments).exits(exit);
        assert!(failed.stderr.contains(&format!("error[{code}]")) && failed.stderr.contains(said), "{failed}");
    }
}

/// A script about the set in a folder, which PostgreSQL's tools know the server of.
fn bash(server: &Server, script: &str, set: &std::path::Path, stand: &Stand) -> std::process::Command {
    let mut bash = std::process::Command::new("bash");
    for (name, value) in server.tool("psql").get_envs() {
        if let Some(value) = value {
            bash.env(name, value);
        }
    }
    bash.args(["-euc", script]).env("S", set);
    bash.current_dir(stand.path("seawall.yml").parent().unwrap());
    bash
}

#[test]
fn postgres_a_set_is_restored_by_hand_as_the_formats_say() {
    let (stand, server) = (Stand::folder(4), shop(10));
    server.sql("postgres", "CREATE DATABASE hand");
    server.sql("postgres", "CREATE DATABASE new");
    server.sql(
        "hand",
        "CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE INDEX ON orders (md5(note)); \
         INSERT INTO orders SELECT i, repeat(md5(i::text), 20) || E'\\t\\n' FROM generate_series(1, 9000) i",
    );
    let made =
        stand.seawall(&["backup", &server.url("hand"), &stand.place.url(), "--memory", "32MB", "--json"]).ok().json();
    let formats = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/formats.md")).unwrap();
    let block = formats.split("### By hand").nth(1).unwrap().split("```").nth(1).unwrap().trim_start_matches('\n');
    let place = stand.place.url();
    let folder =
        std::path::Path::new(place.trim_start_matches("file://")).join("sets").join(made["id"].as_str().unwrap());
    server::output(bash(&server, block, &folder, &stand));
    let content = "SELECT count(*), sum(hashtextextended(o::text, 0)), \
                   (SELECT string_agg(indexdef, ';' ORDER BY indexdef) FROM pg_indexes WHERE schemaname = 'public') FROM orders o";
    assert_eq!(server.sql("new", content), server.sql("hand", content));
    assert!(made["totals"]["chunks"].as_u64() > Some(1), "{made}");
    let functions = block.split("item $(").next().unwrap();
    let blocks: Vec<&str> = formats.split("### By hand").nth(1).unwrap().split("```").collect();
    let (in_binary, artefacts) = (blocks[3], blocks[5]);
    server.sql("postgres", "DROP DATABASE new");
    server.sql("postgres", "CREATE DATABASE new");
    let backup = ["backup", &server.url("hand"), &place, "--memory", "32MB", "--copy", "binary", "--json"];
    let id = stand.seawall(&backup).ok().json()["id"].as_str().unwrap().to_owned();
    let with_it: String =
        block.lines().map(|line| if line.contains("psql") { in_binary } else { line }).collect::<Vec<_>>().join("\n");
    server::output(bash(&server, &with_it, &folder.with_file_name(id), &stand));
    assert_eq!(server.sql("new", content), server.sql("hand", content), "in binary");
    for (format, line) in ["custom", "plain", "directory"].into_iter().zip(artefacts.trim().lines()) {
        server.sql("postgres", "DROP DATABASE new");
        server.sql("postgres", "CREATE DATABASE new");
        let backup =
            ["backup", &server.url("hand"), &stand.place.url(), "--memory", "32MB", "--format", format, "--json"];
        let id = stand.seawall(&backup).ok().json()["id"].as_str().unwrap().to_owned();
        server::output(bash(&server, &format!("{functions}\n{line}"), &folder.with_file_name(id), &stand));
        assert_eq!(server.sql("new", content), server.sql("hand", content), "{format}");
    }
}
