//! One environment, and what this process knows about it. The sync accesses the environment only through this type.
//!
//! Every method blocks, so callers use a blocking thread. The knowledge is in memory only: a new process begins with
//! none, looks at everything once, and sends one snapshot.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

mod look;
pub(crate) mod rejoin;
mod sender;
pub(crate) mod standing;
pub(crate) mod state;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use self::state::Lock;
use crate::Stamp;
use crate::capture::cut::Cuts;
use crate::capture::dump::{Dumped, Writer, dump};
use crate::capture::fill;
use crate::capture::{Changes, Moments, changes};
use crate::environment::{Env, EnvInfo, EnvOptions, holders};
use crate::error::{Error, shown};
use crate::merge::apply::{Applied, Pace, Purpose, Tide, apply};
use crate::merge::load::{Survey, survey};
use crate::merge::sweep;
use crate::schema::header::Stored;
use crate::schema::{Schema, Tables, is_private};
use crate::snapshot::{Codec, Limits, Meta, SnapshotName};
use crate::status::EnvStatus;

/// How an environment takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What its DBIs look like.
    pub schema: Schema,
    /// How long the write lock is held.
    pub pace: Pace,
    /// The limits that snapshots must keep.
    pub limits: Limits,
    /// The folder for files without a name: the spool and the last snapshot. `None`: the data's own folder, or the
    /// system's folder for large temporary files if the data's folder takes no new file.
    pub folder: Option<PathBuf>,
    /// Bytes that the spool may hold.
    pub spool: u64,
    /// Threads that compress.
    pub jobs: usize,
}

impl Settings {
    /// The usual settings for a schema.
    pub fn new(schema: Schema) -> Self {
        Self { schema, pace: Pace::default(), limits: Limits::default(), folder: None, spool: 64 << 30, jobs: 2 }
    }
}

/// The author of snapshots, as the snapshots name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The instance, as in names.
    pub instance: String,
    /// The host's name.
    pub hostname: String,
    /// The database, as in names.
    pub database: String,
}

/// The result of merging a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The snapshot's author.
    pub meta: Meta,
    /// Entries in it.
    pub entries: u64,
    /// What the merge changed here.
    pub applied: Applied,
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Versions that were looked at.
    pub entries: u64,
    /// Deletions among them.
    pub deleted: u64,
    /// What the sweep removed.
    pub applied: Applied,
}

/// An environment that takes part.
#[derive(Debug)]
pub struct Local {
    env: Env,
    settings: Settings,
    folder: PathBuf,
    /// The data file.
    data: PathBuf,
    /// How it was opened.
    options: EnvOptions,
    /// The newest transaction that was seen.
    seen: u64,
    /// When the data was last written before this process did anything, by the file's modification time.
    written: Stamp,
    /// The last transaction up to which every change is in a snapshot of ours, or came from others.
    synced: Tide,
    /// The last transaction up to which every change is in the shadows.
    captured: Tide,
    /// The last transaction up to which no other process wrote since the last call of [`Local::is_undisturbed`].
    quiet: Tide,
    /// The last snapshot, whose pieces the next one reuses.
    last: Option<Dumped>,
    /// How snapshots are compressed.
    codec: Codec,
    /// Whether this process excludes other processes from keeping the environment in step.
    alone: bool,
    /// The lock of the process that keeps the environment in step.
    _lock: Option<Lock>,
}

impl Local {
    /// Opens an environment.
    pub fn open(path: &Path, options: &EnvOptions, settings: Settings) -> Result<Self, Error> {
        let data = data_file(path, options.no_subdir);
        let written = written(&data);
        let env = Env::open(path, options)?;
        let beside = seawall_host::folder_of(&data);
        let folder = settings.folder.clone().unwrap_or_else(|| folder_for_files(beside));
        Ok(Self {
            env,
            settings,
            folder,
            data,
            options: options.clone(),
            seen: 0,
            written,
            synced: Tide(0),
            captured: Tide(0),
            quiet: Tide(0),
            last: None,
            codec: Codec::default(),
            alone: false,
            _lock: None,
        })
    }

    /// Opens an environment to keep it in step: no other process of this host may do so meanwhile (I9).
    ///
    /// # Errors
    /// [`Error::Locked`] when another process does.
    pub fn open_alone(path: &Path, options: &EnvOptions, settings: Settings) -> Result<Self, Error> {
        // The environment comes first, because opening it may make the folder of the lock.
        let local = Self::open(path, options, settings)?;
        let lock = Lock::take(&local.data, options.mode())?;
        Ok(Self { alone: true, _lock: Some(lock), ..local })
    }

    /// The data file.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Whether a process writes to the data in a way that raises no events.
    pub(crate) fn has_silent_writers(&self) -> bool {
        holders::has_silent_writers(&self.data, self.options.no_subdir)
    }

    /// The environment.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Where files without a name are made.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Facts about the environment that need no transaction.
    pub fn info(&self) -> Result<EnvInfo, Error> {
        self.env.info()
    }

    /// Whether the application has no DBI yet.
    pub fn is_empty(&self) -> Result<bool, Error> {
        let mut txn = self.env.read()?;
        Ok(self.settings.schema.names(txn.names()?).is_empty())
    }

    /// Whether another process wrote since the last snapshot was taken.
    pub fn is_pending(&self) -> Result<bool, Error> {
        Ok(self.env.info()?.last_transaction > self.synced.0)
    }

    /// Whether no other process wrote since the last call; the first call answers `false`.
    pub fn is_undisturbed(&mut self) -> Result<bool, Error> {
        let last = Tide(self.env.info()?.last_transaction);
        Ok(std::mem::replace(&mut self.quiet, last) == last)
    }

    /// Refuses an environment that was away for longer than deletions are kept.
    pub fn may_rejoin(&self, now: Stamp, retention: Duration) -> Result<(), Error> {
        let file = rejoin::file(&self.data);
        if rejoin::may(rejoin::read(&file)?, now, retention) {
            return Ok(());
        }
        Err(Error::TooLongAway { path: self.env.path().to_owned(), file })
    }

    /// Refuses an environment that isn't the one which sent the snapshots of `instance` that the vault holds.
    pub(crate) fn may_send(&self, instance: &str, listed: bool) -> Result<(), Error> {
        let file = sender::file(&self.data);
        if sender::may(sender::read(&file, instance)?, self.env.info()?.last_transaction, listed) {
            return Ok(());
        }
        Err(Error::NotTheSender { path: self.env.path().to_owned(), instance: instance.to_owned() })
    }

    /// Records that the environment sends its present state as `instance`.
    pub(crate) fn note_sending(&self, instance: &str) -> Result<(), Error> {
        sender::write(&sender::file(&self.data), instance, self.env.info()?.last_transaction)
    }

    /// Records that the environment is in step now.
    pub fn note_in_step(&self, now: Stamp) -> Result<(), Error> {
        rejoin::write(&rejoin::file(&self.data), now)
    }

    /// Removes the shadows, and with them every known deletion and time. Returns their names.
    pub fn drop_shadows(&self) -> Result<Vec<String>, Error> {
        let mut txn = self.env.write()?;
        let shadows: Vec<_> = txn.names()?.into_iter().filter(|name| is_private(name)).collect();
        for name in &shadows {
            txn.drop_dbi(name)?;
        }
        txn.commit()?;
        Ok(shadows.iter().map(|name| shown(name)).collect())
    }

    /// Facts about the environment that need none of its data.
    pub fn status(&self) -> Result<EnvStatus, Error> {
        let info = self.env.info()?;
        let file_bytes = fs::metadata(&self.data).map_err(Error::io(&self.data))?.len();
        let mut txn = self.env.read()?;
        let mut dbis = Vec::new();
        for name in txn.names()? {
            if let Some(dbi) = txn.open(&name)? {
                dbis.push((shown(&name), dbi.flags(), txn.stat(dbi)?));
            }
        }
        Ok(EnvStatus { info, file_bytes, dbis })
    }

    /// Records what the application changed while no process of ours watched. A DBI without a shadow counts as older
    /// than everything that others have. Every other change gets the time at which the file was last written, because
    /// no better time is known.
    pub fn begin(&mut self, now: Stamp) -> Result<Applied, Error> {
        let known = if self.written == Stamp(0) { now } else { self.written.min(now) };
        let captured = self.capture(Moments { known, fresh: Stamp(1) }, false);
        self.env.let_go();
        Ok(captured?.0)
    }

    /// Records what the application changed since the last look, if versions are kept in shadows. With `cut` it also
    /// cuts the shadows for the next snapshot.
    fn capture(&mut self, moments: Moments, cut: bool) -> Result<(Applied, Option<Cuts>), Error> {
        if self.settings.schema.native || self.env.info()?.last_transaction <= self.captured.0 {
            return Ok(Default::default());
        }
        let schema = &self.settings.schema;
        let quiet = &mut self.quiet;
        let mut tide = Tide(self.env.info()?.last_transaction);
        let mut count = |transaction| {
            tide.own(transaction);
            quiet.own(transaction);
        };
        let filled = fill::shadows(&self.env, schema, moments.fresh, self.settings.pace, &mut count)?;
        if filled.all && self.env.info()?.last_transaction == tide.0 {
            self.captured = tide;
            return Ok((filled.applied, None));
        }
        let last = self.last.as_ref().filter(|last| cut && last.codec == self.codec).map(|last| &last.shapes);
        let spool = (self.folder.as_path(), self.settings.spool);
        let Changes { tables, spool, transaction, cuts } = changes(&self.env, schema, moments, spool, last)?;
        let cutting = last.is_some();
        let (mut captured, quiet) = (Tide(transaction), &mut self.quiet);
        let mut count = |transaction| {
            captured.own(transaction);
            quiet.own(transaction);
        };
        let applied = apply(&self.env, schema, &tables, spool, Purpose::Capture, self.settings.pace, &mut count)?;
        // The change isn't sent yet, so `synced` stays behind.
        self.captured = captured;
        let cuts = cutting.then_some(Cuts { transaction: captured.0, ..cuts });
        Ok((applied.and(filled.applied), cuts))
    }

    /// Merges a snapshot. A damaged one changes nothing.
    pub fn load(&mut self, object: &str, source: impl Read, cutoff: Stamp, now: Stamp) -> Result<Loaded, Error> {
        self.load_named(object, None, source, cutoff, now)
    }

    /// Merges a snapshot, if its content is what its `name` says.
    pub(crate) fn load_named(
        &mut self,
        object: &str,
        name: Option<SnapshotName>,
        source: impl Read,
        cutoff: Stamp,
        now: Stamp,
    ) -> Result<Loaded, Error> {
        self.capture(Moments { known: now, fresh: now }, false)?;
        let how = Survey {
            object: object.to_owned(),
            name,
            cutoff,
            limits: self.settings.limits,
            folder: self.folder.clone(),
            spool: self.settings.spool,
        };
        let schema = &self.settings.schema;
        let found = survey(&self.env, schema, source, &how)?;
        let (synced, captured, quiet) = (&mut self.synced, &mut self.captured, &mut self.quiet);
        let mut count = |transaction| {
            synced.own(transaction);
            captured.own(transaction);
            quiet.own(transaction);
        };
        let purpose = Purpose::Merge { cutoff, now };
        let applied = apply(&self.env, schema, &found.tables, found.spool, purpose, self.settings.pace, &mut count)?;
        self.env.let_go();
        Ok(Loaded { meta: found.preamble.meta, entries: found.entries, applied })
    }

    /// Compresses snapshots in this way from now on.
    pub fn compress(&mut self, codec: Codec) {
        self.codec = codec;
    }

    /// Takes a snapshot. Changes that the application makes meanwhile stay pending.
    pub fn snapshot(&mut self, author: &Author, now: &dyn Fn() -> Stamp) -> Result<&Dumped, Error> {
        let moment = now();
        let (_, cuts) = self.capture(Moments { known: moment, fresh: moment }, true)?;
        let writer = Writer {
            instance: &author.instance,
            hostname: &author.hostname,
            database: &author.database,
            folder: &self.folder,
            jobs: self.settings.jobs,
            codec: self.codec,
            cuts,
        };
        let dumped = dump(&self.env, &self.settings.schema, &writer, now, self.last.as_ref())?;
        let seen = Tide(dumped.transaction);
        self.synced = if self.settings.schema.native { seen } else { seen.min(self.captured) };
        self.env.let_go();
        Ok(self.last.insert(dumped))
    }

    /// Reads everything, and checks that every version can be read and that the application's DBIs match their shadows.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let schema = &self.settings.schema;
        if !schema.native {
            let moments = Moments { known: Stamp(1), fresh: Stamp(1) };
            let found = changes(&self.env, schema, moments, (&self.folder, self.settings.spool), None)?;
            if !found.spool.is_empty() {
                return Err(Error::Internal("an environment that was made isn't what its snapshots say".to_owned()));
            }
        }
        let mut txn = self.env.read()?;
        for name in schema.names(txn.names()?) {
            let Some(dbi) = Tables::open(schema, &mut txn, &name)?.versions else { continue };
            let mut cursor = txn.cursor(dbi)?;
            while let Some((_, bytes)) = cursor.next()? {
                Stored::parse(bytes).map_err(|what| Error::schema(self.env.path(), &name, what))?;
            }
        }
        Ok(())
    }

    /// Removes deletions from before `cutoff`.
    pub fn sweep(&mut self, cutoff: Stamp) -> Result<Swept, Error> {
        let schema = &self.settings.schema;
        let found = sweep::old(&self.env, schema, cutoff, &self.folder, self.settings.spool)?;
        let (synced, captured, quiet) = (&mut self.synced, &mut self.captured, &mut self.quiet);
        let mut count = |transaction| {
            synced.own(transaction);
            captured.own(transaction);
            quiet.own(transaction);
        };
        let purpose = Purpose::Sweep { cutoff };
        let applied = apply(&self.env, schema, &found.tables, found.spool, purpose, self.settings.pace, &mut count)?;
        self.env.let_go();
        Ok(Swept { entries: found.entries, deleted: found.deleted, applied })
    }
}

/// The folder for files without a name: `beside` if it takes new files.
fn folder_for_files(beside: &Path) -> PathBuf {
    let takes = |folder: &Path| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let others = ["/var/tmp", "/tmp"].map(Path::new);
    let found = std::iter::once(beside).chain(others).find(|folder| takes(folder));
    found.unwrap_or(beside).to_owned()
}

/// The data file of an environment: in its folder, or the file itself.
pub fn data_file(path: &Path, no_subdir: bool) -> PathBuf {
    if no_subdir { path.to_owned() } else { path.join("data.mdb") }
}

/// When a file was last written; 0 if unknown.
pub(crate) fn written(file: &Path) -> Stamp {
    let modified = fs::metadata(file).and_then(|found| found.modified()).ok();
    let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_nanos()).ok()).map_or(Stamp(0), Stamp)
}
