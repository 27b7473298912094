//! Restores every database of a whole server's set, with roles, memberships and rights.
//!
//! All databases are made under unfinished names first. When the last one is whole, they get their names together, in one
//! transaction (I8). Existing roles, memberships and rights stay as they are, and differences are named. An existing database
//! must be empty. With `clean` it is replaced by that transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use seawall_archive::SetReader;
use seawall_archive::preflight::Lack;
use seawall_core::Progress;

use crate::catalog::globals::{self, Attribute, Globals};
use crate::catalog::notes;
use crate::catalog::properties;
use crate::client::tried;
use crate::client::{Connection, Host, Target};
use crate::detail::ServerDetail;
use crate::preflight;
use crate::preflight::restorer::Destination;
use crate::preflight::roles::{self, Restorer};
use crate::preflight::tablespaces;
use crate::quote::{ident, literal};
use crate::restore::finish::{self, Waiting};
use crate::restore::naming::{self, Pair};
use crate::restore::place;
use crate::restore::scope::Scope;
use crate::restore::set::{self, Set};
use crate::restore::{self};
use crate::{Error, RestoreOptions, Restored, World};

/// A database of the set, and the state of the one with its name.
struct Member {
    name: String,
    set: Set,
    exists: bool,
    /// An interrupted `DROP DATABASE` left it invalid, and nothing can be read from it.
    is_invalid: bool,
}

/// Restores every database of a set of a whole server.
pub(crate) async fn restore(
    reader: Arc<SetReader>,
    detail: &ServerDetail,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    if !options.tables.is_empty() || options.data_only {
        let object = format!("set {}", reader.manifest().id);
        let cause = "single tables and rows alone are of one database, and this set is of a whole server".to_owned();
        let next = "name the database behind the URL's last slash".to_owned();
        return Err(Error::Refused { code: "postgres.which-database", object, cause, next });
    }
    let wanted = match options.owners {
        true => set::globals_of(&reader).await?,
        false => Globals::default(),
    };
    let mut connection = globals::connect(target).await?;
    let has_passwords = wanted.roles.iter().any(|role| role.password.is_some());
    let reads_passwords = has_passwords && globals::may_read_passwords(&mut connection).await?;
    let there = globals::read(&mut connection, reads_passwords).await?;
    let restorer = restorer(&mut connection).await?;
    let plan = match options.owners {
        true => roles::plan(&wanted, detail.server_version, &there, reads_passwords, &restorer),
        false => roles::Plan::default(),
    };
    restored.lacks = tablespaces::lacks(&wanted, &there);
    let may_change = may_change(&mut connection).await?;
    let spaces = tablespaces::plan(&wanted, &there, |owner| may_change.contains(owner));
    if !plan.statements.is_empty() {
        restored.lacks.extend(may_make_roles(&mut connection, &wanted, &plan.made).await?);
    }
    if !options.dry_run {
        let names: Vec<&str> = detail.databases.iter().map(String::as_str).collect();
        for name in &names {
            naming::undo_left(&target.with_database(name), &names).await?;
        }
    }
    let mut members = members(&reader, detail, target, options, &plan.made, &mut connection, restored).await?;
    if matches!(target.host, Host::Socket(_)) {
        let size = members.iter().map(|member| member.set.detail.size).sum();
        restored.lacks.extend(preflight::room(&mut connection, size).await?);
    }
    restored.databases.clone_from(&detail.databases);
    (restored.roles, restored.kept) = (plan.made, plan.kept);
    restored.kept.extend(spaces.kept);
    if options.dry_run {
        connection.close().await;
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    // The last step renames from another database. Without one, the restore doesn't begin.
    if let Some(first) = naming::in_turn(&members, |member| &member.name).first() {
        let besides: Vec<&str> = first.iter().map(|member| member.name.as_str()).collect();
        globals::connect_beside(target, &besides).await?.close().await;
    }
    for member in members.iter_mut().filter(|member| member.is_invalid) {
        drop_invalid(&mut connection, &member.name).await?;
        member.exists = false;
    }
    restored.later.clear();
    for (statements, about) in
        [(plan.statements, "the roles of the set"), (spaces.statements, "the tablespaces of the set")]
    {
        if !statements.is_empty() {
            let statements = format!("BEGIN;\n{statements}COMMIT");
            connection.execute(&statements).await.map_err(|error| error.about(about))?;
        }
    }
    for statements in [plan.tried, spaces.tried] {
        restored.refused.extend(tried::run(&mut connection, &statements).await?);
    }
    let (mut made, mut whats) = (Vec::new(), Vec::new());
    for member in &members {
        let target = target.with_database(&member.name);
        let what = Scope::new(options, None).under_another_name(true);
        let before = (restored.refused.len(), restored.unfilled.len(), restored.later.len());
        match restore::make(&member.set, &target, true, &what, world, Arc::clone(&progress), restored).await {
            Ok(place) => {
                name_databases(restored, before, &member.name);
                made.push((place.target.database, member));
                whats.push(what);
            }
            Err(error) => return Err(with_what_stays(error, &made)),
        }
    }
    connection.close().await;
    let some_wait = whats.iter().zip(&made).filter(|(what, _)| what.later.get().is_some());
    let waiting: Vec<Waiting<'_>> =
        some_wait.map(|(what, (made, member))| Waiting { set: &member.set, what, made, name: &member.name }).collect();
    let at_once =
        |one: &(String, &Member)| properties::may_be_set_from_anywhere(&one.1.set.after.properties, options.owners);
    if waiting.is_empty() && made.iter().all(at_once) {
        return take_names(target, &made, options.owners).await.map_err(|error| with_what_stays(error, &made));
    }
    let pair = |(made, member): &(String, &Member)| Pair {
        made: made.clone(),
        name: member.name.clone(),
        replaces: member.exists,
    };
    let named: Vec<_> = made.iter().map(|one| (pair(one), &one.1.set.after.properties)).collect();
    finish::finish(target, (&named, options.owners), &waiting, world, &progress, restored).await
}

/// Adds the database's name to the refusals, views and extensions that were reported after the first `before` ones.
pub(crate) fn name_databases(restored: &mut Restored, before: (usize, usize, usize), database: &str) {
    restored.refused.iter_mut().skip(before.0).for_each(|(refused, _)| name_database(refused, database));
    restored.unfilled.iter_mut().skip(before.1).for_each(|(_, cause)| name_database(cause, database));
    restored.later.iter_mut().skip(before.2).for_each(|later| name_database(later, database));
}

/// Adds the database's name to a report that names none.
fn name_database(told: &mut String, database: &str) {
    if !told.contains("database ") {
        told.push_str(&format!(" in database {database}"));
    }
}

/// An error with the names of the databases that were made before it.
fn with_what_stays(error: Error, made: &[(String, &Member)]) -> Error {
    made.iter().fold(error, |error, (made, _)| error.leaves(made))
}

/// The role that restores, and its server.
async fn restorer(connection: &mut Connection) -> Result<Restorer, Error> {
    let sql = "SELECT rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user";
    let row = connection.one(sql).await?;
    Ok(Restorer { version: connection.version, role: row.text(0).to_owned(), is_superuser: row.flag(1) })
}

/// The databases of the set. Whatever prevents a restore is added to the lacks.
async fn members(
    reader: &Arc<SetReader>,
    detail: &ServerDetail,
    target: &Target,
    options: &RestoreOptions,
    made: &[String],
    connection: &mut Connection,
    restored: &mut Restored,
) -> Result<Vec<Member>, Error> {
    let Restored { lacks, doubts, later, .. } = restored;
    let rows = connection.query("SELECT datname, datconnlimit = -2 FROM pg_catalog.pg_database").await?;
    let there: BTreeMap<&str, bool> = rows.iter().map(|row| (row.text(0), row.flag(1))).collect();
    let what = Scope::new(options, None);
    let mut members = Vec::with_capacity(detail.databases.len());
    for name in &detail.databases {
        let set = Set::open(Arc::clone(reader), Some(name)).await?;
        let is_invalid = there.get(name.as_str()).copied();
        let (exists, is_invalid) = (is_invalid.is_some(), is_invalid == Some(true));
        let member = Member { name: name.clone(), set, exists, is_invalid };
        let into = Destination::New { replaces: member.exists };
        let look = member.set.lacks(connection, (name, into), &what, made).await?;
        for lack in look.lacks {
            if !lacks.iter().any(|known| known.cause == lack.cause) {
                lacks.push(lack);
            }
        }
        doubts.extend(look.doubts.into_iter().map(|doubt| format!("in database {name}, {doubt}")));
        later.extend(look.later.into_iter().map(|what| format!("{what} in database {name}")));
        if member.is_invalid {
            lacks.extend((!options.clean).then(|| globals::invalid(name)));
        } else if member.exists && !options.clean {
            let mut inside = Connection::open(&target.with_database(name)).await?;
            if let Some(Lack { cause, .. }) = member.set.in_the_way(&mut inside, &what).await? {
                let mend = "replace what is there with --clean;".to_owned();
                lacks.push(Lack::new(format!("in database {name}, {cause}"), mend));
            }
            inside.close().await;
        }
        members.push(member);
    }
    Ok(members)
}

/// The roles whose tablespaces the role may change.
async fn may_change(connection: &mut Connection) -> Result<BTreeSet<String>, Error> {
    let rows =
        connection.query("SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE')").await?;
    Ok(rows.iter().map(|row| row.text(0).to_owned()).collect())
}

/// The right that the role lacks to make these roles, if any. Only superusers make superusers.
async fn may_make_roles(connection: &mut Connection, wanted: &Globals, made: &[String]) -> Result<Option<Lack>, Error> {
    let row = connection
        .one("SELECT rolsuper, rolcreaterole, rolname FROM pg_catalog.pg_roles WHERE rolname = current_user")
        .await?;
    let needs_superuser = |name: &String| {
        let role = wanted.roles.iter().find(|role| role.name == *name);
        let rare = [Attribute::Superuser, Attribute::Replication, Attribute::Bypassrls];
        role.is_some_and(|role| rare.iter().any(|one| role.attributes.contains(one)))
    };
    let superuser = made.iter().find(|name| needs_superuser(name));
    let may = row.flag(0) || (row.flag(1) && superuser.is_none());
    let role = ident(row.text(2));
    Ok((!may).then(|| match superuser {
        Some(name) => Lack::new(
            format!("the role {name} may more than {role} can give it"),
            format!("ALTER ROLE {role} SUPERUSER; (or restore as a superuser)"),
        ),
        None => Lack::new(
            format!("{role} may not make roles"),
            format!("ALTER ROLE {role} CREATEROLE; (or restore as a superuser)"),
        ),
    }))
}

/// Gives databases their names, in one transaction for each turn, and drops the databases that had these names.
async fn take_names(target: &Target, made: &[(String, &Member)], owners: bool) -> Result<(), Error> {
    for some in naming::in_turn(made, |(_, member)| &member.name) {
        let besides = some.iter().flat_map(|(made, member)| [made.as_str(), member.name.as_str()]);
        let mut connection = globals::connect_beside(target, &besides.collect::<Vec<_>>()).await?;
        let replaced: Vec<String> =
            some.iter().filter(|(_, member)| member.exists).map(|(made, _)| notes::replaced(made)).collect();
        for (made, member) in some.iter().filter(|(_, member)| member.exists) {
            // An earlier restore may have put one aside.
            place::may_drop_replaced(&mut connection, target, made, &member.name).await?;
            drop(&mut connection, &notes::replaced(made)).await?;
        }
        let mut renames = String::new();
        for (made, member) in &some {
            let name = ident(&member.name);
            if member.exists {
                renames.push_str(&format!("ALTER DATABASE {name} RENAME TO {};\n", ident(&notes::replaced(made))));
                renames.push_str(&notes::says_replaced(made));
            }
            renames.push_str(&format!("ALTER DATABASE {} RENAME TO {name};\n", ident(made)));
            let is_open = place::is_open(&mut connection, made).await?;
            renames.push_str(&properties::last(&member.set.after.properties, &member.name, owners, is_open));
        }
        let names: Vec<&str> = some.iter().map(|(_, member)| member.name.as_str()).collect();
        let about = format!("databases {}", names.join(", "));
        connection.execute(&format!("BEGIN;\n{renames}COMMIT")).await.map_err(|error| error.about(about))?;
        for old in &replaced {
            drop(&mut connection, old).await?;
        }
        connection.close().await;
    }
    Ok(())
}

/// Drops a database, if it is there.
pub(crate) async fn drop(connection: &mut Connection, name: &str) -> Result<(), Error> {
    let there = format!("SELECT datconnlimit = -2 FROM pg_catalog.pg_database WHERE datname = {}", literal(name));
    let there = connection.query(&there).await?;
    let Some(is_invalid) = there.first().map(|row| row.flag(0)) else { return Ok(()) };
    // An invalid database is no template, and can't be altered.
    let first = (!is_invalid).then_some("ALTER DATABASE {} IS_TEMPLATE false");
    for statement in first.into_iter().chain(["DROP DATABASE {}"]) {
        match connection.execute(&statement.replace("{}", &ident(name))).await {
            Ok(()) => {}
            Err(error) if error.sqlstate() == Some("55006") => return Err(why_in_use(connection, name, error).await?),
            Err(error) => return Err(error.about(format!("database {name}"))),
        }
    }
    Ok(())
}

/// Drops an invalid database, which an interrupted `DROP DATABASE` left. Refuses if another session has made it again since.
pub(crate) async fn drop_invalid(connection: &mut Connection, name: &str) -> Result<(), Error> {
    let there = format!("SELECT datconnlimit = -2 FROM pg_catalog.pg_database WHERE datname = {}", literal(name));
    match connection.query(&there).await?.first().map(|row| row.flag(0)) {
        None => Ok(()),
        Some(true) => drop(connection, name).await,
        Some(false) => Err(Error::Refused {
            code: "postgres.not-ready",
            object: format!("database {name}"),
            cause: "it was invalid when this began, and another session has made it again since".to_owned(),
            next: "start the same again".to_owned(),
        }),
    }
}

/// Why a database is in use. Subscriptions have the same SQLSTATE as other sessions, but don't end with any session.
async fn why_in_use(connection: &mut Connection, name: &str, error: Error) -> Result<Error, Error> {
    let object = format!("database {name}");
    Ok(match preflight::subscribed(connection, name).await? {
        Some(Lack { cause, mend: next }) => Error::Refused { code: "postgres.in-use", object, cause, next },
        None => error.about(object),
    })
}
