//! `pg_dump`'s own formats, by the command line: killed during the backup and during the restore.

use std::time::Duration;

use seawall_tests::{Process, Random, Stand, wait};
use serde_json::Value;

use crate::postgres::{CONTENT, end, nothing_stays, shop};

const FORMATS: [&str; 3] = ["custom", "directory", "plain"];

#[test]
fn postgres_restores_of_what_pg_dump_wrote_that_were_killed_are_made_anew() {
    let (stand, server) = (Stand::folder(Random::from_env().seed()), shop(20_000));
    let (mut random, place) = (Random::from_env(), stand.place.url());
    for format in FORMATS {
        stand.seawall(&["backup", &server.url("shop"), &place, "--format", format]).ok();
        let to = server.url(format);
        let restore = || Process::spawn("seawall", stand.command().args(["restore", &place, "--to", &to]));
        let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{format}'");
        let mut most = Duration::from_millis(1500);
        for _ in 0..4 {
            let mut process = restore();
            wait::pass(random.between(Duration::ZERO, most));
            process.kill_9();
            // Whatever has the name is whole: less time the next time.
            if server.sql("postgres", &there) == "1" {
                assert_eq!(server.sql(format, CONTENT), server.sql("shop", CONTENT));
                server.sql("postgres", &format!("DROP DATABASE {format} WITH (FORCE)"));
                most /= 2;
            }
        }
        end(restore()).ok();
        assert_eq!(server.sql(format, CONTENT), server.sql("shop", CONTENT));
        nothing_stays(&server, format);
    }
}

#[test]
fn postgres_a_restore_in_place_that_was_killed_is_refused_with_what_to_do() {
    let (stand, server) = (Stand::folder(7), shop(20_000));
    let place = stand.place.url();
    stand.seawall(&["backup", &server.url("shop"), &place, "--format", "directory"]).ok();
    server.sql("postgres", "CREATE DATABASE copy");
    let to = server.url("copy");
    let mut process = Process::spawn("seawall", stand.command().args(["restore", &place, "--to", &to]));
    let begun = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'seawall_restore%'";
    wait::until("the restore to begin", wait::SOON, || (server.sql("copy", begun) == "1").then_some(()));
    process.kill_9();
    if server.sql("copy", begun) == "1" {
        let refused = stand.seawall(&["restore", &place, "--to", &to]).exits(1);
        assert!(refused.stderr.contains("error[postgres.other-restore]"), "{refused}");
        assert!(refused.stderr.contains("next: drop the database, and start again"), "{refused}");
        server.sql("postgres", "DROP DATABASE copy WITH (FORCE)");
        server.sql("postgres", "CREATE DATABASE copy");
        stand.seawall(&["restore", &place, "--to", &to]).ok();
    }
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
    nothing_stays(&server, "copy");
}

#[test]
fn postgres_backups_into_a_directory_that_were_killed_leave_what_the_next_one_removes() {
    let (stand, server) = (Stand::folder(Random::from_env().seed()), shop(20_000));
    let (mut random, vault) = (Random::from_env(), stand.place.url());
    let aside = stand.path("aside");
    std::fs::create_dir(&aside).unwrap();
    let left = || std::fs::read_dir(&aside).unwrap().count();
    let start = || {
        let arguments = ["backup", &server.url("shop"), &vault, "--format", "directory", "--jobs", "2"];
        Process::spawn("seawall", stand.command().args(arguments).env("TMPDIR", &aside))
    };
    let started = std::time::Instant::now();
    end(start()).ok();
    let whole = started.elapsed();
    assert_eq!(left(), 0);
    for stop in [true, false, false, false] {
        let mut process = start();
        match stop {
            false => {
                wait::pass(random.between(Duration::ZERO, whole));
                process.kill_9();
            }
            true => {
                wait::until("something to be put aside", wait::SOON, || {
                    (left() > 0 || !process.running()).then_some(())
                });
                process.terminate();
                process.wait(wait::SOON * 4);
                assert_eq!(left(), 0, "a signal leaves nothing");
            }
        }
        nothing_stays(&server, "shop");
    }
    // With something of a killed one for certain.
    let killed = aside.join("seawall-dump-killed000000");
    std::fs::create_dir(&killed).unwrap();
    std::fs::set_permissions(&killed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(killed.join("toc.dat"), "x").unwrap();
    let said = end(start()).ok();
    assert!(said.stderr.contains("removed what a killed backup left"), "{said}");
    assert!(!killed.exists(), "what was left is gone");
    let verified = stand.seawall(&["verify", &vault, "--json"]).ok().json();
    assert_eq!(verified["findings"], Value::Array(vec![]), "{verified}");
    end(Process::spawn("seawall", stand.command().args(["restore", &vault, "--to", &server.url("copy")]))).ok();
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
}

#[test]
fn postgres_a_terminal_is_told_of_each_large_table_and_nothing_else_is() {
    let (stand, server) = (Stand::folder(8), shop(40_000));
    let (source, vault) = (server.url("shop"), stand.place.url());
    let slowly = ["backup", &source, &vault, "--upload-limit", "5MB", "--memory", "24MB", "--jobs", "1"];
    let said = seawall_tests::terminal::run("seawall", stand.command().args(slowly)).ok();
    assert!(said.stderr.contains("dump shop") && said.stderr.contains("public.big: "), "{said}");
    assert!(said.stderr.contains(" of about ") && said.stderr.contains("MiB/s"), "{said}");
    for arguments in [&["restore", &vault, "--to", &server.url("copy")][..], &[&slowly[..], &["--json"]].concat()] {
        let silent = match arguments.contains(&"--json") {
            true => seawall_tests::terminal::run("seawall", stand.command().args(arguments)).ok(),
            false => stand.seawall(arguments).ok(),
        };
        assert_eq!(silent.stderr, "", "{silent}");
    }
    assert_eq!(server.sql("copy", CONTENT), server.sql("shop", CONTENT));
}
