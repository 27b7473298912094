//! The wall clock jumps, while time runs evenly (I17).

use seawall_core::abilities::*;
use seawall_core::{Kind, Moment, Shutdown, When};
use seawall_sqlite::Sqlite;

use crate::world::{SCHEMA, START, Scene, content_of, insert, insert_beside, until};

const HOUR: i64 = 3_600_000;

/// Waits until everything is in the vault. Returns the moment and the code of the error.
async fn shipped(engine: &Sqlite, behind: &str) -> (String, Moment, Option<String>) {
    let mut found = None;
    until("it is shipped", async || {
        let Ok(status) = engine.status().await else { return false };
        let Some(point) = status.protected.filter(|point| point.position.as_str() > behind && status.lag_bytes == 0)
        else {
            return false;
        };
        found = Some((point.position, point.moment, status.error.map(|error| error.code)));
        true
    })
    .await;
    found.expect("found")
}

#[tokio::test]
async fn one_jump_ahead_and_back_leaves_no_moment_in_the_future() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    insert(&app, 3, 300);
    let (engine, shutdown) = (scene.watching(), Shutdown::new());
    let story = async {
        let (first, moment, error) = shipped(&engine, "").await;
        assert_eq!((moment, error), (Moment::from_millis(START), None));
        scene.tick(10_000);
        scene.jump(HOUR);
        insert_beside(&app, 2, 300).await;
        let (mut second, mut moment, mut error) = shipped(&engine, &first).await;
        // A look that had begun before the jump captures with the moment of its beginning.
        if moment == Moment::from_millis(START) {
            insert_beside(&app, 1, 300).await;
            (second, moment, error) = shipped(&engine, &second).await;
        }
        let during = content_of(&app);
        assert_eq!((moment, error.as_deref()), (Moment::from_millis(START + 10_000), Some("sqlite.clock")));
        scene.jump(-HOUR);
        scene.tick(10_000);
        insert_beside(&app, 2, 300).await;
        let (_, moment, error) = shipped(&engine, &second).await;
        assert_eq!((moment, error), (Moment::from_millis(START + 20_000), None));
        scene.tick(3000);
        let seconds_ago = |seconds: i64| When::Moment(Moment::from_millis(START + 23_000 - seconds * 1000));
        assert_eq!(scene.restore(seconds_ago(3)).await.expect("restored"), content_of(&app));
        assert_eq!(scene.restore(seconds_ago(8)).await.expect("restored"), during);
        shutdown.begin();
    };
    let (run, ()) = tokio::join!(engine.run(&shutdown), story);
    assert_eq!(run, Ok(()));
}

#[tokio::test]
async fn what_was_captured_by_a_clock_that_ran_ahead_is_in_doubt_until_the_clock_comes_there() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    // From here on the WAL proves the continuation of the history.
    insert(&app, 1, 300);
    let first = scene.point().await;
    let before = content_of(&app);
    // The machine starts again with a wrong clock. This can't be detected.
    std::fs::remove_dir_all(scene.state_dir()).expect("removed");
    scene.jump(HOUR);
    insert(&app, 2, 300);
    let ahead = scene.point().await;
    assert!(ahead.moment > first.moment.after(std::time::Duration::from_secs(3600)));
    scene.jump(-HOUR);
    scene.tick(20_000);
    insert(&app, 2, 300);
    let point = scene.point().await;
    assert_eq!(point.moment, ahead.moment, "moments never decrease");
    let engine = scene.engine();
    let status = engine.status().await.expect("a status");
    assert_eq!(status.error.map(|error| error.code).as_deref(), Some("sqlite.clock"));
    let notes = engine.timeline().await.expect("a timeline").notes;
    assert_eq!(notes.first().map(|note| &note.position), Some(&point.position));
    // "3 seconds ago" would be the state before all that.
    let now = START + 2 * 1000 + 1000 + 20_000 + 1000;
    let refused = scene.restore(When::Moment(Moment::from_millis(now - 3000))).await.expect_err("in doubt");
    assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.moments-in-doubt"));
    assert!(refused.next.contains(&first.position) && refused.next.contains(&ahead.position), "{refused:?}");
    assert_eq!(scene.restore(When::Position(first.position.clone())).await.expect("restored"), before);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
    // Once the clock has reached that moment, no moment is in the future any more.
    scene.tick(HOUR);
    insert(&app, 1, 300);
    let last = scene.point().await;
    assert!(last.moment > point.moment);
    assert_eq!(scene.restore(When::Moment(last.moment)).await.expect("restored"), content_of(&app));
    let notes = scene.engine().timeline().await.expect("a timeline").notes;
    assert!(matches!(&notes[..], [note] if note.note.contains("the clock was wrong")), "{notes:?}");
}

#[tokio::test]
async fn a_clock_that_stays_ahead_is_believed_after_ten_minutes() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    scene.jump(HOUR);
    insert(&app, 1, 300);
    let doubted = scene.point().await;
    assert_eq!(doubted.moment, Moment::from_millis(START + 2000), "each point takes a second");
    scene.tick(700_000);
    insert(&app, 1, 300);
    let believed = scene.point().await;
    assert_eq!(believed.moment, Moment::from_millis(START + HOUR + 703_000));
    assert_eq!(scene.restore(When::Moment(doubted.moment)).await.expect("restored").len(), 1);
    assert_eq!(scene.restore(When::Latest).await.expect("restored"), content_of(&app));
}

/// Without a commit, the sweep reports the jump and its end.
#[tokio::test]
async fn an_idle_database_tells_of_a_jump_and_that_it_is_over() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let (engine, shutdown) = (scene.watching(), Shutdown::new());
    let told = async |expected: Option<&str>| {
        until("the status tells of the clock", async || {
            let Ok(status) = engine.status().await else { return false };
            let known = engine.known_status().await.expect("a status");
            [status, known].iter().all(|status| status.error.as_ref().map(|error| error.code.as_str()) == expected)
        })
        .await;
    };
    let story = async {
        let (_, moment, _) = shipped(&engine, "").await;
        scene.tick(10_000);
        scene.jump(HOUR);
        told(Some("sqlite.clock")).await;
        scene.jump(-HOUR);
        told(None).await;
        scene.jump(-HOUR);
        told(Some("sqlite.clock")).await;
        scene.jump(HOUR);
        told(None).await;
        assert_eq!(engine.status().await.expect("a status").protected.map(|point| point.moment), Some(moment));
        assert_eq!(engine.timeline().await.expect("a timeline").notes, [], "the clock was wrong only meanwhile");
        shutdown.begin();
    };
    let (run, ()) = tokio::join!(engine.run(&shutdown), story);
    assert_eq!(run, Ok(()));
}

/// Once the clock has come to the moment that it claimed too early, only the record in the vault tells.
#[tokio::test]
async fn moments_of_a_clock_that_ran_ahead_stay_in_doubt() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    insert(&app, 1, 300);
    let first = scene.point().await;
    std::fs::remove_dir_all(scene.state_dir()).expect("removed");
    scene.jump(HOUR);
    insert(&app, 2, 300);
    let ahead = scene.point().await;
    scene.jump(-HOUR);
    scene.tick(20_000);
    insert(&app, 2, 300);
    let set_right = scene.point().await;
    std::fs::remove_dir_all(scene.state_dir()).expect("removed");
    scene.tick(2 * HOUR);
    insert(&app, 1, 300);
    let last = scene.point().await;
    let at = |millis: i64| When::Moment(Moment::from_millis(first.moment.as_millis() + millis));
    for millis in [1, 10_000, 60_000, HOUR] {
        let refused = scene.restore(at(millis)).await.expect_err("in doubt");
        assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.moments-in-doubt"), "{millis}");
        assert!(refused.next.contains(&first.position) && refused.next.contains(&ahead.position), "{refused:?}");
    }
    let notes = scene.engine().timeline().await.expect("a timeline").notes;
    assert_eq!(notes.iter().map(|note| &note.position).collect::<Vec<_>>(), [&set_right.position]);
    // What isn't in doubt is found by its moment.
    assert_eq!(scene.restore(When::Moment(first.moment)).await.expect("restored").len(), 1);
    assert_eq!(scene.restore(When::Moment(last.moment)).await.expect("restored"), content_of(&app));
    // Points that were captured while the clock was behind that moment may be later by as much: it isn't known which
    // clock was right.
    let refused = scene.restore(at(90 * HOUR / 60)).await.expect_err("in doubt");
    assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.moments-in-doubt"));
    assert!(scene.restore(at(2 * HOUR)).await.is_ok(), "between the clock's return and the last point");
}

/// A clock that was behind, as after a pause of the machine, gave moments that were too early.
#[tokio::test]
async fn moments_before_a_clock_was_believed_again_stay_in_doubt() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    scene.point().await;
    scene.jump(HOUR);
    insert(&app, 1, 300);
    let early = scene.point().await;
    scene.tick(700_000);
    insert(&app, 1, 300);
    let believed = scene.point().await;
    std::fs::remove_dir_all(scene.state_dir()).expect("removed");
    let minutes = |minutes: u64| When::Moment(early.moment.after(std::time::Duration::from_secs(minutes * 60)));
    let refused = scene.restore(minutes(30)).await.expect_err("in doubt");
    assert_eq!((refused.kind, refused.code), (Kind::Refused, "sqlite.moments-in-doubt"));
    for exact in [early.moment, believed.moment] {
        scene.restore(When::Moment(exact)).await.expect("a point's own moment");
    }
}

/// A host with a right clock, which restores from the vault of another scene.
fn elsewhere(scene: &Scene, passed: i64) -> Scene {
    let other = Scene::on(tempfile::tempdir().expect("a folder"), scene.store.clone());
    other.tick(passed);
    other
}

async fn refused(scene: &Scene, moment: i64) {
    let failure = scene.restore(When::Moment(Moment::from_millis(moment))).await.expect_err("in doubt");
    assert_eq!((failure.kind, failure.code), (Kind::Refused, "sqlite.moments-in-doubt"), "{}", moment - START);
}

/// The points that were captured meanwhile have the moment of the one before: none of them was the newest at a moment in between.
#[tokio::test]
async fn what_was_captured_while_the_clock_was_set_back_is_in_doubt_when_it_returns() {
    let scene = Scene::new();
    let app = scene.app();
    app.execute_batch(SCHEMA).expect("schema");
    let (engine, shutdown) = (scene.watching(), Shutdown::new());
    let notes = async || engine.timeline().await.expect("a timeline").notes;
    let story = async {
        let (base, _, _) = shipped(&engine, "").await;
        scene.tick(10_000);
        // A look that began before the clock went on gives its own moment.
        let commit_at = async |millis: i64, behind: &str| {
            let mut newest = behind.to_owned();
            loop {
                let former = content_of(&app);
                insert_beside(&app, 1, 300).await;
                let (point, moment, _) = shipped(&engine, &newest).await;
                if moment == Moment::from_millis(START + millis) {
                    return (point, moment, former);
                }
                newest = point;
            }
        };
        let (first, moment, oldest) = commit_at(10_000, &base).await;
        let before = content_of(&app);
        scene.tick(10_000);
        scene.jump(-HOUR);
        let mut newest = first.clone();
        for _ in 0..2 {
            scene.tick(600_000);
            insert_beside(&app, 1, 300).await;
            let (point, shared, _) = shipped(&engine, &newest).await;
            assert_eq!(shared, moment, "moments never decrease");
            newest = point;
        }
        // The clock is still behind: another host is refused moments that may have been committed later.
        until("it is recorded", async || notes().await.iter().any(|note| note.note.contains("the clock was wrong")))
            .await;
        let other = elsewhere(&scene, 1_220_000);
        for passed in [10_000, 11_000, 700_000, 1_219_000] {
            refused(&other, START + passed).await;
        }
        scene.tick(600_000);
        scene.jump(HOUR);
        until("it is over", async || engine.status().await.is_ok_and(|status| status.error.is_none())).await;
        scene.tick(60_000);
        let (_, last, _) = commit_at(1_880_000, &newest).await;
        until("one record is left", async || matches!(&notes().await[..], [_])).await;
        for passed in [10_000, 11_000, 700_000, 1_300_000, 1_879_000] {
            refused(&scene, START + passed).await;
        }
        assert_eq!(scene.restore(When::Moment(Moment::from_millis(START + 9000))).await.expect("restored"), oldest);
        assert_eq!(scene.restore(When::Position(first)).await.expect("restored"), before);
        assert_eq!(scene.restore(When::Moment(last)).await.expect("restored"), content_of(&app));
        scene.tick(60_000);
        let now = When::Moment(Moment::from_millis(START + 1_930_000));
        assert_eq!(scene.restore(now).await.expect("restored"), content_of(&app));
        shutdown.begin();
    };
    let (run, ()) = tokio::join!(engine.run(&shutdown), story);
    assert_eq!(run, Ok(()));
}

/// The same where a process takes each point, with and without what the one before knew.
#[tokio::test]
async fn a_clock_that_is_set_back_between_two_runs_leaves_moments_in_doubt() {
    for loses_state in [false, true] {
        let scene = Scene::new();
        let app = scene.app();
        app.execute_batch(SCHEMA).expect("schema");
        scene.point().await;
        insert(&app, 1, 300);
        let first = scene.point().await.moment;
        scene.jump(-HOUR);
        for _ in 0..2 {
            scene.tick(600_000);
            insert(&app, 1, 300);
            assert_eq!(scene.point().await.moment, first);
        }
        let other = elsewhere(&scene, scene.clock_now().as_millis() + HOUR - START);
        if loses_state {
            std::fs::remove_dir_all(scene.state_dir()).expect("removed");
        }
        let at = |millis: i64| first.as_millis() + millis;
        for passed in [0, 1, 700_000, 1_200_000] {
            refused(&other, at(passed)).await;
        }
        scene.jump(HOUR);
        scene.tick(600_000);
        insert(&app, 1, 300);
        let last = scene.point().await.moment;
        for passed in [0, 1, 700_000, 1_200_000] {
            refused(&scene, at(passed)).await;
        }
        assert_eq!(scene.restore(When::Moment(last)).await.expect("restored"), content_of(&app));
    }
}
