//! What a target must have before a restore begins, and the commands that mend what it lacks.
//!
//! The room: `restorer` (what may the role not do?), `roles`,
//! `memberships`, `parameters` and `tablespaces` (which does the server lack, and what differs?), `grantors` (grants by
//! others), `bound` (extensions that need a database's name), `space` (is there room?).

pub(crate) mod bound;
pub(crate) mod grantors;
pub(crate) mod memberships;
pub(crate) mod parameters;
pub(crate) mod restorer;
pub(crate) mod roles;
pub(crate) mod space;
pub(crate) mod tablespaces;

use std::collections::BTreeSet;
use std::path::Path;

use seawall_archive::preflight::{self as archive, Lack, Look};

pub(crate) use crate::error::refuse;

use crate::Error;
use crate::catalog::globals::{Globals, Tablespace};
use crate::catalog::grants;
use crate::catalog::locks;
use crate::catalog::properties::Properties;
use crate::catalog::records::{After, Needs};
use crate::catalog::rights::shown;
use crate::client::{Connection, Target, TextEncoding};
use crate::detail::SetDetail;
use crate::preflight::restorer::{Deeds, Destination};
use crate::quote::{ident, literal};
use crate::schema::replica;
use crate::schema::toc::{self, Entry};

/// What is to be restored, and where.
pub(crate) struct Request<'a> {
    pub(crate) detail: &'a SetDetail,
    /// The database in the end.
    pub(crate) database: &'a str,
    pub(crate) into: Destination,
    /// What is made.
    pub(crate) entries: &'a [Entry],
    /// Whether all of it is made in one transaction.
    pub(crate) at_once: bool,
    pub(crate) after: &'a After,
    /// What the set says of the roles and tablespaces of its server, if anything.
    pub(crate) known: &'a Globals,
    /// Roles that are made first.
    pub(crate) made: &'a [String],
    /// Whether owners and grants are restored.
    pub(crate) owners: bool,
    /// Whether what PostgreSQL leaves to superusers is tried.
    pub(crate) tries: bool,
    /// Whether the whole database is: large objects, extensions and its own properties.
    pub(crate) whole: bool,
}

impl Request<'_> {
    /// Who gets to own something.
    fn owners(&self) -> BTreeSet<&str> {
        if !self.owners {
            return BTreeSet::new();
        }
        let mut owners = toc::owners(self.entries);
        if self.whole {
            owners.extend(self.after.large_objects.iter().map(|object| object.owner.as_str()));
            owners.insert(&self.after.properties.owner);
        }
        owners
    }

    /// Every role that must be there: owners, those that grants name, and those that policies and user mappings are for,
    /// which are restored without owners as well.
    fn roles(&self) -> BTreeSet<String> {
        let mut roles: BTreeSet<String> = self.owners().into_iter().map(str::to_owned).collect();
        roles.extend(self.entries.iter().filter(|entry| self.owners || !entry.is_grant()).flat_map(toc::roles));
        if self.owners && self.whole {
            let Properties { settings, grants, .. } = &self.after.properties;
            roles.extend(settings.iter().filter_map(|(role, _)| role.clone()));
            let objects = self.after.large_objects.iter().filter_map(|object| object.grants.as_ref());
            let grants = grants.iter().chain(objects).flatten();
            roles.extend(grants.flat_map(|one| grants::roles(std::slice::from_ref(one))).map(str::to_owned));
        }
        roles.retain(|role| !role.is_empty());
        roles
    }

    /// Who granted something that isn't theirs.
    fn grantors(&self) -> BTreeSet<String> {
        if !self.owners {
            return BTreeSet::new();
        }
        let mut grantors: BTreeSet<String> = self.entries.iter().flat_map(toc::grantors).collect();
        if self.whole {
            let objects = self.after.large_objects.iter().filter_map(|object| object.grants.as_ref());
            let grants = self.after.properties.grants.iter().chain(objects).flatten();
            grantors.extend(grants.filter_map(|grant| grant.grantor.clone()));
        }
        grantors
    }

    fn extensions(&self) -> BTreeSet<&str> {
        if self.whole {
            return self.detail.extensions.iter().map(String::as_str).collect();
        }
        self.entries.iter().filter(|entry| entry.kind == "EXTENSION").map(|entry| entry.tag.as_str()).collect()
    }

    fn tablespaces(&self) -> BTreeSet<&str> {
        let spaces = self.entries.iter().map(|entry| entry.tablespace.as_str());
        let mut spaces: BTreeSet<&str> = spaces.filter(|space| !space.is_empty()).collect();
        if self.whole {
            spaces.extend(self.detail.locale.tablespace.as_deref());
        }
        spaces
    }

    /// What of it not every role may do.
    fn deeds(&self) -> Deeds<'_> {
        let settings = self.after.properties.settings.iter().filter_map(|(role, _)| role.as_deref());
        let is_new = self.into != Destination::Existing;
        Deeds {
            database: self.database,
            into: self.into,
            tries: self.tries,
            grantors: self.grantors(),
            entries: self.entries,
            owners: self.owners(),
            made: self.made,
            settings: settings.filter(|_| self.owners && is_new).collect(),
            extensions: self.extensions(),
            tablespaces: self.tablespaces(),
        }
    }
}

/// Everything that the target lacks, and what is in doubt.
pub(crate) async fn look(connection: &mut Connection, request: &Request<'_>) -> Result<Look, Error> {
    let mut lacks = Vec::new();
    let wanted = request.detail.server_version / 10_000;
    if connection.version / 10_000 < wanted {
        let cause =
            format!("the server is version {}, older than the {wanted} of the set", connection.version / 10_000);
        lacks.push(Lack::new(cause, format!("restore into version {wanted} or later")));
    }
    let encoding = request.detail.text_encoding().unwrap_or_default();
    for role in missing_roles(connection, encoding, request.roles()).await? {
        if request.made.contains(&role) {
            continue;
        }
        let as_it_was = request.known.roles.iter().find(|known| known.name == role).map(roles::create_plainly);
        let create = as_it_was.unwrap_or_else(|| format!("CREATE ROLE {};", ident(&role)));
        lacks.push(Lack::new(format!("the role {role} is missing"), create));
    }
    for name in
        missing(connection, "SELECT name FROM pg_catalog.pg_available_extensions", &request.extensions()).await?
    {
        let cause = format!("the extension {name} is not installed");
        lacks.push(Lack::new(cause, format!("install the package that has {name}")));
    }
    for name in missing(connection, "SELECT spcname FROM pg_catalog.pg_tablespace", &request.tablespaces()).await? {
        let as_it_was = request.known.tablespaces.iter().find(|known| known.name == name);
        lacks.push(missing_tablespace(name, as_it_was));
    }
    if request.at_once {
        lacks.extend(locks(connection, request.entries).await?);
    }
    let may = restorer::look(connection, &request.deeds()).await?;
    lacks.extend(may.lacks);
    if request.into == Destination::Existing {
        lacks.extend(elsewhere(connection, request.entries).await?);
    }
    if request.into == (Destination::New { replaces: true }) {
        lacks.extend(subscribed(connection, request.database).await?);
    }
    let bound = bound::look(connection, &request.extensions(), request.database, request.into).await?;
    lacks.extend(bound.lacks);
    Ok(Look { lacks, doubts: may.doubts, later: bound.later })
}

/// Extensions that the target has in another schema than the set.
async fn elsewhere(connection: &mut Connection, entries: &[Entry]) -> Result<Vec<Lack>, Error> {
    let wanted = entries.iter().filter(|entry| entry.kind == "EXTENSION");
    let wanted: Vec<(&str, &str)> = wanted.filter_map(|entry| Some((entry.tag.as_str(), schema_of(entry)?))).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT e.extname, n.nspname, pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e \
               JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace ORDER BY 1";
    let rows = connection.query(sql).await?;
    let other = |row: &crate::client::Row| {
        let (_, schema) = wanted.iter().find(|(name, _)| *name == row.text(0))?;
        let name = row.text(0);
        (*schema != row.text(2) && *schema != ident(row.text(1))).then(|| {
            let cause = format!("the extension {name} is in the schema {}, and in the set in {schema}", row.text(1));
            Lack::new(cause, format!("ALTER EXTENSION {} SET SCHEMA {schema};", ident(name)))
        })
    };
    Ok(rows.iter().filter_map(other).collect())
}

/// The schema into which an entry makes its extension, as SQL.
fn schema_of(entry: &Entry) -> Option<&str> {
    let (_, schema) = entry.statement.rsplit_once(" WITH SCHEMA ")?;
    Some(schema.trim_end().trim_end_matches(';'))
}

/// A database with subscriptions can't be dropped.
pub(crate) async fn subscribed(connection: &mut Connection, database: &str) -> Result<Option<Lack>, Error> {
    let sql = "SELECT subname FROM pg_catalog.pg_subscription JOIN pg_catalog.pg_database d ON d.oid = subdbid \
               WHERE datname = ";
    let rows = connection.query(&format!("{sql}{} ORDER BY 1", literal(database))).await?;
    let names: Vec<&str> = rows.iter().map(|row| row.text(0)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let cause =
        format!("the database {database} can't be dropped, because it has the subscription {}", names.join(", "));
    let drops: Vec<String> = names.iter().map(|name| format!("DROP SUBSCRIPTION {};", ident(name))).collect();
    let beside = "where the publisher is gone, ALTER SUBSCRIPTION … DISABLE and … SET (slot_name = NONE) first";
    Ok(Some(Lack::new(cause, format!("{} (in {database}; {beside})", drops.join(" ")))))
}

/// What else an artefact of `pg_dump` needs: roles, where `owners` are restored, and tablespaces. `encoding` is that of their
/// names.
pub(crate) async fn lacks_beside(
    connection: &mut Connection,
    needs: &Needs,
    encoding: TextEncoding,
    owners: bool,
) -> Result<Vec<Lack>, Error> {
    let mut lacks = Vec::new();
    let wanted = needs.roles.iter().filter(|_| owners).cloned().collect();
    for role in missing_roles(connection, encoding, wanted).await? {
        lacks.push(Lack::new(format!("the role {role} is missing"), format!("CREATE ROLE {};", ident(&role))));
    }
    let wanted = needs.tablespaces.iter().map(String::as_str).collect();
    for name in missing(connection, "SELECT spcname FROM pg_catalog.pg_tablespace", &wanted).await? {
        lacks.push(missing_tablespace(name, None));
    }
    Ok(lacks)
}

/// A tablespace that is missing, and how it was made, if that is known.
fn missing_tablespace(name: String, known: Option<&Tablespace>) -> Lack {
    let nowhere = Tablespace { name, location: "/a/folder/of/the/server".to_owned(), ..Tablespace::default() };
    tablespaces::missing(known.unwrap_or(&nowhere))
}

/// A server on this host has its data where we can look: is there room for a database of `size` bytes?
pub(crate) async fn room(connection: &mut Connection, size: u64) -> Result<Option<Lack>, Error> {
    let folder = match connection.one("SELECT pg_catalog.current_setting('data_directory')").await {
        Ok(row) => row.text(0).to_owned(),
        // Not every role may know; then the server tells when it is full.
        Err(error) if error.sqlstate() == Some("42501") => return Ok(None),
        Err(error) => return Err(error),
    };
    let cause = space::free(Path::new(&folder)).and_then(|free| archive::no_room(free, size));
    let mend = || format!("make room on the disk of {folder}, or name a server that has it");
    Ok(cause.map(|cause| Lack::new(cause, mend())))
}

/// The schema is made in one transaction, which holds a lock on everything that it makes.
async fn locks(connection: &mut Connection, entries: &[Entry]) -> Result<Option<Lack>, Error> {
    locks::lack(connection, "the schema", entries.iter().map(|entry| locks_of(&entry.kind)).sum()).await
}

/// How many locks it takes to make an object of a kind.
fn locks_of(kind: &str) -> u64 {
    match kind {
        // Itself, the table for its large values and that one's index.
        "TABLE" | "MATERIALIZED VIEW" => 3,
        "SEQUENCE" | "VIEW" | "FOREIGN TABLE" => 1,
        _ => 0,
    }
}

/// Rows alone are loaded without firing triggers, which not every role may ask for.
pub(crate) async fn may_turn_triggers_off(connection: &mut Connection) -> Result<Option<Lack>, Error> {
    if replica::may(connection).await? {
        return Ok(None);
    }
    let role = connection.one("SELECT current_user").await?;
    let cause = "the role may not load rows without firing triggers".to_owned();
    let role = ident(role.text(0));
    Ok(Some(Lack::new(
        cause,
        format!("GRANT SET ON PARAMETER session_replication_role TO {role}; (or use a superuser)"),
    )))
}

/// Rows alone go into tables that are there, by who may add to them.
pub(crate) async fn may_add_rows(connection: &mut Connection, tables: &[(&str, &str)]) -> Result<Vec<Lack>, Error> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<String> =
        tables.iter().map(|(schema, name)| format!("({}, {})", literal(schema), literal(name))).collect();
    let sql = format!(
        "SELECT w.schema || '.' || w.name, c.oid IS NULL, pg_catalog.format('%I', w.schema), current_user \
         FROM (VALUES {}) w(schema, name) LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema \
         LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p') \
         WHERE c.oid IS NULL OR NOT (pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
         AND pg_catalog.has_table_privilege(c.oid, 'SELECT') \
         AND pg_catalog.has_table_privilege(c.oid, 'INSERT')) ORDER BY 1",
        rows.join(", ")
    );
    let rows = connection.query(&sql).await?;
    let names = |gone| rows.iter().filter(|row| row.flag(1) == gone).map(|row| row.text(0).to_owned()).collect();
    let (gone, closed): (Vec<String>, Vec<String>) = (names(true), names(false));
    let mut lacks = Vec::new();
    if !gone.is_empty() {
        let cause = format!("--data-only needs tables that are there, and there is no {}", shown(&gone));
        lacks.push(Lack::new(cause, "restore them with --table instead, or make them;"));
    }
    if !closed.is_empty() {
        let schemas: BTreeSet<&str> = rows.iter().filter(|row| !row.flag(1)).map(|row| row.text(2)).collect();
        let role = ident(rows.first().map_or("", |row| row.text(3)));
        let grant = |schema: &&str| {
            format!(
                "GRANT USAGE ON SCHEMA {schema} TO {role}; \
                 GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {role};"
            )
        };
        let mends: Vec<String> = schemas.iter().map(grant).collect();
        lacks.push(Lack::new(format!("{role} may not add rows to {}", shown(&closed)), mends.join(" ")));
    }
    Ok(lacks)
}

/// The roles that aren't there, of those that a set names in an encoding. Names of roles are compared by their bytes, because
/// no database knows in which encoding another one has written them. Returned as they read in UTF-8.
async fn missing_roles(
    connection: &mut Connection,
    encoding: TextEncoding,
    wanted: BTreeSet<String>,
) -> Result<Vec<String>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let its = connection.encoding;
    connection.speak(TextEncoding::AS_IT_IS).await?;
    let rows = connection.query("SELECT rolname FROM pg_catalog.pg_roles").await?;
    connection.speak(its).await?;
    let there: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
    let is_there = |role: &String| there.contains(&*encoding.respelled(role, TextEncoding::AS_IT_IS));
    let missing = wanted.iter().filter(|role| !is_there(role));
    Ok(missing.map(|role| encoding.respelled(role, TextEncoding::UTF8)).collect())
}

async fn missing(connection: &mut Connection, sql: &str, wanted: &BTreeSet<&str>) -> Result<Vec<String>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let rows = connection.query(sql).await?;
    let there: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
    Ok(wanted.iter().filter(|name| !there.contains(**name)).map(|name| (*name).to_owned()).collect())
}

/// The statement that makes a database as the source's was, for who restores into `target`.
pub(crate) fn create_database(name: &str, target: &Target, detail: &SetDetail, version: u32) -> String {
    let locale = &detail.locale;
    let mut sql = format!(
        "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}",
        ident(name),
        literal(&locale.encoding),
        literal(&locale.collate),
        literal(&locale.ctype)
    );
    match (locale.provider.as_str(), &locale.locale) {
        ("i", Some(name)) => {
            sql.push_str(&format!(" LOCALE_PROVIDER icu ICU_LOCALE {}", literal(name)));
            if let Some(rules) = locale.rules.as_ref().filter(|_| version >= 160_000) {
                sql.push_str(&format!(" ICU_RULES {}", literal(rules)));
            }
        }
        ("b", Some(name)) => sql.push_str(&format!(" LOCALE_PROVIDER builtin BUILTIN_LOCALE {}", literal(name))),
        // The target's own template may have another provider.
        _ if version >= 150_000 => sql.push_str(" LOCALE_PROVIDER libc"),
        _ => {}
    }
    if let Some(tablespace) = &locale.tablespace {
        sql.push_str(&format!(" TABLESPACE {}", ident(tablespace)));
    }
    if target.keeper().is_some() {
        sql.push_str(&format!(" OWNER {}", ident(&target.user)));
    }
    sql
}
