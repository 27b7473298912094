//! Makes an environment from snapshots: the state that a new instance would have after merging them.
//!
//! The environment is made in a folder of its own beside the target, checked, and takes the target's place when it is
//! whole (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

pub(crate) mod contents;
pub(crate) mod plan;
pub(crate) mod prove;
pub(crate) mod rehearsal;
pub(crate) mod rollback;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{PlannedObject, Progress, RestoreRequest, Restored, Rewritten};
use seawall_vault::Vault;
use tokio::time::sleep;

use crate::environment::EnvOptions;
use crate::environment::holders::{self, Holder};
use crate::error::Error;
use crate::local::{Author, Local, Settings, data_file};
use crate::peers::latest::{Listed, newest};
use crate::peers::listing;
use crate::session::{NanoClock, Session, SyncOptions};

/// How far the map of a new environment may grow: more than any disk holds.
const LARGEST_MAP: u64 = 1 << 45;

/// How often progress is reported.
const TELL: Duration = Duration::from_millis(100);

/// Permissions of a restored file if neither an existing environment nor the configuration gives them. The file may hold keys,
/// so they are private.
const PRIVATE: u32 = 0o600;

/// What to make.
pub(crate) struct Order<'a> {
    /// The database, as in names.
    pub(crate) database: &'a str,
    /// Where the environment is that is kept in step.
    pub(crate) path: &'a Path,
    /// How it is laid out.
    pub(crate) env: &'a EnvOptions,
    /// What its DBIs look like.
    pub(crate) settings: &'a Settings,
    /// The user's request.
    pub(crate) request: &'a RestoreRequest,
}

/// The result of a restore, and for a rollback what it changes.
pub(crate) type Done = (Restored, Vec<Rewritten>);

/// Restores, or reports what a restore would do. With `as_new` the restored values win over everything in the vault.
pub(crate) async fn restore(
    vault: &Vault,
    order: &Order<'_>,
    as_new: bool,
    clock: NanoClock,
    progress: Arc<dyn Progress>,
) -> Result<Done, Error> {
    let request = order.request;
    let listed = listing::of_database(vault, order.database).await?;
    let chosen = plan::until(&listed, &request.when);
    let wanted: Vec<Listed> = newest(&chosen, &Default::default()).into_values().collect();
    let nothing = || Error::NothingThere { vault: vault.url().to_owned(), database: order.database.to_owned() };
    let point = plan::newest_point(&wanted).ok_or_else(nothing)?;
    let planned = |snapshots: &[Listed]| {
        let object = |snapshot: &Listed| PlannedObject { key: snapshot.key.clone(), bytes: snapshot.bytes };
        snapshots.iter().map(object).collect::<Vec<_>>()
    };
    let restored = Restored {
        point,
        output: request.output.clone(),
        bytes: 0,
        objects: planned(&wanted),
        duration_ms: 0,
        dry_run: request.dry_run,
        doubts: Vec::new(),
    };
    if request.dry_run && !as_new {
        return Ok((restored, Vec::new()));
    }
    let target = Target {
        output: request.output.clone(),
        live: order.path.to_owned(),
        no_subdir: order.env.no_subdir,
        force: request.force,
        dir_mask: order.env.dir_mask,
        file_mask: order.env.file_mask,
    };
    if !request.dry_run {
        target.is_free()?;
    }
    let draft = target.draft()?;
    let options = EnvOptions {
        no_subdir: false,
        create: true,
        largest_map: Some(LARGEST_MAP),
        file_mask: Some(PRIVATE),
        ..order.env.clone()
    };
    let session = |folder: &Path| {
        let settings = Settings { folder: Some(draft.path().to_owned()), ..order.settings.clone() };
        let local = Local::open(folder, &options, settings)?;
        // An instance without a name, so that no snapshot counts as its own.
        let author = Author { instance: String::new(), hostname: String::new(), database: order.database.to_owned() };
        let how = SyncOptions { receive_only: true, ..SyncOptions::new(author) };
        Ok::<_, Error>(Session::new(local, vault.clone(), how, Arc::clone(&clock)))
    };
    let mut older = session(draft.path())?;
    progress.begin("restore", Some(wanted.iter().map(|snapshot| snapshot.bytes).sum()));
    let merged = told(vault, &*progress, older.fill(chosen)).await;
    let mut rewritten = Vec::new();
    if merged.is_ok() && as_new {
        let mut newest = session(&draft.path().join("newest"))?;
        told(vault, &*progress, newest.fill(listed)).await?;
        let (at, schema) = (clock(), order.settings.schema.clone());
        rewritten = older.beside(newest, move |then, newest| rollback::rewrite(then, newest, &schema, at)).await?;
    }
    let checked = older.check().await;
    progress.finish();
    let merged = merged?;
    checked?;
    drop(older);
    let point = plan::newest_point(&merged).ok_or_else(nothing)?;
    let restored = Restored { point, objects: planned(&merged), ..restored };
    if request.dry_run {
        return Ok((restored, rewritten));
    }
    let bytes = target.take(draft.path())?;
    Ok((Restored { bytes, ..restored }, rewritten))
}

/// Reports the bytes that come from the vault while the work runs.
async fn told<T>(vault: &Vault, progress: &dyn Progress, work: impl Future<Output = T>) -> T {
    let mut seen = vault.counts().bytes_down;
    let mut tell = || {
        let now = vault.counts().bytes_down;
        progress.advance(now.saturating_sub(std::mem::replace(&mut seen, now)));
    };
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                tell();
                return done;
            }
            () = sleep(TELL) => tell(),
        }
    }
}

/// The environment that the restore is to make.
struct Target {
    output: PathBuf,
    /// The environment that is kept in step. It may be the same, or beside it.
    live: PathBuf,
    no_subdir: bool,
    force: bool,
    dir_mask: u32,
    file_mask: Option<u32>,
}

/// Whose a file or a folder is, and its permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Access {
    owner: (u32, u32),
    mode: u32,
}

impl Access {
    /// That of the first path that is there.
    fn of(paths: &[PathBuf]) -> Option<Self> {
        let there = paths.iter().find_map(|path| fs::metadata(path).ok())?;
        Some(Self { owner: (there.uid(), there.gid()), mode: there.mode() & 0o777 })
    }

    /// Gives what was made its owner.
    fn give(self, made: &File, path: &Path) -> Result<(), Error> {
        let own = made.metadata().map_err(Error::io(path))?;
        if (own.uid(), own.gid()) == self.owner {
            return Ok(());
        }
        fchown(made, Some(self.owner.0), Some(self.owner.1)).map_err(Error::io(path))
    }
}

impl Target {
    fn data(&self) -> PathBuf {
        self.data_of(&self.output)
    }

    fn data_of(&self, environment: &Path) -> PathBuf {
        data_file(environment, self.no_subdir)
    }

    fn lock(&self) -> PathBuf {
        holders::lock_file(&self.data(), self.no_subdir)
    }

    /// Refuses to replace a file that a process has open: the process would keep using the old file.
    fn is_closed(&self) -> Result<(), Error> {
        let path = self.data();
        let holder = match holders::holder(&path, self.no_subdir)? {
            None => return Ok(()),
            Some(Holder::Own) => "this process".to_owned(),
            Some(Holder::Other(Some(pid))) => format!("process {pid}"),
            Some(Holder::Other(None)) => "a process in another container".to_owned(),
        };
        Err(Error::InUse { path, holder })
    }

    /// The data file of an environment, and its lock file: if the data file was lost, that still shows the owner.
    fn files_of(&self, environment: &Path) -> [PathBuf; 2] {
        let data = self.data_of(environment);
        let lock = holders::lock_file(&data, self.no_subdir);
        [data, lock]
    }

    /// Gives a draft the owner and the permissions of the environment that it replaces. Without one it gets those of the
    /// environment that is kept in step: the application reads that, and is to read the copy. Only root may give files
    /// away; for any other role, and where there is no environment, the draft is private.
    fn adopt(&self, made: &File, path: &Path) -> Result<(), Error> {
        let mode = match (Access::of(&self.files_of(&self.output)), Access::of(&self.files_of(&self.live))) {
            (Some(there), _) => {
                there.give(made, path)?;
                there.mode
            }
            (None, Some(live)) => {
                let given = live.give(made, path).is_ok();
                self.file_mask.unwrap_or(if given { live.mode } else { PRIVATE })
            }
            (None, None) => self.file_mask.unwrap_or(PRIVATE),
        };
        made.set_permissions(Permissions::from_mode(mode)).map_err(Error::io(path))
    }

    /// Makes the target's folder, if it isn't there, like that of the environment that is kept in step: the application
    /// makes its lock file in it.
    fn make_folder(&self) -> Result<(), Error> {
        let output = &self.output;
        if output.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(self.dir_mask).create(output).map_err(Error::io(output))?;
        if let Some(live) = Access::of(std::slice::from_ref(&self.live)) {
            let made = File::open(output).map_err(Error::io(output))?;
            if live.give(&made, output).is_ok() {
                made.set_permissions(Permissions::from_mode(live.mode)).map_err(Error::io(output))?;
            }
        }
        Ok(())
    }

    /// Refuses to replace an existing environment without `--force`.
    fn is_free(&self) -> Result<(), Error> {
        let (data, is_folder) = (self.data(), self.output.is_dir());
        if self.no_subdir == is_folder && fs::symlink_metadata(&self.output).is_ok() {
            return Err(Error::Exists { path: self.output.clone() });
        }
        if !self.force && fs::symlink_metadata(&data).is_ok() {
            return Err(Error::Exists { path: data });
        }
        self.is_closed()
    }

    /// A folder on the target's file system.
    fn draft(&self) -> Result<tempfile::TempDir, Error> {
        let parent = seawall_host::folder_of(&self.output);
        let folder = if self.output.is_dir() { &self.output } else { parent };
        tempfile::Builder::new().prefix(".seawall-restore-").tempdir_in(folder).map_err(Error::io(folder))
    }

    /// Moves the data of a draft to its place. Returns its size in bytes.
    fn take(&self, draft: &Path) -> Result<u64, Error> {
        let (made, data) = (draft.join("data.mdb"), self.data());
        let file = File::open(&made).map_err(Error::io(&made))?;
        self.adopt(&file, &made)?;
        file.sync_all().map_err(Error::io(&made))?;
        let bytes = file.metadata().map_err(Error::io(&made))?.len();
        if !self.no_subdir {
            self.make_folder()?;
        }
        if self.force {
            // A process may have opened the target since the restore began.
            self.is_closed()?;
            fs::rename(&made, &data).map_err(Error::io(&data))?;
            match fs::remove_file(self.lock()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::io(&self.lock())(error)),
                _ => {}
            }
        } else {
            fs::hard_link(&made, &data).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => Error::Exists { path: data.clone() },
                _ => Error::io(&data)(error),
            })?;
        }
        if let Some(folder) = data.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io(folder))?;
        }
        Ok(bytes)
    }
}
