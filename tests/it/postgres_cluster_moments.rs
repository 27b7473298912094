//! `seawall restore -o` of moments and positions where the log has several timelines, where nothing happens any more, and with
//! segments of other sizes. Every test ends in a recovered server whose rows are compared with what was recorded.

use std::time::Duration;

use seawall_tests::wait;

use crate::postgres::server::Server;
use crate::postgres_cluster::Site;
use crate::wal::{LATE, SUMS, VERSIONS};

/// A moment of the server's clock, between what was before and what comes.
fn now(server: &Server) -> String {
    wait::pass(Duration::from_millis(20));
    let sql = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')";
    let moment = server.sql("postgres", sql);
    wait::pass(Duration::from_millis(20));
    moment
}

/// Commits transactions with these numbers.
fn commit(server: &Server, numbers: std::ops::Range<u32>) {
    for tx in numbers {
        server.sql("postgres", &format!("INSERT INTO t VALUES ({tx}, 1, repeat('new', {tx}))"));
    }
}

fn archive(server: &Server) {
    let name = server.sql("postgres", "SELECT pg_walfile_name(pg_switch_wal())");
    let sql = format!("SELECT last_archived_wal >= '{name}' FROM pg_stat_archiver");
    wait::until("the segment to be archived", LATE, || (server.sql("postgres", &sql) == "t").then_some(()));
}

#[test]
fn cluster_moment_is_restored_from_the_timeline_that_there_was_then() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(5);
        site.base();
        site.commit(5);
        let nine = site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
        site.commit(5);
        let (half_past_nine, at_half_past) = (now(&site.server), site.sums());
        site.commit(5);
        let (ten, at_ten) = (now(&site.server), site.sums());
        site.archive();
        // A recovery to nine goes on as timeline 2 in the same vault, and it was a mistake.
        let mut wrong = site.recovered(&["--target", &format!("lsn:{nine}")]);
        wrong.sql("postgres", "ALTER SYSTEM SET archive_mode = on");
        wrong.kill();
        wrong.start_again();
        commit(&wrong, 1001..1010);
        let (eleven, at_eleven) = (now(&wrong), wrong.sql("postgres", SUMS));
        commit(&wrong, 1010..1020);
        let newest = wrong.sql("postgres", SUMS);
        archive(&wrong);
        drop(wrong);
        for (arguments, timeline, expected) in [
            (&["--at", half_past_nine.as_str()][..], 1, &at_half_past),
            (&["--at", &ten], 1, &at_ten),
            (&["--at", &eleven], 2, &at_eleven),
            (&[], 2, &newest),
            (&["--timeline", "1"], 1, &at_ten),
            (&["--at", &eleven, "--timeline", "1"], 1, &at_ten),
        ] {
            let recovered = Server::restored(&site.server, |data| {
                let restored = site.restore(data, arguments).ok().json();
                assert_eq!(restored["timeline"], timeline, "{major} {arguments:?}: {restored}");
            });
            let found = recovered.expect("it recovers").sql("postgres", SUMS);
            assert_eq!(&found, expected, "{major} {arguments:?}");
        }
        // Without its history, timeline 2 isn't passed over silently.
        let segment = site.log("000000010000000000000001");
        let history = segment.parent().and_then(|folder| folder.parent()).expect("a folder").join("00000002.history");
        std::fs::remove_file(history).expect("removed");
        let none = site.server.folder().join("none");
        let refused = site.restore(&none, &[]).exits(1).json();
        assert_eq!(refused["error"]["code"], "log.no-history", "{refused}");
        let recovered = site.recovered(&["--timeline", "1"]);
        assert_eq!(recovered.sql("postgres", SUMS), at_ten, "{major}");
    }
}

#[test]
fn cluster_moment_of_an_idle_server_is_its_newest_state() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(5);
        site.base();
        site.commit(5);
        let sums = site.sums();
        let between = now(&site.server);
        site.archive();
        wait::pass(Duration::from_millis(50));
        let later = now(&site.server);
        let doubtful = |site: &Site, at: &str, is_doubtful: bool| {
            let recovered = Server::restored(&site.server, |data| {
                let restored = site.restore(data, &["--at", at]).ok().json();
                assert_eq!(restored["log"]["ends_before_target"], is_doubtful, "{major}: {restored}");
            });
            assert_eq!(recovered.expect("it recovers").sql("postgres", SUMS), sums, "{major}: {at}");
        };
        // The vault has log from after the first moment, and nothing from after the second.
        doubtful(&site, &between, false);
        doubtful(&site, &later, true);
        site.commit(1);
        site.archive();
        doubtful(&site, &later, false);
    }
}

#[test]
fn cluster_restore_point_whose_name_comes_twice_is_the_first_after_the_base() {
    let mut site = Site::start(15);
    site.commit(3);
    site.base();
    let mut states = Vec::new();
    for _ in 0..2 {
        site.commit(3);
        states.push(site.sums());
        site.server.sql("postgres", "SELECT pg_create_restore_point('twice')");
        site.commit(3);
        states.push(site.base()["id"].as_str().expect("a name").to_owned());
    }
    site.archive();
    let recovered = site.recovered(&["--target", "name:twice"]);
    assert_eq!(recovered.sql("postgres", SUMS), states[0]);
    let recovered = site.recovered(&["--target", "name:twice", "--at", &states[1]]);
    assert_eq!(recovered.sql("postgres", SUMS), states[2]);
}

#[test]
fn cluster_with_segments_of_other_sizes_is_recovered() {
    for (major, size) in [(15, 1), (18, 64)] {
        let mut site = Site::with(major, "min_wal_size = '256MB'");
        site.server.stop();
        let mut resize = crate::postgres::server::command(&site.server.bin().join("pg_resetwal"));
        resize.arg(format!("--wal-segsize={size}")).arg("-D").arg(site.server.data());
        crate::postgres::server::output(resize);
        // The last segment of the other size is in it.
        std::fs::remove_dir_all(&site.vault).expect("removed");
        site.server.start_again();
        site.commit(5);
        site.base();
        let filler = "INSERT INTO t SELECT 5000, n, repeat(md5(n::text), 100) FROM generate_series(1, 3000) n";
        site.server.sql("postgres", filler);
        let (lsn, sums) = (site.server.sql("postgres", "SELECT pg_current_wal_insert_lsn()"), site.sums());
        let moment = now(&site.server);
        site.server.sql("postgres", filler);
        let newest = site.sums();
        site.archive();
        for (arguments, expected) in
            [(&["--target", &format!("lsn:{lsn}")][..], &sums), (&["--at", &moment], &sums), (&[], &newest)]
        {
            assert_eq!(&site.recovered(arguments).sql("postgres", SUMS), expected, "{major} {size} {arguments:?}");
        }
    }
}

#[test]
fn cluster_promoted_twice_within_a_segment_is_recovered_along_all_three_timelines() {
    for major in VERSIONS {
        let mut site = Site::start(major);
        site.commit(3);
        site.base();
        site.archive();
        site.commit(3);
        let mut standby = Server::standby_of(&site.server);
        let mut marks = Vec::new();
        let mut mark = |server: &Server| {
            let lsn = server.sql("postgres", "SELECT pg_current_wal_insert_lsn()");
            marks.push((now(server), lsn, server.sql("postgres", SUMS)));
        };
        site.commit(3);
        mark(&site.server);
        let end = site.server.sql("postgres", "SELECT pg_current_wal_lsn()");
        let follows = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
        wait::until("the standby to follow", LATE, || (standby.sql("postgres", &follows) == "t").then_some(()));
        site.server.kill();
        for round in [1000, 1010] {
            if round > 1000 {
                standby.stop();
                std::fs::write(standby.data().join("standby.signal"), "").expect("written");
                standby.start_again();
            }
            standby.sql("postgres", "SELECT pg_promote()");
            commit(&standby, round..round + 5);
            mark(&standby);
            commit(&standby, round + 5..round + 8);
        }
        let newest = standby.sql("postgres", SUMS);
        assert_eq!(standby.sql("postgres", "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"), "00000003");
        archive(&standby);
        let recovered = site.recovered(&[]);
        assert_eq!(recovered.sql("postgres", SUMS), newest, "{major}");
        for (moment, lsn, sums) in &marks {
            for arguments in [["--at", moment.as_str()], ["--target", &format!("lsn:{lsn}")]] {
                let found = site.recovered(&arguments).sql("postgres", SUMS);
                assert_eq!(&found, sums, "{major} {arguments:?}");
            }
        }
    }
}
