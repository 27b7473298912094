//! The chain of a vault as read: which sets exist, and how the next link is added.
//!
//! In an encrypted vault a host reads all links with its own lasting key, but for those that were written with another: of
//! another host, or before its keys were lost. These are *sealed*: nothing is decided about their sets, and the chain goes on
//! behind them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_core::{Clock as _, Failure, Finding, Hole, Moment, SystemClock, When};
use seawall_vault::{Created, Fault, Prefix, Vault};

use crate::chain::{self, Acknowledgement, Found, Link, Record};
use crate::find::{self, Held, Known};
use crate::layout::{self, Name};
use crate::lost::Seen;
use crate::manifest::{read_document, write_document};
use crate::moments::{self, Written};
use crate::timeline::point;
use crate::{Digest, Error, Manifest, Previous, SetId};

/// The most bytes of a link. A set's is about one kilobyte; a retirement's has 200 bytes for each set.
const LARGEST_LINK: u64 = 4 << 20;

/// Links that are read at once.
const AT_ONCE: usize = 16;

/// How often `add` retries after another writer took the number.
const ATTEMPTS: u32 = 20;

/// The links of a vault, read.
#[derive(Debug)]
pub struct Catalog {
    vault: Vault,
    links: Vec<Found>,
    /// The newest link's number, 0 for none.
    newest: u64,
    /// The newest link's digest; `None` where it is sealed.
    digest: Option<Digest>,
    unreadable: Vec<(u64, Finding)>,
    /// The links that no key at hand opens: why, and when the store wrote them.
    sealed: BTreeMap<u64, (seawall_vault::Error, Moment)>,
    /// When the store wrote the newest link, by its own clock.
    newest_written: Option<Moment>,
    /// Sets that had moments which can't be, each with the moment that its link says.
    misdated: BTreeMap<SetId, Moment>,
}

/// Whether there is an object with one of Seawall's names below a prefix.
async fn has_ours(vault: &Vault, prefix: &Prefix) -> Result<bool, Error> {
    let mut keys = Box::pin(vault.entries(prefix, None));
    while let Some(entry) = keys.try_next().await? {
        if Name::parse(&entry.key).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A link's object, as far as it could be read.
enum Read {
    Link(Box<Found>),
    Unreadable(u64, Option<Digest>, Finding),
    Sealed(u64, seawall_vault::Error),
}

impl Catalog {
    /// Whether the vault holds sets or remains of sets: one request if it does, two if it doesn't.
    pub async fn is_here(vault: &Vault) -> Result<bool, Error> {
        Ok(has_ours(vault, &layout::chain()?).await? || has_ours(vault, &layout::sets()?).await?)
    }

    /// Refuses a vault that holds sets or parts of sets, but no link. Two causes look alike there: the chain was
    /// deleted, or the first backup was interrupted before it wrote a link.
    pub(crate) async fn check_begun(&self) -> Result<(), Error> {
        if self.newest > 0 || !has_ours(&self.vault, &layout::sets()?).await? {
            return Ok(());
        }
        let cause = "objects of sets are here, and no chain/ that names them, so that none counts: it was deleted, or the \
                     first backup was interrupted";
        Err(Error::NoSet { vault: self.vault.url().to_owned(), cause: cause.to_owned() })
    }

    /// Reads every link. A link that can't be parsed is a finding, not a failure: the other sets can still be used.
    pub async fn read(vault: &Vault) -> Result<Self, Error> {
        let listed = vault.list(&layout::chain()?, None).await?;
        let mut written: BTreeMap<u64, Moment> = BTreeMap::new();
        for entry in &listed {
            if let Some(Name::Link(number)) = Name::parse(&entry.key) {
                written.insert(number, entry.written);
            }
        }
        let newest_written = listed.last().map(|entry| entry.written);
        let numbers: Vec<u64> = written.keys().copied().collect();
        let reads: Vec<Option<Read>> =
            stream::iter(numbers).map(|number| read_link(vault, number)).buffered(AT_ONCE).try_collect().await?;
        let mut catalog = Self {
            vault: vault.clone(),
            links: Vec::new(),
            newest: 0,
            digest: None,
            unreadable: Vec::new(),
            sealed: BTreeMap::new(),
            newest_written,
            misdated: BTreeMap::new(),
        };
        for read in reads.into_iter().flatten() {
            catalog.take(read, &written);
        }
        catalog.correct_moments(&written);
        Ok(catalog)
    }

    /// Gives sets whose clock was wrong the moment of the store's clock. `written` says when the store wrote each link.
    fn correct_moments(&mut self, written: &BTreeMap<u64, Moment>) {
        let points: BTreeMap<u64, Moment> =
            self.links.iter().filter_map(as_set).map(|(found, manifest)| (found.link.number, manifest.point)).collect();
        let link =
            |(number, at): (&u64, &Moment)| Written { number: *number, point: points.get(number).copied(), at: *at };
        let links: Vec<Written> = written.iter().map(link).collect();
        for (number, moment) in moments::corrected(&links, SystemClock.now()) {
            let of_number = self.links.iter_mut().find(|found| found.link.number == number);
            if let Some(Record::Set(manifest)) = of_number.map(|found| &mut found.link.record) {
                self.misdated.insert(manifest.id, manifest.point);
                manifest.point = moment;
            }
        }
    }

    /// Sets whose moment is one of the store's clock, because the clock of their host was wrong: each with the moment that it told.
    pub fn misdated(&self) -> impl Iterator<Item = (SetId, Moment)> {
        self.misdated.iter().map(|(id, said)| (*id, *said))
    }

    /// The moment that a set told, whatever clock it was of.
    pub(crate) fn told(&self, manifest: &Manifest) -> Moment {
        self.misdated.get(&manifest.id).copied().unwrap_or(manifest.point)
    }

    /// Takes in the link behind those that are known.
    fn take(&mut self, read: Read, written: &BTreeMap<u64, Moment>) {
        match read {
            Read::Link(found) => {
                (self.newest, self.digest) = (found.link.number, Some(found.blake3));
                self.links.push(*found);
            }
            Read::Unreadable(number, digest, finding) => {
                (self.newest, self.digest) = (number, digest);
                self.unreadable.push((number, finding));
            }
            Read::Sealed(number, error) => {
                (self.newest, self.digest) = (number, None);
                let written = written.get(&number).copied().unwrap_or_default();
                self.sealed.insert(number, (error, written));
            }
        }
    }

    /// How many links no key at hand opens.
    pub fn sealed(&self) -> usize {
        self.sealed.len()
    }

    /// Why the newest of them can't be opened.
    pub(crate) fn newest_sealed(&self) -> Option<&seawall_vault::Error> {
        self.sealed.values().next_back().map(|(error, _)| error)
    }

    /// When the newest of them was written, by the store's clock.
    pub(crate) fn sealed_until(&self) -> Option<Moment> {
        self.sealed.values().map(|(_, written)| *written).max()
    }

    /// The sets that count, oldest first: whole, and not retired.
    pub fn sets(&self) -> Vec<(&Found, &Manifest)> {
        let retired: Vec<u64> = self.retirements().flat_map(|gone| gone.retired.iter().map(|set| set.number)).collect();
        let live = self.links.iter().filter(|found| !retired.contains(&found.link.number));
        let mut sets: Vec<(&Found, &Manifest)> = live.filter_map(as_set).collect();
        sets.sort_by_key(|(_, manifest)| (manifest.point, manifest.id));
        sets
    }

    /// Every set that is or was in the chain.
    pub(crate) fn known(&self) -> impl Iterator<Item = SetId> {
        let linked = self.links.iter().filter_map(as_set).map(|(_, manifest)| manifest.id);
        linked.chain(self.retired().map(|(_, retired)| retired.id))
    }

    /// The sets that were retired, and when.
    pub(crate) fn retired(&self) -> impl Iterator<Item = (Moment, &chain::Retired)> {
        self.retirements().flat_map(|gone| gone.retired.iter().map(|set| (gone.at, set)))
    }

    /// Whether the link of this number and digest still exists.
    pub(crate) fn has_link(&self, number: u64, blake3: &Digest) -> bool {
        self.links.iter().any(|found| found.link.number == number && found.blake3 == *blake3)
    }

    /// Whether the chain says why a link isn't there: its set was retired, a user acknowledged that it is missing, or a newer link
    /// that no key at hand opens may say so.
    pub(crate) fn accounts_for(&self, link: &Seen) -> bool {
        let may_be_missing = chain::may_be_missing(&self.links);
        let explained = may_be_missing.get(&link.number);
        let is_it = |blake3: &Option<Digest>| blake3.zip(link.blake3).is_none_or(|(one, other)| one == other);
        explained.is_some_and(is_it) || self.sealed.keys().next_back().is_some_and(|sealed| link.number < *sealed)
    }

    /// When the newest link was written, by the store's clock. Retention takes no later moment as the present, so that
    /// neither a clock that is ahead nor a time without backups deletes anything.
    pub(crate) fn newest_written(&self) -> Option<Moment> {
        self.newest_written
    }

    /// The holes in the chain: links that can't be read, and missing links that no retirement explains, acknowledged or not.
    pub(crate) fn missing(&self) -> Vec<Hole> {
        let sets = self.sets();
        let hole = |number: u64, reason: String| {
            let before = sets.iter().rev().find(|(found, _)| found.link.number < number);
            let behind = sets.iter().find(|(found, _)| found.link.number > number).or(before)?;
            Some(Hole {
                from: before.map(|(_, manifest)| point(manifest)),
                to: point(behind.1),
                reason,
                restored: false,
            })
        };
        let alarm = |(number, finding): (u64, Finding)| {
            hole(number, format!("{}: {}: {}", finding.code, finding.object, finding.cause))
        };
        let mut holes: Vec<Hole> = self.alarms().into_iter().filter_map(alarm).collect();
        let sealed = |(number, (error, _)): (&u64, &(seawall_vault::Error, Moment))| hole(*number, error.to_string());
        holes.extend(self.sealed.iter().filter_map(sealed));
        for known in self.acknowledgements() {
            let gone =
                known.missing.iter().filter(|one| !self.links.iter().any(|found| found.link.number == one.number));
            holes.extend(gone.filter_map(|one| {
                hole(
                    one.number,
                    format!("chain/{:08}.json is missing, which was acknowledged at {}", one.number, known.at),
                )
            }));
        }
        holes
    }

    /// Adds a link that acknowledges missing links, so that they raise no alarm any more.
    pub async fn acknowledge(&mut self, numbers: &[u64], at: Moment, nonce: u64) -> Result<(), Error> {
        let not_missing = |number| Error::NotMissing { object: self.vault.url().to_owned(), number };
        if let Some(sealed) = numbers.iter().find(|number| self.sealed.contains_key(number)) {
            return Err(not_missing(*sealed));
        }
        let missing = chain::acknowledge(&self.links, self.newest, numbers).map_err(not_missing)?;
        self.add(Record::Acknowledgement(Acknowledgement { at, nonce, missing })).await.map(drop)
    }

    fn acknowledgements(&self) -> impl Iterator<Item = &Acknowledgement> {
        self.links.iter().filter_map(|found| match &found.link.record {
            Record::Acknowledgement(known) => Some(known),
            Record::Set(_) | Record::Retirement(_) => None,
        })
    }

    fn retirements(&self) -> impl Iterator<Item = &chain::Retirement> {
        self.links.iter().filter_map(|found| match &found.link.record {
            Record::Retirement(retirement) => Some(retirement),
            Record::Set(_) | Record::Acknowledgement(_) => None,
        })
    }

    /// The set that holds the state at `when`: the last set whose moment isn't later, or exactly the set that `when`
    /// names. Where a link that can't be read may be that of a later one, an older set isn't given in its place.
    pub fn find(&self, when: &When) -> Result<&Manifest, Error> {
        let sets = self.sets();
        let known = |(found, manifest): &(&Found, &Manifest)| Known {
            number: found.link.number,
            point: manifest.point,
            id: manifest.id.to_string(),
        };
        let known: Vec<Known> = sets.iter().map(known).collect();
        let mut alarms = self.alarms();
        alarms.retain(|(_, finding)| finding.code != "archive.broken-chain");
        let mut hidden: Vec<u64> =
            alarms.iter().map(|(number, _)| *number).chain(self.sealed.keys().copied()).collect();
        hidden.sort_unstable();
        let none = |cause: String| Error::NoSet { vault: self.vault.url().to_owned(), cause };
        match (find::find(&known, &hidden, when), when, sets.first()) {
            (Held::Set(place), ..) => Ok(sets[place].1),
            (Held::Hidden(number, _), ..) if self.sealed.contains_key(&number) => {
                Err(self.sealed.get(&number).map_or_else(|| none(String::new()), |(error, _)| error.clone().into()))
            }
            (Held::Hidden(number, before), ..) => {
                let finding = alarms.into_iter().find(|(other, _)| *other == number).map(|(_, finding)| finding);
                let cause = finding.as_ref().map_or(String::new(), |finding| finding.cause.clone());
                let object = finding.map_or_else(|| format!("chain/{number:08}.json"), |finding| finding.object);
                Err(Error::Hidden { object, cause, before: before.map(|place| known[place].id.clone()) })
            }
            (Held::None, _, None) => Err(none("there is no whole set here".to_owned())),
            (Held::None, When::Position(id), _) => Err(none(format!("there is no set {id}"))),
            (Held::None, _, Some((_, oldest))) => {
                Err(none(format!("the oldest set is of {}, later than that", oldest.point)))
            }
        }
    }

    /// Refuses a vault that holds another database: sets of two databases in one vault would be read as one history.
    pub fn check_identity(&self, ours: &str) -> Result<(), Error> {
        match self.sets().last() {
            Some((_, manifest)) if manifest.identity != ours => Err(Error::OtherDatabase {
                vault: self.vault.url().to_owned(),
                theirs: manifest.identity.clone(),
                ours: ours.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// What is wrong with the chain.
    pub fn findings(&self) -> Vec<Finding> {
        self.alarms().into_iter().map(|(_, finding)| finding).collect()
    }

    /// The same, each with the number of its link.
    fn alarms(&self) -> Vec<(u64, Finding)> {
        let numbers: Vec<u64> =
            self.unreadable.iter().map(|(number, _)| *number).chain(self.sealed.keys().copied()).collect();
        let mut alarms = self.unreadable.clone();
        let sealed = self.sealed.keys().next_back().copied().unwrap_or_default();
        alarms.extend(chain::judge(&self.links, self.newest, &numbers, sealed));
        alarms
    }

    /// Adds a link. If the link is a set's, the set counts from now on. If another writer took the number first, the
    /// link gets the next number.
    pub async fn add(&mut self, record: Record) -> Result<u64, Error> {
        for _ in 0..ATTEMPTS {
            let number = self.newest + 1;
            let previous = self.digest.map(|blake3| Previous { number: self.newest, blake3 });
            let link = Link { number, previous, unread: previous.is_none() && self.newest > 0, record: record.clone() };
            let bytes = Bytes::from(write_document(&link)?);
            let found = Found { link, blake3: Digest::of(&bytes) };
            match self.vault.create(&layout::link(number)?, bytes, None).await {
                Ok(Created::Fresh | Created::Adopted) => {
                    self.take(Read::Link(Box::new(found)), &BTreeMap::new());
                    return Ok(number);
                }
                Err(seawall_vault::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(read) = read_link(&self.vault, number).await? {
                self.take(read, &BTreeMap::new());
            }
        }
        Err(Error::Internal(format!("{ATTEMPTS} other writers were faster")))
    }
}

/// A link of a set.
fn as_set(found: &Found) -> Option<(&Found, &Manifest)> {
    match &found.link.record {
        Record::Set(manifest) => Some((found, manifest)),
        Record::Retirement(_) | Record::Acknowledgement(_) => None,
    }
}

/// Whether an object of an encrypted vault isn't what its writer encrypted: it was changed, exchanged or slipped in.
pub(crate) fn is_of_object(error: &seawall_vault::Error) -> bool {
    matches!(error, seawall_vault::Error::Sealing { fault, .. } if *fault != Fault::NoKey && fault.is_of_object())
}

/// A link as it is now, read by its name; `None` where there is none.
pub(crate) async fn seen(vault: &Vault, number: u64) -> Result<Option<Seen>, Error> {
    if number == 0 {
        return Ok(None);
    }
    Ok(read_link(vault, number).await?.map(|read| match read {
        Read::Link(found) => {
            Seen { number, blake3: Some(found.blake3), set: as_set(&found).map(|(_, manifest)| manifest.id) }
        }
        Read::Unreadable(_, blake3, _) => Seen { number, blake3, set: None },
        Read::Sealed(..) => Seen { number, blake3: None, set: None },
    }))
}

/// Reads a link; `None` when it was deleted since it was listed.
async fn read_link(vault: &Vault, number: u64) -> Result<Option<Read>, Error> {
    let key = layout::link(number)?;
    let object = vault.object(&key);
    let bytes = match vault.read(&key, None, LARGEST_LINK).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error @ seawall_vault::Error::Sealing { fault: Fault::NoKey, .. }) => {
            return Ok(Some(Read::Sealed(number, error)));
        }
        Err(error) if is_of_object(&error) => {
            let Failure { code, object, cause, .. } = error.into();
            return Ok(Some(Read::Unreadable(number, None, Finding { code, object, cause })));
        }
        Err(error) => return Err(error.into()),
    };
    let blake3 = Some(Digest::of(&bytes));
    let wrong = |code, cause: String| Read::Unreadable(number, blake3, Finding { code, object: object.clone(), cause });
    Ok(Some(match read_document::<Link>(&bytes, &object) {
        Ok(link) if link.number == number => Read::Link(Box::new(Found { link, blake3: Digest::of(&bytes) })),
        Ok(link) => wrong("archive.corrupt", format!("it is the link of number {}", link.number)),
        Err(Error::Corrupt { cause, .. }) => wrong("archive.corrupt", cause),
        Err(Error::TooNew { format, .. }) => {
            wrong("archive.too-new", format!("it has format {format}, and this version reads format 1"))
        }
        Err(error) => return Err(error),
    }))
}
