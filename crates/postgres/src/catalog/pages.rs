//! The page size of large objects. It is a fourth of the server's block size (`LOBLKSIZE`), and the block size is 8 KiB
//! in nearly every build; another one must be set when PostgreSQL is compiled. Pure.

/// The block size of nearly every server.
const USUAL: u64 = 8192;

/// Bytes of a page where a block has so many.
pub(crate) fn of_block(block: u64) -> u64 {
    block / 4
}

/// The server's block size as a set records it: nothing for the usual size.
pub(crate) fn noted(block: u64) -> Option<u64> {
    (block != USUAL).then_some(block)
}

/// The page size of a set with this record; `None` if no server can have such blocks.
pub(crate) fn of_a_set(noted: Option<u64>) -> Option<u64> {
    let block = noted.unwrap_or(USUAL);
    let is_one = (1024..=32_768).contains(&block) && block.is_power_of_two();
    is_one.then(|| of_block(block))
}

/// Where a page begins in its object, as SQL: `number` is a column that counts from 0.
pub(crate) fn place(number: &str, size: u64) -> String {
    format!("{number} * {size}")
}

/// Why the pages of a set can't be compared with those of a server, if they can't: one page here is several there.
pub(crate) fn why_not_compared(size: u64, block: u64) -> Option<String> {
    let there = of_block(block);
    (size != there).then(|| {
        format!("a page of a large object has {there} bytes on this server, whose block_size is {block}, and {size} in the set")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_fourth_of_a_block() {
        for (block, noted_as, size) in [
            (1024, Some(1024), 256),
            (2048, Some(2048), 512),
            (4096, Some(4096), 1024),
            (8192, None, 2048),
            (16_384, Some(16_384), 4096),
            (32_768, Some(32_768), 8192),
        ] {
            assert_eq!((noted(block), of_block(block)), (noted_as, size));
            assert_eq!(of_a_set(noted(block)), Some(size));
            assert_eq!(place("page", size), format!("page * {size}"));
            assert_eq!(why_not_compared(size, block), None);
        }
    }

    #[test]
    fn blocks_that_no_server_has_are_refused() {
        for block in [0, 1, 4, 512, 8191, 12_288, 65_536, u64::MAX] {
            assert_eq!(of_a_set(Some(block)), None, "{block}");
        }
    }

    #[test]
    fn pages_of_two_sizes_are_not_compared() {
        for (size, block, is_compared) in
            [(2048, 8192, true), (2048, 16_384, false), (4096, 16_384, true), (8192, 8192, false)]
        {
            assert_eq!(why_not_compared(size, block).is_none(), is_compared, "{size} {block}");
        }
    }
}
