//! Who owns what was given to no role, on a server that was started for a proof? Pure.
//!
//! Nothing in a set says who owns what an extension or the server itself makes: there it is whoever the superuser was, and
//! here a role of the proof's own. So such an object counts as that of its owner in the set.

use std::collections::BTreeMap;

use crate::quote::ident;
use crate::schema::toc::Entry;

/// The owners of a set's objects, and the roles of ours that stand for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owned {
    ours: Vec<String>,
    owners: BTreeMap<(String, String, String), String>,
}

impl Owned {
    pub(crate) fn new(expected: &[Entry], ours: Vec<String>) -> Self {
        let owner = |entry: &Entry| (key(entry), entry.owner.clone());
        let owners = if ours.is_empty() { BTreeMap::new() } else { expected.iter().map(owner).collect() };
        Self { ours, owners }
    }

    /// Gives an entry the owner that it has in the set, if it belongs to a role of ours.
    pub(crate) fn entry(&self, mut entry: Entry) -> Entry {
        if self.ours.contains(&entry.owner)
            && let Some(owner) = self.owners.get(&key(&entry))
        {
            entry.owner.clone_from(owner);
        }
        entry.statement = self.text(&entry.statement, &entry.owner);
        entry
    }

    /// A statement of an object of `owner` with that name in the place of ours.
    pub(crate) fn text(&self, statement: &str, owner: &str) -> String {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_plain = owner.chars().all(is_word) && !owner.starts_with(|c: char| c.is_ascii_digit());
        let shown = if is_plain { owner.to_owned() } else { ident(owner) };
        let known = self.ours.iter().filter(|role| statement.contains(&***role)).collect::<Vec<_>>();
        known.into_iter().fold(statement.to_owned(), |text, role| text.replace(&**role, &shown))
    }

    /// Whether a statement names a role of ours.
    pub(crate) fn is_in(&self, statement: &[u8]) -> bool {
        self.ours.iter().any(|role| statement.windows(role.len()).any(|some| some == role.as_bytes()))
    }
}

fn key(entry: &Entry) -> (String, String, String) {
    (entry.kind.clone(), entry.schema.clone(), entry.tag.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn acl(tag: &str, owner: &str, statement: &str) -> Entry {
        Entry {
            id: 0,
            kind: "ACL".into(),
            tag: tag.into(),
            statement: statement.into(),
            schema: "public".into(),
            tablespace: String::new(),
            owner: owner.into(),
            section: Section::After,
            needs: Vec::new(),
        }
    }

    #[test]
    fn what_belongs_to_a_role_of_ours_has_the_owner_of_the_set() {
        let expected = [acl("f()", "The admin", ""), acl("g()", "postgres", ""), acl("h()", "app", "")];
        let owned = Owned::new(&expected, vec!["seawall_1".into(), "seawall_2".into()]);
        for (tag, owner, statement, told) in [
            (
                "f()",
                "seawall_1",
                "REVOKE ALL ON f FROM seawall_1;",
                ("The admin", "REVOKE ALL ON f FROM \"The admin\";"),
            ),
            ("g()", "seawall_2", "REVOKE ALL ON g FROM seawall_2;", ("postgres", "REVOKE ALL ON g FROM postgres;")),
            ("h()", "other", "GRANT ALL ON h TO x;", ("other", "GRANT ALL ON h TO x;")),
            ("new()", "seawall_1", "GRANT ALL ON new TO x;", ("seawall_1", "GRANT ALL ON new TO x;")),
        ] {
            let entry = owned.entry(acl(tag, owner, statement));
            assert_eq!((entry.owner.as_str(), entry.statement.as_str()), told);
        }
    }
}
