//! `seawall wal receive` and `fetch` where the vault or the server changes behind their backs. Every test ends in a recovered server
//! whose rows are compared with what was recorded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use seawall_tests::{Process, S3Server, run, seawall, wait};

use crate::postgres::server::Server;
use crate::postgres_cluster;
use crate::wal::{LATE, SUMS, VERSIONS, fetch, fetch_from, push_into, recover, scratch, stops};
use crate::wal_receive::{Site, objects};

/// The folder of a vault's log.
fn log_of(vault: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(vault.join("physical")).expect("a folder").flatten();
    entries.find(|entry| entry.path().is_dir()).expect("a cluster").path().join("log")
}

/// Everything below a folder goes, and the folder stays.
fn empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path().is_dir() {
            true => std::fs::remove_dir_all(entry.path()).expect("removed"),
            false => std::fs::remove_file(entry.path()).expect("removed"),
        }
    }
}

#[test]
fn received_log_begins_anew_in_a_vault_that_was_emptied_meanwhile() {
    let mut site = Site::start(15, "");
    let mut receiver = site.receive();
    site.until_stored();
    site.commit(3);
    site.until_stored();
    empty(&site.vault.join("physical"));
    // It notices while it stores.
    wait::until("the loss to be noticed", LATE, || {
        site.commit(1);
        wait::pass(Duration::from_millis(500));
        receiver.stderr().contains("log.vanished").then_some(())
    });
    wait::until("the vault to be the cluster's again", LATE, || {
        site.commit(1);
        site.vault.join("physical/cluster.json").exists().then_some(())
    });
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    site.until_stored();
    let sums = site.sums();
    receiver.kill_9();
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn received_log_is_not_stored_into_a_vault_that_became_another_clusters() {
    let mut site = Site::start(15, "");
    let mut other = Site::start(18, "");
    let mut others = other.receive();
    other.commit(3);
    other.until_stored();
    others.stop().ok();
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    site.until_stored();
    // The other vault is put into the place of this one.
    let (ours, theirs) = (site.vault.join("physical"), other.vault.join("physical"));
    let aside = site.server.folder().join("aside");
    std::fs::rename(&ours, &aside).expect("moved");
    let copied = Command::new("cp").arg("-a").arg(&theirs).arg(&ours).status();
    assert!(copied.expect("cp").success());
    wait::until("the end of the receiver", LATE, || {
        site.commit(1);
        wait::pass(Duration::from_millis(300));
        (!receiver.running()).then_some(())
    });
    assert!(receiver.stderr().contains("log.other-cluster"), "{}", receiver.stderr());
    std::fs::remove_dir_all(&ours).expect("removed");
    std::fs::rename(&aside, &ours).expect("moved back");
    let mut receiver = site.receive();
    site.until_stored();
    let sums = site.sums();
    receiver.kill_9();
    // What was told to be stored, and went into the other vault, isn't lost silently.
    let listed = run("wal list", Command::new(seawall()).args(["wal", "list"]).arg(&site.vault));
    match listed.code() {
        0 => assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums),
        _ => {
            let error = stops(&base, &fetch_from(&site.vault, ""));
            assert!(error.contains("could not restore file"), "{error}");
        }
    }
}

#[test]
fn received_ranges_that_are_gone_are_stored_again() {
    for which in [0, 1] {
        let mut site = Site::start(18, "");
        let mut receiver = site.receive();
        site.until_stored();
        let base = site.server.base();
        for _ in 0..3 {
            site.commit(2);
            site.until_stored();
        }
        receiver.stop().ok();
        let ranges: Vec<String> = objects(&site.vault, ".zst").into_iter().filter(|name| name.contains('-')).collect();
        let segment = |name: &str| name[..10].to_owned();
        let last: Vec<&String> =
            ranges.iter().filter(|name| segment(name) == segment(&ranges[ranges.len() - 1])).collect();
        assert!(last.len() > 2, "{ranges:?}");
        std::fs::remove_file(log_of(&site.vault).join("00000001").join(last[which])).expect("removed");
        site.commit(2);
        let mut receiver = site.receive();
        site.until_stored();
        let sums = site.sums();
        receiver.kill_9();
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums, "{which}");
    }
}

#[test]
fn received_log_of_an_older_copy_is_never_the_continuation_of_a_whole_segment() {
    for major in VERSIONS {
        let mut site = Site::start(major, "wal_keep_size = '256MB'");
        let mut receiver = site.receive();
        site.until_stored();
        let base = site.server.base();
        site.commit(3);
        receiver.stop().ok();
        // As a snapshot of a virtual machine.
        site.server.stop();
        let copy = site.server.folder().join("snapshot");
        let copied = Command::new("cp").arg("-a").arg(site.server.data()).arg(&copy).status();
        assert!(copied.expect("cp").success());
        site.server.start_again();
        let mut receiver = site.receive();
        site.commit(5);
        site.server.sql("postgres", "SELECT pg_switch_wal()");
        site.until_stored();
        let sums = site.sums();
        receiver.stop().ok();
        let before = objects(&site.vault, "");
        // The snapshot is started in its place, and goes beyond the whole segment.
        site.server.stop();
        std::fs::remove_dir_all(site.server.data()).expect("removed");
        std::fs::rename(&copy, site.server.data()).expect("moved");
        site.server.start_again();
        for tx in 5001..5004 {
            site.server.sql("postgres", &format!("INSERT INTO t VALUES ({tx}, 0, 'other')"));
            site.server.sql("postgres", "SELECT pg_switch_wal()");
        }
        let mut receiver = site.receive();
        let refused = receiver.wait(LATE);
        assert!(refused.stderr.contains("log.conflict"), "{major}: {refused}");
        assert_eq!(objects(&site.vault, ""), before, "{major}");
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums, "{major}");
    }
}

#[test]
fn received_log_goes_on_without_a_hole_where_the_server_removed_the_segment_before() {
    let mut site = Site::start(18, "max_wal_size = '32MB'\nmin_wal_size = '32MB'\n");
    let mut receiver = site.receive();
    site.until_stored();
    let base = site.server.base();
    site.commit(3);
    let name = site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    site.until_stored();
    receiver.stop().ok();
    let gone = || {
        site.server.sql("postgres", "CHECKPOINT");
        (!site.server.data().join("pg_wal").join(&name).exists()).then_some(())
    };
    wait::until("the segment to be removed", LATE, gone);
    site.commit(3);
    let mut receiver = site.receive();
    site.until_stored();
    let sums = site.sums();
    receiver.stop().ok();
    assert!(objects(&site.vault, ".hole").is_empty());
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn received_and_archived_log_of_two_receivers_is_one() {
    for major in VERSIONS {
        let mut site = Site::start(major, "archive_mode = on\n");
        let archive = format!("ALTER SYSTEM SET archive_command = '{}'", push_into(&site.vault));
        site.server.sql("postgres", &archive);
        site.server.sql("postgres", "SELECT pg_reload_conf()");
        let mut receiver = site.receive();
        site.until_stored();
        let mut second = crate::wal::as_owner(&seawall());
        second.current_dir("/tmp").args(["wal", "receive", &site.server.url("postgres")]).arg(&site.vault);
        let mut second = Process::spawn("seawall", second.args(["--slot", "second"]));
        let base = site.server.base();
        for nth in 0..6 {
            site.commit(4);
            if nth == 2 {
                receiver.kill_9();
            }
            site.server.sql("postgres", "SELECT pg_switch_wal()");
            if nth == 3 {
                receiver = site.receive();
            }
        }
        site.commit(2);
        let end = site.server.sql("postgres", "SELECT pg_current_wal_lsn()");
        let both = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall' AND flush_lsn >= '{end}'"
        );
        wait::until("both to have the log", LATE, || (site.server.sql("postgres", &both) == "2").then_some(()));
        assert_eq!(
            site.server.sql("postgres", "SELECT failed_count FROM pg_stat_archiver"),
            "0",
            "{}",
            site.server.log()
        );
        let sums = site.sums();
        receiver.kill_9();
        second.kill_9();
        assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums, "{major}");
    }
}

#[test]
fn wal_that_was_replaced_by_another_clusters_is_not_given_back() {
    let (mut site, mut other) = (Site::start(15, ""), Site::start(15, ""));
    let (mut receiver, mut others) = (site.receive(), other.receive());
    site.until_stored();
    other.until_stored();
    let base = site.server.base();
    let mut name = String::new();
    for one in [&mut site, &mut other] {
        while name.is_empty() || one.server.sql("postgres", "SELECT pg_walfile_name(pg_current_wal_lsn())") < name {
            one.commit(1);
            one.server.sql("postgres", "SELECT pg_switch_wal()");
            if name.is_empty() {
                one.commit(1);
                name = one.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
            }
        }
        one.commit(1);
        one.server.sql("postgres", "SELECT pg_switch_wal()");
        one.commit(1);
        one.until_stored();
    }
    let there = |vault: &Path| objects(vault, &format!("{name}.zst")).len() == 1;
    wait::until("the segment in both", LATE, || (there(&site.vault) && there(&other.vault)).then_some(()));
    let sums = site.sums();
    receiver.stop().ok();
    others.stop().ok();
    let place = |vault: &Path| log_of(vault).join("00000001").join(format!("{name}.zst"));
    let own = std::fs::read(place(&site.vault)).expect("read");
    std::fs::copy(place(&other.vault), place(&site.vault)).expect("copied");
    let folder = scratch();
    let refused = fetch(&site.vault, &name, &folder.path().join("x"), &[]).exits(126);
    assert!(refused.stderr.contains("log.other-cluster"), "{refused}");
    let error = stops(&base, &fetch_from(&site.vault, ""));
    assert!(error.contains("could not restore file"), "{error}");
    std::fs::write(place(&site.vault), own).expect("written");
    assert_eq!(recover(&base, &fetch_from(&site.vault, "")).sql("postgres", SUMS), sums);
}

#[test]
fn cluster_in_an_encrypted_bucket_is_recovered_with_the_identity_alone() {
    let store = S3Server::start();
    let folder = scratch();
    let (secret, public) = seawall_vault::Identities::generate();
    let key = folder.path().join("owner.key");
    std::fs::write(&key, format!("{}\n", secret.reveal())).expect("written");
    let mut open = Command::new("chmod");
    assert!(open.arg("0711").arg(folder.path()).status().expect("chmod").success());
    if crate::postgres::server::is_root() {
        let owned = Command::new("chown").arg("nobody:nogroup").arg(&key).status();
        assert!(owned.expect("chown").success());
    }
    let mut site = postgres_cluster::Site::start(15);
    let home = site.server.folder_of_its_own("home");
    let vault = format!("s3://{}/cluster?endpoint={}&region=us-east-1", S3Server::BUCKET, store.endpoint());
    let with_secrets = |arguments: &[&str]| {
        let mut command = postgres_cluster::seawall(arguments);
        command.env("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_KEY);
        command.env("HOME", &home);
        command
    };
    let url = site.server.url("postgres");
    let mut receiver =
        Process::spawn("seawall", &mut with_secrets(&["wal", "receive", &url, &vault, "--recipient", &public]));
    let streams = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'seawall'";
    wait::until("the stream", LATE, || match receiver.running() {
        true => (site.server.sql("postgres", streams) == "1").then_some(()),
        false => panic!("{}", receiver.stderr()),
    });
    site.commit(5);
    let url = site.server.url_as("seawall", "postgres");
    run("seawall", &mut with_secrets(&["backup", &url, &vault, "--physical", "--recipient", &public])).ok();
    site.commit(5);
    let end = site.server.sql("postgres", "SELECT pg_current_wal_lsn()");
    let stored = format!("{streams} AND flush_lsn >= '{end}'");
    wait::until("the log", LATE, || (site.server.sql("postgres", &stored) == "1").then_some(()));
    let sums = site.sums();
    receiver.stop().ok();
    site.server.kill();
    // Another host: no key of the first one, and no credentials in the server's environment.
    let clean = site.server.folder_of_its_own("clean");
    let none = site.server.folder().join("none").display().to_string();
    let mut locked = with_secrets(&["restore", &vault, "-o", &none]);
    let locked = run("seawall", locked.env("HOME", &clean));
    assert!(locked.code() != 0 && locked.stderr.contains("error[vault."), "{locked}");
    let recovered = Server::restored(&site.server, |data| {
        let (to, key) = (data.display().to_string(), key.display().to_string());
        let mut restore = with_secrets(&["restore", &vault, "-o", &to, "--identity", &key]);
        run("seawall", restore.env("HOME", &clean)).ok();
        let auto = std::fs::read_to_string(data.join("postgresql.auto.conf")).expect("read");
        assert!(!auto.contains(S3Server::SECRET_KEY) && !auto.contains(S3Server::ACCESS_KEY), "{auto}");
    });
    assert_eq!(recovered.expect("it recovers").sql("postgres", SUMS), sums);
}
