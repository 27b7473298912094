//! A thread for requests and work. The screen hands over what is wanted, and answers arrive when they do.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use seawall_agent::Opener;
use seawall_core::{Failure, Gauge, Kind, Panicked};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc::UnboundedSender, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::process::EVERY;
use super::{Source, plan, work};
use crate::edge::Edge;
use crate::runtime;
use crate::ui::model::{Effect, Entry, Told, Verb};

/// How often the progress of work is told.
const PACE: Duration = Duration::from_millis(250);

/// How long the thread may take to end.
const END: Duration = Duration::from_secs(2);

/// The thread, and what it does.
pub(in crate::ui) struct Desk {
    here: Arc<Here>,
    handle: Handle,
    refresh: Arc<Notify>,
    running: HashMap<u64, AbortHandle>,
    /// The thread ends when this is dropped, and tells so on the other.
    stop: Option<oneshot::Sender<()>>,
    ended: mpsc::Receiver<()>,
}

/// What requests need.
struct Here {
    source: Source,
    opener: Opener,
    edge: Edge,
    answers: UnboundedSender<Told>,
}

impl Desk {
    /// Starts the thread, which begins to ask for the databases.
    pub(in crate::ui) fn open(
        source: Source,
        opener: Opener,
        edge: Edge,
        answers: UnboundedSender<Told>,
    ) -> Result<Self, Failure> {
        let runtime = runtime::runtime(runtime::working())?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (ends, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("work".into());
        let spawned = thread.spawn(move || {
            let _stopped = runtime.block_on(stopped);
            // Files that work began are removed before the process ends.
            runtime::end(runtime);
            drop(ends);
        });
        spawned.map_err(|error| runtime::no_runtime(&error))?;
        let here = Arc::new(Here { source, opener, edge, answers });
        let refresh = Arc::new(Notify::new());
        handle.spawn(watch(Arc::clone(&here), Arc::clone(&refresh)));
        Ok(Self { here, handle, refresh, running: HashMap::new(), stop: Some(stop), ended })
    }

    /// Does something beside the screen, in the thread.
    pub(in crate::ui) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Begins what is wanted.
    pub(in crate::ui) fn take(&mut self, effect: Effect) {
        self.running.retain(|_, running| !running.is_finished());
        let here = Arc::clone(&self.here);
        match effect {
            Effect::Refresh => self.refresh.notify_one(),
            Effect::Timeline(id, entry) => self.begin(id, Told::Timeline, async move {
                match &here.source {
                    Source::Process(process) => process.timeline(&entry).await,
                    Source::Vault(prefix) => prefix.timeline(&entry, &here.opener).await,
                }
            }),
            Effect::Plan(id, wish, entry) => self.begin(id, Told::Preview, async move {
                plan::plan(&here.source, &wish, &entry, &here.opener, &here.edge).await
            }),
            Effect::Carry(id, verb, words, entry) => {
                self.begin(id, Told::Ended, async move { here.carry(id, verb, words, entry).await });
            }
            Effect::GiveUp(id) => {
                if let Some(running) = self.running.remove(&id) {
                    running.abort();
                }
            }
            Effect::Quit | Effect::Suspend | Effect::Redraw => {}
        }
    }

    fn begin<T: Send + 'static>(
        &mut self,
        id: u64,
        told: fn(u64, Result<T, Failure>) -> Told,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) {
        let (answers, handle) = (self.here.answers.clone(), self.handle.clone());
        let task = self.handle.spawn(async move {
            let inner = handle.spawn(work);
            let _given_up = GivenUp(inner.abort_handle());
            let answer = inner.await.unwrap_or_else(|error| Err(defect(&Panicked::from(error))));
            // Nobody listens once the screen is gone.
            let _sent = answers.send(told(id, answer));
        });
        self.running.insert(id, task.abort_handle());
    }
}

/// Ends a task when the one that waits for it ends.
struct GivenUp(AbortHandle);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
        drop(self.stop.take());
        // Work that hangs doesn't keep the process.
        let _late_or_ended = self.ended.recv_timeout(END);
    }
}

impl Here {
    async fn carry(&self, id: u64, verb: Verb, words: Vec<String>, entry: Entry) -> Result<Vec<String>, Failure> {
        if let (Verb::Ship, Source::Process(process)) = (verb, &self.source) {
            return process.ship(&entry).await.map(|said| vec![said]);
        }
        let gauge = Arc::new(Gauge::default());
        let telling = async {
            loop {
                sleep(PACE).await;
                let _sent = self.answers.send(Told::Underway(id, gauge.now()));
            }
        };
        tokio::select! {
            done = work::carry(verb, &words, &self.opener, &self.edge, gauge.clone()) => done,
            never = telling => never,
        }
    }
}

/// Asks for the databases: a process every second, a vault once and whenever a person asks.
async fn watch(here: Arc<Here>, refresh: Arc<Notify>) {
    loop {
        let databases = match &here.source {
            Source::Process(process) => process.databases().await,
            Source::Vault(prefix) => prefix.databases(&here.opener).await,
        };
        if here.answers.send(Told::Databases(databases)).is_err() {
            return;
        }
        match &here.source {
            Source::Process(_) => sleep(EVERY).await,
            Source::Vault(_) => refresh.notified().await,
        }
    }
}

fn defect(panicked: &Panicked) -> Failure {
    Failure::new(Kind::Internal, "command.internal", "seawall ui", panicked.to_string(), "report this: it is a defect")
}
