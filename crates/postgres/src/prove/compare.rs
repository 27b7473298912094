//! Is what was restored what the set says? Objects by the statements that make them; sequences, large objects and the
//! properties of the database as they are. Rows are compared by `seawall_archive::compare`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::compare::{self, Difference, Name};
use seawall_core::Finding;

use crate::catalog::records::After;
use crate::names::NAMES;
use crate::schema::toc::Entry;
use crate::{Grant, Properties};

/// What pages of large objects are called, which are in no schema.
pub(crate) const LARGE_OBJECTS: &str = "large objects";

/// A finding.
pub(crate) fn different(object: impl Into<String>, cause: impl Into<String>, findings: &mut Vec<Finding>) {
    tell([Difference::new(object, cause)], findings);
}

/// Differences as findings.
pub(crate) fn tell(differences: impl IntoIterator<Item = Difference>, findings: &mut Vec<Finding>) {
    findings.extend(differences.into_iter().map(|one| one.finding(NAMES.different)));
}

/// Whether an entry is of an object in the database: not a setting of `pg_dump`'s session, nor the database itself, which
/// has another name, and whose properties are compared by themselves.
pub(crate) fn is_object(entry: &Entry) -> bool {
    let session = ["ENCODING", "STDSTRINGS", "SEARCHPATH", "DATABASE", "DATABASE PROPERTIES"];
    !session.contains(&entry.kind.as_str()) && !entry.tag.starts_with("DATABASE ")
}

/// An object, as entries name it: its kind, its schema and its name there.
type Object<'a> = (&'a str, &'a str, &'a str);

/// Objects that differ between two schemas, and how often more the first has them: in kind, schema, name and owner and, if
/// `same_words`, in the statement that makes them.
fn balance<'a>(expected: &'a [Entry], found: &'a [Entry], same_words: bool) -> Vec<(Object<'a>, i64)> {
    let key = |entry: &'a Entry| {
        let statement = if same_words { entry.statement.as_str() } else { "" };
        ((entry.kind.as_str(), entry.schema.as_str(), entry.tag.as_str()), entry.owner.as_str(), statement)
    };
    let mut balance: BTreeMap<_, i64> = BTreeMap::new();
    expected.iter().filter(|entry| is_object(entry)).for_each(|entry| *balance.entry(key(entry)).or_default() += 1);
    found.iter().filter(|entry| is_object(entry)).for_each(|entry| *balance.entry(key(entry)).or_default() -= 1);
    let differing = balance.into_iter().filter(|(_, count)| *count != 0);
    differing.map(|((object, ..), count)| (object, count)).collect()
}

/// Whether all that differs between two schemas are words of statements, so that a control says whether they matter.
pub(crate) fn words_differ(expected: &[Entry], found: &[Entry]) -> bool {
    !balance(expected, found, true).is_empty()
}

/// Compares schemas object by object, and by the statements that make them where the same version wrote both.
///
/// PostgreSQL doesn't always say the same of an object that was made by its own words: a column of a query gets a name, say,
/// and a child's columns another order. So there may be a `control`: what PostgreSQL's own way makes of the same dump. An
/// object whose words alone differ is as it should be where the control has the same words.
pub(crate) fn compare_schemas(
    expected: &[Entry],
    found: &[Entry],
    same_words: bool,
    control: Option<&[Entry]>,
    findings: &mut Vec<Finding>,
) {
    let others: BTreeSet<Object<'_>> = balance(expected, found, false).into_iter().map(|(object, _)| object).collect();
    let other_words =
        control.map(|control| balance(control, found, true).into_iter().map(|(object, _)| object).collect());
    let other_words: Option<BTreeSet<Object<'_>>> = other_words;
    for (object, count) in balance(expected, found, same_words) {
        let is_as_the_control = other_words.as_ref().is_some_and(|others| !others.contains(&object));
        if is_as_the_control && !others.contains(&object) {
            continue;
        }
        let (kind, schema, tag) = object;
        let dot = if schema.is_empty() { "" } else { "." };
        let name = format!("{} {schema}{dot}{tag}", kind.to_lowercase());
        let cause = if count > 0 { "it is not as in the set, or missing" } else { "the set doesn't have it so" };
        different(name, cause, findings);
    }
}

/// The position of a sequence: its last value, and whether that was drawn.
pub(crate) fn position(&(last, called): &(i64, bool)) -> String {
    if called { last.to_string() } else { format!("{last}, which comes next") }
}

/// Compares sequences, large objects and properties.
pub(crate) fn compare_after(expected: &After, found: &After, findings: &mut Vec<Finding>) {
    let sequences = |after: &After| -> BTreeMap<Name, (i64, bool)> {
        let one = |s: &crate::Sequence| ((s.schema.clone(), s.name.clone()), (s.last, s.called));
        after.sequences.iter().map(one).collect()
    };
    tell(compare::sequences(&sequences(expected), &sequences(found), "set", position), findings);
    let views = |after: &After| {
        let mut names: Vec<_> = after.refresh.iter().map(|view| (view.schema.clone(), view.name.clone())).collect();
        names.sort();
        names
    };
    if views(expected) != views(found) {
        different("materialized views", "others than those of the set are filled", findings);
    }
    let objects: BTreeMap<u32, _> = found.large_objects.iter().map(|object| (object.oid, object)).collect();
    for object in &expected.large_objects {
        if objects.get(&object.oid) != Some(&object) {
            different(format!("large object {}", object.oid), "it is not as in the set, or missing", findings);
        }
    }
    if objects.len() != expected.large_objects.len() {
        let counts = format!("there are {}, and {} in the set", objects.len(), expected.large_objects.len());
        different(LARGE_OBJECTS, counts, findings);
    }
    if in_order(&expected.properties) != in_order(&found.properties) {
        different("the database's own properties", "they are not those of the set", findings);
    }
}

/// The grants that a database has to which nothing was ever granted.
fn of_a_new_one(owner: &str) -> Vec<Grant> {
    let grant = |grantee: &str, privilege: &str| Grant {
        grantee: grantee.to_owned(),
        privilege: privilege.to_owned(),
        ..Grant::default()
    };
    let mut all: Vec<Grant> = ["CREATE", "CONNECT", "TEMPORARY"].map(|privilege| grant(owner, privilege)).into();
    all.extend(["CONNECT", "TEMPORARY"].map(|privilege| grant("", privilege)));
    all.sort();
    all
}

/// Properties with their lists sorted: the order in which they were granted and set isn't known.
pub(crate) fn in_order(properties: &Properties) -> Properties {
    let mut properties = properties.clone();
    properties.settings.sort();
    if let Some(grants) = &mut properties.grants {
        grants.sort();
    }
    // What a new database has is the same said or unsaid.
    properties.grants = properties.grants.take().filter(|grants| *grants != of_a_new_one(&properties.owner));
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn objects(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.object.as_str()).collect()
    }

    #[test]
    fn every_object_that_is_missing_or_different_is_named() {
        let entry = |kind: &str, tag: &str, statement: &str| Entry {
            id: 0,
            kind: kind.into(),
            tag: tag.into(),
            statement: statement.into(),
            schema: "public".into(),
            tablespace: String::new(),
            owner: "app".into(),
            section: Section::After,
            needs: Vec::new(),
        };
        let expected = [entry("INDEX", "a", "1"), entry("INDEX", "b", "1"), entry("TRIGGER", "t", "1")];
        let found = [entry("INDEX", "b", "2"), entry("INDEX", "a", "1")];
        let (b, t) = ("index public.b", "trigger public.t");
        for (same_words, control, named) in [
            (true, None, vec![b, b, t]),
            (false, None, vec![t]),
            (true, Some(&expected[..]), vec![b, b, t]),
            (true, Some(&found[..]), vec![t]),
            (true, Some(&[][..]), vec![b, b, t]),
        ] {
            let mut findings = Vec::new();
            compare_schemas(&expected, &found, same_words, control, &mut findings);
            assert_eq!(objects(&findings), named);
        }
        // Only casts differ, as in the control.
        let found = [entry("INDEX", "b", "(1)::bigint"), entry("INDEX", "a", "1"), entry("TRIGGER", "t", "1")];
        for (control, named) in [(&found[..], vec![]), (&expected[..], vec![b, b])] {
            let mut findings = Vec::new();
            compare_schemas(&expected, &found, true, Some(control), &mut findings);
            assert_eq!(objects(&findings), named);
        }
    }
}
