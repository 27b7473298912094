//! Looks: does the newest base lead to the end of the log, and what did a standby hear of its primary?

use std::convert::Infallible;
use std::time::Duration;

use seawall_archive::log::{self, Lsn};
use seawall_archive::{SetId, retry_after};
use seawall_core::{Failure, Kind, LastError};
use seawall_vault::Vault;
use tokio::time::{Instant, sleep_until};

use super::super::base;
use super::super::history::{self, Found, Newest};
use super::super::judge::{self, Looked, Verdict};
use super::super::plan::{LONGEST_SLEEP, Plan, SOON};
use super::super::receive::Receiver;
use super::{Continuous, Heard};

/// So often a standby is asked what it heard of its primary, and a server whose commits are to wait what it waits for.
const ASKS: Duration = Duration::from_secs(30);

/// So long the log of a new base may take that a server pushes.
const FRESH: Duration = Duration::from_secs(120);

/// After this time the vault is looked at again, when the log of a base doesn't come.
const AGAIN: Duration = Duration::from_secs(300);

impl Continuous {
    /// Asks the server, or looks at the vault, if that is due.
    pub(super) async fn see(&self, plan: &mut Plan) {
        if plan.ask_at.is_some_and(|at| at <= Instant::now()) {
            self.ask(plan).await;
        } else if plan.look_at <= Instant::now() {
            match self.durable().is_some_and(|durable| plan.may_rest(durable)) {
                true => plan.look_at = Instant::now() + LONGEST_SLEEP,
                false => self.look(plan).await,
            }
        }
    }

    /// Asks and looks while something else is waited for. What is dropped in the middle of it comes again later.
    pub(super) async fn watch(&self, plan: &mut Plan) -> Infallible {
        loop {
            sleep_until(plan.next_look()).await;
            self.see(plan).await;
        }
    }

    /// Asks the server about a slot that no process uses. Where the log is received, it asks also whether the server is a standby, and what the
    /// server heard of its primary: a standby's own end says nothing of what it lacks.
    async fn ask(&self, plan: &mut Plan) {
        let again = || self.state.borrow().slots.is_some().then(|| Instant::now() + ASKS);
        if again().is_some() {
            self.look_at_slots().await;
        }
        if self.receiver.is_none() {
            plan.ask_at = again();
            return;
        }
        let heard = self.source.heard().await;
        let now = self.clock.now();
        let synchronous = self.receiver.as_ref().filter(|receiver| receiver.is_synchronous());
        let changes = synchronous.is_some() || !matches!(heard, Ok(None));
        plan.ask_at = Some(Instant::now() + if changes || again().is_some() { ASKS } else { LONGEST_SLEEP });
        if let Some(receiver) = synchronous {
            // Whether commits wait may be changed while the log streams.
            match self.source.settings().await {
                Ok(settings) => receiver.knows(&settings),
                Err(failure) => tracing::debug!(database = self.name, code = failure.code, "{failure}"),
            }
        }
        match heard {
            Ok(None) => self.state.send_modify(|state| state.standby = None),
            Ok(Some(Heard { receives, ships, age })) => {
                self.state.send_modify(|state| {
                    let last = state.standby.as_ref().and_then(|standby| standby.alone.as_ref());
                    let alone = (!receives && !ships).then(|| LastError::again(last, &alone(self.source.url()), now));
                    state.standby = Some(judge::standby(state.standby.as_ref(), age, ships, alone, now));
                });
            }
            // While the server is away, the receiver tells it.
            Err(failure) => tracing::debug!(database = self.name, code = failure.code, "{failure}"),
        }
    }

    /// Looks whether the newest base leads to the log's end, and plans a base if none does.
    async fn look(&self, plan: &mut Plan) {
        match self.looked(plan).await {
            Ok(()) => {
                plan.failed_looks = 0;
                self.look_at_slots().await;
                // That the slot was dropped is to be seen soon.
                if self.state.borrow().slots.is_some() {
                    let soon = Instant::now() + ASKS;
                    plan.ask_at = Some(plan.ask_at.map_or(soon, |at| at.min(soon)));
                }
            }
            Err(failure) => {
                plan.failed_looks = plan.failed_looks.saturating_add(1);
                plan.look_at = Instant::now() + retry_after(plan.failed_looks);
                self.tell_look(&failure);
            }
        }
    }

    /// Looks whether the server keeps log for a slot of ours that nothing reads.
    async fn look_at_slots(&self) {
        let own = self.receiver.as_ref().map(Receiver::slot_name);
        match self.source.left_slots(own).await {
            Ok(left) => {
                let now = self.clock.now();
                if let Some(failure) = &left {
                    tracing::warn!(database = self.name, code = failure.code, next = failure.next, "{failure}");
                }
                self.state.send_modify(|state| {
                    state.slots = left.map(|failure| LastError::again(state.slots.as_ref(), &failure, now));
                });
            }
            // While the server is away, other parts tell it.
            Err(failure) => tracing::debug!(database = self.name, code = failure.code, "{failure}"),
        }
    }

    async fn looked(&self, plan: &mut Plan) -> Result<(), Failure> {
        let vault = self.kept.vault();
        // First: what is pushed while the vault is listed would look as if it were missing.
        let flushed = match self.receiver {
            Some(_) => None,
            None => Some(self.source.flushed().await?),
        };
        let (marked, present) = base::look(vault).await?;
        let listed: Vec<base::Listed> = marked.iter().map(|(base, _)| *base).collect();
        let seen = history::find(vault, &marked, &present, &mut plan.known).await?;
        let Pushed { unpushed, is_written } = flushed.map(|flushed| pushed(&seen, flushed)).unwrap_or_default();
        let (found, lacking) = (seen.newest, seen.lacking);
        let (now, last) = (self.clock.now(), listed.last().copied());
        let standing = self.receiver.as_ref().map(|receiver| receiver.standing().borrow().clone());
        let was_written = plan.written_at.is_some_and(|at| at.elapsed() < AGAIN + FRESH);
        let is_fresh = was_written || plan.made.is_some_and(|(_, at)| at.elapsed() < FRESH);
        if is_written {
            plan.written_at = Some(Instant::now());
        }
        let looked = Looked {
            found: found.as_ref(),
            // A base of a clock that was ahead is the newest whatever is made.
            lacks: lacking.as_ref().is_some_and(|(id, _)| !judge::is_of_future(id.moment(), now)),
            listed: last.map(|base| base.id),
            is_sealed: match last.filter(|last| found.as_ref().is_none_or(|found| found.id != last.id)) {
                Some(base) => is_sealed(vault, base).await,
                None => false,
            },
            made: plan.made.map(|(stop, _)| stop),
            is_fresh,
            is_written,
            standing: standing.as_ref(),
        };
        let verdict = judge::verdict(&looked);
        if matches!(verdict, Verdict::Due | Verdict::Lost) && plan.led.is_some() && !plan.is_doubted {
            // Objects change while they are listed: what no seam announced has to be seen twice before a whole base is made.
            (plan.is_doubted, plan.look_at) = (true, Instant::now() + SOON);
            return Ok(());
        }
        plan.is_doubted = false;
        plan.led = (verdict == Verdict::Leads).then(|| (Instant::now(), self.durable()));
        plan.has_looked = true;
        plan.look_at = Instant::now()
            + match verdict {
                Verdict::Leads | Verdict::Due | Verdict::Unknown => LONGEST_SLEEP,
                Verdict::Waits if self.receiver.is_none() && is_fresh && !is_written => SOON,
                Verdict::Waits | Verdict::Lost => AGAIN,
            };
        let begun = listed.iter().map(|base| base.id.moment());
        plan.last = match verdict {
            Verdict::Due => None,
            _ => begun.filter(|begun| !judge::is_of_future(*begun, now)).max(),
        };
        if verdict == Verdict::Leads {
            (plan.made, plan.lost) = (None, 0);
        }
        self.state.send_modify(|state| {
            (state.looked, state.look, state.unpushed, state.seen_at) = (true, None, unpushed, Some(now));
            match verdict {
                Verdict::Leads => state.newest = found,
                Verdict::Due | Verdict::Lost => {
                    state.newest = found.map(|found| Newest { is_cut_off: true, ..found });
                }
                // Of a base that was made, a look knows whether its log came.
                Verdict::Waits if self.receiver.is_none() => state.newest = found,
                // The base that was made is all that is known.
                Verdict::Waits | Verdict::Unknown => {}
            }
        });
        if verdict == Verdict::Lost && self.receiver.is_some() {
            // Another base may get its log. The wait grows, for each costs a whole base.
            (plan.made, plan.look_at) = (None, Instant::now() + LONGEST_SLEEP * (1 << plan.lost.min(5)));
            plan.lost = plan.lost.saturating_add(1);
        }
        match (verdict, lacking) {
            // Until the base is made, and the next look finds it whole.
            (_, Some((base, key))) => self.tell_look(&gone(vault.object(&key), base)),
            (Verdict::Lost, None) => self.tell_look(&no_log(vault, self.receiver.is_some())),
            _ => {}
        }
        Ok(())
    }

    /// Tells what a look found wrong.
    fn tell_look(&self, failure: &Failure) {
        let now = self.clock.now();
        tracing::error!(database = self.name, code = failure.code, next = failure.next, "{failure}");
        self.state.send_modify(|state| state.look = Some(LastError::again(state.look.as_ref(), failure, now)));
    }
}

/// What a server, which was at `flushed` before, has of a log that it pushes. Of a log that is received, the receiver knows. Pure.
fn pushed(seen: &Found, flushed: Lsn) -> Pushed {
    let Some(last) = seen.last else { return Pushed::default() };
    let unpushed = seen.newest.as_ref().zip(seen.log.as_ref()).map_or(0, |(found, log)| {
        let reached = found.point.position.parse().unwrap_or(found.stop);
        judge::unpushed(flushed, reached, log.cluster().segment_size)
    });
    let size = u32::try_from(last.segment).ok().and_then(log::SegmentSize::new);
    let is_written = |size| judge::is_written(last.start, last.stop, seen.reached, flushed, size);
    Pushed { unpushed, is_written: size.is_some_and(is_written) }
}

/// What a server has of a log that it pushes.
#[derive(Debug, Clone, Copy, Default)]
struct Pushed {
    /// Bytes of whole segments that the vault lacks.
    unpushed: u64,
    /// Whether the segment in which the newest base's log ends is still written.
    is_written: bool,
}

/// Whether no key at hand opens the manifest of a base.
async fn is_sealed(vault: &Vault, base: base::Listed) -> bool {
    matches!(
        base::manifest(vault, base).await,
        Err(crate::Error::Archive(seawall_archive::Error::Vault(seawall_vault::Error::Sealing { .. })))
    )
}

/// A standby receives nothing.
fn alone(server: String) -> Failure {
    let cause = "it is a standby that receives no log of its primary: nothing that is committed there comes here";
    let next = "look at primary_conninfo and the standby's log; or name the primary, if another server was promoted; or, if its log is only \
                shipped to it, GRANT pg_read_all_settings to the role, which sees then that it has no primary to receive from";
    Failure::new(Kind::Unavailable, "postgres.standby-alone", server, cause, next)
}

/// The newest base lacks an object.
fn gone(object: String, base: SetId) -> Failure {
    let cause = format!("it is missing or has another size, so that the newest base, {base}, restores nothing");
    let next = "find out what deletes objects of the vault (a lifecycle rule, a clean-up); another base is made, which sends again what \
                this one lacks";
    Failure::new(Kind::Refused, "postgres.base-gone", object, cause, next)
}

/// The newest base lacks its log.
fn no_log(vault: &Vault, is_received: bool) -> Failure {
    let cause = "the log that the newest base needs isn't in it, so that the base restores nothing";
    let next = match is_received {
        true => "run `seawall timeline` on it, and find out what deletes objects of the vault; another base is made",
        false => "have the server ship its log (`seawall wal push` as archive_command), and look at pg_stat_archiver",
    };
    Failure::new(Kind::Refused, "postgres.no-log", vault.url(), cause, next)
}
