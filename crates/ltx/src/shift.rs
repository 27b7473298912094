//! Joins CRCs: computes a CRC after further zero bytes.
//!
//! A CRC is a remainder of polynomials over GF(2), so n more bytes multiply it by x^(8n). The power is composed from
//! x^8, x^16, x^32, … by the bits of n. The CRC library can join too, but by squaring matrices, which took a seventh of
//! the time of reading a file in batches of 1 MiB.

use alloc::boxed::Box;

/// x^64 + x^4 + x^3 + x + 1 without its highest power. Bits are reflected: x^0 is the top one.
const POLYNOMIAL: u64 = 0xd800_0000_0000_0000;
const ONE: u64 = 1 << 63;

/// x^(8 * 2^k) for each bit k of a length.
const POWERS: [u64; 64] = {
    let mut powers = [ONE >> 8; 64];
    let mut k = 1;
    while k < 64 {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// The product of two remainders.
const fn multiply(a: u64, b: u64) -> u64 {
    let (mut product, mut shifted, mut bit) = (0, b, ONE);
    while bit != 0 {
        if a & bit != 0 {
            product ^= shifted;
        }
        // Times x: a bit pushed out at the end is reduced.
        shifted = (shifted >> 1) ^ (POLYNOMIAL & (shifted & 1).wrapping_neg());
        bit >>= 1;
    }
    product
}

/// The share of the bytes so far, whose CRC is `crc`, in a CRC after `len` zero bytes. XORed with the CRC of `len`
/// other bytes, it is the CRC of all bytes.
pub(crate) fn over_zeros(crc: u64, len: u64) -> u64 {
    POWERS.iter().enumerate().filter(|(k, _)| len >> k & 1 == 1).fold(crc, |crc, (_, power)| multiply(crc, *power))
}

/// [`over_zeros`] for one length, as eight look-ups: the map is linear, so each byte of a register adds its
/// own part.
#[derive(Clone, Debug)]
pub(crate) struct Shift(Box<[[u64; 256]; 8]>);

impl Shift {
    /// The map over `len` zero bytes.
    pub(crate) fn new(len: u64) -> Shift {
        let mut tables = Box::new([[0; 256]; 8]);
        for (at, table) in tables.iter_mut().enumerate() {
            *table = linear(|byte| over_zeros(byte << (8 * at), len));
        }
        Shift(tables)
    }

    /// The register `register` after the zero bytes.
    pub(crate) fn apply(&self, register: u64) -> u64 {
        look_up(&self.0, register)
    }
}

/// The table of a linear function of a byte, from its value for each bit.
fn linear(function: impl Fn(u64) -> u64) -> [u64; 256] {
    let bits: [u64; 8] = core::array::from_fn(|bit| function(1 << bit));
    let mut table = [0; 256];
    for (byte, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).filter(|bit| byte >> bit & 1 == 1).fold(0, |sum, bit| sum ^ bits[bit]);
    }
    table
}

fn look_up(tables: &[[u64; 256]; 8], register: u64) -> u64 {
    let bytes = register.to_le_bytes().map(usize::from);
    let mut sum = 0;
    for (table, byte) in tables.iter().zip(bytes) {
        sum ^= table[byte];
    }
    sum
}

/// The map over eight zero bytes, made by the compiler.
static OVER_8: [[u64; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut at = 0;
    while at < 8 {
        let mut byte = 0;
        while byte < 256 {
            tables[at][byte] = multiply((byte as u64) << (8 * at), POWERS[3]);
            byte += 1;
        }
        at += 1;
    }
    tables
};

/// The register after a few bytes. For a page header this is cheaper than the CRC library.
pub(crate) fn step(mut register: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        register = look_up(&OVER_8, register ^ u64::from_le_bytes(*word));
    }
    for byte in rest {
        // The last table is over one byte less than a word for the byte that leaves first.
        let leaving = (register ^ u64::from(*byte)) & 0xff;
        register = (register >> 8) ^ OVER_8[7][leaving as usize];
    }
    register
}

#[cfg(test)]
mod tests {
    use crate::checksum::{Crc64, crc64};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn joined_is_the_same_as_in_one_go(bytes in prop::collection::vec(any::<u8>(), 0..3000), at in 0_usize..3000) {
            let (left, right) = bytes.split_at(at.min(bytes.len()));
            let (mut crc, mut next) = (Crc64::new(), Crc64::new());
            crc.update(left);
            next.update(right);
            crc.join(&next);
            prop_assert_eq!((crc.value(), crc.hashed()), (crc64(&bytes), bytes.len() as u64));
            crc.update(b"more");
            prop_assert_eq!(crc.value(), crc64(&[&bytes[..], b"more"].concat()));
        }
    }

    #[test]
    fn tables_and_library_agree() {
        let bytes: Vec<u8> = (0..3000_u32).map(|i| (i * 31 % 251) as u8).collect();
        for len in [0, 1, 7, 8, 9, 100, 3000] {
            assert_eq!(!super::step(u64::MAX, &bytes[..len]), crc64(&bytes[..len]), "{len}");
        }
        assert_eq!(!super::step(u64::MAX, b"123456789"), 0xb909_56c7_75a4_1001);
    }

    #[cfg(feature = "std")]
    #[test]
    fn long_pieces_join_as_the_library_joins_them() {
        let algorithm = crc_fast::CrcAlgorithm::Crc64GoIso;
        for len in [1, 4096, 1 << 20, (1 << 40) + 12345, u64::MAX >> 1] {
            let library = crc_fast::checksum_combine(algorithm, 0x1234_5678_9abc_def0, 42, len);
            assert_eq!(super::over_zeros(0x1234_5678_9abc_def0, len) ^ 42, library);
        }
    }
}
