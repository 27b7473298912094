//! What does a target lack for a set? Looked at before anything is written, and told all together, with what mends it.
//!
//! The room: `crossing` (what the target's server doesn't know), `packets` (which rows are too large for a statement?).

pub(crate) mod crossing;
pub(crate) mod packets;

use std::collections::BTreeSet;
use std::path::Path;

pub(crate) use seawall_archive::preflight::Look;
use seawall_archive::preflight::{self as archive, Lack};

use crate::Error;
use crate::catalog::facts::Facts;
use crate::catalog::rights::Account;
use crate::client::quote::{name, text};
use crate::client::{Connection, Host, Target};
use crate::detail::ItemDetail;
use crate::preflight::crossing::{Brings, Has};
use crate::schema::objects::definers;
use crate::schema::{StoredKind, StoredObject};
use crate::set::Set;
use crate::set::definers::Definers;
use crate::set::scope::Scope;

/// What is restored, and where it goes.
pub(crate) struct Request<'a> {
    pub(crate) set: &'a Set,
    pub(crate) what: &'a Scope<'a>,
    pub(crate) target: &'a Target,
    /// The database of an unfinished name.
    pub(crate) made: &'a str,
    /// The wanted database.
    pub(crate) wanted: &'a str,
    /// Accounts that the same restore makes first, as `user@host`.
    pub(crate) accounts: &'a BTreeSet<String>,
}

/// What the session and its server are like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Server {
    pub(crate) facts: Facts,
    /// Whether `LOAD DATA LOCAL` is allowed.
    pub(crate) infile: bool,
    is_read_only: bool,
    /// Whether only superusers make functions and triggers.
    distrusts_functions: bool,
    /// Whether it takes no events at all.
    takes_no_events: bool,
}

impl Server {
    /// Asks the server.
    pub(crate) async fn look(connection: &mut Connection) -> Result<Self, Error> {
        let facts = Facts::look(connection).await?;
        let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('local_infile', 'read_only', 'super_read_only', 'log_bin', \
                   'log_bin_trust_function_creators', 'event_scheduler')";
        let rows = connection.query(sql).await?;
        let is_on = |wanted: &str| rows.iter().any(|row| row.text(0) == wanted && matches!(row.text(1), "ON" | "1"));
        Ok(Self {
            facts,
            infile: is_on("local_infile"),
            is_read_only: is_on("read_only") || is_on("super_read_only"),
            distrusts_functions: is_on("log_bin") && !is_on("log_bin_trust_function_creators"),
            takes_no_events: rows.iter().any(|row| row.text(0) == "event_scheduler" && row.text(1) == "DISABLED"),
        })
    }
}

/// Refuses a target that lacks something.
pub(crate) fn refuse(target: &str, lacks: &[Lack]) -> Result<(), Error> {
    let Some((cause, next)) = Lack::told(lacks) else { return Ok(()) };
    Err(Error::Refused { code: "mysql.not-ready", object: target.to_owned(), cause, next })
}

/// What a target lacks for a set.
pub(crate) async fn look(connection: &mut Connection, server: &Server, request: &Request<'_>) -> Result<Look, Error> {
    let Request { set, what, .. } = request;
    let has = has(connection, &server.facts).await?;
    let statements: Vec<(&str, &str, String)> = set
        .schema
        .tables
        .iter()
        .filter(|table| what.has(&table.name))
        .map(|table| (table.name.as_str(), table.engine.as_str(), table.statement.text().into_owned()))
        .collect();
    let views: Vec<(&str, String)> = set
        .schema
        .views
        .iter()
        .filter(|_| what.is_whole())
        .map(|view| (view.name.as_str(), view.statement.text().into_owned()))
        .collect();
    let database = set.schema.database.text();
    let histories = set.items.iter().filter_map(|item| match item {
        Some(ItemDetail::Table { name, history: true, .. }) if what.has(name) => Some(name.as_str()),
        _ => None,
    });
    let sequences = set.schema.sequences.iter().map(|sequence| sequence.name.as_str());
    let brings = Brings {
        server: set.server.clone(),
        database: if what.is_whole() { &database } else { "" },
        tables: statements.iter().map(|(name, engine, statement)| (*name, *engine, statement.as_str())).collect(),
        sequences: sequences.filter(|name| what.has(name)).collect(),
        histories: histories.collect(),
        views: views.iter().map(|(name, statement)| (*name, statement.as_str())).collect(),
    };
    // Rows alone need no table of ours.
    let mut look = match what.options.data_only {
        true => Look::default(),
        false => crossing::look(&brings, &has),
    };
    if server.is_read_only {
        let mend = "SET GLOBAL read_only = OFF; (or name another server)";
        look.lacks.push(Lack::new("the server is read-only", mend));
    }
    if !server.infile {
        look.doubts.push("local_infile is OFF, so that rows go by INSERT, which is slower".to_owned());
    }
    let objects = objects(set, what);
    look.lacks.extend(rights(connection, server, request, &objects).await?);
    look.lacks.extend(missing_definers(connection, request, &objects).await?);
    look.lacks.extend(missing_zones(connection, &objects).await?);
    if !what.options.data_only {
        let statements = statements.iter().map(|(_, _, statement)| statement.as_str());
        look.lacks.extend(missing_tablespaces(connection, crossing::tablespaces(statements)).await?);
    }
    if server.takes_no_events && objects.iter().any(|object| object.kind == StoredKind::Event) {
        let cause = "the server runs with event_scheduler=DISABLED, and takes no events";
        look.lacks.push(Lack::new(cause, "start the server with event_scheduler=OFF (or ON)"));
    }
    let largest = objects.iter().map(|object| object.statement.bytes().len()).max().unwrap_or_default() as u64;
    if largest >= connection.max_packet {
        let cause = format!("a statement has {largest} bytes, and the server takes {}", connection.max_packet);
        look.lacks.push(Lack::new(cause, format!("SET GLOBAL max_allowed_packet = {};", largest.saturating_mul(2))));
    }
    packets::look(set, what, server, connection.max_packet, &mut look);
    if what.is_whole() && matches!(request.target.host, Host::Socket(_)) {
        look.lacks.extend(room(connection, set.detail.size).await?);
    }
    let has = |definer: &str| objects.iter().any(|object| object.definer == definer);
    look.doubts.extend(
        what.definers.unused(has).map(|definer| format!("nothing is defined by {definer}, which --definer names")),
    );
    if what.definers.are_stripped() && !objects.is_empty() {
        look.doubts.push(
            "without owners, views and routines run with the rights of their users, triggers with those of the account that \
             restores, and events are left disabled"
                .to_owned(),
        );
    }
    Ok(look)
}

/// Views, routines, triggers and events that are restored.
fn objects<'a>(set: &'a Set, what: &Scope<'_>) -> Vec<&'a StoredObject> {
    if what.options.data_only {
        return Vec::new();
    }
    let schema = &set.schema;
    let whole = what.is_whole();
    let others = schema.routines.iter().chain(&schema.views).chain(&schema.events).filter(|_| whole);
    let has = |trigger: &&StoredObject| trigger.table.as_deref().is_some_and(|table| what.has(table));
    others.chain(schema.triggers.iter().filter(has)).collect()
}

/// What the target's server knows.
async fn has(connection: &mut Connection, facts: &Facts) -> Result<Has, Error> {
    let mut has = Has { server: facts.server.clone(), takes_history: facts.takes_history, ..Has::default() };
    for row in connection.query("SHOW COLLATION").await? {
        let (collation, charset) = (row.text(0).to_ascii_lowercase(), row.text(1).to_ascii_lowercase());
        // MariaDB names some collations without their character set.
        if charset.is_empty() {
            for charset in ["utf8mb4", "utf8mb3", "ucs2", "utf16", "utf32"] {
                has.collations.insert(format!("{charset}_{collation}"));
            }
        }
        has.collations.insert(collation);
    }
    for row in connection.query("SHOW CHARACTER SET").await? {
        has.charsets.insert(row.text(0).to_ascii_lowercase());
    }
    // `utf8` is another name of utf8mb3 or, in a setting of MariaDB, of utf8mb4.
    for (name, other) in [("utf8mb3", "utf8"), ("utf8", "utf8mb3")] {
        if has.charsets.contains(name) {
            has.charsets.insert(other.to_owned());
            let renamed = |known: &String| {
                Some(format!("{other}{}", known.strip_prefix(name)?.strip_prefix('_').map(|rest| format!("_{rest}"))?))
            };
            let more: Vec<String> = has.collations.iter().filter_map(renamed).collect();
            has.collations.extend(more);
        }
    }
    for row in connection.query("SHOW ENGINES").await? {
        if matches!(row.text(1), "YES" | "DEFAULT") {
            has.engines.insert(row.text(0).to_ascii_lowercase());
        }
    }
    Ok(has)
}

/// The rights that the account lacks, with the statements that grant them.
async fn rights(
    connection: &mut Connection,
    server: &Server,
    request: &Request<'_>,
    objects: &[&StoredObject],
) -> Result<Vec<Lack>, Error> {
    let account = Account::look(connection).await?;
    Ok(missing_rights(
        &account,
        server,
        request.made,
        request.wanted,
        request.what.options.data_only,
        objects,
        &request.what.definers,
    ))
}

/// The same. Pure.
fn missing_rights(
    account: &Account,
    server: &Server,
    made: &str,
    wanted: &str,
    data_only: bool,
    objects: &[&StoredObject],
    becomes: &Definers,
) -> Vec<Lack> {
    let has_kind = |kinds: &[StoredKind]| objects.iter().any(|object| kinds.contains(&object.kind));
    let mut needed = vec!["SELECT", "INSERT", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "REFERENCES"];
    let routines = [StoredKind::Package, StoredKind::PackageBody, StoredKind::Function, StoredKind::Procedure];
    if has_kind(&routines) {
        needed.extend(["CREATE ROUTINE", "ALTER ROUTINE", "EXECUTE"]);
    }
    for (kind, rights) in [
        (StoredKind::View, &["CREATE VIEW", "SHOW VIEW"][..]),
        (StoredKind::Trigger, &["TRIGGER"]),
        (StoredKind::Event, &["EVENT"]),
    ] {
        if has_kind(&[kind]) {
            needed.extend(rights);
        }
    }
    let (user, host) = account.name.rsplit_once('@').unwrap_or((&account.name, "%"));
    let to = format!("{}@{}", name(user), name(host));
    let mut lacks = Vec::new();
    let for_rows = ["SELECT", "INSERT", "DELETE"];
    let ours = if made.starts_with("seawall_proof_") { "`seawall\\_proof\\_%`" } else { "`seawall-%`" };
    let places = [
        (made, ours.to_owned(), &needed[..]),
        (wanted, name(&escaped(wanted)), if data_only { &for_rows } else { &needed[..] }),
    ];
    for (database, pattern, needed) in places {
        let missing: Vec<&str> =
            needed.iter().copied().filter(|right| !account.rights.in_database(right, database)).collect();
        if !missing.is_empty() {
            let cause = format!("{} lacks {} on the database {database}", account.name, missing.join(", "));
            lacks.push(Lack::new(cause, format!("GRANT {} ON {pattern}.* TO {to};", missing.join(", "))));
        }
    }
    let is_superuser = account.rights.everywhere("SUPER");
    let others = definers(objects.iter().copied()).iter().any(|definer| becomes.on_target(definer) != account.name);
    let may_name_others = if server.facts.mariadb {
        is_superuser || account.rights.everywhere("SET USER")
    } else {
        is_superuser || ["SET_USER_ID", "SET_ANY_DEFINER"].iter().any(|right| account.rights.everywhere(right))
    };
    if !becomes.are_stripped() && others && !may_name_others {
        let right = match (server.facts.mariadb, server.facts.server.version) {
            (true, 100_500..) => "SET USER",
            (false, 80_200..) => "SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER",
            (false, 80_000..) => "SET_USER_ID",
            _ => "SUPER",
        };
        lacks.push(Lack::new(
            format!("{} may not make objects of other definers", account.name),
            format!("GRANT {right} ON *.* TO {to}; (or restore without owners, with --no-owner)"),
        ));
    }
    let distrusted =
        has_kind(&[StoredKind::Function, StoredKind::Trigger]) && server.distrusts_functions && !is_superuser;
    // MariaDB doesn't ask this of a user who may make functions, but for functions that aren't declared as safe.
    if distrusted {
        lacks.push(Lack::new(
            "the server writes a binary log, and lets only superusers make functions and triggers",
            "SET GLOBAL log_bin_trust_function_creators = ON; (or restore as a superuser)",
        ));
    }
    lacks
}

/// A database's name as a pattern of GRANT that matches it alone.
fn escaped(database: &str) -> String {
    database.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%")
}

/// Definers that the target doesn't have: what they defined fails when it is used.
async fn missing_definers(
    connection: &mut Connection,
    request: &Request<'_>,
    objects: &[&StoredObject],
) -> Result<Vec<Lack>, Error> {
    let becomes = &request.what.definers;
    if becomes.are_stripped() {
        return Ok(Vec::new());
    }
    let wanted: BTreeSet<&str> =
        definers(objects.iter().copied()).into_iter().map(|definer| becomes.on_target(definer)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    // Accounts may be hidden from this one. Then the server tells when the object is used.
    let there = match connection.query("SELECT user, host FROM mysql.user").await {
        Ok(rows) => rows,
        Err(error) if error.server().is_some() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let there: BTreeSet<(String, String)> =
        there.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect();
    let is_there = |definer: &&str| {
        let (user, host) = definer.rsplit_once('@').unwrap_or((definer, ""));
        there.contains(&(user.to_owned(), host.to_owned())) || request.accounts.contains(*definer)
    };
    let lack = |definer: &str| {
        let (user, host) = definer.rsplit_once('@').unwrap_or((definer, ""));
        let create = if host.is_empty() {
            format!("CREATE ROLE {};", name(user))
        } else {
            format!("CREATE USER {}@{} ACCOUNT LOCK;", name(user), name(host))
        };
        let mend =
            format!("{create} (or name another account with --definer, or restore without owners, with --no-owner)");
        Lack::new(format!("the account {definer}, which defines some of the set's objects, is missing"), mend)
    };
    Ok(wanted.into_iter().filter(|definer| !is_there(definer)).map(lack).collect())
}

/// Tablespaces that the server doesn't have. An account that may not see them is told by the server.
async fn missing_tablespaces(connection: &mut Connection, wanted: BTreeSet<String>) -> Result<Vec<Lack>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT name FROM information_schema.innodb_tablespaces";
    let rows = match connection.query(sql).await {
        Ok(rows) => rows,
        Err(error) if error.server().is_some() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let there: BTreeSet<&str> = rows.iter().map(|row| row.text(0)).collect();
    let lack = |wanted: &String| {
        let mend = format!("CREATE TABLESPACE {} ADD DATAFILE {};", name(wanted), text(&format!("{wanted}.ibd")));
        Lack::new(format!("the server has no tablespace {wanted}, which a table is in"), mend)
    };
    Ok(wanted.iter().filter(|wanted| !there.contains(wanted.as_str())).map(lack).collect())
}

/// Time zones of events that the server doesn't know.
async fn missing_zones(connection: &mut Connection, objects: &[&StoredObject]) -> Result<Vec<Lack>, Error> {
    let zones: BTreeSet<&str> = objects.iter().filter_map(|object| object.time_zone.as_deref()).collect();
    let mut lacks = Vec::new();
    for zone in zones.into_iter().filter(|zone| *zone != "SYSTEM") {
        let sql = format!("SELECT CONVERT_TZ('2026-01-01 00:00:00', '+00:00', {}) IS NULL", text(zone));
        if connection.one(&sql).await?.number(0) == 1 {
            lacks.push(Lack::new(
                format!("the server doesn't know the time zone {zone}, which an event has"),
                "mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql mysql",
            ));
        }
    }
    Ok(lacks)
}

/// A server on this host has its data where we can look: is there room for a database of `size` bytes?
async fn room(connection: &mut Connection, size: u64) -> Result<Option<Lack>, Error> {
    let folder = connection.one("SELECT @@datadir").await?.text(0).to_owned();
    let cause = seawall_host::free_space(Path::new(&folder)).and_then(|free| archive::no_room(free, size));
    Ok(cause.map(|cause| Lack::new(cause, format!("make room on the disk of {folder}, or name a server that has it"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::grants::Rights;

    #[test]
    fn rights_that_are_missing_are_named_with_their_grants() {
        let account = |grants: &[&str]| Account { name: "u@h".into(), rights: Rights::of(grants.iter().copied()) };
        let mut server = Server::default();
        server.facts.mariadb = true;
        server.facts.server.version = 101_106;
        let mends = |account: &Account, server: &Server, objects: &[&StoredObject], owners: bool| {
            let becomes = if owners { Definers::Kept } else { Definers::Stripped };
            let lacks = missing_rights(account, server, "seawall-1", "a_b", false, objects, &becomes);
            lacks.into_iter().map(|lack| lack.mend).collect::<Vec<_>>()
        };
        let all = account(&["GRANT ALL PRIVILEGES ON *.* TO `u`@`h`"]);
        assert!(mends(&all, &server, &[], true).is_empty());
        let one = account(&["GRANT ALL PRIVILEGES ON `a\\_b`.* TO `u`@`h`"]);
        assert_eq!(
            mends(&one, &server, &[], true),
            ["GRANT SELECT, INSERT, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES ON `seawall-%`.* TO `u`@`h`;"]
        );
        let both = account(&[
            "GRANT ALL PRIVILEGES ON `a\\_b`.* TO `u`@`h`",
            "GRANT ALL PRIVILEGES ON `seawall-%`.* TO `u`@`h`",
        ]);
        assert!(mends(&both, &server, &[], true).is_empty());
        let object = StoredObject {
            kind: StoredKind::Trigger,
            name: "t".into(),
            statement: crate::detail::Sql::new(""),
            definer: "root@localhost".into(),
            sql_mode: None,
            character_set_client: String::new(),
            collation_connection: String::new(),
            database_collation: None,
            time_zone: None,
            table: None,
            needs: Vec::new(),
            broken: None,
        };
        assert_eq!(mends(&both, &server, &[&object], true).len(), 1);
        assert!(mends(&both, &server, &[&object], true)[0].starts_with("GRANT SET USER ON *.* TO `u`@`h`;"));
        assert!(mends(&both, &server, &[&object], false).is_empty());
        server.distrusts_functions = true;
        assert_eq!(mends(&both, &server, &[&object], false).len(), 1);
    }
}
