//! What a target must have before a restore begins, and the commands that mend what it lacks.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Error;
use crate::client::Connection;
use crate::client::quote::{ident, literal};
use crate::detail::{After, Needs, SetDetail};
use crate::globals::{Globals, Tablespace};
use crate::properties::Properties;
use crate::restorer::{self, Deeds, Destination};
use crate::rights::shown;
use crate::roles;
use crate::space;
use crate::toc::{self, Entry};

/// What a target lacks: what, and the command that mends it.
pub(crate) type Lack = (String, String);

/// What is to be restored, and where.
pub(crate) struct Request<'a> {
    pub(crate) detail: &'a SetDetail,
    /// The database in the end.
    pub(crate) database: &'a str,
    pub(crate) into: Destination,
    /// What is made.
    pub(crate) entries: &'a [Entry],
    pub(crate) after: &'a After,
    /// What the set says of the roles and tablespaces of its server, if anything.
    pub(crate) known: &'a Globals,
    /// Roles that are made first.
    pub(crate) made: &'a [String],
    /// Whether owners and grants are restored.
    pub(crate) owners: bool,
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
        let is_grant = |entry: &&Entry| matches!(entry.kind.as_str(), "ACL" | "DEFAULT ACL");
        roles.extend(self.entries.iter().filter(|entry| self.owners || !is_grant(entry)).flat_map(toc::roles));
        if self.owners && self.whole {
            let Properties { settings, grants, .. } = &self.after.properties;
            roles.extend(settings.iter().filter_map(|(role, _)| role.clone()));
            let objects = self.after.large_objects.iter().filter_map(|object| object.grants.as_ref());
            let grants = grants.iter().chain(objects).flatten();
            roles.extend(grants.map(|(grantee, ..)| grantee.clone()));
        }
        roles.retain(|role| !role.is_empty() && !self.made.contains(role));
        roles
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
            entries: self.entries,
            owners: self.owners(),
            made: self.made,
            settings: settings.filter(|_| self.owners && is_new).collect(),
            extensions: self.extensions(),
            tablespaces: self.tablespaces(),
        }
    }
}

/// Everything that the target lacks.
pub(crate) async fn lacks(connection: &mut Connection, request: &Request<'_>) -> Result<Vec<Lack>, Error> {
    let mut lacks = Vec::new();
    let wanted = request.detail.server_version / 10_000;
    if connection.version / 10_000 < wanted {
        let cause =
            format!("the server is version {}, older than the {wanted} of the set", connection.version / 10_000);
        lacks.push((cause, format!("restore into version {wanted} or later")));
    }
    let roles = request.roles();
    for role in missing(connection, "SELECT rolname FROM pg_roles", &roles.iter().map(String::as_str).collect()).await?
    {
        let as_it_was = request.known.roles.iter().find(|known| known.name == role).map(roles::create_plainly);
        let create = as_it_was.unwrap_or_else(|| format!("CREATE ROLE {};", ident(&role)));
        lacks.push((format!("the role {role} is missing"), create));
    }
    for name in missing(connection, "SELECT name FROM pg_available_extensions", &request.extensions()).await? {
        lacks.push((format!("the extension {name} is not installed"), format!("install the package that has {name}")));
    }
    for name in missing(connection, "SELECT spcname FROM pg_tablespace", &request.tablespaces()).await? {
        let as_it_was = request.known.tablespaces.iter().find(|known| known.name == name);
        lacks.push(missing_tablespace(name, as_it_was));
    }
    lacks.extend(locks(connection, request.entries).await?);
    lacks.extend(restorer::lacks(connection, &request.deeds()).await?);
    if request.into == (Destination::New { replaces: true }) {
        lacks.extend(subscribed(connection, request.database).await?);
    }
    Ok(lacks)
}

/// A database with subscriptions can't be dropped.
pub(crate) async fn subscribed(connection: &mut Connection, database: &str) -> Result<Option<Lack>, Error> {
    let sql = "SELECT subname FROM pg_subscription JOIN pg_database d ON d.oid = subdbid WHERE datname = ";
    let rows = connection.query(&format!("{sql}{} ORDER BY 1", literal(database))).await?;
    let names: Vec<&str> = rows.iter().map(|row| row.text(0)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let cause =
        format!("the database {database} can't be dropped, because it has the subscription {}", names.join(", "));
    let drops: Vec<String> = names.iter().map(|name| format!("DROP SUBSCRIPTION {};", ident(name))).collect();
    let beside = "where the publisher is gone, ALTER SUBSCRIPTION … DISABLE and … SET (slot_name = NONE) first";
    Ok(Some((cause, format!("{} (in {database}; {beside})", drops.join(" ")))))
}

/// What else an artefact of `pg_dump` needs: roles, where `owners` are restored, and tablespaces.
pub(crate) async fn lacks_beside(connection: &mut Connection, needs: &Needs, owners: bool) -> Result<Vec<Lack>, Error> {
    let mut lacks = Vec::new();
    let wanted = needs.roles.iter().filter(|_| owners).map(String::as_str).collect();
    for role in missing(connection, "SELECT rolname FROM pg_roles", &wanted).await? {
        lacks.push((format!("the role {role} is missing"), format!("CREATE ROLE {};", ident(&role))));
    }
    let wanted = needs.tablespaces.iter().map(String::as_str).collect();
    for name in missing(connection, "SELECT spcname FROM pg_tablespace", &wanted).await? {
        lacks.push(missing_tablespace(name, None));
    }
    Ok(lacks)
}

/// A tablespace that is missing, and how it was made, if that is known.
fn missing_tablespace(name: String, known: Option<&Tablespace>) -> Lack {
    let nowhere = Tablespace { name, location: "/a/folder/of/the/server".to_owned(), ..Tablespace::default() };
    roles::tablespace(known.unwrap_or(&nowhere))
}

/// A server on this host has its data where we can look: is there room for a database of `size` bytes?
pub(crate) async fn room(connection: &mut Connection, size: u64) -> Result<Option<Lack>, Error> {
    let folder = match connection.one("SELECT current_setting('data_directory')").await {
        Ok(row) => row.text(0).to_owned(),
        // Not every role may know; then the server tells when it is full.
        Err(error) if error.sqlstate() == Some("42501") => return Ok(None),
        Err(error) => return Err(error),
    };
    let cause = space::free(Path::new(&folder)).and_then(|free| space::lack(free, size));
    let mend = || format!("make room on the disk of {folder}, or name a server that has it");
    Ok(cause.map(|cause| (cause, mend())))
}

/// The schema is made in one transaction, which holds a lock on everything that it makes.
async fn locks(connection: &mut Connection, entries: &[Entry]) -> Result<Option<Lack>, Error> {
    lock_lack(connection, "the schema", entries.iter().map(|entry| locks_of(&entry.kind)).sum()).await
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

/// What is lacking for so many locks at once, if anything. To find out by taking them would leave others without any.
pub(crate) async fn lock_lack(connection: &mut Connection, what: &str, needed: u64) -> Result<Option<Lack>, Error> {
    // One share for each session that there may be, those of the server itself included.
    let sql = "SELECT current_setting('max_locks_per_transaction')::bigint, \
               1 + current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint \
               + current_setting('max_worker_processes')::bigint + current_setting('max_wal_senders')::bigint \
               + coalesce(current_setting('autovacuum_worker_slots', true), current_setting('autovacuum_max_workers'))::bigint";
    let row = connection.one(sql).await?;
    let (each, sessions) = (row.number(0), row.number(1).max(1));
    if needed <= each.saturating_mul(sessions) {
        return Ok(None);
    }
    let cause = format!("{what} needs about {needed} locks, and the server has room for {}", each * sessions);
    let mend =
        format!("max_locks_per_transaction = {} in postgresql.conf, and a restart", needed.div_ceil(sessions) + 64);
    Ok(Some((cause, mend)))
}

/// Rows alone are loaded without firing triggers, which not every role may ask for.
pub(crate) async fn may_turn_triggers_off(connection: &mut Connection) -> Result<Option<Lack>, Error> {
    let role = connection.one("SELECT current_user").await?;
    match connection.execute("SET session_replication_role = replica").await {
        Ok(()) => Ok(None),
        Err(error) if error.sqlstate() == Some("42501") => {
            let cause = "the role may not load rows without firing triggers".to_owned();
            let role = ident(role.text(0));
            Ok(Some((
                cause,
                format!("GRANT SET ON PARAMETER session_replication_role TO {role}; (or use a superuser)"),
            )))
        }
        Err(error) => Err(error),
    }
}

/// Rows alone go into tables that are there, by who may add to them.
pub(crate) async fn may_add_rows(connection: &mut Connection, tables: &[(&str, &str)]) -> Result<Vec<Lack>, Error> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<String> =
        tables.iter().map(|(schema, name)| format!("({}, {})", literal(schema), literal(name))).collect();
    let sql = format!(
        "SELECT w.schema || '.' || w.name, c.oid IS NULL, format('%I', w.schema), current_user \
         FROM (VALUES {}) w(schema, name) LEFT JOIN pg_namespace n ON n.nspname = w.schema \
         LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name \
         WHERE c.oid IS NULL OR NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') \
         AND has_table_privilege(c.oid, 'INSERT')) ORDER BY 1",
        rows.join(", ")
    );
    let rows = connection.query(&sql).await?;
    let names = |gone| rows.iter().filter(|row| row.flag(1) == gone).map(|row| row.text(0).to_owned()).collect();
    let (gone, closed): (Vec<String>, Vec<String>) = (names(true), names(false));
    let mut lacks = Vec::new();
    if !gone.is_empty() {
        let cause = format!("--data-only needs tables that are there, and there is no {}", shown(&gone));
        lacks.push((cause, "restore them with --table instead, or make them;".to_owned()));
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
        lacks.push((format!("{role} may not add rows to {}", shown(&closed)), mends.join(" ")));
    }
    Ok(lacks)
}

async fn missing(connection: &mut Connection, sql: &str, wanted: &BTreeSet<&str>) -> Result<Vec<String>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let rows = connection.query(sql).await?;
    let there: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
    Ok(wanted.iter().filter(|name| !there.contains(**name)).map(|name| (*name).to_owned()).collect())
}

/// Refuses when there is anything.
pub(crate) fn refuse(target: &str, lacks: &[Lack]) -> Result<(), Error> {
    if lacks.is_empty() {
        return Ok(());
    }
    let causes: Vec<&str> = lacks.iter().map(|(cause, _)| cause.as_str()).collect();
    let mends: Vec<&str> = lacks.iter().map(|(_, mend)| mend.as_str()).collect();
    Err(Error::Refused {
        code: "postgres.not-ready",
        object: target.to_owned(),
        cause: causes.join("; "),
        next: mends.join(" "),
    })
}

/// The statement that makes a database as the source's was.
pub(crate) fn create_database(name: &str, detail: &SetDetail, version: u32) -> String {
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
    sql
}
