//! Other recipients for an encrypted vault: for new objects, or for all.
//!
//! An object is rewritten by its header alone. The file key, the host's stanza, the seal and the encrypted content stay; the
//! recipients' stanzas and the MAC are new. All headers of a vault have one length, so each object keeps its length, and
//! nothing that refers to it changes.
//!
//! The order: the records of the writers and the canary, for the former recipients and the new; the marker; with `rewrite`
//! the objects; and the records again, for the new ones alone. Each step is a compare-and-swap of one object, and each header says
//! for which list it is. So a crash leaves whole objects that the former or the new keys open, and the same call goes on.
//!
//! The marker is hostile: its list is only compared with what the caller names, and a recipient that would go must be named too.

use std::collections::BTreeSet;
use std::sync::Arc;

use age_core::format::{FileKey, Stanza};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_core::{Failure, Progress, SystemClock};

use super::header::{self, Audience, Header};
use super::marker::{self, Marker};
use super::seals::{self, Seals, blocking};
use super::{Fault, HostKeys, Identities, Recipients, Sealing, canary, fault, gate};
use crate::counts::Operation;
use crate::{Error, Meta, ObjectKey, Prefix, Protection, Vault};

/// Objects up to this size are rewritten in memory.
const WHOLE: u64 = 4 << 20;

/// Objects that are rewritten at once.
const AT_ONCE: usize = 8;

/// How often an object is looked at again that changed meanwhile.
const TRIES: usize = 4;

/// How often the vault is listed for objects that came meanwhile.
const ROUNDS: usize = 10;

/// Objects left as they are that are told one by one.
const TOLD: usize = 20;

/// What is to change.
#[derive(Debug, Clone)]
pub struct Change {
    /// All recipients from now on.
    pub recipients: Recipients,
    /// The recipients that are removed.
    pub removed: Option<Recipients>,
    /// Whether the objects that are there are rewritten too.
    pub rewrite: bool,
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub struct Rekeyed {
    /// For whom the vault was before.
    pub before: Vec<String>,
    /// New in its list.
    pub added: Vec<String>,
    /// Not in its list any more.
    pub removed: Vec<String>,
    /// Whether the keys at hand open what is written for the new list.
    pub proved: bool,
    /// Rewritten records of writers, the canary among them.
    pub records: u64,
    /// Rewritten objects.
    pub rewritten: u64,
    /// Objects that were for the new list already.
    pub already: u64,
    /// Objects and records that were left as they are.
    pub left: u64,
    /// Why, for the first of them.
    pub failures: Vec<Failure>,
    /// What the place does against changes.
    pub protection: Protection,
}

/// Gives a vault other recipients. `raw` is opened with [`Access::Names`](crate::Access::Names): it sees objects as they are
/// stored. `identities` open what is there.
///
/// # Errors
/// When the vault isn't encrypted, a recipient would go that isn't named, the new list doesn't fit, the keys don't open the
/// records of the vault, or the place can't be read or written. A second call goes on.
pub async fn run(
    raw: &Vault,
    identities: &Identities,
    change: &Change,
    progress: &dyn Progress,
) -> Result<Rekeyed, Error> {
    let (key, meta, marker) = read_marker(raw).await?;
    let names = change.recipients.names();
    let removed = change.removed.as_ref().map(Recipients::names).unwrap_or_default();
    let (added, gone) = decide(&marker.recipients, &names, &removed)
        .map_err(|unnamed| fault(Fault::Goes, raw.url(), format!("{} would go unnamed", gate::list(&unnamed))))?;
    let needed = seals::longest(&change.recipients)?;
    if needed > marker.header {
        let cause =
            format!("the new list needs {needed} bytes in each header, and those of this vault have {}", marker.header);
        return Err(fault(Fault::Recipients, raw.url(), cause));
    }
    let swaps = swaps(raw).await?;
    if change.rewrite && !swaps {
        let cause = "the store can't replace an object on the condition that it is unchanged, so a rewritten object could \
                     bring one back that was deleted meanwhile";
        return Err(fault(Fault::NoSwap, raw.url(), cause));
    }
    let rekey = Rekey::new(raw, identities, &marker, swaps);
    let mut done = Rekeyed {
        before: marker.recipients.clone(),
        added,
        removed: gone,
        proved: opens(identities, &change.recipients)?,
        protection: raw.protection().await?,
        ..Rekeyed::default()
    };
    if marker.recipients != names {
        let target = Target { keeps: !done.removed.is_empty(), ..Target::of(&change.recipients, &removed) };
        rekey.records(&target, true, &mut done).await?;
        let bytes: Bytes = Marker { recipients: names, ..marker.clone() }.to_bytes().into();
        rekey.put(&key, bytes, &meta).await?;
    }
    if change.rewrite {
        let target = Target::of(&change.recipients, &[]);
        rekey.objects(&target, progress, &mut done).await?;
        rekey.records(&target, false, &mut done).await?;
    }
    Ok(done)
}

/// Which recipients are added and removed. The error holds each recipient that the new list lacks and `removed` doesn't name.
fn decide(there: &[String], wanted: &[String], removed: &[String]) -> Result<(Vec<String>, Vec<String>), Vec<String>> {
    let without = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|name| !those.contains(name)).cloned().collect()
    };
    let gone = without(there, wanted);
    let unnamed = without(&gone, removed);
    if unnamed.is_empty() { Ok((without(wanted, there), gone)) } else { Err(unnamed) }
}

/// Whether an object is one of this vault's that is rewritten: no record, and nothing that its writer replaces by itself.
fn is_rewritten(key: &ObjectKey, nested: &BTreeSet<String>) -> bool {
    let name = key.as_str();
    let replaced = matches!(key.file_name(), "lock.json" | "update_marker");
    let of_another = name.match_indices('/').any(|(at, _)| nested.contains(name.get(..at).unwrap_or_default()));
    marker::is_content(name) && !replaced && !of_another
}

/// The folders that are vaults of their own.
fn nested<'a>(keys: impl IntoIterator<Item = &'a ObjectKey>) -> BTreeSet<String> {
    let folder = |key: &ObjectKey| key.as_str().strip_suffix(marker::NAME)?.strip_suffix('/').map(str::to_owned);
    keys.into_iter().filter_map(folder).collect()
}

async fn read_marker(raw: &Vault) -> Result<(ObjectKey, Meta, Marker), Error> {
    let key = ObjectKey::new(marker::NAME)?;
    // The version before the content, so that a change in between refuses the swap.
    let Some(meta) = raw.head(&key).await? else {
        let cause =
            format!("there is no {}: nothing here is encrypted, or each folder is a vault of its own", marker::NAME);
        return Err(fault(Fault::NotEncrypted, raw.url(), cause));
    };
    let bytes = raw.read(&key, None, marker::MOST).await?;
    let marker = Marker::parse(&bytes, &raw.object(&key))?;
    Ok((key, meta, marker))
}

/// Whether the store replaces objects on the condition that they are unchanged.
async fn swaps(raw: &Vault) -> Result<bool, Error> {
    if raw.needs_probe() { Ok(raw.probe().await?.exclusive_update()) } else { Ok(raw.abilities().update) }
}

/// Whether some of these keys open what is written for these recipients.
fn opens(identities: &Identities, recipients: &Recipients) -> Result<bool, Error> {
    if identities.start_programs() || recipients.start_programs() {
        // A plugin may ask for a touch. The public texts tell as much without it.
        return Ok(identities.public().iter().any(|name| recipients.names().contains(name)));
    }
    Ok(identities.unwrap(&recipients.wrap(&seals::new_file_key()?)?).is_some())
}

/// For whom headers are rewritten.
struct Target<'a> {
    recipients: &'a Recipients,
    audience: Audience,
    /// The new list, without the removed recipients.
    alone: Audience,
    /// Whether the stanzas of the former recipients stay. They are kept and not made anew, so no recipient gets a key by that.
    keeps: bool,
}

impl<'a> Target<'a> {
    fn of(recipients: &'a Recipients, removed: &[String]) -> Self {
        let names = recipients.names();
        let alone = Audience::of(&names);
        let audience = Audience::of(&[names, removed.to_vec()].concat());
        Self { recipients, audience, alone, keeps: false }
    }

    fn is_of(&self, audience: &Audience) -> bool {
        *audience == self.audience || *audience == self.alone
    }
}

/// What became of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Rewritten(u64),
    Already,
    Gone,
}

/// A vault that is being rewritten.
struct Rekey<'a> {
    raw: &'a Vault,
    seals: Seals,
    header: usize,
    swaps: bool,
}

impl<'a> Rekey<'a> {
    fn new(raw: &'a Vault, identities: &Identities, marker: &Marker, swaps: bool) -> Self {
        let keys = HostKeys::new(None, Arc::new(SystemClock));
        let sealing = Arc::new(Sealing::new(None, identities.clone(), keys));
        let unwritten = fault(Fault::Recipients, raw.url(), "nothing new is written here");
        Self { raw, seals: Seals::new(sealing, marker.clone(), Err(unwritten)), header: marker.header, swaps }
    }

    /// The records of writers, and the canary. At `first`, keys that don't open one of them end the call: nothing has changed yet.
    async fn records(&self, target: &Target<'_>, first: bool, done: &mut Rekeyed) -> Result<(), Error> {
        let mut keys: Vec<ObjectKey> =
            self.raw.list(&Prefix::new(marker::WRITERS)?, None).await?.into_iter().map(|entry| entry.key).collect();
        // To check the seal of the canary takes the record of its writer, as it is before.
        keys.sort_by_key(|key| key.as_str() != canary::NAME);
        for key in keys {
            match self.rewrap(&key, target).await {
                Ok(Outcome::Rewritten(_)) => done.records += 1,
                Ok(Outcome::Already | Outcome::Gone) => {}
                Err(error @ Error::Sealing { fault: Fault::NoKey, .. }) if first => return Err(error),
                Err(error) => done.leave(error)?,
            }
        }
        Ok(())
    }

    /// All objects; listed again until a round finds nothing to rewrite.
    async fn objects(&self, target: &Target<'_>, progress: &dyn Progress, done: &mut Rekeyed) -> Result<(), Error> {
        progress.begin("rewriting headers", None);
        let mut seen = BTreeSet::new();
        for _ in 0..ROUNDS {
            let found: BTreeSet<ObjectKey> =
                self.raw.entries(&Prefix::all(), None).map_ok(|entry| entry.key).try_collect().await?;
            let nested = nested(&found);
            let is_new = |key: &ObjectKey| is_rewritten(key, &nested) && !seen.contains(key);
            let fresh: Vec<ObjectKey> = found.into_iter().filter(is_new).collect();
            let before = done.rewritten;
            let mut outcomes =
                stream::iter(&fresh).map(|key| async move { self.rewrap(key, target).await }).buffer_unordered(AT_ONCE);
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(Outcome::Rewritten(size)) => {
                        done.rewritten += 1;
                        progress.advance(size);
                    }
                    Ok(Outcome::Already) => done.already += 1,
                    Ok(Outcome::Gone) => {}
                    Err(error) => done.leave(error)?,
                }
            }
            drop(outcomes);
            seen.extend(fresh);
            if done.rewritten == before {
                break;
            }
        }
        progress.finish();
        Ok(())
    }

    /// Rewrites one object, unless it is for the list already.
    async fn rewrap(&self, key: &ObjectKey, target: &Target<'_>) -> Result<Outcome, Error> {
        let mut tries = 1;
        loop {
            match self.attempt(key, target).await {
                Err(Error::NotFound { .. }) => return Ok(Outcome::Gone),
                // Somebody replaced it, or deleted it. What is there now is looked at anew.
                Err(Error::Precondition { .. }) if tries < TRIES => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, key: &ObjectKey, target: &Target<'_>) -> Result<Outcome, Error> {
        let before = self.seals.lengths.before();
        let begin = self.raw.read(key, Some(0..before), before).await?;
        if self.is_done(key, &begin, target).await? {
            return Ok(Outcome::Already);
        }
        // The version comes first, so that a header and a content of two versions never meet.
        let Some(meta) = self.raw.head(key).await? else { return Ok(Outcome::Gone) };
        if meta.size <= WHOLE {
            let whole = self.raw.read(key, None, meta.size).await?;
            let mut bytes = BytesMut::from(&self.rewritten(key, &whole, target).await?[..]);
            bytes.extend_from_slice(whole.get(self.header..).unwrap_or_default());
            self.put(key, bytes.freeze(), &meta).await?;
        } else {
            self.stream(key, &meta, target).await?;
        }
        Ok(Outcome::Rewritten(meta.size))
    }

    /// Rewrites an object that isn't held in memory.
    async fn stream(&self, key: &ObjectKey, meta: &Meta, target: &Target<'_>) -> Result<(), Error> {
        let before = usize::try_from(self.seals.lengths.before()).unwrap_or(usize::MAX);
        let mut chunks = Box::pin(self.raw.stream(key, None));
        let mut begin = BytesMut::new();
        while begin.len() < before
            && let Some(chunk) = chunks.try_next().await?
        {
            begin.extend_from_slice(&chunk);
        }
        let begin = begin.freeze();
        let new = self.rewritten(key, &begin, target).await?;
        let mut upload = self.raw.upload(key, meta.stamp).expecting(meta.size).replacing(self.tag(key, meta)?);
        upload.write(new.into()).await?;
        upload.write(begin.slice(self.header.min(begin.len())..)).await?;
        while let Some(chunk) = chunks.try_next().await? {
            upload.write(chunk).await?;
        }
        if upload.written() != meta.size {
            let object = self.raw.object(key);
            upload.abort().await?;
            return Err(Error::Precondition { object });
        }
        upload.finish().await.map(drop)
    }

    /// Whether a header says that it is for the list. If it can be opened, it is checked, too.
    async fn is_done(&self, key: &ObjectKey, begin: &[u8], target: &Target<'_>) -> Result<bool, Error> {
        let Ok(header) = Header::parse(begin.get(..self.header).unwrap_or(begin)) else { return Ok(false) };
        if !header.audience.as_ref().is_some_and(|audience| target.is_of(audience)) {
            return Ok(false);
        }
        match self.seals.unwrap(header).await? {
            (header, Some(file)) if !header.authentic(&file) => {
                Err(fault(Fault::Changed, self.raw.object(key), "its header was changed"))
            }
            _ => Ok(true),
        }
    }

    /// The new header of an object that begins with `begin`.
    async fn rewritten(&self, key: &ObjectKey, begin: &[u8], target: &Target<'_>) -> Result<Vec<u8>, Error> {
        let before = usize::try_from(self.seals.lengths.before()).unwrap_or(usize::MAX);
        let begin = begin.get(..before).unwrap_or(begin);
        let (store, retrier) = (&*self.raw.inner.store, &self.raw.inner.retrier);
        let ask = || self.seals.believed(store, &retrier.counters, key, begin);
        let (header, file, _) = retrier.run(Operation::Get, &self.raw.object(key), 0, ask).await?;
        let (owners, file) = wrapped(target.recipients, file).await?;
        let rewrapped = |kept, audience| header::rewrapped(&header, kept, &owners, audience, &file, self.header);
        let all = if target.keeps { header.stanzas.len() } else { 1 };
        // The former stanzas may not fit beside the new ones.
        let new = rewrapped(all, &target.audience).or_else(|| rewrapped(1, &target.alone));
        new.ok_or_else(|| {
            let cause = "the new list doesn't fit into the header of this object";
            fault(Fault::Recipients, self.raw.object(key), cause)
        })
    }

    fn tag(&self, key: &ObjectKey, meta: &Meta) -> Result<crate::Tag, Error> {
        let cause = "the store doesn't tell versions of objects";
        meta.tag.clone().ok_or_else(|| fault(Fault::NoSwap, self.raw.object(key), cause))
    }

    /// Replaces the version that was read. Where the store knows no conditions, only records and the marker come here, which
    /// nothing else replaces.
    async fn put(&self, key: &ObjectKey, bytes: Bytes, meta: &Meta) -> Result<(), Error> {
        if !self.swaps {
            return self.raw.put(key, bytes, meta.stamp).await;
        }
        self.raw.replace_as(key, bytes, &self.tag(key, meta)?, meta.stamp).await.map(drop)
    }
}

impl Rekeyed {
    /// Notes an object that is left as it is. Errors that aren't about the object alone end the call.
    fn leave(&mut self, error: Error) -> Result<(), Error> {
        let of_object = match &error {
            Error::Sealing { fault, .. } => fault.is_of_object() || *fault == Fault::Marker,
            Error::OutOfRange { .. } | Error::TooLarge { .. } | Error::Corrupt { .. } => true,
            _ => false,
        };
        if !of_object {
            return Err(error);
        }
        self.left += 1;
        if self.failures.len() < TOLD {
            self.failures.push(error.into());
        }
        Ok(())
    }
}

/// The stanzas of these recipients for a file key.
async fn wrapped(recipients: &Recipients, file: FileKey) -> Result<(Vec<Stanza>, FileKey), Error> {
    if !recipients.start_programs() {
        return Ok((recipients.wrap(&file)?, file));
    }
    let recipients = recipients.clone();
    blocking(move || Ok((recipients.wrap(&file)?, file))).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn who_comes_and_who_goes() {
        for (there, wanted, removed, expected) in [
            (&["a"][..], &["a", "b"][..], &[][..], Ok((&["b"][..], &[][..]))),
            (&["a"], &["b"], &["a"], Ok((&["b"][..], &["a"][..]))),
            (&["a", "b"], &["a"], &["b"], Ok((&[][..], &["b"][..]))),
            // No recipient is removed silently, not even one that a stranger wrote into the list.
            (&["a", "x"], &["a"], &[], Err(&["x"][..])),
            (&["a", "x"], &["b"], &["a"], Err(&["x"][..])),
            // The second call with the same arguments.
            (&["b"], &["b"], &["a"], Ok((&[][..], &[][..]))),
            // Somebody else took one out of the list: it comes back.
            (&["a"], &["a", "b"], &["c"], Ok((&["b"][..], &[][..]))),
        ] {
            let expected =
                expected.map(|(added, gone)| (names(added), names(gone))).map_err(|left: &[&str]| names(left));
            assert_eq!(decide(&names(there), &names(wanted), &names(removed)), expected, "{there:?} {wanted:?}");
        }
    }

    #[test]
    fn which_objects_are_rewritten() {
        let keys: Vec<ObjectKey> = [
            ("ltx/0/1-1.ltx", true),
            ("seawall/holes/x.json", true),
            ("chain/00000001.json", true),
            ("app/readme", true),
            ("lock.json", false),
            ("update_marker", false),
            ("seawall/probe-00", false),
            ("seawall/encryption.json", false),
            ("seawall/encryption/canary.age", false),
            ("other/seawall/encryption.json", false),
            ("other/ltx/0/1-1.ltx", false),
        ]
        .iter()
        .map(|(name, expected)| {
            let key = ObjectKey::new(*name).expect("a key");
            let nested = BTreeSet::from(["other".to_owned()]);
            assert_eq!(is_rewritten(&key, &nested), *expected, "{name}");
            key
        })
        .collect();
        assert_eq!(nested(&keys), BTreeSet::from(["other".to_owned()]));
    }
}
