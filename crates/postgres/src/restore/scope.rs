//! How to restore, and what of a set: everything or some tables, now or when the database has its name.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use seawall_archive::load::Identity;
use seawall_archive::names::{ProofName, unfinished};

use crate::RestoreOptions;
use crate::quote::qualified;
use crate::restore::later::Later;
use crate::restore::set::Set;
use crate::schema::select::Selection;
use crate::schema::toc::Entry;

/// How to restore, and what of the set.
pub(crate) struct Scope<'a> {
    pub(crate) options: &'a RestoreOptions,
    /// The chosen tables; without, everything.
    pub(crate) chosen: Option<Selection>,
    /// Tables and sequences that have no place, because the server refused their extension.
    pub(crate) absent: OnceLock<BTreeSet<(String, String)>>,
    /// Whether what is bound to the database's name may wait for it.
    pub(crate) may_wait: bool,
    /// What waits, if anything.
    pub(crate) later: OnceLock<Later>,
    /// Whether this is what waited, and not all else.
    pub(crate) is_later: bool,
}

impl<'a> Scope<'a> {
    /// Everything of a set, or the chosen tables.
    pub(crate) fn new(options: &'a RestoreOptions, chosen: Option<Selection>) -> Self {
        let (absent, later) = (OnceLock::new(), OnceLock::new());
        Self { options, chosen, absent, may_wait: false, later, is_later: false }
    }

    /// The same, where the database is made under another name first.
    pub(crate) fn under_another_name(self, is_so: bool) -> Self {
        Self { may_wait: is_so, ..self }
    }

    /// What waits for the name.
    pub(super) fn waiting(&self) -> Self {
        let later = self.later.clone();
        Self { later, is_later: true, ..Self::new(self.options, self.chosen.clone()) }
    }

    /// Whether a relation's turn is now: before the database has its name, or then.
    pub(crate) fn is_now(&self, schema: &str, name: &str) -> bool {
        self.later.get().is_none_or(|later| later.has(schema, name) == self.is_later)
    }

    /// Whether a table or sequence has no place.
    pub(crate) fn is_absent(&self, schema: &str, name: &str) -> bool {
        let is_it = |(other, its): &(String, String)| (other.as_str(), its.as_str()) == (schema, name);
        self.absent.get().is_some_and(|absent| absent.iter().any(is_it))
    }

    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.later.get().is_none_or(|later| later.entries.contains(&entry.id) == self.is_later)
            && self.chosen.as_ref().is_none_or(|chosen| chosen.entries.contains(&entry.id))
    }

    pub(crate) fn has_table(&self, schema: &str, name: &str) -> bool {
        let name = (schema.to_owned(), name.to_owned());
        !self.is_absent(schema, &name.1)
            && self.is_now(schema, &name.1)
            && self.chosen.as_ref().is_none_or(|chosen| chosen.tables.contains(&name))
    }

    /// What a journal is called, so that nothing else goes on with it.
    pub(crate) fn title(&self, set: &Set) -> String {
        let name = |(schema, name): &(String, String)| qualified(schema, name);
        let identity = Identity {
            set: set.reader.manifest().id,
            database: set.database.as_deref(),
            data_only: self.options.data_only,
            owners: self.options.owners,
            tables: self.chosen.as_ref().map(|chosen| chosen.tables.iter().map(name).collect()),
        };
        identity.title()
    }

    /// What a database that is to be called `name` is called until it is all there: the same restore finds the same name
    /// again, and goes on in it.
    pub(crate) fn unfinished_name(&self, set: &Set, name: &str) -> String {
        if let Some(unfinished) = ProofName::unfinished(name) {
            return unfinished;
        }
        unfinished::name(&self.title(set), name)
    }
}
