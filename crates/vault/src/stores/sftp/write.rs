//! Writing a file so that it appears whole, once, and stays: the protocol is in the module above.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::Place;
use super::link::Lease;
use super::path::{folders, parent};
use super::requests::{Failed, Opened, open_to_sync, sync_names};
use super::wire::{Kind, open};
use crate::{Condition, Error, Multipart, Tag};

/// The bytes of one upload that are under way at most.
const IN_FLIGHT: usize = 2 << 20;

/// How many names are tried for a file being written.
const NAMES: usize = 3;

/// A file being written. If it is dropped before it has its name, it is removed.
#[derive(Debug)]
struct Draft {
    place: Arc<Place>,
    opened: Opened,
    path: String,
    /// Someone else takes care of the file, or it is gone.
    is_left: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_left {
            // Best effort; a later write removes it otherwise.
            self.opened.lease.tell(Kind::Remove, self.path.as_bytes());
        }
    }
}

/// Refuses what SFTP can't do.
fn check(condition: &Condition, object: &str) -> Result<(), Error> {
    let Condition::Match(_) = condition else { return Ok(()) };
    let cause = "SFTP can't replace a certain version of an object".to_owned();
    Err(Error::Unsupported { object: object.to_owned(), cause })
}

/// The decision for a refusal while something is written: a full disk has no code of its own.
async fn decide(lease: &Lease, failed: Failed, path: &str, object: &str) -> Error {
    if failed.is_unexplained() && lease.is_full(parent(path)).await {
        return Error::Full { object: object.to_owned(), cause: "the server's file system has no room".to_owned() };
    }
    failed.about(object)
}

impl Draft {
    /// Makes a file beside the target, and the folders that lead there.
    async fn new(place: &Arc<Place>, target: &str) -> Result<Self, Error> {
        let object = place.object(target);
        let folder = parent(target);
        let mut lease = place.link.lease().await?;
        let modes = place.modes(&lease).await?;
        let mut has_made = false;
        let mut tried = 0;
        loop {
            let path = place.temporary(folder);
            match Opened::file(lease, &path, open::WRITE | open::CREATE | open::NEW, Some(modes.file)).await {
                Ok(opened) => return Ok(Self { place: Arc::clone(place), opened, path, is_left: false }),
                Err((back, failed)) if failed.is_missing() && !has_made => {
                    make(&back, folder, modes.folder, &place.object(folder)).await?;
                    (lease, has_made) = (back, true);
                }
                Err((_, failed)) if failed.is_missing() => {
                    let cause = "something else than a folder is in its way".to_owned();
                    return Err(Error::NoFolder { object: place.object(folder), cause });
                }
                Err((back, failed)) => {
                    tried += 1;
                    // The name may be taken by a file of another process.
                    if !failed.is_unexplained() || tried >= NAMES || back.is_full(folder).await {
                        return Err(decide(&back, failed, &path, &object).await);
                    }
                    lease = back;
                }
            }
        }
    }

    /// Opens the file again after its connection broke.
    async fn again(place: &Arc<Place>, path: &str) -> Result<Self, Failed> {
        let lease = place.link.lease().await.map_err(Failed::Away)?;
        let opened = Opened::file(lease, path, open::WRITE, None).await.map_err(|(_, failed)| failed)?;
        Ok(Self { place: Arc::clone(place), opened, path: path.to_owned(), is_left: false })
    }

    /// Writes bytes from a place on, many requests at once.
    async fn write(&self, mut at: u64, chunks: &[Bytes]) -> Result<(), Failed> {
        let most = self.opened.lease.features().write;
        let pieces = chunks.iter().flat_map(|chunk| {
            (0..chunk.len()).step_by(most).map(move |start| chunk.slice(start..chunk.len().min(start + most)))
        });
        let placed = pieces.map(move |piece| {
            let start = at;
            at += piece.len() as u64;
            (start, piece)
        });
        let requests = if self.place.one_by_one { 1 } else { (IN_FLIGHT / most).max(1) };
        // Collected, because the borrow of a chunk can't go into the futures.
        let placed: Vec<(u64, Bytes)> = placed.collect();
        let writes = stream::iter(placed).map(|(start, piece)| async move { self.opened.write(start, &piece).await });
        writes.buffer_unordered(requests).try_collect().await
    }

    /// Gives the durable file its name, and makes the name durable.
    async fn name(&mut self, target: &str, condition: &Condition) -> Result<(), Error> {
        let object = self.place.object(target);
        let lease = self.opened.lease.again();
        let (synced, folder) = join(self.opened.sync(), open_to_sync(self.opened.lease.again(), parent(target))).await;
        let closed = match synced {
            // Without fsync, what a disk elsewhere refused shows now at the latest.
            Ok(()) if !lease.features().sync => self.opened.close().await,
            synced => synced,
        };
        let folder = match closed.and(folder) {
            Ok(folder) => folder,
            Err(failed) => return Err(decide(&lease, failed, &self.path, &object).await),
        };
        let named = match condition {
            Condition::Create => self.create(target, &object).await,
            Condition::Always | Condition::Match(_) => self.put_over(target, &object).await,
        };
        if !matches!(named, Ok(()) | Err(Error::AlreadyExists { .. })) {
            return named;
        }
        let leave = async {
            if !self.is_left {
                // The object keeps the other name. A leftover is removed by a later write.
                self.is_left = lease.remove(&self.path).await.is_ok();
            }
        };
        // An object that was there may be of an earlier attempt of ours that didn't get this far.
        let (synced, ()) = join(sync_names(folder), leave).await;
        synced.map_err(|failed| failed.about(&object))?;
        named
    }

    /// Takes the name if it is free. The file keeps its first name until it is removed.
    async fn create(&self, target: &str, object: &str) -> Result<(), Error> {
        let lease = &self.opened.lease;
        let unsupported = |why: &str| {
            let cause = format!("{why}, and without one no create-only write is exact");
            Error::Unsupported { object: object.to_owned(), cause }
        };
        if !lease.features().link {
            return Err(unsupported("the server makes no hard links (hardlink@openssh.com)"));
        }
        match lease.link(&self.path, target).await {
            Ok(()) => {
                self.place.link.has_linked();
                Ok(())
            }
            Err(failed @ (Failed::Gone(_) | Failed::Odd)) => Err(failed.about(object)),
            Err(failed) if failed.is_missing() => Err(failed.about(object)),
            Err(failed) => match lease.lstat(target).await {
                Ok(_) => Err(Error::AlreadyExists { object: object.to_owned() }),
                Err(absent) if absent.is_missing() => match decide(lease, failed, target, object).await {
                    // A file could be made here, so the right to write is there.
                    Error::Denied { .. } | Error::Unsupported { .. } => {
                        Err(unsupported("the server's file system makes no hard links"))
                    }
                    error => Err(error),
                },
                Err(other) => Err(other.about(object)),
            },
        }
    }

    /// Takes the name from whatever has it.
    async fn put_over(&mut self, target: &str, object: &str) -> Result<(), Error> {
        let lease = &self.opened.lease;
        let named = match lease.features().replace {
            true => lease.replace(&self.path, target).await,
            false => lease.rename(&self.path, target).await,
        };
        let Err(failed) = named else {
            self.is_left = true;
            return Ok(());
        };
        if !lease.features().replace && failed.code().is_some() && lease.lstat(target).await.is_ok() {
            let cause = "the server can't replace a file (posix-rename@openssh.com)".to_owned();
            return Err(Error::Unsupported { object: object.to_owned(), cause });
        }
        Err(decide(lease, failed, target, object).await)
    }
}

/// Makes a folder and those that lead there, each durable in the one above.
async fn make(lease: &Lease, folder: &str, mode: u32, object: &str) -> Result<(), Error> {
    for folder in folders(folder) {
        match lease.mkdir(folder, mode).await {
            Ok(()) => {
                let above = open_to_sync(lease.again(), parent(folder)).await;
                let above = above.map_err(|failed| failed.about(object))?;
                sync_names(above).await.map_err(|failed| failed.about(object))?;
            }
            Err(failed) if matches!(failed, Failed::Gone(_) | Failed::Odd) => return Err(failed.about(object)),
            // It is there already, or isn't ours to make: then the file below says more.
            Err(failed) if lease.lstat(folder).await.is_err() => {
                return Err(match decide(lease, failed, folder, object).await {
                    error @ (Error::Full { .. } | Error::Timeout { .. }) => error,
                    Error::Denied { object, cause } => Error::NoFolder { object, cause },
                    error if error.is_retryable() => error,
                    error => Error::NoFolder { object: object.to_owned(), cause: error.to_string() },
                });
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn gone(object: String, retryable: bool) -> Error {
    Error::Unavailable { object, cause: "the file being written was removed".to_owned(), retryable }
}

/// Writes a whole object.
pub(super) async fn put(place: &Arc<Place>, target: &str, body: Bytes, condition: &Condition) -> Result<(), Error> {
    let object = place.object(target);
    check(condition, &object)?;
    let mut draft = Draft::new(place, target).await?;
    if let Err(failed) = draft.write(0, &[body]).await {
        return Err(decide(&draft.opened.lease, failed, target, &object).await);
    }
    match draft.name(target, condition).await {
        // The file being written is what is gone.
        Err(Error::NotFound { object }) => Err(gone(object, true)),
        Ok(()) => {
            place.sweep(&draft.opened.lease, target).await;
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// An object on its way.
pub(super) struct SftpUpload {
    place: Arc<Place>,
    target: String,
    condition: Condition,
    draft: Draft,
    /// The bytes that were confirmed, and those of them that are durable.
    at: u64,
    durable: u64,
}

impl SftpUpload {
    pub(super) async fn begin(place: &Arc<Place>, target: String, condition: Condition) -> Result<Self, Error> {
        check(&condition, &place.object(&target))?;
        let draft = Draft::new(place, &target).await?;
        Ok(Self { place: Arc::clone(place), target, condition, draft, at: 0, durable: 0 })
    }

    /// Makes sure that the file can be written to. Only what was durable is known to be there after a break.
    async fn revive(&mut self) -> Result<(), Error> {
        if self.draft.opened.lease.is_alive() {
            return Ok(());
        }
        let object = self.place.object(&self.target);
        if self.durable < self.at {
            let cause = "the connection broke, and this server can't say what it kept (fsync@openssh.com)".to_owned();
            return Err(Error::Unavailable { object, cause, retryable: false });
        }
        let again = Draft::again(&self.place, &self.draft.path).await.map_err(|failed| failed.about(&object))?;
        self.draft.is_left = true;
        self.draft = again;
        Ok(())
    }
}

#[async_trait]
impl Multipart for SftpUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        let object = self.place.object(&self.target);
        self.revive().await.map_err(|error| match error {
            // Nothing but another attempt from the start helps.
            Error::NotFound { object } => gone(object, false),
            error => error,
        })?;
        let (draft, length) = (&self.draft, part.iter().map(|chunk| chunk.len() as u64).sum::<u64>());
        let written = match draft.write(self.at, &part).await {
            Ok(()) => draft.opened.sync().await,
            failed => failed,
        };
        if let Err(failed) = written {
            return Err(decide(&draft.opened.lease, failed, &self.target, &object).await);
        }
        self.at += length;
        if draft.opened.lease.features().sync {
            self.durable = self.at;
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        self.revive().await?;
        self.draft.name(&self.target, &self.condition).await?;
        self.place.sweep(&self.draft.opened.lease, &self.target).await;
        Ok(None)
    }

    async fn abort(&mut self) -> Result<(), Error> {
        if self.draft.is_left {
            return Ok(());
        }
        let lease = match self.draft.opened.lease.is_alive() {
            true => self.draft.opened.lease.again(),
            false => self.place.link.lease().await?,
        };
        let removed = lease.remove(&self.draft.path).await;
        self.draft.is_left = true;
        match removed {
            Err(failed) if !failed.is_missing() => Err(failed.about(&self.place.object(&self.target))),
            _ => Ok(()),
        }
    }
}
