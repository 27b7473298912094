//! An artefact: the output of `pg_dump`, kept unchanged. PostgreSQL's own tools can restore it, today or in twenty years, and
//! need nothing of Seawall: `zstd -d` decompresses it.
//!
//! `pg_dump` uses Seawall's snapshot, which is taken after the locks. Otherwise a TRUNCATE in between would read as a table
//! without rows. The output is read from a pipe and compressed here. A directory is written to a disk of this host first, and
//! then taken file by file. The properties that `pg_dump` leaves out, and that a new database needs, are kept beside it.
//!
//! The room: `aside` (a folder for what `pg_dump` can only write to files), `directory` (what is in such a folder?). The way
//! back is `restore::replay`.

pub(crate) mod aside;
pub(crate) mod directory;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_archive::{Content, Lane, SetWriter, Stage};
use seawall_core::Progress;
use tokio::time::Instant;

use crate::artefact::aside::{Aside, Taken};
use crate::artefact::directory::{CONTENTS, Directory};
use crate::catalog::inventory;
use crate::catalog::rights;
use crate::catalog::snapshot::Seen;
use crate::client::{Connection, Target, keepalives};
use crate::detail::ItemDetail;
use crate::items::{file, json, written};
use crate::tools::Tool;
use crate::{Error, Format, World};

/// How often the size of the folder is looked at, while `pg_dump` writes to it.
const LOOK: Duration = Duration::from_secs(1);

/// How an artefact is made.
pub(crate) struct How<'a> {
    pub(crate) format: Format,
    /// Connections that read a directory.
    pub(crate) jobs: usize,
    /// Bytes of all tables on the server.
    pub(crate) tables: u64,
    pub(crate) world: &'a World,
    pub(crate) progress: &'a dyn Progress,
}

/// Takes the artefact of the state that `connection` holds.
pub(crate) async fn write(
    writer: &SetWriter,
    pg_dump: &Tool,
    seen: Seen<'_>,
    connection: &mut Connection,
    how: How<'_>,
) -> Result<(), Error> {
    rights::check_large_objects(connection).await?;
    let needs = inventory::needs(connection).await?;
    let beside = file(writer, "needs.json", &ItemDetail::Needs, &needs);
    match how.format {
        Format::Directory => {
            let dumped = put_aside(writer, pg_dump, seen, &how);
            tokio::try_join!(dumped, beside)?;
        }
        format => {
            let item = writer.item(name(format), Content::Artefact, json(&ItemDetail::Artefact)?);
            let dumped = written(writer, item, pg_dump.start(seen.target, &arguments(seen, format))?);
            tokio::try_join!(dumped, beside)?;
        }
    }
    Ok(())
}

/// The name of the artefact's item.
fn name(format: Format) -> &'static str {
    if format == Format::Plain { "database.sql" } else { "database.dump" }
}

/// The arguments of `pg_dump`. It compresses nothing, because Seawall does.
fn arguments(seen: Seen<'_>, format: Format) -> Vec<String> {
    let always = ["--compress=0", "--no-password", "--lock-wait-timeout=3s"];
    let mut arguments: Vec<String> = always.map(str::to_owned).into();
    arguments.push(format!("--format={}", format.name()));
    arguments.push(keepalives());
    arguments.push(format!("--encoding={}", seen.encoding));
    arguments.extend(seen.arguments());
    arguments
}

/// Makes a directory on a disk of this host, and takes and removes it file by file.
async fn put_aside(writer: &SetWriter, pg_dump: &Tool, seen: Seen<'_>, how: &How<'_>) -> Result<(), Error> {
    let (environment, tables) = (how.world.environment.clone(), how.tables);
    let aside = blocking(move || Aside::new(&environment, tables)).await?;
    let mut arguments = arguments(seen, how.format);
    arguments.extend([format!("--jobs={}", how.jobs.max(1)), "--no-sync".to_owned()]);
    arguments.push(format!("--file={}", aside.dump().display()));
    let lane = writer.lane();
    let started = Instant::now();
    let (made, folder) = (pg_dump.start(seen.target, &arguments)?.finish(), aside.dump());
    tokio::select! {
        made = made => made.map_err(|error| aside.explain(error))?,
        () = watch(&folder, how.progress) => {}
    }
    lane.waited(Stage::Server, started.elapsed());
    take(writer, lane, &folder, how.progress).await?;
    blocking(move || {
        aside.remove();
        Ok(())
    })
    .await
}

/// Reports the growing size of a folder, until the future is dropped.
async fn watch(folder: &Path, progress: &dyn Progress) {
    let mut told = 0;
    loop {
        let (folder, started) = (folder.to_owned(), Instant::now());
        let size = blocking(move || Ok(aside::list(&folder)?.iter().map(|(_, bytes)| bytes).sum::<u64>()));
        let size = size.await.unwrap_or(told);
        progress.advance(size.saturating_sub(told));
        told = told.max(size);
        // Listing many files takes a while.
        tokio::time::sleep(LOOK.max(started.elapsed() * 20)).await;
    }
}

/// Takes the files of a directory in the order of its table of contents. A restore needs them in this order.
async fn take(writer: &SetWriter, mut lane: Lane, folder: &Path, progress: &dyn Progress) -> Result<(), Error> {
    let at = |name: &str| folder.join(name);
    let strange = |cause: String| Error::Tool {
        tool: "pg_dump".to_owned(),
        cause: format!("its directory isn't understood: {cause}"),
        next: "name the folder of a version from 14 to 18 with --pg-bindir, or take another --format".to_owned(),
    };
    let (folder, contents) = (folder.to_owned(), at(CONTENTS));
    let (contents, there) = blocking(move || Ok((aside::read(&contents)?, aside::list(&folder)?))).await?;
    progress.begin("store", Some(there.iter().map(|(_, bytes)| bytes).sum()));
    let mut left: BTreeSet<String> = there.into_iter().map(|(name, _)| name).collect();
    let directory = Directory::read(&contents).map_err(strange)?;
    let mut names = vec![CONTENTS.to_owned()];
    for part in directory.parts {
        let list = at(&part.file);
        names.push(part.file);
        if part.objects {
            let objects = directory::objects(&blocking(move || aside::read(&list)).await?).map_err(strange)?;
            names.extend(objects.into_iter().map(|(_, file)| file));
        }
    }
    for name in names {
        if !left.remove(&name) {
            return Err(strange(format!("the file {name:?} isn't there")));
        }
        let (path, detail) = (at(&name), json(&ItemDetail::Artefact)?);
        lane = take_file(writer.item(name, Content::Member, detail), lane, path).await?;
    }
    match left.pop_first() {
        Some(name) => Err(strange(format!("nothing names the file {name:?}"))),
        None => Ok(lane.finish().await?),
    }
}

/// Takes one file as the bytes of an item.
async fn take_file(item: u32, mut lane: Lane, path: PathBuf) -> Result<Lane, Error> {
    let mut taken: Option<Taken> = None;
    loop {
        let (before, path, mut buffer) = (taken.take(), path.clone(), lane.buffer().await?);
        let (file, buffer, more) = blocking(move || {
            let mut file = before.map_or_else(|| Taken::open(path), Ok)?;
            let more = file.fill(&mut buffer)?;
            Ok((file, buffer, more))
        })
        .await?;
        taken = Some(file);
        match buffer.is_empty() {
            true => lane.unused(buffer),
            false => lane.push(item, 0, buffer).await?,
        }
        if !more {
            return Ok(lane);
        }
    }
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    seawall_core::blocking(job).await
}

/// The refusal of a whole server: a dump of `pg_dump` has one database.
pub(crate) fn of_a_server(target: &Target, format: Format) -> Error {
    Error::Refused {
        code: "postgres.vendor-format",
        object: target.to_string(),
        cause: format!("pg_dump's format {} is of one database, and the URL names a whole server", format.name()),
        next: "leave --format out, or back up each database by its name into a vault of its own".to_owned(),
    }
}

/// The refusal of a sample: a dump of `pg_dump` has whole tables.
pub(crate) fn of_a_sample(target: &Target, format: Format) -> Error {
    Error::Refused {
        code: "postgres.vendor-format",
        object: target.to_string(),
        cause: format!("pg_dump's format {} has every row, and a sample is asked for", format.name()),
        next: "leave --format out, or --sample".to_owned(),
    }
}
