//! What of a set is restored: everything, or some tables. Pure.

use std::collections::BTreeSet;

use seawall_archive::load::Identity;
use seawall_archive::names::{ProofName, unfinished};

use crate::client::quote::name;
use crate::set::Set;
use crate::set::definers::Definers;
use crate::{Error, RestoreOptions};

/// How to restore, and what of the set.
#[derive(Debug, Clone)]
pub(crate) struct Scope<'a> {
    pub(crate) options: &'a RestoreOptions,
    /// What becomes of definers.
    pub(crate) definers: Definers,
    /// The chosen tables and sequences; without, everything.
    pub(crate) chosen: Option<BTreeSet<String>>,
}

impl<'a> Scope<'a> {
    /// Everything, or what the options name.
    pub(crate) fn new(options: &'a RestoreOptions, set: &Set) -> Result<Self, Error> {
        let names = set.schema.tables.iter().map(|table| &table.name);
        let names: Vec<&String> = names.chain(set.schema.sequences.iter().map(|sequence| &sequence.name)).collect();
        let chosen = match options.tables.as_slice() {
            [] => None,
            wanted => Some(choose(wanted, &set.detail.name, &names)?),
        };
        let definers = Definers::parse(&options.definers, options.owners)?;
        Ok(Self { options, definers, chosen })
    }

    /// Whether all of the database is restored.
    pub(crate) fn is_whole(&self) -> bool {
        self.chosen.is_none() && !self.options.data_only
    }

    /// Whether a table or sequence is restored.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.contains(table))
    }

    /// What a journal is called, so that nothing else goes on with it.
    pub(crate) fn title(&self, set: &Set) -> String {
        let identity = Identity {
            set: set.reader.manifest().id,
            database: set.database.as_deref(),
            data_only: self.options.data_only,
            owners: self.options.owners,
            tables: self.chosen.as_ref().map(|chosen| chosen.iter().map(|table| name(table)).collect()),
        };
        format!("{}{}", identity.title(), self.definers.title(self.options.owners))
    }

    /// What the database is called in which everything is made that gets into the database `target` in the end: the same restore
    /// finds the same name again, and goes on in it.
    pub(crate) fn unfinished_name(&self, set: &Set, target: &str) -> String {
        ProofName::unfinished(target).unwrap_or_else(|| unfinished::name(&self.title(set), target))
    }
}

/// The tables of a database that are meant, by their names or by the database's and theirs.
fn choose(wanted: &[String], database: &str, names: &[&String]) -> Result<BTreeSet<String>, Error> {
    let mut chosen = BTreeSet::new();
    for word in wanted {
        let within = word.strip_prefix(database).and_then(|rest| rest.strip_prefix('.'));
        // A name may have dots.
        let found =
            [Some(word.as_str()), within].into_iter().flatten().find(|name| names.iter().any(|there| there == name));
        let Some(found) = found else {
            return Err(Error::Refused {
                code: "mysql.no-table",
                object: word.clone(),
                cause: "the set has no table of this name".to_owned(),
                next: "names are compared letter by letter, and a database may stand before them: shop.orders"
                    .to_owned(),
            });
        };
        chosen.insert(found.to_owned());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_alone_or_with_their_database() {
        let names: Vec<String> = ["orders", "shop.orders", "a.b"].map(str::to_owned).into();
        let names: Vec<&String> = names.iter().collect();
        let of = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|word| (*word).to_owned()).collect();
            choose(&wanted, "shop", &names).ok().map(|chosen| chosen.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(of(&["orders", "shop.a.b"]), Some(vec!["a.b".to_owned(), "orders".to_owned()]));
        assert_eq!(of(&["shop.orders"]), Some(vec!["shop.orders".to_owned()]));
        assert_eq!((of(&["Orders"]), of(&["other.orders"]), of(&["shop."])), (None, None, None));
    }
}
