//! Opens vaults: each once for all connections of the process that name it alike.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use seawall_core::{Clock as _, Failure, Kind, Moment, SystemClock};
use seawall_sqlite::View;
use seawall_vault::{Access, Environment, HostKeys, Identities, NoPrompt, Policy, Prompt, Sealing, Vault, VaultUrl};
use seawall_view::{Connection, Live, Open, WeakLive};
use tokio::runtime::{Builder, Runtime};

use crate::settings::{self, Settings};

/// Threads that wait for answers.
const WORKERS: usize = 2;

/// Threads for the files of a vault that is a folder.
const BLOCKING: usize = 4;

/// Vaults that stay open although no connection uses them, with their caches.
const RECENT: usize = 4;

/// The vaults that are open.
pub(crate) struct Vaults {
    open: Mutex<Opened>,
}

struct Opened {
    /// The process that the threads are of. A child that was forked has none of them.
    process: u32,
    runtime: Option<Arc<Runtime>>,
    lives: BTreeMap<Settings, WeakLive>,
    /// The ones that were opened last, so that a program that opens and closes connections doesn't begin anew with each.
    recent: VecDeque<Live>,
}

impl Opened {
    fn new() -> Self {
        Self { process: std::process::id(), runtime: None, lives: BTreeMap::new(), recent: VecDeque::new() }
    }
}

impl Vaults {
    pub(crate) fn new() -> Self {
        Self { open: Mutex::new(Opened::new()) }
    }

    fn live(&self, settings: &Settings) -> Result<Live, Failure> {
        let mut opened = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.process != std::process::id() {
            // The threads of the parent don't exist here, so its runtime can't be ended either.
            std::mem::forget(std::mem::replace(&mut *opened, Opened::new()));
        }
        if let Some(live) = opened.lives.get(settings).and_then(WeakLive::get) {
            return Ok(live);
        }
        let runtime = match &opened.runtime {
            Some(runtime) => runtime.clone(),
            None => opened.runtime.insert(Arc::new(runtime()?)).clone(),
        };
        let vault = runtime.block_on(open_vault(settings))?;
        let live = Live::new(View::new(vault, settings.cache), runtime.handle().clone(), settings.interval);
        opened.lives.retain(|_, live| live.get().is_some());
        opened.lives.insert(settings.clone(), live.weak());
        opened.recent.push_back(live.clone());
        if opened.recent.len() > RECENT {
            opened.recent.pop_front();
        }
        Ok(live)
    }
}

impl Open for Vaults {
    fn open(&self, _name: &str, parameter: &dyn Fn(&str) -> Option<String>) -> Result<Connection, Failure> {
        let settings = settings::read(parameter, &|name| std::env::var(name).ok())?;
        let (time, copy) = (settings.time.clone(), settings.copy.clone());
        let live = self.live(&Settings { time: None, ..settings })?;
        match time {
            None => {
                let connection = Connection::newest(live.clone(), now)?;
                if let Some(path) = &copy {
                    live.copy_to_disk(folder_of(path));
                }
                Ok(connection)
            }
            Some(text) => Connection::at_time(live, &text, now),
        }
    }

    /// SQLite says no more than that it can't open the file.
    fn failed(&self, failure: &Failure) {
        eprintln!(
            "seawall: error[{}]: {}: {}\nseawall: next: {}",
            failure.code, failure.object, failure.cause, failure.next
        );
    }
}

/// The path, if it is a folder; otherwise the folder around it.
fn folder_of(path: &Path) -> &Path {
    if path.is_dir() {
        return path;
    }
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn now() -> Moment {
    SystemClock.now()
}

fn runtime() -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .thread_name("seawall-vfs")
        .enable_all()
        .build();
    built.map_err(|error| {
        let next = "check the limits on open files and processes";
        Failure::new(Kind::Unavailable, "view.no-runtime", "threads", error.to_string(), next)
    })
}

async fn open_vault(settings: &Settings) -> Result<Vault, Failure> {
    let url = match VaultUrl::parse(&settings.vault)? {
        // The program may change its folder later.
        VaultUrl::File(folder) => VaultUrl::File(std::path::absolute(&folder).unwrap_or(folder)),
        url => url,
    };
    let access = match &settings.identity {
        Some(file) => sealed(file)?,
        None => Access::Plain,
    };
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let environment: Environment = std::env::vars_os().filter_map(text).collect();
    Ok(Vault::open(&url, &environment, Policy { access, ..Policy::default() }).await?)
}

/// Reads an encrypted vault with the owner's keys. An extension has no prompt for a passphrase.
fn sealed(identity: &Path) -> Result<Access, Failure> {
    let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
    let identities = Identities::read(identity, &prompt)?;
    let keys = HostKeys::new(None, Arc::new(SystemClock));
    Ok(Access::Sealed(Arc::new(Sealing::new(None, identities, keys))))
}
