//! Finds where the history ends, and whether the WAL continues from there. If it doesn't, a base follows.
//!
//! First it completes the work of an earlier run: a base without its capture, captures in the spool, a list of sealed
//! pages.

use std::time::Duration;

use seawall_core::{Moment, Point};
use seawall_ltx::{Header, Txid};

use super::Session;
use super::base::both;
use crate::capture::{self, Look};
use crate::error::Error;
use crate::identity::{Lineage, Stamp, Tag, WalPosition};
use crate::jobs::blocking;
use crate::layout::{Layout, Level, Stored};
use crate::missing;
use crate::plan::{plan, stretches};
use crate::proof;
use crate::resume::{Break, Remembered, Resume, resume};
use crate::ship;
use crate::source::Source;
use crate::state::{Position, Record};
use crate::survey::{self, Survey};

/// The newest capture of another program is compared with the WAL if it is at most this large; a larger one costs as
/// much as a new base.
const COMPARABLE: u64 = 64 << 20;

/// A seal copies while it keeps its list. So its writes to the file come at most this long after the list's time.
const COPIED: Duration = Duration::from_secs(5);

impl Session<'_> {
    /// Finds where the history in the vault ends and whether the WAL continues from there. Otherwise takes a base.
    pub(super) async fn locate(&mut self) -> Result<(), Error> {
        let vault = self.database.vault();
        vault.enter().await?;
        if vault.needs_probe() && !vault.probe().await?.exclusive_create() {
            tracing::warn!(
                vault = vault.url(),
                "this store overwrites what it was asked to create only: a second writer can't be caught"
            );
        }
        let state_dir = self.state_dir.clone();
        let record = blocking(move || Record::load(&state_dir)).await?;
        let remembered = record.and_then(|record| record.remembered(vault.url()));
        let turn = self.database.admission().start().await;
        let local = remembered.as_ref().map(|(facts, _)| facts);
        let mut survey = Box::pin(self.survey(local)).await?;
        let mended = self.pair_up(survey.as_ref()).await?;
        if self.ship_spool(survey.as_ref()).await? || mended {
            survey = Box::pin(self.survey(local)).await?;
        }
        drop(turn);
        self.database.maintenance().begin(survey.as_ref().map_or(&[][..], |survey| &survey.listed));
        let distrusted = self.database.maintenance().distrusted();
        if let Some(survey) = survey.as_mut().filter(|_| !distrusted.is_empty()) {
            survey.remote.restorable &= is_restorable(survey, &distrusted, survey.remote.max);
        }
        match resume(local, survey.as_ref().map(|survey| &survey.remote)) {
            Resume::Base { txid: None, .. } => self.take_first_base().await,
            Resume::Base { txid: Some(txid), why } => {
                if let (Break::VaultBehind, Some(local)) = (why, local)
                    && !survey.as_ref().is_some_and(|survey| is_restorable(survey, &distrusted, local.txid))
                {
                    // The point was in the vault when it was acknowledged, and was lost while no process looked.
                    let newest = survey.as_ref().map(|survey| survey.remote.max);
                    self.lost = self.database.maintenance().is_behind(local.txid, newest).or(self.lost.take());
                }
                let last = last_point(survey.as_ref(), remembered.as_ref().map(|(_, position)| position));
                let from = match survey.as_ref().filter(|survey| !survey.remote.restorable) {
                    Some(survey) => self.last_restorable(survey, &distrusted).await?,
                    None => last.clone(),
                };
                self.take_base(txid, (last, from), why, survey.as_ref().and_then(|survey| survey.tag_at(txid))).await
            }
            Resume::After { txid, lineage, wal } => {
                let Some((_, header)) = survey.as_ref().and_then(|survey| survey.newest.as_ref()) else {
                    return Err(Error::Internal("a position without a capture".to_owned()));
                };
                let known =
                    remembered.as_ref().filter(|(facts, _)| facts.txid == txid && Some(facts.lineage) == lineage);
                let position = Position {
                    txid,
                    moment: Moment::from_millis(header.timestamp_ms),
                    page_size: header.page_size,
                    commit: header.commit,
                    wal,
                    file: known.and_then(|(_, position)| position.file),
                    state: known.and_then(|(_, position)| position.state),
                    held: false,
                    tag: Tag::after(header, Level::LOG),
                };
                self.continue_from(position, lineage, survey.as_ref()).await
            }
        }
    }

    /// Surveys the vault. Without the right to list it goes by the state record, and by the names that follow.
    ///
    /// # Errors
    /// [`Error::MayNotList`] if the record doesn't lead to the end of the history. A guess could make a TXID a second
    /// time, beside objects that retention has deleted since.
    async fn survey(&self, local: Option<&Remembered>) -> Result<Option<Survey>, Error> {
        let (vault, maintenance) = (self.database.vault(), self.database.maintenance());
        let cause = match survey::list_dated(vault).await {
            Err(Error::Vault(cause @ seawall_vault::Error::Denied { .. })) => cause,
            listed => {
                maintenance.may_list();
                return survey::survey(vault, listed?).await;
            }
        };
        // The probe writes and reads an object of its own. If that works, only the right to list is missing.
        if !maintenance.is_blind() {
            vault.probe().await?;
            maintenance.may_not_list(&cause);
        }
        let refused = |what| Error::MayNotList { vault: vault.url().to_owned(), cause: cause.clone(), what };
        let Some(local) = local else {
            return Err(refused("the state directory doesn't say where the history in the vault ends"));
        };
        let survey = survey::survey_from(vault, local.txid).await?;
        survey.map(Some).ok_or_else(|| refused("the newest capture that the state directory names can't be read"))
    }

    /// Continues from a position if the WAL proves it. Otherwise takes a base after it.
    async fn continue_from(
        &mut self,
        mut position: Position,
        lineage: Option<Lineage>,
        survey: Option<&Survey>,
    ) -> Result<(), Error> {
        let own = self.stamp.lineage;
        self.stamp.lineage = lineage.unwrap_or(own);
        if self.ship_listed(position).await? {
            return self.forget_restore().await;
        }
        self.stamp.lineage = own;
        let author = self.author();
        let mut look = self.on_source(move |source| capture::look(source, position, author)).await?;
        if matches!(look, Look::Unproved)
            && let Some(chain) = self.prove(survey, &position).await?
        {
            position.wal = position.wal.map(|wal| WalPosition { chain: Some(chain), ..wal });
            look = self.on_source(move |source| capture::look(source, position, author)).await?;
        }
        match look {
            Look::Clean(_) | Look::New(_) | Look::Unfinished => {
                // The next drain makes the object again, with the lineage of this history.
                self.stamp.lineage = lineage.unwrap_or(self.stamp.lineage);
                // A process that was killed right after its base didn't come to it.
                self.forget_restore().await?;
                self.arrive(position).await
            }
            Look::Unproved => self.take_base(position.txid, both(&position), Break::WalRewound, position.tag).await,
            Look::Broken(why) => self.take_base(position.txid, both(&position), why, position.tag).await,
        }
    }

    /// The newest point that can be restored without damaged objects.
    async fn last_restorable(&self, survey: &Survey, distrusted: &[Stored]) -> Result<Option<Point>, Error> {
        let files = missing::sound(&survey.listed, distrusted);
        match stretches(&files).last().and_then(|points| points.last()) {
            Some(txid) => survey::newest_point(self.database.vault(), &files, *txid).await,
            None => Ok(None),
        }
    }

    async fn prove(&self, survey: Option<&Survey>, position: &Position) -> Result<Option<crate::wal::Chain>, Error> {
        let Some((file, header)) = survey.and_then(|survey| survey.newest) else { return Ok(None) };
        let Some(wal) = position.wal.filter(|_| file.size <= COMPARABLE) else { return Ok(None) };
        let vault = self.database.vault();
        let object = vault.read(&file.key(Layout::of(vault)), None, COMPARABLE).await?;
        self.on_source(move |source| proof::chain_by_pages(source, wal, &header, &object)).await
    }

    /// Makes the capture beside a complete copy, if an earlier run ended before it did. Returns whether it made one. A
    /// damaged copy is left alone: a base after it follows.
    async fn pair_up(&self, survey: Option<&Survey>) -> Result<bool, Error> {
        let Some(copy) = survey.and_then(|survey| survey.unpaired) else { return Ok(false) };
        match ship::pair_up(self.database.vault(), copy, self.database.options().jobs).await {
            Ok(()) => Ok(true),
            Err(error @ (Error::Ltx { .. } | Error::Corrupt { .. })) => {
                tracing::error!(%error, "a complete copy in the vault is damaged");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Ships captures that an earlier run left in the spool, if they continue the vault. Returns whether it shipped
    /// any.
    async fn ship_spool(&mut self, survey: Option<&Survey>) -> Result<bool, Error> {
        let spool = self.spool.clone();
        let waiting = blocking(move || spool.captures()).await?;
        let mut newest = survey.and_then(|survey| survey.newest.as_ref()).map(|(_, header)| *header);
        let mut shipped = false;
        for txid in waiting {
            let spool = self.spool.clone();
            let header = blocking(move || spool.header(txid)).await?;
            if let Some(header) = header.filter(|header| newest.is_some_and(|newest| continues(&newest, header))) {
                ship::ship_spooled(self.database.vault(), &self.log_key(txid), &self.spool, &header).await?;
                (newest, shipped) = (Some(header), true);
            }
            let spool = self.spool.clone();
            blocking(move || spool.remove(txid)).await?;
        }
        Ok(shipped)
    }

    /// Ships the pages that an earlier run had sealed and not shipped, together with the commits since. The list has
    /// the numbers of the pages, and the database file has their content. `false` if there is no such list, or nothing
    /// follows from it.
    async fn ship_listed(&mut self, position: Position) -> Result<bool, Error> {
        let spool = self.spool.clone();
        let (sealed, written) = blocking(move || Ok((spool.listed(), spool.list_written()))).await?;
        let sealed = sealed.filter(|sealed| sealed.is_of(&position, self.stamp.lineage));
        if let (Some(_), Some(written)) = (&sealed, written) {
            self.on_source(move |source| source.excuse(written + COPIED)).await?;
        }
        let sealed = sealed.filter(|sealed| sealed.follows(&position, self.stamp.lineage));
        let author = self.author();
        let look = move |source: &mut Source| match &sealed {
            Some(sealed) => capture::look_behind_seal(source, position, sealed, author),
            None => Ok(None),
        };
        match self.on_source(look).await? {
            Some(capture) => self.ship_sealed(capture).await.map(|()| true),
            None => {
                // A list that can't be removed won't be trusted the next time either.
                if let Err(error) = self.forget_list().await {
                    tracing::warn!(database = %self.database.name(), "an old list stays: {error}");
                }
                Ok(false)
            }
        }
    }
}

/// Whether a point can be restored without the objects that are known to be damaged.
fn is_restorable(survey: &Survey, distrusted: &[Stored], txid: Txid) -> bool {
    plan(&missing::sound(&survey.listed, distrusted), txid).is_ok()
}

/// Whether a spooled capture directly continues the vault's newest one: of the same history, at the next TXID, from the
/// place in the WAL where that capture ends. Any other capture belongs to another vault or another time.
fn continues(newest: &Header, spooled: &Header) -> bool {
    let lineage = |header: &Header| Stamp::read(header).map(|stamp| stamp.lineage);
    let start = (spooled.wal_salt1, spooled.wal_salt2, spooled.wal_offset);
    let end = (newest.wal_salt1, newest.wal_salt2, newest.wal_offset.saturating_add(newest.wal_size));
    lineage(newest).is_some()
        && lineage(newest) == lineage(spooled)
        && newest.max_txid.next() == Some(spooled.min_txid)
        && start == end
        && Tag::before(spooled).is_none_or(|tag| Some(tag) == Tag::after(newest, Level::LOG))
}

/// The newest point that is known to be in the vault or in the record.
fn last_point(survey: Option<&Survey>, local: Option<&Position>) -> Option<Point> {
    survey.and_then(|survey| survey.last.clone()).or_else(|| local.map(Position::point))
}
