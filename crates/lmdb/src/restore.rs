//! Making an environment of snapshots: what a new instance would hold after it merged them.
//!
//! It is made in a folder of its own beside the target, checked, and takes the target's place when it is whole (I8).

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{PlannedObject, Progress, RestoreRequest, Restored};
use seawall_vault::Vault;
use tokio::time::sleep;

use crate::environment::EnvOptions;
use crate::error::Error;
use crate::latest::{Listed, newest};
use crate::local::{Author, Local, Settings};
use crate::session::{NanoClock, Session, SyncOptions};
use crate::{listing, plan};

/// How far the map of a new environment may grow: further than any disk.
const LARGEST_MAP: u64 = 1 << 45;

/// How often progress is told.
const TELL: Duration = Duration::from_millis(100);

/// What to make.
pub(crate) struct Order<'a> {
    /// The database, as in names.
    pub(crate) database: &'a str,
    /// How it is laid out.
    pub(crate) env: &'a EnvOptions,
    /// What its DBIs look like.
    pub(crate) settings: &'a Settings,
    /// What is asked for.
    pub(crate) request: &'a RestoreRequest,
}

/// Restores, or says what would be done.
pub(crate) async fn restore(
    vault: &Vault,
    order: &Order<'_>,
    clock: NanoClock,
    progress: Arc<dyn Progress>,
) -> Result<Restored, Error> {
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
    };
    if request.dry_run {
        return Ok(restored);
    }
    let target = Target { output: request.output.clone(), no_subdir: order.env.no_subdir, force: request.force };
    target.is_free()?;
    let draft = target.draft()?;
    let options = EnvOptions { no_subdir: false, create: true, largest_map: Some(LARGEST_MAP), ..order.env.clone() };
    let settings = Settings { folder: Some(draft.path().to_owned()), ..order.settings.clone() };
    let local = Local::open(draft.path(), &options, settings)?;
    // An instance without a name: no snapshot is its own.
    let author = Author { instance: String::new(), hostname: String::new(), database: order.database.to_owned() };
    let how = SyncOptions { receive_only: true, ..SyncOptions::new(author) };
    let mut session = Session::new(local, vault.clone(), how, clock);
    progress.begin("restore", Some(wanted.iter().map(|snapshot| snapshot.bytes).sum()));
    let merged = told(vault, &*progress, session.fill(chosen)).await?;
    let point = plan::newest_point(&merged).ok_or_else(nothing)?;
    let checked = session.check().await;
    progress.finish();
    checked?;
    drop(session);
    let bytes = target.take(draft.path())?;
    Ok(Restored { point, objects: planned(&merged), bytes, ..restored })
}

/// Tells what comes from the vault while work is done.
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

/// The environment that is to be there.
struct Target {
    output: PathBuf,
    no_subdir: bool,
    force: bool,
}

impl Target {
    fn data(&self) -> PathBuf {
        if self.no_subdir { self.output.clone() } else { self.output.join("data.mdb") }
    }

    fn lock(&self) -> PathBuf {
        if !self.no_subdir {
            return self.output.join("lock.mdb");
        }
        let mut name = self.output.as_os_str().to_owned();
        name.push("-lock");
        name.into()
    }

    /// Refuses to replace what nobody said may be replaced.
    fn is_free(&self) -> Result<(), Error> {
        let (data, is_folder) = (self.data(), self.output.is_dir());
        if self.no_subdir == is_folder && fs::symlink_metadata(&self.output).is_ok() {
            return Err(Error::Exists { path: self.output.clone() });
        }
        if !self.force && fs::symlink_metadata(&data).is_ok() {
            return Err(Error::Exists { path: data });
        }
        Ok(())
    }

    /// A folder on the same file system.
    fn draft(&self) -> Result<tempfile::TempDir, Error> {
        let parent = self.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = if self.output.is_dir() { &self.output } else { parent };
        tempfile::Builder::new().prefix(".seawall-restore-").tempdir_in(folder).map_err(Error::io(folder))
    }

    /// Puts the data of a draft in its place. Gives its bytes.
    fn take(&self, draft: &Path) -> Result<u64, Error> {
        let (made, data) = (draft.join("data.mdb"), self.data());
        let file = File::open(&made).map_err(Error::io(&made))?;
        file.sync_all().map_err(Error::io(&made))?;
        let bytes = file.metadata().map_err(Error::io(&made))?.len();
        if !self.no_subdir {
            fs::create_dir_all(&self.output).map_err(Error::io(&self.output))?;
        }
        if self.force {
            // Whoever has the old data open goes on with it, and with the old lock; both have no name any more.
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
