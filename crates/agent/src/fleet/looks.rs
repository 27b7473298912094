//! A new member waits for the looks into folders that began before it came.
//!
//! A look opens files to find out whether they are databases. If an engine of this process has the same file open,
//! closing it would drop the engine's locks. So a look opens only files that belong to no member, and this order keeps
//! a look and a new member apart:
//!
//! 1. The look registers itself here, and then asks the fleet for its members.
//! 2. A new member enters the fleet, and then waits for the looks that are registered.
//!
//! So either the look knows the member, or the member waits for the look.
//!
//! A look into a folder whose disk doesn't answer may never end. After [`PATIENCE`], a member of another folder stops
//! waiting and marks the look as overtaken; an overtaken look opens no more files. A member of the same folder fails
//! with [`HANGS`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_core::{Failure, Kind};
use tokio::sync::watch;

use super::Fleet;
use crate::config::DatabaseConfig;

/// How long a new member waits for looks.
const PATIENCE: Duration = Duration::from_secs(10);

/// A look that is under way.
#[derive(Debug, Clone)]
struct Look {
    folder: PathBuf,
    /// Set when a member that the look doesn't know has stopped waiting for the look.
    overtaken: Arc<AtomicBool>,
}

/// The looks of a process.
#[derive(Debug, Default)]
pub(super) struct Looks(watch::Sender<(u64, BTreeMap<u64, Look>)>);

/// A look that is registered until this is dropped. It moves into the thread that reads the folder.
pub(crate) struct Looking {
    fleet: Fleet,
    number: u64,
    overtaken: Arc<AtomicBool>,
}

impl Looking {
    /// Whether the look may open no more files.
    pub(crate) fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::SeqCst)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.fleet.0.looks.0.send_modify(|(_, looks)| drop(looks.remove(&self.number)));
    }
}

impl Looks {
    /// Waits until no look is under way that may open the file of a new member.
    ///
    /// # Errors
    /// When the folder that holds the file doesn't answer.
    pub(super) async fn end_before(&self, member: &DatabaseConfig) -> Result<(), Failure> {
        let Some(path) = member.path() else { return Ok(()) };
        let mut looks = self.0.subscribe();
        let before = looks.borrow().1.clone();
        let over = looks.wait_for(|(_, now)| before.keys().all(|number| !now.contains_key(number)));
        if tokio::time::timeout(PATIENCE, over).await.is_ok() {
            return Ok(());
        }
        let now = self.0.borrow().1.clone();
        for look in before.iter().filter(|(number, _)| now.contains_key(number)).map(|(_, look)| look) {
            if path.starts_with(&look.folder) {
                return Err(hangs(&look.folder));
            }
            look.overtaken.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Fleet {
    /// Registers a look into a folder. The look asks for the members afterwards.
    pub(crate) fn look_into(&self, folder: &Path) -> Looking {
        let overtaken = Arc::<AtomicBool>::default();
        let mut number = 0;
        self.0.looks.0.send_modify(|(next, looks)| {
            *next += 1;
            number = *next;
            looks.insert(number, Look { folder: folder.to_owned(), overtaken: Arc::clone(&overtaken) });
        });
        Looking { fleet: self.clone(), number, overtaken }
    }
}

/// The code of [`hangs`].
pub(crate) const HANGS: &str = "agent.folder-hangs";

/// A folder doesn't answer.
pub(crate) fn hangs(folder: &Path) -> Failure {
    Failure::new(
        Kind::Unavailable,
        HANGS,
        folder.display().to_string(),
        "the folder doesn't answer: a look into it isn't over",
        "see to its disk or network; Seawall goes on by itself once the folder answers",
    )
}

/// A disk doesn't say whether a file is missing.
pub(crate) fn hangs_at(file: &Path) -> Failure {
    Failure::new(
        Kind::Unavailable,
        HANGS,
        file.display().to_string(),
        "the disk doesn't answer whether this file is missing, so the database is neither restored nor protected",
        "see to the disk or network, then `seawall start` the database, or start Seawall again",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seawall_core::Shutdown;
    use tokio::time::Instant;

    use super::*;
    use crate::fleet::Origin;
    use crate::testing::{Stubs, database};

    fn at(path: &str, name: &str) -> DatabaseConfig {
        let vault = database(name).vault;
        DatabaseConfig::new(name.to_owned(), path.into(), vault)
    }

    /// A disk that doesn't answer holds up only its own databases.
    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_holds_up_only_databases_of_its_folder() {
        let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
        fleet.add(at("/hung/old", "work-old"), Origin::Found).await.expect("added");
        let looking = fleet.look_into(Path::new("/hung"));
        let begun = Instant::now();
        let old = fleet.find("work-old").expect("a member").config.source();
        assert_eq!(fleet.stop(&old, PATIENCE).await, Ok(true));
        assert_eq!(fleet.start(&old).await, Ok(true));
        assert_eq!(begun.elapsed(), Duration::ZERO, "a member that the look knows waits");
        let (inside, outside) = tokio::join!(
            fleet.bring(at("/hung/new", "work-in"), Origin::Configured),
            fleet.bring(at("/elsewhere/new", "work-out"), Origin::Configured),
        );
        assert_eq!(inside.expect_err("it waits").code, HANGS);
        assert_eq!(outside, Ok(()));
        assert_eq!(begun.elapsed(), PATIENCE);
        assert!(looking.is_overtaken(), "it could open the file of a member");
        let told = fleet.find("work-in").expect("a member").failure.expect("a failure");
        assert_eq!(told.code, HANGS);
        drop(looking);
        let inside = at("/hung/new", "work-in").source();
        assert_eq!(fleet.start(&inside).await, Ok(true), "the folder answers again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_member_waits_for_a_look_that_began_before_and_not_for_a_later_one() {
        let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
        let looking = fleet.look_into(Path::new("/data"));
        let begun = Instant::now();
        let coming = fleet.expect(at("/data/a", "work-a"), Origin::Configured).expect("taken in");
        let others = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _later = fleet.look_into(Path::new("/data"));
            drop(looking);
            tokio::time::sleep(Duration::from_secs(100)).await;
        };
        let arrived = async { coming.arrive().await.map(|()| begun.elapsed()) };
        let (arrived, ()) = tokio::join!(arrived, others);
        assert_eq!(arrived, Ok(Duration::from_secs(1)));
    }
}
