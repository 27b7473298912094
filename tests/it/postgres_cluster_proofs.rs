//! Proofs of clusters with real servers: what a vault keeps is restored, recovered, checked and thrown away. What is damaged is found,
//! wherever the damage is: in a table, in an index, in the log, in an object of the vault. And single databases and tables that are
//! taken out of a cluster into another server.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use seawall_tests::{Output, Process, run, seawall as program, wait};
use serde_json::Value;

use crate::postgres::server::Server;
use crate::postgres_cluster::{Site, seawall};
use crate::wal::{LATE, VERSIONS};

/// Proves the vault of a site, as the server's user. The scratch folders are made in `place`.
fn proof(site: &Site, place: &Path, more: &[&str]) -> Output {
    let vault = site.vault.display().to_string();
    let bin = site.server.bin().display().to_string();
    let place = place.display().to_string();
    let bin: &[&str] = if more.contains(&"--pg-bindir") { &[] } else { &["--pg-bindir", &bin] };
    let fixed = ["verify", &vault, "--restore", "--json", "--scratch", &place];
    run("seawall", seawall(&[&fixed, bin, more].concat()).env("HOME", site.server.folder()))
}

/// A place for scratch folders that the server's user can write, and that has to be empty afterwards.
fn place(site: &Site) -> std::path::PathBuf {
    site.server.folder_of_its_own("scratch").into()
}

fn is_empty(place: &Path) -> bool {
    fs::read_dir(place).expect("a folder").next().is_none()
}

fn codes(record: &Value) -> Vec<&str> {
    record["faults"].as_array().expect("faults").iter().map(|fault| fault["code"].as_str().unwrap_or("")).collect()
}

#[test]
fn a_cluster_is_restored_recovered_checked_and_thrown_away() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        let spot = site.server.folder_of_its_own("space");
        site.server.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{spot}'"));
        site.server.sql("postgres", "CREATE TABLE placed (n int PRIMARY KEY, words tsvector) TABLESPACE fast");
        site.server.sql("postgres", "CREATE INDEX ON placed USING gin (words)");
        site.server
            .sql("postgres", "INSERT INTO placed SELECT n, to_tsvector('word ' || n) FROM generate_series(1, 500) n");
        site.commit(5);
        site.base();
        site.commit(5);
        site.archive();
        let place = place(&site);
        let proved = proof(&site, &place, &[]).ok().json();
        let record = &proved["record"];
        assert_eq!((codes(record).len(), record["level"].as_str()), (0, Some("engine")), "{record}");
        let position = record["point"]["position"].as_str().expect("a position").to_owned();
        assert!(position.contains('/') && record["restored_bytes"].as_u64() > Some(1 << 20), "{record}");
        let doubts = record["doubts"].to_string();
        assert!(doubts.contains("keeps no sums") && !doubts.contains("couldn't be checked"), "{doubts}");
        assert!(is_empty(&place), "nothing is left");
        // Where it was made is the tablespace of the live server, which the proof left alone.
        assert_eq!(site.server.sql("postgres", "SELECT count(*) FROM placed"), "500");
        let timeline = run("seawall", &mut seawall(&["timeline", &site.vault.display().to_string(), "--json"]));
        assert_eq!(timeline.ok().json()["proofs"][0]["point"]["position"], position.as_str());
        // Only what is asked for: no server is needed to see that all objects are whole.
        let bytes = proof(&site, &place, &["--level", "structure", "--pg-bindir", "/nowhere"]).ok().json();
        assert_eq!(bytes["record"]["level"], "structure");
    }
}

#[test]
fn a_superuser_proves_as_another_user() {
    let mut site = Site::start(15);
    site.commit(3);
    site.base();
    site.archive();
    let place = place(&site);
    let mut command = Command::new(program());
    command.arg("verify").arg(&site.vault).args(["--restore", "--json", "--scratch"]).arg(&place);
    let record = run("seawall", command.env("HOME", "/nowhere")).ok().json()["record"].clone();
    assert_eq!((codes(&record).len(), record["level"].as_str()), (0, Some("engine")), "{record}");
    assert!(is_empty(&place));
}

/// A superuser of the source lets an operator of the system's catalogs call a function that runs programs. Whatever a proof asks uses
/// operators.
const EVIL: &str = "
CREATE FUNCTION public.evil(name, name) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT FROM pg_ls_dir('..') d WHERE d = 'ident') THEN
    BEGIN COPY (SELECT 1) TO PROGRAM 'touch ../ran; touch LOOT; cat SECRET > LOOT'; EXCEPTION WHEN OTHERS THEN NULL; END;
    BEGIN PERFORM pg_read_file('SECRET'); RAISE 'CANARY'; EXCEPTION WHEN OTHERS THEN NULL; END;
  END IF;
  RETURN NOT nameeq($1, $2);
END $$";

#[test]
fn the_owner_of_a_source_reaches_nothing_from_a_proof_or_from_a_cluster_that_is_taken_apart() {
    let site = Site::start(15);
    let outside = tempfile::tempdir().expect("a folder");
    let (loot, secret) = (outside.path().join("loot"), outside.path().join("secret"));
    fs::write(&secret, "canary").expect("written");
    for (path, mode) in [(outside.path(), 0o777), (secret.as_path(), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }
    let evil = EVIL.replace("LOOT", &loot.display().to_string()).replace("SECRET", &secret.display().to_string());
    site.server.sql("postgres", "CREATE TABLE goods AS SELECT generate_series(1, 10) n");
    for database in ["postgres", "template1"] {
        site.server.sql(database, &evil);
    }
    for database in ["postgres", "template1"] {
        let point = "SET allow_system_table_mods = on; UPDATE pg_operator SET oprcode = 'public.evil(name,name)'::regprocedure \
                     WHERE oprname = '<>' AND oprleft = 'name'::regtype AND oprright = 'name'::regtype";
        site.server.sql(database, point);
    }
    site.base();
    site.archive();
    let place = place(&site);
    let proved = proof(&site, &place, &[]);
    assert!(!loot.exists(), "{proved}");
    let record = &proved.json()["record"];
    assert!(!record["doubts"].to_string().contains("kept apart"), "{record}");
    assert!(!proved.stdout.contains("CANARY") && !proved.stdout.contains("canary"), "{proved}");
    let other = Server::start(15);
    let (vault, bin) = (site.vault.display().to_string(), site.server.bin().display().to_string());
    let (to, place_text) = (other.url("postgres2"), place.display().to_string());
    let fixed = ["restore", &vault, "--to", &to, "--database", "postgres", "--json", "--pg-bindir", &bin, "--no-owner"];
    let taken = run("seawall", seawall(&[&fixed[..], &["--scratch", &place_text]].concat()).env("HOME", "/nowhere"));
    assert!(!loot.exists(), "{taken}");
    assert!(is_empty(&place), "nothing is left");
}

#[test]
fn damage_in_tables_and_indexes_is_found() {
    let mut site = Site::start(15);
    let sql = |sql: &str| site.server.sql("postgres", sql);
    // Rows that came while an index wasn't kept.
    sql(
        "CREATE TABLE logical (n int); CREATE INDEX wrong ON logical (n); INSERT INTO logical SELECT generate_series(1, 100)",
    );
    sql("UPDATE pg_index SET indisready = false WHERE indexrelid = 'wrong'::regclass");
    sql("INSERT INTO logical SELECT generate_series(101, 200)");
    sql("UPDATE pg_index SET indisready = true WHERE indexrelid = 'wrong'::regclass");
    // An index whose function gives another value now: that is a doubt.
    sql("CREATE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'");
    sql("CREATE TABLE changing (n int); CREATE INDEX changed ON changing (f(n)); INSERT INTO changing VALUES (1)");
    sql("CREATE OR REPLACE FUNCTION f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1000'");
    // Large values, which lie in a table of their own.
    sql("CREATE TABLE large (n int, value text); ALTER TABLE large ALTER value SET STORAGE EXTERNAL");
    sql("INSERT INTO large SELECT n, repeat(n::text, 9000) FROM generate_series(1, 20) n");
    let toast = sql("SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'large'");
    let toast = site.server.data().join(toast);
    // What hides damage.
    sql("ALTER DATABASE postgres SET zero_damaged_pages = on");
    sql(
        "CREATE TABLE physical (n int, filler text); INSERT INTO physical SELECT n, repeat('x', 100) FROM generate_series(1, 500) n",
    );
    let file = site.server.data().join(sql("SELECT pg_relation_filepath('physical')"));
    sql("CHECKPOINT");
    site.server.stop();
    // The line pointers of the second page lead behind its end.
    let table = fs::OpenOptions::new().write(true).open(file).expect("a table");
    let beyond = 0x00c8_a328_u32.to_le_bytes().repeat(4);
    table.write_all_at(&beyond, 8192 + 24).expect("written");
    fs::OpenOptions::new()
        .write(true)
        .open(toast)
        .expect("its large values")
        .write_all_at(&beyond, 24)
        .expect("written");
    site.server.start_again();
    site.commit(3);
    site.base_with(&[]).ok();
    site.archive();
    let place = place(&site);
    let output = proof(&site, &place, &[]);
    assert_eq!(output.code(), 1, "{output}");
    let record = output.json()["record"].clone();
    let faults = record["faults"].to_string();
    assert!(codes(&record).iter().all(|code| *code == "postgres.amcheck"), "{faults}");
    assert!(faults.contains("public.physical in database postgres"), "{faults}");
    assert!(faults.contains("public.wrong in database postgres"), "{faults}");
    assert!(faults.contains("pg_toast.pg_toast_"), "{faults}");
    let doubts = record["doubts"].to_string();
    assert!(!faults.contains("public.changed") && doubts.contains("public.changed"), "{faults} {doubts}");
    // Without the content only the order of the index is looked at.
    let record = proof(&site, &place, &["--level", "engine"]).json()["record"].clone();
    let faults = record["faults"].to_string();
    assert!(faults.contains("public.physical") && !faults.contains("public.wrong"), "{faults}");
}

#[test]
fn damage_in_the_log_is_found() {
    let mut site = Site::start(18);
    site.commit(3);
    site.base();
    // From now on a byte in the middle of each segment is another one when it is archived: the vault keeps what it is given.
    let folder = site.server.folder_of_its_own("spoiled");
    let script = format!("{folder}/push");
    let spoil = format!(
        "#!/bin/sh\nset -e\ncp \"$1\" \"{folder}/$2\"\nprintf '\\377' | dd of=\"{folder}/$2\" bs=1 seek=300000 conv=notrunc 2>/dev/null\n\
         {} wal push \"{folder}/$2\" --vault {}\n",
        program().canonicalize().expect("a program").display(),
        site.vault.display()
    );
    fs::write(&script, spoil).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    site.server.sql("postgres", &format!("ALTER SYSTEM SET archive_command = '{script} %p %f'"));
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    site.server.sql("postgres", "CREATE TABLE much AS SELECT n, repeat('x', 200) FROM generate_series(1, 20000) n");
    site.archive();
    let place = place(&site);
    let output = proof(&site, &place, &[]);
    let record = output.json()["record"].clone();
    assert!(output.code() == 1 && codes(&record).contains(&"postgres.recovery-short"), "{record}");
    // An object that isn't what was written.
    let object =
        site.objects("00000000.zst").into_iter().find(|path| !path.ends_with("index-00000000.zst")).expect("a pack");
    let bytes = fs::read(&object).expect("read");
    fs::OpenOptions::new()
        .write(true)
        .open(&object)
        .expect("opened")
        .write_all_at(&[!bytes[bytes.len() / 2]], bytes.len() as u64 / 2)
        .expect("spoiled");
    let record = proof(&site, &place, &["--level", "bytes"]).json()["record"].clone();
    assert!(codes(&record).contains(&"archive.corrupt"), "{record}");
    assert!(is_empty(&place));
}

#[test]
fn a_configured_cluster_is_proved_by_its_schedule() {
    let mut site = Site::start(15);
    site.commit(3);
    site.base();
    site.archive();
    let place = place(&site);
    let folder = site.server.folder_of_its_own("config");
    let config = format!("{folder}/seawall.yml");
    let text = format!(
        "socket: {{ path: {folder}/control }}\ndatabases:\n  - name: shop\n    url: \"{}\"\n    vault: {}\n    \
         continuous: {{ base: \"0 2 * * SUN\", log: pushed }}\n    prove: {{ schedule: \"* * * * *\", moments: 1, scratch: {} }}\n",
        site.server.url_as("seawall", "postgres"),
        site.vault.display(),
        place.display()
    );
    fs::write(&config, text).expect("written");
    let command = |arguments: &[&str]| {
        let mut command = seawall(&[arguments, &["--config", &config]].concat());
        command.env("HOME", site.server.folder());
        command
    };
    let mut process = Process::spawn("seawall", &mut command(&["replicate"]));
    let proof = wait::until("a proof", LATE, || {
        let status = run("seawall", &mut command(&["status", "--json"]));
        let status: Value = serde_json::from_str(&status.stdout).ok()?;
        Some(status[0]["proof"].clone()).filter(|proof| !proof.is_null())
    });
    assert_eq!(
        (proof["faults"].as_array().map(Vec::len), proof["level"].as_str()),
        (Some(0), Some("engine")),
        "{proof}"
    );
    assert_eq!(proof["moments"].as_array().map(Vec::len), Some(1), "{proof}");
    process.stop().ok();
    assert!(is_empty(&place));
}

#[test]
fn a_database_or_a_table_comes_out_of_a_cluster_as_it_was_at_a_moment() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        let sql = |sql: &str| site.server.sql("postgres", sql);
        sql("CREATE ROLE clerk LOGIN PASSWORD 'x'");
        sql("CREATE DATABASE shop OWNER clerk");
        let shop = |sql: &str| site.server.sql("shop", sql);
        shop(
            "CREATE TABLE goods (n int PRIMARY KEY, name text); ALTER TABLE goods OWNER TO clerk; CREATE TABLE other (n int)",
        );
        shop("INSERT INTO goods SELECT n, 'thing ' || n FROM generate_series(1, 1000) n");
        const GOODS: &str = "SELECT count(*), md5(string_agg(n || name, ',' ORDER BY n)) FROM goods";
        let before = shop(GOODS);
        let spot = site.server.folder_of_its_own("space");
        sql(&format!("CREATE TABLESPACE fast LOCATION '{spot}'"));
        site.base();
        let marked = site.server.sql("postgres", "SELECT now()");
        site.server.sql("shop", "DELETE FROM goods WHERE n > 10");
        site.commit(2);
        site.archive();
        let place = place(&site);
        let place_text = place.display().to_string();
        let other = Server::start(major);
        let vault = site.vault.display().to_string();
        let bin = site.server.bin().display().to_string();
        let take = |to: &str, more: &[&str]| {
            let fixed = ["restore", &vault, "--to", to, "--json", "--pg-bindir", &bin, "--scratch", &place_text];
            run("seawall", seawall(&[&fixed, more].concat()).env("HOME", site.server.folder()))
        };
        // A whole database, as it is now, with an owner whom the other server doesn't know.
        let failed = take(&other.url("shop"), &[]);
        assert_eq!(failed.json()["error"]["code"], "postgres.not-ready", "{failed}");
        let taken = take(&other.url("shop"), &["--no-owner"]).ok().json();
        assert!(taken["cluster"]["lsn"].as_str().is_some_and(|lsn| lsn.contains('/')), "{taken}");
        assert_eq!(other.sql("shop", "SELECT count(*) FROM goods"), "10");
        // One table, as it was before the mistake, beside it.
        let at = marked.replacen(' ', "T", 1);
        let more = ["--no-owner", "--database", "shop", "--table", "public.goods", "--at", &at];
        take(&other.url("back"), &more).ok();
        assert_eq!(other.sql("back", GOODS), before);
        assert_eq!(other.sql("back", "SELECT count(*) FROM pg_class WHERE relname = 'other'"), "0");
        // All databases, with their roles. A tablespace has to be there, at the place where it was in the source.
        let third = Server::start(major);
        let refused = take(&third.url(""), &[]);
        assert!(refused.json()["error"]["next"].as_str().is_some_and(|next| next.contains(&spot)), "{refused}");
        let place_there = third.folder_of_its_own("fast");
        third.sql("postgres", &format!("CREATE TABLESPACE fast LOCATION '{place_there}'"));
        let taken = take(&third.url(""), &[]);
        assert!([0, 3].contains(&taken.code()), "the places differ: {taken}");
        assert_eq!(third.sql("postgres", crate::wal::SUMS), site.sums());
        assert_eq!(third.sql("shop", "SELECT tableowner FROM pg_tables WHERE tablename = 'goods'"), "clerk");
        // What no base has rows of is named.
        site.server.sql("postgres", "CREATE UNLOGGED TABLE passing (n int)");
        site.base();
        site.archive();
        let taken = take(&other.url("rest"), &["--no-owner", "--database", "postgres"]).exits(3).json();
        assert_eq!(taken["cluster"]["empty"], serde_json::json!(["public.passing in database postgres"]));
        let unknown = take(&other.url("nothing"), &[]);
        assert_eq!(unknown.json()["error"]["code"], "postgres.no-database", "{unknown}");
        assert!(is_empty(&place), "nothing is left");
    }
}
