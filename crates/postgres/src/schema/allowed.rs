//! What may a role without a superuser's rights make? Pure: from an entry to who makes it by PostgreSQL's own rules, and which
//! entries are tried by themselves, because a provider may have other rules or the server other libraries.

use std::collections::BTreeSet;

use crate::schema::toc::Entry;

/// Roles of providers whose members may do more than PostgreSQL's catalogs say. Only the server knows what.
pub(crate) const PROVIDERS: [&str; 6] =
    ["rds_superuser", "cloudsqlsuperuser", "alloydbsuperuser", "azure_pg_admin", "neon_superuser", "mdb_admin"];

/// Languages in which a function may do everything.
const UNTRUSTED: [&str; 6] = ["c", "internal", "plpython3u", "plpythonu", "plperlu", "pltclu"];

/// Whether only a superuser makes such an object, by PostgreSQL's own rules; but for subscriptions, which are asked about by
/// themselves.
pub(crate) fn needs_superuser(entry: &Entry) -> bool {
    let statement = entry.statement.as_str();
    match entry.kind.as_str() {
        "EVENT TRIGGER"
        | "FOREIGN DATA WRAPPER"
        | "ACCESS METHOD"
        | "OPERATOR CLASS"
        | "OPERATOR FAMILY"
        | "TEXT SEARCH PARSER"
        | "TEXT SEARCH TEMPLATE"
        | "SHELL TYPE"
        | "PUBLICATION TABLES IN SCHEMA" => true,
        "PUBLICATION" => statement.contains(" FOR ALL TABLES WITH ("),
        "TYPE" => statement.contains("\n    INPUT = "),
        "FUNCTION" | "PROCEDURE" => {
            language(statement).is_some_and(|language| UNTRUSTED.contains(&language)) || is_leakproof(statement)
        }
        "CAST" => statement.contains(") WITHOUT FUNCTION") || !names_of_a_cast(statement).contains('.'),
        // The maker owns the type; only a superuser owns a built-in type, which has no schema before its name.
        "TRANSFORM" => {
            let r#type = statement.strip_prefix("CREATE TRANSFORM FOR ").and_then(|rest| rest.split_once(" LANGUAGE "));
            r#type.is_some_and(|(name, rest)| {
                let language = rest.split_whitespace().next().unwrap_or_default();
                !name.contains('.') || UNTRUSTED.contains(&language)
            })
        }
        _ => false,
    }
}

/// The language of a function, from the line in which `pg_dump` names it.
fn language(statement: &str) -> Option<&str> {
    let line = statement.lines().find_map(|line| line.strip_prefix("    LANGUAGE "))?;
    line.split_whitespace().next()
}

fn is_leakproof(statement: &str) -> bool {
    let line = statement.lines().find_map(|line| line.strip_prefix("    LANGUAGE "));
    line.is_some_and(|line| line.split(" AS ").next().unwrap_or(line).contains(" LEAKPROOF"))
}

/// What stands between the parentheses of `CREATE CAST (a AS b) WITH …`.
fn names_of_a_cast(statement: &str) -> &str {
    statement.split_once(" WITH").map_or(statement, |(names, _)| names)
}

/// An object that is tried by itself, with what can't be there without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// What messages call it.
    pub(crate) what: String,
    pub(crate) ids: BTreeSet<u32>,
    /// Whether it has an owner, who may be refused alone.
    pub(crate) owned: bool,
}

/// The entries of `entries` that are tried by themselves when all else is made, but for event triggers: security labels, whose
/// provider may not be loaded; and, for a role that is no superuser, what PostgreSQL leaves to those.
pub(crate) fn groups(entries: &[&Entry], superuser: bool) -> Vec<Group> {
    let there: BTreeSet<u32> = entries.iter().map(|entry| entry.id).collect();
    let mut taken = BTreeSet::new();
    let mut groups = Vec::new();
    for entry in entries {
        let kind = entry.kind.as_str();
        let owned = !superuser
            && match kind {
                "SUBSCRIPTION" => true,
                "PUBLICATION" | "PUBLICATION TABLES IN SCHEMA" => needs_superuser(entry),
                _ => false,
            };
        // Of an extension's object, or of one that every database has: it is no entry, and may belong to the provider.
        let is_foreign = kind == "ACL" && !entry.needs.iter().any(|need| there.contains(need));
        let said = kind == "SECURITY LABEL"
            || !superuser && (is_foreign || kind == "COMMENT" && entry.tag.starts_with("EXTENSION "));
        if !(owned || said) || taken.contains(&entry.id) {
            continue;
        }
        let ids = if owned { with_dependents(entries, entry.id) } else { [entry.id].into() };
        taken.extend(ids.iter().copied());
        groups.push(Group { what: name(entry), ids, owned });
    }
    groups
}

/// An entry and all that need it, directly or not.
pub(crate) fn with_dependents(entries: &[&Entry], id: u32) -> BTreeSet<u32> {
    let mut ids = BTreeSet::from([id]);
    loop {
        let before = ids.len();
        let more = entries.iter().filter(|entry| entry.needs.iter().any(|need| ids.contains(need)));
        let more: Vec<u32> = more.map(|entry| entry.id).collect();
        ids.extend(more);
        if ids.len() == before {
            return ids;
        }
    }
}

/// Whether an entry only says something of an object, which can be without it.
pub(crate) fn is_said(entry: &Entry) -> bool {
    matches!(entry.kind.as_str(), "COMMENT" | "ACL" | "SECURITY LABEL")
}

/// What messages call an entry.
pub(crate) fn name(entry: &Entry) -> String {
    let dot = if entry.schema.is_empty() { "" } else { "." };
    match entry.kind.as_str() {
        "ACL" => format!("grants on {}{dot}{}", entry.schema, entry.tag),
        "COMMENT" => format!("comment on {}", entry.tag),
        "SECURITY LABEL" => format!("security label on {}", entry.tag),
        kind => format!("{} {}{dot}{}", kind.to_lowercase(), entry.schema, entry.tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::Section;

    fn entry(id: u32, kind: &str, tag: &str, statement: &str, needs: &[u32]) -> Entry {
        Entry {
            id,
            kind: kind.into(),
            tag: tag.into(),
            statement: statement.into(),
            schema: String::new(),
            tablespace: String::new(),
            owner: "app".into(),
            section: Section::After,
            needs: needs.to_vec(),
        }
    }

    #[test]
    fn what_a_superuser_alone_makes() {
        for (kind, statement, is_so) in [
            ("EVENT TRIGGER", "", true),
            ("PUBLICATION", "CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert');", true),
            ("PUBLICATION", "CREATE PUBLICATION p WITH (publish = 'insert');", false),
            ("SHELL TYPE", "CREATE TYPE public.x;", true),
            ("TYPE", "CREATE TYPE public.x (\n    INTERNALLENGTH = 4,\n    INPUT = public.x_in,\n", true),
            ("TYPE", "CREATE TYPE public.x AS (\n\ta integer\n);", false),
            ("FUNCTION", "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE c\n    AS '$libdir/x', 'f';", true),
            ("FUNCTION", "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql\n    AS 'SELECT 1';", false),
            ("FUNCTION", "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql LEAKPROOF\n    AS 'x';", true),
            (
                "FUNCTION",
                "CREATE FUNCTION public.f() RETURNS text\n    LANGUAGE sql\n    AS '\n    LANGUAGE c';",
                false,
            ),
            ("PROCEDURE", "CREATE PROCEDURE public.f()\n    LANGUAGE plpython3u\n    AS $$x$$;", true),
            (
                "TRANSFORM",
                "CREATE TRANSFORM FOR integer LANGUAGE sql (FROM SQL WITH FUNCTION public.f(internal));",
                true,
            ),
            (
                "TRANSFORM",
                "CREATE TRANSFORM FOR public.pair LANGUAGE plperl (FROM SQL WITH FUNCTION a.f(internal));",
                false,
            ),
            ("TRANSFORM", "CREATE TRANSFORM FOR public.pair LANGUAGE plpython3u (FROM SQL);", true),
            ("CAST", "CREATE CAST (integer AS public.pair) WITH FUNCTION public.to_pair(integer);", false),
            ("CAST", "CREATE CAST (integer AS public.pair) WITHOUT FUNCTION;", true),
            ("CAST", "CREATE CAST (bigint AS text) WITH FUNCTION public.f(bigint);", true),
            ("TABLE", "CREATE TABLE t (a text DEFAULT ' FOR ALL TABLES WITH (');", false),
        ] {
            assert_eq!(needs_superuser(&entry(1, kind, "x", statement, &[])), is_so, "{statement}");
        }
    }

    #[test]
    fn what_is_tried_by_itself() {
        let all = " FOR ALL TABLES WITH (";
        let entries = [
            entry(1, "TABLE", "t", "", &[]),
            entry(2, "PUBLICATION", "everything", all, &[]),
            entry(3, "COMMENT", "PUBLICATION everything", "", &[2]),
            entry(4, "PUBLICATION", "some", "", &[]),
            entry(5, "PUBLICATION TABLE", "some t", "", &[1, 4]),
            entry(6, "SUBSCRIPTION", "sub", "", &[]),
            entry(7, "EXTENSION", "hstore", "", &[]),
            entry(8, "COMMENT", "EXTENSION hstore", "", &[7]),
            entry(9, "ACL", "FUNCTION f()", "", &[4711]),
            entry(10, "ACL", "TABLE t", "", &[1]),
            entry(11, "SECURITY LABEL", "TABLE t", "", &[1]),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        let told = |superuser| -> Vec<(String, Vec<u32>)> {
            groups(&entries, superuser).into_iter().map(|group| (group.what, group.ids.into_iter().collect())).collect()
        };
        let label = ("security label on TABLE t".to_owned(), vec![11]);
        assert_eq!(told(true), std::slice::from_ref(&label));
        assert_eq!(
            told(false),
            [
                ("publication everything".to_owned(), vec![2, 3]),
                ("subscription sub".to_owned(), vec![6]),
                ("comment on EXTENSION hstore".to_owned(), vec![8]),
                ("grants on FUNCTION f()".to_owned(), vec![9]),
                label,
            ]
        );
        assert_eq!(with_dependents(&entries, 7), [7, 8].into());
    }
}
