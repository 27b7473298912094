//! Sizes and numbers of the parts of streamed uploads, as users write them.

use crate::Error;
use crate::text::{bytes, wrong};

/// The smallest part that S3 takes.
pub(crate) const SMALLEST_PART: usize = 5 << 20;

/// The largest part that makes sense; memory is this times the parts in flight.
const LARGEST_PART: usize = 1 << 30;

/// A size of parts.
pub(crate) fn part_size(value: &str) -> Result<usize, Error> {
    let next = "write a size from 5MiB to 1GiB, such as 16MiB";
    let size = bytes(value).ok_or_else(|| wrong("part-size", "this is no size", next))?;
    match usize::try_from(size) {
        Ok(size) if (SMALLEST_PART..=LARGEST_PART).contains(&size) => Ok(size),
        _ => Err(wrong("part-size", "no parts of that size are taken", next)),
    }
}

/// A number of parts in flight.
pub(crate) fn concurrency(value: &str) -> Result<usize, Error> {
    match value.parse() {
        Ok(count @ 1..=64) => Ok(count),
        _ => Err(wrong("concurrency", "this is no number of parts", "write a number from 1 to 64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_bounds() {
        assert_eq!(part_size("16MiB"), Ok(16 << 20));
        assert!(part_size("1MB").is_err(), "below S3's bound");
        assert!(part_size("2GiB").is_err());
        assert!(concurrency("0").is_err() && concurrency("65").is_err() && concurrency("5").is_ok());
    }
}
