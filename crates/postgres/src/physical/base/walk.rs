//! Through all folders of a data directory, in the order of the index.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::budget::STRETCH;
use super::index::{EXTENT, Entry};
use super::list::{self, Listed, Part, has_relations, part, unlogged};
use super::pages::RelationFile;
use super::previous::Previous;
use super::read::{MOST_PIECES, Piece};
use super::{Run, read_and_work};
use crate::Error;
use crate::client::Connection;

/// Reads everything but `pg_control`. Returns whether the server's configuration is there.
pub(super) async fn walk(
    session: &mut Connection,
    versioned: &str,
    mut previous: Option<Previous>,
    run: &mut Run,
) -> Result<bool, Error> {
    let mut has_configuration = false;
    // The least folder is next, and every folder in it is greater: so all come in order.
    let mut left = BTreeSet::from([String::new()]);
    while let Some(folder) = left.pop_first() {
        let listed = list::list(session, &folder).await?;
        let unlogged = unlogged(&listed);
        let path = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        has_configuration |= folder.is_empty() && listed.iter().any(|one| one.name == "postgresql.conf");
        let mut files = Vec::new();
        let mut names = listed.into_iter().map(|one| (part(&folder, &one, &unlogged, versioned), one)).peekable();
        while let Some((kind, one)) = names.next() {
            match kind {
                Part::No => {}
                Part::File => files.push(one),
                Part::Folder | Part::EmptyFolder => {
                    // What was found before it stands before it in the index.
                    read(run, &mut previous, &folder, std::mem::take(&mut files)).await?;
                    let path = path(&one.name);
                    run.writer.begin(Entry::Folder, &path, 0, 0).await?;
                    if kind == Part::Folder {
                        left.insert(path);
                    }
                }
            }
            if names.peek().is_none() {
                read(run, &mut previous, &folder, std::mem::take(&mut files)).await?;
            }
        }
    }
    Ok(has_configuration)
}

/// Reads files of a folder.
async fn read(run: &mut Run, previous: &mut Option<Previous>, folder: &str, files: Vec<Listed>) -> Result<(), Error> {
    if files.is_empty() {
        return Ok(());
    }
    let plan = Plan { folder, files: files.into_iter(), present: None, previous, pending: None };
    let statements = stream::unfold(plan, |mut plan| async move { plan.next().await.map(|pieces| (pieces, plan)) });
    let (readers, rules, encoders) = (Arc::clone(&run.readers), run.rules.clone(), run.encoders.clone());
    let works = statements.map(|pieces| read_and_work(Arc::clone(&readers), rules.clone(), encoders.clone(), pieces));
    // Boxed, because the compiler doesn't see that the stream may be sent, whatever the lifetimes in it.
    let mut works = works.buffered(run.stretches).boxed();
    while let Some((pieces, done)) = works.try_next().await? {
        run.take(&pieces, &done).await?;
    }
    Ok(())
}

/// Which pieces are read with which statement.
struct Plan<'p> {
    folder: &'p str,
    files: std::vec::IntoIter<Listed>,
    /// The file that is being cut into pieces, and where the next one begins.
    present: Option<(Listed, u64)>,
    /// A piece that had no room.
    pending: Option<Piece>,
    previous: &'p mut Option<Previous>,
}

impl Plan<'_> {
    /// The pieces of the next statement; `None` when all are read.
    async fn next(&mut self) -> Option<Vec<Piece>> {
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        loop {
            let piece = match self.pending.take() {
                Some(piece) => piece,
                None => match self.piece().await {
                    Some(piece) => piece,
                    None => break,
                },
            };
            if !pieces.is_empty() && (bytes + piece.length > STRETCH || pieces.len() == MOST_PIECES) {
                self.pending = Some(piece);
                break;
            }
            bytes += piece.length;
            pieces.push(piece);
        }
        (!pieces.is_empty()).then_some(pieces)
    }

    async fn piece(&mut self) -> Option<Piece> {
        let (file, offset) = match self.present.take() {
            Some(present) => present,
            None => (self.files.next()?, 0),
        };
        let path = if self.folder.is_empty() { file.name.clone() } else { format!("{}/{}", self.folder, file.name) };
        let left = file.bytes - offset;
        let length = left.min(STRETCH as u64).min(EXTENT - offset % EXTENT);
        let before = match self.previous {
            Some(previous) => previous.extent(&path, offset / EXTENT * EXTENT).await,
            None => None,
        };
        let relation = has_relations(self.folder).then(|| RelationFile::parse(&file.name)).flatten();
        let modified = file.modified;
        if left > length {
            self.present = Some((file, offset + length));
        }
        let length = usize::try_from(length).unwrap_or(STRETCH);
        Some(Piece { path, modified, offset, length, relation, before })
    }
}
