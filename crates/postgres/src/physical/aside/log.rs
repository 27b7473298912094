//! The log that a recovery needs, copied into a folder.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::log::{History, Line, Log, LogError, LogFile, Lsn, SegmentName, TimelineId};
use seawall_core::Progress;
use seawall_host::Inside;
use seawall_vault::Vault;

use super::super::receive::sound_segment;
use super::super::records::{Event, Rest, events, is_followed};
use super::super::recover::{Plan, Target, timelines_of};
use crate::Error;

/// Bytes of a segment behind another that complete its last record.
const MORE: usize = 64 << 10;

/// The log of a plan: from where the base begins to read it to where the way ends.
pub(in super::super) struct Range {
    log: Log,
    line: TimelineId,
    history: History,
    /// The segments' first positions.
    segments: Vec<Lsn>,
    /// Where the server begins to read.
    from: Lsn,
    /// Where the log ends.
    until: Lsn,
}

/// What was copied.
#[derive(Debug, Default)]
pub(in super::super) struct Copied {
    pub(in super::super) files: u64,
    /// The folder of a tablespace that the log makes.
    pub(in super::super) tablespace: Option<String>,
}

/// The log that a plan needs.
pub(in super::super) async fn range(vault: &Vault, plan: &Plan) -> Result<Range, Error> {
    let nothing = || LogError::NoLog { vault: vault.url().to_owned() };
    let log = Log::open(vault).await?.ok_or_else(nothing)?;
    let line = TimelineId::new(plan.choice.reach.timeline).ok_or_else(nothing)?;
    let history = log.history(line).await?.unwrap_or_else(|| History::first(line));
    let size = log.cluster().segment_size;
    let reach = plan.choice.reach.lsn;
    // What comes behind these targets isn't read.
    let until = match plan.target {
        Target::Base(_) => plan.manifest.stop.min(reach),
        Target::Lsn(lsn) => lsn.after(1).unwrap_or(lsn).min(reach),
        Target::Latest | Target::Moment(_) | Target::Xid(_) | Target::Name(_) => reach,
    };
    let (mut segments, mut start) = (Vec::new(), plan.manifest.start.segment_start(size));
    while start < until {
        segments.push(start);
        let Some(next) = start.after(size.bytes().into()) else { break };
        start = next;
    }
    Ok(Range { log, line, history, segments, from: plan.manifest.start, until: reach })
}

impl Range {
    /// Bytes of its segments.
    pub(in super::super) fn bytes(&self) -> u64 {
        u64::from(self.log.cluster().segment_size.bytes()).saturating_mul(self.segments.len() as u64)
    }

    /// Copies all of it into a folder, under the names that a server asks for.
    ///
    /// # Errors
    /// When the log has a gap, a file of it is damaged, or the folder can't be written.
    pub(in super::super) async fn copy(
        &self,
        to: &Inside,
        jobs: usize,
        progress: &Arc<dyn Progress>,
    ) -> Result<Copied, Error> {
        progress.begin("log", Some(self.bytes()));
        let mut copied = Copied::default();
        if self.line.number() > 1 {
            let file = LogFile::History(self.line);
            let found = self.log.fetch(file, Line::Of(self.line)).await?;
            let (to, name) = (to.clone(), file.to_string());
            seawall_core::blocking(move || {
                let mut made = create(&to, &name)?;
                Ok::<_, Error>(found.write_to(&mut made, &to.path().join(name))?)
            })
            .await?;
            copied.files += 1;
        }
        let wanted: Vec<_> = self.segments.iter().map(|start| self.segment(*start, to)).collect();
        let mut made = stream::iter(wanted).buffered(jobs.clamp(1, 4));
        // A record that a segment doesn't end may go on in the next one.
        let mut behind: Option<(Vec<u8>, Lsn)> = None;
        while let Some((start, bytes)) = made.try_next().await? {
            progress.advance(bytes.len() as u64);
            copied.files += 1;
            let from = self.from;
            let (space, rest) = seawall_core::blocking(move || {
                let mut found = None;
                let mut look = |bytes: &[u8], start: Lsn, size: usize| {
                    events(bytes, start, size, from.max(start), |_, event| {
                        if let Event::Tablespace { location } = event {
                            found.get_or_insert(location);
                        }
                    })
                };
                if let Some((mut before, at)) = behind {
                    let size = before.len();
                    before.extend_from_slice(&bytes[..MORE.min(bytes.len())]);
                    look(&before, at, size);
                }
                let rest = look(&bytes, start, bytes.len());
                Ok::<_, Error>((found, matches!(rest, Rest::Cut(_)).then_some((bytes, start))))
            })
            .await?;
            behind = rest;
            // One in the data directory itself names no folder, and goes with it.
            if let Some(location) = space.filter(|location| !location.is_empty()) {
                copied.tablespace.get_or_insert(location);
            }
        }
        progress.finish();
        Ok(copied)
    }

    /// Copies a segment of the newest timeline that has it, and returns its bytes.
    async fn segment(&self, start: Lsn, to: &Inside) -> Result<(Lsn, Vec<u8>), Error> {
        let size = self.log.cluster().segment_size;
        let mut absent = None;
        for timeline in timelines_of(&self.history, start, size.bytes().into()) {
            let name = SegmentName::of(timeline, start, size);
            let bytes = match sound_segment(&self.log, name, Line::Of(self.line), Some(self.until)).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_absence() => {
                    absent = Some(error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (to, name) = (to.clone(), name.to_string());
            let write = move || {
                let written = create(&to, &name)?.write_all(&bytes);
                written.map_err(|error| LogError::io(&to.path().join(name), &error))?;
                Ok::<_, Error>((start, bytes))
            };
            return seawall_core::blocking(write).await;
        }
        Err(absent.map_or_else(|| Error::Internal(format!("no timeline has the log at {start}")), Error::from))
    }

    /// Whether a sound record follows a position in the copied log: a server that stopped there has not replayed all of it. The server
    /// could write to the copy: no more is read than was copied.
    ///
    /// # Errors
    /// When the copy can't be read.
    pub(in super::super) async fn goes_on(&self, copied: Inside, at: Lsn) -> Result<bool, Error> {
        let size = self.log.cluster().segment_size;
        let bytes = u64::from(size.bytes());
        let last = at.segment_start(size);
        let copies = self.segments.iter().filter(|start| **start >= last).map(|start| {
            let names = timelines_of(&self.history, *start, bytes).into_iter();
            (*start, names.map(|timeline| SegmentName::of(timeline, *start, size).to_string()).collect())
        });
        let copies: Vec<(Lsn, Vec<String>)> = copies.collect();
        let look = move || {
            for (start, names) in copies {
                for name in names {
                    let found = match copied.read(&name, bytes) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                        found => found.map_err(|error| LogError::io(&copied.path().join(&name), &error))?,
                    };
                    if is_followed(&found, start, found.len(), at.max(start)) {
                        return Ok::<_, Error>(true);
                    }
                    break;
                }
            }
            Ok(false)
        };
        seawall_core::blocking(look).await
    }
}

/// Makes a file for the user of the server. Blocks.
fn create(folder: &Inside, name: &str) -> Result<File, LogError> {
    folder.create(name).map_err(|error| LogError::io(&folder.path().join(name), &error))
}
