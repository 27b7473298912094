//! The contract between the vault and a backend: small, object safe, one raw attempt per call.
//!
//! A backend doesn't retry, count, or keep deadlines (other than those of its connections); [`crate::Vault`] does.
//! Every backend passes the suite in `conformance`. A backend says in [`Abilities`] what it can't do, and never does
//! something weaker in silence. Dropping any future leaves what a crash would leave: the whole object or none, never a
//! part of it under its name (I2).

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use seawall_core::{Failure, Kind, Moment, Requests};

use crate::several::MemberState;
use crate::{Capabilities, Digest, Error, Lock, ObjectKey, Prefix, Protection, Scheme};

/// A version of an object, opaque. Equal versions have equal tags. If a tag is a hash of the content, equal content has
/// equal tags, so every conditional write carries a nonce.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(String);

impl Tag {
    /// A tag as the store writes it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The tag as the store writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// When a write may take effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Whatever is there.
    #[default]
    Always,
    /// Only if there is no object; otherwise [`Error::AlreadyExists`].
    Create,
    /// Only over exactly this version. Otherwise, or if there is no object, [`Error::Precondition`].
    Match(Tag),
}

/// How to write an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutOptions {
    /// When the write may take effect.
    pub condition: Condition,
    /// The object's logical time, which [`Store::head`] returns; with milliseconds. Stores that can't keep it say so
    /// in [`Abilities::stamps`].
    pub stamp: Option<Moment>,
    /// The digest of the bytes, where the writer knows it: then no store hashes them again.
    pub digest: Option<Digest>,
}

/// What is known about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Bytes.
    pub size: u64,
    /// When the store last changed it, by the store's clock; the stamp where the backend keeps it there (`file`).
    pub modified: Moment,
    /// Its version.
    pub tag: Option<Tag>,
    /// Its logical time, if it was written with one.
    pub stamp: Option<Moment>,
    /// The digest of its bytes, if the store could keep it beside the object.
    pub digest: Option<Digest>,
}

/// One object of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: ObjectKey,
    /// Bytes.
    pub size: u64,
    /// As in [`Meta::modified`].
    pub modified: Moment,
    /// When the store itself touched it last, by the store's clock: not before it became visible under its name.
    pub written: Moment,
    /// Its version where a listing tells it.
    pub tag: Option<Tag>,
}

impl Entry {
    /// A number for what the listing says of the object: the first 16 bytes, little-endian, of the BLAKE3 of its size, of when the store
    /// wrote it (milliseconds), of the length of its name, its name, and its tag. An object that was written over has another number.
    pub fn fingerprint(&self) -> u128 {
        let name = self.key.as_str();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.size.to_le_bytes()).update(&self.written.as_millis().to_le_bytes());
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(self.tag.as_ref().map_or("", Tag::as_str).as_bytes());
        let mut first = [0; 16];
        hasher.finalize_xof().fill(&mut first);
        u128::from_le_bytes(first)
    }
}

/// A stretch of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Objects in ascending order of the bytes of their keys.
    pub entries: Vec<Entry>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<ObjectKey>,
    /// Names among these that are no objects.
    pub passed_over: PassedOver,
}

/// Names in a listing that Seawall doesn't take for objects: links, names that no key may have, and what lies too deep. They could lead
/// elsewhere (I11). Files that are being written (`.tmp`) and folders' own markers aren't counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassedOver {
    /// How many.
    pub count: u64,
    /// The first of them, escaped, and cut to 200 characters.
    pub first: Option<String>,
}

impl PassedOver {
    /// Counts a name below the vault.
    pub(crate) fn note(&mut self, name: &str) {
        let unfinished = name.split('/').any(|segment| segment.ends_with(".tmp"));
        if unfinished || name.is_empty() || name.ends_with('/') {
            return;
        }
        let first = || name.chars().take(200).collect::<String>().escape_debug().to_string();
        self.add(Self { count: 1, first: Some(first()) });
    }

    /// What to tell of it; `None` if nothing was passed over. `place` is the place that was listed.
    pub fn failure(&self, place: &str) -> Option<Failure> {
        let first = self.first.as_ref()?;
        let others = match self.count {
            0 | 1 => String::new(),
            2 => " and 1 more name".to_owned(),
            count => format!(" and {} more names", count - 1),
        };
        let cause = format!(
            "this name{others} can't be an object: a link, or a name that no key may have. Seawall doesn't look behind it"
        );
        let next =
            "if it is a link to a folder of databases, name that folder as a place of its own; otherwise remove it";
        Some(Failure::new(Kind::Refused, "vault.passed-over", format!("{place}/{first}"), cause, next))
    }

    /// Adds what another page passed over.
    pub(crate) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.first = self.first.take().or(other.first);
    }
}

/// What a listing passes over, while it goes on and at its end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Noted(Arc<Mutex<PassedOver>>);

impl Noted {
    /// Adds what a page passed over.
    pub(crate) fn add(&self, passed_over: PassedOver) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(passed_over);
    }

    /// What was passed over until now.
    pub fn so_far(&self) -> PassedOver {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An object's bytes on their way.
pub struct Body {
    /// The whole object's size where the answer told it.
    pub size: Option<u64>,
    /// The object's version where the answer told it.
    pub tag: Option<Tag>,
    /// The bytes of the range, in order. Ends early only by a broken connection, which the reader notices by counting.
    pub stream: BoxStream<'static, Result<Bytes, Error>>,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("size", &self.size).field("tag", &self.tag).finish_non_exhaustive()
    }
}

/// The promises of a kind of backend. Only a probe tells how the server behind it behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// [`Condition::Create`] is exact under races.
    pub create: bool,
    /// [`Condition::Match`] is exact under races.
    pub update: bool,
    /// Stamps are kept.
    pub stamps: bool,
    /// The most keys that one [`Store::delete`] takes.
    pub delete_batch: usize,
    /// The smallest part of a streamed upload, the last one excepted.
    pub smallest_part: usize,
    /// The most parts of a streamed upload.
    pub most_parts: usize,
    /// The size of parts that the place is set to, instead of the policy's.
    pub part_size: Option<usize>,
    /// The parts in flight that the place is set to, instead of the policy's.
    pub parts_in_flight: Option<usize>,
    /// There is room for a digest beside objects that are written in parts, too.
    pub digests_of_parts: bool,
}

impl Abilities {
    /// What every backend can do.
    pub const LEAST: Self = Self {
        create: false,
        update: false,
        stamps: false,
        delete_batch: 1,
        smallest_part: 5 << 20,
        most_parts: 10_000,
        part_size: None,
        parts_in_flight: None,
        digests_of_parts: false,
    };

    /// What two backends can do that hold the same objects.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        let Self {
            create,
            update,
            stamps,
            delete_batch,
            smallest_part,
            most_parts,
            part_size,
            parts_in_flight,
            digests_of_parts,
        } = self;
        Self {
            create: create && other.create,
            update: update && other.update,
            stamps: stamps && other.stamps,
            delete_batch: delete_batch.min(other.delete_batch),
            smallest_part: smallest_part.max(other.smallest_part),
            most_parts: most_parts.min(other.most_parts),
            part_size: part_size.max(other.part_size),
            parts_in_flight: [parts_in_flight, other.parts_in_flight].into_iter().flatten().min(),
            digests_of_parts: digests_of_parts && other.digests_of_parts,
        }
    }
}

/// A backend: one kind of place.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// The place as a URL without secrets, without a `/` at its end.
    fn url(&self) -> String;

    /// What kind of store it is.
    fn scheme(&self) -> Scheme;

    /// Whether a probe must find out how the server behind the place handles conditions.
    fn needs_probe(&self) -> bool {
        false
    }

    /// What this backend promises.
    fn abilities(&self) -> Abilities;

    /// Whether reading an object to its end proves that a writer of the vault wrote these bytes under this name, so that no
    /// digest has to.
    fn is_authentic(&self) -> bool {
        false
    }

    /// The folder whose files are the objects, if the place is a folder. Its events announce new objects.
    fn folder(&self) -> Option<PathBuf> {
        None
    }

    /// The places that it consists of, if there are several.
    fn members(&self) -> Vec<MemberState> {
        Vec::new()
    }

    /// If there are several places: tests how each of them handles conditions, and gives what all of them can.
    async fn probe_places(&self) -> Option<Result<Capabilities, Error>> {
        None
    }

    /// The requests that it counts itself, because one call makes several.
    fn requests(&self) -> Option<Requests> {
        None
    }

    /// Writes a whole object. `Ok` means that the object is durable (I1) and visible to every later call, also of other
    /// processes. After an error other than a refusal the object may be there or not. Returns the new version where the
    /// store tells it. The digest of the bytes is kept beside the object where there is room.
    async fn put(&self, key: &ObjectKey, body: Bytes, options: &PutOptions) -> Result<Option<Tag>, Error>;

    /// Begins an object that is written in parts. The whole object appears with [`Multipart::complete`], which checks
    /// the condition. At most `in_flight` parts are in memory beside the part being handed over.
    async fn begin(&self, key: &ObjectKey, options: &PutOptions, in_flight: usize)
    -> Result<Box<dyn Multipart>, Error>;

    /// Reads an object, or the bytes of `range` (not empty). A range that ends after the object's end is cut. A range
    /// that begins at or after the end is [`Error::OutOfRange`].
    async fn get(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<Body, Error>;

    /// What is known about an object; [`Error::NotFound`] where there is none.
    async fn head(&self, key: &ObjectKey) -> Result<Meta, Error>;

    /// Lists about `limit` keys below `prefix`, in all folders, that sort after `start_after`; many more where the service
    /// can't begin a listing behind a name. An object that existed
    /// before the listing began and was not deleted since is in the listing. Names that are no keys are left out.
    async fn list(&self, prefix: &Prefix, start_after: Option<&ObjectKey>, limit: usize) -> Result<Page, Error>;

    /// Deletes objects, at most [`Abilities::delete_batch`]; one result per key, in order. A missing object is deleted.
    async fn delete(&self, keys: &[ObjectKey]) -> Result<Vec<Result<(), Error>>, Error>;

    /// When the credentials end with which the store was opened. `None` if they don't end, are renewed, or don't tell.
    fn credentials_end(&self) -> Option<Moment> {
        None
    }

    /// Whether [`Store::protection`] and [`Store::lock`] have anything to ask.
    fn has_protection(&self) -> bool {
        false
    }

    /// What the place itself does against changes of its objects, with a request or two. A store that can't tell says so.
    async fn protection(&self) -> Result<Protection, Error> {
        Ok(Protection::default())
    }

    /// The lock of an object, where [`Store::protection`] tells of locks.
    async fn lock(&self, _key: &ObjectKey) -> Result<Lock, Error> {
        Ok(Lock::default())
    }

    /// Whether the settings ask that [`Store::renew`] keeps objects locked.
    async fn renews(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Makes the lock of an object last as long as the settings ask, counted from `now`. Returns when it ends then; `None`
    /// if the settings don't ask. At most two requests.
    async fn renew(&self, _key: &ObjectKey, _now: Moment) -> Result<Option<Moment>, Error> {
        Ok(None)
    }

    /// Accepts the folder that is at the path now, for a caller that looks at its content before it continues. Until
    /// this call, a folder that was replaced gives [`Error::Replaced`].
    ///
    /// # Errors
    /// [`Error::Vanished`] while a place that existed before is missing.
    async fn enter(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The identity of an encrypted place, once it was opened.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Puts back what tells how the objects of an encrypted place are read, if this process wrote there and it is gone. What is there
    /// stays as it is.
    ///
    /// # Errors
    /// When the place doesn't answer.
    async fn mend(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the place with this URL, one of several, holds now what was acknowledged lately.
    async fn confirms(&self, _url: &str) -> bool {
        true
    }

    /// Checks that the place is still the one that was written to, as far as the system tells without a request. May
    /// block for a system call or two.
    ///
    /// # Errors
    /// [`Error::Vanished`] or [`Error::Replaced`].
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// A number that changes when names below these prefixes come or go, where the system tells it without a request.
    /// May block for a system call each.
    fn trace(&self, _prefixes: &[Prefix]) -> Option<u64> {
        None
    }
}

/// An object being written in parts. If it is dropped before completion, nothing is visible; [`Multipart::abort`] also
/// frees the space that it occupies.
#[async_trait]
pub trait Multipart: Send {
    /// Takes the next part, a list of chunks. Returns when there is room for another part, so that a slow store slows
    /// the writer. After a retryable error the store took nothing, and the call can be repeated.
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error>;

    /// Makes the object visible and durable, as [`Store::put`] does. Can be repeated after a retryable error.
    async fn complete(&mut self) -> Result<Option<Tag>, Error>;

    /// Aborts the upload and frees the space that it occupies.
    async fn abort(&mut self) -> Result<(), Error>;
}
