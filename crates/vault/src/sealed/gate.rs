//! Do a vault and its opener agree on encryption? Decided at the first request of a process, by the vault's marker.
//!
//! One object is asked for once. Only a vault that is to be encrypted and has no marker is listed as well.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;

use super::header::{Header, Id, SIZES};
use super::marker::{self, Marker};
use super::seals::{self, Seals};
use super::{Access, Fault, Recipients, Sealing, fault};
use crate::counts::{Counters, Operation};
use crate::vault::PROBES;
use crate::{Condition, Error, ObjectKey, Prefix, PutOptions, Store};

/// What there is before the first request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found<'a> {
    Nothing,
    /// Objects, and no marker.
    Objects,
    Marker(&'a Marker),
}

/// What the opener was told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    Plain,
    /// Encrypted. The recipients to write for are named, or `None`.
    Sealed(Option<&'a [String]>),
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Plain,
    /// Encrypted, for these recipients.
    Sealed,
    /// Encrypted; it can be read, and this is why nothing is written.
    ReadOnly(String),
    /// Nothing is there yet, and nothing is to be written.
    Empty,
    /// The marker has to be made first.
    Make,
    Refused(Fault, String),
}

pub(super) fn decide(found: Found<'_>, wanted: Wanted<'_>, writing: bool) -> Entry {
    match (wanted, found) {
        (Wanted::Plain, Found::Marker(marker)) => {
            let cause = format!("this vault is encrypted for {}, and nothing here says so", list(&marker.recipients));
            Entry::Refused(Fault::Encrypted, cause)
        }
        (Wanted::Plain, _) => Entry::Plain,
        (Wanted::Sealed(_), Found::Objects) => {
            let cause = format!("this vault is to be encrypted, but it holds objects and no {}", marker::NAME);
            Entry::Refused(Fault::NotEncrypted, cause)
        }
        (Wanted::Sealed(_), Found::Nothing) if !writing => Entry::Empty,
        (Wanted::Sealed(Some(_)), Found::Nothing) => Entry::Make,
        (Wanted::Sealed(None), Found::Nothing) => Entry::Refused(Fault::Recipients, NOBODY.to_owned()),
        (Wanted::Sealed(Some(wanted)), Found::Marker(marker)) if wanted == marker.recipients => Entry::Sealed,
        (Wanted::Sealed(Some(wanted)), Found::Marker(marker)) => Entry::ReadOnly(format!(
            "this vault is encrypted for {}, and {} would be written for",
            list(&marker.recipients),
            list(wanted)
        )),
        (Wanted::Sealed(None), Found::Marker(_)) => Entry::ReadOnly(NOBODY.to_owned()),
    }
}

const NOBODY: &str = "no recipients are named to encrypt for";

/// Recipients for a message.
pub(super) fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(4).map(|name| name.chars().take(80).collect()).collect();
    let more = names.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// A vault behind its gate.
#[derive(Debug)]
pub(super) enum Opened {
    Plain,
    Sealed(Arc<Seals>),
    /// To be asked again.
    Empty,
}

/// Looks at a vault, decides, and makes the marker where one is due.
pub(super) async fn open(
    store: &dyn Store,
    access: &Access,
    counters: &Counters,
    writing: bool,
) -> Result<Opened, Error> {
    let key = ObjectKey::new(marker::NAME)?;
    let object = format!("{}/{}", store.url(), marker::NAME);
    let sealing = match access {
        Access::Plain => None,
        Access::Sealed(sealing) => Some(sealing),
        Access::Names => return Ok(Opened::Plain),
    };
    let marker = match read(store, counters, &key, &object).await {
        Ok(bytes) => Some(Marker::parse(&bytes, &object)?),
        Err(Error::NotFound { .. }) => None,
        Err(error @ Error::Denied { .. }) if sealing.is_none() => {
            if tells_absence(store, counters).await? {
                return Err(error);
            }
            None
        }
        Err(error) => return Err(error),
    };
    let Some(sealing) = sealing else {
        let found = marker.as_ref().map_or(Found::Nothing, Found::Marker);
        return match decide(found, Wanted::Plain, writing) {
            Entry::Refused(kind, cause) => Err(fault(kind, store.url(), cause)),
            _ => Ok(Opened::Plain),
        };
    };
    let recipients = recipients(sealing, marker.as_ref())?;
    let names = recipients.as_ref().map(Recipients::names);
    let wanted = Wanted::Sealed(names.as_deref());
    if let Some(marker) = marker {
        return enter(store, sealing, marker, recipients, wanted);
    }
    let first = first(store, counters).await?;
    let found = if first.is_some() { Found::Objects } else { Found::Nothing };
    match decide(found, wanted, writing) {
        Entry::Empty => Ok(Opened::Empty),
        Entry::Make => {
            let Some(recipients) = recipients else { return Ok(Opened::Empty) };
            let made = make(store, sealing, counters, &recipients, &key, &object).await?;
            enter(store, sealing, made, Some(recipients), wanted)
        }
        // The marker may have come together with the objects, between the two requests.
        Entry::Refused(kind, cause) => match read(store, counters, &key, &object).await {
            Ok(bytes) => enter(store, sealing, Marker::parse(&bytes, &object)?, recipients, wanted),
            Err(Error::NotFound { .. }) => {
                let deleted = match &first {
                    Some(first) => deleted(store, counters, first).await?,
                    None => None,
                };
                Err(deleted
                    .map_or_else(|| fault(kind, store.url(), cause), |cause| fault(Fault::Marker, object, cause)))
            }
            Err(error) => Err(error),
        },
        _ => Ok(Opened::Empty),
    }
}

/// Does the store tell that an object isn't there? To credentials that may not list, some say "denied" instead. Then a marker
/// that is denied isn't there, as far as these credentials can know. Otherwise the marker is there, and the refusal hides it.
async fn tells_absence(store: &dyn Store, counters: &Counters) -> Result<bool, Error> {
    let absent = ObjectKey::new(format!("{PROBES}{:016x}", random()?))?;
    counters.request(Operation::Head);
    match store.head(&absent).await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(true),
        Err(Error::Denied { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The recipients to write for: those that are named; otherwise the owner's keys at hand, if they are all that the vault has.
fn recipients(sealing: &Sealing, marker: Option<&Marker>) -> Result<Option<Recipients>, Error> {
    let (None, Some(marker)) = (&sealing.recipients, marker) else { return Ok(sealing.recipients.clone()) };
    let public = sealing.identities.public();
    if !marker.recipients.iter().all(|name| public.contains(name)) {
        return Ok(None);
    }
    Recipients::read(&marker.recipients, std::path::Path::new("")).map(Some)
}

fn enter(
    store: &dyn Store,
    sealing: &Arc<Sealing>,
    marker: Marker,
    recipients: Option<Recipients>,
    wanted: Wanted<'_>,
) -> Result<Opened, Error> {
    let recipients = match decide(Found::Marker(&marker), wanted, true) {
        Entry::Sealed => recipients.ok_or_else(|| NOBODY.to_owned()),
        Entry::ReadOnly(cause) => Err(cause),
        Entry::Refused(kind, cause) => return Err(fault(kind, store.url(), cause)),
        Entry::Plain | Entry::Empty | Entry::Make => return Ok(Opened::Plain),
    };
    let recipients = recipients.map_err(|cause| fault(Fault::Recipients, store.url(), cause));
    Ok(Opened::Sealed(Arc::new(Seals::new(sealing.clone(), marker, recipients))))
}

/// Makes the marker, or reads the one of a process that was quicker.
async fn make(
    store: &dyn Store,
    sealing: &Sealing,
    counters: &Counters,
    recipients: &Recipients,
    key: &ObjectKey,
    object: &str,
) -> Result<Marker, Error> {
    let marker = Marker {
        vault: Id(random()?),
        header: size(seals::longest(recipients)?)
            .ok_or_else(|| fault(Fault::Keys, "recipients", "these are too many for a header"))?,
        recipients: recipients.names(),
        created: sealing.keys.now(),
    };
    let condition = if store.abilities().create { Condition::Create } else { Condition::Always };
    counters.request(Operation::Put);
    match store.put(key, marker.to_bytes().into(), &PutOptions { condition, ..PutOptions::default() }).await {
        Ok(_) => Ok(marker),
        Err(Error::AlreadyExists { .. }) => Marker::parse(&read(store, counters, key, object).await?, object),
        Err(error) => Err(error),
    }
}

/// The length of headers for a vault whose recipients need `needed` bytes: with room for some more.
fn size(needed: usize) -> Option<usize> {
    const STEP: usize = 512;
    let size = (needed + 400).next_multiple_of(STEP).max(2 * STEP);
    SIZES.contains(&size).then_some(size)
}

pub(super) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|_| fault(Fault::HostKeys, "the system", "it has no source of randomness"))
}

/// The first object of the vault that isn't of the marker's.
async fn first(store: &dyn Store, counters: &Counters) -> Result<Option<ObjectKey>, Error> {
    let mut after = None;
    loop {
        counters.request(Operation::List);
        let page = store.list(&Prefix::all(), after.as_ref(), 100).await?;
        if let Some(entry) = page.entries.into_iter().find(|entry| marker::is_content(entry.key.as_str())) {
            return Ok(Some(entry.key));
        }
        match page.next {
            Some(next) if after.as_ref() < Some(&next) => after = Some(next),
            _ => return Ok(None),
        }
    }
}

/// What to say of a vault whose objects are sealed, and whose marker is gone: what the marker held. `None` where the first
/// object isn't sealed, or is of a vault below this place, which has its own marker.
async fn deleted(store: &dyn Store, counters: &Counters, first: &ObjectKey) -> Result<Option<String>, Error> {
    let Some((vault, header)) = named_by(store, counters, first).await? else { return Ok(None) };
    for (at, _) in first.as_str().match_indices('/') {
        let folder = first.as_str().get(..at).unwrap_or_default();
        let key = ObjectKey::new(format!("{folder}/{}", marker::NAME))?;
        match store.head(&key).await {
            Ok(_) => return Ok(None),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(format!(
        "the vault's objects are encrypted, and this object, which says how, is gone. It held the vault {vault} and headers of \
         {header} bytes"
    )))
}

/// The vault that the first object names; `None` where there is none, or it isn't sealed.
pub(super) async fn named_by_first(store: &dyn Store, counters: &Counters) -> Result<Option<Id>, Error> {
    match first(store, counters).await? {
        Some(first) => Ok(named_by(store, counters, &first).await?.map(|(vault, _)| vault)),
        None => Ok(None),
    }
}

/// The vault that an object names, and the length of its header.
async fn named_by(store: &dyn Store, counters: &Counters, key: &ObjectKey) -> Result<Option<(Id, usize)>, Error> {
    counters.request(Operation::Get);
    let mut body = store.get(key, Some(0..*SIZES.end() as u64)).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.stream.try_next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= *SIZES.end() {
            break;
        }
    }
    Ok(sealed_by(&bytes))
}

/// The vault that an object's header names, and the header's length.
fn sealed_by(bytes: &[u8]) -> Option<(Id, usize)> {
    let last = bytes.windows(5).position(|five| five == b"\n--- ")? + 1;
    let end = last + bytes.get(last..)?.iter().position(|byte| *byte == b'\n')? + 1;
    let header = Header::parse(bytes.get(..end)?).ok()?;
    Some((header.seal?.vault, end))
}

/// Reads a small object of the marker's.
pub(super) async fn read(
    store: &dyn Store,
    counters: &Counters,
    key: &ObjectKey,
    object: &str,
) -> Result<Bytes, Error> {
    counters.request(Operation::Get);
    let mut body = store.get(key, None).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.stream.try_next().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > marker::MOST {
            return Err(fault(Fault::Marker, object, "it is larger than any of its kind"));
        }
    }
    if body.size.is_some_and(|size| size != bytes.len() as u64) {
        let cause = "the connection ended early".to_owned();
        return Err(Error::Unavailable { object: object.to_owned(), cause, retryable: true });
    }
    Ok(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::simulated::SimulatedStore;

    #[test]
    fn what_agrees() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (ab, a) = (names(&["a", "b"]), names(&["a"]));
        let marker = Marker { vault: Id(1), header: 1024, recipients: ab.clone(), created: Moment::from_millis(0) };
        let (there, plain) = (Found::Marker(&marker), Wanted::Plain);
        let (same, other, none) = (Wanted::Sealed(Some(&ab)), Wanted::Sealed(Some(&a)), Wanted::Sealed(None));
        let read_only = |entry: Entry| matches!(entry, Entry::ReadOnly(_));
        let refused = |entry: Entry| match entry {
            Entry::Refused(fault, _) => Some(fault),
            _ => None,
        };
        for writing in [false, true] {
            assert_eq!(decide(Found::Nothing, plain, writing), Entry::Plain);
            assert_eq!(decide(Found::Objects, plain, writing), Entry::Plain);
            assert_eq!(refused(decide(there, plain, writing)), Some(Fault::Encrypted));
            for wanted in [same, other, none] {
                assert_eq!(refused(decide(Found::Objects, wanted, writing)), Some(Fault::NotEncrypted));
            }
            assert_eq!(decide(there, same, writing), Entry::Sealed);
            assert!(read_only(decide(there, other, writing)) && read_only(decide(there, none, writing)));
        }
        assert_eq!(decide(Found::Nothing, same, false), Entry::Empty);
        assert_eq!(decide(Found::Nothing, same, true), Entry::Make);
        assert_eq!(decide(Found::Nothing, none, false), Entry::Empty);
        assert_eq!(refused(decide(Found::Nothing, none, true)), Some(Fault::Recipients));
    }

    #[tokio::test]
    async fn a_marker_that_is_denied_is_there_where_others_are_missing() {
        let denied = || Error::Denied { object: "it".into(), cause: "no rights".into() };
        let store = SimulatedStore::new(MemoryStore::new(), 1);
        store.forbid("get", denied());
        let opened = open(&store, &Access::Plain, &Counters::default(), true).await;
        assert!(matches!(opened, Err(Error::Denied { .. })), "{opened:?}");
        // Without the right to list, all that is missing is denied.
        store.forbid("head", denied());
        let opened = open(&store, &Access::Plain, &Counters::default(), true).await;
        assert!(matches!(opened, Ok(Opened::Plain)), "{opened:?}");
    }

    #[test]
    fn headers_have_room_for_more_recipients() {
        for (needed, expected) in [(300, Some(1024)), (624, Some(1024)), (625, Some(1536)), (70_000, None)] {
            assert_eq!(size(needed), expected, "{needed}");
        }
    }

    #[test]
    fn recipients_in_a_message() {
        let many: Vec<String> = (0..6).map(|i| format!("age1{i}")).collect();
        assert_eq!(list(&many), "age10, age11, age12, age13 and 2 more");
        assert_eq!(list(&many[..1]), "age10");
    }
}
