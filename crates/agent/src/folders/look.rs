//! Is there a database at this place? All calls block.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seawall_engines::proofs::SCRATCH;
use seawall_engines::sqlite::{Beginning, HEADER};

use super::events::Events;
use crate::config::{DirectoryConfig, SqliteConfig};
use crate::fleet::Looking;

/// How deep folders are followed.
const DEPTH: usize = 64;

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A whole database.
    Database(Identity),
    /// A file that is meant and may become a database: it is empty, or not all of it is there.
    NotYet,
    /// A file that is meant, or a folder, which our user may not read: whether it is a database isn't known.
    Denied,
    /// Something else.
    Other,
    /// A folder to look into.
    Folder,
    /// A folder that can't be read now, or a place that can't be asked about: what was found there is still meant.
    Unseen,
    /// Nothing.
    Gone,
}

/// The files that a look must not open.
pub(crate) struct Look {
    root: PathBuf,
    /// Files that the fleet has: an engine may be opening whatever stands there now.
    members: HashSet<PathBuf>,
    /// Files that an engine may have open under whatever name.
    open: HashSet<Identity>,
    /// Registers the look, so that new members wait for it; `None` before there is a fleet.
    looking: Option<Looking>,
}

impl Look {
    /// Nothing of the fleet's `members` and of the files `known` is opened in the folder `root`.
    pub(crate) fn new(
        root: PathBuf,
        members: HashSet<PathBuf>,
        mut known: HashSet<Identity>,
        looking: Option<Looking>,
    ) -> Self {
        known.extend(members.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|found| Identity::of(&found)));
        Self { root, members, open: known, looking }
    }
}

/// What is at `relative` in the folder.
pub(crate) fn look(config: &DirectoryConfig, known: &Look, relative: &Path) -> Verdict {
    let path = if relative.as_os_str().is_empty() { known.root.clone() } else { known.root.join(relative) };
    let name = relative.file_name().and_then(|name| name.to_str());
    // Links to files count as files. Links to folders in the folder are not followed, or a circle would have no end;
    // the folder itself may be a link.
    let is_root = relative.as_os_str().is_empty();
    let own = match if is_root { std::fs::metadata(&path) } else { std::fs::symlink_metadata(&path) } {
        Ok(own) => own,
        Err(error) if is_absence(&error) => return Verdict::Gone,
        Err(_) => return Verdict::Unseen,
    };
    if own.is_dir() {
        // What a proof restores is no database to protect.
        let is_scratch = |name: &str| name.starts_with(SCRATCH);
        let entered = is_root || name.is_some_and(|name| config.enters(name) && !is_scratch(name));
        return if entered { Verdict::Folder } else { Verdict::Other };
    }
    if !relative.file_name().is_some_and(|name| config.is_meant(&name.to_string_lossy())) {
        return Verdict::Other;
    }
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => judge(known, &path, &found, || was_protected(config, relative)),
        Ok(_) => Verdict::Other,
        Err(error) if is_absence(&error) => Verdict::Gone,
        Err(_) => Verdict::Unseen,
    }
}

/// Whether an error says that nothing is there. Any other says nothing: too few descriptors, a disk that doesn't
/// answer.
fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether a state record says that the database was protected before. Then the engine judges the file, and reports it.
fn was_protected(config: &DirectoryConfig, relative: &Path) -> bool {
    config.database(relative).is_ok_and(|database| database.sqlite().is_some_and(SqliteConfig::was_protected))
}

fn judge(known: &Look, path: &Path, found: &Metadata, was_protected: impl Fn() -> bool) -> Verdict {
    let identity = Identity::of(found);
    if known.members.contains(path) || known.open.contains(&identity) {
        return Verdict::Database(identity);
    }
    if known.looking.as_ref().is_some_and(Looking::is_overtaken) {
        return Verdict::Unseen;
    }
    let mut header = [0; HEADER];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let verdict = match read {
        Ok(()) => match Beginning::of(&header, found.len()) {
            Beginning::Whole => Verdict::Database(identity),
            Beginning::Part => Verdict::NotYet,
            Beginning::Other => Verdict::Other,
        },
        // Shorter than any database.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Verdict::NotYet,
        // Another user's file, which may be no database at all.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Verdict::Denied,
        Err(error) if is_absence(&error) => Verdict::Gone,
        // The machine is short of something. The engine tries again, and reports it.
        Err(_) => Verdict::Database(identity),
    };
    match verdict {
        Verdict::NotYet | Verdict::Denied | Verdict::Other if was_protected() => Verdict::Database(identity),
        verdict => verdict,
    }
}

/// Whether a folder is the file system's own, or hidden by somebody: closed ones are no sign of databases.
fn is_of_others(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name == "lost+found" || name.starts_with('.')
}

/// Looks at everything in a folder and, where that is meant, below it. Events are asked for before anything is read,
/// so that nothing that comes meanwhile is missed.
pub(crate) fn walk(
    config: &DirectoryConfig,
    known: &Look,
    relative: &Path,
    mut events: Option<&mut Events>,
    verdicts: &mut BTreeMap<PathBuf, Verdict>,
) {
    let mut folders = vec![relative.to_owned()];
    while let Some(folder) = folders.pop() {
        let path = known.root.join(&folder);
        if let Some(events) = events.as_deref_mut() {
            events.watch(&path, &folder);
        }
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => {
                let verdict = match error.kind() {
                    _ if is_absence(&error) => Verdict::Gone,
                    // That of the whole folder is told as that.
                    ErrorKind::PermissionDenied if !folder.as_os_str().is_empty() && !is_of_others(&folder) => {
                        Verdict::Denied
                    }
                    _ => Verdict::Unseen,
                };
                verdicts.insert(folder, verdict);
                continue;
            }
        };
        for entry in entries {
            let Ok(entry) = entry else {
                verdicts.insert(folder.clone(), Verdict::Unseen);
                break;
            };
            let relative = folder.join(entry.file_name());
            match look(config, known, &relative) {
                Verdict::Folder if relative.components().count() < DEPTH => folders.push(relative),
                Verdict::Folder | Verdict::Other => {}
                verdict => drop(verdicts.insert(relative, verdict)),
            }
        }
    }
}
