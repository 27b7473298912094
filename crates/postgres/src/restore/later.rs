//! What waits until a restored database has its name? Pure.
//!
//! A new database is made under a name of its own and gets the wanted one when it is whole (I8). But the scripts of some
//! extensions refuse every database but the one that the server is set to by name, as pg_cron's does. So such an extension
//! waits, with everything that needs it: it is made when the database has its name, and the names are taken back if
//! that fails (`naming.rs`).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::load::routed::Named;
use crate::schema::allowed::with_dependents;
use crate::schema::toc::Entry;

/// What waits. It is noted in the journal, so that a resume makes no other decision.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Later {
    /// The extensions.
    pub(crate) extensions: Vec<String>,
    /// Entries of the schema: the extensions', and of what needs them.
    pub(crate) entries: BTreeSet<u32>,
    /// Tables, sequences and materialized views: those of the entries, and the extensions' own, which have no entry.
    pub(crate) relations: BTreeSet<Named>,
}

impl Later {
    /// What waits of `entries` with these extensions.
    pub(crate) fn of(entries: &[&Entry], extensions: &[&Entry]) -> Self {
        let there: BTreeSet<u32> = entries.iter().map(|entry| entry.id).collect();
        let schemas = entries.iter().filter(|entry| entry.kind == "SCHEMA").map(|entry| entry.tag.as_str());
        let schemas: BTreeSet<&str> = schemas.chain(["", "public"]).collect();
        // Grants on an extension's objects name nothing that is an entry; defaults may be for a schema that is none.
        let is_foreign = |entry: &&&Entry| match entry.kind.as_str() {
            "ACL" => !entry.needs.iter().any(|need| there.contains(need)),
            "DEFAULT ACL" => !schemas.contains(entry.schema.as_str()),
            _ => false,
        };
        let mut ids: BTreeSet<u32> = entries.iter().filter(is_foreign).map(|entry| entry.id).collect();
        for extension in extensions {
            ids.extend(with_dependents(entries, extension.id));
        }
        let is_relation = |entry: &&&Entry| {
            ids.contains(&entry.id) && matches!(entry.kind.as_str(), "TABLE" | "SEQUENCE" | "MATERIALIZED VIEW")
        };
        let relations = entries.iter().filter(is_relation).map(|entry| (entry.schema.clone(), entry.tag.clone()));
        Self {
            extensions: extensions.iter().map(|entry| entry.tag.clone()).collect(),
            relations: relations.collect(),
            entries: ids,
        }
    }

    /// Whether a relation waits.
    pub(crate) fn has(&self, schema: &str, name: &str) -> bool {
        self.relations.iter().any(|(its, known)| (its.as_str(), known.as_str()) == (schema, name))
    }
}

/// Whether an extension was perhaps refused for the name of its database: by its own script, which raised an error.
/// A library that isn't loaded, or a right that the role hasn't, gives other errors.
pub(crate) fn may_be_the_name(error: &Error) -> bool {
    error.sqlstate() == Some("P0001")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn entry(id: u32, kind: &str, schema: &str, tag: &str, needs: &[u32]) -> Entry {
        Entry {
            id,
            kind: kind.into(),
            tag: tag.into(),
            statement: String::new(),
            schema: schema.into(),
            tablespace: String::new(),
            owner: "app".into(),
            section: Section::Before,
            needs: needs.to_vec(),
        }
    }

    #[test]
    fn what_needs_an_extension_waits_with_it_and_so_do_grants_on_its_objects() {
        let entries = [
            entry(1, "EXTENSION", "", "pg_cron", &[]),
            entry(2, "COMMENT", "", "EXTENSION pg_cron", &[1]),
            entry(3, "EXTENSION", "", "hstore", &[]),
            entry(4, "VIEW", "public", "jobs", &[1]),
            entry(5, "TABLE", "public", "of_jobs", &[4]),
            entry(6, "INDEX", "public", "of_jobs_i", &[5]),
            entry(7, "ACL", "", "SCHEMA cron", &[4711]),
            entry(8, "ACL", "public", "TABLE of_jobs", &[5]),
            entry(9, "TABLE", "public", "t", &[]),
            entry(10, "ACL", "public", "TABLE t", &[9]),
            entry(11, "DEFAULT ACL", "cron", "DEFAULT PRIVILEGES FOR TABLES", &[]),
            entry(12, "DEFAULT ACL", "public", "DEFAULT PRIVILEGES FOR TABLES", &[]),
            entry(13, "MATERIALIZED VIEW", "public", "mv", &[4]),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        let later = Later::of(&entries, &entries[..1]);
        assert_eq!(later.extensions, ["pg_cron"]);
        assert_eq!(later.entries, [1, 2, 4, 5, 6, 7, 8, 11, 13].into());
        assert!(later.has("public", "of_jobs") && later.has("public", "mv"), "{later:?}");
        assert!(!later.has("public", "t") && !later.has("public", "jobs"), "{later:?}");
    }

    #[test]
    fn what_may_be_about_the_name() {
        for (code, is_so) in [("P0001", true), ("42501", false), ("55000", false), ("42704", false), ("58P01", false)] {
            let error = crate::ServerError { code: code.into(), message: "no".into(), detail: None, hint: None };
            assert_eq!(may_be_the_name(&Error::Server { object: "o".into(), error }), is_so, "{code}");
        }
    }
}
