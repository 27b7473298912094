//! Clusters whose surroundings work against a restore: settings of the source, tablespaces of a server on the same host, a server
//! that changes while it is copied. Every test ends in a recovered server that is compared with what was recorded.

use std::path::Path;

use seawall_tests::{Process, run, wait};

use crate::postgres::server::Server;
use crate::postgres_cluster::{Site, seawall};
use crate::wal::{LATE, SUMS, VERSIONS};

#[test]
fn cluster_restored_has_no_setting_that_holds_it_back_or_deletes_what_the_source_archived() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(5);
        // The files have these settings, and the server that runs has them not yet.
        for setting in [
            "recovery_min_apply_delay = '1h'",
            "archive_cleanup_command = 'false'",
            "synchronous_standby_names = 'elsewhere'",
            "recovery_target_name = 'never'",
        ] {
            site.server.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        site.base();
        site.commit(5);
        site.archive();
        let recovered = site.recovered(&[]);
        assert_eq!(recovered.sql("postgres", SUMS), site.sums(), "{major}");
        recovered.sql("postgres", "SET statement_timeout = '60s'; INSERT INTO t VALUES (-1, 0, '')");
        assert_eq!(recovered.sql("postgres", "SHOW archive_cleanup_command"), "");
    }
}

#[test]
fn cluster_started_by_the_restore_touches_nothing_of_the_source() {
    let mut site = Site::start(15);
    site.commit(5);
    let (data, folder) = (site.server.data(), site.server.folder().to_owned());
    let pid = folder.join("source.pid");
    let configuration = data.join("postgresql.conf");
    let text = std::fs::read_to_string(&configuration).expect("read");
    // Read when a server starts.
    let more = format!(
        "data_directory = '{}'\nexternal_pid_file = '{}'\nssl = on\nssl_cert_file = '/none'\n",
        data.display(),
        pid.display()
    );
    std::fs::write(&configuration, format!("{text}\n{more}")).expect("written");
    std::fs::write(&pid, "1").expect("written");
    site.base();
    site.commit(5);
    let sums = site.sums();
    // The database that is asked first takes no connections.
    site.server.sql("template1", "ALTER DATABASE postgres WITH ALLOW_CONNECTIONS false");
    let name = site.server.sql("template1", "SELECT pg_walfile_name(pg_switch_wal())");
    let archived = format!("SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver");
    wait::until("the segment", LATE, || (site.server.sql("template1", &archived) == "t").then_some(()));
    let bindir = site.server.bin().display().to_string();
    let recovered = Server::restored_to(&site.server, "template1", |data| {
        let restored = site.restore(data, &["--start", "--pg-bindir", &bindir]).ok().json();
        assert_eq!(restored["reached"]["timeline"], 2, "{restored}");
        std::fs::write(data.join("postgresql.conf"), &text).expect("written");
    });
    let recovered = recovered.expect("it starts");
    recovered.sql("template1", "ALTER DATABASE postgres WITH ALLOW_CONNECTIONS true");
    assert_eq!(recovered.sql("postgres", SUMS), sums);
    assert_eq!(std::fs::read_to_string(&pid).expect("read"), "1");
}

#[test]
fn cluster_recovery_never_writes_into_a_tablespace_of_the_source_on_the_same_host() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(5);
        site.base();
        site.commit(5);
        let (before, lsn) = (site.sums(), site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()"));
        site.archive();
        let place = site.server.folder_of_its_own("late");
        site.server.sql("postgres", &format!("CREATE TABLESPACE late LOCATION '{place}'"));
        site.server.sql("postgres", "CREATE TABLE s TABLESPACE late AS SELECT i FROM generate_series(1, 5000) i");
        site.archive();
        site.server.sql("postgres", "UPDATE s SET i = i + 1");
        site.commit(5);
        site.archive();
        let all = "SELECT count(*), sum(i) FROM s";
        let (now, sums) = (site.server.sql("postgres", all), site.sums());
        let refused = Server::restored(&site.server, |data| drop(site.restore(data, &[]).ok()));
        let Err(log) = refused else { panic!("it recovered into the folder of the source") };
        assert!(log.contains("log.tablespace-in-use") && log.contains(&place), "{major}: {log}");
        // The source has lost nothing.
        site.server.kill();
        site.server.start_again();
        assert_eq!(site.server.sql("postgres", all), now, "{major}");
        let recovered = site.recovered(&["--target", &format!("lsn:{lsn}")]);
        assert_eq!(recovered.sql("postgres", SUMS), before, "{major}");
        // On another host nothing is there.
        site.server.kill();
        std::fs::rename(&place, format!("{place} of the source")).expect("moved");
        site.server.folder_of_its_own("late");
        let recovered = site.recovered(&[]);
        assert_eq!(recovered.sql("postgres", all), now, "{major}");
        assert_eq!(recovered.sql("postgres", SUMS), sums, "{major}");
    }
}

#[test]
fn cluster_tablespaces_that_would_lie_in_each_other_are_refused_before_anything_is_written() {
    let mut site = Site::start(15);
    let places: Vec<String> = ["one", "two"].map(|name| site.server.folder_of_its_own(name)).into();
    for (nth, place) in places.iter().enumerate() {
        site.server.sql("postgres", &format!("CREATE TABLESPACE s{nth} LOCATION '{place}'"));
        site.server
            .sql("postgres", &format!("CREATE TABLE t{nth} TABLESPACE s{nth} AS SELECT generate_series(1, 99) i"));
    }
    site.commit(3);
    site.base();
    site.archive();
    let folder = site.server.folder().to_owned();
    let mapped = |one: &Path, two: &Path| {
        let mappings = [format!("{}={}", places[0], one.display()), format!("{}={}", places[1], two.display())];
        ["--tablespace".to_owned(), mappings[0].clone(), "--tablespace".to_owned(), mappings[1].clone()]
    };
    let out = folder.join("out");
    for (one, two) in [
        (folder.join("new"), folder.join("new")),
        (folder.join("new"), folder.join("new/below")),
        (out.join("below"), folder.join("new")),
    ] {
        let arguments = mapped(&one, &two);
        let refused = site.restore(&out, &arguments.each_ref().map(String::as_str)).exits(1).json();
        let code = refused["error"]["code"].as_str().expect("a code").to_owned();
        assert!(code == "postgres.folder-in-use" || code.contains("url"), "{refused}");
        assert!(!out.exists() && !folder.join("new").exists(), "{refused}");
    }
    let arguments = mapped(&folder.join("new one"), &folder.join("new two"));
    let recovered = site.recovered(&arguments.each_ref().map(String::as_str));
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
    assert_eq!(
        recovered.sql("postgres", "SELECT sum(i) FROM t0"),
        site.server.sql("postgres", "SELECT sum(i) FROM t1")
    );
}

#[test]
fn cluster_that_was_restored_is_copied_and_restored_again_without_the_credentials_of_the_first_time() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(3);
        site.base();
        site.commit(3);
        site.archive();
        let mut second = site.recovered(&[]);
        // It archives in a lineage of its own.
        let vault = second.folder().join("vault");
        let program = seawall_tests::seawall().canonicalize().expect("a program");
        let push = format!("{} wal push %p --vault {}", program.display(), vault.display());
        second.sql("postgres", &format!("ALTER SYSTEM SET archive_command = '{push}'"));
        second.sql("postgres", "ALTER SYSTEM SET archive_mode = on");
        second.stop();
        second.start_again();
        let (url, text) = (second.url_as("seawall", "postgres"), vault.display().to_string());
        run("seawall", &mut seawall(&["backup", &url, &text, "--physical"])).ok();
        second.sql("postgres", "INSERT INTO t VALUES (2001, 1, 'second')");
        let (sums, name) = (second.sql("postgres", SUMS), "SELECT pg_walfile_name(pg_switch_wal())");
        crate::wal::until_archived(&second, &second.sql("postgres", name));
        let third = Server::restored(&site.server, |data| {
            let to = data.display().to_string();
            run("seawall", &mut seawall(&["restore", &text, "-o", &to])).ok();
            let handed = std::fs::read_to_string(data.join("seawall.recovery")).expect("read");
            assert!(handed.contains(&text) && !handed.contains(&*site.vault.to_string_lossy()), "{handed}");
        });
        assert_eq!(third.expect("it recovers").sql("postgres", SUMS), sums, "{major}");
        // The first vault has nothing of it.
        assert_eq!(site.recovered(&[]).sql("postgres", SUMS), site.sums(), "{major}");
    }
}

#[test]
fn cluster_whose_socket_is_in_its_data_directory_is_copied() {
    let mut site = Site::start(15);
    let (folder, data) = (site.server.folder().to_owned(), site.server.data());
    let sockets = format!("ALTER SYSTEM SET unix_socket_directories = '{}', '{}'", folder.display(), data.display());
    site.server.sql("postgres", &sockets);
    site.server.stop();
    site.server.start_again();
    assert!(data.join(".s.PGSQL.5432").exists());
    site.commit(3);
    site.base();
    site.archive();
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}

#[test]
fn cluster_with_a_relation_of_several_files_is_recovered() {
    let mut site = Site::start(18);
    site.server.sql("postgres", "CREATE TABLE large AS SELECT 1 AS i; CHECKPOINT");
    let path = site.server.sql("postgres", "SELECT pg_relation_filepath('large')");
    site.server.stop();
    // Pages that were never used, up to the end of the first file.
    let file = std::fs::File::options().write(true).open(site.server.data().join(&path)).expect("opened");
    file.set_len(1 << 30).expect("extended");
    drop(file);
    site.server.start_again();
    site.server.sql("postgres", "INSERT INTO large SELECT generate_series(2, 5000)");
    assert!(site.server.data().join(format!("{path}.1")).exists());
    site.commit(3);
    let all = "SELECT count(*), sum(i), max(ctid)::text FROM large";
    site.base();
    site.server.sql("postgres", "UPDATE large SET i = i + 1");
    let now = site.server.sql("postgres", all);
    site.archive();
    // The second base knows the first.
    site.base();
    site.archive();
    for arguments in [&[][..], &["--at", "latest", "--start", "--pg-bindir", &site.server.bin().display().to_string()]]
    {
        assert_eq!(site.recovered(arguments).sql("postgres", all), now);
    }
}

/// What changes files while a base is made; each round leaves another state.
const STORM: &str = "\
    CREATE TABLE IF NOT EXISTS kept AS SELECT i, md5(i::text) m FROM generate_series(1, 20000) i; \
    DROP TABLE IF EXISTS gone; CREATE TABLE gone AS SELECT i FROM generate_series(1, 30000) i; \
    DROP TABLE IF EXISTS cut; CREATE TABLE cut AS SELECT i FROM kept; TRUNCATE cut; \
    INSERT INTO cut SELECT i FROM kept WHERE i % 7 = 0; \
    UPDATE kept SET m = md5(m) WHERE i % 5 = 0; DELETE FROM kept WHERE i > 19000; \
    INSERT INTO kept SELECT i, md5(i::text) FROM generate_series(19001, 21000) i; \
    CREATE INDEX ON gone (i)";

/// The content of all tables of a database.
const CONTENT: &str = "SELECT (SELECT count(*) || ' ' || sum(hashtextextended(k::text, 0)) FROM kept k), \
                       (SELECT count(*) || ' ' || sum(i) FROM gone), (SELECT count(*) || ' ' || sum(i) FROM cut)";

#[test]
fn cluster_copied_under_a_storm_of_ddl_is_what_it_was() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.server.sql("postgres", STORM);
        site.commit(5);
        let place = site.server.folder_of_its_own("space");
        let storm = site.server.folder().join("storm.sql");
        let text = format!(
            "{};\nVACUUM FULL kept;\nCHECKPOINT;\nDROP DATABASE IF EXISTS logged;\nCREATE DATABASE logged STRATEGY wal_log;\n\
             DROP DATABASE IF EXISTS copied;\nCREATE DATABASE copied STRATEGY file_copy;\n\
             CREATE TABLESPACE space LOCATION '{place}';\nCREATE TABLE inside TABLESPACE space AS SELECT 1 AS i;\nDROP TABLE inside;\n\
             DROP TABLESPACE space;\n",
            STORM.replace("; ", ";\n")
        );
        std::fs::write(&storm, text).expect("written");
        let mut bench = site.server.tool("pgbench");
        bench.args(["-n", "-c", "1", "-T", "600", "-f"]).arg(&storm).arg("postgres");
        let mut load = Process::spawn("pgbench", &mut bench);
        let logged = "SELECT count(*) FROM pg_database WHERE datname = 'copied'";
        wait::until("the storm", LATE, || (site.server.sql("postgres", logged) == "1").then_some(()));
        let mut bases = Vec::new();
        for _ in 0..3 {
            site.commit(2);
            let made = site.base_with(&["--memory", "64MB"]).ok().json();
            assert!(made["damaged"].as_array().is_some_and(Vec::is_empty), "{made}");
            bases.push(made["id"].as_str().expect("a name").to_owned());
        }
        assert!(load.running(), "the storm goes on: {}", load.stderr());
        load.kill_9();
        let quiet = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'";
        wait::until("the storm to end", LATE, || (site.server.sql("postgres", quiet) == "0").then_some(()));
        site.server.sql("postgres", "DROP TABLE IF EXISTS inside");
        site.server.sql("postgres", "DROP TABLESPACE IF EXISTS space");
        site.server.sql("postgres", STORM);
        site.commit(5);
        let end = site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
        site.archive();
        let (content, sums) = (site.server.sql("postgres", CONTENT), site.sums());
        let databases = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database";
        let all = site.server.sql("postgres", databases);
        // The log makes the tablespace again, whose folder is the source's: it is this host's no more.
        site.server.kill();
        for id in &bases {
            let recovered = site.recovered(&["--at", id, "--target", &format!("lsn:{end}")]);
            assert_eq!(recovered.sql("postgres", CONTENT), content, "{major} {id}");
            assert_eq!(recovered.sql("postgres", SUMS), sums, "{major} {id}");
            assert_eq!(recovered.sql("postgres", databases), all, "{major} {id}");
            recovered.sql("postgres", "CREATE EXTENSION amcheck");
            let check = "SELECT count(*) FROM (SELECT verify_heapam(oid) FROM pg_class WHERE relkind = 'r') x";
            assert_eq!(recovered.sql("postgres", check), "0", "{major} {id}");
            let indexes = "SELECT count(*) FROM (SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam \
                           WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence <> 't') x";
            recovered.sql("postgres", indexes);
        }
    }
}

#[test]
fn cluster_base_whose_session_is_ended_or_whose_standby_is_promoted_does_not_count() {
    let mut site = Site::start(15);
    site.server.sql(
        "postgres",
        "CREATE TABLE big AS SELECT i, string_agg(md5(random()::text || j), '') f FROM generate_series(1, 20000) i, \
         generate_series(1, 30) j GROUP BY i; CHECKPOINT",
    );
    site.commit(3);
    let standby = Server::standby_of(&site.server);
    let vault = site.vault.display().to_string();
    let slowly = |server: &Server| {
        let url = server.url_as("seawall", "postgres");
        let arguments =
            ["backup", &url, &vault, "--physical", "--jobs", "1", "--memory", "64MB", "--upload-limit", "2MB"];
        Process::spawn("seawall", &mut seawall(&arguments))
    };
    // The session that holds the backup is the one that lists the files.
    let session =
        "FROM pg_stat_activity WHERE usename = 'seawall' AND (query LIKE '%pg_ls_dir%' OR query LIKE '%pg_control%')";
    let mut backup = slowly(&site.server);
    let end = format!("SELECT count(pg_terminate_backend(pid)) {session}");
    wait::until("the session to be ended", LATE, || (site.server.sql("postgres", &end) == "1").then_some(()));
    let refused = backup.wait(LATE);
    assert_ne!(refused.code(), 0, "{refused}");
    let mut backup = slowly(&standby);
    let begun = format!("SELECT count(*) {session}");
    wait::until("the backup", LATE, || (standby.sql("postgres", &begun) == "1").then_some(()));
    standby.sql("postgres", "SELECT pg_promote()");
    let refused = backup.wait(LATE);
    assert_ne!(refused.code(), 0, "{refused}");
    assert!(refused.stderr.contains("promoted"), "{refused}");
    assert!(site.objects("manifest.json").is_empty());
    drop(standby);
    // The vault has the promoted standby's timeline, so the old one has to be named.
    let refused = site.base_with(&[]).exits(1);
    assert!(refused.stdout.contains("log.demoted"), "{refused}");
    site.base_with(&["--timeline", "1"]).ok();
    site.commit(3);
    site.archive();
    let recovered = site.recovered(&["--timeline", "1"]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
}

#[test]
fn cluster_with_other_peoples_settings_is_copied_and_recovered() {
    let mut site =
        Site::with(18, "wal_compression = on\nwal_keep_size = '64MB'\nfull_page_writes = on\nwal_log_hints = on");
    site.commit(5);
    site.base();
    let mut standby = Server::standby_of(&site.server);
    // A standby that archives everything into the same vault, and is behind.
    for setting in ["archive_mode = 'always'", "recovery_min_apply_delay = '5s'"] {
        standby.sql("postgres", &format!("ALTER SYSTEM SET {setting}"));
    }
    standby.stop();
    standby.start_again();
    for _ in 0..3 {
        site.commit(3);
        site.archive();
    }
    let failures = "SELECT failed_count FROM pg_stat_archiver";
    let archived = || (standby.sql("postgres", "SELECT archived_count > 0 FROM pg_stat_archiver") == "t").then_some(());
    wait::until("the standby to archive", LATE, archived);
    assert_eq!(standby.sql("postgres", failures), "0", "{}", standby.log());
    assert_eq!(site.server.sql("postgres", failures), "0", "{}", site.server.log());
    let recovered = site.recovered(&[]);
    assert_eq!(recovered.sql("postgres", SUMS), site.sums());
    drop(recovered);
    // What can't be copied says why.
    let minimal = Server::start_with(15, "wal_level = minimal\nmax_wal_senders = 0");
    minimal.sql("postgres", "CREATE ROLE seawall LOGIN SUPERUSER");
    let elsewhere = site.server.folder_of_its_own("elsewhere");
    let url = minimal.url_as("seawall", "postgres");
    let refused = run("seawall", &mut seawall(&["backup", &url, &elsewhere, "--physical"]));
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("wal_level"), "{refused}");
    let mut receive = Process::spawn("seawall", &mut seawall(&["wal", "receive", &url, &elsewhere]));
    let told = || receive.stderr().contains("max_wal_senders").then_some(());
    wait::until("the reason", LATE, told);
}
