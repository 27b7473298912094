//! What does a new configuration change? A pure function over the databases that a process has and those that it is to
//! have.
//!
//! The result is what a restart would have led to. Only the line in the file, and who named a database, may differ
//! without a change.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use seawall_core::Failure;

use crate::config::{DatabaseConfig, DirectoryConfig, SourceName};
use crate::fleet::{self, Origin};

/// A database that the process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) config: DatabaseConfig,
    pub(crate) origin: Origin,
}

/// What the process is to have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The databases that the configuration names.
    pub(crate) configured: &'a [DatabaseConfig],
    /// The databases that were registered over the control socket, with the settings that they get now.
    pub(crate) registered: &'a [DatabaseConfig],
    /// The folders of databases.
    pub(crate) directories: &'a [DirectoryConfig],
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Databases that the process doesn't have yet.
    pub(crate) added: Vec<Held>,
    /// Databases that nothing names any more.
    pub(crate) removed: Vec<DatabaseConfig>,
    /// Databases with other settings than before.
    pub(crate) changed: Vec<Held>,
    /// Databases that aren't touched.
    pub(crate) same: Vec<Held>,
}

/// Compares what the process has with what it is to have.
///
/// | the process has the source | it is to have it | it is |
/// |---|---|---|
/// | no | yes | added |
/// | yes | with the same settings | the same |
/// | yes | with other settings | changed |
/// | yes | no | removed |
///
/// A named database counts before a registered one, and a registered one before one of a folder. A folder's
/// new files aren't known here: the follower of the folder finds them.
pub(crate) fn changes(held: &[Held], wanted: &Wanted<'_>) -> Changes {
    let listed = wanted.configured.iter().map(|config| (config, Origin::Configured));
    let listed = listed.chain(wanted.registered.iter().map(|config| (config, Origin::Registered)));
    let (mut named, mut order) = (HashMap::new(), Vec::new());
    for (config, origin) in listed {
        let source = config.source();
        named.entry(source.clone()).or_insert_with(|| {
            order.push(source);
            Held { config: config.clone(), origin }
        });
    }
    let mut changes = Changes::default();
    for before in held {
        let source = before.config.source();
        let found = || (before.origin == Origin::Found).then(|| in_folders(&source, wanted.directories)).flatten();
        match named.remove(&source).or_else(found) {
            None => changes.removed.push(before.config.clone()),
            Some(now) if now.config.is_like(&before.config) => changes.same.push(now),
            Some(now) => changes.changed.push(now),
        }
    }
    changes.added = order.iter().filter_map(|source| named.remove(source)).collect();
    changes
}

/// The database of the first folder that holds a file.
fn in_folders(source: &SourceName, directories: &[DirectoryConfig]) -> Option<Held> {
    let path = source.path()?;
    let of = |folder: &DirectoryConfig| {
        let relative = path.strip_prefix(&folder.dir).ok()?;
        relative.to_str().filter(|text| folder.holds(text))?;
        folder.database(Path::new(relative)).ok()
    };
    directories.iter().find_map(of).map(|config| Held { config, origin: Origin::Found })
}

impl Changes {
    /// Whether no database is touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Two databases that would share a name or a place. A registration that couldn't be kept before doesn't count: it
    /// is refused when it comes, and refuses nothing else.
    pub(crate) fn clash(&self) -> Option<Failure> {
        let mut taken: BTreeMap<(&str, String), &DatabaseConfig> = BTreeMap::new();
        let firmly = self.added.iter().filter(|new| new.origin == Origin::Configured);
        for Held { config, .. } in self.same.iter().chain(&self.changed).chain(firmly) {
            for claim in [("the name", config.name.clone()), ("the place in a vault", config.place())] {
                let what = claim.0;
                if let Some(first) = taken.insert(claim, config) {
                    return Some(fleet::duplicate(what, &first.name, &config.source()));
                }
            }
        }
        None
    }

    /// The changed databases that can be exchanged one by one, and those that must all be gone before the first comes
    /// back, because one gets another's former name or place.
    pub(crate) fn split(&self, held: &[Held]) -> (Vec<Held>, Vec<Held>) {
        let names: HashMap<&str, SourceName> =
            held.iter().map(|one| (one.config.name.as_str(), one.config.source())).collect();
        let places: HashMap<String, SourceName> =
            held.iter().map(|one| (one.config.place(), one.config.source())).collect();
        let is_free = |holder: Option<&SourceName>, own: &SourceName| holder.is_none_or(|holder| holder == own);
        let alone = |one: &&Held| {
            let own = one.config.source();
            is_free(names.get(one.config.name.as_str()), &own) && is_free(places.get(&one.config.place()), &own)
        };
        let (alone, together): (Vec<_>, Vec<_>) = self.changed.iter().partition(alone);
        (alone.into_iter().cloned().collect(), together.into_iter().cloned().collect())
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
