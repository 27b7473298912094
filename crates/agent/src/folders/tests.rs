//! A real folder with real databases, and a fleet that only takes note of them.

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

use std::time::Duration;

use rusqlite::Connection;
use seawall_vault::VaultUrl;

use super::*;
use crate::config::Pattern;
use crate::fleet::Origin;
use crate::testing::Stubs;

struct Scene {
    folder: tempfile::TempDir,
    fleet: Fleet,
    shutdown: Shutdown,
}

/// Follows `data`, whose databases are called `work`, so that their stubs work.
async fn scene(recursive: bool, prepare: impl FnOnce(&Path)) -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    prepare(&data);
    let config = DirectoryConfig {
        dir: data.clone(),
        pattern: Pattern::parse("*.db").expect("a pattern"),
        recursive,
        watch: true,
        prefix: Some("work-".into()),
        state: None,
        template: DatabaseConfig::new("work-".into(), data, VaultUrl::parse("/vault").expect("a place")),
    };
    let shutdown = Shutdown::new();
    let fleet = Fleet::new(Arc::new(Stubs), shutdown.clone());
    let mut follower = Follower::new(config, Duration::from_secs(3600));
    for config in follower.begin().await {
        fleet.add(config, Origin::Found).await.expect("added");
    }
    tokio::spawn(follower.follow(fleet.clone(), shutdown.clone()));
    Scene { folder, fleet, shutdown }
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("data").join(name)
    }

    fn names(&self) -> BTreeSet<String> {
        let data = self.folder.path().join("data");
        let relative = |path: PathBuf| path.strip_prefix(&data).map(|path| path.display().to_string()).ok();
        self.fleet.all().into_iter().filter_map(|member| relative(member.config.path()?.to_owned())).collect()
    }

    async fn until(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        let arrives = async {
            while self.names() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), arrives).await;
        assert!(in_time.is_ok(), "waited in vain for {expected:?}, there is {:?}", self.names());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

fn database(path: &Path) -> Connection {
    let database = Connection::open(path).expect("opened");
    database.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(a)").expect("made");
    database
}

#[tokio::test]
async fn what_comes_and_goes_is_followed() {
    let scene =
        scene(false, |data| drop((database(&data.join("a.db")), std::fs::write(data.join("b.db"), "no database"))))
            .await;
    scene.until(&["a.db"]).await;
    let new = database(&scene.path("new.db"));
    std::fs::write(scene.path("new.txt"), "SQLite format 3\0").expect("written");
    std::fs::create_dir(scene.path("folder.db")).expect("a folder");
    scene.until(&["a.db", "new.db"]).await;
    drop(new);
    std::fs::rename(scene.path("new.db"), scene.path("other.db")).expect("renamed");
    scene.until(&["a.db", "other.db"]).await;
    std::fs::remove_file(scene.path("a.db")).expect("removed");
    scene.until(&["other.db"]).await;
    drop(database(&scene.path("a.db")));
    scene.until(&["a.db", "other.db"]).await;
}

#[tokio::test]
async fn a_file_that_becomes_a_database_later_is_found_then() {
    let scene = scene(false, |_| ()).await;
    let late = Connection::open(scene.path("late.db")).expect("opened");
    std::fs::File::create(scene.path("late.db")).expect("an empty file");
    // Half of a copy: the header says more than there is.
    drop(database(&scene.folder.path().join("whole.db")));
    let whole = std::fs::read(scene.folder.path().join("whole.db")).expect("read");
    std::fs::write(scene.path("copy.db"), &whole[..4096]).expect("written");
    drop(database(&scene.path("sign.db")));
    scene.until(&["sign.db"]).await;
    late.execute_batch("CREATE TABLE t(a)").expect("made");
    scene.until(&["late.db", "sign.db"]).await;
    std::fs::write(scene.path("copy.db"), &whole).expect("written");
    scene.until(&["copy.db", "late.db", "sign.db"]).await;
}

#[tokio::test]
async fn folders_in_the_folder() {
    let scene = scene(true, |data| {
        std::fs::create_dir_all(data.join("x/.a.db-seawall")).expect("folders");
        drop((database(&data.join("x/a.db")), database(&data.join("x/.a.db-seawall/inner.db"))));
    })
    .await;
    scene.until(&["x/a.db"]).await;
    // Everything below is made elsewhere and moved in: one event for all.
    std::fs::create_dir_all(scene.folder.path().join("made/deep")).expect("folders");
    drop(database(&scene.folder.path().join("made/deep/b.db")));
    std::fs::rename(scene.folder.path().join("made"), scene.path("y")).expect("moved in");
    scene.until(&["x/a.db", "y/deep/b.db"]).await;
    drop(database(&scene.path("y/deep/c.db")));
    scene.until(&["x/a.db", "y/deep/b.db", "y/deep/c.db"]).await;
    std::fs::rename(scene.path("y"), scene.path("z")).expect("renamed");
    scene.until(&["x/a.db", "z/deep/b.db", "z/deep/c.db"]).await;
    drop(database(&scene.path("z/d.db")));
    scene.until(&["x/a.db", "z/d.db", "z/deep/b.db", "z/deep/c.db"]).await;
    std::fs::rename(scene.path("z"), scene.folder.path().join("out")).expect("moved out");
    scene.until(&["x/a.db"]).await;
    std::fs::remove_dir_all(scene.path("x")).expect("removed");
    scene.until(&[]).await;
}

#[tokio::test]
async fn the_folder_itself_may_come_later_and_go() {
    let scene = scene(false, |data| std::fs::remove_dir(data).expect("removed")).await;
    scene.until(&[]).await;
    std::fs::create_dir(scene.folder.path().join("data")).expect("made");
    drop(database(&scene.path("a.db")));
    scene.until(&["a.db"]).await;
    std::fs::remove_dir_all(scene.folder.path().join("data")).expect("removed");
    scene.until(&[]).await;
    std::fs::create_dir(scene.folder.path().join("data")).expect("made");
    drop(database(&scene.path("b.db")));
    scene.until(&["b.db"]).await;
}

#[tokio::test]
async fn a_member_is_never_opened_by_who_looks_around() {
    let scene = scene(false, |data| drop(database(&data.join("a.db")))).await;
    scene.until(&["a.db"]).await;
    // What stands under a member's name is for its engine to judge, even if it is no database.
    std::fs::write(scene.folder.path().join("other"), "no database").expect("written");
    std::fs::rename(scene.folder.path().join("other"), scene.path("a.db")).expect("replaced");
    drop(database(&scene.path("sign.db")));
    scene.until(&["a.db", "sign.db"]).await;
    // A second name of a file that an engine has is told by the file, without opening it.
    std::fs::hard_link(scene.path("a.db"), scene.path("b.db")).expect("linked");
    scene.until(&["a.db", "b.db", "sign.db"]).await;
}

#[tokio::test]
async fn a_storm_of_new_files() {
    let scene = scene(false, |_| ()).await;
    drop(database(&scene.folder.path().join("one.db")));
    let bytes = std::fs::read(scene.folder.path().join("one.db")).expect("read");
    for n in 0..1000 {
        std::fs::write(scene.path(&format!("{n}.db")), &bytes).expect("written");
    }
    let names: Vec<String> = (0..1000).map(|n| format!("{n}.db")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    scene.until(&names).await;
    for n in 10..1000 {
        std::fs::remove_file(scene.path(&format!("{n}.db"))).expect("removed");
    }
    scene.until(&names[..10]).await;
}
