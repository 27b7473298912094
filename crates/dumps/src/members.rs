//! The databases of a whole server's backup: `globals.sql` and `dumps/NAME.dump` or `dumps/NAME.sql`, in a tar or in a folder.
//!
//! A thread reads the tar once, from its beginning to its end, and hands out one member after the other. Nothing is unpacked.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use seawall_core::{Failure, Kind};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;

use crate::file::{DUMPS, Dump, GLOBALS, Shape, open, other_archive, proved, put, unknown};
use crate::layers::{Content, Digest, Digested, Source, damaged, digests, failure, unreadable};
use crate::pieces::{Event, Pieces, ended};
use crate::recognise::{Form, Wrap};
use crate::sidecar::{Checked, Sidecar};
use crate::tar::{Tar, Type, not_safe, parts};

/// The most members of a tar.
const MOST: usize = 100_000;

/// The most bytes of a database's name, on any server.
const LONGEST_NAME: usize = 256;

/// A part of a whole server's backup.
pub struct Member {
    /// Its database; `None` of what belongs to no database.
    pub database: Option<String>,
    /// What it is.
    pub form: Form,
    /// How it is compressed.
    pub wrap: Wrap,
    /// Its content. If it is dropped, the next member comes.
    pub pieces: Pieces,
}

/// What is behind the last member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that no backup of a server needs, and that nothing reads.
    pub ignored: Vec<String>,
    /// Files in the place of the databases that aren't understood: each may be a database.
    pub unread: Vec<String>,
    /// Scripts whose end nothing proves but the tar in which they are.
    pub unmarked: Vec<String>,
    /// How many more files there are than the lists name.
    more: usize,
}

/// How many files a list names.
const NAMED: usize = 100;

impl Summary {
    fn pass(&mut self, path: &str, parts: &[&str]) {
        let is_beside = [".sha256", ".info", ".meta.json"].iter().any(|end| path.ends_with(end));
        let is_in_place = parts.split_last().is_some_and(|(_, folders)| folders.contains(&DUMPS));
        let list = if is_in_place && !is_beside { &mut self.unread } else { &mut self.ignored };
        match list.len() < NAMED {
            true => list.push(path.to_owned()),
            false => self.more += 1,
        }
    }

    /// Files that aren't read, and that no list names.
    pub fn more(&self) -> usize {
        self.more
    }
}

enum Found {
    Member(Box<Member>),
    Failed(Failure),
    End(Summary),
}

/// The members of a backup, in its order.
pub struct Members {
    receiver: Receiver<Found>,
    object: String,
}

impl Dump {
    /// The members of a whole server's backup. A thread of the runtime reads them.
    pub fn members(&self) -> Members {
        let (sender, receiver) = channel(1);
        let dump = self.clone();
        let object = self.object();
        spawn_blocking(move || {
            let done = match dump.shape {
                Shape::Folder => of_folder(&dump, &sender),
                Shape::Single(_) | Shape::Tar(_) => of_tar(&dump, &sender),
            };
            let _ = sender.blocking_send(match done {
                Ok(summary) => Found::End(summary),
                Err(failure) => Found::Failed(failure),
            });
        });
        Members { receiver, object }
    }
}

impl Members {
    /// The next member; behind the last one the summary, and only if all of the backup was read and is sound.
    ///
    /// # Errors
    /// What is wrong with the backup.
    pub async fn next(&mut self) -> Result<Result<Member, Summary>, Failure> {
        match self.receiver.recv().await {
            Some(Found::Member(member)) => Ok(Ok(*member)),
            Some(Found::End(summary)) => Ok(Err(summary)),
            Some(Found::Failed(failure)) => Err(failure),
            None => Err(ended(&self.object)),
        }
    }
}

/// What a path in a backup stands for: a database, or what belongs to none. `None`: nothing.
pub(crate) fn role(parts: &[&str]) -> Option<Option<String>> {
    let uncompressed = |name: &str| {
        let stem = [".gz", ".zst"].into_iter().find_map(|end| name.strip_suffix(end));
        stem.unwrap_or(name).to_owned()
    };
    match parts {
        [.., DUMPS, file] => {
            let stem = uncompressed(file);
            let name = [".dump", ".sql"].into_iter().find_map(|end| stem.strip_suffix(end))?;
            (!name.is_empty() && name.len() <= LONGEST_NAME).then(|| Some(name.to_owned()))
        }
        [.., file] if uncompressed(file) == GLOBALS => Some(None),
        _ => None,
    }
}

fn of_tar(dump: &Dump, sender: &Sender<Found>) -> Result<Summary, Failure> {
    let object = dump.object();
    let (source, file, opened) = dump.open()?.parts();
    let content = Content::open(source, "").map_err(|error| failure(error, &object))?;
    let mut tar = Tar::new(content.bytes, &object);
    let (mut summary, mut seen) = (Summary::default(), BTreeSet::new());
    let mut count = 0;
    while let Some(head) = tar.next().map_err(|error| failure(error, &object))? {
        count += 1;
        if count > MOST {
            return Err(damaged(&object, format!("it has more than {MOST} members")));
        }
        let parts = parts(&head.path, &object)?;
        match head.r#type {
            Type::File => {}
            Type::Folder => continue,
            Type::Other(b'S') => {
                let next = "make the tar anew without its option for sparse files, or restore the folder into which it is unpacked";
                let cause = format!("the member {:?} is stored as a sparse file, which isn't read here", head.path);
                return Err(Failure::new(Kind::Refused, "dump.unknown", &object, cause, next));
            }
            Type::Other(_) => {
                return Err(not_safe(&object, &format!("the member {:?} is a link or a device", head.path)));
            }
        }
        let Some(role) = role(&parts) else {
            summary.pass(&head.path, &parts);
            continue;
        };
        if !seen.insert(role.clone()) {
            return Err(damaged(&object, format!("it has {:?} twice", head.path)));
        }
        let name = parts.last().copied().unwrap_or_default();
        let member =
            Named { name, shown: format!("{} in {object}", head.path), id: format!("{}|{}", dump.id, head.path) };
        let unmarked = &mut summary.unmarked;
        let judge = |is_marked, wrap| {
            // All of the tar's bytes are there; whether the script was whole when it was put in isn't known.
            if proved(is_marked, wrap, Checked::Nothing, "").is_err() && unmarked.len() < NAMED {
                unmarked.push(head.path.clone());
            }
            Ok(())
        };
        if !hand_out(Box::new(&mut tar), role, &member, head.size, sender, judge)? {
            return Ok(summary);
        }
    }
    dump.judge(&file, opened.as_ref())?;
    Ok(summary)
}

/// The name of a member, as it is shown, and what stands for its content.
struct Named<'a> {
    name: &'a str,
    shown: String,
    id: String,
}

/// Hands a member out, and puts its content into its stream. False: the reader has closed the stream.
fn hand_out(
    source: Source<'_>,
    database: Option<String>,
    member: &Named<'_>,
    size: u64,
    sender: &Sender<Found>,
    judge: impl FnOnce(bool, Wrap) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let shown = &member.shown;
    let content = Content::open(source, member.name).map_err(|error| failure(error, shown))?;
    let form = match content.form(shown)? {
        Some(form @ (Form::Archive | Form::Script(_))) => form,
        Some(Form::OtherArchive) => return Err(other_archive(shown)),
        Some(Form::Tar) | None => return Err(unknown(shown)),
    };
    let (pieces, events) = Pieces::new(shown, &member.id, size);
    let found = Member { database, form: form.clone(), wrap: content.wrap, pieces };
    if sender.blocking_send(Found::Member(Box::new(found))).is_err() {
        return Ok(false);
    }
    let done = put(content.bytes, &form, &events, shown);
    let done = done.and_then(|is_marked| is_marked.map_or(Ok(()), |is_marked| judge(is_marked, content.wrap)));
    match done {
        Ok(()) => {
            let _ = events.blocking_send(Event::End);
            Ok(true)
        }
        Err(failure) => {
            let _ = events.blocking_send(Event::Failed(failure.clone()));
            Err(failure)
        }
    }
}

fn of_folder(dump: &Dump, sender: &Sender<Found>) -> Result<Summary, Failure> {
    let mut summary = Summary::default();
    let mut files = list(&dump.path)?;
    let dumps = dump.path.join(DUMPS);
    if std::fs::symlink_metadata(&dumps).is_ok_and(|facts| facts.is_symlink()) {
        return Err(not_safe(&dumps.display().to_string(), "it is a link"));
    }
    files.extend(list(&dumps)?);
    let mut seen = BTreeSet::new();
    for file in files {
        let shown = file.display().to_string();
        let Some(relative) = file.strip_prefix(&dump.path).unwrap_or(&file).to_str().map(str::to_owned) else {
            return Err(damaged(&shown, "its name isn't UTF-8"));
        };
        let parts = parts(&relative, &shown)?;
        let facts = std::fs::symlink_metadata(&file).map_err(|error| unreadable(&shown, &error))?;
        let role = role(&parts).filter(|_| !facts.is_dir());
        if facts.is_dir() && parts == [DUMPS] {
            continue;
        }
        let Some(role) = role else {
            summary.pass(&relative, &parts);
            continue;
        };
        if !facts.is_file() {
            return Err(not_safe(&shown, "it is a link or a device"));
        }
        if !seen.insert(role.clone()) {
            return Err(damaged(&shown, "the same database has another file"));
        }
        let name = parts.last().copied().unwrap_or_default();
        let id = format!("{shown}|{}|{:?}", facts.len(), facts.modified().ok());
        let member = Named { name, shown: shown.clone(), id };
        let opened = open(&file)?;
        let found = opened.metadata().map_err(|error| unreadable(&shown, &error))?;
        if (found.dev(), found.ino()) != (facts.dev(), facts.ino()) {
            return Err(damaged(&shown, "it isn't the file any more that was looked at"));
        }
        let sidecar = Sidecar::read(&file)?;
        let digest = Digest::new(sidecar.beginning(facts.len()));
        let source = Digested { inner: opened, digest: digest.clone() };
        let judge = |is_marked, wrap| {
            let checked = sidecar.judge(&digests(&digest, None), &shown)?;
            proved(is_marked, wrap, checked, &shown)
        };
        if !hand_out(Box::new(source), role, &member, facts.len(), sender, judge)? {
            break;
        }
    }
    Ok(summary)
}

/// Whether a folder has a file for a database in the place where a whole server's backup has them.
pub(crate) fn has_dumps(folder: &Path) -> bool {
    let files = list(&folder.join(DUMPS)).unwrap_or_default();
    files.iter().any(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.is_file() && role(&[DUMPS, &name]).is_some()
    })
}

/// The files of a folder, by name; none where it isn't there.
fn list(folder: &Path) -> Result<Vec<std::path::PathBuf>, Failure> {
    let failed = |error: &std::io::Error| unreadable(&folder.display().to_string(), error);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(|error| failed(&error))?.path());
        if files.len() > MOST {
            return Err(damaged(&folder.display().to_string(), format!("it has more than {MOST} files")));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_are() {
        for (path, expected) in [
            (&["globals.sql"][..], Some(None)),
            (&["globals.sql.zst"], Some(None)),
            (&["cluster_20261128", "globals.sql"], Some(None)),
            (&["dumps", "shop.dump"], Some(Some("shop"))),
            (&["x", "dumps", "shop.sql"], Some(Some("shop"))),
            (&["dumps", "9.10.3_prod.sql.gz"], Some(Some("9.10.3_prod"))),
            (&["dumps", "shop.sql.zst"], Some(Some("shop"))),
            (&["dumps", "shop.dump.gz"], Some(Some("shop"))),
            (&["dumps", ".sql"], None),
            (&["dumps", "readme.txt"], None),
            (&["shop.dump"], None),
            (&["metadata.json"], None),
            (&[], None),
        ] {
            assert_eq!(role(path), expected.map(|name| name.map(str::to_owned)), "{path:?}");
        }
    }

    #[test]
    fn a_file_in_the_place_of_databases_may_be_one() {
        let mut summary = Summary::default();
        for path in [
            "metadata.json",
            "dumps/shop.sql.sha256",
            "dumps/shop.dump.info",
            "dumps/shop.dump.enc",
            "dumps/shop.sql.bz2",
            "dumps/shop/toc.dat",
            "x/dumps/GNUSparseFile.7/shop.dump",
        ] {
            summary.pass(path, &path.split('/').collect::<Vec<_>>());
        }
        assert_eq!(summary.ignored, ["metadata.json", "dumps/shop.sql.sha256", "dumps/shop.dump.info"]);
        assert_eq!((summary.unread.len(), summary.more()), (4, 0));
        (0..200).for_each(|number| summary.pass(&number.to_string(), &[]));
        assert_eq!((summary.ignored.len(), summary.more()), (NAMED, 103));
    }
}
