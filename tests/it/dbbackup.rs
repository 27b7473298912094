//! Backups that dbbackup and the vendors' programs left as files, by the command line, on real servers.
//!
//! No file of dbbackup itself is here. The tests make files as it is described to make them: by the vendors' programs, gzip, zstd and tar,
//! with metadata beside them, and encrypted in its form.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seawall_tests::{Output, Stand};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::mysql::server::Server as Mysql;
use crate::postgres::server::Server as Postgres;
use crate::postgres::{CONTENT, nothing_stays, shop};

/// Runs a program that must succeed, and returns what it prints.
fn printed(mut command: Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Compresses by the usual program.
fn compressed(file: &Path, program: &str) -> PathBuf {
    let end = if program == "gzip" { "gz" } else { "zst" };
    let mut command = Command::new(program);
    command.arg("-c").arg(file);
    let to = PathBuf::from(format!("{}.{end}", file.display()));
    std::fs::write(&to, printed(command)).unwrap();
    to
}

/// What dbbackup writes beside a backup.
fn describe(file: &Path, r#type: &str, version: &str) {
    let bytes = std::fs::read(file).unwrap();
    let sum: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let meta = serde_json::json!({
        "version": version, "timestamp": "2026-11-28T03:00:00Z", "database": "shop", "database_type": r#type,
        "backup_file": "/elsewhere/shop", "size_bytes": bytes.len(), "sha256": sum, "compression": "gzip", "duration_seconds": 0.0009,
        "extra_info": {}, "encrypted": false,
    });
    std::fs::write(format!("{}.meta.json", file.display()), meta.to_string()).unwrap();
    std::fs::write(format!("{}.sha256", file.display()), format!("{sum}  /elsewhere/shop\n")).unwrap();
}

fn pg_dump(server: &Postgres, file: &Path, arguments: &[&str]) {
    let mut command = server.tool("pg_dump");
    command.args(arguments).arg("-f").arg(file).arg("shop");
    printed(command);
}

fn restore(stand: &Stand, file: &Path, to: &str, more: &[&str]) -> Output {
    stand.seawall(&[&["restore", file.to_str().unwrap(), "--to", to], more].concat())
}

fn verify(stand: &Stand, file: &Path, more: &[&str]) -> Output {
    stand.seawall(&[&["verify", file.to_str().unwrap()], more].concat())
}

/// A PostgreSQL server of a version with a database `shop`, whose owner is a role of its own.
fn owned_shop(rows: u32) -> Postgres {
    let server = shop(rows);
    server.sql("postgres", "CREATE ROLE keeper LOGIN PASSWORD 'secret'; CREATE ROLE staff; GRANT staff TO keeper");
    server.sql(
        "shop",
        "ALTER TABLE small OWNER TO keeper; GRANT SELECT ON big TO staff; \
         CREATE FUNCTION twice(a int) RETURNS int LANGUAGE sql AS $$ SELECT 2 * a $$; CREATE VIEW few AS SELECT * FROM big WHERE id < 10",
    );
    server
}

#[test]
fn postgres_files_of_one_database_come_back() {
    let (stand, server) = (Stand::folder(1), owned_shop(3_000));
    let (archive, script) = (stand.path("db_shop_20261128_030000.dump"), stand.path("pg_shop_20261128_030000.sql"));
    pg_dump(&server, &archive, &["-Fc", "--compress=6"]);
    pg_dump(&server, &script, &["-Fp"]);
    let (zipped, frames) = (compressed(&script, "gzip"), compressed(&script, "zstd"));
    for (number, file) in [&archive, &script, &zipped, &frames].into_iter().enumerate() {
        if number % 2 == 1 {
            describe(file, "postgres", "2.0");
        }
        let read = verify(&stand, file, &["--json"]).ok().json();
        let sum = if number % 2 == 1 { Value::from("sha256") } else { Value::Null };
        assert_eq!(
            (&read["backup"]["checksum"], &read["parts"][0]["server"]),
            (&sum, &Value::from("postgres")),
            "{read}"
        );
        assert_eq!(read["parts"][0]["rows"], 3_100, "{read}");
        let name = format!("copy{number}");
        let to = server.url(&name);
        let planned = restore(&stand, file, &to, &["--dry-run", "--json"]).ok().json();
        assert_eq!(planned["lacks"], Value::Array(vec![]), "{planned}");
        let back = restore(&stand, file, &to, &["--json"]).ok().json();
        assert_eq!(
            (&back["databases"][0]["name"], &back["databases"][0]["rows"]),
            (&Value::from(name.as_str()), &Value::from(3_100)),
            "{back}"
        );
        let without = back["without"].as_array().unwrap();
        assert!(without.iter().any(|what| what.as_str().unwrap().starts_with("no roles")), "{back}");
        assert_eq!(
            without.iter().any(|what| what.as_str().unwrap().starts_with("no checksum")),
            number % 2 == 0,
            "{back}"
        );
        assert_eq!(server.sql(&name, CONTENT), server.sql("shop", CONTENT));
        let owner = "SELECT relowner::regrole FROM pg_class WHERE relname = 'small'";
        assert_eq!(server.sql(&name, owner), "keeper");
        nothing_stays(&server, &name);
        // What is there is kept.
        let refused = restore(&stand, file, &to, &[]).exits(1);
        assert!(refused.stderr.contains("error[postgres.not-empty]"), "{refused}");
    }
    // Into an empty database, over a full one, and without owners.
    server.sql("postgres", "CREATE DATABASE empty");
    restore(&stand, &zipped, &server.url("empty"), &[]).ok();
    server.sql("copy1", "DROP TABLE small");
    restore(&stand, &frames, &server.url("copy1"), &["--clean", "--no-owner"]).ok();
    for name in ["empty", "copy1"] {
        assert_eq!(server.sql(name, CONTENT), server.sql("shop", CONTENT));
    }
    assert_eq!(server.sql("copy1", "SELECT count(*) FROM pg_class WHERE relowner = 'keeper'::regrole"), "0");
    let refused = restore(&stand, &script, &server.url("copy9"), &["--table", "big"]).exits(1);
    assert!(refused.stderr.contains("error[postgres.vendor-format]"), "{refused}");
    let refused = restore(&stand, &script, &server.url(""), &[]).exits(2);
    assert!(refused.stderr.contains("error[usage.server]"), "{refused}");
}

#[test]
fn postgres_files_of_version_18_come_back_and_say_what_they_need() {
    let stand = Stand::folder(2);
    let (old, new) = (owned_shop(500), Postgres::start(18));
    let (archive, script) = (stand.path("old.dump"), stand.path("old.sql"));
    pg_dump(&old, &archive, &["-Fc"]);
    pg_dump(&old, &script, &["-Fp"]);
    let new_programs = ["--pg-bindir", new.bin().to_str().unwrap()];
    // The roles are missing: an archive tells before anything is done, a script where it needs them.
    let refused = restore(&stand, &archive, &new.url("shop"), &new_programs).exits(1);
    assert!(
        refused.stderr.contains("error[postgres.not-ready]") && refused.stderr.contains("CREATE ROLE"),
        "{refused}"
    );
    let refused = restore(&stand, &script, &new.url("shop"), &[]).exits(1);
    assert!(refused.stderr.contains("error[postgres.no-role]") && refused.stderr.contains("--no-owner"), "{refused}");
    assert_eq!(new.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'shop'"), "0");
    restore(&stand, &script, &new.url("bare"), &["--no-owner"]).ok();
    new.sql("postgres", "CREATE ROLE keeper; CREATE ROLE staff");
    restore(&stand, &archive, &new.url("shop"), &new_programs).ok();
    // Version 18 lists NOT NULL among the constraints.
    let content = CONTENT.replace("WHERE connamespace", "WHERE contype <> 'n' AND connamespace");
    for name in ["bare", "shop"] {
        assert_eq!(new.sql(name, &content), old.sql("shop", &content));
    }
    // And back down: a script of version 18 has settings that 15 doesn't know.
    let newer = stand.path("new.dump");
    let mut command = new.tool("pg_dump");
    command.arg("-Fc").arg("-f").arg(&newer).arg("shop");
    printed(command);
    let refused = restore(&stand, &newer, &old.url("down"), &new_programs).exits(1);
    assert!(refused.stderr.contains("restore into version 18 or later"), "{refused}");
    let read = verify(&stand, &newer, &[&new_programs[..], &["--json"]].concat()).ok().json();
    assert_eq!(read["parts"][0]["rows"], 600, "{read}");
}

#[test]
fn postgres_files_that_are_not_whole_are_refused() {
    let (stand, server) = (Stand::folder(3), shop(2_000));
    let (archive, script) = (stand.path("a.dump"), stand.path("s.sql"));
    pg_dump(&server, &archive, &["-Fc"]);
    pg_dump(&server, &script, &["-Fp"]);
    let zipped = compressed(&script, "gzip");
    let text = std::fs::read_to_string(&script).unwrap();
    let unmarked = text.split("-- PostgreSQL database dump complete").next().unwrap().to_owned();
    let broken = |name: &str, bytes: &[u8]| {
        let file = stand.path(name);
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let whole = std::fs::read(&zipped).unwrap();
    let stored = std::fs::read(&archive).unwrap();
    let described = broken("described.sql.gz", &whole);
    describe(&described, "postgres", "2.0");
    let more = std::fs::read(compressed(&broken("more", b"\n"), "gzip")).unwrap();
    std::fs::write(&described, [whole.clone(), more].concat()).unwrap();
    for (file, codes) in [
        (broken("cut.sql", unmarked.as_bytes()), &["dump.cut-off"][..]),
        (broken("rows.sql", &text.as_bytes()[..text.len() / 2]), &["dump.cut-off", "dump.damaged"]),
        (broken("cut.sql.gz", &whole[..whole.len() / 2]), &["dump.cut-off"]),
        (broken("end.sql.gz", &whole[..whole.len() - 4]), &["dump.cut-off"]),
        (broken("cut.dump", &stored[..stored.len() / 2]), &["postgres.tool-failed", "dump.damaged", "dump.cut-off"]),
        (
            broken("native.sql", b"CREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n"),
            &["dump.unproved", "dump.unknown-server"],
        ),
        (described, &["dump.checksum"]),
        (
            broken("other.sql.gz", &std::fs::read(compressed(&broken("other", b"SQLite"), "gzip")).unwrap()[..20]),
            &["dump.cut-off", "dump.unknown"],
        ),
    ] {
        for said in [restore(&stand, &file, &server.url("copy"), &[]), verify(&stand, &file, &[])] {
            let said = said.exits(1);
            assert!(
                codes.iter().any(|code| said.stderr.contains(&format!("error[{code}]"))),
                "{}: {said}",
                file.display()
            );
        }
        assert_eq!(
            server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"),
            "0",
            "{}",
            file.display()
        );
    }
    // With a checksum it is known to be whole, and dbbackup's own engine writes no mark.
    let native = stand.path("native.sql");
    describe(&native, "postgres", "1.0");
    let said = restore(&stand, &native, &server.url("native"), &["--json"]).ok().json();
    assert!(said["without"].to_string().contains("dbbackup's own engine"), "{said}");
    assert_eq!(server.sql("native", "SELECT sum(a) FROM t"), "1");
}

#[test]
fn postgres_scripts_that_run_something_are_refused() {
    let (stand, server) = (Stand::folder(4), Postgres::start(15));
    let marker = stand.path("marker");
    let shown = marker.display();
    for (number, (line, code)) in [
        (format!("\\! touch {shown}"), "postgres.psql-command"),
        (format!("\\unrestrict `touch {shown}`\n\\i x"), "postgres.psql-command"),
        ("\\i /etc/passwd".to_owned(), "postgres.psql-command"),
        (format!("\\copy t from program 'touch {shown}'"), "postgres.psql-command"),
        ("SELECT 1 \\g | sh".to_owned(), "postgres.psql-command"),
        ("\\connect postgres".to_owned(), "postgres.psql-command"),
        (format!("COPY public.t FROM PROGRAM 'touch {shown}';"), "postgres.copy-of-file"),
        ("COPY t TO '/tmp/x';".to_owned(), "postgres.copy-of-file"),
        (format!("\u{b}COPY public.t FROM PROGRAM 'touch {shown}';"), "postgres.statement"),
        (format!("DO $$BEGIN EXECUTE 'COPY public.t FROM PROGRAM ''touch {shown}'''; END$$;"), "postgres.statement"),
        (
            format!(
                "SET standard_conforming_strings = off;\nSELECT '\\''; COPY public.t FROM PROGRAM 'touch {shown}' --';"
            ),
            "postgres.statement",
        ),
        (format!("SELECT E'a'\n'\\''; COPY public.t FROM PROGRAM ''touch {shown}'' --';"), "postgres.statement"),
        ("ALTER SYSTEM SET log_statement = 'all';".to_owned(), "postgres.statement"),
        ("CREATE ROLE eve SUPERUSER;".to_owned(), "postgres.statement"),
        ("GRANT pg_execute_server_program TO PUBLIC;".to_owned(), "postgres.statement"),
        ("SELECT pg_catalog.pg_reload_conf();".to_owned(), "postgres.statement"),
        ("CREATE DATABASE mine;\n\\connect postgres".to_owned(), "postgres.psql-command"),
        ("COPY public.t (a) FROM stdin WITH (FORMAT csv);\nx\n\\.".to_owned(), "postgres.statement"),
        (
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$\n\nCOPY public.t (a) FROM stdin;\n\\N\n\\."
                .to_owned(),
            "dump.damaged",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let script = stand.path(&format!("hostile{number}.sql"));
        let text = format!(
            "--\n-- PostgreSQL database dump\n--\n\n\\restrict k\n\nSET client_encoding = 'UTF8';\nCREATE TABLE public.t (a text);\n{line}\n\
             --\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict k\n"
        );
        std::fs::write(&script, text).unwrap();
        for said in [restore(&stand, &script, &server.url("copy"), &[]), verify(&stand, &script, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains(&format!("error[{code}]")), "{line}: {said}");
        }
        assert!(!marker.exists(), "{line}");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    }
}

#[test]
fn postgres_two_statements_in_one_are_no_statement() {
    // What the scanner takes for one statement, by a continued text, is two for the server: it must run neither.
    let (stand, server) = (Stand::folder(15), Postgres::start(15));
    let (script, marker) = (stand.path("two.sql"), stand.path("marker"));
    let line = format!(
        "INSERT INTO public.t VALUES (E'a'\n'\\''); COPY public.t FROM PROGRAM $$touch {}$$ --');",
        marker.display()
    );
    let text = format!(
        "--\n-- PostgreSQL database dump\n--\nCREATE TABLE public.t (a text);\n{line}\n-- PostgreSQL database dump complete\n"
    );
    std::fs::write(&script, text).unwrap();
    restore(&stand, &script, &server.url("copy"), &[]).exits(1);
    assert!(!marker.exists());
}

#[test]
fn postgres_scripts_that_make_their_database_leave_others_alone() {
    let (stand, server) = (Stand::folder(12), owned_shop(500));
    server.sql("postgres", "ALTER DATABASE shop SET work_mem = '5MB'; COMMENT ON DATABASE shop IS 'mine'");
    let content = server.sql("shop", CONTENT);
    let oid = "SELECT oid FROM pg_database WHERE datname = 'shop'";
    let before = server.sql("postgres", oid);
    let script = stand.path("shop.sql");
    pg_dump(&server, &script, &["-Fp", "-C", "-c", "--if-exists"]);
    assert!(std::fs::read_to_string(&script).unwrap().contains("DROP DATABASE IF EXISTS shop"));
    verify(&stand, &script, &[]).ok();
    let back = restore(&stand, &script, &server.url("copy"), &[]).ok();
    for statement in
        ["DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop", "\\connect shop", "ALTER DATABASE shop SET work_mem"]
    {
        assert!(back.stdout.contains(&format!("about the database as a whole: {statement}")), "{statement}: {back}");
    }
    assert_eq!(server.sql("postgres", oid), before, "the database of that name is another one now");
    assert_eq!((server.sql("shop", CONTENT), server.sql("copy", CONTENT)), (content.clone(), content.clone()));
    // Into a server that has no database of that name, none is made but the target.
    let new = Postgres::start(15);
    restore(&stand, &script, &new.url("copy"), &["--no-owner"]).ok();
    assert_eq!(new.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'shop'"), "0");
    // Written on Windows.
    let windows = stand.path("windows.sql");
    pg_dump(&server, &script, &["-Fp", "--no-owner", "--no-privileges", "-t", "small"]);
    std::fs::write(&windows, std::fs::read_to_string(&script).unwrap().replace('\n', "\r\n")).unwrap();
    let read = verify(&stand, &windows, &["--json"]).ok().json();
    assert_eq!(read["parts"][0]["rows"], 100, "{read}");
}

#[test]
fn postgres_scripts_of_unusual_kinds_come_back_and_those_that_reach_further_do_not() {
    let (stand, server) = (Stand::folder(14), owned_shop(200));
    let content = server.sql("shop", CONTENT);
    server.sql("postgres", "ALTER DATABASE shop RENAME TO \"my-db, it's\"");
    let script = stand.path("shop.sql");
    // psql is told an encoding before it connects to a name with signs.
    printed({
        let mut dump = server.tool("pg_dump");
        dump.args(["-Fp", "-C", "-f"]).arg(&script).arg("my-db, it's");
        dump
    });
    assert!(std::fs::read_to_string(&script).unwrap().contains("\\connect -reuse-previous=on"));
    verify(&stand, &script, &[]).ok();
    restore(&stand, &script, &server.url("copy"), &[]).ok();
    assert_eq!(server.sql("copy", CONTENT), content);
    // Rows as INSERT.
    server.sql("postgres", "ALTER DATABASE \"my-db, it's\" RENAME TO shop");
    pg_dump(&server, &script, &["-Fp", "--inserts", "--rows-per-insert=7"]);
    for read in [
        verify(&stand, &script, &["--json"]).ok().json()["parts"][0].clone(),
        restore(&stand, &script, &server.url("inserted"), &["--json"]).ok().json()["databases"][0].clone(),
    ] {
        assert_eq!(read["rows"], 300, "{read}");
    }
    assert_eq!(server.sql("inserted", CONTENT), content);
    // The roles of a server by themselves.
    let globals = stand.path("globals.sql");
    let mut dump = server.tool("pg_dumpall");
    dump.arg("--globals-only").arg("-f").arg(&globals);
    printed(dump);
    let read = verify(&stand, &globals, &["--json"]).ok().json();
    assert_eq!(read["parts"][0]["form"], "globals", "{read}");
    let refused = restore(&stand, &globals, &server.url("globals"), &[]).exits(1);
    assert!(refused.stderr.contains("error[dump.unknown]"), "{refused}");

    pg_dump(&server, &script, &["-Fp"]);
    let whole = std::fs::read_to_string(&script).unwrap();
    let settings = "SELECT count(*) FROM pg_db_role_setting; SELECT count(*) FROM pg_roles WHERE rolname = 'eve'";
    let before = server.sql("postgres", settings);
    let end = "--\n-- PostgreSQL database dump complete";
    for (behind, code) in [
        ("INSERT INTO pg_db_role_setting VALUES (0, 0, '{session_preload_libraries=/x}');", "postgres.statement"),
        (
            "COPY pg_catalog.pg_db_role_setting (setdatabase, setrole, setconfig) FROM stdin;\n0\t0\t{a=b}\n\\.\n",
            "postgres.statement",
        ),
        ("COMMENT ON EVENT TRIGGER e IS E'a'\n'\\''; CREATE ROLE eve SUPERUSER LOGIN; --';", "postgres.statement"),
        ("INSERT INTO public.small SELECT 1;", "postgres.statement"),
        ("BEGIN;", "dump.damaged"),
    ] {
        std::fs::write(&script, whole.replace(end, &format!("{behind}\n{end}"))).unwrap();
        server.sql("postgres", "CREATE DATABASE kept");
        server.sql("kept", "CREATE TABLE t AS SELECT 1 a");
        for said in [verify(&stand, &script, &[]), restore(&stand, &script, &server.url("kept"), &["--clean"])] {
            assert!(said.exits(1).stderr.contains(&format!("error[{code}]")), "{behind}");
        }
        assert_eq!(server.sql("kept", "SELECT a FROM t"), "1", "{behind}");
        server.sql("postgres", "DROP DATABASE kept");
        assert_eq!(server.sql("postgres", settings), before, "{behind}");
    }
}

#[test]
fn postgres_roles_that_are_there_stay_as_they_are() {
    let (stand, server) = (Stand::folder(13), Postgres::start(15));
    server.sql("postgres", "CREATE ROLE app LOGIN PASSWORD 'old'");
    let folder = stand.path("cluster");
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    let script = "-- PostgreSQL database dump\nCREATE TABLE public.t (a int);\n-- PostgreSQL database dump complete\n";
    std::fs::write(folder.join("dumps/a.sql"), script).unwrap();
    let globals = |statements: &str| {
        let text = format!(
            "-- PostgreSQL database cluster dump\n{statements}\n-- PostgreSQL database cluster dump complete\n"
        );
        std::fs::write(folder.join("globals.sql"), text).unwrap();
    };
    let roles = "SELECT string_agg(concat_ws(' ', rolname, rolsuper, rolpassword), ',' ORDER BY rolname), \
                 (SELECT count(*) FROM pg_db_role_setting) FROM pg_authid WHERE rolname !~ '^pg_'";
    let now = || server.sql("postgres", roles);
    let before = now();
    for statement in [
        "ALTER ROLE CURRENT_USER WITH PASSWORD 'known';",
        "ALTER ROLE ALL SET session_preload_libraries TO 'x';",
        "ALTER ROLE U&\"\\0070ostgres\" WITH PASSWORD 'known';",
        "ALTER ROLE /* */ postgres WITH PASSWORD 'known';",
        "CREATE ROLE eve;\nGRANT pg_execute_server_program TO eve, app;",
    ] {
        globals(statement);
        for said in [restore(&stand, &folder, &server.url(""), &[]), verify(&stand, &folder, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains("error[dump.globals]"), "{statement}: {said}");
        }
        assert_eq!(now(), before, "{statement}");
    }
    // A role that can't be made takes back those before it: the next restore would pass over them.
    globals("CREATE ROLE good;\nALTER ROLE good WITH LOGIN PASSWORD 'x';\nCREATE ROLE pg_bad;");
    restore(&stand, &folder, &server.url(""), &[]).exits(1);
    assert_eq!(now(), before);
    // Another script than pg_dumpall's has no end that is known.
    std::fs::write(folder.join("globals.sql"), "CREATE ROLE good;\n").unwrap();
    for code in ["dump.unproved", "dump.globals"] {
        for said in [restore(&stand, &folder, &server.url(""), &[]), verify(&stand, &folder, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains(&format!("error[{code}]")), "{said}");
        }
        // With a checksum its end is known, and it still isn't of pg_dumpall.
        describe(&folder.join("globals.sql"), "postgres", "2.0");
    }
    for end in ["sha256", "meta.json"] {
        std::fs::remove_file(folder.join(format!("globals.sql.{end}"))).unwrap();
    }
    globals(
        "CREATE ROLE app;\nALTER ROLE app WITH SUPERUSER PASSWORD 'new';\nCREATE ROLE eve;\nALTER ROLE eve WITH SUPERUSER LOGIN;\n\
         GRANT eve TO app;\nGRANT pg_monitor TO eve;",
    );
    let told = "power over the server: the new role eve: SUPERUSER, pg_monitor";
    assert!(verify(&stand, &folder, &[]).ok().stdout.contains(told));
    assert!(restore(&stand, &folder, &server.url(""), &["--dry-run"]).ok().stdout.contains(told));
    assert_eq!(now(), before);
    let back = restore(&stand, &folder, &server.url(""), &["--json"]).ok().json();
    assert_eq!(back["powers"][0]["role"], "eve", "{back}");
    let facts = "SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = 'app'), pg_has_role('app', 'eve', 'MEMBER'), \
                 (SELECT rolsuper AND rolcanlogin FROM pg_roles WHERE rolname = 'eve')";
    assert_eq!(server.sql("postgres", facts), "f|f|t");
}

#[test]
fn postgres_backups_with_less_than_they_should_have_are_told() {
    let (stand, server) = (Stand::folder(14), Postgres::start(15));
    let nothing = stand.path("nothing.sql");
    std::fs::write(&nothing, "").unwrap();
    describe(&nothing, "postgres", "2.0");
    let zipped = compressed(&nothing, "gzip");
    describe(&zipped, "postgres", "2.0");
    let comments = stand.path("comments.sql");
    std::fs::write(&comments, "-- PostgreSQL database dump\n\n-- PostgreSQL database dump complete\n").unwrap();
    for file in [&nothing, &zipped, &comments] {
        for said in [restore(&stand, file, &server.url("copy"), &[]), verify(&stand, file, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains("error[dump.cut-off]"), "{}: {said}", file.display());
        }
    }
    assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'copy'"), "0");
    // Of its own beginning a plain script has a checksum, which proves no end.
    let plain = stand.path("plain.sql");
    std::fs::write(&plain, "CREATE TABLE t (a int);\n").unwrap();
    describe(&plain, "postgres", "1.0");
    std::fs::remove_file(stand.path("plain.sql.sha256")).unwrap();
    std::fs::write(&plain, "CREATE TABLE t (a int);\nCREATE TABLE u (a int);\n").unwrap();
    let said = restore(&stand, &plain, &server.url("copy"), &[]).exits(1);
    assert!(said.stderr.contains("error[dump.unproved]"), "{said}");
    let folder = stand.path("cluster");
    let dumps = folder.join("dumps");
    std::fs::create_dir_all(&dumps).unwrap();
    let script = "-- PostgreSQL database dump\nCREATE TABLE public.t (a int);\n-- PostgreSQL database dump complete\n";
    std::fs::write(dumps.join("a.sql"), script).unwrap();
    let tar = || {
        let file = stand.path("cluster.tar");
        let mut command = Command::new("tar");
        command.arg("-cf").arg(&file).arg("-C").arg(&folder).arg("dumps");
        printed(command);
        file
    };
    let both = |file: &Path, code: &str| {
        for said in [restore(&stand, file, &server.url(""), &[]), verify(&stand, file, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains(&format!("error[{code}]")), "{}: {said}", file.display());
        }
    };
    let remove = |name: &str| std::fs::remove_file(dumps.join(name)).unwrap();
    // An empty member.
    std::fs::copy(&zipped, dumps.join("b.sql.gz")).unwrap();
    both(&folder, "dump.cut-off");
    both(&tar(), "dump.cut-off");
    remove("b.sql.gz");
    // One whose end nothing proves; in a folder a checksum can.
    std::fs::write(dumps.join("b.sql"), "CREATE TABLE t (a int);\n").unwrap();
    std::fs::write(stand.path("cluster.tar.meta.json"), r#"{"database_type": "postgres"}"#).unwrap();
    let said = restore(&stand, &folder, &server.url(""), &["--database", "b"]).exits(1);
    assert!(said.stderr.contains("error[dump.unproved]"), "{said}");
    assert!(verify(&stand, &tar(), &[]).ok().stdout.contains("no mark at the end of dumps/b.sql"));
    describe(&dumps.join("b.sql"), "postgres", "1.0");
    restore(&stand, &folder, &server.url(""), &["--database", "b"]).ok();
    server.sql("postgres", "DROP DATABASE b");
    // One that isn't understood may be a database.
    std::fs::write(dumps.join("c.dump.enc"), "x").unwrap();
    for file in [folder.clone(), tar()] {
        let said = restore(&stand, &file, &server.url(""), &[]).exits(1);
        assert!(said.stderr.contains("error[dump.unread]") && said.stderr.contains("c.dump.enc"), "{said}");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname IN ('a', 'b')"), "0");
    }
    let said = verify(&stand, &tar(), &[]).exits(3);
    assert!(said.stdout.contains("missing or not understood: dumps/c.dump.enc"), "{said}");
    restore(&stand, &tar(), &server.url("one"), &["--database", "a"]).ok();
    remove("c.dump.enc");
    // One that the metadata lists, and that isn't there.
    let listed =
        r#"{"database_type": "postgres", "databases": [{"database": "a"}, {"database": "b"}, {"database": "d"}]}"#;
    std::fs::write(stand.path("cluster.tar.meta.json"), listed).unwrap();
    let said = verify(&stand, &tar(), &["--json"]).exits(3).json();
    assert_eq!(said["missing"], serde_json::json!(["d"]), "{said}");
    let said = restore(&stand, &tar(), &server.url(""), &[]).exits(3);
    assert!(said.stdout.contains("missing in the backup: the database d"), "{said}");
    // Every later database would be a copy of this one.
    std::fs::rename(dumps.join("a.sql"), dumps.join("template1.sql")).unwrap();
    let said = restore(&stand, &tar(), &server.url(""), &["--clean"]).exits(1);
    assert!(said.stderr.contains("error[dump.name]"), "{said}");
    let said = restore(&stand, &tar(), &server.url("two"), &["--database", "template1"]).ok();
    assert!(said.stdout.contains("two"), "{said}");
    let said = verify(&stand, &tar(), &["--strong"]).exits(2);
    assert!(said.stderr.contains("--restore and --strong"), "{said}");
}

/// A tar of a cluster, as dbbackup makes it.
fn cluster(stand: &Stand, server: &Postgres, name: &str, compression: &str) -> PathBuf {
    let folder = stand.path(&format!("{name}.folder"));
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    let mut globals = server.tool("pg_dumpall");
    globals.arg("--globals-only").arg("-f").arg(folder.join("globals.sql"));
    printed(globals);
    pg_dump(server, &folder.join("dumps/shop.dump"), &["-Fc"]);
    let script = folder.join("dumps/other.sql");
    let mut other = server.tool("pg_dump");
    other.arg("-f").arg(&script).arg("other");
    printed(other);
    compressed(&script, "zstd");
    std::fs::remove_file(&script).unwrap();
    std::fs::write(folder.join("metadata.json"), "{}").unwrap();
    let tar = stand.path(name);
    let mut command = Command::new("tar");
    command.arg(compression).arg("-cf").arg(&tar).arg("-C").arg(&folder).arg(".");
    printed(command);
    tar
}

#[test]
fn postgres_clusters_come_back_with_their_roles() {
    let (stand, server) = (Stand::folder(5), owned_shop(1_000));
    server.sql("postgres", "CREATE DATABASE other OWNER keeper");
    server.sql("postgres", "ALTER ROLE keeper SET work_mem = '5MB'");
    server.sql("other", "CREATE TABLE numbers AS SELECT generate_series(1, 50) a");
    let sums = "SELECT count(*), sum(a) FROM numbers";
    let zipped = cluster(&stand, &server, "pg_cluster_20261128.tar.gz", "--gzip");
    let frames = cluster(&stand, &server, "pg_cluster_20261128.tar.zst", "--zstd");
    describe(&frames, "postgres", "2.0");
    let unpacked = stand.path("pg_cluster_20261128.tar.gz.folder");
    for (number, file) in [&zipped, &frames, &unpacked].into_iter().enumerate() {
        let read = verify(&stand, file, &["--json"]).ok().json();
        let names: Vec<&str> =
            read["parts"].as_array().unwrap().iter().filter_map(|part| part["database"].as_str()).collect();
        assert!(names.contains(&"shop") && names.contains(&"other"), "{read}");
        assert_eq!(read["ignored"][0].as_str().unwrap().trim_start_matches("./"), "metadata.json", "{read}");
        let new = Postgres::start(if number == 1 { 18 } else { 15 });
        let more: Vec<&str> = if number == 1 { vec!["--pg-bindir", new.bin().to_str().unwrap()] } else { vec![] };
        let planned = restore(&stand, file, &new.url(""), &[&more[..], &["--dry-run", "--json"]].concat()).ok().json();
        assert_eq!(
            (&planned["lacks"], new.sql("postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'keeper'")),
            (&Value::Array(vec![]), "0".into()),
            "{planned}"
        );
        let back = restore(&stand, file, &new.url(""), &[&more[..], &["--json"]].concat()).ok().json();
        assert!(
            back["roles"].to_string().contains("keeper") && back["kept"].to_string().contains("role postgres"),
            "{back}"
        );
        assert!(back["without"].to_string().contains("no common moment"), "{back}");
        let content = CONTENT.replace("WHERE connamespace", "WHERE contype <> 'n' AND connamespace");
        assert_eq!(new.sql("shop", &content), server.sql("shop", &content));
        assert_eq!(new.sql("other", sums), server.sql("other", sums));
        let facts = "SELECT (SELECT rolcanlogin FROM pg_roles WHERE rolname = 'keeper'), pg_has_role('keeper', 'staff', 'MEMBER'), \
                     (SELECT count(*) FROM pg_db_role_setting)";
        assert_eq!(new.sql("postgres", facts), "t|t|1");
        let refused = restore(&stand, file, &new.url(""), &more).exits(1);
        assert!(refused.stderr.contains("error[postgres.not-ready]") && refused.stderr.contains("shop"), "{refused}");
        // One of them, under another name.
        restore(&stand, file, &new.url("copy"), &[&more[..], &["--database", "other"]].concat()).ok();
        assert_eq!(new.sql("copy", sums), server.sql("other", sums));
        let unknown = restore(&stand, file, &new.url("copy"), &[&more[..], &["--database", "none"]].concat()).exits(2);
        assert!(unknown.stderr.contains("give --database with one of: "), "{unknown}");
    }
    // A truncated tar is no backup, whatever it still holds.
    let bytes = std::fs::read(&zipped).unwrap();
    let cut = stand.path("cut.tar.gz");
    std::fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let new = Postgres::start(15);
    for said in [restore(&stand, &cut, &new.url(""), &[]), verify(&stand, &cut, &[])] {
        assert!(said.exits(1).stderr.contains("error[dump.cut-off]"));
    }
    assert_eq!(new.sql("postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'keeper'"), "0", "nothing was done");
}

#[test]
fn postgres_hostile_tars_are_refused_before_anything_is_done() {
    let (stand, server) = (Stand::folder(6), Postgres::start(15));
    let folder = stand.path("hostile");
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    let script = "--\n-- PostgreSQL database dump\n--\nCREATE TABLE t (a int);\n-- PostgreSQL database dump complete\n";
    let globals = "-- PostgreSQL database cluster dump\nCREATE ROLE eve;\nDROP DATABASE postgres;\n-- PostgreSQL database cluster dump complete\n";
    std::fs::write(folder.join("dumps/a.sql"), script).unwrap();
    std::fs::write(folder.join("good.sql"), script).unwrap();
    let tar = |name: &str, arguments: &[&str]| {
        let file = stand.path(name);
        let mut command = Command::new("tar");
        command.args(["-c", "-P", "-C"]).arg(&folder).arg("-f").arg(&file).args(arguments);
        printed(command);
        file
    };
    std::os::unix::fs::symlink("/etc/passwd", folder.join("dumps/link.sql")).unwrap();
    let linked = tar("link.tar", &["dumps"]);
    std::fs::remove_file(folder.join("dumps/link.sql")).unwrap();
    std::fs::write(folder.join("globals.sql"), globals).unwrap();
    for (file, code) in [
        (linked, "dump.unsafe-path"),
        (tar("up.tar", &["dumps", "--transform=s,good.sql,../../x.sql,", "good.sql"]), "dump.unsafe-path"),
        (tar("root.tar", &["dumps", "--transform=s,good.sql,/etc/x.sql,", "good.sql"]), "dump.unsafe-path"),
        (tar("twice.tar", &["dumps", "--transform=s,good.sql,dumps/a.sql,", "good.sql"]), "dump.damaged"),
        (tar("globals.tar", &["dumps", "globals.sql"]), "dump.globals"),
        (tar("none.tar", &["good.sql"]), "dump.unknown"),
    ] {
        for said in [restore(&stand, &file, &server.url(""), &[]), verify(&stand, &file, &[])] {
            let said = said.exits(1);
            assert!(said.stderr.contains(&format!("error[{code}]")), "{}: {said}", file.display());
        }
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'a'"), "0");
        assert_eq!(server.sql("postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'eve'"), "0");
    }
}

/// Encrypts as dbbackup is described to do.
fn sealed(plain: &[u8], key: &[u8; 32]) -> Vec<u8> {
    use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).unwrap());
    let mut nonce = [9_u8; 12];
    let mut sealed = nonce.to_vec();
    for (number, part) in (0_u8..).zip(plain.chunks(64 << 10)) {
        nonce[11] = 9 + number;
        let mut part = part.to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut part).unwrap();
        sealed.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
        sealed.extend(part);
    }
    sealed
}

#[test]
fn postgres_encrypted_files_come_back_with_their_key_alone() {
    let (stand, server) = (Stand::folder(7), shop(1_500));
    let script = stand.path("shop.sql");
    pg_dump(&server, &script, &["-Fp"]);
    let zipped = std::fs::read(compressed(&script, "gzip")).unwrap();
    let key: [u8; 32] = std::array::from_fn(|place| place as u8);
    let file = stand.path("pg_shop.sql.gz.enc");
    std::fs::write(&file, sealed(&zipped, &key)).unwrap();
    let raw = stand.path("raw.key");
    std::fs::write(&raw, key).unwrap();
    let (wrong, words) = (stand.path("wrong.key"), stand.path("words.key"));
    std::fs::write(&wrong, [7; 32]).unwrap();
    std::fs::write(&words, "correct horse battery staple").unwrap();
    let with = |key: &Path| vec!["--encryption-key-file".to_owned(), key.display().to_string()];
    let run = |more: &[String]| {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        (restore(&stand, &file, &server.url("copy"), &more), verify(&stand, &file, &more))
    };
    for (more, code) in [(vec![], "dump.key"), (with(&wrong), "dump.key"), (with(&words), "dump.passphrase")] {
        let (restored, verified) = run(&more);
        for said in [restored.exits(1), verified.exits(1)] {
            assert!(said.stderr.contains(&format!("error[{code}]")), "{said}");
        }
    }
    let (restored, verified) = run(&with(&raw));
    assert!(verified.ok().stdout.contains("encrypted"));
    restored.ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    // The key as base64, in the variable that dbbackup reads.
    let text = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let mut command = stand.command();
    command.arg("verify").arg(&file).env("DBBACKUP_ENCRYPTION_KEY", text);
    seawall_tests::run("seawall", &mut command).ok();
    // Behind a chunk nothing of the encryption tells that the end is missing: the content does.
    let bytes = std::fs::read(&file).unwrap();
    let cut = stand.path("cut.sql.gz.enc");
    std::fs::write(&cut, &bytes[..12 + 4 + (64 << 10) + 16]).unwrap();
    let said = verify(&stand, &cut, &["--encryption-key-file", raw.to_str().unwrap()]).exits(1);
    assert!(said.stderr.contains("error[dump.cut-off]"), "{said}");
    // The same of every form; a chunk more; and what nothing proves the end of.
    let (archive, native) = (stand.path("shop.dump"), stand.path("native.sql"));
    pg_dump(&server, &archive, &["-Fc", "--compress=0"]);
    let row = "INSERT INTO public.t VALUES (1);\n";
    std::fs::write(&native, format!("CREATE TABLE public.t (a int);\n{}", row.repeat(5_000))).unwrap();
    let folder = stand.path("cluster");
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    std::fs::copy(&archive, folder.join("dumps/shop.dump")).unwrap();
    let tar = stand.path("cluster.tar");
    let mut command = Command::new("tar");
    command.arg("-cf").arg(&tar).arg("-C").arg(&folder).arg("dumps");
    printed(command);
    let with_key = ["--encryption-key-file", raw.to_str().unwrap()];
    for (plain, code) in [
        (compressed(&script, "zstd"), "dump.cut-off"),
        (archive, "dump.damaged"),
        (tar, "dump.cut-off"),
        (native, "dump.unproved"),
    ] {
        let bytes = sealed(&std::fs::read(&plain).unwrap(), &key);
        let whole = PathBuf::from(format!("{}.enc", plain.display()));
        std::fs::write(&whole, &bytes).unwrap();
        let is_native = code == "dump.unproved";
        if is_native {
            describe(&whole, "postgres", "2.0");
        }
        let is_tar = plain.extension().is_some_and(|end| end == "tar");
        let said = verify(&stand, &whole, &[&with_key[..], &["--json"]].concat()).ok();
        assert!(!said.stdout.contains("AAECAw") && !said.stderr.contains("AAECAw"), "{said}");
        let name = if is_tar { String::new() } else { plain.file_name().unwrap().to_string_lossy().replace('.', "_") };
        restore(&stand, &whole, &server.url(&name), &[&with_key[..], &["--clean"]].concat()).ok();
        let chunk = 4 + (64 << 10) + 16;
        let cut = plain.with_file_name(format!("cut_{}.enc", plain.file_name().unwrap().to_string_lossy()));
        std::fs::write(&cut, &bytes[..12 + chunk]).unwrap();
        if is_native {
            let meta = r#"{"database_type": "postgres"}"#;
            std::fs::write(format!("{}.meta.json", cut.display()), meta).unwrap();
        }
        let said = verify(&stand, &cut, &with_key).exits(1);
        assert!(said.stderr.contains(&format!("error[{code}]")), "{}: {said}", cut.display());
        std::fs::write(&cut, [&bytes[..12 + chunk], &bytes[12..]].concat()).unwrap();
        let said = verify(&stand, &cut, &with_key).exits(1);
        assert!(said.stderr.contains("error[dump.damaged]"), "{}: {said}", cut.display());
    }
    // Metadata that says it is encrypted, beside a file that isn't.
    let plain = stand.path("plain.sql.gz");
    std::fs::write(&plain, &zipped).unwrap();
    std::fs::write(stand.path("plain.sql.gz.meta.json"), r#"{"encrypted": true, "database_type": "postgres"}"#)
        .unwrap();
    let said = verify(&stand, &plain, &[]).ok();
    assert!(said.stdout.contains("everybody who has the file can read it"), "{said}");
}

/// The content of a database: its rows, and the definitions of its objects.
fn content(server: &Mysql, database: &str) -> String {
    let sql = format!(
        "SELECT count(*), sum(crc32(concat(id, filler, hex(raw)))) FROM {database}.big; \
         SELECT count(*), sum(crc32(concat(id, '-', big))) FROM {database}.small; \
         SHOW CREATE TABLE {database}.big; SHOW CREATE TABLE {database}.small; SELECT count(*) FROM {database}.first; \
         SELECT trigger_name, action_statement FROM information_schema.triggers WHERE trigger_schema = '{database}'; \
         SELECT routine_name, routine_definition FROM information_schema.routines WHERE routine_schema = '{database}' ORDER BY 1; \
         SELECT event_name, event_definition, status FROM information_schema.events WHERE event_schema = '{database}'; \
         SELECT next_not_cached_value FROM {database}.steps"
    );
    server.sql(&sql).replace(&format!("`{database}`"), "`shop`")
}

fn mysql_shop(rows: u32) -> Mysql {
    let server = Mysql::start();
    server.script(&format!(
        "CREATE DATABASE shop CHARACTER SET utf8mb4;\nUSE shop;\n\
         CREATE TABLE big (id int PRIMARY KEY, filler text, raw blob, KEY (filler(20)));\n\
         INSERT INTO big SELECT seq, concat(repeat(md5(seq), 18), ';\\n\\\\ ''\"`-- x'), unhex(md5(seq)) FROM seq_1_to_{rows};\n\
         CREATE TABLE small (id int AUTO_INCREMENT PRIMARY KEY, big int, FOREIGN KEY (big) REFERENCES big (id));\n\
         INSERT INTO small (big) SELECT id FROM big ORDER BY id LIMIT 100;\n\
         CREATE SEQUENCE steps START WITH 5;\nDO NEXTVAL(steps);\n\
         CREATE FUNCTION twice(a int) RETURNS int DETERMINISTIC RETURN 2 * a;\n\
         CREATE VIEW first AS SELECT id, twice(id) AS double_id FROM big WHERE id < 10;\n\
         CREATE VIEW again AS SELECT * FROM first;\n\
         DELIMITER //\nCREATE TRIGGER before_small BEFORE INSERT ON small FOR EACH ROW BEGIN SET NEW.big = 1; END//\n\
         CREATE PROCEDURE add_one(a int) BEGIN INSERT INTO small (big) VALUES (a); SELECT 'a;b'; END//\nDELIMITER ;\n\
         CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY STARTS '2099-01-01' DO DELETE FROM small WHERE id < 0;\n"
    ));
    server
}

fn mariadb_dump(server: &Mysql, file: &Path, more: &[&str]) {
    let mut command = Command::new("mariadb-dump");
    command.arg("--no-defaults").arg(format!("--socket={}", server.file("s.sock"))).arg("--user=root");
    command.args(["--single-transaction", "--routines", "--triggers", "--events"]).args(more);
    std::fs::write(file, printed(command)).unwrap();
}

/// The databases that are neither the server's own nor these.
fn others(server: &Mysql) -> String {
    server.sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'seawall%'")
}

#[test]
fn mysql_files_of_one_database_come_back() {
    let (stand, server) = (Stand::folder(8), mysql_shop(3_000));
    let script = stand.path("maria_shop_20261128_030000.sql");
    mariadb_dump(&server, &script, &["shop"]);
    let named = stand.path("named.sql");
    mariadb_dump(&server, &named, &["--databases", "shop"]);
    let (zipped, frames) = (compressed(&script, "gzip"), compressed(&script, "zstd"));
    let expected = content(&server, "shop");
    for (number, file) in [&script, &zipped, &frames, &named].into_iter().enumerate() {
        if number % 2 == 1 {
            describe(file, "mariadb", "2.0");
        }
        let read = verify(&stand, file, &["--json"]).ok().json();
        assert_eq!(
            (&read["parts"][0]["server"], &read["parts"][0]["form"]),
            (&Value::from("mysql"), &Value::from("script")),
            "{read}"
        );
        let name = format!("copy{number}");
        let planned = restore(&stand, file, &server.url(&name), &["--dry-run"]).ok();
        assert!(planned.stdout.contains("nothing was written"), "{planned}");
        let back = restore(&stand, file, &server.url(&name), &["--json"]).ok().json();
        assert_eq!(back["databases"][0]["rows"], 3_100, "{back}");
        assert!(back["without"].to_string().contains("no users or grants"), "{back}");
        assert_eq!(content(&server, &name), expected, "{}", file.display());
        assert_eq!(server.sql(&format!("SELECT count(*) FROM {name}.again")), "9");
        assert_eq!(others(&server), "0", "nothing of ours stays");
        let refused = restore(&stand, file, &server.url(&name), &[]).exits(1);
        assert!(refused.stderr.contains("error[mysql.not-ready]"), "{refused}");
    }
    assert_eq!(content(&server, "shop"), expected, "the source is as it was");
    for (more, code) in [(&["--clean"][..], "mysql.vendor-format"), (&["--table", "big"], "mysql.vendor-format")] {
        let refused = restore(&stand, &script, &server.url("copy9"), more).exits(1);
        assert!(refused.stderr.contains(&format!("error[{code}]")), "{refused}");
    }
    let postgres = "postgresql://postgres@localhost:1/x";
    let refused = restore(&stand, &script, postgres, &[]).exits(2);
    assert!(refused.stderr.contains("error[usage.server]"), "{refused}");
}

#[test]
fn mysql_files_that_are_not_whole_or_run_something_are_refused() {
    let (stand, server) = (Stand::folder(9), mysql_shop(1_000));
    let script = stand.path("shop.sql");
    mariadb_dump(&server, &script, &["shop"]);
    let text = String::from_utf8_lossy(&std::fs::read(&script).unwrap()).into_owned();
    let marker = stand.path("marker");
    let with = |line: &str| text.replacen("DROP TABLE IF EXISTS", &format!("{line}\nDROP TABLE IF EXISTS"), 1);
    let zipped = std::fs::read(compressed(&script, "gzip")).unwrap();
    let shown = marker.display();
    for (number, (bytes, codes)) in [
        (text.split("-- Dump completed").next().unwrap().as_bytes().to_vec(), &["dump.cut-off"][..]),
        (text.as_bytes()[..text.len() / 2].to_vec(), &["dump.cut-off", "dump.damaged"]),
        (zipped[..zipped.len() - 10].to_vec(), &["dump.cut-off"]),
        (with(&format!("\\! touch {shown}")).into_bytes(), &["mysql.client-command"]),
        (with(&format!("system touch {shown}")).into_bytes(), &["mysql.client-command"]),
        (with("source /etc/passwd").into_bytes(), &["mysql.client-command"]),
        (with("\\. /etc/passwd").into_bytes(), &["mysql.client-command"]),
        (with("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE big;").into_bytes(), &["mysql.statement"]),
        (with("DROP DATABASE shop;").into_bytes(), &["mysql.statement"]),
        (with("SET GLOBAL general_log = 1;").into_bytes(), &["mysql.statement"]),
        (with("INSERT INTO shop.small VALUES (1000, 1);").into_bytes(), &["mysql.statement"]),
        (with("CREATE USER eve;").into_bytes(), &["mysql.statement"]),
        (with("USE `a`;\nUSE `b`;").into_bytes(), &["mysql.statement"]),
        (with("SELECT 1 INTO OUTFILE '/tmp/seawall-x';").into_bytes(), &["mysql.statement"]),
    ]
    .into_iter()
    .enumerate()
    {
        let file = stand.path(&format!("hostile{number}.sql"));
        std::fs::write(&file, bytes).unwrap();
        for said in [restore(&stand, &file, &server.url("copy"), &[]), verify(&stand, &file, &[])] {
            let said = said.exits(1);
            assert!(codes.iter().any(|code| said.stderr.contains(&format!("error[{code}]"))), "{number}: {said}");
        }
        assert!(!marker.exists(), "{number}");
        assert_eq!(
            server.sql("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'copy'"),
            "0",
            "{number}"
        );
    }
    assert_eq!(others(&server), "0", "a restore that failed leaves nothing");
    restore(&stand, &script, &server.url("copy"), &[]).ok();
    assert_eq!(content(&server, "copy"), content(&server, "shop"));
}

#[test]
fn mysql_clusters_come_back_without_their_users() {
    let (stand, server) = (Stand::folder(10), mysql_shop(500));
    server.sql("CREATE DATABASE other; CREATE TABLE other.t (a int); INSERT INTO other.t VALUES (1), (2)");
    let folder = stand.path("cluster");
    std::fs::create_dir_all(folder.join("dumps")).unwrap();
    for name in ["shop", "other"] {
        mariadb_dump(&server, &folder.join(format!("dumps/{name}.sql")), &[name]);
        compressed(&folder.join(format!("dumps/{name}.sql")), "gzip");
        std::fs::remove_file(folder.join(format!("dumps/{name}.sql"))).unwrap();
    }
    mariadb_dump(&server, &folder.join("globals.sql"), &["mysql"]);
    let tar = stand.path("maria_cluster.tar.gz");
    let mut command = Command::new("tar");
    command.arg("-czf").arg(&tar).arg("-C").arg(&folder).args(["globals.sql", "dumps"]);
    printed(command);
    verify(&stand, &tar, &[]).ok();
    let new = Mysql::start();
    let back = restore(&stand, &tar, &new.url(""), &["--json"]).ok().json();
    assert!(back["without"].to_string().contains("bound to that server"), "{back}");
    assert_eq!(content(&new, "shop"), content(&server, "shop"));
    assert_eq!(new.sql("SELECT sum(a) FROM other.t"), "3");
    assert_eq!(others(&new), "0");
    restore(&stand, &tar, &new.url("copy"), &["--database", "other"]).ok();
    assert_eq!(new.sql("SELECT sum(a) FROM copy.t"), "3");
    let refused = restore(&stand, &tar, &new.url(""), &[]).exits(1);
    assert!(refused.stderr.contains("error[mysql.not-ready]"), "{refused}");
}

#[test]
fn a_configuration_of_dbbackup_becomes_one_that_is_understood() {
    let stand = Stand::folder(11);
    let conf = stand.path(".dbbackup.conf");
    let text = "[database]\ntype = postgres\nhost = db\nport = 5433\nuser = backup\ndatabase = shop\npassword = hush\n\n\
                [backup]\nbackup_dir = /srv/backups\nretention_days = 14\nmin_backups = 3\njobs = 4\ncompression = 6\n\n\
                [cloud]\nenabled = true\nprovider = minio\nbucket = b\nregion = eu-1\nendpoint = http://minio:9000\nsecret_key = very-secret\n";
    std::fs::write(&conf, text).unwrap();
    let (conf, output) = (conf.to_str().unwrap().to_owned(), stand.path("seawall.yml"));
    let yml = output.to_str().unwrap();
    let said = stand.seawall(&["config", "import", &conf, "-o", yml]).ok();
    assert!(
        said.stdout.contains("not copied: [database] password")
            && said.stdout.contains("left out: [backup] compression"),
        "{said}"
    );
    let written = std::fs::read_to_string(&output).unwrap();
    assert!(!written.contains("hush") && !written.contains("very-secret"), "{written}");
    let checked = stand.seawall(&["config", "check", "--config", yml, "--json"]).ok().json();
    assert_eq!(
        (&checked["databases"][0]["name"], &checked["warnings"]),
        (&Value::from("shop"), &Value::Array(vec![])),
        "{checked}"
    );
    stand.seawall(&["config", "import", &conf, "-o", yml]).exits(1);
    std::fs::write(&conf, format!("{text}[odd]\ncolour = red\n")).unwrap();
    let said = stand.seawall(&["config", "import", &conf, "-o", yml, "--force"]).exits(3);
    assert!(said.stdout.contains("unknown: [odd] colour"), "{said}");
    stand.seawall(&["config", "check", "--config", yml]).ok();
    // Of a MariaDB, with defaults for everything.
    std::fs::write(&conf, "db_type = mariadb\nssl_mode = require\n").unwrap();
    stand.seawall(&["config", "import", &conf, "-o", yml, "--force"]).ok();
    stand.seawall(&["config", "check", "--config", yml]).ok();
    let printed = stand.seawall(&["config", "import", &conf, "--json"]).ok().json();
    assert!(printed["configuration"].as_str().unwrap().contains("ssl-mode=REQUIRED"), "{printed}");
}
