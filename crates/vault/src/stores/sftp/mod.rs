//! A vault that is a folder on an SFTP server: version 3 of the protocol over SSH, with OpenSSH's extensions.
//!
//! An object is a file, and its key is the path below the root. A write goes to a file beside the target whose name ends
//! in `.seawall.tmp`, and is made durable (`fsync@openssh.com`). Then it takes its name in one step. A create-only write
//! makes a hard link (`hardlink@openssh.com`), which the server refuses if the name is taken, exact also between
//! processes and hosts; then it removes the first name. Other writes rename over what is there
//! (`posix-rename@openssh.com`). At last the folder is made durable: OpenSSH opens a folder as a file, and syncs it.
//!
//! A server without hard links refuses create-only writes. The probe finds that, and then [`crate::Vault`] looks before
//! it writes. A server without `fsync@openssh.com` promises what it likes; a warning says so.
//!
//! A crash leaves at most such a file, or a second name of an object. Listings don't show them, and a later write removes
//! those that were at rest for a day (`leftovers`).
//!
//! The protocol has seconds only and no place for words beside a file, so there are no stamps, no digests and no
//! versions. `modified` is when the server last wrote to the file; files of Litestream have the time of their commit.
//!
//! The order: `url`, `settings`, `path` (what a user says) -> `connect` with `hosts`, `credentials`, `rsa` (a connection
//! whose server is known) -> `link` (shared, kept, closed) -> `session`, `wire`, `requests` (the protocol) -> `read`,
//! `write`, `list`, `leftovers`.

mod connect;
mod credentials;
mod ecdsa;
mod hosts;
mod leftovers;
mod link;
mod list;
mod path;
mod read;
mod requests;
mod rsa;
mod session;
pub(crate) mod settings;
pub(crate) mod url;
mod wire;
mod write;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use tokio::sync::OnceCell;

pub(crate) use self::connect::Server;
use self::leftovers::Leftovers;
pub(crate) use self::link::Link;
use self::session::Patience;
use self::settings::SftpSettings;
use self::wire::Attributes;
use crate::text::wrong;
use crate::{
    Abilities, Body, Environment, Error, Meta, Multipart, ObjectKey, Page, PlaceSettings, Policy, Prefix, PutOptions,
    Scheme, Store, Tag,
};

pub use self::path::Root;

/// A number for each file that this process writes.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// The smallest part that is worth being made durable by itself; SFTP takes any.
const SMALLEST_PART: usize = 1 << 20;

/// The most keys of one deletion.
const BATCH: usize = 500;

/// How many of them are deleted at once.
const DELETIONS: usize = 32;

/// A folder on a server, and the way there.
#[derive(Debug)]
struct Place {
    link: Arc<Link>,
    root: String,
    /// The server for messages.
    server: String,
    /// Where the names of files being written begin, so that those of other processes are others.
    seed: u64,
    one_by_one: bool,
    leftovers: Leftovers,
    modes: OnceCell<Modes>,
}

/// The modes of new files and folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Modes {
    file: u32,
    folder: u32,
}

impl Modes {
    /// As private as the root is, and a root that isn't there yet is for its owner alone.
    fn below(root: Option<u32>) -> Self {
        let folder = root.map_or(0o700, |root| root | 0o700);
        Self { file: folder & 0o666, folder }
    }
}

impl Place {
    /// The path of a key, or of a folder of keys.
    fn path(&self, key: &str) -> String {
        if key.is_empty() { self.root.clone() } else { format!("{}/{key}", self.root) }
    }

    /// A path for messages.
    fn object(&self, path: &str) -> String {
        let home = if path.starts_with('/') { "" } else { "/~/" };
        format!("{}{home}{path}", self.server)
    }

    /// The path of a file that is being written.
    fn temporary(&self, folder: &str) -> String {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        format!("{folder}/{:016x}-{serial:x}{}", self.seed, leftovers::SUFFIX)
    }

    /// The modes of new files and folders, found out once.
    async fn modes(&self, lease: &link::Lease) -> Result<Modes, Error> {
        let modes = self.modes.get_or_try_init(|| async {
            match lease.lstat(&self.root).await {
                Ok(root) => Ok(Modes::below(root.rights())),
                Err(failed) if failed.is_missing() => Ok(Modes::below(None)),
                Err(failed) => Err(failed.about(&self.object(&self.root))),
            }
        });
        modes.await.copied()
    }

    async fn sweep(&self, lease: &link::Lease, fresh: &str) {
        self.leftovers.sweep(lease, fresh).await;
    }
}

/// Objects as files on an SFTP server. Clones share it.
#[derive(Debug, Clone)]
pub struct SftpStore {
    place: Arc<Place>,
    url: String,
}

impl SftpStore {
    /// A store for the settings. Checks the settings; the first request connects.
    ///
    /// # Errors
    /// The settings don't name a place, or exclude each other.
    #[expect(clippy::unused_async, reason = "all kinds of stores are opened alike")]
    pub async fn connect(settings: &SftpSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        if settings.user.is_none() {
            return Err(wrong(&settings.url(), "there is no user", settings::EXAMPLE));
        }
        let url = settings.url();
        // Shorter than an attempt: then the attempt ends with the connection's own error, and the next one connects anew.
        let patience = Patience { silence: policy.attempt / 2, slowest: policy.slowest };
        let link = policy.connections.ssh(Server::new(settings, environment, patience));
        let place = Place {
            link,
            root: settings.root.path().to_owned(),
            server: settings.login(),
            seed: policy.seed,
            one_by_one: settings.concurrent_writes == Some(false),
            leftovers: Leftovers::default(),
            modes: OnceCell::new(),
        };
        Ok(Self { place: Arc::new(place), url })
    }

    fn path(&self, key: &ObjectKey) -> String {
        self.place.path(key.as_str())
    }
}

/// Reads `bytes` as each answer of a server, and as a file of known hosts. Nothing may panic. For the fuzz target.
pub(crate) fn read_anything(bytes: &[u8]) {
    let packet = bytes::Bytes::copy_from_slice(bytes);
    let _ = (wire::answer(packet.clone()), wire::welcome(packet.clone()), wire::limits(packet.clone()));
    let _ = wire::is_full(packet);
    let mut recorded = hosts::Recorded::default();
    recorded.add("known_hosts", &String::from_utf8_lossy(bytes), "[host]:2222");
    let _ = recorded.kinds();
}

#[async_trait]
impl Store for SftpStore {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn scheme(&self) -> Scheme {
        Scheme::Sftp
    }

    fn needs_probe(&self) -> bool {
        !self.place.link.links()
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: false,
            stamps: false,
            delete_batch: BATCH,
            smallest_part: SMALLEST_PART,
            most_parts: usize::MAX,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: false,
        }
    }

    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error> {
        write::put(&self.place, &self.path(key), body, &options.condition).await.map(|()| None)
    }

    async fn begin(
        &self,
        key: &ObjectKey,
        options: &PutOptions,
        _in_flight: usize,
    ) -> Result<Box<dyn Multipart>, Error> {
        Ok(Box::new(write::SftpUpload::begin(&self.place, self.path(key), options.condition.clone()).await?))
    }

    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error> {
        read::get(&self.place, &self.path(key), range).await
    }

    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error> {
        let path = self.path(key);
        let object = self.place.object(&path);
        let there = self.place.link.lease().await?.lstat(&path).await.map_err(|failed| failed.about(&object))?;
        let Attributes { size: Some(size), modified, .. } = there else {
            return Err(Error::Unavailable { object, cause: "the server tells no size".to_owned(), retryable: false });
        };
        if there.is_file() == Some(false) {
            return Err(Error::NotFound { object });
        }
        Ok(Meta { size, modified: list::moment(modified), tag: None, stamp: None, digest: None })
    }

    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error> {
        list::page(&self.place, prefix, start_after, limit).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error> {
        let lease = self.place.link.lease().await?;
        let delete = |key: &ObjectKey| {
            let (path, lease) = (self.path(key), &lease);
            async move {
                let Err(failed) = lease.remove(&path).await else { return Ok(()) };
                let is_other = async || lease.lstat(&path).await.is_ok_and(|there| there.is_file() == Some(false));
                match failed {
                    failed if failed.is_missing() => Ok(()),
                    // A folder is no object.
                    failed if failed.code().is_some() && is_other().await => Ok(()),
                    failed => Err(failed.about(&self.place.object(&path))),
                }
            }
        };
        // Collected first: the borrow of a key can't go into the futures.
        let deletions: Vec<_> = keys.iter().map(delete).collect();
        Ok(stream::iter(deletions).buffered(DELETIONS).collect().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_files_are_as_private_as_the_root() {
        for (root, file, folder) in [
            (None, 0o600, 0o700),
            (Some(0o700), 0o600, 0o700),
            (Some(0o750), 0o640, 0o750),
            (Some(0o055), 0o644, 0o755),
        ] {
            assert_eq!(Modes::below(root), Modes { file, folder }, "{root:?}");
        }
    }
}
