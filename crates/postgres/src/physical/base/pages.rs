//! Pages of relations, and their checksums. Pure.
//!
//! The checksum is FNV-1a in 32 lanes over the page's words, folded to 16 bits with the page's number
//! (PostgreSQL's documentation, "Data Checksums"; `storage/checksum_impl.h` specifies the constants).

use seawall_archive::log::Lsn;

/// Bytes of a page in every build that the tests know; others are refused.
pub(crate) const PAGE: usize = 8192;

/// Where the checksum is in a page's header, behind the position of the page's last change.
const CHECKSUM: usize = 8;

/// Where the end of the free space is, which is 0 in a page that was never used.
const UPPER: usize = 14;

const LANES: usize = 32;
const PRIME: u32 = 16_777_619;

/// Where each lane begins.
const OFFSETS: [u32; LANES] = [
    0x5b1f_36e9,
    0xb852_5960,
    0x02ab_50aa,
    0x1de6_6d2a,
    0x79ff_467a,
    0x9bb9_f8a3,
    0x217e_7cd2,
    0x83e1_3d2c,
    0xf8d4_474f,
    0xe39e_b970,
    0x42c6_ae16,
    0x9932_16fa,
    0x7b09_3b5d,
    0x98da_ff3c,
    0xf718_902a,
    0x0b1c_9cdb,
    0xe58f_764b,
    0x1876_36bc,
    0x5d7b_3bb1,
    0xe73d_e7de,
    0x92be_c979,
    0xcca6_c0b2,
    0x304a_0979,
    0x85aa_43d4,
    0x7831_25bb,
    0x6ca8_eaa2,
    0xe407_eac6,
    0x4b5c_fc3e,
    0x9fbf_8c76,
    0x15ca_20be,
    0xf2ca_9fd3,
    0x959b_d756,
];

/// What a page says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// Its checksum is right, or it was never used.
    Sound,
    /// It was changed after the backup began: the log has it whole.
    Changing,
    /// Its checksum is wrong, and it was last changed before the backup began.
    Damaged,
}

/// Judges page `number` of its relation, in a backup that began at `start`.
pub(crate) fn judge(page: &[u8; PAGE], number: u32, start: Lsn) -> Page {
    let half = |at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    if half(UPPER) == 0 {
        return Page::Sound;
    }
    let word = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    if Lsn::new(u64::from(word(0)) << 32 | u64::from(word(4))) >= start {
        return Page::Changing;
    }
    if checksum(page, number) == half(CHECKSUM) { Page::Sound } else { Page::Damaged }
}

/// The checksum that page `number` of its relation should have.
fn checksum(page: &[u8; PAGE], number: u32) -> u16 {
    let mut sums = OFFSETS;
    let mix = |sum: u32, value: u32| {
        let mixed = sum ^ value;
        mixed.wrapping_mul(PRIME) ^ (mixed >> 17)
    };
    let (rows, _) = page.as_chunks::<{ 4 * LANES }>();
    for (nth, row) in rows.iter().enumerate() {
        let (words, _) = row.as_chunks::<4>();
        for (lane, (sum, word)) in sums.iter_mut().zip(words).enumerate() {
            // The checksum itself counts as 0.
            let is_its_own = nth == 0 && lane == CHECKSUM / 4;
            let word = u32::from_le_bytes(*word) & if is_its_own { 0xffff_0000 } else { u32::MAX };
            *sum = mix(*sum, word);
        }
    }
    for _ in 0..2 {
        sums.iter_mut().for_each(|sum| *sum = mix(*sum, 0));
    }
    let folded = sums.iter().fold(number, |all, sum| all ^ sum);
    u16::try_from(folded % 65_535 + 1).unwrap_or(u16::MAX)
}

/// The file of a relation, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelationFile {
    /// The number that all files of the relation's data have.
    pub(crate) number: u32,
    /// Which of its forks.
    pub(crate) fork: Fork,
    /// Which part of a fork that has several files.
    pub(crate) segment: u32,
}

/// What a file of a relation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fork {
    /// Rows or entries.
    Main,
    /// The free space map, or the visibility map.
    Map,
    /// What an unlogged relation begins with after a crash.
    Init,
}

impl RelationFile {
    /// `16384`, `16384.1`, `16384_fsm`, `16384_vm.2`, `16384_init`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (name, segment) = match name.split_once('.') {
            Some((name, segment)) => (name, number(segment).filter(|segment| *segment > 0)?),
            None => (name, 0),
        };
        let (relation, fork) = match name.split_once('_') {
            None => (name, Fork::Main),
            Some((name, "fsm" | "vm")) => (name, Fork::Map),
            Some((name, "init")) => (name, Fork::Init),
            Some(_) => return None,
        };
        Some(Self { number: number(relation)?, fork, segment })
    }
}

/// A number as PostgreSQL writes it into names: without a sign, and without a zero before it.
fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> [u8; PAGE] {
        let mut page: [u8; PAGE] = std::array::from_fn(|at| u8::try_from(at % 251).expect("small"));
        page[..8].copy_from_slice(&[0, 0, 0, 0, 100, 0, 0, 0]);
        let sum = checksum(&page, 7).to_le_bytes();
        page[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum);
        page
    }

    #[test]
    fn a_page_is_sound_changing_or_damaged() {
        let sound = page();
        assert_eq!(judge(&sound, 7, Lsn::new(101)), Page::Sound);
        assert_eq!(judge(&sound, 8, Lsn::new(101)), Page::Damaged, "it is another page's");
        assert_eq!(judge(&sound, 8, Lsn::new(100)), Page::Changing, "changed since the backup began");
        for at in [4, 8, 9, 10, 500, PAGE - 1] {
            let mut flipped = sound;
            flipped[at] ^= 1;
            assert_ne!(judge(&flipped, 7, Lsn::new(1 << 40)), Page::Sound, "{at}");
        }
        assert_eq!(judge(&[0; PAGE], 7, Lsn::new(1)), Page::Sound);
    }

    #[test]
    fn names_of_files() {
        let file = |number, fork, segment| Some(RelationFile { number, fork, segment });
        for (name, expected) in [
            ("16384", file(16384, Fork::Main, 0)),
            ("16384.12", file(16384, Fork::Main, 12)),
            ("16384_fsm", file(16384, Fork::Map, 0)),
            ("16384_vm.1", file(16384, Fork::Map, 1)),
            ("16384_init", file(16384, Fork::Init, 0)),
            ("16384.0", None),
            ("16384.x", None),
            ("016384", None),
            ("t3_16384", None),
            ("16384_tmp", None),
            ("pg_filenode.map", None),
            ("PG_VERSION", None),
            ("pg_control", None),
            ("", None),
            ("99999999999", None),
        ] {
            assert_eq!(RelationFile::parse(name), expected, "{name}");
        }
    }
}
