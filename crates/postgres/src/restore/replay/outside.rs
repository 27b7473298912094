//! A file that another program left, into a database: what `pg_dump` wrote as an archive or as a script.
//!
//! It goes the way of an artefact in a set. What a set records beside the artefact, and a file doesn't, comes from the file's own
//! first bytes, or from the server: the encoding, the locale, the owner of the database.

use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, TryStreamExt as _};
use seawall_archive::server::Filled;
use seawall_core::Progress;
use seawall_dumps::{Form, Maker, Pieces, Said};

use crate::catalog::globals;
use crate::catalog::inventory;
use crate::catalog::records::{Locale, Needs};
use crate::client::{Connection, Target, TextEncoding};
use crate::detail::SetDetail;
use crate::error::Side;
use crate::restore::replay::artefact::{Artefact, LARGEST_CONTENTS};
use crate::restore::replay::origin::Origin;
use crate::restore::replay::restore_artefact;
use crate::schema::created;
use crate::schema::toc::{self, Entry};
use crate::{Error, Properties, RestoreOptions, World, tools};

/// The oldest `pg_restore` that reads what it is given from a pipe as it is needed here.
pub(super) const OLDEST: u32 = 14;

/// Restores a file into the database that `target` names: a new one, or an empty one. A dry run takes the roles in `made` for
/// present.
///
/// # Errors
/// What is wrong with the file, the target or the request. A database that was there is as it was, unless it was empty.
pub async fn restore_file(
    pieces: Pieces,
    form: &Form,
    target: &Target,
    options: &RestoreOptions,
    world: &World,
    made: &[String],
    progress: Arc<dyn Progress>,
) -> Result<Filled, Error> {
    let restored = async {
        refuse_parts(&pieces, options)?;
        let (mut server, _) = globals::connect_to_or_beside(target).await?;
        let mut artefact = of_file(pieces, form, target, options, world, &mut server).await?;
        artefact.made = made.to_vec();
        server.close().await;
        let mut filled = Filled::default();
        restore_artefact(&artefact, target, options, progress, &mut filled).await?;
        Ok(filled)
    };
    restored.await.map_err(|error: Error| error.during(Side::Restore))
}

/// A file is restored as a whole.
fn refuse_parts(pieces: &Pieces, options: &RestoreOptions) -> Result<(), Error> {
    if options.tables.is_empty() && !options.data_only {
        return Ok(());
    }
    Err(Error::Refused {
        code: "postgres.vendor-format",
        object: pieces.object().to_owned(),
        cause: "a file of another program is restored as a whole".to_owned(),
        next: "leave --table and --data-only out; or give pg_restore the archive, with its own --table or --data-only"
            .to_owned(),
    })
}

/// A file as an artefact.
async fn of_file<'a>(
    mut pieces: Pieces,
    form: &Form,
    target: &Target,
    options: &'a RestoreOptions,
    world: &World,
    server: &mut Connection,
) -> Result<Artefact<'a>, Error> {
    let (_, mut locale, ..) = inventory::database(server).await?;
    locale.tablespace = None;
    let mut owner = server.one("SELECT current_user").await?.text(0).to_owned();
    let is_archive = *form == Form::Archive;
    let toc = if is_archive { contents(&mut pieces).await? } else { None };
    let entries = toc.as_ref().map(|toc| toc.entries.clone()).unwrap_or_default();
    let versions = toc.map(|toc| toc.versions).unwrap_or_default();
    if let Some(made) = entries.iter().find(|entry| entry.kind == "DATABASE") {
        locale = created::locale(&made.statement).unwrap_or(locale);
        if !made.owner.is_empty() {
            owner.clone_from(&made.owner);
        }
    }
    let said = match form {
        Form::Script(said) => Some(said),
        Form::Archive | Form::OtherArchive | Form::Tar => None,
    };
    let in_public = said.is_some_and(|said| said.maker == Maker::Unknown);
    let encoding = encoding(said, &entries, &locale);
    let made_of = said.and_then(|said| said.server.as_deref()).or(Some(&*versions.0));
    let pg_dump = major(&versions.1).unwrap_or(OLDEST).max(OLDEST);
    let pg_restore = match is_archive {
        true => Some(tools::find("pg_restore", pg_dump, &options.limits, &world.environment).await?),
        false => None,
    };
    let detail = SetDetail {
        database: target.database.clone(),
        server_version: made_of.and_then(major).unwrap_or_default() * 10_000,
        system_identifier: String::new(),
        lsn: String::new(),
        standby: false,
        encoding: encoding.name().to_owned(),
        pg_dump,
        locale,
        size: 0,
        extensions: extensions(&entries),
        block_size: None,
    };
    let (object, id, size) = (pieces.object().to_owned(), pieces.id().to_owned(), pieces.size());
    let content = pieces.stream().map_err(|failure| Error::File(Box::new(failure))).boxed();
    let origin = Origin::File { object, id, size, content: Mutex::new(Some(content)) };
    let properties = Properties { owner, ..Properties::default() };
    let needs = Needs { properties, ..Needs::default() };
    Ok(Artefact { origin, detail, needs, pg_restore, entries, in_public, made: Vec::new(), options })
}

/// The table of contents of an archive; `None` where it is of a version that isn't known here. `pg_restore` may know it.
pub(super) async fn contents(pieces: &mut Pieces) -> Result<Option<toc::Toc>, Error> {
    let wrong = |failure| Error::File(Box::new(failure));
    let mut enough = 64 << 10;
    loop {
        let object = pieces.object().to_owned();
        let front = pieces.peek(enough).await.map_err(wrong)?;
        let size = front.len();
        match toc::front(front) {
            Ok(Some(toc)) => return Ok(Some(toc)),
            Ok(None) if size >= enough && size < LARGEST_CONTENTS => enough = size.saturating_mul(2),
            Ok(None) => {
                let next = "take another copy of the backup, or another backup: the end of this one is missing";
                let cause = "its table of contents is cut off";
                let kind = seawall_core::Kind::Corrupt;
                return Err(wrong(seawall_core::Failure::new(kind, "dump.cut-off", object, cause, next)));
            }
            Err(cause) => {
                tracing::warn!("what the target lacks is known only in part: the table of contents: {cause}");
                return Ok(None);
            }
        }
    }
}

/// The encoding of the texts: what the file says, or else that of the database.
fn encoding(said: Option<&Said>, entries: &[Entry], locale: &Locale) -> TextEncoding {
    let of_archive = entries.iter().find(|entry| entry.kind == "ENCODING");
    let of_archive = of_archive.and_then(|entry| entry.statement.split('\'').nth(1));
    let said = said.filter(|said| said.maker != Maker::Mysql).and_then(|said| said.encoding.as_deref()).or(of_archive);
    said.and_then(TextEncoding::of).or_else(|| TextEncoding::of(&locale.encoding)).unwrap_or_default()
}

fn extensions(entries: &[Entry]) -> Vec<String> {
    entries.iter().filter(|entry| entry.kind == "EXTENSION").map(|entry| entry.tag.clone()).collect()
}

/// The major version in `15.18 (Debian 15.18-0+deb12u1)`.
pub(super) fn major(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_servers() {
        for (version, expected) in [
            ("15.18 (Debian 15.18-0+deb12u1)", Some(15)),
            ("18beta1", Some(18)),
            ("9.6.24", Some(9)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(major(version), expected, "{version}");
        }
    }
}
