//! What `pg_dump` itself made, back into a server: over our own connection, statement by statement.
//!
//! A plain dump is a script; a custom one is made into a script by `pg_restore`, which reads it from a pipe and touches no
//! server; a directory is made into a custom one first (`joined`). None is ever read by `psql` (see `script`). A new database gets its name when all of it is there (I8). It is
//! done by one connection, and what was interrupted is begun anew.
//!
//! The room: `joined` (a directory as one archive), `player` (a script on its way).

pub(crate) mod joined;
pub(crate) mod player;

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::names::{ProofName, unfinished};
use seawall_archive::preflight::{Lack, Look};
use seawall_archive::{Artefact as Kept, Manifest, SetReader};
use seawall_core::Progress;
use serde::Deserialize as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use crate::build::refresh;
use crate::build::statistics;
use crate::catalog::globals::{self, Found, Globals};
use crate::catalog::notes;
use crate::catalog::properties;
use crate::catalog::records::{After, Needs};
use crate::client::tried;
use crate::client::tried::{Refused, is_about_the_statement};
use crate::client::{Connection, Host, Target, TextEncoding};
use crate::detail::{ItemDetail, SetDetail};
use crate::journal::{self, Journal};
use crate::load::connect::connect;
use crate::preflight::Request;
use crate::preflight::restorer::Destination;
use crate::quote::{ident, literal};
use crate::restore::naming;
use crate::restore::place;
use crate::restore::replay::player::{Input, Player, Stopped, is_said};
use crate::restore::server;
use crate::restore::set;
use crate::restore::steps;
use crate::restore::{self, begin};

use crate::schema::account::Account;
use crate::schema::diagnose::shown;
use crate::schema::guard;
use crate::schema::script::{Refusal, Scanner};
use crate::schema::toc::{self, Entry};
use crate::tools::{self, Running, Tool};
use crate::{Error, Format, RestoreOptions, Restored, World, preflight};

/// How much of what `pg_restore` writes is taken at once.
const PIECE: usize = 1 << 20;

/// A set that is one artefact of `pg_dump`.
pub(crate) struct Artefact<'a> {
    reader: Arc<SetReader>,
    /// Which items it is.
    what: Kept,
    pub(crate) detail: SetDetail,
    pub(crate) needs: Needs,
    /// What makes a script of it, if it isn't one.
    pg_restore: Option<Tool>,
    /// The objects of its table of contents; a script has none.
    entries: Vec<Entry>,
    options: &'a RestoreOptions,
}

/// The most bytes of a table of contents that are read before a restore begins.
const LARGEST_CONTENTS: usize = 256 << 20;

/// What is told of a restore when it is done.
#[derive(Default)]
pub(crate) struct Told {
    /// What the script came to, if somebody wants to know.
    pub(crate) account: Option<Account>,
    /// See [`Restored::without_statistics`].
    pub(crate) without_statistics: Vec<(String, String)>,
    /// See [`Restored::refused`].
    pub(crate) refused: Vec<(String, String)>,
}

/// What a database is that a restore finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    /// A restore was begun in it, and isn't done.
    Begun,
    /// Something is in it.
    Filled,
}

/// Restores the artefact that a set is.
pub(crate) async fn restore(
    reader: Arc<SetReader>,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    progress: Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    let artefact = Artefact::open(reader, options, world).await?;
    if !options.dry_run {
        // Of a set of Seawall's own format: only that puts databases aside.
        naming::undo_left(target, &[&target.database]).await?;
    }
    let (mut connection, found) = globals::connect_to_or_beside(target).await?;
    let exists = found != Found::Nothing;
    if found == Found::Invalid && !options.clean {
        restored.lacks.push(globals::invalid(&target.database));
        return if options.dry_run { Ok(()) } else { preflight::refuse(&restored.target, &restored.lacks) };
    }
    let into = if exists && !options.clean { Destination::Existing } else { Destination::New { replaces: exists } };
    let look = artefact.lacks(&mut connection, target, into).await?;
    (restored.lacks, restored.doubts) = (look.lacks, look.doubts);
    connection.close().await;
    if options.dry_run {
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    if exists && !options.clean {
        return artefact.fill_in_place(target, &*progress, restored).await;
    }
    // The name is given from another database, in the end: whether there is one is known now.
    globals::connect_beside(target, &[&target.database]).await?.close().await;
    let exists = exists && !restore::drop_invalid(target, found).await?;
    let mut told = Told::default();
    let made = artefact.make(target, &*progress, &mut told).await?;
    restored.without_statistics = told.without_statistics;
    restored.refused = told.refused;
    let properties = (&artefact.needs.properties, options.owners);
    let named = naming::take_name(target, &made.database, &target.database, exists, properties).await;
    named.map_err(|error| error.leaves(&made.database))
}

/// What can't be done with an artefact, and why.
pub(crate) fn in_parts(manifest: &Manifest, format: &str, cause: &str) -> Error {
    Error::Refused {
        code: "postgres.vendor-format",
        object: format!("set {}", manifest.id),
        cause: format!("it is what pg_dump wrote in its format {format}: {cause}"),
        next: "restore all of it with --to, or get what pg_dump wrote with -o, and use PostgreSQL's own tools"
            .to_owned(),
    }
}

impl<'a> Artefact<'a> {
    pub(crate) async fn open(
        reader: Arc<SetReader>,
        options: &'a RestoreOptions,
        world: &World,
    ) -> Result<Self, Error> {
        let manifest = reader.manifest();
        let corrupt = |cause: &str| set::corrupt(&reader, cause);
        let name = manifest.artefact.clone().unwrap_or_default();
        let format = name.parse().ok().filter(|format| *format != Format::Native);
        let format: Format = format.ok_or_else(|| corrupt("it is in a format that isn't known"))?;
        if !options.tables.is_empty() || options.data_only || options.database.is_some() {
            return Err(in_parts(manifest, &name, "it is restored as a whole"));
        }
        if format == Format::Plain && !options.owners {
            return Err(in_parts(manifest, &name, "its owners and grants can't be left out"));
        }
        let detail = SetDetail::deserialize(&manifest.detail).map_err(|error| corrupt(&error.to_string()))?;
        if detail.text_encoding().is_none() || detail.page() == 0 {
            return Err(corrupt(&format!("its rows have the encoding {}", detail.encoding)));
        }
        let items = set::items(&reader, None)?;
        let needs = set::document(&reader, &items, &ItemDetail::Needs).await?;
        let (Some(what), Some(needs)) = (reader.index().artefact(), needs) else {
            return Err(corrupt("it has no artefact, or nothing beside it"));
        };
        if matches!(what, Kept::Directory(_)) != (format == Format::Directory) {
            return Err(corrupt("its artefact is in another format than the manifest says"));
        }
        let (limits, environment) = (&options.limits, &world.environment);
        let pg_restore = match format {
            Format::Custom | Format::Directory => {
                Some(tools::find("pg_restore", detail.pg_dump, limits, environment).await?)
            }
            Format::Native | Format::Plain => None,
        };
        let mut artefact = Self { reader, what, detail, needs, pg_restore, entries: Vec::new(), options };
        artefact.entries = artefact.read_entries().await?;
        Ok(artefact)
    }

    /// The objects of its table of contents, which stands at the front of an archive.
    async fn read_entries(&self) -> Result<Vec<Entry>, Error> {
        if self.pg_restore.is_none() {
            return Ok(Vec::new());
        }
        let (mut content, mut front, mut enough) = (self.content().await?, Vec::new(), 0);
        while let Some(piece) = content.try_next().await? {
            front.extend_from_slice(&piece);
            if front.len() < enough {
                continue;
            }
            match toc::front(&front) {
                Ok(Some(entries)) => return Ok(entries),
                Ok(None) if front.len() < LARGEST_CONTENTS => enough = front.len().saturating_mul(2),
                Ok(None) => break,
                Err(cause) => {
                    // `pg_restore` may know more, and finds what is damaged.
                    tracing::warn!("what the target lacks is known only in part: the table of contents: {cause}");
                    return Ok(Vec::new());
                }
            }
        }
        match toc::front(&front) {
            Ok(Some(entries)) => Ok(entries),
            _ => Err(set::corrupt(&self.reader, "its table of contents is cut off")),
        }
    }

    /// The artefact as one archive, or as a script.
    async fn content(&self) -> Result<BoxStream<'static, Result<Vec<u8>, Error>>, Error> {
        Ok(match &self.what {
            Kept::File(item) => self.reader.content(*item).map_err(Error::from).boxed(),
            Kept::Directory(items) => joined::archive(&self.reader, items).await?.boxed(),
        })
    }

    pub(crate) async fn lacks(
        &self,
        connection: &mut Connection,
        target: &Target,
        into: Destination,
    ) -> Result<Look, Error> {
        let (owners, none) = (self.options.owners, Globals::default());
        let after = After { properties: self.needs.properties.clone(), ..After::default() };
        let request = Request {
            detail: &self.detail,
            database: &target.database,
            into,
            entries: &self.entries,
            at_once: false,
            after: &after,
            known: &none,
            made: &[],
            owners,
            tries: self.options.without_superuser,
            whole: true,
        };
        let Look { mut lacks, doubts, later } = preflight::look(connection, &request).await?;
        lacks.extend(later.into_iter().map(|what| {
            let cause = format!(
                "the {what} is bound to the name of its database, and this format is restored under another name first"
            );
            Lack::new(
                cause,
                format!(
                    "CREATE DATABASE {}; (an empty one), and restore into that, without --clean",
                    ident(&target.database)
                ),
            )
        }));
        for lack in preflight::lacks_beside(connection, &self.needs, self.encoding(), owners).await? {
            if !lacks.contains(&lack) {
                lacks.push(lack);
            }
        }
        if matches!(target.host, Host::Socket(_)) {
            lacks.extend(preflight::room(connection, self.detail.size).await?);
        }
        Ok(Look { lacks, doubts, later: Vec::new() })
    }

    /// The encoding of its texts.
    pub(crate) fn encoding(&self) -> TextEncoding {
        self.detail.text_encoding().unwrap_or_default()
    }

    /// The set in short.
    pub(crate) fn manifest(&self) -> &Manifest {
        self.reader.manifest()
    }

    /// What a journal is called, so that nothing else goes on with it.
    fn title(&self) -> String {
        let owners = if self.options.owners { "" } else { " without owners" };
        format!("artefact of set {}{owners}", self.reader.manifest().id)
    }

    /// What a database that is to be called `name` is called until it is all there.
    pub(crate) fn unfinished_name(&self, name: &str) -> String {
        if let Some(unfinished) = ProofName::unfinished(name) {
            return unfinished;
        }
        unfinished::name(&self.title(), name)
    }

    /// Makes a new database under a name of its own; returns it. One that an interrupted call left is made anew, unless
    /// all of it is there.
    pub(crate) async fn make(
        &self,
        target: &Target,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<Target, Error> {
        let made = target.with_database(&self.unfinished_name(&target.database));
        let mut server = globals::connect(target).await?;
        if !place::look(&mut server, target, &[&made.database]).await?.is_empty() {
            let is_whole = place::make(&mut server, &made.database, target, &self.detail).await?;
            // Where no other restore is at work.
            self.connect(&made).await?.close().await;
            if is_whole && let Some(refused) = self.refused_before(&made, target).await? {
                told.refused = refused;
                return Ok(made);
            }
            server::drop(&mut server, &made.database).await?;
        }
        place::make(&mut server, &made.database, target, &self.detail).await?;
        server.close().await;
        let mut connection = self.connect(&made).await?;
        if state(&mut connection).await? != State::Empty {
            let cause = "another restore of the same set is under way there, or was a moment ago".to_owned();
            let (object, next) = (target.to_string(), "start again when it is done".to_owned());
            return Err(Error::Refused { code: "postgres.other-restore", object, cause, next });
        }
        let filled = self.fill(&mut connection, Some((&made.database, &target.database)), progress, told).await;
        filled.map_err(|error| error.leaves(&made.database))?;
        connection.close().await;
        Ok(made)
    }

    /// What the server refused in the run that made all of a database but its name; `None` where a view has no rows: whether
    /// the server refused to fill it is known when it is done again.
    async fn refused_before(&self, made: &Target, target: &Target) -> Result<Option<Vec<Refused>>, Error> {
        let mut connection = self.connect(made).await?;
        // Unlogged tables are empty if the server crashed since, and nothing tells whether it did.
        if refresh::has_unfilled(&mut connection).await? || journal::has_unlogged_tables(&mut connection).await? {
            connection.close().await;
            return Ok(None);
        }
        let statements = self.properties(&made.database, &target.database);
        let refused = tried::run(&mut connection, &statements).await?;
        connection.close().await;
        Ok(Some(refused))
    }

    /// Fills a database that is there and has nothing in it.
    async fn fill_in_place(
        &self,
        target: &Target,
        progress: &dyn Progress,
        restored: &mut Restored,
    ) -> Result<(), Error> {
        let mut connection = self.connect(target).await?;
        let refused = |code, cause: String, next: &str| {
            Err(Error::Refused { code, object: target.to_string(), cause, next: next.to_owned() })
        };
        match state(&mut connection).await? {
            State::Empty => {}
            State::Begun => {
                let cause = "a restore was begun in it, and one of pg_dump's own format doesn't go on".to_owned();
                return refused("postgres.other-restore", cause, "drop the database, and start again");
            }
            State::Filled => {
                let cause = "something is in the database, which should be empty".to_owned();
                let next = "name another database, or replace this one with --clean";
                return refused("postgres.not-empty", cause, next);
            }
        }
        let mut told = Told::default();
        self.fill(&mut connection, None, progress, &mut told).await?;
        restored.without_statistics = told.without_statistics;
        restored.refused = told.refused;
        connection.close().await;
        Ok(())
    }

    /// A connection that no other restore shares its database with.
    pub(crate) async fn connect(&self, target: &Target) -> Result<Connection, Error> {
        let mut connection = connect(target, &self.detail.encoding).await?;
        // An amount of money reads as another one where it was written in another place.
        if let Some((name, value)) = self.needs.settings.iter().find(|(name, _)| name == "lc_monetary") {
            let set = format!("SET lc_monetary = {}", literal(value));
            connection.execute(&set).await.map_err(|error| error.about(&**name))?;
        }
        begin::be_alone(&mut connection).await?;
        guard::watch(&mut connection, target).await?;
        Ok(connection)
    }

    /// Everything, into an empty database; one that was made for it gets its properties under its `name`, and messages call
    /// it by the second one.
    async fn fill(
        &self,
        connection: &mut Connection,
        name: Option<(&str, &str)>,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<(), Error> {
        let Some(journal) = Journal::open(connection, &self.title()).await? else {
            return Err(Error::Internal("an empty database has a journal".to_owned()));
        };
        if name.is_some() {
            told.refused = guard::tried(connection, &properties::first_drops(&self.needs.properties)).await?;
        }
        progress.begin("load", Some(self.reader.manifest().totals.raw));
        let last = self.replay(connection, progress, told).await?;
        progress.finish();
        if let Some((name, shown)) = name {
            let statements = self.properties(name, shown);
            told.refused.extend(guard::tried(connection, &statements).await?);
        }
        told.without_statistics = statistics::gather_here(connection).await?;
        // What was committed without waiting for the disk is behind this, which waits.
        connection.execute("SET synchronous_commit = on").await?;
        let whole = name.map_or(String::new(), |(name, _)| notes::says_whole(name, name));
        end(connection, &journal, &whole, &last, &mut told.refused).await
    }

    /// The statements for what belongs to the database itself.
    fn properties(&self, name: &str, shown: &str) -> Vec<tried::Statement> {
        let properties = &self.needs.properties;
        let mut statements = properties::last_drops(properties);
        statements.extend(properties::statements(properties, name, shown, self.options.owners));
        statements
    }

    /// Runs the script that the artefact is, or is made into; returns its statements for the end.
    async fn replay(
        &self,
        connection: &mut Connection,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let counted = |raw: Vec<u8>| {
            progress.advance(raw.len() as u64);
            raw
        };
        let content = self.content().await?.map_ok(counted);
        let Some(tool) = &self.pg_restore else { return self.play(connection, content, told).await };
        let mut arguments = vec!["--format=custom".to_owned(), "--file=-".to_owned()];
        if !self.options.owners {
            arguments.extend(["--no-owner".to_owned(), "--no-privileges".to_owned()]);
        }
        let (input, mut running) = tool.filter(&arguments)?;
        let script = Box::pin(output(&mut running));
        let (all, last) = tokio::try_join!(feed(input, content), self.play(connection, script, told))?;
        running.finish().await?;
        match all {
            true => Ok(last),
            false => Err(set::corrupt(&self.reader, "pg_restore took its beginning for all of it")),
        }
    }

    async fn play<S>(&self, connection: &mut Connection, input: S, told: &mut Told) -> Result<Vec<Vec<u8>>, Error>
    where
        S: Stream<Item = Result<Vec<u8>, Error>> + Unpin,
    {
        let superuser = is_powerful(connection).await?;
        let input = Input::new(input);
        let mut player = Player {
            connection,
            input,
            scanner: Scanner::default(),
            account: &mut told.account,
            refused: &mut told.refused,
            superuser,
            last: Vec::new(),
        };
        let played = player.play().await.map_err(|stopped| match stopped {
            Stopped::Error(error) => error,
            Stopped::Refused(Refusal::Wrong(line, cause)) => {
                set::corrupt(&self.reader, format!("line {line} of its script: {cause}"))
            }
            Stopped::Refused(Refusal::Command(line)) => Error::Refused {
                code: "postgres.psql-command",
                object: format!("set {}", self.reader.manifest().id),
                cause: format!("line {line} of its script is a command for psql, which pg_dump doesn't write"),
                next: "don't give it to psql; get the file with -o FILE, and look at that line".to_owned(),
            },
        });
        played.map(|()| player.last)
    }
}

/// Whether statements run with the rights of a superuser, or a superuser is beside a session of a proof.
pub(crate) async fn is_powerful(connection: &mut Connection) -> Result<bool, Error> {
    Ok(connection.guard.is_some() || steps::is_superuser(connection).await?)
}

/// The end of a restore: event triggers, which are live from then on, in one transaction with the end of the journal. What is
/// said of them may be refused.
async fn end(
    connection: &mut Connection,
    journal: &Journal,
    whole: &str,
    last: &[Vec<u8>],
    refused: &mut Vec<Refused>,
) -> Result<(), Error> {
    if connection.guard.is_some() {
        journal.remove(connection, whole, b"").await?;
        return guard::finish(connection, false).await;
    }
    let script = |wanted: &dyn Fn(&[u8]) -> bool| -> Vec<u8> {
        last.iter()
            .filter(|statement| wanted(statement))
            .flat_map(|statement| [statement, &b";\n"[..]].concat())
            .collect()
    };
    let ended = journal.remove(connection, whole, &script(&|_| true)).await;
    let labels: Vec<String> =
        last.iter().filter(|statement| is_said(statement)).map(|statement| shown(statement)).collect();
    let ended = match ended {
        Err(error) if !labels.is_empty() && is_about_the_statement(&error) => {
            connection.execute("ROLLBACK").await?;
            refused.extend(labels.into_iter().map(|what| (what, error.cause())));
            journal.remove(connection, whole, &script(&|statement| !is_said(statement))).await
        }
        ended => ended,
    };
    ended.map_err(|error| if last.is_empty() { error } else { error.about("the event triggers") })
}

/// What a database is.
async fn state(connection: &mut Connection) -> Result<State, Error> {
    if !journal::all(connection).await?.is_empty() {
        return Ok(State::Begun);
    }
    let is_empty = connection.query(restore::ANYTHING).await?.is_empty();
    Ok(if is_empty { State::Empty } else { State::Filled })
}

/// Writes everything to a tool; false if that didn't want all of it.
async fn feed<S>(mut input: ChildStdin, mut content: S) -> Result<bool, Error>
where
    S: Stream<Item = Result<Vec<u8>, Error>> + Unpin,
{
    while let Some(raw) = content.next().await.transpose()? {
        // Why it ended it tells itself.
        if input.write_all(&raw).await.is_err() {
            return Ok(false);
        }
    }
    Ok(input.shutdown().await.is_ok())
}

/// What a tool writes.
fn output(running: &mut Running) -> impl Stream<Item = Result<Vec<u8>, Error>> {
    stream::try_unfold(Some(running), |running| async {
        let Some(running) = running else { return Ok(None) };
        let mut piece = Vec::with_capacity(PIECE);
        let more = running.read(&mut piece).await?;
        Ok(Some((piece, more.then_some(running))))
    })
}
