//! Removes the pages of a map that a pass has read from the process's resident memory.
//!
//! The pages belong to the system's cache and cost the machine nothing. But tools and limits count them as memory of
//! this process. liblmdb doesn't tell where its map is, so this module asks the system.

use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Releases the resident pages of all maps of a file, by its device and inode. A failure is ignored: nothing depends on
/// the release.
///
/// # Safety
/// No thread of this process makes or removes a map of the file meanwhile.
pub(super) unsafe fn let_go((device, inode): (u64, u64)) {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    for range in shared(&maps, device, inode) {
        let start = std::ptr::without_provenance_mut::<std::ffi::c_void>(range.start);
        // SAFETY: the range is a shared map of a file, whole, and by the contract of this function it still is. For such a map this forgets only
        // which pages are resident: the next access brings the same bytes back from the file's cache. Nothing that is
        // written through the map could be lost, because the cache has it.
        let _ = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
    }
}

/// Where shared maps of a file are, as the system lists them.
fn shared(maps: &str, device: (u32, u32), inode: u64) -> impl Iterator<Item = Range<usize>> {
    maps.lines().filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights, _, found, number) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let hex = |text: &str| usize::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = found.split_once(':')?;
        let number_of = |text: &str| u32::from_str_radix(text, 16).ok();
        let same = (number_of(major)?, number_of(minor)?) == device && number.parse() == Ok(inode);
        (same && rights.ends_with('s')).then_some(hex(start)?..hex(end)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_of_a_file() {
        let maps = "\
            7f0000000000-7f0000200000 r--s 00000000 fe:00 77                         /data/data.mdb\n\
            7f0000200000-7f0000201000 rw-s 00000000 fe:00 78                         /data/lock.mdb\n\
            7f0000300000-7f0000301000 r--p 00000000 fe:00 77                         /data/data.mdb\n\
            7f0000400000-7f0000401000 r--s 00000000 fe:01 77                         /other\n\
            7f0000500000-7f0000501000 r--s 00001000 fe:00 77 /data/data.mdb (deleted)\n\
            7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\nnonsense\n";
        let found: Vec<_> = shared(maps, (0xfe, 0), 77).collect();
        assert_eq!(found, [0x7f00_0000_0000..0x7f00_0020_0000, 0x7f00_0050_0000..0x7f00_0050_1000]);
    }
}
