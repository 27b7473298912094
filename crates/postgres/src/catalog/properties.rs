//! Properties of a database itself: owner, comment, grants, settings.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;
use crate::catalog::grants;
use crate::catalog::grants::Grant;
use crate::catalog::notes;
use crate::client::Connection;
use crate::client::tried::Statement;
use crate::quote::{ident, literal};

/// Settings whose value is a list of names. The server puts a name in double quotes if needed.
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// A provider of security labels, and its label.
pub(crate) type Label = (String, String);

/// The properties of a database. A restore sets them in a database that it makes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Properties {
    /// The owner.
    pub owner: String,
    /// The comment.
    #[serde(default, deserialize_with = "without_notes")]
    pub comment: Option<String>,
    /// The grants; `None` if nothing was ever granted.
    pub grants: Option<Vec<Grant>>,
    /// Settings: the role they are for, if not for all, and `name=value`.
    pub settings: Vec<(Option<String>, String)>,
    /// How many sessions it may have, if not any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i32>,
    /// Whether any role may copy it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// Its security labels: provider and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// Objects that every new database has, and that were dropped here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
}

/// Reads a comment, and drops the note of a restore: older versions wrote such notes into sets.
fn without_notes<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|comment| !notes::is_note(comment)))
}

/// An object that every new database has, and that the source dropped. `pg_dump` doesn't record this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dropped {
    /// The schema `public`.
    Public,
    /// The extension `plpgsql`.
    Plpgsql,
}

impl Dropped {
    /// The statement that drops the object from a new database.
    fn again(self) -> Statement {
        match self {
            Self::Public => Statement::may_fail(
                "DROP SCHEMA IF EXISTS public".to_owned(),
                "DROP SCHEMA public, which the source has dropped",
            ),
            Self::Plpgsql => Statement::may_fail(
                "DROP EXTENSION IF EXISTS plpgsql".to_owned(),
                "DROP EXTENSION plpgsql, which the source has dropped",
            ),
        }
    }
}

/// A query for the security labels of an object of the server, as JSON.
pub(crate) fn labels_of(catalog: &str, oid: &str) -> String {
    format!(
        "(SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(l.provider, l.label) ORDER BY l.provider), '[]') \
         FROM pg_catalog.pg_shseclabel l WHERE l.classoid = 'pg_catalog.{catalog}'::pg_catalog.regclass AND l.objoid = {oid})"
    )
}

/// The statements that give an object its security labels. A provider is a library that the target may not have loaded.
pub(crate) fn label(object: &str, shown: &str, labels: &[Label]) -> Vec<Statement> {
    let one = |(provider, label): &Label| {
        Statement::may_fail(
            format!("SECURITY LABEL FOR {} ON {object} IS {}", ident(provider), literal(label)),
            format!("security label of {provider} on {shown}"),
        )
    };
    labels.iter().map(one).collect()
}

/// The properties of the connection's database.
pub(crate) async fn read(connection: &mut Connection) -> Result<Properties, Error> {
    let (grants, labels) = (grants::query("datacl", "datdba"), labels_of("pg_database", "d.oid"));
    let sql = format!("
SELECT pg_catalog.pg_get_userbyid(datdba), pg_catalog.shobj_description(oid, 'pg_database'), datacl IS NOT NULL, {grants},
       (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(CASE WHEN setrole = 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(setrole) END, one)), '[]')
        FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) one WHERE setdatabase = d.oid), datconnlimit, datistemplate, {labels},
       EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public'), EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'plpgsql')
FROM pg_catalog.pg_database d WHERE datname = pg_catalog.current_database()");
    let row = connection.one(&sql).await?;
    let wrong = |error: serde_json::Error| Error::Internal(format!("a database's properties: {error}"));
    let grants = serde_json::from_str(row.text(3)).map_err(wrong)?;
    let dropped = [(8, Dropped::Public), (9, Dropped::Plpgsql)];
    // A restore notes its progress in this comment, and admits no other session until it is done.
    let (comment, is_noted) = match row.optional(1) {
        Some(comment) if notes::is_note(comment) => (None, true),
        comment => (comment.map(str::to_owned), false),
    };
    Ok(Properties {
        owner: row.text(0).to_owned(),
        comment,
        grants: row.flag(2).then_some(grants),
        settings: serde_json::from_str(row.text(4)).map_err(wrong)?,
        connections: row.text(5).parse().ok().filter(|limit| *limit > 0 || *limit == 0 && !is_noted),
        template: row.flag(6),
        labels: serde_json::from_str(row.text(7)).map_err(wrong)?,
        dropped: dropped.into_iter().filter(|(column, _)| !row.flag(*column)).map(|(_, what)| what).collect(),
    })
}

/// The statement that drops the schema `public` from a new database, if the source dropped it. It runs before anything is
/// made in the database, because a restored event trigger would notice it.
pub(crate) fn first_drops(properties: &Properties) -> Vec<Statement> {
    drops(properties, Dropped::Public)
}

/// The statement that drops the extension `plpgsql` from a new database, if the source dropped it. It runs last, because
/// scripts of extensions may need `plpgsql`.
pub(crate) fn last_drops(properties: &Properties) -> Vec<Statement> {
    drops(properties, Dropped::Plpgsql)
}

fn drops(properties: &Properties, wanted: Dropped) -> Vec<Statement> {
    properties.dropped.iter().filter(|dropped| **dropped == wanted).map(|dropped| dropped.again()).collect()
}

/// The statements that give a database its settings and labels. Settings of roles are left out without `owners`.
/// Messages name the database `shown`.
pub(crate) fn statements(properties: &Properties, database: &str, shown: &str, owners: bool) -> Vec<Statement> {
    let name = ident(database);
    let object = format!("DATABASE {name}");
    let mut all = Vec::new();
    for (role, setting) in &properties.settings {
        // Settings of roles name roles, as owners do.
        let (whose, of) = match role {
            None => (object.clone(), format!("database {shown}")),
            Some(role) if owners => {
                (format!("ROLE {} IN {object}", ident(role)), format!("role {role} in database {shown}"))
            }
            Some(_) => continue,
        };
        all.extend(set(&whose, &of, setting));
    }
    all.extend(label(&object, &format!("database {shown}"), &properties.labels));
    all
}

/// The statements that set the comment, the connection limit, the owner and the grants of a database. They open it to other
/// roles, so they run in the transaction that gives the database its name: before that, only the restore may use it. Owner
/// and grants are set only with `owners`. `is_open` says whether PUBLIC may connect to the database already.
pub(crate) fn last(properties: &Properties, database: &str, owners: bool, is_open: bool) -> String {
    let object = format!("DATABASE {}", ident(database));
    let comment = properties.comment.as_ref().map_or("NULL".to_owned(), |comment| literal(comment));
    let limit = properties.connections.unwrap_or(-1);
    let mut all = format!("COMMENT ON {object} IS {comment};\nALTER {object} CONNECTION LIMIT {limit};\n");
    if properties.template {
        all.push_str(&format!("ALTER {object} IS_TEMPLATE true;\n"));
    }
    let grants = properties.grants.as_ref().filter(|_| owners);
    if grants.is_none() && !is_open {
        all.push_str(&format!("GRANT CONNECT ON {object} TO PUBLIC;\n"));
    }
    if owners {
        // Before the grants, because a change of owner moves the old owner's grants to the new owner.
        all.push_str(&format!("ALTER {object} OWNER TO {};\n", ident(&properties.owner)));
    }
    if let Some(grants) = grants {
        let known = ["CREATE", "CONNECT", "TEMPORARY"];
        all.push_str(&grants::statements(&object, &properties.owner, grants, &known));
    }
    all
}

/// Whether a session in any database may run [`last`]. The server keeps comments and names of roles in the encoding of the
/// session's database, and doesn't record it; ASCII is the same in all encodings.
pub(crate) fn may_be_set_from_anywhere(properties: &Properties, owners: bool) -> bool {
    last(properties, "", owners, false).is_ascii()
}

/// The statement that sets `name=value` for sessions of `whose`, which messages call `of`. It may be refused: some
/// settings need a superuser, and not every server knows every setting.
pub(crate) fn set(whose: &str, of: &str, setting: &str) -> Option<Statement> {
    let (name, value) = setting.split_once('=')?;
    let sql = format!("ALTER {whose} SET {} TO {}", ident(name), value_of(name, value));
    Some(Statement::may_fail(sql, format!("setting {name} of {of}")))
}

/// A setting's value as SQL. A list of names is set name by name, as `pg_dump` does. Other values stay as they are.
pub(crate) fn value_of(setting: &str, value: &str) -> String {
    let is_list = LISTS.iter().any(|known| known.eq_ignore_ascii_case(setting));
    match is_list.then(|| names(value)).flatten() {
        Some(names) if !names.is_empty() => names.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", "),
        _ => literal(value),
    }
}

/// The names of a list in the server's format, which quotes names if needed. `None` if the value isn't such a list.
fn names(value: &str) -> Option<Vec<String>> {
    let (mut names, mut rest) = (Vec::new(), value.trim_start());
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let mut name = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let (part, behind) = quoted.split_once('"')?;
                name.push_str(part);
                // Two quotes mean one quote within the name.
                match behind.strip_prefix('"') {
                    Some(more) => (name, quoted) = (name + "\"", more),
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
        } else {
            let end = rest.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            name.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        names.push(name);
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return rest.is_empty().then_some(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_restore_in_a_set_is_no_comment() {
        let made = seawall_archive::names::unfinished::name("set 1", "shop");
        let note = format!("Seawall: all of it is made, and its name comes next: {made}");
        for (comment, read) in [(Some(note), None), (Some("the shop".to_owned()), Some("the shop")), (None, None)] {
            let set = serde_json::to_string(&Properties { comment, ..Properties::default() }).expect("JSON");
            let properties: Properties = serde_json::from_str(&set).expect("properties");
            assert_eq!(properties.comment.as_deref(), read, "{set}");
        }
    }

    #[test]
    fn settings_as_sql() {
        for (setting, value, sql) in [
            ("work_mem", "5MB", "'5MB'"),
            ("search_path", "\"$user\", public", "'$user', 'public'"),
            ("search_path", "\"a, b\",c", "'a, b', 'c'"),
            ("search_path", "", "''"),
            ("search_path", "\"\"", "''"),
            ("search_path", "\"a\"\"b\", public", "'a\"b', 'public'"),
            ("Search_Path", "\"a,\"\"\" , b", "'a,\"', 'b'"),
            ("search_path", "\"a", "'\"a'"),
            ("temp_tablespaces", "a, , b", "'a, , b'"),
            ("app.motto", "it's, a = b", "'it''s, a = b'"),
        ] {
            assert_eq!(value_of(setting, value), sql);
        }
    }

    #[test]
    fn a_database_belongs_to_its_owner_before_anything_is_granted() {
        let grant = Grant { grantee: "p".into(), privilege: "CONNECT".into(), ..Grant::default() };
        let properties = Properties {
            owner: "app".into(),
            grants: Some(vec![grant]),
            settings: vec![(None, "work_mem=5MB".into()), (Some("al".into()), "a.b=c".into())],
            labels: vec![("dummy".into(), "it's".into())],
            ..Properties::default()
        };
        let told = |owners| -> Vec<(String, String)> {
            let all = statements(&properties, "x", "shop", owners);
            all.into_iter().map(|Statement { sql, gives }| (sql, gives)).collect()
        };
        assert_eq!(
            last(&properties, "x", true, false),
            "COMMENT ON DATABASE \"x\" IS NULL;\nALTER DATABASE \"x\" CONNECTION LIMIT -1;\nALTER DATABASE \"x\" OWNER TO \"app\";\n\
             REVOKE ALL ON DATABASE \"x\" FROM PUBLIC, \"app\";\nGRANT CONNECT ON DATABASE \"x\" TO \"p\";\n"
        );
        let bare =
            Properties { comment: Some("it's".into()), connections: Some(3), template: true, ..Properties::default() };
        let begin = "COMMENT ON DATABASE \"x\" IS 'it''s';\nALTER DATABASE \"x\" CONNECTION LIMIT 3;\nALTER DATABASE \"x\" IS_TEMPLATE true;\n";
        assert_eq!(last(&bare, "x", false, true), begin);
        assert_eq!(last(&bare, "x", false, false), format!("{begin}GRANT CONNECT ON DATABASE \"x\" TO PUBLIC;\n"));
        let always = [
            (
                "ALTER DATABASE \"x\" SET \"work_mem\" TO '5MB'".to_owned(),
                "setting work_mem of database shop".to_owned(),
            ),
            (
                "SECURITY LABEL FOR \"dummy\" ON DATABASE \"x\" IS 'it''s'".to_owned(),
                "security label of dummy on database shop".to_owned(),
            ),
        ];
        assert_eq!(told(false), always);
        assert_eq!(
            told(true)[1..],
            [
                (
                    "ALTER ROLE \"al\" IN DATABASE \"x\" SET \"a.b\" TO 'c'".to_owned(),
                    "setting a.b of role al in database shop".to_owned()
                ),
                always[1].clone(),
            ]
        );
    }
}
