//! The followers of a process. A reload starts and ends them, and makes them look again.

use std::time::Duration;

use seawall_core::{Failure, Shutdown};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Events, Follower};
use crate::config::DirectoryConfig;
use crate::fleet::{Fleet, hangs};

/// How long a follower may take to end: it may be letting a database go that disappeared.
const ENDING: Duration = Duration::from_secs(30);

/// How long a folder may take to answer a reload. A look that takes longer goes on.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database that a follower took into the fleet, and why it isn't protected if it isn't.
pub(crate) type Taken = (String, Result<(), Failure>);

/// A request to look everywhere and to take in what isn't a member. The answer is what was taken in.
pub(super) type Ask = oneshot::Sender<Vec<Taken>>;

/// Where requests arrive, if any can.
pub(super) type Asks = Option<mpsc::Receiver<Ask>>;

/// The next request; none comes where none can arrive.
pub(super) async fn asked(asks: &mut Asks) -> Ask {
    if let Some(receiver) = asks {
        if let Some(ask) = receiver.recv().await {
            return ask;
        }
        *asks = None;
    }
    std::future::pending().await
}

impl Follower {
    /// Looks at all of the folder while the fleet lives, and takes in the databases that aren't members. If the folder
    /// is watched, no change is missed from here on.
    pub(crate) async fn enter(&mut self, fleet: &Fleet) -> Vec<Taken> {
        if self.config.watch {
            self.events = Events::open();
        }
        self.look_around(fleet, None).await;
        self.offer(fleet).await
    }

    /// Takes in what was found and isn't a member, such as a file that had an item of its own until now.
    pub(super) async fn offer(&mut self, fleet: &Fleet) -> Vec<Taken> {
        let mut taken = Vec::new();
        for relative in self.found.keys() {
            let config = match self.of(relative) {
                Ok(config) => config,
                Err(failure) => {
                    self.unprotected.insert(relative.clone(), failure);
                    continue;
                }
            };
            if fleet.holds(&config.source()) {
                continue;
            }
            let name = config.name.clone();
            let result = fleet.find_new(config).await;
            if let Err(failure) = &result {
                tracing::error!(database = name, code = failure.code, next = failure.next, "found: {failure}");
                self.unprotected.insert(relative.clone(), failure.clone());
            }
            taken.push((name, result));
        }
        self.tell(fleet);
        taken
    }
}

/// A follower in its task.
struct Running {
    config: DirectoryConfig,
    shutdown: Shutdown,
    asks: mpsc::Sender<Ask>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(mut follower: Follower, fleet: &Fleet, whole: &Shutdown) -> Self {
        let (asks, receiver) = mpsc::channel(1);
        follower.asks = Some(receiver);
        let (config, shutdown) = ((*follower.config).clone(), whole.child());
        let task = tokio::spawn(follower.follow(fleet.clone(), shutdown.clone()));
        Self { config, shutdown, asks, task }
    }

    /// The same for a folder that is new to a running process. The receiver gets what was taken in.
    fn enter(mut follower: Follower, fleet: &Fleet, whole: &Shutdown) -> (Self, oneshot::Receiver<Vec<Taken>>) {
        let ((asks, receiver), (tell, told)) = (mpsc::channel(1), oneshot::channel());
        follower.asks = Some(receiver);
        let (config, shutdown) = ((*follower.config).clone(), whole.child());
        let (fleet, stop) = (fleet.clone(), shutdown.clone());
        let task = tokio::spawn(async move {
            let taken = tokio::select! {
                () = stop.graceful() => return,
                taken = follower.enter(&fleet) => taken,
            };
            // The asker may have given up waiting.
            let _told = tell.send(taken);
            if follower.config.watch {
                follower.follow(fleet, stop).await;
            }
        });
        (Self { config, shutdown, asks, task }, told)
    }

    /// Ends between two looks. A look that is under way is finished first.
    async fn end(mut self) {
        self.shutdown.begin();
        if tokio::time::timeout(ENDING, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }

    async fn look_again(&self) -> Vec<Taken> {
        let (ask, answer) = oneshot::channel();
        match self.asks.send(ask).await {
            Ok(()) => answer.await.unwrap_or_default(),
            // It has ended, because the process ends.
            Err(_) => Vec::new(),
        }
    }
}

/// All followers of a process.
pub(crate) struct Followers {
    running: Vec<Running>,
    fleet: Fleet,
    shutdown: Shutdown,
    sweep: Duration,
}

impl Followers {
    /// Lets `followers` follow their folders until `shutdown`; later ones look at everything once in each `sweep`.
    pub(crate) fn start(followers: Vec<Follower>, fleet: &Fleet, shutdown: &Shutdown, sweep: Duration) -> Self {
        let running = followers.into_iter().map(|follower| Running::start(follower, fleet, shutdown)).collect();
        Self { running, fleet: fleet.clone(), shutdown: shutdown.clone(), sweep }
    }

    /// Ends the followers whose folders aren't among `directories` with the same settings.
    pub(crate) async fn keep(&mut self, directories: &[DirectoryConfig]) {
        let stays = |one: &Running| directories.iter().any(|folder| folder.is_like(&one.config));
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.running).into_iter().partition(stays);
        self.running = kept;
        for follower in gone {
            follower.end().await;
        }
    }

    /// Looks into all `directories`, and follows the new ones. Returns the databases that were taken in.
    pub(crate) async fn enter(&mut self, directories: &[DirectoryConfig]) -> Vec<Taken> {
        let mut taken = Vec::new();
        for folder in directories {
            let known = self.running.iter().position(|one| one.config.is_like(folder));
            let answer = match known.and_then(|nth| self.running.get(nth)) {
                Some(known) => tokio::time::timeout(PATIENCE, known.look_again()).await,
                None => {
                    let follower = Follower::new(folder.clone(), self.sweep);
                    let (running, told) = Running::enter(follower, &self.fleet, &self.shutdown);
                    if folder.watch {
                        self.running.push(running);
                    }
                    tokio::time::timeout(PATIENCE, async { told.await.unwrap_or_default() }).await
                }
            };
            match answer {
                Ok(found) => taken.extend(found),
                Err(_) => taken.push((folder.dir.display().to_string(), Err(hangs(&folder.dir)))),
            }
        }
        taken
    }

    /// Ends all of them, at once.
    pub(crate) async fn end(self) {
        for one in self.running {
            one.task.abort();
            let _ended = one.task.await;
        }
    }
}
