//! What is told of views, routines, triggers and events without a server. Pure.

use std::collections::BTreeSet;

use super::{StoredKind, StoredObject};

/// The word of the language for a kind.
pub(crate) fn word(kind: StoredKind) -> &'static str {
    match kind {
        StoredKind::Package => "PACKAGE",
        StoredKind::PackageBody => "PACKAGE BODY",
        StoredKind::Function => "FUNCTION",
        StoredKind::Procedure => "PROCEDURE",
        StoredKind::View => "VIEW",
        StoredKind::Trigger => "TRIGGER",
        StoredKind::Event => "EVENT",
    }
}

/// An object for people.
pub(crate) fn shown(object: &StoredObject, database: &str) -> String {
    format!("{} {database}.{}", word(object.kind).to_lowercase(), object.name)
}

/// The accounts that objects name as their definers.
pub(crate) fn definers<'a>(objects: impl Iterator<Item = &'a StoredObject>) -> BTreeSet<&'a str> {
    objects.map(|object| object.definer.as_str()).filter(|definer| !definer.is_empty()).collect()
}
