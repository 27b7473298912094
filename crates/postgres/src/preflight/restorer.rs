//! What may the role that restores not do? Asked before anything is made, so that all of it is named at once, with the
//! statements that mend it. A superuser may do everything.

use std::collections::{BTreeMap, BTreeSet};

use seawall_archive::preflight::{Lack, Look};

use crate::Error;
use crate::catalog::rights::shown;
use crate::client::Connection;
use crate::quote::{ident, literal};
use crate::schema::allowed::{PROVIDERS, needs_superuser};
use crate::schema::toc::Entry;

/// Where a restore goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Into a database that it makes, which may take the place of one that is there.
    New {
        /// Whether there is one.
        replaces: bool,
    },
    /// Into the database that the connection is in.
    Existing,
}

/// What a restore is going to do that not every role may.
pub(crate) struct Deeds<'a> {
    /// The database in the end.
    pub(crate) database: &'a str,
    pub(crate) into: Destination,
    /// Whether what PostgreSQL leaves to superusers is tried.
    pub(crate) tries: bool,
    /// Who granted something that isn't theirs: the grant is made again as that role.
    pub(crate) grantors: BTreeSet<String>,
    /// What is made.
    pub(crate) entries: &'a [Entry],
    /// Who gets to own something.
    pub(crate) owners: BTreeSet<&'a str>,
    /// Roles that the restore makes first.
    pub(crate) made: &'a [String],
    /// Roles that get settings of their own in the database.
    pub(crate) settings: BTreeSet<&'a str>,
    pub(crate) extensions: BTreeSet<&'a str>,
    pub(crate) tablespaces: BTreeSet<&'a str>,
}

/// What a role may not do, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Denied {
    role: String,
    /// Whether it may make no database.
    databases: bool,
    /// The database that it may not drop, and whose that is.
    drop: Option<(String, String)>,
    /// The database in which it may make no schema.
    schemas: Option<String>,
    /// Schemas in which it may make nothing.
    schema: Vec<String>,
    /// Roles to which it may give nothing.
    owners: Vec<String>,
    /// The same of roles that this restore makes.
    made: Vec<String>,
    /// Roles that would own something in a schema in which they may make nothing.
    inside: Vec<String>,
    extensions: Vec<String>,
    /// Objects that superusers alone make.
    objects: Vec<String>,
    tablespaces: Vec<String>,
    /// Roles whose settings it may not change.
    settings: Vec<String>,
    /// Roles as which it may not grant.
    grantors: Vec<String>,
}

/// Everything of `deeds` that the role of `connection` may not do, and what only the server knows.
pub(crate) async fn look(connection: &mut Connection, deeds: &Deeds<'_>) -> Result<Look, Error> {
    let who =
        "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole FROM pg_catalog.pg_roles WHERE rolname = current_user";
    let who = connection.one(who).await?;
    if who.flag(1) {
        return Ok(Look::default());
    }
    let mut denied = Denied { role: who.text(0).to_owned(), ..Denied::default() };
    match deeds.into {
        Destination::New { replaces } => {
            denied.databases = !who.flag(2);
            if replaces {
                let sql = "SELECT datname, pg_catalog.pg_get_userbyid(datdba) FROM pg_catalog.pg_database \
                           WHERE NOT pg_catalog.pg_has_role(datdba, 'USAGE') AND datname";
                denied.drop = among(connection, sql, &[deeds.database].into()).await?.pop();
            }
        }
        Destination::Existing => {
            let sql = "SELECT datname FROM pg_catalog.pg_database \
                       WHERE NOT pg_catalog.has_database_privilege(oid, 'CREATE') AND datname";
            denied.schemas = first(among(connection, sql, &[deeds.database].into()).await?).pop();
            let schemas = deeds.entries.iter().filter(|entry| is_owned(entry)).map(|entry| entry.schema.as_str());
            let sql = "SELECT nspname FROM pg_catalog.pg_namespace \
                       WHERE NOT pg_catalog.has_schema_privilege(oid, 'CREATE') AND nspname";
            denied.schema = first(among(connection, sql, &schemas.collect()).await?);
        }
    }
    // Predefined roles own only what belongs to the database's owner.
    let owners: BTreeSet<&str> = deeds.owners.iter().copied().filter(|owner| !owner.starts_with("pg_")).collect();
    let become_it = if connection.version < 160_000 { "MEMBER" } else { "SET" };
    let sql = format!(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE') \
         AND pg_catalog.pg_has_role(oid, '{become_it}') AND rolname"
    );
    let ours = first(among(connection, &sql, &owners).await?);
    for owner in owners.into_iter().filter(|owner| !ours.iter().any(|known| known == owner)) {
        let is_made = deeds.made.iter().any(|made| made == owner);
        if is_made { &mut denied.made } else { &mut denied.owners }.push(owner.to_owned());
    }
    denied.inside = inside(connection, deeds, &denied.role).await?;
    let installed = if deeds.into == Destination::Existing { "e.installed_version IS NULL" } else { "true" };
    let sql = format!(
        "SELECT e.name FROM pg_catalog.pg_available_extensions e JOIN pg_catalog.pg_available_extension_versions v \
         ON v.name = e.name AND v.version = e.default_version WHERE v.superuser AND NOT v.trusted AND {installed} \
         AND e.name"
    );
    denied.extensions = first(among(connection, &sql, &deeds.extensions).await?);
    let subscribes = connection.version >= 160_000 && is_member(connection, &["pg_create_subscription"]).await?;
    let is_denied = |entry: &&Entry| needs_superuser(entry) || (entry.kind == "SUBSCRIPTION" && !subscribes);
    let objects = deeds.entries.iter().filter(is_denied);
    denied.objects = objects.map(|entry| format!("{} {}", entry.kind.to_lowercase(), entry.tag)).collect();
    let sql = "SELECT spcname FROM pg_catalog.pg_tablespace \
               WHERE NOT pg_catalog.has_tablespace_privilege(oid, 'CREATE') AND spcname";
    denied.tablespaces = first(among(connection, sql, &deeds.tablespaces).await?);
    // Before version 16 a role that makes roles may change them all.
    let (makes_roles, all) = (who.flag(3), connection.version < 160_000);
    let sql = format!(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname <> current_user AND NOT ({makes_roles} AND \
         ({all} OR pg_catalog.pg_has_role(oid, 'MEMBER WITH ADMIN OPTION'))) AND rolname"
    );
    denied.settings = first(among(connection, &sql, &deeds.settings).await?);
    let grantors: BTreeSet<&str> = deeds.grantors.iter().map(String::as_str).collect();
    let sql =
        format!("SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, '{become_it}') AND rolname");
    let known = first(among(connection, &sql, &grantors).await?);
    denied.grantors =
        grantors.into_iter().filter(|one| !known.iter().any(|known| known == one)).map(str::to_owned).collect();
    let tries = deeds.tries || is_member(connection, &PROVIDERS).await?;
    let doubts = if tries { doubts(&mut denied) } else { Vec::new() };
    Ok(Look { lacks: mended(&denied), doubts, ..Look::default() })
}

/// Whether the role is a member of one of these.
async fn is_member(connection: &mut Connection, roles: &[&str]) -> Result<bool, Error> {
    let names: Vec<String> = roles.iter().map(|role| literal(role)).collect();
    let sql = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname IN ({}) AND pg_catalog.pg_has_role(oid, 'MEMBER'))",
        names.join(", ")
    );
    Ok(connection.one(&sql).await?.flag(0))
}

/// What a question finds of `wanted`: a name, and what it says of it.
async fn among(
    connection: &mut Connection,
    sql: &str,
    wanted: &BTreeSet<&str>,
) -> Result<Vec<(String, String)>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = wanted.iter().map(|name| literal(name)).collect();
    let rows = connection.query(&format!("{sql} IN ({}) ORDER BY 1", names.join(", "))).await?;
    Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
}

fn first(found: Vec<(String, String)>) -> Vec<String> {
    found.into_iter().map(|(name, _)| name).collect()
}

/// Who would own something in a schema without a right to make anything there. A superuser gives it to them all the same.
async fn inside(connection: &mut Connection, deeds: &Deeds<'_>, role: &str) -> Result<Vec<String>, Error> {
    let schemas = deeds.entries.iter().filter(|entry| entry.kind == "SCHEMA");
    let schemas: BTreeMap<&str, &str> = schemas.map(|entry| (entry.tag.as_str(), entry.owner.as_str())).collect();
    let mut pairs: BTreeSet<(&str, &str)> = BTreeSet::new();
    for entry in deeds.entries.iter().filter(|entry| is_owned(entry) && deeds.owners.contains(entry.owner.as_str())) {
        let its = schemas.get(entry.schema.as_str());
        if entry.owner != role && its != Some(&entry.owner.as_str()) {
            pairs.insert((&entry.owner, &entry.schema));
        }
    }
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let row = |(owner, schema): &(&str, &str)| {
        let its = schemas.get(schema).map_or("NULL".to_owned(), |its| literal(its));
        format!("({}, {}, {its})", literal(owner), literal(schema))
    };
    let rows: Vec<String> = pairs.iter().map(row).collect();
    let there = deeds.into == Destination::Existing;
    // In a new database every role may make something in its only schema before version 15, and no plain role since.
    let anybody = connection.version < 150_000;
    let sql = format!(
        "SELECT w.owner || ' in schema ' || w.schema FROM (VALUES {}) w(owner, schema, its) \
         LEFT JOIN pg_catalog.pg_roles o ON o.rolname = w.owner \
         LEFT JOIN pg_catalog.pg_roles i ON i.rolname = w.its::pg_catalog.text \
         LEFT JOIN pg_catalog.pg_namespace n ON {there} AND n.nspname = w.schema \
         WHERE NOT coalesce(o.rolsuper OR CASE WHEN n.oid IS NOT NULL \
         THEN pg_catalog.has_schema_privilege(o.oid, n.oid, 'CREATE') \
         WHEN w.its IS NOT NULL THEN pg_catalog.pg_has_role(o.oid, i.oid, 'USAGE') ELSE {anybody} END, false) ORDER BY 1",
        rows.join(", ")
    );
    Ok(connection.query(&sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Whether an entry is an object of a schema, with an owner who must be allowed to make one there.
fn is_owned(entry: &Entry) -> bool {
    let kinds = [
        "TABLE",
        "FOREIGN TABLE",
        "VIEW",
        "MATERIALIZED VIEW",
        "SEQUENCE",
        "TYPE",
        "DOMAIN",
        "FUNCTION",
        "PROCEDURE",
        "AGGREGATE",
        "OPERATOR",
        "COLLATION",
        "CONVERSION",
        "STATISTICS",
        "TEXT SEARCH DICTIONARY",
        "TEXT SEARCH CONFIGURATION",
    ];
    !entry.schema.is_empty() && kinds.contains(&entry.kind.as_str())
}

/// The names of what is denied to a role that a server may allow all the same.
fn doubts(denied: &mut Denied) -> Vec<String> {
    let role = denied.role.clone();
    let mut doubts = Vec::new();
    for (names, verb) in [
        (std::mem::take(&mut denied.extensions), "make the extension"),
        (std::mem::take(&mut denied.objects), "make the"),
        (std::mem::take(&mut denied.settings), "change what sessions begin with of the role"),
    ] {
        doubts.extend(
            names
                .into_iter()
                .map(|name| format!("whether {role} may {verb} {name} only the server knows: it is tried")),
        );
    }
    doubts
}

/// What is lacking, and the statement that mends it. Pure.
fn mended(denied: &Denied) -> Vec<Lack> {
    let role = ident(&denied.role);
    let idents = |names: &[String]| names.iter().map(|name| ident(name)).collect::<Vec<_>>().join(", ");
    let superuser = format!("ALTER ROLE {role} SUPERUSER; (or restore as a superuser)");
    let tried = format!(
        "ALTER ROLE {role} SUPERUSER; (or restore as a superuser; where the provider of the server allows more than \
         PostgreSQL does, --without-superuser tries it)"
    );
    let without = "(or leave owners and grants out with --no-owner)";
    let mut lacks = Vec::new();
    if denied.databases {
        lacks.push(Lack::new(format!("{role} may not make databases"), format!("ALTER ROLE {role} CREATEDB;")));
    }
    if let Some((database, owner)) = &denied.drop {
        let cause = format!("{role} may not drop the database {database}, which belongs to {owner}");
        lacks.push(Lack::new(cause, format!("GRANT {} TO {role};", ident(owner))));
    }
    if let Some(database) = &denied.schemas {
        let cause = format!("{role} may not make schemas in the database {database}");
        lacks.push(Lack::new(cause, format!("GRANT CREATE ON DATABASE {} TO {role};", ident(database))));
    }
    for (names, cause, mend) in [
        (
            &denied.schema,
            "make anything in schema",
            format!("GRANT CREATE ON SCHEMA {} TO {role};", idents(&denied.schema)),
        ),
        (&denied.owners, "make something belong to", format!("GRANT {} TO {role}; {without}", idents(&denied.owners))),
        (&denied.made, "make something belong to the new role", superuser.clone()),
        (&denied.inside, "give what has no right to be made there to", format!("{superuser} {without}")),
        (&denied.extensions, "make the extension", tried.clone()),
        (&denied.objects, "make, as superusers alone may, the", tried.clone()),
        (&denied.settings, "change what sessions begin with of the role", tried.clone()),
        (&denied.grantors, "grant as", format!("GRANT {} TO {role}; {without}", idents(&denied.grantors))),
    ] {
        if !names.is_empty() {
            lacks.push(Lack::new(format!("{role} may not {cause} {}", shown(names)), mend));
        }
    }
    for name in &denied.tablespaces {
        let mend = format!("GRANT CREATE ON TABLESPACE {} TO {role};", ident(name));
        lacks.push(Lack::new(format!("{role} may not put anything into the tablespace {name}"), mend));
    }
    lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_is_named_with_what_mends_it() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let nothing = Denied { role: "r".into(), ..Denied::default() };
        for (denied, cause, mend) in [
            (
                Denied { databases: true, ..nothing.clone() },
                "\"r\" may not make databases",
                "ALTER ROLE \"r\" CREATEDB;",
            ),
            (
                Denied { drop: Some(("shop".into(), "al".into())), ..nothing.clone() },
                "\"r\" may not drop the database shop, which belongs to al",
                "GRANT \"al\" TO \"r\";",
            ),
            (
                Denied { schemas: Some("my shop".into()), ..nothing.clone() },
                "\"r\" may not make schemas in the database my shop",
                "GRANT CREATE ON DATABASE \"my shop\" TO \"r\";",
            ),
            (
                Denied { owners: names(&["a", "b \"c\""]), ..nothing.clone() },
                "\"r\" may not make something belong to a, b \"c\"",
                "GRANT \"a\", \"b \"\"c\"\"\" TO \"r\"; (or leave owners and grants out with --no-owner)",
            ),
            (
                Denied { extensions: names(&["postgres_fdw"]), ..nothing.clone() },
                "\"r\" may not make the extension postgres_fdw",
                "ALTER ROLE \"r\" SUPERUSER; (or restore as a superuser; where the provider of the server allows more than \
                 PostgreSQL does, --without-superuser tries it)",
            ),
            (
                Denied { grantors: names(&["a"]), ..nothing.clone() },
                "\"r\" may not grant as a",
                "GRANT \"a\" TO \"r\"; (or leave owners and grants out with --no-owner)",
            ),
            (
                Denied { tablespaces: names(&["fast"]), ..nothing.clone() },
                "\"r\" may not put anything into the tablespace fast",
                "GRANT CREATE ON TABLESPACE \"fast\" TO \"r\";",
            ),
        ] {
            assert_eq!(mended(&denied), [Lack::new(cause, mend)]);
        }
        assert_eq!(mended(&nothing), []);
    }
}
