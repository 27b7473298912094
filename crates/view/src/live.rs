//! Looks for new transactions of a vault: once for all connections of a process, and only while one of them reads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use seawall_core::{Failure, Moment, Progress, When};
use seawall_sqlite::{Snapshot, View};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// How long a transaction waits for the answer of a look. If the vault takes longer, it begins at the known state, and the
/// look goes on by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// A view that is kept at the newest state of its vault. Clones share it.
#[derive(Debug, Clone)]
pub struct Live {
    inner: Arc<Inner>,
}

/// A view that is kept as long as a [`Live`] of it is in use.
#[derive(Debug, Clone)]
pub struct WeakLive(Weak<Inner>);

impl WeakLive {
    /// The view, if it is in use.
    pub fn get(&self) -> Option<Live> {
        self.0.upgrade().map(|inner| Live { inner })
    }
}

#[derive(Debug)]
struct Inner {
    view: View,
    runtime: Handle,
    interval: Duration,
    looking: AtomicBool,
    looked: Mutex<Looked>,
    copying: Arc<Copying>,
}

/// How far a copy to the local disk is.
#[derive(Debug, Default)]
struct Copying {
    begun: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    ended: AtomicBool,
    folder: OnceLock<PathBuf>,
}

impl Progress for Copying {
    fn begin(&self, _stage: &str, total: Option<u64>) {
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finish(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Looked {
    begun: Option<Instant>,
    /// When a look last succeeded.
    well: Option<Instant>,
    trouble: Option<Failure>,
}

impl Live {
    /// Looks at most once each `interval`, on `runtime`.
    pub fn new(view: View, runtime: Handle, interval: Duration) -> Self {
        let inner = Inner {
            view,
            runtime,
            interval,
            looking: AtomicBool::new(false),
            looked: Mutex::default(),
            copying: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Remembers it without keeping it.
    pub fn weak(&self) -> WeakLive {
        WeakLive(Arc::downgrade(&self.inner))
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.inner.view
    }

    /// Where its requests are made.
    pub fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// The newest state of the vault, to begin with. Blocks.
    ///
    /// # Errors
    /// Those of [`View::at`].
    pub fn begin(&self, now: Moment) -> Result<Arc<Snapshot>, Failure> {
        if let Some(known) = self.inner.view.newest() {
            self.freshen();
            if self.trouble().is_none() {
                return Ok(self.inner.view.newest().unwrap_or(known));
            }
            // What is known may be of any age, or of a history that ended: a new connection begins with what is there, or not at all.
        }
        let begun = self.instant();
        let snapshot = self.inner.runtime.block_on(self.inner.view.at(&When::Latest, now))?;
        *self.looked() = Looked { begun: Some(begun), well: Some(begun), trouble: None };
        Ok(snapshot)
    }

    /// Looks for new transactions if it is time to, and waits a moment for the answer. Blocks.
    pub fn freshen(&self) {
        let now = self.instant();
        let is_due = self.looked().begun.is_none_or(|begun| now.duration_since(begun) >= self.inner.interval);
        if !is_due || self.inner.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        self.looked().begun = Some(now);
        let live = self.clone();
        let look = self.inner.runtime.spawn(async move {
            // Resets the mark also after a panic.
            let _ended = Ended(&live.inner.looking);
            let answer = live.inner.view.advance().await;
            let mut looked = live.looked();
            match answer {
                Ok(_) => (looked.well, looked.trouble) = (Some(now), None),
                Err(failure) => {
                    tracing::warn!(code = failure.code, "a view stays where it is: {failure}");
                    looked.trouble = Some(failure);
                }
            }
        });
        let _goes_on = self.inner.runtime.block_on(async { timeout(PATIENCE, look).await });
    }

    /// Copies the newest known state to a file without a name in `folder`, in the background, unless that was begun before. Pages that haven't
    /// changed since are then read from there.
    pub fn copy_to_disk(&self, folder: &Path) {
        let copying = self.inner.copying.clone();
        if copying.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let folder = copying.folder.get_or_init(|| folder.to_owned()).clone();
        let live = self.clone();
        self.inner.runtime.spawn(async move {
            if let Err(failure) = live.inner.view.copy_to_disk(&folder, copying, 1).await {
                tracing::warn!(code = failure.code, "there is no copy on the local disk: {failure}");
                live.looked().trouble = Some(failure);
            }
        });
    }

    /// How much of the copy to the local disk is done, in percent, and where it is; `None` if none was asked for.
    pub fn copied(&self) -> Option<(f64, &Path)> {
        let copying = &self.inner.copying;
        let folder = copying.folder.get()?;
        let (done, total) = (copying.done.load(Ordering::Relaxed), copying.total.load(Ordering::Relaxed));
        let percent = match copying.ended.load(Ordering::Acquire) {
            true => 100.0,
            // The last steps are not over yet.
            false => (done as f64 * 100.0 / total.max(1) as f64).min(99.9),
        };
        Some((percent, folder))
    }

    /// Whole seconds since a look last succeeded; `None` before the first one.
    pub fn lag(&self) -> Option<u64> {
        let well = self.looked().well?;
        Some(self.instant().duration_since(well).as_secs())
    }

    /// Why the last look failed, if it did.
    pub fn trouble(&self) -> Option<Failure> {
        self.looked().trouble.clone()
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Looked> {
        self.inner.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present of the runtime, whose time a test may have paused.
    fn instant(&self) -> Instant {
        let _entered = self.inner.runtime.enter();
        Instant::now()
    }
}

struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
