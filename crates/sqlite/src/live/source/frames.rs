//! Reads the WAL: its size, its header and its frames, and whether there are new ones.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::Metadata;
use std::io;
use std::time::{Duration, SystemTime};

use crate::continuity::{Next, Observed};
use crate::error::Error;
use crate::files::{FileState, read_up_to};
use crate::identity::WalPosition;
use crate::probe::Defect;
use crate::reader::PageReader;
use crate::source::Source;
use crate::untouched::{Outside, Sight};
use crate::wal::{FRAME_HEADER_SIZE, FrameHeader, HEADER_SIZE, IndexHeader, Scan, WalHeader, frame_size};

/// Bytes of WAL read at once; a scan holds one such buffer.
const READ_SIZE: u64 = 1 << 20;

/// Why a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything that is committed was read.
    Committed,
    /// Enough for one object was read.
    Limit,
    /// A published frame is damaged. SQLite's readers don't look at checksums, so from here on they may read wrong pages.
    Damaged,
    /// The WAL changed during the scan: look again.
    Unknown,
}

/// Where a database file has its change counter.
const CHANGE_COUNTER: u64 = 24;

/// File systems take their times from a clock that advances only with the ticks of the system.
const TICKS: Duration = Duration::from_millis(20);

impl Source {
    /// Size of the WAL file in bytes: its high-water mark, and not the size of its live frames.
    pub(crate) fn wal_size(&mut self) -> Result<u64, Error> {
        let found = self.probe.read(&self.wal_path).and_then(|()| match &self.wal.file {
            Some(file) => file.metadata(),
            None => std::fs::metadata(&self.wal_path),
        });
        match found {
            Ok(metadata) => Ok(metadata.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.wal.known.is_none() => Ok(0),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::Vanished { path: self.wal_path.clone() }),
            Err(e) => Err(Error::io(&self.wal_path)(e)),
        }
    }

    /// When the WAL file was written last.
    pub(crate) fn wal_written(&mut self) -> Result<Option<SystemTime>, Error> {
        let path = self.wal_path.clone();
        let Some(file) = self.wal()? else { return Ok(None) };
        file.metadata().and_then(|metadata| metadata.modified()).map(Some).map_err(Error::io(&path))
    }

    /// The WAL's header; `None` when there is no live WAL.
    pub(crate) fn wal_header(&mut self) -> Result<Option<WalHeader>, Error> {
        let Some(file) = self.wal()?.cloned() else { return Ok(None) };
        let mut bytes = [0; HEADER_SIZE as usize];
        let length = self.read(&file, &self.wal_path, &mut bytes, 0)?;
        Ok(WalHeader::parse(&bytes[..length]))
    }

    /// The facts about the end of the last capture.
    pub(crate) fn observe(&mut self, captured: Option<&WalPosition>) -> Result<Observed, Error> {
        let header = self.wal_header()?;
        let (mut frame, mut next) = (None, Next::Cut);
        if let Some(wal) = captured {
            let (size, length) = (frame_size(self.page_size), self.wal_size()?);
            if wal.offset >= HEADER_SIZE + size && wal.offset <= length {
                frame = self.frame_header(wal.offset - size)?;
            }
            next = match self.frame_header(wal.offset)? {
                Some(next) => Next::Frame(next.salts),
                None if length == wal.offset => Next::End,
                None => Next::Cut,
            };
        }
        let metadata = self.look_outside(captured)?;
        Ok(Observed {
            file: self.identity,
            overwritten: self.is_overwritten(),
            state: FileState::of(&metadata),
            page_size: self.page_size.get(),
            header,
            frame: frame.map(|frame| (frame.salts, frame.chain)),
            next,
        })
    }

    /// Checks whether something other than a checkpoint has written to the file.
    pub(crate) fn look_outside(&mut self, captured: Option<&WalPosition>) -> Result<Metadata, Error> {
        let (metadata, sight) = self.outside()?;
        self.looked_at = captured.copied();
        // A test leaves the barrier out to see the loss. This check would hide it.
        if !self.probe.has(Defect::ForgetsTheBarrier) {
            self.untouched().look(&sight, captured, frame_size(self.page_size));
        }
        Ok(metadata)
    }

    /// The file's metadata, and how far checkpoints got.
    pub(super) fn outside(&self) -> Result<(Metadata, Sight), Error> {
        let before = self.checkpoints()?;
        let metadata = self.hands.database().metadata().map_err(Error::io(&self.path))?;
        let mut counter = [0; 4];
        read_up_to(self.hands.database(), &mut counter, CHANGE_COUNTER).map_err(Error::io(&self.path))?;
        // A checkpoint between the two reads of the wal-index may have written before or after the read of the metadata.
        let copying = self.checkpoints()?.filter(|copying| before == Some(*copying));
        let looked = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(TICKS);
        let at = (i64::try_from(looked.as_secs()).unwrap_or(i64::MAX), i64::from(looked.subsec_nanos()));
        let outside = Outside::of(&metadata, u32::from_be_bytes(counter));
        Ok((metadata, Sight { outside, copying, at, times: self.times }))
    }

    /// Whether the WAL has at least `bytes` and one more frame behind the captured place. Costs one read of the WAL's header,
    /// and one of 24 bytes where that frame would be; its salts tell whether it is new.
    pub(crate) fn is_behind(&mut self, captured: Option<&WalPosition>, bytes: u64) -> Result<bool, Error> {
        let wal = self.wal()?.cloned();
        if self.probe.looks_unchanged(wal.as_deref()) {
            return Ok(false);
        }
        let Some(header) = self.wal_header()? else { return Ok(false) };
        let start = captured.filter(|wal| wal.salts == header.salts).map_or(HEADER_SIZE, |wal| wal.offset);
        let offset = start + bytes / header.frame_size() * header.frame_size();
        Ok(self.frame_header(offset)?.is_some_and(|frame| frame.salts == header.salts))
    }

    /// The header of the frame at an offset, whatever generation it belongs to; `None` behind the end of the file.
    pub(crate) fn frame_header(&mut self, offset: u64) -> Result<Option<FrameHeader>, Error> {
        let Some(file) = self.wal()?.cloned() else { return Ok(None) };
        let mut bytes = [0; FRAME_HEADER_SIZE];
        let length = self.read(&file, &self.wal_path, &mut bytes, offset)?;
        Ok(FrameHeader::parse(&bytes[..length]))
    }

    /// Reads committed frames on from a proved place, until the log ends or `limit` bytes are committed.
    pub(crate) fn scan(&mut self, header: &WalHeader, mut scan: Scan, limit: u64) -> Result<(Scan, End), Error> {
        let published = match self.published()? {
            Some(index) if index.salts == header.salts => index,
            // A generation that has no frame yet: everything of this one was let go.
            Some(IndexHeader { frames: 0, .. }) => return Ok((scan, End::Committed)),
            _ => return Ok((scan, End::Unknown)),
        };
        let Some(file) = self.wal()?.cloned() else { return Ok((scan, End::Unknown)) };
        let frame = header.frame_size();
        let end = HEADER_SIZE + u64::from(published.frames) * frame;
        let whole = (READ_SIZE / frame).max(1) * frame;
        // Most scans find a few frames: begin small.
        let (mut want, mut buffer) = (whole.min(16 * frame), Vec::new());
        loop {
            let rest = end.saturating_sub(scan.wants());
            buffer.resize(usize::try_from(want.min(rest)).unwrap_or(0), 0);
            let length = self.read(&file, &self.wal_path, &mut buffer, scan.wants())?;
            if length == 0 || !scan.take(header, &buffer[..length], limit) || length < buffer.len() {
                break;
            }
            want = whole;
        }
        if scan.end >= end {
            return Ok((scan, End::Committed));
        }
        if !scan.is_empty() && scan.bytes() >= limit {
            return Ok((scan, End::Limit));
        }
        // Published frames are whole, unless the WAL was restarted during the scan.
        let same = self.wal_header()?.is_some_and(|now| now.salts == header.salts)
            && self.published()?.is_some_and(|now| now.salts == header.salts && now.frames >= published.frames);
        Ok((scan, if same { End::Damaged } else { End::Unknown }))
    }

    /// A handle for reading pages on other threads. It may outlive the source, and is then of no use.
    pub(crate) fn pages(&mut self) -> Result<PageReader, Error> {
        let wal = self.wal()?.cloned();
        Ok(PageReader {
            path: self.path.clone(),
            wal_path: self.wal_path.clone(),
            file: self.hands.database().clone(),
            wal,
            page_size: self.page_size,
            probe: self.probe.clone(),
        })
    }
}
