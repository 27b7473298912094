//! In which order LMDB has the keys of a DBI.

use std::cmp::Ordering;

use crate::schema::flags::Flags;

/// Compares two keys as LMDB does in a DBI with `flags`.
pub(crate) fn compare(flags: Flags, a: &[u8], b: &[u8]) -> Ordering {
    if flags.contains(Flags::INTEGER_KEY) {
        return compare_numbers(a, b);
    }
    if flags.contains(Flags::REVERSE_KEY) {
        return a.iter().rev().cmp(b.iter().rev());
    }
    a.cmp(b)
}

/// Numbers in the machine's byte order; where a key is none, its bytes decide, so that the order stays one.
fn compare_numbers(a: &[u8], b: &[u8]) -> Ordering {
    match (number(a), number(b)) {
        (Some(x), Some(y)) if a.len() == b.len() => x.cmp(&y),
        _ => a.cmp(b),
    }
}

fn number(key: &[u8]) -> Option<u64> {
    match key.len() {
        4 => key.try_into().ok().map(|bytes| u32::from_ne_bytes(bytes).into()),
        8 => key.try_into().ok().map(u64::from_ne_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let number = |n: u32| n.to_ne_bytes().to_vec();
        for (flags, small, large) in [
            (Flags::default(), b"a".to_vec(), b"ab".to_vec()),
            (Flags::default(), b"ab".to_vec(), b"b".to_vec()),
            (Flags::REVERSE_KEY, b"ba".to_vec(), b"ab".to_vec()),
            (Flags::REVERSE_KEY, b"a".to_vec(), b"ba".to_vec()),
            (Flags::INTEGER_KEY, number(0), number(1)),
            (Flags::INTEGER_KEY, number(255), number(256)),
            (Flags::INTEGER_KEY, 255_u64.to_ne_bytes().to_vec(), 256_u64.to_ne_bytes().to_vec()),
        ] {
            assert_eq!(compare(flags, &small, &large), Ordering::Less, "{flags} {small:?} {large:?}");
            assert_eq!(compare(flags, &large, &small), Ordering::Greater);
            assert_eq!(compare(flags, &large, &large), Ordering::Equal);
        }
    }
}
