//! The members of a fleet by their sources, each with its state.

use std::collections::{BTreeMap, HashMap};

use seawall_core::{Failure, Shutdown};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{Member, Seen, duplicate};
use crate::config::{DatabaseConfig, SourceName};

/// The state of a member.
#[derive(Debug, Clone)]
pub(super) enum State {
    /// A task runs it.
    Running { shutdown: Shutdown, done: watch::Receiver<bool>, task: AbortHandle },
    /// It isn't running: it has not started yet, or was stopped.
    Stopped,
    /// Its protection ended by itself.
    Ended(Result<(), Failure>),
    /// It is being opened, or restored because its file is missing. Beginning this shutdown gives it up.
    Coming(Shutdown),
}

pub(super) struct Entry {
    pub(super) order: u64,
    pub(super) member: Member,
    pub(super) state: State,
}

#[derive(Default)]
pub(super) struct Entries {
    pub(super) by_source: BTreeMap<SourceName, Entry>,
    /// The names and places that are taken. Thousands of databases may come, and each is compared with all.
    pub(super) names: HashMap<String, SourceName>,
    pub(super) places: HashMap<String, SourceName>,
    pub(super) next: u64,
    pub(super) running: usize,
}

impl Entries {
    pub(super) fn put(&mut self, source: &SourceName, entry: Entry) {
        self.names.insert(entry.member.config.name.clone(), source.clone());
        self.places.insert(entry.member.config.place(), source.clone());
        self.by_source.insert(source.clone(), entry);
    }

    pub(super) fn forget(&mut self, source: &SourceName) -> Option<Entry> {
        let entry = self.by_source.remove(source)?;
        self.names.remove(&entry.member.config.name);
        self.places.remove(&entry.member.config.place());
        Some(entry)
    }
}

impl Entry {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    pub(super) fn is_coming(&self) -> bool {
        matches!(self.state, State::Coming(_))
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            config: self.member.config.clone(),
            origin: self.member.origin,
            engine: self.member.engine.as_ref().ok().cloned(),
            running: self.is_running(),
            coming: self.is_coming(),
            failure: match (&self.member.engine, &self.state) {
                (_, State::Coming(_)) => None,
                (Err(failure), _) | (_, State::Ended(Err(failure))) => Some(failure.clone()),
                _ => None,
            },
        }
    }
}

/// The failure of a new database that has the file, the name or the place of a member.
pub(super) fn clash(entries: &Entries, new: &DatabaseConfig) -> Option<Failure> {
    let source = new.source();
    let file = entries.by_source.get_key_value(&source).map(|(source, _)| ("the file", source));
    let name = entries.names.get(&new.name).map(|source| ("the name", source));
    let place = || entries.places.get(&new.place()).map(|source| ("the place in a vault", source));
    file.or(name).or_else(place).map(|(what, taken)| {
        duplicate(what, entries.by_source.get(taken).map_or("", |entry| &entry.member.config.name), &source)
    })
}
