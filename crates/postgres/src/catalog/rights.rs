//! Which objects of a database can a role not see? Checked before a backup, so that all of them are named at once, with
//! the statements that grant access. `pg_dump` wouldn't report some of them: it shows subscriptions, and the login
//! options of user mappings, only to superusers, and writes a schema without them for other roles.

use seawall_archive::preflight::Lack;

use crate::Error;
use crate::catalog::journals::IS_OURS;
use crate::client::{Connection, Row};
use crate::quote::{ident, literal};

/// The most large objects for which a GRANT names each.
const ONE_BY_ONE: usize = 5;

/// The objects that are hidden from a role, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Hidden {
    role: String,
    /// Tables and sequences that it may not read.
    unreadable: Vec<String>,
    /// Tables with rows that it doesn't see.
    row_security: Vec<String>,
    /// Whether it may not read the pages of large objects.
    large_objects: bool,
    subscriptions: Vec<String>,
    /// User mappings whose options it doesn't see.
    mappings: Vec<String>,
}

/// Whether the role of a connection is a superuser.
pub(crate) async fn is_superuser(connection: &mut Connection) -> Result<bool, Error> {
    let sql = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user";
    Ok(connection.one(sql).await?.flag(0))
}

/// The relations that a backup reads itself: tables, sequences and the configuration of extensions.
const RELATIONS: &str = "
SELECT n.nspname || '.' || c.relname,
       NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')),
       c.relkind <> 'S' AND pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'S') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND (NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))
  OR c.relrowsecurity)
  AND (c.oid IN (SELECT pg_catalog.unnest(extconfig) FROM pg_catalog.pg_extension) OR NOT EXISTS (
       SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND d.objid = c.oid AND d.deptype = 'e'))
  AND NOT {journal}
ORDER BY 1";

const LARGE_OBJECTS: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata) \
                             AND NOT pg_catalog.has_table_privilege('pg_catalog.pg_largeobject', 'SELECT')";

const SUBSCRIPTIONS: &str = "SELECT subname FROM pg_catalog.pg_subscription WHERE subdbid = \
                             (SELECT oid FROM pg_catalog.pg_database \
                             WHERE datname = pg_catalog.current_database()) ORDER BY 1";

/// Mappings whose options the public view hides.
const MAPPINGS: &str = "SELECT umid, usename || ' for server ' || srvname FROM pg_catalog.pg_user_mappings \
                        WHERE umoptions IS NULL ORDER BY 2";

/// Mappings that have options. A role without the right to read this table can't know.
const WITH_OPTIONS: &str = "SELECT oid FROM pg_catalog.pg_user_mapping WHERE umoptions IS NOT NULL";

/// Refuses if the role of `connection` can't see everything in its database. Names the hidden objects and the
/// statements that grant access.
pub(crate) async fn check(connection: &mut Connection) -> Result<(), Error> {
    let who = connection
        .one("SELECT current_user, pg_catalog.current_setting('is_superuser'), pg_catalog.current_database()")
        .await?;
    if who.text(1) == "on" {
        return Ok(());
    }
    let relations = connection.query(&RELATIONS.replace("{journal}", IS_OURS)).await?;
    let names = |column| relations.iter().filter(move |row| row.flag(column)).map(|row| row.text(0).to_owned());
    let mut hidden = Hidden {
        role: who.text(0).to_owned(),
        unreadable: names(1).collect(),
        row_security: names(2).collect(),
        large_objects: connection.one(LARGE_OBJECTS).await?.flag(0),
        subscriptions: connection.query(SUBSCRIPTIONS).await?.iter().map(|row| row.text(0).to_owned()).collect(),
        mappings: Vec::new(),
    };
    let bare = connection.query(MAPPINGS).await?;
    if !bare.is_empty() {
        match connection.query(WITH_OPTIONS).await {
            Ok(rows) => {
                let has_options = |mapping: &&Row| rows.iter().any(|row| row.text(0) == mapping.text(0));
                hidden.mappings = bare.iter().filter(has_options).map(|row| row.text(1).to_owned()).collect();
            }
            Err(error) if error.sqlstate() == Some("42501") => {
                hidden.unreadable.push("pg_catalog.pg_user_mapping".to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    refuse(format!("role {} in database {}", hidden.role, who.text(2)), &lacks(&hidden))
}

/// Large objects that the role may not open. Before version 18 the server has no question for it.
const CLOSED_OBJECTS: &str = "
SELECT m.oid FROM pg_catalog.pg_largeobject_metadata m WHERE NOT (pg_catalog.pg_has_role(m.lomowner, 'USAGE') OR EXISTS (
  SELECT FROM pg_catalog.aclexplode(m.lomacl) a
  WHERE a.privilege_type = 'SELECT' AND (a.grantee = 0 OR pg_catalog.pg_has_role(a.grantee, 'USAGE')))) ORDER BY 1";

/// The same, for servers with a function that tells it.
const CLOSED_OBJECTS_18: &str = "SELECT m.oid FROM pg_catalog.pg_largeobject_metadata m WHERE NOT pg_catalog.has_largeobject_privilege(m.oid, 'SELECT') ORDER BY 1";

/// Refuses if `pg_dump` couldn't read all large objects: it opens each, and the right to read their pages isn't enough
/// for that.
pub(crate) async fn check_large_objects(connection: &mut Connection) -> Result<(), Error> {
    let who = "SELECT current_user, pg_catalog.current_setting('is_superuser') = 'on' OR pg_catalog.current_setting('lo_compat_privileges') = 'on', \
               pg_catalog.current_database()";
    let who = connection.one(who).await?;
    if who.flag(1) {
        return Ok(());
    }
    let sql = if connection.version < 180_000 { CLOSED_OBJECTS } else { CLOSED_OBJECTS_18 };
    let closed: Vec<String> = connection.query(sql).await?.iter().map(|row| row.text(0).to_owned()).collect();
    refuse(format!("role {} in database {}", who.text(0), who.text(2)), closed_objects(who.text(0), &closed).as_slice())
}

/// The rights that are missing for large objects that a role may not open. Pure.
fn closed_objects(role: &str, closed: &[String]) -> Option<Lack> {
    if closed.is_empty() {
        return None;
    }
    let role = ident(role);
    let grant = match closed.len() {
        0..=ONE_BY_ONE => format!("GRANT SELECT ON LARGE OBJECT {} TO {role};", closed.join(", ")),
        _ => format!(
            "DO $$ DECLARE o oid; BEGIN FOR o IN SELECT oid FROM pg_catalog.pg_largeobject_metadata LOOP \
             EXECUTE pg_catalog.format('GRANT SELECT ON LARGE OBJECT %s TO %s', o, {}); END LOOP; END $$;",
            literal(&role)
        ),
    };
    let cause = format!("pg_dump opens each large object, and it may not open {}", shown(closed));
    Some(Lack::new(cause, format!("{grant} (or leave --format out: for that pg_read_all_data is enough)")))
}

/// The missing rights, and the statements that grant them. Pure.
fn lacks(hidden: &Hidden) -> Vec<Lack> {
    let role = ident(&hidden.role);
    let read = format!("GRANT pg_read_all_data TO {role};");
    let all = format!("ALTER ROLE {role} SUPERUSER; (or back up as a superuser)");
    let mut lacks = Vec::new();
    if !hidden.unreadable.is_empty() {
        lacks.push(Lack::new(format!("it may not read {}", shown(&hidden.unreadable)), read.clone()));
    }
    if hidden.large_objects {
        lacks.push(Lack::new("it may not read large objects", read));
    }
    if !hidden.row_security.is_empty() {
        let cause = format!("row security hides rows of {} from it", shown(&hidden.row_security));
        lacks.push(Lack::new(cause, format!("ALTER ROLE {role} BYPASSRLS;")));
    }
    if !hidden.subscriptions.is_empty() {
        let cause = format!("pg_dump shows a superuser alone the subscription {}", shown(&hidden.subscriptions));
        lacks.push(Lack::new(cause, all.clone()));
    }
    if !hidden.mappings.is_empty() {
        let cause =
            format!("pg_dump shows a superuser alone the options of the user mapping of {}", shown(&hidden.mappings));
        lacks.push(Lack::new(cause, all));
    }
    lacks
}

/// Names in a message: all of them, for programs that read it. A terminal gets some.
pub(crate) fn shown(names: &[String]) -> String {
    names.join(", ")
}

/// Refuses when there is anything, with every statement once.
pub(crate) fn refuse(object: String, lacks: &[Lack]) -> Result<(), Error> {
    match Lack::told(lacks) {
        None => Ok(()),
        Some((cause, next)) => Err(Error::Denied { object, cause, next }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_named_with_what_mends_it() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let nothing = Hidden { role: "b \"x\"".into(), ..Hidden::default() };
        for (hidden, cause, next) in [
            (
                Hidden { unreadable: names(&["a.t", "a.s"]), large_objects: true, ..nothing.clone() },
                "it may not read a.t, a.s; it may not read large objects",
                "GRANT pg_read_all_data TO \"b \"\"x\"\"\";",
            ),
            (
                Hidden { row_security: names(&["1", "2", "3", "4", "5", "6", "7"]), ..nothing.clone() },
                "row security hides rows of 1, 2, 3, 4, 5, 6, 7 from it",
                "ALTER ROLE \"b \"\"x\"\"\" BYPASSRLS;",
            ),
            (
                Hidden { subscriptions: names(&["sub"]), mappings: names(&["al for server s"]), ..nothing.clone() },
                "pg_dump shows a superuser alone the subscription sub; \
                 pg_dump shows a superuser alone the options of the user mapping of al for server s",
                "ALTER ROLE \"b \"\"x\"\"\" SUPERUSER; (or back up as a superuser)",
            ),
        ] {
            let Err(Error::Denied { cause: told, next: advised, .. }) = refuse("o".into(), &lacks(&hidden)) else {
                panic!("nothing was refused: {hidden:?}")
            };
            assert_eq!((told.as_str(), advised.as_str()), (cause, next));
        }
        assert!(refuse("o".into(), &lacks(&nothing)).is_ok());
    }
}
