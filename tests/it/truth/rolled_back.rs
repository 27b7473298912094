//! Yesterday's copies: of the vault, of the state directory, of both, and of a whole host that runs beside the first one.

use std::fs;

use seawall_tests::{Place, Process, Random, Stand, digest, model, wait};

use super::copy_folder;
use super::watched::{PATIENCE, all_comes_back, replicate, sync, until_told};

fn stand() -> Stand {
    Stand::folder(Random::from_env().seed())
}

/// Every point that the timeline offers at its end restores to the database as it is, and there are this many holes.
fn ends_at_the_present(stand: &Stand, committed: u64, holes: usize) {
    all_comes_back(stand, committed);
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    assert_eq!(timeline["holes"].as_array().map(Vec::len), Some(holes), "{timeline}");
    stand.seawall(&["verify", "--strong", &stand.place.url()]).ok();
}

#[test]
fn a_vault_that_is_an_older_copy_at_a_start_is_told_and_begun_anew() {
    let stand = stand();
    let mut app = stand.app();
    app.commit(20);
    stand.replicate_once();
    copy_folder(&stand.place.root(), &stand.path("yesterday"));
    for _ in 0..2 {
        app.commit(5);
        stand.replicate_once();
    }
    copy_folder(&stand.path("yesterday"), &stand.place.root());
    let committed = app.commit(5);
    let once = stand.replicate_with(&["--once"]).wait(wait::SOON * 4);
    assert!(once.code() == 1 && once.stderr.contains("[sqlite.lost]"), "{once}");
    ends_at_the_present(&stand, committed, 1);
    app.commit(5);
    stand.replicate_once();
    ends_at_the_present(&stand, committed + 5, 1);
}

#[test]
fn a_vault_that_becomes_an_older_copy_under_a_process_is_told_and_begun_anew() {
    // Without merges: a merge between the deletion and the look would heal the vault from memory.
    let stand = stand();
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(&stand, "levels: [{ interval: 24h }]");
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    copy_folder(&stand.place.root(), &stand.path("yesterday"));
    for _ in 0..3 {
        app.commit(5);
        sync(&stand).ok();
    }
    // In place: the folder stays the same one, as when a disk is restored from its own snapshot.
    for (level, yesterday) in
        [0, 9].map(|level| (stand.place.level(level), stand.path(&format!("yesterday/ltx/{level}"))))
    {
        for entry in fs::read_dir(&level).unwrap().flatten() {
            if !yesterday.join(entry.file_name()).exists() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    until_told(&stand, "sqlite.lost");
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    all_comes_back(&stand, app.committed());
    let committed = app.commit(5);
    sync(&stand).ok();
    seawall.stop();
    ends_at_the_present(&stand, committed, 1);
}

/// One object in the middle: everything before it and the newest one are there. Merging would heal it from memory.
#[test]
fn one_capture_that_vanishes_under_a_process_is_told_and_the_hole_is_named() {
    let stand = stand();
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = replicate(&stand, "levels: [{ interval: 24h }]");
    stand.until_protected(&mut seawall);
    for _ in 0..6 {
        app.commit(5);
        sync(&stand).ok();
    }
    let gone = stand.place.newest() - 2;
    fs::remove_file(stand.place.object(0, gone, gone)).unwrap();
    until_told(&stand, "sqlite.lost");
    let name = seawall_tests::file_name(gone, gone);
    assert!(stand.status()["error"].to_string().contains(&name), "{}", stand.status());
    let committed = app.commit(5);
    stand.until_protected(&mut seawall);
    sync(&stand).ok();
    seawall.stop();
    ends_at_the_present(&stand, committed, 1);
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    assert!(timeline["holes"].to_string().contains(&format!("{:016x}", gone - 1)), "{timeline}");
    let at = format!("{gone:016x}");
    let refused = stand.seawall(&["restore", &stand.place.url(), "-o", "x.db", "--at", &at]).exits(1);
    assert!(refused.stderr.contains("[sqlite.unreachable]"), "{refused}");
}

/// The reasons of all holes, which must not blame another program: only the application wrote.
fn nobody_else_is_blamed(stand: &Stand) {
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    for hole in timeline["holes"].as_array().unwrap() {
        let reason = hole["reason"].as_str().unwrap();
        assert!(!reason.starts_with("another program") && !reason.contains("replaced"), "{timeline}");
    }
}

#[test]
fn a_state_directory_of_yesterday_loses_nothing_and_blames_nobody() {
    for (checkpoint, holes) in [(false, 0), (true, 1)] {
        let stand = stand();
        let mut app = stand.app();
        app.commit(20);
        stand.replicate_once();
        copy_folder(&stand.state(), &stand.path("yesterday"));
        for _ in 0..2 {
            app.commit(5);
            stand.replicate_once();
        }
        copy_folder(&stand.path("yesterday"), &stand.state());
        if checkpoint {
            app.checkpoint("TRUNCATE");
        }
        let committed = app.commit(5);
        stand.replicate_once();
        ends_at_the_present(&stand, committed, holes);
        nobody_else_is_blamed(&stand);
    }
}

/// Nobody remembers what is gone, so nothing is told. But nothing older than the database is called the newest.
#[test]
fn state_and_vault_of_yesterday_go_on_with_the_database_of_today() {
    let stand = stand();
    let mut app = stand.app();
    app.commit(20);
    stand.replicate_once();
    let both = [(stand.state(), stand.path("state")), (stand.place.root(), stand.path("objects"))];
    both.iter().for_each(|(what, copy)| copy_folder(what, copy));
    app.commit(5);
    stand.replicate_once();
    app.checkpoint("TRUNCATE");
    let committed = app.commit(5);
    both.iter().for_each(|(what, copy)| copy_folder(copy, what));
    stand.replicate_once();
    ends_at_the_present(&stand, committed, 1);
    nobody_else_is_blamed(&stand);
}

/// A machine that was cloned with its state, and started: both have the lineage, the position and the credentials.
#[test]
fn a_second_host_with_a_copy_of_the_state_is_caught_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let Place::Bucket(server, prefix) = &stand.place else { unreachable!("it is a bucket") };
    let mut app = stand.app();
    app.commit(20);
    stand.replicate_once();
    app.kill_9();
    let other = Stand::folder(stand.seed);
    copy_folder(&stand.path(""), &other.path("host"));
    let mut apps = [stand.db(), other.path("host/app.db")].map(|db| seawall_tests::App::start(&db, stand.seed));
    // Another name of the same server, so that no lock of this machine helps.
    let there = server.endpoint().replace("127.0.0.1", "localhost");
    let url = stand.place.url().replace(&server.endpoint(), &there);
    let mut second = other.command();
    second.current_dir(other.path("host")).arg("replicate").arg(other.path("host/app.db")).arg(url);
    second.env("AWS_ACCESS_KEY_ID", seawall_tests::S3Server::ACCESS_KEY);
    second.env("AWS_SECRET_ACCESS_KEY", seawall_tests::S3Server::SECRET_KEY);
    let mut hosts = [stand.replicate(), Process::spawn("the second host", &mut second)];
    assert!(!prefix.is_empty());
    let mut turn = 0;
    let loser = wait::until("one of the two to give way", PATIENCE, || {
        turn += 1;
        apps[0].sql(&format!("CREATE TABLE first_{turn}(x)"));
        apps[1].sql(&format!("CREATE TABLE second_{turn}(x)"));
        hosts.iter_mut().position(|host| !host.running())
    });
    let ended = hosts[loser].wait(wait::SOON);
    assert!(ended.code() == 1 && ended.stderr.contains("[sqlite.two-writers]"), "{ended}");
    let winner = 1 - loser;
    apps[winner].sql("CREATE TABLE last(x)");
    hosts[winner].stop().ok();
    let kept = [stand.db(), other.path("host/app.db")];
    assert_eq!(digest::of(&stand.restore()), digest::of(&kept[winner]), "a mixture of two hosts");
    model::check(&stand.restore(), stand.seed);
    stand.seawall(&["verify", "--strong", &stand.place.url()]).ok();
}
