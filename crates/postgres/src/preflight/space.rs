//! Is there room for a restored database, or for rows that are put aside? Asked where the disk can be seen from here: of a server on this host, and of
//! one that is started for a proof. PostgreSQL itself doesn't tell.

pub(crate) use seawall_host::free_space as free;

/// Beside a database: WAL, and what a sort puts aside.
const BESIDE: u64 = 256 << 20;

/// Bytes that a database of `size` bytes needs while it is restored: a tenth more, for indexes are built in any order.
pub(crate) fn needed(size: u64) -> u64 {
    size.saturating_add(size / 10).saturating_add(BESIDE)
}

/// What is wrong with so much room, if anything.
pub(crate) fn lack(free: u64, size: u64) -> Option<String> {
    let missing = needed(size).checked_sub(free).filter(|missing| *missing > 0)?;
    Some(format!("about {} bytes are needed and {free} are free: {missing} are missing", needed(size)))
}

/// How much smaller than its pages a table may be as text: a row of one small number has 2 bytes of text, and 32 in a page.
const SMALLER: u64 = 16;

/// Why a disk with so much room can't hold the rows of tables of `bytes` bytes as text, if it can't.
pub(crate) fn cannot_hold(free: u64, bytes: u64) -> Option<String> {
    let least = bytes / SMALLER;
    (free < least).then(|| format!("tables of {bytes} bytes are to be put aside as text, and {free} bytes are free"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_what_cannot_fit_is_refused() {
        for (free, bytes, fits) in
            [(0, 0, true), (1 << 20, 16 << 20, true), ((1 << 20) - 1, 16 << 20, false), (0, 15, true)]
        {
            assert_eq!(cannot_hold(free, bytes).is_none(), fits, "{free} {bytes}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        const GIB: u64 = 1 << 30;
        for (free, size, missing) in [
            (0, 0, Some(256 << 20)),
            (256 << 20, 0, None),
            (10 * GIB, 9 * GIB, Some(9 * GIB / 10 + (256 << 20) - GIB)),
            (11 * GIB, 9 * GIB, None),
            (u64::MAX, u64::MAX, None),
            (0, u64::MAX, Some(u64::MAX)),
        ] {
            let said = lack(free, size);
            assert_eq!(said.is_some(), missing.is_some(), "{free} {size}");
            if let (Some(said), Some(missing)) = (said, missing) {
                assert!(said.ends_with(&format!("{missing} are missing")), "{said}");
            }
        }
        assert!(free(Path::new("/")).is_some_and(|bytes| bytes > 0) && free(Path::new("/nowhere")).is_none());
    }
}
