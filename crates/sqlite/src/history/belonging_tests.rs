use seawall_ltx::{PageSize, Txid};

use super::*;
use crate::identity::Stamp;
use seawall_ltx::wal::Chain;

const START: u64 = HEADER_SIZE;

fn size() -> PageSize {
    PageSize::new(4096).expect("a page size")
}

fn stored(level: u8, min: u64, max: u64) -> Stored {
    let level = Level::new(usize::from(level)).expect("a level");
    Stored { level, min: Txid(min), max: Txid(max), size: 10_000 }
}

/// A writer of one history, which writes consecutive captures.
#[derive(Clone)]
struct Writer {
    stamp: Option<Stamp>,
    last: Option<Tag>,
    offset: u64,
    salt: u32,
    moment: i64,
}

impl Writer {
    fn new(lineage: u64, nonce: u64) -> Self {
        let stamp = Stamp { lineage: Lineage::new(lineage), nonce: Nonce::new(nonce << 32) };
        Self { stamp: Some(stamp), last: None, offset: START, salt: lineage as u32, moment: 1000 }
    }

    fn foreign(salt: u32) -> Self {
        Self { stamp: None, last: None, offset: START, salt, moment: 1000 }
    }

    /// The same history, continued by another process.
    fn restarted(&self, nonce: u64) -> Self {
        let stamp = self.stamp.map(|stamp| Stamp { nonce: Nonce::new(nonce << 32), ..stamp });
        Self { stamp, ..self.clone() }
    }

    fn header(&mut self, txid: u64) -> Header {
        let mut header = Header::new(size(), 9, Txid(txid), Txid(txid));
        (header.timestamp_ms, header.wal_offset, header.wal_size) = (self.moment, self.offset, 4120);
        (header.wal_salt1, header.wal_salt2) = (self.salt, 7);
        if let Some(stamp) = self.stamp {
            stamp.write(&mut header, Chain(txid as u32, self.salt), self.last);
        }
        self.last = Some(Tag::of(&header));
        self.offset += 4120;
        self.moment += 1;
        header
    }

    fn capture(&mut self, txid: u64) -> Facts {
        Facts::of(&stored(0, txid, txid), &self.header(txid))
    }

    /// A base at this TXID, as it is in level 9.
    fn base(&mut self, txid: u64) -> Facts {
        let header = self.header(txid);
        Facts::of(&stored(9, 1, txid), &Header { min_txid: Txid(1), ..header })
    }
}

/// As an older Seawall wrote it: without tags.
fn old(facts: Facts) -> Facts {
    Facts { tag: None, follows: None, ..facts }
}

fn merged(level: u8, inputs: &[Facts]) -> Facts {
    let (first, last) = (inputs.first().expect("one"), inputs.last().expect("one"));
    let file = stored(level, first.file.min.0, last.file.max.0);
    Facts { file, nonce: None, wal: None, follows: first.follows, ..*last }
}

#[test]
fn what_goes_on_from_what() {
    let (mut ours, mut other) = (Writer::new(1, 1), Writer::new(2, 2));
    let (base, two, three) = (ours.base(1), ours.capture(2), ours.capture(3));
    let (alien_base, alien_two, alien_three) = (other.base(1), other.capture(2), other.capture(3));
    // Two processes continued from one point, with the same lineage, at the same place in the WAL.
    let mut cloned = ours.restarted(3);
    let (four, twin_four) = (ours.capture(4), cloned.capture(4));
    let (five, twin_five) = (ours.capture(5), cloned.capture(5));
    let new_base = Writer { last: ours.last, ..Writer::new(9, 9) }.capture(6);
    let (lonely, by) = (Facts { follows: None, ..new_base }, new_base.lineage);
    let level_one = merged(1, &[two, three]);
    let (mut litestream, mut another) = (Writer::foreign(50), Writer::foreign(60));
    let (a1, a2, b2) = (litestream.capture(1), litestream.capture(2), another.capture(2));
    let b3 = another.capture(3);
    let mut taken_over = Writer { last: litestream.last, ..Writer::new(5, 5) };
    let ours_behind = taken_over.capture(3);
    let stranger = |why| Bond::Stranger(why);
    let unknown = |doubt| Bond::Unknown(doubt);
    for (name, before, next, hole, expected) in [
        ("a base and what follows", base, two, None, Bond::Proved),
        ("captures", two, three, None, Bond::Proved),
        ("behind a merged one", level_one, four, None, Bond::Proved),
        ("a merged one", base, level_one, None, Bond::Proved),
        ("another database's base", alien_base, two, None, stranger(Why::Point)),
        ("another database's capture", two, alien_three, None, stranger(Why::Point)),
        ("what follows one", alien_two, three, None, stranger(Why::Point)),
        ("another branch", four, twin_five, None, stranger(Why::Point)),
        ("and back", twin_four, five, None, stranger(Why::Point)),
        ("a base says what it follows", five, new_base, None, Bond::Proved),
        ("a base behind another point", twin_five, new_base, None, stranger(Why::Point)),
        ("a base that says nothing", five, lonely, None, stranger(Why::Lineage)),
        ("its hole is recorded", five, lonely, by, Bond::Proved),
        ("another attempt recorded it", five, lonely, Some(Lineage::new(77)), unknown(Doubt::Hole)),
        ("old: captures of one run", old(two), old(three), None, Bond::Proved),
        ("old: another lineage", old(two), old(alien_three), None, stranger(Why::Lineage)),
        ("old: a restart", old(three), old(twin_four), None, unknown(Doubt::Branch)),
        ("old: another place in the WAL", old(two), old(twin_five), None, unknown(Doubt::Branch)),
        ("old: a merged one", old(base), old(level_one), None, unknown(Doubt::Branch)),
        ("old: one that is too old", old(three), Facts { moment: 5, ..old(four) }, None, stranger(Why::Moment)),
        ("old: other pages", old(three), Facts { page_size: 512, ..old(four) }, None, stranger(Why::PageSize)),
        ("another program's", a1, a2, None, unknown(Doubt::Foreign)),
        ("of another generation, from its middle", a2, b3, None, stranger(Why::Wal)),
        ("of another generation, from its start", a1, b2, None, stranger(Why::Wal)),
        ("its clock went back", a1, Facts { moment: 5, ..a2 }, None, unknown(Doubt::Moment)),
        ("it grew by more than it holds", a1, Facts { commit: 100_000, ..a2 }, None, stranger(Why::Size)),
        ("taken over from another program", a2, ours_behind, None, Bond::Proved),
        ("taken over from another point", b2, ours_behind, None, stranger(Why::Point)),
    ] {
        let expected = match name {
            "of another generation, from its start" => {
                // It holds the second capture of its generation: its start would be a complete copy's.
                assert!(next.wal.expect("a stretch").start == START);
                unknown(Doubt::Foreign)
            }
            "old: another place in the WAL" => {
                // It isn't adjacent, so the place tells nothing.
                assert_ne!(before.file.max.next(), Some(next.file.min));
                expected
            }
            _ => expected,
        };
        assert_eq!(goes_on(&before, &next, hole), expected, "{name}");
    }
    let skipped = Facts { file: stored(0, 4, 4), ..old(twin_five) };
    assert_eq!(goes_on(&old(three), &skipped, None), stranger(Why::Wal), "a frame is missing between them");
}

#[test]
fn database_checksums_prove() {
    let mut writer = Writer::foreign(1);
    let (one, two) = (writer.capture(1), writer.capture(2));
    let (sum, other) = (Some(Checksum::from_crc(5)), Some(Checksum::from_crc(6)));
    let before = Facts { tag: None, checksums: (None, sum), ..one };
    assert_eq!(goes_on(&before, &Facts { checksums: (sum, None), ..two }, None), Bond::Proved);
    assert_eq!(goes_on(&before, &Facts { checksums: (other, None), ..two }, None), Bond::Stranger(Why::Checksum));
    assert_eq!(same_end(&before, &Facts { tag: None, checksums: (None, other), ..one }), Bond::Stranger(Why::Checksum));
}

#[test]
fn what_ends_in_one_state() {
    let (mut ours, mut other) = (Writer::new(1, 1), Writer::new(2, 2));
    let header = ours.header(7);
    let (capture, base) =
        (Facts::of(&stored(0, 7, 7), &header), Facts::of(&stored(9, 1, 7), &Header { min_txid: Txid(1), ..header }));
    let stranger = other.base(7);
    assert_eq!(same_end(&capture, &base), Bond::Proved);
    assert_eq!(same_end(&capture, &stranger), Bond::Stranger(Why::Point));
    assert_eq!(same_end(&old(capture), &old(stranger)), Bond::Stranger(Why::Lineage));
    assert_eq!(same_end(&old(capture), &old(base)), Bond::Unknown(Doubt::Branch));
}

#[test]
fn where_a_copy_belongs() {
    let (mut ours, mut other) = (Writer::new(1, 1), Writer::new(2, 2));
    let nine = ours.capture(9);
    let (own, alien) = (Facts { follows: None, ..ours.base(12) }, other.base(100));
    assert_eq!(begins(&nine, &own, None), Bond::Proved, "merged, of the same lineage");
    assert_eq!(begins(&nine, &alien, None), Bond::Stranger(Why::Lineage));
    assert_eq!(begins(&nine, &alien, alien.lineage), Bond::Proved, "a hole ends there");
    let next = Writer { last: nine.tag, ..other.clone() }.base(10);
    assert_eq!(begins(&nine, &next, None), Bond::Proved, "it says so itself");
    assert_eq!(begins(&nine, &other.base(10), None), Bond::Stranger(Why::Point));
}

#[test]
fn which_of_two_is_the_stranger() {
    let (mut ours, mut other) = (Writer::new(1, 1), Writer::new(2, 2));
    let own: Vec<Facts> = std::iter::once(ours.base(1)).chain((2..=9).map(|txid| ours.capture(txid))).collect();
    let alien: Vec<Facts> = std::iter::once(other.base(1)).chain((2..=9).map(|txid| other.capture(txid))).collect();
    let none = BTreeMap::new();
    assert_eq!(chain(&own, &[], &none), Ok(Vec::new()));
    for at in 0..own.len() {
        for spoil in [|facts: Facts| facts, old] {
            let mut mixed: Vec<Facts> = own.iter().copied().map(spoil).collect();
            mixed[at] = spoil(alien[at]);
            let found = chain(&mixed, &[], &none).expect_err("mixed");
            assert_eq!(found.stranger, mixed[at].file, "{at}");
        }
    }
}

#[test]
fn a_branch_in_the_middle_is_found_with_and_without_tags() {
    let mut ours = Writer::new(1, 1);
    let mut own: Vec<Facts> = std::iter::once(ours.base(1)).chain((2..=4).map(|txid| ours.capture(txid))).collect();
    let (mut one, mut two) = (ours.restarted(2), ours.restarted(3));
    let branch: Vec<Facts> = (5..=8).map(|txid| two.capture(txid)).collect();
    own.extend((5..=8).map(|txid| one.capture(txid)));
    let none = BTreeMap::new();
    for at in 5..=7 {
        let mut mixed = own.clone();
        mixed[at] = branch[at - 4];
        assert_eq!(chain(&mixed, &[], &none).expect_err("mixed").stranger, mixed[at].file, "{at}");
        let mixed: Vec<Facts> = mixed.into_iter().map(old).collect();
        // At the very end it looks like a restart.
        assert_eq!(chain(&mixed, &[], &none).is_err(), at < 7, "a run that had ended comes back: {at}");
    }
}
