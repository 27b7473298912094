//! Segments that `seawall wal fetch` gets before the server asks for them. What is handed over is always what the vault has, and
//! every test ends in a recovered server whose rows are compared with what was recorded.

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_tests::{Output, run, seawall, wait};

use crate::postgres::server::Server;
use crate::wal::{LATE, SUMS, Site, VERSIONS, fetch_from, scratch};

/// Segments with transactions in each. Returns their names.
fn segments(site: &mut Site, count: usize) -> Vec<String> {
    let name = |site: &mut Site| {
        site.commit(2);
        site.archive()
    };
    (0..count).map(|_| name(site)).collect()
}

/// A folder that looks like the data directory of a server which recovers.
fn recovering(site: &Site) -> tempfile::TempDir {
    let folder = scratch();
    for below in ["global", "pg_wal"] {
        std::fs::create_dir(folder.path().join(below)).expect("a folder");
    }
    std::fs::copy(site.server.data().join("global/pg_control"), folder.path().join("global/pg_control"))
        .expect("copied");
    folder
}

/// Asks for a segment as the server does.
fn asks(data: &Path, vault: &Path, name: &str, more: &[&str]) -> Output {
    let to = data.join("pg_wal/RECOVERYXLOG");
    let _ = std::fs::remove_file(&to);
    let mut command = Command::new(seawall());
    command.current_dir(data).args(["wal", "fetch", name, "pg_wal/RECOVERYXLOG", "--vault"]).arg(vault).args(more);
    run("wal fetch", &mut command)
}

fn ahead(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("pg_wal/seawall.ahead")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn wal_that_was_got_ahead_is_what_the_vault_has_or_is_not_handed_over() {
    let mut site = Site::start(18);
    site.commit(3);
    let base = site.server.base();
    let names = segments(&mut site, 6);
    let sums = site.sums();
    let folder = recovering(&site);
    let (data, one) = (folder.path(), ["--timeline", "1", "--ahead", "4"]);
    let whole = scratch();
    let real = |name: &str| {
        let to = whole.path().join(name);
        site.fetch(name, &to, &[]).ok();
        std::fs::read(to).expect("read")
    };
    let real: Vec<Vec<u8>> = names.iter().map(|name| real(name)).collect();
    let handed = |nth: usize| {
        assert!(std::fs::read(data.join("pg_wal/RECOVERYXLOG")).expect("read") == real[nth], "{nth}");
    };
    asks(data, &site.vault, &names[0], &one).ok();
    handed(0);
    assert_eq!(ahead(data).len(), 4);
    // The vault is away: what was got is handed over, and what wasn't is a failure and no absence.
    let aside = site.vault.with_extension("aside");
    std::fs::rename(&site.vault, &aside).expect("moved");
    asks(data, &site.vault, &names[1], &one).ok();
    handed(1);
    assert_eq!(ahead(data).len(), 3);
    // The newest timeline may be another one by now: that has to be asked.
    asks(data, &site.vault, &names[2], &["--ahead", "4"]).exits(126);
    // Another vault, and another end of the recovery.
    asks(data, &site.vault.join("other"), &names[2], &one).exits(126);
    // Damage, and the file of another segment.
    let files = ahead(data);
    let mut damaged = std::fs::read(&files[0]).expect("read");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&files[0], damaged).expect("written");
    std::fs::copy(&files[2], &files[1]).expect("copied");
    for nth in [2, 3] {
        let failed = asks(data, &site.vault, &names[nth], &one).exits(126);
        assert!(!data.join("pg_wal/RECOVERYXLOG").exists(), "{failed}");
    }
    assert_eq!(ahead(data).len(), 1, "what isn't sound is deleted");
    asks(data, &site.vault, &names[5], &one).exits(126);
    std::fs::rename(&aside, &site.vault).expect("moved back");
    for nth in [2, 3, 4, 5] {
        asks(data, &site.vault, &names[nth], &one).ok();
        handed(nth);
    }
    // At the end of the log an absence is proved, and nothing is left. It is asked for anew when the log has gone on.
    let next = site.server.sql("postgres", "SELECT pg_walfile_name(pg_current_wal_lsn())");
    asks(data, &site.vault, &next, &one).exits(1);
    assert!(!data.join("pg_wal/seawall.ahead").exists());
    assert_eq!(segments(&mut site, 1), std::slice::from_ref(&next));
    asks(data, &site.vault, &next, &one).ok();
    // Another program's file, and none ahead where that isn't wanted.
    asks(data, &site.vault, &names[0], &["--timeline", "1", "--ahead", "0"]).ok();
    site.fetch(&names[0], &data.join("elsewhere"), &one).ok();
    assert!(ahead(data).is_empty());
    let recovered =
        site.recover(&base, &format!("recovery_target_lsn = '{}'\nrecovery_target_action = promote", lsn_of(&next)));
    assert_eq!(recovered.sql("postgres", SUMS), sums);
}

#[test]
fn wal_that_was_got_ahead_makes_room_on_a_full_disk() {
    let mut site = Site::start(18);
    site.commit(3);
    let base = site.server.base();
    let names = segments(&mut site, 2);
    let sums = site.sums();
    let folder = recovering(&site);
    let (data, wal) = (folder.path(), folder.path().join("pg_wal"));
    // Room for a segment of 16 MiB and little more.
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m", "tmpfs"]).arg(&wal).output();
    if mount.is_ok_and(|output| output.status.success()) {
        let ahead = wal.join("seawall.ahead");
        std::fs::create_dir(&ahead).expect("a folder");
        std::fs::set_permissions(&ahead, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("private");
        std::fs::write(ahead.join("got"), vec![7; 8 << 20]).expect("written");
        let got = asks(data, &site.vault, &names[0], &["--timeline", "1"]);
        let there = std::fs::read(wal.join("RECOVERYXLOG"));
        let unmounted = Command::new("umount").arg("-l").arg(&wal).output();
        got.ok();
        let whole = data.join("whole");
        site.fetch(&names[0], &whole, &[]).ok();
        assert!(there.expect("read") == std::fs::read(whole).expect("read"));
        assert!(unmounted.expect("umount").status.success());
    } else {
        println!("a full disk was not tried: no file system can be mounted here");
    }
    let recovered = site.recover(&base, "");
    assert_eq!(recovered.sql("postgres", SUMS), sums);
}

/// The position at which a segment of 16 MiB begins.
fn lsn_of(segment: &str) -> String {
    let number = |part: &str| u64::from_str_radix(part, 16).expect("hex");
    format!("{:X}/{:X}", number(&segment[8..16]), number(&segment[16..]) << 24)
}

#[test]
fn wal_is_got_ahead_by_a_server_that_recovers_and_by_a_standby() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(3);
        let base = site.server.base();
        let names = segments(&mut site, 12);
        let sums = site.sums();
        let recovered = site.recover(&base, "");
        assert_eq!(recovered.sql("postgres", SUMS), sums, "{major}");
        assert!(!recovered.data().join("pg_wal/seawall.ahead").exists(), "nothing is left");
        // A standby asks again and again for what isn't there yet, and gets it when it is.
        let standby = Server::recover(&base, "standby.signal", &fetch_from(&site.vault, "--timeline 1"));
        let standby = standby.expect("it starts");
        let replayed = |name: &str| format!("SELECT pg_last_wal_replay_lsn() > '{}'", lsn_of(name));
        let there = |name: &str| (standby.sql("postgres", &replayed(name)) == "t").then_some(());
        wait::until("the standby to have all", LATE, || there(names.last().expect("a name")));
        let more = segments(&mut site, 3);
        let sums = site.sums();
        wait::until("the standby to go on", LATE, || there(more.last().expect("a name")));
        wait::until("its rows", LATE, || (standby.sql("postgres", SUMS) == sums).then_some(()));
    }
}
