//! The steps of a session: look at the vault, merge, send, sweep, delete old snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Panicked};
use seawall_vault::ObjectKey;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{FolderTime, Listing, Session, before, rest};
use crate::Stamp;
use crate::error::Error;
use crate::local::{Loaded, Local};
use crate::peers;
use crate::peers::latest::{Listed, newest, snapshots};
use crate::peers::listing;
use crate::peers::marker;
use crate::peers::own;
use crate::peers::retention::{Reason, Retention, due, is_unlocked};
use crate::peers::transfer::{self, Part};
use crate::restore::plan::moment;
use crate::snapshot::{Codec, GENERATION, SnapshotName};
use crate::status::Doing;

/// A folder is listed after this time even if its modification time didn't change.
const LIST_ANYWAY: Duration = Duration::from_secs(300);

/// How long the session waits for a commit that can't be read yet.
const SOON: Duration = Duration::from_millis(5);

/// Whether any further change would change a folder's modification time: file systems count it in coarse steps.
fn is_settled((seconds, nanoseconds): FolderTime, now: Stamp) -> bool {
    let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    i128::from(now.0) - nanos > 2_000_000_000
}

impl Session {
    /// Looks at everything once: the vault, and the application's changes from before the start.
    pub(super) async fn start(&mut self) -> Result<(), Error> {
        self.look(true).await?;
        self.adopt_own();
        if self.options.send_only {
            let own = self.options.author.instance.clone();
            let there = self.listing.snapshots.iter().any(|snapshot| snapshot.name.instance == own);
            self.blocking(move |local| local.may_send(&own, there)).await?;
        }
        let listed = &self.listing.snapshots;
        self.awaited = match self.options.send_only {
            true => BTreeSet::new(),
            false => listed.iter().map(|snapshot| snapshot.name.instance.clone()).collect(),
        };
        let (first, now, sweep) = (listed.is_empty(), (self.clock)(), self.options.sweep);
        let begin = self.blocking(move |local| {
            let empty = local.is_empty()?;
            if !empty {
                if let Some(sweep) = sweep {
                    local.may_rejoin(now, sweep.retention)?;
                }
                local.begin(now)?;
            }
            Ok(empty)
        });
        let empty = begin.await?;
        let nothing_to_send = empty || self.options.receive_only;
        if !nothing_to_send && first {
            self.send().await?;
        }
        self.status.send_modify(|status| status.start.stored |= nothing_to_send);
        Ok(())
    }

    /// Lists the snapshots of this database. Unless `anyway`, the listing is left out if the update marker or the
    /// folder says that nothing changed.
    pub(super) async fn look(&mut self, anyway: bool) -> Result<(), Error> {
        // The listing includes every change whose event came before it.
        let _before = self.hints.objects();
        let mut looked = self.asking(Doing::Listing, async |session: &mut Self| session.list(anyway).await).await;
        if let Err(Error::Vault(replaced @ seawall_vault::Error::Replaced { .. })) = looked {
            // Another folder is there now. What is in it is looked at, and a snapshot is sent there.
            self.lose(replaced.into());
            looked = self.asking(Doing::Listing, Self::enter).await;
        }
        self.listed = looked.is_ok().then(Instant::now);
        if looked.is_ok() {
            self.end_alarms();
        }
        self.tell_of_vault(looked.is_ok());
        looked
    }

    /// Looks at objects that events named.
    pub(super) async fn hear(&mut self, names: BTreeSet<OsString>) -> Result<(), Error> {
        let heard = self.asking(Doing::Listing, async |session: &mut Self| session.look_at(names).await).await;
        if heard.is_err() {
            // No second event will report these objects, so the vault is listed again.
            self.listed = None;
        }
        self.tell_of_vault(heard.is_ok());
        heard
    }

    async fn look_at(&mut self, names: BTreeSet<OsString>) -> Result<(), Error> {
        let database = self.options.author.database.clone();
        for name in names.iter().filter_map(|name| name.to_str()) {
            if SnapshotName::parse(name).is_none_or(|name| name.database != database) {
                continue;
            }
            let found = self.vault.head(&ObjectKey::new(name)?).await?.map(|meta| meta.size);
            let known = self.listing.snapshots.iter().position(|snapshot| snapshot.key == name);
            let before = known.map(|at| self.listing.snapshots.swap_remove(at).bytes);
            if before != found {
                // The object was being copied before and is whole now, or it is another object.
                self.damaged.remove(name);
                self.ours.remove(name);
            }
            self.listing.snapshots.extend(found.into_iter().flat_map(|bytes| snapshots(&database, [(name, bytes)])));
        }
        self.check_own().await
    }

    fn tell_of_vault(&mut self, looked: bool) {
        if looked {
            let listed = &self.listing.snapshots;
            let in_vault = (listed.len() as u64, listed.iter().map(|snapshot| snapshot.bytes).sum());
            let (damaged, now) = (&self.damaged, (self.clock)());
            self.status.send_modify(|status| {
                status.start.listed = true;
                status.listed = Some(now);
                status.in_vault = in_vault;
                status.damaged.retain(|key, _| damaged.contains(key));
            });
        }
    }

    /// Takes the vault as it is now for ours, and lists it.
    async fn enter(&mut self) -> Result<(), Error> {
        self.vault.enter().await?;
        self.list(true).await
    }

    async fn list(&mut self, anyway: bool) -> Result<(), Error> {
        let mut marker = None;
        if let Some(how) = self.options.marker.as_ref().filter(|_| !self.options.send_only) {
            marker = match self.vault.read(&ObjectKey::new(marker::NAME)?, None, marker::MOST).await {
                Ok(text) => Some(text.to_vec()),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error.into()),
            };
            let since = self.listing.at.map_or(how.force, |at| at.elapsed());
            if !anyway && how.holds(marker.as_deref(), self.listing.marker.as_deref(), since) {
                return Ok(());
            }
        }
        let begun = (self.clock)();
        let folder = self.folder_time().await?;
        if !anyway
            && self.listing.at.is_some_and(|at| at.elapsed() < LIST_ANYWAY)
            && folder.is_some_and(|time| Some(time) == self.listing.folder && is_settled(time, begun))
        {
            return Ok(());
        }
        let names = listing::names(&self.vault, &self.options.author.database).await?;
        let objects = names.iter().map(|(name, bytes)| (name.as_str(), *bytes));
        let snapshots = snapshots(&self.options.author.database, objects);
        let sizes: BTreeMap<_, _> =
            self.listing.snapshots.iter().map(|known| (known.key.as_str(), known.bytes)).collect();
        // An object that was being copied may be whole now.
        self.damaged
            .retain(|key| names.iter().any(|(name, size)| name == key && sizes.get(name.as_str()) == Some(size)));
        self.ours.retain(|key| names.iter().any(|(name, _)| name == key));
        self.listing = Listing { snapshots, marker, at: Some(Instant::now()), folder };
        self.check_own().await
    }

    /// The folder's modification time, which changes when a name comes or goes.
    async fn folder_time(&self) -> Result<Option<FolderTime>, Error> {
        let Some(folder) = self.vault.folder() else { return Ok(None) };
        let time =
            spawn_blocking(move || folder.metadata().ok().map(|found| (found.mtime(), found.mtime_nsec()))).await;
        Ok(time.map_err(Panicked::from)?)
    }

    /// Merges snapshots that are newer than the merged ones. Our own snapshots are merged only at the start: the
    /// environment may be an older copy that a user put back.
    pub(super) async fn merge(&mut self) -> Result<(), Error> {
        if self.options.send_only {
            self.status.send_modify(|status| status.start.merged = true);
            return Ok(());
        }
        loop {
            let newest = newest(&self.listing.snapshots, &self.damaged);
            let merged = &self.merged;
            let is_due =
                |snapshot: &Listed| merged.get(&snapshot.name.instance).is_none_or(|merged| merged.key != snapshot.key);
            self.awaited.retain(|instance| newest.get(instance).is_some_and(is_due));
            let own = self.options.author.instance.clone();
            let awaited = &self.awaited;
            let mut due = newest.into_values().filter(|snapshot| {
                let instance = &snapshot.name.instance;
                is_due(snapshot) && (*instance != own || awaited.contains(&own))
            });
            let Some(next) = due.next() else {
                drop(due);
                let all = self.awaited.is_empty();
                self.status.send_modify(|status| status.start.merged |= all);
                return Ok(());
            };
            drop(due);
            let loaded = self.asking(Doing::Loading, async |session: &mut Self| session.load(&next).await).await;
            if loaded.is_err() {
                let instance = next.name.instance.clone();
                self.status.send_modify(|status| *status.loading_failed.entry(instance).or_default() += 1);
            }
            match loaded {
                Err(Error::Vault(error)) if error.is_not_found() => {
                    // The snapshot was deleted in between; the next listing won't have it.
                    self.awaited.remove(&next.name.instance);
                    return Ok(());
                }
                Err(error) if error.is_bad_snapshot() => {
                    let (key, cause) = (next.key.clone(), error.to_string());
                    let code = Failure::from(error).code;
                    tracing::warn!(
                        object = key,
                        code,
                        cause,
                        "the snapshot is left out; an earlier one of its instance serves, if there is one"
                    );
                    self.status.send_modify(|status| drop(status.damaged.insert(key, cause.clone())));
                    self.report.damaged.insert(next.key.clone(), cause);
                    self.damaged.insert(next.key);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.awaited.remove(&next.name.instance);
                    let (instance, received) = (next.name.instance.clone(), (next.name.stamp, next.name.codec));
                    self.status.send_modify(|status| {
                        status.received.insert(instance, received);
                    });
                    self.merged.insert(next.name.instance.clone(), next);
                    self.report.loaded += 1;
                }
            }
        }
    }

    /// Merges the newest of these snapshots of each instance, to make an environment from them. Returns the merged
    /// ones: a damaged snapshot is left out, and the one before it is used.
    pub(crate) async fn fill(&mut self, snapshots: Vec<Listed>) -> Result<Vec<Listed>, Error> {
        self.listing.snapshots = snapshots;
        self.merge().await?;
        let newest = newest(&self.listing.snapshots, &self.damaged);
        let is_merged = |snapshot: &&Listed| self.merged.get(&snapshot.name.instance) == Some(*snapshot);
        if let Some(gone) = newest.values().find(|snapshot| !is_merged(snapshot)) {
            let object = self.vault.object(&ObjectKey::new(&gone.key)?);
            return Err(seawall_vault::Error::NotFound { object }.into());
        }
        match self.report.damaged.first_key_value() {
            Some((object, cause)) if newest.is_empty() => {
                Err(Error::AllDamaged { object: object.clone(), cause: cause.clone() })
            }
            _ => Ok(newest.into_values().collect()),
        }
    }

    /// Reads the environment back, to check it.
    pub(crate) async fn check(&mut self) -> Result<(), Error> {
        self.blocking(|local| local.check()).await
    }

    /// Merges a snapshot; if it has an index, only the pieces that aren't merged yet.
    async fn load(&mut self, snapshot: &Listed) -> Result<(), Error> {
        let key = ObjectKey::new(&snapshot.key)?;
        if self.options.receive_only && !self.blocking(|local| local.is_undisturbed()).await? {
            // An instance that sends snapshots learns from them what changed here; a receiver doesn't.
            self.known.clear();
        }
        let index = transfer::index(&self.vault, &key, snapshot.bytes).await?;
        let parts = index.as_ref().and_then(|index| self.known.needed(index));
        let loaded = match parts {
            None => self.load_parts(&key, vec![Part::Whole]).await?,
            Some(parts) => match self.load_parts(&key, parts).await {
                Err(error) if error.is_bad_snapshot() => {
                    tracing::warn!(object = snapshot.key, %error, "its index doesn't fit it; all of it is read");
                    self.load_parts(&key, vec![Part::Whole]).await?
                }
                loaded => loaded?,
            },
        };
        if let Some(index) = index {
            self.ours.insert(snapshot.key.clone());
            self.known.merged(&snapshot.name.instance, index);
        }
        let (read, changed) = (loaded.entries, loaded.applied.entries);
        tracing::info!(object = snapshot.key, instance = snapshot.name.instance, read, changed, "merged a snapshot");
        Ok(())
    }

    async fn load_parts(&mut self, key: &ObjectKey, parts: Vec<Part>) -> Result<Loaded, Error> {
        let (object, now) = (self.vault.object(key), (self.clock)());
        let name = SnapshotName::parse(key.as_str());
        let cutoff = self.options.sweep.map_or(Stamp(0), |sweep| before(now, sweep.taken));
        let mut local = self.take()?;
        let down = self.vault.counts().bytes_down;
        let read = transfer::read(&self.vault, key, parts, move |source| {
            let loaded = local.load_named(&object, name, source, cutoff, now);
            (local, loaded)
        });
        let (local, loaded) = read.await?;
        self.local = Some(local);
        let bytes = self.vault.counts().bytes_down.saturating_sub(down);
        self.status.send_modify(|status| status.loading.bytes += bytes);
        loaded
    }

    /// Sweeps old deletions.
    pub(super) async fn sweep(&mut self, retention: Duration) -> Result<(), Error> {
        let (cutoff, begun) = (before((self.clock)(), retention), Instant::now());
        let swept = self.blocking(move |local| local.sweep(cutoff)).await?;
        self.report.swept += swept.applied.entries;
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.status.send_modify(|status| {
            let sweeping = &mut status.sweeping;
            sweeping.forgotten += swept.applied.entries;
            sweeping.last = Some((swept.entries, swept.deleted));
            sweeping.sweeps = (sweeping.sweeps.0 + 1, sweeping.sweeps.1.saturating_add(nanos));
        });
        tracing::debug!(entries = swept.entries, deleted = swept.deleted, forgotten = swept.applied.entries, "swept");
        Ok(())
    }

    /// Deletes snapshots that are no longer needed.
    pub(super) async fn clean(&mut self, rules: Retention) -> Result<(), Error> {
        self.status.send_modify(|status| status.cleaning.looks += 1);
        let now = (self.clock)();
        let mut due = due(&self.listing.snapshots, &mut self.seen, &self.incorporated, rules, now);
        if !due.is_empty() {
            let lock = self.vault.protection().await?.span();
            due.retain(|(key, _)| is_unlocked(&self.listing.snapshots, key, lock, now));
            // Credentials that can't delete make one try, and no more questions than that.
            if self.may_not_delete {
                due.truncate(1);
            }
            self.leave_out_the_locked(&mut due).await?;
        }
        for (key, reason) in due {
            let object = ObjectKey::new(&key)?;
            if let Err(error) = self.vault.delete(std::slice::from_ref(&object)).await {
                let mut first = false;
                self.status.send_modify(|status| {
                    first = status.cleaning.failures == 0;
                    status.cleaning.failures += 1;
                });
                if !matches!(error, seawall_vault::Error::Denied { .. }) {
                    return Err(error.into());
                }
                self.may_not_delete = true;
                // Retention is then left to the store. The next look tries again, with one request.
                if first {
                    let error = Error::MayNotDelete { vault: self.vault.url().to_owned(), cause: error };
                    let failure = Failure::from(error);
                    let database = &self.options.author.database;
                    tracing::warn!(database, code = failure.code, next = %failure.next, "{failure}");
                }
                return Ok(());
            }
            self.may_not_delete = false;
            tracing::info!(object = key, ?reason, "deleted a snapshot");
            self.status.send_modify(|status| match reason {
                Reason::Newer => status.cleaning.newer += 1,
                Reason::Gone => status.cleaning.gone += 1,
            });
            self.mark(&key, true).await;
        }
        Ok(())
    }

    /// Notes whether snapshots could be deleted. What fails is told, and tried again when the next deletion is due: commits reach the
    /// vault all the same.
    ///
    /// # Errors
    /// When the session itself is broken.
    pub(super) fn cleaned(&mut self, done: Result<(), Error>) -> Result<(), Failure> {
        let failure = match done {
            Err(error @ Error::Internal(_)) => return Err(error.into()),
            done => done.err().map(Failure::from),
        };
        if let Some(Failure { code, object, cause, next, .. }) = &failure {
            tracing::warn!(database = self.options.author.database, code, object, cause, next, "nothing was deleted");
        }
        let now = (self.clock)();
        self.status.send_if_modified(|status| {
            let before = status.undeleted.take();
            let is_news = before.is_some() || failure.is_some();
            let count = before.map_or(0, |(_, _, count)| count);
            status.undeleted = failure.map(|failure| (failure, now, count + 1));
            is_news
        });
        Ok(())
    }

    /// Leaves out the snapshots that the store keeps locked for longer than the bucket's own setting says: their locks were
    /// renewed, or set by hand. The store is asked once for each, until its lock ends.
    async fn leave_out_the_locked(&mut self, due: &mut Vec<(String, Reason)>) -> Result<(), Error> {
        let now = moment((self.clock)());
        self.locked.retain(|_, end| *end > now);
        due.retain(|(key, _)| !self.locked.contains_key(key));
        let keys = due.iter().map(|(key, _)| ObjectKey::new(key)).collect::<Result<Vec<_>, _>>()?;
        let ends = self.vault.locked_until(&keys, now).await?;
        let locked = due.iter().zip(ends).filter_map(|((key, _), end)| end.map(|end| (key.clone(), end)));
        self.locked.extend(locked.collect::<Vec<_>>());
        due.retain(|(key, _)| !self.locked.contains_key(key));
        Ok(())
    }

    /// Records that the environment is in step now.
    pub(super) async fn note(&mut self) -> Result<(), Error> {
        let now = (self.clock)();
        // Only an instance that sweeps deletions needs to know how long it was away.
        if self.options.sweep.is_some() { self.blocking(move |local| local.note_in_step(now)).await } else { Ok(()) }
    }

    /// Publishes the environment's status.
    pub(super) async fn tell(&mut self, done: bool, anyway: bool) {
        if done {
            let now = (self.clock)();
            self.status.send_modify(|status| status.local.worked(now));
        }
        let Ok(last) = self.blocking(|local| Ok(local.info()?.last_transaction)).await else { return };
        self.rested.0 = last;
        let is_told = |(told, at): (u64, Instant)| told == last && at.elapsed() < rest::SWEEP;
        if self.status.receiver_count() > 0
            && (anyway || !self.told.is_some_and(is_told))
            && let Ok(environment) = self.blocking(|local| local.status()).await
        {
            self.told = Some((last, Instant::now()));
            self.status.send_modify(|status| status.environment = Some(environment));
        }
    }

    /// Updates the marker, which tells the other instances that the vault changed. Without it they find out at their
    /// next listing.
    async fn mark(&self, key: &str, deleted: bool) {
        let Some(marker) = &self.options.marker else { return };
        let text = marker.text(key, (self.clock)(), deleted);
        let written = match ObjectKey::new(marker::NAME) {
            Ok(name) => self.vault.put(&name, text.into(), None).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the update marker could not be written; others will notice later");
        }
    }

    /// How the next snapshot is compressed.
    fn codec(&mut self) -> Codec {
        if self.options.codec == Codec::Gzip {
            return Codec::Gzip;
        }
        let newest = newest(&self.listing.snapshots, &self.damaged);
        let old = peers::old(&newest, &self.options.author.instance, &self.ours);
        self.status.send_if_modified(|status| {
            let changed = status.old_peers != old;
            if changed && !old.is_empty() {
                tracing::warn!(instances = old.join(", "), "these may not read zstd; snapshots are sent as gzip");
            }
            status.old_peers.clone_from(&old);
            changed
        });
        if old.is_empty() { Codec::Zstd } else { Codec::Gzip }
    }

    /// Sends a snapshot if another process wrote, or if one is `forced`. Unless it is `urgent`, the session keeps the
    /// interval between two snapshots: the first change after silence is sent at once, and later changes go together.
    pub(super) async fn send_if_needed(&mut self, forced: bool, urgent: bool) -> Result<(), Error> {
        self.held_until = None;
        // An instance with an old version may have joined. It must be able to read the snapshots that were sent before.
        let unreadable = self.sent_as == Codec::Zstd && self.codec() == Codec::Gzip;
        let look = self.blocking(Local::look).await?;
        let pending = self.unsent || forced || unreadable || look.pending;
        if look.coming && !self.options.receive_only {
            self.held_until = Some(Instant::now() + SOON);
        }
        let own = &self.options.author.instance;
        if !pending {
            self.status.send_modify(|status| status.start.stored = true);
        } else if (self.unsent || look.pending) && !self.options.receive_only {
            let now = (self.clock)();
            self.status.send_modify(|status| status.waiting = status.waiting.or(Some(now)));
        }
        if !pending || self.options.receive_only || self.awaited.contains(own) {
            return Ok(());
        }
        let held = self.sent_at.map(|sent| sent + self.options.poll).filter(|until| *until > Instant::now());
        if held.is_some() && !urgent && !self.unsent {
            self.held_until = held;
            return Ok(());
        }
        if self.blocking(|local| local.is_empty()).await? {
            self.status.send_modify(|status| status.waiting = None);
            return Ok(());
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.sent_at = Some(Instant::now());
        self.asking(Doing::Storing, Self::store).await
    }

    /// Takes a snapshot and puts it into the vault.
    async fn store(&mut self) -> Result<(), Error> {
        // Until the upload is done, the snapshot's changes count as not sent.
        self.unsent = true;
        let held: BTreeMap<_, _> = self.merged.iter().map(|(name, last)| (name.clone(), last.name.stamp)).collect();
        let (author, clock) = (self.options.author.clone(), Arc::clone(&self.clock));
        let codec = self.codec();
        if self.options.send_only {
            let own = self.options.author.instance.clone();
            self.blocking(move |local| local.note_sending(&own)).await?;
        }
        let taken = self.blocking(move |local| {
            local.compress(codec);
            let folder = local.folder().to_owned();
            let dumped = local.snapshot(&author, &*clock)?;
            let (file, stretches) = (Arc::clone(&dumped.file), dumped.stretches.clone());
            Ok((dumped.stamp, dumped.bytes, file, stretches, dumped.index.clone(), folder))
        });
        let (stamp, bytes, file, stretches, index, folder) = taken.await?;
        self.known.taken(index);
        let name = SnapshotName {
            database: self.options.author.database.clone(),
            instance: self.options.author.instance.clone(),
            stamp,
            generation: GENERATION.to_owned(),
            extra: Vec::new(),
            codec,
        };
        let key = ObjectKey::new(name.to_string())?;
        self.note_sending(key.as_str(), stamp);
        transfer::upload(&self.vault, &key, &file, &stretches, &folder).await?;
        self.unsent = false;
        self.note_sent(own::Sent { key: key.as_str().to_owned(), stamp, bytes });
        self.sent_as = codec;
        self.report.sent += 1;
        self.incorporated = held;
        self.mark(key.as_str(), false).await;
        self.status.send_modify(|status| {
            status.storing.bytes += bytes;
            status.waiting = None;
            status.sent = Some((stamp, bytes));
            status.sent_as = codec;
            status.start.stored = true;
        });
        tracing::info!(object = key.as_str(), bytes, "sent a snapshot");
        Ok(())
    }
}
