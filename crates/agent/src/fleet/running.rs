//! The tasks of members: starting and stopping one, and running all until the process ends.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use seawall_core::{Failure, Point};
use seawall_engines::ask;
use tokio::sync::watch;

use super::entries::State;
use super::{Fleet, Member, starting, stopping, unknown};
use crate::config::SourceName;
use crate::process::{self, Outcome};

/// How long an engine may take to end at once.
const AT_ONCE: Duration = Duration::from_secs(5);

impl Fleet {
    /// Starts every member that isn't running and has an engine.
    pub(crate) fn start_all(&self) {
        let sources: Vec<SourceName> = self.entries().by_source.keys().cloned().collect();
        for source in sources {
            // A member without an engine keeps its failure; the others start.
            let _without_engine = self.spawn(&source);
        }
    }

    /// Starts a member again; answers whether it wasn't running. A member that could not be opened or restored is
    /// opened and restored first.
    pub(crate) async fn start(&self, source: &SourceName) -> Result<bool, Failure> {
        self.check_lasting(&source.to_string())?;
        let unopened = match self.entries().by_source.get(source) {
            None => return Err(unknown(&source.to_string())),
            Some(entry) if entry.is_coming() => return Err(starting(&entry.member.config.name)),
            Some(entry) => entry.member.engine.is_err().then(|| entry.member.clone()),
        };
        if let Some(mut member) = unopened {
            self.0.looks.end_before(&member.config).await?;
            member.engine = Ok(self.0.databases.lasting(&member.config).await?);
            if member.config.restore_if_missing {
                self.restore_again(source, &mut member).await?;
            }
            // Another request may have been faster.
            if let Some(entry) = self.entries().by_source.get_mut(source).filter(|entry| entry.member.engine.is_err()) {
                entry.member.engine = member.engine;
            }
        }
        self.spawn(source)
    }

    /// Runs a member in a task of its own; answers whether it wasn't running.
    pub(super) fn spawn(&self, source: &SourceName) -> Result<bool, Failure> {
        let mut entries = self.entries();
        let entry = entries.by_source.get_mut(source).ok_or_else(|| unknown(&source.to_string()))?;
        match &entry.state {
            State::Running { .. } => return Ok(false),
            State::Coming(_) => return Err(starting(&entry.member.config.name)),
            State::Stopped | State::Ended(_) => {}
        }
        let engine = entry.member.engine.clone()?;
        let shutdown = self.0.shutdown.child();
        let (tell, done) = watch::channel(false);
        let (fleet, source, asked) = (self.clone(), source.clone(), shutdown.clone());
        let task = tokio::spawn(async move {
            let run = AssertUnwindSafe(async { ask::protection(&*engine)?.run(&asked).await }).catch_unwind().await;
            let result = run.unwrap_or_else(|_| Err(process::defect(&engine.describe().name)));
            if let Err(failure) = &result {
                process::log_failure(&engine.describe().name, failure);
            }
            fleet.finish(&source, result, asked.requested());
            tell.send_replace(true);
            fleet.0.ended.notify_waiters();
        });
        entry.state = State::Running { shutdown, done, task: task.abort_handle() };
        entries.running += 1;
        Ok(true)
    }

    /// Refuses to begin anything in a process that is ending.
    pub(super) fn check_lasting(&self, name: &str) -> Result<(), Failure> {
        if self.0.shutdown.requested() { Err(stopping(name)) } else { Ok(()) }
    }

    fn finish(&self, source: &SourceName, result: Result<(), Failure>, asked: bool) {
        let mut entries = self.entries();
        // Two requests that give up waiting for one task at the same instant both come here.
        if let Some(entry) = entries.by_source.get_mut(source).filter(|entry| entry.is_running()) {
            entry.state = if asked && result.is_ok() { State::Stopped } else { State::Ended(result) };
            entries.running = entries.running.saturating_sub(1);
        }
    }

    /// Stops a member, and ships what is committed within a time; answers whether it was running.
    pub(crate) async fn stop(&self, source: &SourceName, within: Duration) -> Result<bool, Failure> {
        let (name, state) = match self.entries().by_source.get(source) {
            None => return Err(unknown(&source.to_string())),
            Some(entry) => (entry.member.config.name.clone(), entry.state.clone()),
        };
        let (shutdown, mut done, task) = match state {
            State::Running { shutdown, done, task } => (shutdown, done, task),
            State::Coming(_) => return Err(starting(&name)),
            State::Stopped | State::Ended(_) => return Ok(false),
        };
        shutdown.begin();
        if tokio::time::timeout(within, done.wait_for(|done| *done)).await.is_ok() {
            return match self.entries().by_source.get(source).map(|entry| entry.state.clone()) {
                Some(State::Ended(Err(failure))) => Err(failure),
                _ => Ok(true),
            };
        }
        shutdown.abort();
        let ended = tokio::time::timeout(AT_ONCE, done.wait_for(|done| *done)).await.is_ok();
        if !ended {
            task.abort();
            self.finish(source, Err(process::timed_out(&name)), true);
        }
        Err(process::timed_out(&name))
    }

    /// Waits until the process's shutdown, and at most `bound` after the shutdown was requested. Returns the outcome of
    /// each member. A fleet that isn't `lasting` ends by itself once every protection has ended.
    pub(crate) async fn run(&self, bound: Duration, lasting: bool) -> Vec<Outcome<Option<Point>>> {
        self.live(bound, lasting);
        let shutdown = &self.0.shutdown;
        let out_of_time = async {
            shutdown.graceful().await;
            tokio::time::sleep(self.bound()).await;
        };
        tokio::pin!(out_of_time);
        let left_over = loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.entries().running == 0 && (shutdown.requested() || !self.is_lasting()) {
                break process::interrupted as fn(&str) -> Failure;
            }
            tokio::select! {
                biased;
                () = shutdown.immediate() => break process::interrupted,
                () = &mut ended => {}
                () = shutdown.graceful(), if !shutdown.requested() => {}
                () = &mut out_of_time => break process::timed_out,
            }
        };
        self.outcomes(left_over).await
    }

    async fn outcomes(&self, left_over: fn(&str) -> Failure) -> Vec<Outcome<Option<Point>>> {
        let mut entries: Vec<(Member, State, u64)> = {
            let entries = self.entries();
            entries.by_source.values().map(|entry| (entry.member.clone(), entry.state.clone(), entry.order)).collect()
        };
        entries.sort_by_key(|(_, _, order)| *order);
        let mut outcomes = Vec::with_capacity(entries.len());
        for (member, state, _) in entries {
            let name = member.config.name;
            let result = match (member.engine, state) {
                (_, State::Coming(_)) => Err(left_over(&name)),
                (Err(failure), _) | (_, State::Ended(Err(failure))) => Err(failure),
                (_, State::Running { task, .. }) => {
                    task.abort();
                    Err(left_over(&name))
                }
                (Ok(engine), _) => Ok(engine.status().await.ok().and_then(|status| status.protected)),
            };
            outcomes.push(Outcome { name, result });
        }
        outcomes
    }
}
