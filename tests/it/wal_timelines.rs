//! `seawall wal fetch` where a timeline was left, and in an encrypted vault.

use std::path::Path;
use std::process::Command;

use seawall_tests::{run, seawall, wait};

use crate::postgres::server::is_root;
use crate::wal::{LATE, SUMS, Site, VERSIONS, as_owner, fetch_from, program, push_into, recover, scratch, stops};

#[test]
fn wal_of_a_promoted_server_and_of_a_demoted_one_stay_apart() {
    for major in VERSIONS {
        let mut old = Site::start(major);
        old.commit(5);
        let base = old.server.base();
        old.commit(5);
        old.archive();
        old.commit(2);
        let before = old.archive();
        // A copy is promoted in the next segment, and archives on timeline 2. The old server goes on.
        let archiving = format!("archive_mode = on\narchive_command = '{}'\n", push_into(&old.vault));
        let new = recover(&base, &format!("{}{archiving}", fetch_from(&old.vault, "")));
        for tx in 1001..1020 {
            new.sql("postgres", &format!("INSERT INTO t VALUES ({tx}, 1, repeat('new', {tx}))"));
        }
        let on_new = new.sql("postgres", SUMS);
        let end = new.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
        assert!(end.starts_with("00000002"), "{end}");
        let archived = format!("SELECT last_archived_wal >= '{end}' FROM pg_stat_archiver");
        wait::until("timeline 2 to be archived", LATE, || (new.sql("postgres", &archived) == "t").then_some(()));
        old.commit(9);
        old.archive();
        old.commit(1);
        let on_old = old.sums();
        let beyond = old.archive();

        // The newest is timeline 2, as PostgreSQL takes it by default.
        let newest = recover(&base, &fetch_from(&old.vault, ""));
        assert_eq!(newest.sql("postgres", SUMS), on_new, "{major}");
        let second =
            recover(&base, &format!("{}recovery_target_timeline = '2'\n", fetch_from(&old.vault, "--timeline 2")));
        assert_eq!(second.sql("postgres", SUMS), on_new, "{major}");
        // The old one is there as well, by its number.
        let first =
            recover(&base, &format!("{}recovery_target_timeline = '1'\n", fetch_from(&old.vault, "--timeline 1")));
        assert_eq!(first.sql("postgres", SUMS), on_old, "{major}");
        // What the old server wrote after the promotion is never mixed in, even if timeline 2 has no segment.
        let folder = scratch();
        let to = folder.path().join("RECOVERYXLOG");
        let off = old.fetch(&beyond, &to, &[]).exits(126);
        assert!(off.stderr.contains("error[log.off-line]") && off.stderr.contains("--timeline"), "{off}");
        old.fetch(&beyond, &to, &["--timeline", "2"]).exits(1);
        old.fetch(&before, &to, &[]).ok();
        // Without the history of timeline 2, its segments show that something is missing.
        let system = old.server.sql("postgres", "SELECT system_identifier FROM pg_control_system()");
        let history = old.vault.join(format!("physical/{system}/log/00000002.history"));
        std::fs::rename(&history, folder.path().join("history")).expect("moved");
        let error = stops(&base, &fetch_from(&old.vault, ""));
        assert!(error.contains("could not restore file \"00000002.history\""), "{major}: {error}");
    }
}

#[test]
fn wal_in_an_encrypted_vault() {
    let stand = seawall_tests::Stand::folder(1);
    let key = stand.path("owner.key");
    let place = scratch();
    let open = |path: &Path| {
        assert!(Command::new("chmod").arg("-R").arg("a+rwX").arg(path).status().expect("chmod").success());
    };
    let vault = place.path().join("vault");
    stand
        .seawall(&["vault", "init", &vault.display().to_string(), "--generate", "-o", &key.display().to_string()])
        .ok();
    let text = std::fs::read_to_string(&key).expect("a key");
    let public = text.lines().find_map(|line| line.strip_prefix("# public key: ")).expect("its public key").to_owned();
    open(place.path());
    let key_of_server = place.path().join("key");
    std::fs::copy(&key, &key_of_server).expect("copied");
    let push = format!(
        "env HOME={} {} wal push %p --vault {} --recipient {public}",
        place.path().display(),
        program(),
        vault.display()
    );
    let mut site = Site::start(15);
    site.server.sql("postgres", &format!("ALTER SYSTEM SET archive_command = '{push}'"));
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let set = || (site.server.sql("postgres", "SHOW archive_command").contains("--recipient")).then_some(());
    wait::until("the setting", wait::SOON, set);
    site.vault = vault.clone();
    site.commit(5);
    let base = site.server.base();
    site.commit(5);
    let name = site.archive();
    // Another host goes on with the log, as after a failover. It needs the keys of the first one.
    site.server.sql("postgres", "ALTER SYSTEM SET archive_command = 'false'");
    site.server.sql("postgres", "SELECT pg_reload_conf()");
    let set = || (site.server.sql("postgres", "SHOW archive_command") == "false").then_some(());
    wait::until("the setting", wait::SOON, set);
    site.commit(5);
    let next = site.server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    let other = place.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    open(&other);
    let push_there = || {
        let mut command = as_owner(&seawall());
        command.env("HOME", &other).args(["wal", "push"]).arg(site.server.data().join("pg_wal").join(&next));
        run("wal push", command.arg("--vault").arg(&vault).args(["--recipient", &public]))
    };
    let refused = push_there().exits(1);
    assert!(refused.stderr.contains("error[vault."), "{refused}");
    let copied = Command::new("cp").arg("-a").arg(place.path().join(".local")).arg(&other).status();
    assert!(copied.expect("cp").success());
    // Those that are made each day stay at the first host.
    let daily = Command::new("find").arg(other.join(".local")).args(["-name", "*-*.key", "-delete"]).status();
    assert!(daily.expect("find").success());
    push_there().ok();
    let sums = site.sums();
    assert!(std::fs::read(site.object(&name)).expect("an object").starts_with(b"age-encryption.org/v1"));
    if is_root() {
        let owned = Command::new("chown").arg("nobody:nogroup").arg(&key_of_server).status();
        assert!(owned.expect("chown").success());
    }
    let folder = scratch();
    let locked = site.fetch(&name, &folder.path().join("x"), &[]).exits(126);
    assert!(locked.stderr.contains("error[vault."), "{locked}");
    let fetch = fetch_from(&vault, &format!("--identity {}", key_of_server.display()));
    assert_eq!(recover(&base, &fetch).sql("postgres", SUMS), sums);
}
