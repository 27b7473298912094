//! Where a follower begins: at the file that an earlier follower left, or at a file that it restores now.

use std::path::Path;
use std::time::Duration;

use seawall_core::{Moment, When};
use seawall_ltx::Header;
use seawall_vault::Vault;

use super::Setting;
use crate::belonging::Facts;
use crate::error::Error;
use crate::files::sidecar;
use crate::heads::Heads;
use crate::jobs::blocking;
use crate::mark::{FollowRecord, Mark, replace};
use crate::partial::check_target;
use crate::restore::Build;
use crate::standby::{Standby, stamp_file};
use crate::target;

/// How long one attempt blocks new readers while others still read: the first and the longest time.
pub(super) const PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Continues a file that an earlier follower made.
pub(super) async fn resume(output: &Path, record: FollowRecord) -> Result<(FollowRecord, Standby, Mark), Error> {
    let path = output.to_owned();
    blocking(move || {
        let standby = Standby::open(&path, PATIENCE.1)?;
        let found = record.find(standby.counter()).cloned();
        let mark = found.ok_or(Error::Diverged { path })?;
        Ok((record, standby, mark))
    })
    .await
}

/// Restores the newest state into a file that can be kept up.
pub(super) async fn make(
    setting: &Setting<'_>,
    output: &Path,
    state_dir: &Path,
) -> Result<(FollowRecord, Standby, Mark), Error> {
    let (path, force) = (output.to_owned(), setting.request.force);
    blocking(move || check_target(&path, force)).await?;
    let vault = setting.vault;
    // Until the file has its name, a stop leaves nothing behind.
    let (build, header, newest) = tokio::select! {
        built = build(setting, output) => built?,
        () = setting.shutdown.graceful() => return Err(Error::Interrupted),
    };
    let mark = Mark::new(&newest, (setting.world.random)());
    let record = FollowRecord::before(vault.url(), None, mark.clone());
    let (integrity, path, state_dir) = (setting.request.integrity, output.to_owned(), state_dir.to_owned());
    let record = blocking(move || {
        stamp_file(build.file(), header.commit, mark.counter).map_err(Error::io(&path))?;
        // The record comes before the name, so that a file that exists can be continued.
        record.save(&state_dir)?;
        build.finish(integrity, force)?;
        Ok(record)
    })
    .await?;
    // Another program may have written to the file since it got its name.
    resume(output, record).await
}

/// Puts the newest state together, under a temporary name.
async fn build(setting: &Setting<'_>, output: &Path) -> Result<(Build, Header, Facts), Error> {
    let vault = setting.vault;
    let heads = Heads::keeping(vault);
    let chain = target::find(&heads, &When::Latest, Moment::default()).await?;
    let newest = chain.last().ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned() })?;
    let header = heads.header(newest).await?;
    refuse_deleted(vault, &header)?;
    let facts = Facts::of(newest, &header);
    let path = output.to_owned();
    let mut build = blocking(move || Build::create(&path, &header)).await?;
    setting.progress.begin("restore", Some(chain.iter().map(|file| file.size).sum()));
    build.fill(&heads, chain, &setting.progress, setting.jobs).await?;
    setting.progress.finish();
    Ok((build, header, facts))
}

pub(super) fn refuse_deleted(vault: &Vault, newest: &Header) -> Result<(), Error> {
    if newest.commit > 0 {
        return Ok(());
    }
    let object = format!("{} at {}", vault.url(), newest.max_txid);
    Err(Error::Corrupt { object, what: "the database was deleted at this point".to_owned() })
}

/// Writes the position where Litestream's follower writes it, if the settings ask for it.
pub(super) async fn tell(setting: &Setting<'_>, output: &Path, at: &Mark) -> Result<(), Error> {
    if !setting.request.position_file {
        return Ok(());
    }
    let (path, text) = (sidecar(output, "-txid"), format!("{}\n", at.point.position));
    blocking(move || replace(&path, text.as_bytes()).map_err(Error::io(&path))).await
}
