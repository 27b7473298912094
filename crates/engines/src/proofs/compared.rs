//! Which objects did a proof compare with their digests, and which of them needn't be compared again yet?
//!
//! The list of a proof is an object beside its record. It holds a fingerprint of each object that was right: of its name, its size and
//! when the store wrote it. An object that was written over since is compared again. Anybody who can write to the vault can write such a
//! list, as well as the digests. So a list only spares the comparison with digests, and never the restore.

use std::time::Duration;

use seawall_core::{Fingerprints, Moment};

use super::record;

/// How the names of lists end.
const END: &str = ".compared";

/// The bytes with which a list begins.
const MAGIC: &[u8; 8] = b"SWCMP\0\0\x01";

/// Bytes of a fingerprint.
const EACH: usize = 16;

/// Fingerprints of a list.
pub(super) const MOST: usize = 65_536;

/// About how many fingerprints of all lists together are taken, in 32 bytes each at most.
pub(super) const MOST_FRESH: usize = 4 * MOST;

/// The largest list.
pub(super) const MOST_BYTES: u64 = (MAGIC.len() + MOST * EACH) as u64;

/// The name of the list that belongs to a record.
pub(super) fn name(record: &str) -> Option<String> {
    Some(format!("{}{END}", record.strip_suffix(".json")?))
}

/// The name of the record that a list belongs to; `None` for names of other objects.
pub(super) fn record_of(name: &str) -> Option<String> {
    let record = format!("{}.json", name.strip_suffix(END)?);
    record::moment_of(&record).map(|_| record)
}

/// Whether the list of a proof made at `at` still counts at `now`.
pub(super) fn counts(at: Moment, fresh: Duration, now: Moment) -> bool {
    at <= now && now < at.after(fresh)
}

/// A list's bytes. If there are too many objects, some are left out, and are compared again by the next proof.
pub(super) fn bytes(compared: &Fingerprints) -> Vec<u8> {
    let all = compared.iter().take(MOST).flat_map(|fingerprint| fingerprint.to_le_bytes());
    MAGIC.iter().copied().chain(all).collect()
}

/// The fingerprints of a list; an error says why the bytes are no list.
pub(super) fn parse(bytes: &[u8]) -> Result<Fingerprints, &'static str> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err("it is too long");
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or("it has not the form of a list")?;
    let (all, cut) = rest.as_chunks::<EACH>();
    if !cut.is_empty() {
        return Err("its end is cut");
    }
    let all = all.iter().map(|bytes| u128::from_le_bytes(*bytes));
    if !all.clone().is_sorted_by(|one, next| one < next) {
        return Err("it isn't in order");
    }
    Ok(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_lists_are_those_of_records() {
        let (record, list) = ("20261120T101112123Z-0000000a.json", "20261120T101112123Z-0000000a.compared");
        assert_eq!(name(record).as_deref(), Some(list));
        assert_eq!(record_of(list).as_deref(), Some(record));
        for other in [record, "x.compared", ".compared", "20261320T101112123Z-0000000a.compared", ""] {
            assert_eq!(record_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for compared in [Fingerprints::new(), [1, 7, u128::MAX].into()] {
            assert_eq!(parse(&bytes(&compared)), Ok(compared));
        }
        let many: Fingerprints = (0..MOST as u128 + 5).collect();
        assert_eq!(parse(&bytes(&many)).map(|read| read.len()), Ok(MOST));
        let good = bytes(&[1, 7].into());
        let reversed = [&good[..8], &good[24..], &good[8..24]].concat();
        let twice = [&good[..], &good[24..]].concat();
        let long = vec![0; usize::try_from(MOST_BYTES).unwrap() + 1];
        for bad in [&good[..7], &good[..20], &reversed, &twice, &good[1..], &long] {
            assert!(parse(bad).is_err(), "{bad:.40?}");
        }
    }

    #[test]
    fn a_list_counts_for_a_while() {
        let (at, fresh) = (Moment::from_millis(1_000_000), Duration::from_secs(60));
        for (now, expected) in [(999_999, false), (1_000_000, true), (1_059_999, true), (1_060_000, false)] {
            assert_eq!(counts(at, fresh, Moment::from_millis(now)), expected, "{now}");
        }
        assert!(!counts(at, Duration::ZERO, at));
    }
}
