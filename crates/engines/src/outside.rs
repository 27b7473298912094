//! Backups that other programs left as files, restored into a server or read to their end.
//!
//! `seawall-dumps` says what a file is and reads it; the engine of the server runs what is in it. A whole server's backup is read twice:
//! once for its names, its roles and its checksum, before anything is done, and once for its content.

use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_archive::World;
use seawall_archive::preflight::Lack;
use seawall_archive::server::{Filled, Limits, RestoreOptions};
use seawall_core::{Failure, Kind, Progress};
pub use seawall_dumps::{Dump, Key, settings};
use seawall_dumps::{Form, Maker, Member, Said, Shape, Single, Summary, lacks};
use seawall_vault::Environment;

use crate::server::{ServerUrl, usage};

/// The most bytes of the script with what belongs to no database.
const MOST_GLOBALS: usize = 64 << 20;

/// What a restore of such a file came to.
#[derive(Debug, Clone, Default)]
pub struct FileRestored {
    /// The databases: the name on the server, and what became of it.
    pub databases: Vec<(String, Filled)>,
    /// The roles that were made.
    pub roles: Vec<String>,
    /// What belongs to the server, was there already and stays: which, and why.
    pub kept: Vec<(String, String)>,
    /// Of what belongs to the server, what it refused, and what it said.
    pub refused: Vec<(String, String)>,
    /// What the target lacks. Only a dry run returns any.
    pub lacks: Vec<Lack>,
    /// What such a backup hasn't.
    pub without: Vec<String>,
    /// Files in it that nothing reads.
    pub ignored: Vec<String>,
    /// Databases that its metadata lists and that aren't in it.
    pub missing: Vec<String>,
    /// Roles that get power over the server: the role, and what it gets.
    pub powers: Vec<(String, Vec<String>)>,
}

/// What was read of such a file.
#[derive(Debug, Clone, Default)]
pub struct FileVerified {
    /// Its parts: a database, or none for what belongs to the server; and what it is.
    pub parts: Vec<FilePart>,
    /// What such a backup hasn't.
    pub without: Vec<String>,
    /// Files in it that nothing reads.
    pub ignored: Vec<String>,
    /// Files in the place of its databases that aren't understood, and databases that its metadata lists and that aren't in it.
    pub missing: Vec<String>,
    /// Roles that a restore would give power over the server: the role, and what it would get.
    pub powers: Vec<(String, Vec<String>)>,
}

/// A part of a backup that was read.
#[derive(Debug, Clone)]
pub struct FilePart {
    /// The database; `None` of what belongs to the server, and of a backup of one database.
    pub database: Option<String>,
    /// `archive`, `script` or `globals`.
    pub form: &'static str,
    /// The program and server that it is of: `postgres`, `mysql` or `unknown`.
    pub server: &'static str,
    /// Statements in it.
    pub statements: u64,
    /// Rows in it, where they are countable without a server.
    pub rows: Option<u64>,
}

/// The engine that reads a form. `None`: the form alone doesn't tell.
fn engine_of(form: &Form) -> Option<&'static str> {
    match form {
        Form::Archive => Some("postgres"),
        Form::Script(Said { maker: Maker::Postgres | Maker::PostgresGlobals, .. }) => Some("postgres"),
        Form::Script(Said { maker: Maker::Mysql, .. }) => Some("mysql"),
        Form::Script(_) | Form::Tar | Form::OtherArchive => None,
    }
}

fn form_name(form: &Form) -> &'static str {
    match form {
        Form::Archive | Form::OtherArchive => "archive",
        Form::Script(Said { maker: Maker::PostgresGlobals, .. }) => "globals",
        Form::Script(_) | Form::Tar => "script",
    }
}

/// The engine that the metadata names.
fn engine_beside(dump: &Dump) -> Option<&'static str> {
    match dump.sidecar.database_type.as_deref()? {
        "postgres" | "postgresql" => Some("postgres"),
        "mysql" | "mariadb" => Some("mysql"),
        _ => None,
    }
}

/// A whole server's backup, as the first reading finds it.
#[derive(Default)]
struct Overview {
    databases: Vec<(String, Form)>,
    globals: Option<(Vec<u8>, Said, String)>,
    summary: Summary,
}

/// Reads a whole server's backup for the first time; with `all` each database to its end.
async fn overview(dump: &Dump, all: bool) -> Result<Overview, Failure> {
    let (mut members, mut found) = (dump.members(), Overview::default());
    loop {
        match members.next().await? {
            Ok(Member { database: Some(name), form, pieces, .. }) => {
                found.databases.push((name, form));
                if all {
                    pieces.stream().try_for_each(async |_| Ok(())).await?;
                }
            }
            Ok(Member { database: None, form, pieces, .. }) => {
                let object = pieces.object().to_owned();
                let Form::Script(said) = form else { return Err(no_globals(&object)) };
                found.globals = Some((pieces.all(MOST_GLOBALS).await?, said, object));
            }
            Err(summary) => {
                found.summary = summary;
                break;
            }
        }
    }
    if found.databases.is_empty() {
        let next = "name a backup of dbbackup: globals.sql, and dumps/NAME.dump or dumps/NAME.sql for each database";
        return Err(Failure::new(Kind::Refused, "dump.unknown", dump.object(), "no database is in it", next));
    }
    Ok(found)
}

fn no_globals(object: &str) -> Failure {
    let next = "don't restore this backup: somebody has changed it";
    Failure::new(Kind::Refused, "dump.globals", object, "it is no script of SQL", next)
}

/// The statements of a script of roles and tablespaces for PostgreSQL.
fn globals(script: &[u8], said: &Said, object: &str) -> Result<Vec<Vec<u8>>, Failure> {
    if said.maker != Maker::PostgresGlobals {
        let cause = "it doesn't begin as the scripts of pg_dumpall do, so nothing tells whether it is whole";
        let next =
            "don't restore this backup, unless you know who changed it; --database restores one database without it";
        return Err(Failure::new(Kind::Refused, "dump.globals", object, cause, next));
    }
    seawall_postgres::read_globals(script, object)
}

/// The databases that the metadata lists and the backup lacks.
fn missing(listed: &[String], found: &[&str]) -> Vec<String> {
    listed.iter().filter(|name| !found.contains(&name.as_str())).cloned().collect()
}

/// The files that nothing reads, for people.
fn ignored(summary: &Summary) -> Vec<String> {
    let more = (summary.more() > 0).then(|| format!("{} more", summary.more()));
    summary.ignored.iter().cloned().chain(more).collect()
}

/// What scripts in a tar lack whose end nothing proves.
fn unmarked(summary: &Summary) -> Option<String> {
    let scripts = summary.unmarked.join(", ");
    (!scripts.is_empty()).then(|| {
        format!("no mark at the end of {scripts}: whether it was whole when it was put into the tar isn't known")
    })
}

/// Whether a name is one of a server's own databases, which a backup must not fill, or one that the server would change.
fn is_no_name(name: &str, mysql: bool) -> Option<&'static str> {
    const OWN: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];
    match mysql {
        false if matches!(name, "template0" | "template1") => Some(
            "the server makes every new database as a copy of it, so all that is restored there would come back in them",
        ),
        true if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) => Some("it is one of the server's own"),
        false if name.len() > 63 => Some("its name has more than 63 bytes, which the server would cut"),
        true if name.chars().count() > 64 => Some("its name has more than 64 letters, which the server refuses"),
        _ => None,
    }
}

/// Restores a backup into the server that `url` names.
///
/// # Errors
/// What is wrong with the backup, the target or the request. The databases that were restored before stay.
pub async fn restore_file(
    dump: &Dump,
    url: &ServerUrl,
    options: &RestoreOptions,
    environment: &Environment,
    progress: Arc<dyn Progress>,
) -> Result<FileRestored, Failure> {
    let into = Into { dump, url, options, world: World::real(environment.clone()), progress };
    match &dump.shape {
        Shape::Single(single) => into.single(single).await,
        Shape::Tar(_) | Shape::Folder => into.whole().await,
    }
}

struct Into<'a> {
    dump: &'a Dump,
    url: &'a ServerUrl,
    options: &'a RestoreOptions,
    world: World,
    progress: Arc<dyn Progress>,
}

impl Into<'_> {
    fn is_mysql(&self) -> bool {
        matches!(self.url, ServerUrl::Mysql(_))
    }

    /// Refuses a file of another engine than the target's.
    fn fits(&self, form: &Form, object: &str) -> Result<(), Failure> {
        let (wanted, next) = match self.url {
            ServerUrl::Postgres(_) => ("postgres", "name a MySQL or MariaDB server with --to"),
            ServerUrl::Mysql(_) => ("mysql", "name a PostgreSQL server with --to"),
        };
        let its = engine_of(form).or_else(|| engine_beside(self.dump));
        match its.is_none_or(|its| its == wanted) {
            true => Ok(()),
            false => Err(usage("usage.server", object, "it is of another kind of server than --to", next)),
        }
    }

    async fn single(&self, single: &Single) -> Result<FileRestored, Failure> {
        let object = self.dump.object();
        if self.options.database.is_some() {
            return Err(usage("usage.arguments", &object, "it is of one database", "leave --database out"));
        }
        let name = self.url.database().to_owned();
        if name.is_empty() {
            let next = "name the database to make behind the last slash of --to";
            return Err(usage("usage.server", &object, "it is of one database, and --to names a whole server", next));
        }
        if let Form::Script(Said { maker: Maker::PostgresGlobals, .. }) = single.form {
            let next = "put it beside the folder dumps/ of a whole server's backup, and restore that folder; or run it with psql if you trust it";
            return Err(Failure::new(
                Kind::Refused,
                "dump.unknown",
                object,
                "it is of pg_dumpall, which writes roles and tablespaces, and perhaps databases behind them; it is no backup of one database",
                next,
            ));
        }
        self.fits(&single.form, &object)?;
        let filled = self.fill(self.dump.pieces(), &single.form, &name, &[]).await?;
        let without = lacks(self.dump, self.is_mysql(), false);
        let lacks = filled.lacks.clone();
        Ok(FileRestored { databases: vec![(name, filled)], without, lacks, ..FileRestored::default() })
    }

    /// Restores the content of one database.
    async fn fill(
        &self,
        pieces: seawall_dumps::Pieces,
        form: &Form,
        name: &str,
        made: &[String],
    ) -> Result<Filled, Failure> {
        let progress = Arc::clone(&self.progress);
        match self.url {
            ServerUrl::Postgres(target) => {
                let target = target.with_database(name);
                Ok(seawall_postgres::restore_file(pieces, form, &target, self.options, &self.world, made, progress)
                    .await?)
            }
            ServerUrl::Mysql(target) => {
                let said = match form {
                    Form::Script(said) => Some(said),
                    Form::Archive | Form::OtherArchive | Form::Tar => None,
                };
                let target = target.with_database(name);
                Ok(seawall_mysql::restore_file(pieces, said, &target, self.options, progress).await?)
            }
        }
    }

    /// Restores all databases of a server, or one that the user names.
    async fn whole(&self) -> Result<FileRestored, Failure> {
        let object = self.dump.object();
        // What replaces databases is read to its end before the first one is replaced.
        let Overview { databases, globals: script, summary } = overview(self.dump, self.options.clean).await?;
        let chosen = self.chosen(&databases, &object)?;
        if chosen.is_none() && !summary.unread.is_empty() {
            let cause = format!(
                "it has something in the place of its databases that isn't understood: {}",
                summary.unread.join(", ")
            );
            let next = "restore one of the others with --database; see what that file is, and whether a program can turn it into a .sql or .dump";
            return Err(Failure::new(Kind::Refused, "dump.unread", object, cause, next));
        }
        for (name, form) in
            databases.iter().filter(|(name, _)| chosen.as_ref().is_none_or(|(chosen, _)| chosen == name))
        {
            self.fits(form, &format!("{name} in {object}"))?;
        }
        let names: Vec<&str> = match &chosen {
            Some((_, into)) => vec![into.as_str()],
            None => databases.iter().map(|(name, _)| name.as_str()).collect(),
        };
        for name in &names {
            if let Some(cause) = is_no_name(name, self.is_mysql()) {
                let next = "restore the others one at a time, with --database; this one into a database of another name, with --to";
                return Err(Failure::new(Kind::Refused, "dump.name", format!("{name} in {object}"), cause, next));
            }
        }
        let mut restored = FileRestored {
            ignored: ignored(&summary),
            without: lacks(self.dump, self.is_mysql(), script.is_some()),
            ..FileRestored::default()
        };
        restored.without.extend(unmarked(&summary));
        if chosen.is_none() {
            restored.missing = missing(&self.dump.sidecar.databases, &names);
        }
        if !self.options.clean {
            restored.lacks = self.in_the_way(&names).await?;
        }
        let dry_run = self.options.dry_run;
        if !dry_run && let Some((cause, next)) = Lack::told(&restored.lacks) {
            let code = if self.is_mysql() { "mysql.not-ready" } else { "postgres.not-ready" };
            return Err(Failure::new(Kind::Refused, code, self.url.to_string(), cause, next));
        }
        let mut late = Vec::new();
        if let (ServerUrl::Postgres(target), None, Some((script, said, object))) = (self.url, &chosen, &script) {
            let statements = globals(script, said, object)?;
            if self.options.owners {
                let made = seawall_postgres::restore_globals(&statements, said, target, dry_run).await?;
                (restored.roles, restored.kept, restored.refused, late) =
                    (made.roles, made.kept, made.refused, made.late);
                restored.powers = seawall_postgres::powers(&statements, &restored.roles);
            }
        }
        let mut members = self.dump.members();
        while let Ok(member) = members.next().await? {
            let Some(name) = member.database else { continue };
            // The first reading decided what may be done.
            if !databases.iter().any(|(known, form)| *known == name && *form == member.form) {
                let cause = format!("{name} wasn't in it, or was another thing, when it was read before");
                let next = "start again when nothing changes the backup; see what was restored until then";
                let failure = Failure::new(Kind::Corrupt, "dump.damaged", object, cause, next);
                return Err(after(failure, &restored.databases));
            }
            let into = match &chosen {
                Some((chosen, into)) if *chosen == name => into.clone(),
                Some(_) => continue,
                None => name.clone(),
            };
            let filled = self.fill(member.pieces, &member.form, &into, &restored.roles).await;
            let filled = filled.map_err(|failure| after(failure, &restored.databases))?;
            restored.lacks.extend(filled.lacks.iter().cloned());
            restored.databases.push((into, filled));
        }
        if let (ServerUrl::Postgres(target), false) = (self.url, dry_run) {
            restored.refused.extend(seawall_postgres::restore_late_globals(&late, target).await?);
        }
        Ok(restored)
    }

    /// The one database that is asked for, and the name that it gets; `None`: all of them.
    fn chosen(&self, databases: &[(String, Form)], object: &str) -> Result<Option<(String, String)>, Failure> {
        let target = self.url.database();
        let name = match (&self.options.database, target) {
            (None, "") => return Ok(None),
            (Some(name), _) => name.as_str(),
            (None, target) => target,
        };
        if databases.iter().any(|(known, _)| known == name) {
            let into = if target.is_empty() { name } else { target };
            return Ok(Some((name.to_owned(), into.to_owned())));
        }
        let known: Vec<&str> = databases.iter().map(|(name, _)| name.as_str()).collect();
        let next = format!("give --database with one of: {}", known.join(", "));
        Err(usage("usage.arguments", object, &format!("it is of a whole server, which had no database {name}"), &next))
    }

    async fn in_the_way(&self, names: &[&str]) -> Result<Vec<Lack>, Failure> {
        match self.url {
            ServerUrl::Postgres(target) => Ok(seawall_postgres::in_the_way(target, names).await?),
            ServerUrl::Mysql(target) => Ok(seawall_mysql::in_the_way(target, names).await?),
        }
    }
}

/// The failure of one database behind others.
fn after(failure: Failure, done: &[(String, Filled)]) -> Failure {
    if done.is_empty() {
        return failure;
    }
    let done: Vec<&str> = done.iter().map(|(name, _)| name.as_str()).collect();
    let next = format!(
        "{}; restored before it, and left: {} (give --database for each of the others)",
        failure.next,
        done.join(", ")
    );
    Failure { next, ..failure }
}

/// Reads a backup to its end without a server.
///
/// # Errors
/// What is wrong with it, or a check that couldn't be made.
pub async fn verify_file(
    dump: &Dump,
    limits: &Limits,
    environment: &Environment,
    progress: Arc<dyn Progress>,
) -> Result<FileVerified, Failure> {
    let world = World::real(environment.clone());
    let check = async |pieces: seawall_dumps::Pieces, form: &Form, database: Option<String>| {
        let object = pieces.object().to_owned();
        let engine = engine_of(form).or_else(|| engine_beside(dump));
        let engine = engine.ok_or_else(|| {
            let next = "restore it with --to, which says of which server it is";
            let cause = "neither it nor its metadata says of which server it is, so its statements can't be read";
            Failure::new(Kind::Refused, "dump.unknown-server", &object, cause, next)
        })?;
        let (statements, rows) = match engine {
            "mysql" => (seawall_mysql::check_file(pieces, &*progress).await?.statements, None),
            _ => {
                let found = seawall_postgres::check_file(pieces, form, limits, &world).await?;
                (found.statements, Some(found.rows))
            }
        };
        if statements == 0 {
            let next = "take another backup: the program that was to write this one has failed";
            return Err(Failure::new(Kind::Corrupt, "dump.cut-off", object, "no statement is in it", next));
        }
        Ok::<_, Failure>(FilePart { database, form: form_name(form), server: engine, statements, rows })
    };
    let mut verified = FileVerified::default();
    let mut script = None;
    if let Shape::Single(Single { form: Form::Script(said @ Said { maker: Maker::PostgresGlobals, .. }), .. }) =
        &dump.shape
    {
        script = Some((dump.pieces().all(MOST_GLOBALS).await?, said.clone(), dump.object()));
    } else if let Shape::Single(single) = &dump.shape {
        verified.parts.push(check(dump.pieces(), &single.form, None).await?);
    } else {
        let mut members = dump.members();
        loop {
            match members.next().await? {
                Ok(Member { database: None, form: Form::Script(said), pieces, .. }) => {
                    let object = pieces.object().to_owned();
                    script = Some((pieces.all(MOST_GLOBALS).await?, said, object));
                }
                Ok(Member { database: None, pieces, .. }) => return Err(no_globals(pieces.object())),
                Ok(Member { database, form, pieces, .. }) => verified.parts.push(check(pieces, &form, database).await?),
                Err(summary) => {
                    let found: Vec<&str> = verified.parts.iter().filter_map(|part| part.database.as_deref()).collect();
                    verified.missing = missing(&dump.sidecar.databases, &found);
                    verified.missing.extend(summary.unread.iter().cloned());
                    verified.ignored = ignored(&summary);
                    verified.without.extend(unmarked(&summary));
                    break;
                }
            }
        }
        if verified.parts.is_empty() {
            overview(dump, false).await?;
        }
    }
    let is_mysql = verified.parts.iter().any(|part| part.server == "mysql");
    verified.without.splice(0..0, lacks(dump, is_mysql, script.is_some()));
    if let Some((script, said, object)) = script {
        let mut part = FilePart { database: None, form: "globals", server: "mysql", statements: 0, rows: None };
        if !is_mysql {
            let statements = globals(&script, &said, &object)?;
            (part.server, part.statements) = ("postgres", statements.len() as u64);
            verified.powers = seawall_postgres::powers(&statements, &seawall_postgres::roles_of(&statements));
        }
        verified.parts.push(part);
    }
    Ok(verified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_servers_own_databases_are_none() {
        let long = "x".repeat(64);
        for (name, postgres, mysql) in [
            ("shop", true, true),
            ("postgres", true, true),
            ("template0", false, true),
            ("template1", false, true),
            ("mysql", true, false),
            ("SYS", true, false),
            (&*long, false, true),
            (&"x".repeat(65), false, false),
        ] {
            assert_eq!(
                (is_no_name(name, false).is_none(), is_no_name(name, true).is_none()),
                (postgres, mysql),
                "{name}"
            );
        }
    }

    #[test]
    fn databases_that_are_listed_must_be_there() {
        let listed = ["a".to_owned(), "b".to_owned()];
        assert_eq!(missing(&listed, &["a", "c"]), ["b"]);
        assert!(missing(&[], &["a"]).is_empty());
    }
}
