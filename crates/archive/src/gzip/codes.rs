//! Prefix codes of a bounded length for symbols of different frequency, in deflate's canonical order (RFC 1951, 3.2.2).

use super::bits::Code;

/// Symbols of the largest alphabet.
const SYMBOLS: usize = 288;

/// Longer than any code can become: counts are below 2^32.
const DEEPEST: usize = 48;

/// A symbol that occurs.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    count: u32,
    symbol: u16,
}

/// Codes of at most `limit` bits for all symbols that occur. At least two symbols must occur, and at most `2^limit`.
pub(super) fn codes<const N: usize>(counts: &[u32; N], limit: usize) -> [Code; N] {
    let mut used = [Used::default(); SYMBOLS];
    let mut len = 0;
    for (symbol, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        used[len] = Used { count, symbol: symbol as u16 };
        len += 1;
    }
    let used = &mut used[..len];
    used.sort_unstable();
    let mut lengths = lengths(used);
    shorten(&mut lengths, limit);

    let mut codes = [Code::default(); N];
    // The rarest symbols get the longest codes.
    let mut rarest = used.iter();
    for length in (1..=limit).rev() {
        for used in rarest.by_ref().take(lengths[length] as usize) {
            codes[usize::from(used.symbol)].length = length as u32;
        }
    }
    let mut next = [0_u32; DEEPEST];
    for length in 1..=limit {
        next[length] = (next[length - 1] + lengths[length - 1]) << 1;
    }
    for code in codes.iter_mut().filter(|code| code.length > 0) {
        let next = &mut next[code.length as usize];
        code.bits = next.reverse_bits() >> (32 - code.length);
        *next += 1;
    }
    codes
}

/// The number of codes of each length without a bound: the two least frequent nodes are joined again and again. Leaves
/// are sorted, and nodes are made in ascending order, so the least is always at the front of one of the two lists.
fn lengths(used: &[Used]) -> [u32; DEEPEST] {
    let nodes = used.len().saturating_sub(1);
    let mut weights = [0_u64; SYMBOLS];
    let (mut above_leaf, mut above_node) = ([0_usize; SYMBOLS], [0_usize; SYMBOLS]);
    let (mut leaf, mut node) = (0, 0);
    for made in 0..nodes {
        for _ in 0..2 {
            let next = used.get(leaf).map(|used| u64::from(used.count));
            match next.filter(|weight| node == made || *weight <= weights[node]) {
                Some(weight) => {
                    weights[made] += weight;
                    above_leaf[leaf] = made;
                    leaf += 1;
                }
                None => {
                    weights[made] += weights[node];
                    above_node[node] = made;
                    node += 1;
                }
            }
        }
    }
    let mut depths = [0_usize; SYMBOLS];
    for node in (0..nodes.saturating_sub(1)).rev() {
        depths[node] = depths[above_node[node]] + 1;
    }
    let mut lengths = [0; DEEPEST];
    for above in &above_leaf[..used.len()] {
        lengths[depths[*above] + 1] += 1;
    }
    lengths
}

/// Shortens codes that are longer than `limit`. Other codes become a bit longer to make room, the longest first.
fn shorten(lengths: &mut [u32; DEEPEST], limit: usize) {
    let (kept, over) = lengths.split_at_mut(limit + 1);
    kept[limit] += over.iter().sum::<u32>();
    over.fill(0);
    let taken: u32 = (1..=limit).map(|length| kept[length] << (limit - length)).sum();
    for _ in 1_u32 << limit..taken {
        let Some(length) = (1..limit).rev().find(|length| kept[*length] > 0) else { return };
        kept[length] -= 1;
        kept[length + 1] += 2;
        kept[limit] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of all codes that these take: 1 is complete.
    fn taken(codes: &[Code]) -> f64 {
        codes.iter().filter(|code| code.length > 0).map(|code| 0.5_f64.powi(code.length as i32)).sum()
    }

    #[test]
    fn the_example_of_the_rfc() {
        // Eight symbols of the lengths 3, 3, 3, 3, 3, 2, 4, 4.
        let codes = codes(&[10, 10, 10, 10, 10, 30, 5, 5], 15);
        let shown: Vec<String> = codes
            .iter()
            .map(|code| (0..code.length).map(|i| char::from(b'0' + (code.bits >> i & 1) as u8)).collect())
            .collect();
        assert_eq!(shown, ["010", "011", "100", "101", "110", "00", "1110", "1111"]);
    }

    #[test]
    fn codes_are_complete_and_no_longer_than_they_may_be() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..2000 {
            let mut counts = [0_u32; 286];
            let many = random.usize(2..=286);
            let steep = random.u32(0..24);
            for count in &mut counts[..many] {
                *count = 1 + (random.u32(..) >> random.u32(0..=steep).max(4));
            }
            counts[..2].fill(1);
            // As steep as it gets: Fibonacci's numbers.
            if round == 0 {
                counts.fill(0);
                counts[..2].fill(1);
                for i in 2..40 {
                    counts[i] = counts[i - 1] + counts[i - 2];
                }
            }
            for limit in [9, 12, 15] {
                let codes = codes(&counts, limit);
                assert_eq!(taken(&codes), 1.0, "{round} {limit}");
                assert!(codes.iter().all(|code| code.length as usize <= limit));
                let used = |(count, code): (&u32, &Code)| (*count > 0) == (code.length > 0);
                assert!(counts.iter().zip(&codes).all(used), "{round} {limit}");
            }
        }
    }

    #[test]
    fn what_occurs_more_often_has_no_longer_code() {
        let mut random = fastrand::Rng::with_seed(12);
        let mut counts = [0_u32; 286];
        counts.fill_with(|| 1 + (random.u32(..) >> random.u32(0..30)) / 300);
        let codes = codes(&counts, 12);
        for (a, x) in counts.iter().zip(&codes) {
            assert!(counts.iter().zip(&codes).all(|(b, y)| a <= b || x.length <= y.length));
        }
    }
}
