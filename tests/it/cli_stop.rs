//! How `replicate` ends: the first signal ships all commits, the second ends the process at once.

use std::time::Duration;

use seawall_tests::{Place, Random, Stand, digest, model, wait};

#[test]
fn the_first_signal_ships_what_is_committed() {
    for interrupt in [false, true] {
        let stand = Stand::folder(Random::from_env().seed());
        let mut app = stand.app();
        let mut seawall = stand.replicate();
        for _ in 0..3 {
            app.commit(200);
        }
        // Without a pause: the last commit can't have been shipped yet.
        if interrupt {
            seawall.interrupt();
        } else {
            seawall.terminate();
        }
        seawall.wait(wait::SOON).ok();
        let back = stand.restore();
        assert_eq!(model::check(&back, stand.seed), 600);
        assert_eq!(digest::of(&back), digest::of(&stand.db()));
        assert_eq!(stand.status()["phase"], "stopped");
    }
}

#[test]
fn a_stop_right_after_the_start_ends_well() {
    let mut random = Random::from_env();
    for _ in 0..10 {
        let stand = Stand::folder(random.draw());
        let mut app = stand.app();
        app.commit(10);
        let mut seawall = stand.replicate();
        // Before its handlers are installed, a signal ends the process as it ends any other.
        wait::pass(random.between(Duration::from_millis(0), Duration::from_millis(120)));
        seawall.terminate();
        let output = seawall.wait(wait::SOON);
        assert!([0, 128 + 15].contains(&output.code()), "{output}");
        if output.code() == 0 {
            assert_eq!(model::check(&stand.restore(), stand.seed), 10, "{output}");
        }
    }
}

#[test]
fn with_the_store_away_the_second_signal_ends_at_once_on_s3() {
    let mut stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate();
    stand.until_protected(&mut seawall);
    let Place::Bucket(server, _) = &mut stand.place else { unreachable!("made so above") };
    server.stop();
    app.commit(500);
    wait::until("the lag to show", wait::SOON, || (stand.status()["lag_bytes"] != 0).then_some(()));
    seawall.terminate();
    wait::pass(Duration::from_millis(500));
    assert!(seawall.running(), "it must try to ship what is committed: {}", seawall.stderr());
    seawall.terminate();
    seawall.wait(Duration::from_secs(5)).exits(130);
}

#[test]
fn with_the_store_away_the_application_goes_on_and_the_status_says_so_on_s3() {
    let mut stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut seawall = stand.replicate();
    let before = stand.until_protected(&mut seawall);
    let Place::Bucket(server, _) = &mut stand.place else { unreachable!("made so above") };
    server.stop();
    app.commit(500);
    let status = wait::until("the error to show", wait::SOON * 2, || {
        let status = stand.status();
        (!status["error"].is_null()).then_some(status)
    });
    assert_eq!(seawall_tests::protected(&status), Some(before), "{status}");
    assert!(status["error"]["code"].as_str().unwrap().contains('.'), "{status}");
    assert!(!status["error"]["next"].as_str().unwrap().is_empty(), "{status}");
    assert_eq!(app.commit(100), 620);
    assert!(seawall.running());
}
