//! Objects of a server that belong to no database: roles, memberships, tablespaces, rights on parameters. And the list
//! of its databases.

use seawall_archive::names::{ProofName, unfinished};
use seawall_archive::preflight::Lack;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::catalog::grants::{self, Grant};
use crate::catalog::notes;
use crate::catalog::properties::labels_of;
use crate::catalog::rights;
use crate::client::{Connection, Target};
use crate::quote::{ident, literal};

/// The objects of a server outside its databases.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Globals {
    /// Roles, without those that every server has, in the order in which they were made.
    pub roles: Vec<Role>,
    /// Memberships of roles in roles.
    pub memberships: Vec<Membership>,
    /// Tablespaces, without those that every server has.
    pub tablespaces: Vec<Tablespace>,
    /// Rights on settings of the server, by their name.
    pub parameters: Vec<(String, Vec<Grant>)>,
    /// Settings for all roles in every database, as `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
}

/// A role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Its attributes, in the words of CREATE ROLE: `LOGIN`, `NOSUPERUSER` and so on.
    pub attributes: Vec<Attribute>,
    /// How many sessions it may have; -1 is any number.
    pub connections: i32,
    /// Until when its password is good.
    pub valid_until: Option<String>,
    /// Its password as the server keeps it, if that was asked for.
    pub password: Option<String>,
    /// Its comment.
    pub comment: Option<String>,
    /// Its settings in every database, as `name=value`.
    pub settings: Vec<String>,
    /// Its security labels: provider and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
}

/// An attribute of a role. A role lacks the attributes that aren't listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// It may do everything.
    Superuser,
    /// It has the rights of the roles that it is a member of.
    Inherit,
    /// Make roles.
    Createrole,
    /// Make databases.
    Createdb,
    /// Begin sessions.
    Login,
    /// Replicate.
    Replication,
    /// See rows whatever row security says.
    Bypassrls,
}

/// One role in another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// The role that has the member.
    pub role: String,
    /// The member.
    pub member: String,
    /// Whether the member may add other members.
    pub admin: bool,
    /// Whether it has the role's rights without SET ROLE; `None` if the member's own attribute decides (before version
    /// 16).
    pub inherit: Option<bool>,
    /// Whether it may become the role; `None` before version 16.
    pub set: Option<bool>,
    /// The role that granted it; `None` for the server's first superuser, and before version 16, where it doesn't
    /// matter.
    pub grantor: Option<String>,
}

/// A tablespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tablespace {
    /// Its name.
    pub name: String,
    /// The owner.
    pub owner: String,
    /// Its folder on the server.
    pub location: String,
    /// The grants; `None` if nothing was ever granted.
    pub grants: Option<Vec<Grant>>,
    /// Its options, as `name=value`.
    pub options: Vec<String>,
    /// Its comment.
    pub comment: Option<String>,
    /// Its security labels: provider and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
}

/// A connection to a server, in any of its databases.
pub(crate) async fn connect(target: &Target) -> Result<Connection, Error> {
    connect_beside(target, &[]).await
}

/// A connection to a server, in none of the databases `besides`, because no session can rename or drop its own
/// database. If `postgres` and `template1` are missing or closed, any other database is used.
pub(crate) async fn connect_beside(target: &Target, besides: &[&str]) -> Result<Connection, Error> {
    let target = &target.for_databases();
    let mut failure = None;
    for name in ["postgres", "template1"].into_iter().filter(|name| !besides.contains(name)) {
        match open_if_there(&target.with_database(name)).await? {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    // Any other database that accepts the connection can list the rest.
    let mut known: Vec<String> = besides.iter().map(|name| (*name).to_owned()).collect();
    known.extend(["postgres", "template1", &target.named, &target.database].map(str::to_owned));
    for name in known.into_iter().filter(|name| !name.is_empty()) {
        let Ok(mut inside) = open_if_there(&target.with_database(&name)).await? else { continue };
        if !besides.contains(&name.as_str()) {
            return Ok(inside);
        }
        let others = inside.query(OTHERS).await?;
        inside.close().await;
        for other in others.iter().map(|row| row.text(0)).filter(|other| !besides.contains(other)) {
            if let Ok(connection) = open_if_there(&target.with_database(other)).await? {
                return Ok(connection);
            }
        }
        break;
    }
    let nowhere = || Error::Internal("no database was looked for".to_owned());
    Err(failure.map_or_else(nowhere, |error| no_maintenance(target, &error)))
}

/// Databases that the role may connect to.
const OTHERS: &str = "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn AND datconnlimit <> -2 \
                      AND pg_catalog.has_database_privilege(oid, 'CONNECT') ORDER BY datname";

/// Opens a database. The inner error says that it is missing, closed, or not accessible to this role.
pub(crate) async fn open_if_there(target: &Target) -> Result<Result<Connection, Error>, Error> {
    match Connection::open(target).await {
        Err(error) if matches!(error.sqlstate(), Some("3D000" | "55000" | "42501")) => Ok(Err(error)),
        opened => opened.map(Ok),
    }
}

fn no_maintenance(target: &Target, error: &Error) -> Error {
    Error::Refused {
        code: "postgres.not-ready",
        object: target.to_string(),
        cause: format!(
            "databases are made, renamed and dropped from another one, and there is none to connect to: {}",
            error.cause()
        ),
        next: "CREATE DATABASE postgres; (an empty one is enough)".to_owned(),
    }
}

/// Whether a database exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// An interrupted `DROP DATABASE` left it: it accepts no connections, and can only be dropped.
    Invalid,
    Database,
}

/// A connection to the target's database. If that is missing or invalid, a connection to another database.
pub(crate) async fn connect_to_or_beside(target: &Target) -> Result<(Connection, Found), Error> {
    match Connection::open(&target.for_databases()).await {
        Ok(connection) => Ok((connection, Found::Database)),
        Err(error) if error.sqlstate() == Some("3D000") => Ok((connect(target).await?, Found::Nothing)),
        Err(error) if error.sqlstate() == Some("55000") => {
            let mut beside = connect(target).await?;
            match is_invalid(&mut beside, &target.database).await? {
                true => Ok((beside, Found::Invalid)),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

async fn is_invalid(connection: &mut Connection, name: &str) -> Result<bool, Error> {
    let sql = format!("SELECT datconnlimit = -2 FROM pg_catalog.pg_database WHERE datname = {}", literal(name));
    Ok(connection.query(&sql).await?.first().is_some_and(|row| row.flag(0)))
}

/// Why a restore doesn't take the name of an invalid database.
pub(crate) fn invalid(name: &str) -> Lack {
    let cause = format!(
        "the database {name} is invalid: an interrupted DROP DATABASE has left it, and nothing can be read of it"
    );
    Lack::new(cause, format!("DROP DATABASE {}; or replace it with --clean", ident(name)))
}

/// The databases of a server.
pub(crate) struct Databases {
    /// Databases that can be read.
    pub(crate) read: Vec<String>,
    /// Databases that a restore hasn't finished, and invalid databases.
    pub(crate) left_out: Vec<String>,
}

/// The databases of a server, without those that are excluded.
pub(crate) async fn databases(connection: &mut Connection, excluded: &[String]) -> Result<Databases, Error> {
    let sql = format!(
        "SELECT datname, datallowconn, datconnlimit = -2, \
         pg_catalog.has_database_privilege(d.oid, 'CONNECT'), current_user, {}, {} \
         FROM pg_catalog.pg_database d LEFT JOIN pg_catalog.pg_roles r ON r.oid = d.datdba \
         WHERE datname <> 'template0' ORDER BY datname",
        notes::note_column(),
        notes::CLOSED_COLUMN
    );
    let rows = connection.query(&sql).await?;
    if let Some(unknown) = excluded.iter().find(|name| !rows.iter().any(|row| row.text(0) == *name)) {
        return Err(Error::Url {
            object: unknown.clone(),
            cause: "the server has no such database to leave out".to_owned(),
            next: "correct --exclude-database, or remove it".to_owned(),
        });
    }
    let (mut databases, mut left_out) = (Vec::with_capacity(rows.len()), Vec::new());
    let mut lacks = Vec::new();
    for row in rows.iter().filter(|row| !excluded.iter().any(|name| name == row.text(0))) {
        let name = row.text(0).to_owned();
        // A restore or a proof made it, and may have closed it. The backup leaves it out by its name.
        if unfinished::is_one(&name) || ProofName::of(&name).is_some() {
            databases.push(name);
            continue;
        }
        // Nothing can be read from the invalid database that an interrupted `DROP DATABASE` leaves.
        let is_invalid = row.flag(2);
        if is_invalid || row.optional(5).is_some_and(|note| notes::is_in_the_making(&name, note, row.flag(6))) {
            left_out.push(name);
            continue;
        }
        if !row.flag(1) {
            return Err(Error::Refused {
                code: "postgres.unreadable-database",
                object: format!("database {name}"),
                cause: "it takes no connections".to_owned(),
                next: format!("mend it, or leave it out with --exclude-database '{name}'"),
            });
        }
        if !row.flag(3) {
            let mend = format!("GRANT CONNECT ON DATABASE {} TO {};", ident(&name), ident(row.text(4)));
            lacks.push(Lack::new(format!("it may not connect to database {name}"), mend));
        }
        databases.push(name);
    }
    let role = rows.first().map_or("", |row| row.text(4));
    rights::refuse(format!("role {role}"), &lacks)?;
    Ok(Databases { read: databases, left_out })
}

/// Everything except the databases. Only a superuser, or a role with SELECT on `pg_authid`, can read passwords.
pub(crate) async fn read(connection: &mut Connection, passwords: bool) -> Result<Globals, Error> {
    Ok(Globals {
        roles: roles(connection, passwords).await?,
        memberships: memberships(connection).await?,
        tablespaces: tablespaces(connection).await?,
        parameters: parameters(connection).await?,
        settings: settings(connection).await?,
    })
}

/// Whether the session's role may read the passwords of roles.
pub(crate) async fn may_read_passwords(connection: &mut Connection) -> Result<bool, Error> {
    let sql = "SELECT pg_catalog.has_table_privilege('pg_catalog.pg_authid', 'SELECT')";
    Ok(connection.one(sql).await?.flag(0))
}

const ATTRIBUTES: [(Attribute, &str); 7] = [
    (Attribute::Superuser, "rolsuper"),
    (Attribute::Inherit, "rolinherit"),
    (Attribute::Createrole, "rolcreaterole"),
    (Attribute::Createdb, "rolcreatedb"),
    (Attribute::Login, "rolcanlogin"),
    (Attribute::Replication, "rolreplication"),
    (Attribute::Bypassrls, "rolbypassrls"),
];

/// The roles that users made, and the first superuser.
pub(crate) async fn roles(connection: &mut Connection, passwords: bool) -> Result<Vec<Role>, Error> {
    let (table, password) = if passwords { ("pg_authid", "rolpassword") } else { ("pg_roles", "NULL") };
    let columns = ATTRIBUTES.map(|(_, column)| column).join(", ");
    let labels = labels_of("pg_authid", "r.oid");
    let sql = format!(
        "SELECT rolname, rolconnlimit, rolvaliduntil, {password}, pg_catalog.shobj_description(r.oid, 'pg_authid'), {labels}, \
         (SELECT coalesce(pg_catalog.json_agg(one), '[]') FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) one \
          WHERE setrole = r.oid AND setdatabase = 0), {columns} \
         FROM pg_catalog.{table} r WHERE rolname !~ '^pg_' ORDER BY r.oid"
    );
    let rows = connection.query(&sql).await;
    let rows = rows.map_err(|error| match error.sqlstate() {
        Some("42501") if passwords => Error::Refused {
            code: "postgres.no-passwords",
            object: "pg_authid".to_owned(),
            cause: "the role may not read the passwords of roles".to_owned(),
            next: "GRANT SELECT ON pg_authid TO the role, use a superuser, or leave out --role-passwords".to_owned(),
        },
        _ => error,
    })?;
    let role = |row: &crate::client::Row| {
        let has = |place: usize| row.flag(7 + place);
        Ok(Role {
            name: row.text(0).to_owned(),
            connections: row.text(1).parse().unwrap_or(-1),
            valid_until: row.optional(2).map(str::to_owned),
            password: row.optional(3).map(str::to_owned),
            comment: row.optional(4).map(str::to_owned),
            labels: list(row.text(5))?,
            settings: list(row.text(6))?,
            attributes: (0..ATTRIBUTES.len()).filter(|place| has(*place)).map(|place| ATTRIBUTES[place].0).collect(),
        })
    };
    rows.iter().map(role).collect()
}

/// The memberships of roles.
pub(crate) async fn memberships(connection: &mut Connection) -> Result<Vec<Membership>, Error> {
    let options = match connection.version {
        160_000.. => {
            "inherit_option, set_option, CASE WHEN grantor = 10 THEN NULL ELSE pg_catalog.pg_get_userbyid(grantor) END"
        }
        _ => "NULL, NULL, NULL",
    };
    let sql = format!(
        "SELECT pg_catalog.pg_get_userbyid(roleid), pg_catalog.pg_get_userbyid(member), admin_option, {options} FROM pg_catalog.pg_auth_members \
         WHERE NOT (pg_catalog.pg_get_userbyid(member) ~ '^pg_' AND pg_catalog.pg_get_userbyid(roleid) ~ '^pg_') ORDER BY 1, 2, 6"
    );
    let truth = |row: &crate::client::Row, column| row.optional(column).map(|value| value == "t");
    let rows = connection.query(&sql).await?;
    let membership = |row: &crate::client::Row| Membership {
        role: row.text(0).to_owned(),
        member: row.text(1).to_owned(),
        admin: row.flag(2),
        inherit: truth(row, 3),
        set: truth(row, 4),
        grantor: row.optional(5).map(str::to_owned),
    };
    Ok(rows.iter().map(membership).collect())
}

async fn tablespaces(connection: &mut Connection) -> Result<Vec<Tablespace>, Error> {
    let (grants, labels) = (grants::query("spcacl", "spcowner"), labels_of("pg_tablespace", "t.oid"));
    let sql = format!(
        "SELECT spcname, pg_catalog.pg_get_userbyid(spcowner), pg_catalog.pg_tablespace_location(t.oid), spcacl IS NOT NULL, {grants}, \
         (SELECT coalesce(pg_catalog.json_agg(one), '[]') FROM pg_catalog.unnest(spcoptions) one), pg_catalog.shobj_description(t.oid, 'pg_tablespace'), \
         {labels} FROM pg_catalog.pg_tablespace t WHERE spcname !~ '^pg_' ORDER BY t.oid"
    );
    let rows = connection.query(&sql).await?;
    let tablespace = |row: &crate::client::Row| {
        Ok(Tablespace {
            name: row.text(0).to_owned(),
            owner: row.text(1).to_owned(),
            location: row.text(2).to_owned(),
            grants: if row.flag(3) { Some(list(row.text(4))?) } else { None },
            options: list(row.text(5))?,
            comment: row.optional(6).map(str::to_owned),
            labels: list(row.text(7))?,
        })
    };
    rows.iter().map(tablespace).collect()
}

async fn parameters(connection: &mut Connection) -> Result<Vec<(String, Vec<Grant>)>, Error> {
    if connection.version < 150_000 {
        return Ok(Vec::new());
    }
    // The first superuser's rights on its server aren't grants.
    let sql = "
SELECT parname, pg_catalog.json_agg(pg_catalog.json_build_array(
           CASE WHEN a.grantee = 0 THEN '' ELSE pg_catalog.pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable,
           CASE WHEN a.grantor <> 10 THEN pg_catalog.pg_get_userbyid(a.grantor) END))
FROM pg_catalog.pg_parameter_acl, pg_catalog.aclexplode(paracl) a WHERE a.grantee <> 10 GROUP BY parname ORDER BY parname";
    let rows = connection.query(sql).await?;
    rows.iter().map(|row| Ok((row.text(0).to_owned(), list(row.text(1))?))).collect()
}

async fn settings(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT coalesce(pg_catalog.json_agg(one), '[]') \
               FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) one \
               WHERE setrole = 0 AND setdatabase = 0";
    list(connection.one(sql).await?.text(0))
}

fn list<T: serde::de::DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    serde_json::from_str(text).map_err(|error| Error::Internal(format!("a list of the server: {error}")))
}
