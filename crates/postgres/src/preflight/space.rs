//! Is there room for a restored database, or for rows that are put aside? Asked where the disk can be seen from here: of a
//! server on this host, and of one that is started for a proof. PostgreSQL itself doesn't tell. How much room a restored
//! database needs, `seawall_archive::preflight` says.

pub(crate) use seawall_host::free_space as free;

/// How much smaller than its pages a table may be as text: a row of one small number has 2 bytes of text, and 32 in a page.
const SMALLER: u64 = 16;

/// Why a disk with so much room can't hold the rows of tables of `bytes` bytes as text, if it can't.
pub(crate) fn cannot_hold(free: u64, bytes: u64) -> Option<String> {
    let least = bytes / SMALLER;
    (free < least).then(|| format!("tables of {bytes} bytes are to be put aside as text, and {free} bytes are free"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_fit_is_refused() {
        for (free, bytes, fits) in
            [(0, 0, true), (1 << 20, 16 << 20, true), ((1 << 20) - 1, 16 << 20, false), (0, 15, true)]
        {
            assert_eq!(cannot_hold(free, bytes).is_none(), fits, "{free} {bytes}");
        }
    }
}
