//! The keys of an open vault: writes headers for new objects, and opens those that are there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use age::Recipient as _;
use age_core::format::FileKey;
use bytes::{Bytes, BytesMut};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::header::{self, Audience, Header, Id, NoHeader, Seal, SealKey, Sealed};
use super::lengths::{CHUNK, Lengths, NONCE};
use super::marker::{self, Marker, Writer};
use super::payload::{BadChunk, Payload};
use super::{Fault, Recipients, Sealing, fault, gate, hostkeys};
use crate::counts::{Counters, Operation};
use crate::{Condition, Error, ObjectKey, PutOptions, Store};

/// How old the marker may be when something is written, so that a change of the recipients is noticed.
const LOOK: Duration = Duration::from_secs(30);

/// An open vault's keys.
#[derive(Debug)]
pub(super) struct Seals {
    sealing: Arc<Sealing>,
    vault: Id,
    pub(super) lengths: Lengths,
    /// Whom the vault is for, as its marker said when it was opened.
    owners: Vec<String>,
    /// Whom to write for, or why nothing can be written.
    recipients: Result<Recipients, Error>,
    /// When the marker was read last.
    looked: Mutex<Instant>,
    writer: OnceCell<(Id, SealKey)>,
    /// The secrets of writers whose records were read.
    known: Mutex<BTreeMap<Id, SealKey>>,
}

impl Seals {
    pub(super) fn new(sealing: Arc<Sealing>, marker: Marker, recipients: Result<Recipients, Error>) -> Self {
        let lengths = Lengths { header: marker.header };
        let (writer, known, looked) = (OnceCell::new(), Mutex::default(), Mutex::new(Instant::now()));
        Self { sealing, vault: marker.vault, lengths, owners: marker.recipients, recipients, looked, writer, known }
    }

    /// Whether the vault is still for the recipients that this process writes for; asked again before a write when the last
    /// answer is [`LOOK`] old. The list in the marker is never taken over: the bucket isn't trusted.
    pub(super) async fn look_again(&self, store: &dyn Store, counters: &Counters) -> Result<(), Error> {
        let due = || self.looked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= LOOK;
        if self.recipients.is_err() || !due() {
            return Ok(());
        }
        let (key, object) = (ObjectKey::new(marker::NAME)?, format!("{}/{}", store.url(), marker::NAME));
        match gate::read(store, counters, &key, &object).await {
            Ok(bytes) => self.compare(&Marker::parse(&bytes, &object)?, &store.url())?,
            // The next process that is started stops. This one knows how the vault is encrypted.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(())
    }

    fn compare(&self, now: &Marker, place: &str) -> Result<(), Error> {
        if (now.vault, now.header) != (self.vault, self.lengths.header) {
            let cause = format!("another vault is here now, {}; this process writes to {}", now.vault, self.vault);
            return Err(fault(Fault::Marker, format!("{place}/{}", marker::NAME), cause));
        }
        if now.recipients == self.owners {
            return Ok(());
        }
        let cause = format!(
            "the vault is for {} now, and this process writes for {}",
            gate::list(&now.recipients),
            gate::list(&self.owners)
        );
        Err(fault(Fault::Recipients, place, cause))
    }

    /// The beginning of a new object, up to its first chunk, and what seals its chunks.
    pub(super) async fn begin(
        &self,
        store: &dyn Store,
        counters: &Counters,
        key: &ObjectKey,
    ) -> Result<(Vec<u8>, Payload), Error> {
        let recipients = self.recipients.clone()?;
        let (writer, secret) = self.writer(store, counters, &recipients).await?;
        self.header(&recipients, *writer, secret, key).await
    }

    async fn header(
        &self,
        recipients: &Recipients,
        writer: Id,
        secret: &SealKey,
        key: &ObjectKey,
    ) -> Result<(Vec<u8>, Payload), Error> {
        let lasting = (self.sealing.lasting)(key);
        let host = match self.sealing.keys.present(lasting) {
            Some(host) => host,
            None => {
                let sealing = self.sealing.clone();
                blocking(move || sealing.keys.make(lasting)).await??
            }
        };
        let (vault, size, secret) = (self.vault, self.lengths.header, secret.clone());
        let (recipients, key) = (recipients.clone(), key.clone());
        let programs = recipients.start_programs();
        let work = move || write_header(&recipients, &host, vault, writer, &secret, &key, size);
        if programs { blocking(work).await? } else { work() }
    }

    /// This writer and its secret. A new writer says so in the vault before it writes anything.
    async fn writer(
        &self,
        store: &dyn Store,
        counters: &Counters,
        recipients: &Recipients,
    ) -> Result<&(Id, SealKey), Error> {
        let begin = async {
            let folder = self.sealing.keys.folder().map(std::path::Path::to_owned);
            let (vault, created) = (self.vault, self.sealing.keys.now());
            let writer = blocking(move || noted(folder.as_deref(), vault, created)).await??;
            if !writer.published {
                self.write_record(store, counters, recipients, &writer).await?;
                let (folder, noted) = (self.sealing.keys.folder().map(std::path::Path::to_owned), writer.clone());
                blocking(move || publish(folder.as_deref(), noted)).await??;
            }
            Ok((writer.writer, writer.secret))
        };
        self.writer.get_or_try_init(|| begin).await
    }

    /// Writes the record of this writer.
    async fn write_record(
        &self,
        store: &dyn Store,
        counters: &Counters,
        recipients: &Recipients,
        writer: &Writer,
    ) -> Result<(), Error> {
        let key = marker::record_name(writer.writer)?;
        let (mut object, payload) = self.header(recipients, writer.writer, &writer.secret, &key).await?;
        let mut chunks = BytesMut::new();
        payload.seal(0, true, &[&writer.to_bytes()], &mut chunks);
        object.extend_from_slice(&chunks);
        // An identifier of our own: an earlier attempt.
        create(store, counters, &key, object).await
    }

    /// The vault's identity.
    pub(super) fn vault(&self) -> Id {
        self.vault
    }

    /// Puts the marker and the record of this writer back, if this process wrote to the vault and they are gone. A vault without any
    /// object gets another marker when it is written to; and a marker that is there stays, whatever it says.
    pub(super) async fn put_back(&self, store: &dyn Store, counters: &Counters) -> Result<(), Error> {
        let (Ok(recipients), Some((writer, secret))) = (&self.recipients, self.writer.get()) else { return Ok(()) };
        let (key, object) = (ObjectKey::new(marker::NAME)?, format!("{}/{}", store.url(), marker::NAME));
        let there = match gate::read(store, counters, &key, &object).await {
            Ok(bytes) => Some(Marker::parse(&bytes, &object)?.vault),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        if there.is_none() {
            if gate::named_by_first(store, counters).await? != Some(self.vault) {
                return Ok(());
            }
            let (header, created) = (self.lengths.header, self.sealing.keys.now());
            let marker = Marker { vault: self.vault, header, recipients: self.owners.clone(), created };
            create(store, counters, &key, marker.to_bytes()).await?;
            tracing::warn!(object, "this object was gone, and is put back: it says how the vault is encrypted");
        }
        if there.is_some_and(|there| there != self.vault) {
            return Ok(());
        }
        let record = marker::record_name(*writer)?;
        counters.request(Operation::Head);
        match store.head(&record).await {
            Ok(_) => Ok(()),
            Err(Error::NotFound { .. }) => {
                let created = self.sealing.keys.now();
                let (vault, secret) = (self.vault, secret.clone());
                let writer = Writer { vault, writer: *writer, secret, created, published: false };
                self.write_record(store, counters, recipients, &writer).await?;
                let object = format!("{}/{record}", store.url());
                tracing::warn!(
                    object,
                    "this object was gone, and is put back: with it the owner reads what this host wrote"
                );
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What opens the chunks of an object whose header is `bytes`, and the nonce behind it.
    pub(super) async fn open(
        &self,
        store: &dyn Store,
        counters: &Counters,
        key: &ObjectKey,
        bytes: &[u8],
    ) -> Result<[u8; 32], Error> {
        let (_, file, nonce) = self.believed(store, counters, key, bytes).await?;
        Ok(header::payload_key(&file, &nonce))
    }

    /// A header that a writer of this vault made for this object, its file key, and the nonce behind it.
    pub(super) async fn believed(
        &self,
        store: &dyn Store,
        counters: &Counters,
        key: &ObjectKey,
        bytes: &[u8],
    ) -> Result<(Header, FileKey, [u8; NONCE]), Error> {
        let object = format!("{}/{key}", store.url());
        let refused = |kind: Fault, cause: String| fault(kind, &object, cause);
        let (head, rest) = bytes.split_at(self.lengths.header.min(bytes.len()));
        let header = Header::parse(head).map_err(|error| match error {
            NoHeader::Plain => refused(Fault::Plaintext, "the object isn't encrypted, as all of this vault are".into()),
            NoHeader::Broken(_) if bytes.len() < self.lengths.header => {
                refused(Fault::Cut, "the object ends within its header".into())
            }
            NoHeader::Broken(cause) => refused(Fault::Changed, cause.into()),
            NoHeader::Length(_) => refused(
                Fault::Foreign,
                "its header hasn't the length of this vault's headers: a file of another program".into(),
            ),
        })?;
        let nonce: [u8; NONCE] = rest
            .get(..NONCE)
            .and_then(|nonce| nonce.try_into().ok())
            .ok_or_else(|| refused(Fault::Cut, "the object ends behind its header".into()))?;
        let Some(seal) = header.seal.clone() else {
            let cause = "no writer of this vault sealed it: somebody who knows the vault's recipients made it";
            return Err(refused(Fault::Foreign, cause.into()));
        };
        if seal.vault != self.vault {
            let cause = format!("it is an object of the vault {}, and this one is {}", seal.vault, self.vault);
            return Err(refused(Fault::OtherVault, cause));
        }
        let (header, file) = self.unwrap(header).await?;
        let file = file.ok_or_else(|| {
            let hosts = if self.sealing.reads_all() { "none of the keys given" } else { "no key of this host" };
            refused(Fault::NoKey, self.locked(hosts))
        })?;
        if !header.authentic(&file) {
            return Err(refused(Fault::Changed, "its header was changed".into()));
        }
        let secret = self.secret(store, counters, &seal, &object).await?;
        match seal.check(&secret, key, &file) {
            Sealed::Here => Ok((header, file, nonce)),
            Sealed::Elsewhere => Err(refused(Fault::Exchanged, "it was written under another name".into())),
            Sealed::Not => Err(refused(Fault::Foreign, format!("the writer {} didn't seal it", seal.writer))),
        }
    }

    /// Why no key opens an object. An object doesn't say for whom it is: only the vault's list does, for what is written with it.
    fn locked(&self, keys: &str) -> String {
        let given = self.sealing.identities.public();
        match given.iter().find(|key| self.owners.contains(key)) {
            Some(key) => format!(
                "{keys} opens it, though {key} is in the vault's list of recipients: it was written for others, as by a process \
                 that was started before the list changed"
            ),
            None => format!("{keys} opens it; the vault's list of recipients is {}", gate::list(&self.owners)),
        }
    }

    /// The file key, by the host's keys and then the owner's.
    pub(super) async fn unwrap(&self, header: Header) -> Result<(Header, Option<FileKey>), Error> {
        let keys = &self.sealing.keys;
        if let (true, Some(file)) = (keys.is_loaded(), keys.unwrap(&header.stanzas)) {
            return Ok((header, Some(file)));
        }
        // Another process of this database may have made the key.
        let sealing = self.sealing.clone();
        let reads = keys.folder().is_some() || self.sealing.identities.start_programs();
        let work = move || {
            if sealing.keys.folder().is_some() {
                sealing.keys.load()?;
            }
            let file = sealing.keys.unwrap(&header.stanzas).or_else(|| sealing.identities.unwrap(&header.stanzas));
            Ok((header, file))
        };
        if reads { blocking(work).await? } else { work() }
    }

    /// The secret of a seal's writer: our own, noted on this host, or from its record in the vault.
    async fn secret(
        &self,
        store: &dyn Store,
        counters: &Counters,
        seal: &Seal,
        object: &str,
    ) -> Result<SealKey, Error> {
        if let Some((_, secret)) = self.writer.get().filter(|(writer, _)| *writer == seal.writer) {
            return Ok(secret.clone());
        }
        let known = |writer| self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&writer).cloned();
        if let Some(secret) = known(seal.writer) {
            return Ok(secret);
        }
        let folder = self.sealing.keys.folder().map(std::path::Path::to_owned);
        let vault = self.vault;
        let noted = blocking(move || read_note(folder.as_deref(), vault)).await??;
        let secret = match noted.filter(|writer| writer.writer == seal.writer) {
            Some(writer) => writer.secret,
            None => self.recorded(store, counters, seal.writer, object).await?,
        };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(seal.writer, secret.clone());
        Ok(secret)
    }

    /// The secret in a writer's record, which is sealed with it.
    async fn recorded(
        &self,
        store: &dyn Store,
        counters: &Counters,
        writer: Id,
        object: &str,
    ) -> Result<SealKey, Error> {
        let key = marker::record_name(writer)?;
        let shown = format!("{}/{key}", store.url());
        let bytes = match gate::read(store, counters, &key, &shown).await {
            Err(Error::NotFound { .. }) => {
                let cause = format!("its writer {writer} isn't one of this vault: there is no {key}");
                return Err(fault(Fault::Foreign, object, cause));
            }
            bytes => bytes?,
        };
        let broken = |cause: &str| fault(Fault::Marker, &shown, format!("it is no record of a writer: {cause}"));
        let before = self.lengths.header + NONCE;
        let (Some(head), Some(nonce), Some(body)) =
            (bytes.get(..self.lengths.header), bytes.get(self.lengths.header..before), bytes.get(before..))
        else {
            return Err(broken("it is too short"));
        };
        let header = Header::parse(head).map_err(|_| broken("its header can't be read"))?;
        let (header, file) = self.unwrap(header).await?;
        let file = file.ok_or_else(|| fault(Fault::NoKey, &shown, self.locked("no key at hand")))?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| broken("it is too short"))?;
        let opened = Payload::new(&header::payload_key(&file, &nonce)).open(0, true, BytesMut::from(body));
        let text = opened.map_err(|_| broken("it was changed"))?.concat();
        let found = Writer::parse(&text).ok_or_else(|| broken("it holds no writer"))?;
        let sealed = header.seal.as_ref().map(|seal| seal.check(&found.secret, &key, &file));
        if (found.vault, found.writer) != (self.vault, writer)
            || sealed != Some(Sealed::Here)
            || !header.authentic(&file)
        {
            return Err(broken("it is another's"));
        }
        Ok(found.secret)
    }
}

/// Makes an object, unless it is there.
async fn create(store: &dyn Store, counters: &Counters, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), Error> {
    counters.request(Operation::Put);
    let condition = if store.abilities().create { Condition::Create } else { Condition::Always };
    match store.put(key, bytes.into(), &PutOptions { condition, ..PutOptions::default() }).await {
        Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The bytes that the header of a vault for these recipients needs.
pub(super) fn longest(recipients: &Recipients) -> Result<usize, Error> {
    let (file, host) = (new_file_key()?, age::x25519::Identity::generate());
    Ok(header::needed(&stanzas(recipients, &host, &file)?, &Audience::of(&recipients.names())))
}

fn stanzas(
    recipients: &Recipients,
    host: &age::x25519::Identity,
    file: &FileKey,
) -> Result<Vec<age_core::format::Stanza>, Error> {
    // The host's comes first, because the host reads most.
    let (mut stanzas, _) = host
        .to_public()
        .wrap_file_key(file)
        .map_err(|error| fault(Fault::HostKeys, "the key of this host", error.to_string()))?;
    stanzas.append(&mut recipients.wrap(file)?);
    Ok(stanzas)
}

fn write_header(
    recipients: &Recipients,
    host: &age::x25519::Identity,
    vault: Id,
    writer: Id,
    secret: &SealKey,
    key: &ObjectKey,
    size: usize,
) -> Result<(Vec<u8>, Payload), Error> {
    let file = new_file_key()?;
    let seal = Seal::new(vault, writer, secret, key, &file);
    let audience = Audience::of(&recipients.names());
    let mut bytes =
        header::write(&stanzas(recipients, host, &file)?, &audience, &seal, &file, size).ok_or_else(|| {
            let cause = format!(
                "they don't fit into this vault's headers of {size} bytes; take a new place for a vault with them"
            );
            fault(Fault::Recipients, "recipients", cause)
        })?;
    let mut nonce = [0; NONCE];
    fill(&mut nonce)?;
    bytes.extend_from_slice(&nonce);
    Ok((bytes, Payload::new(&header::payload_key(&file, &nonce))))
}

pub(super) fn new_file_key() -> Result<FileKey, Error> {
    FileKey::try_init_with_mut(|key| fill(key))
}

#[expect(clippy::disallowed_methods, reason = "keys are drawn from the system, whatever a test repeats")]
fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|_| fault(Fault::HostKeys, "the system", "it has no source of randomness"))
}

/// The name of the host's note of its writer in a vault.
fn note_name(vault: Id) -> String {
    format!("{vault}.json")
}

/// The host's writer in a vault: the one in its note, or a new one, which is noted first.
fn noted(folder: Option<&std::path::Path>, vault: Id, created: seawall_core::Moment) -> Result<Writer, Error> {
    if let Some(writer) = read_note(folder, vault)? {
        return Ok(writer);
    }
    let mut secret = [0; 32];
    fill(&mut secret)?;
    let writer = Writer { vault, writer: Id(gate::random()?), secret: SealKey(secret), created, published: false };
    let Some(folder) = folder else { return Ok(writer) };
    match hostkeys::write_private(folder, &note_name(vault), &writer.to_bytes()) {
        Ok(()) => Ok(writer),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            read_note(Some(folder), vault)?.ok_or_else(|| unusable(folder, "the note of this vault can't be read"))
        }
        Err(error) => Err(unusable(folder, error)),
    }
}

#[expect(clippy::disallowed_methods, reason = "this reads the host's own note")]
fn read_note(folder: Option<&std::path::Path>, vault: Id) -> Result<Option<Writer>, Error> {
    let Some(folder) = folder else { return Ok(None) };
    match std::fs::read(folder.join(note_name(vault))) {
        Ok(bytes) => match Writer::parse(&bytes).filter(|writer| writer.vault == vault) {
            Some(writer) => Ok(Some(writer)),
            None => Err(unusable(folder, format!("{} is no note of a writer; remove it", note_name(vault)))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(folder, error)),
    }
}

/// Notes that the writer's record is in the vault. If the note isn't kept, the record is written again.
#[expect(clippy::disallowed_methods, reason = "this writes the host's own note")]
fn publish(folder: Option<&std::path::Path>, writer: Writer) -> Result<(), Error> {
    let Some(folder) = folder else { return Ok(()) };
    let (name, done) = (note_name(writer.vault), Writer { published: true, ..writer });
    let fresh = format!("{name}.{:08x}", fastrand::u32(..));
    hostkeys::write_private(folder, &fresh, &done.to_bytes())
        .and_then(|()| std::fs::rename(folder.join(&fresh), folder.join(&name)))
        .map_err(|error| unusable(folder, error))
}

fn unusable(folder: &std::path::Path, cause: impl std::fmt::Display) -> Error {
    fault(Fault::HostKeys, folder.display().to_string(), cause.to_string())
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|_| Error::Unavailable {
        object: "encryption".to_owned(),
        cause: "the process is shutting down".to_owned(),
        retryable: false,
    })
}

/// The error for a chunk that can't be opened.
pub(super) fn bad_chunk(object: &str, index: u64, bad: BadChunk) -> Error {
    let at = index.saturating_mul(CHUNK as u64);
    match bad {
        BadChunk::Changed => fault(Fault::Changed, object, format!("its bytes from {at} on aren't what was encrypted")),
        BadChunk::NotTheLast => {
            let end = at.saturating_add(CHUNK as u64);
            fault(Fault::Cut, object, format!("it was cut at byte {end}: more came after it"))
        }
    }
}

/// The chunks of a whole object.
pub(super) fn seal_whole(begin: &[u8], payload: &Payload, plain: &Bytes, lengths: Lengths) -> Bytes {
    let mut out = BytesMut::with_capacity(usize::try_from(lengths.sealed(plain.len() as u64)).unwrap_or_default());
    out.extend_from_slice(begin);
    let count = super::lengths::count(plain.len() as u64);
    for index in 0..count {
        let begin = usize::try_from(index).unwrap_or(usize::MAX).saturating_mul(CHUNK);
        let chunk = plain.get(begin..plain.len().min(begin + CHUNK)).unwrap_or_default();
        payload.seal(index, index + 1 == count, &[chunk], &mut out);
    }
    out.freeze()
}
