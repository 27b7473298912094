//! The first page of a segment says whose segment it is. Source: PostgreSQL's `access/xlog_internal.h`, 13 to 18.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use seawall_archive::log::{Lsn, SegmentName, SegmentSize, SystemId, TimelineId};

/// The bytes of the header of a segment's first page.
pub(super) const HEADER: usize = 40;

/// The page has a long header.
const LONG: u16 = 0x0002;

/// The upper half of the number that begins each page, in every version since 9.3.
const MAGIC: u16 = 0xD100;

/// The header of a segment's first page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The number of the format, which each version of PostgreSQL changes: 0xD118 is 18.
    pub magic: u16,
    /// The timeline on which the page was written. In a segment that was copied at a promotion it is the older one.
    pub timeline: TimelineId,
    /// The position of the page.
    pub address: Lsn,
    /// The cluster.
    pub system: SystemId,
    /// The size of its segments.
    pub segment_size: SegmentSize,
}

impl SegmentHeader {
    /// Reads the first bytes of a segment, as a server of a little-endian machine writes them.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or("it is shorter than the header of a page")?;
        let two = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let four = |at: usize| u32::from(two(at)) | u32::from(two(at + 2)) << 16;
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        let magic = two(0);
        if magic & 0xff00 != MAGIC {
            return Err(format!("its first page begins with {magic:#06X}, which is no page of a log"));
        }
        if two(2) & LONG == 0 {
            return Err("its first page has no long header, as the first page of a segment has".to_owned());
        }
        let timeline = TimelineId::new(four(4)).ok_or("its first page is of no timeline")?;
        let size = four(32);
        let segment_size = SegmentSize::new(size).ok_or_else(|| format!("it says that segments have {size} bytes"))?;
        Ok(Self { magic, timeline, address: Lsn::new(eight(8)), system: SystemId::new(eight(24)), segment_size })
    }

    /// Whether it is the header of the segment `name`, of its timeline or of one that it came from.
    ///
    /// # Errors
    /// Says how it differs.
    pub fn check(&self, name: SegmentName) -> Result<(), String> {
        let start = name.start(self.segment_size);
        if start != Some(self.address) {
            return Err(format!("its first page is at {}, which isn't the position of its name", self.address));
        }
        if self.timeline > name.timeline {
            return Err(format!("its first page is of timeline {}, which is later than its name's", self.timeline));
        }
        Ok(())
    }
}

/// The cluster whose data directory this is; `None` if there is none here.
///
/// # Errors
/// When its control file can't be read.
pub fn system_of(data: &Path) -> io::Result<Option<SystemId>> {
    let mut file = match File::open(data.join("global/pg_control")) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes)?;
    Ok(Some(SystemId::new(u64::from_le_bytes(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn header(magic: u16, info: u16, timeline: u32, address: u64, system: u64, size: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&magic.to_le_bytes());
        bytes.extend_from_slice(&info.to_le_bytes());
        bytes.extend_from_slice(&timeline.to_le_bytes());
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&system.to_le_bytes());
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&8192_u32.to_le_bytes());
        bytes
    }

    #[test]
    fn headers_and_names() {
        let name = |text: &str| match text.parse() {
            Ok(seawall_archive::log::LogFile::Segment(name)) => name,
            other => panic!("{other:?}"),
        };
        let good = SegmentHeader::parse(&header(0xD118, 2, 2, 0x300_0000, 7, 16 << 20)).expect("a header");
        assert_eq!((good.system, good.timeline.number()), (SystemId::new(7), 2));
        for (text, fits) in [
            ("000000020000000000000003", true),
            ("000000030000000000000003", true),
            ("000000010000000000000003", false),
            ("000000020000000000000004", false),
            ("000000020000000100000003", false),
        ] {
            assert_eq!(good.check(name(text)).is_ok(), fits, "{text}");
        }
        for wrong in [
            header(0xD218, 2, 1, 0, 7, 16 << 20),
            header(0, 2, 1, 0, 7, 16 << 20),
            header(0xD118, 0, 1, 0, 7, 16 << 20),
            header(0xD118, 2, 0, 0, 7, 16 << 20),
            header(0xD118, 2, 1, 0, 7, 16 << 20 | 1),
            header(0xD118, 2, 1, 0, 7, 16 << 20)[..39].to_vec(),
            Vec::new(),
        ] {
            assert!(SegmentHeader::parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
