//! The flags of a DBI: how LMDB orders its keys, and whether a key has several values.

use std::fmt;

/// Flags that LMDB keeps in a DBI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(u16);

/// Names and bits.
const NAMES: [(&str, Flags); 6] = [
    ("REVERSEKEY", Flags::REVERSE_KEY),
    ("DUPSORT", Flags::DUPSORT),
    ("INTEGERKEY", Flags::INTEGER_KEY),
    ("DUPFIXED", Flags::DUPFIXED),
    ("INTEGERDUP", Flags::INTEGER_DUP),
    ("REVERSEDUP", Flags::REVERSE_DUP),
];

/// `MDB_CREATE`, which some writers store among the flags by mistake.
const CREATE: u64 = 0x4_0000;

impl Flags {
    /// Keys are compared from their ends.
    pub const REVERSE_KEY: Self = Self(0x02);
    /// A key may have several values.
    pub const DUPSORT: Self = Self(0x04);
    /// Keys are numbers of the machine's own byte order.
    pub const INTEGER_KEY: Self = Self(0x08);
    /// All values of a key have the same size.
    pub const DUPFIXED: Self = Self(0x10);
    /// Values of a key are numbers.
    pub const INTEGER_DUP: Self = Self(0x20);
    /// Values of a key are compared from their ends.
    pub const REVERSE_DUP: Self = Self(0x40);

    /// Flags from bits; `None` if LMDB gives one of the bits no meaning.
    pub fn parse(bits: u16) -> Option<Self> {
        (bits & !0x7e == 0).then_some(Self(bits))
    }

    /// Reads names (with or without `MDB_`) or numbers, separated by `|`, `,`, `+` or spaces.
    pub fn from_text(text: &str) -> Option<Self> {
        let words = text.split(['|', ',', '+', ' ']).filter(|word| !word.is_empty());
        words.map(word).try_fold(Self::default(), |all, flags| Some(Self(all.0 | flags?.0)))
    }

    /// The bits, as LMDB has them.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags that both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

fn word(text: &str) -> Option<Flags> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("MDB_").unwrap_or(&upper);
    if name == "CREATE" {
        return Some(Flags::default());
    }
    if let Some((_, flags)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*flags);
    }
    let bits = match name.strip_prefix("0X") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => name.parse().ok()?,
    };
    u16::try_from(bits & !CREATE).ok().and_then(Flags::parse)
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = NAMES.iter().filter(|(_, flags)| self.contains(*flags)).map(|(name, _)| *name).collect();
        f.write_str(&names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, bits) in [
            ("", Some(0)),
            ("MDB_INTEGERKEY", Some(0x08)),
            ("integerkey|DUPSORT", Some(0x0c)),
            ("DUPSORT, DUPFIXED", Some(0x14)),
            ("REVERSEKEY+0x08", Some(0x0a)),
            ("12", Some(12)),
            ("MDB_CREATE DUPSORT", Some(0x04)),
            ("0x40008", Some(0x08)),
            ("NOSUCH", None),
            ("1", None),
            ("0x80", None),
            ("-4", None),
        ] {
            assert_eq!(Flags::from_text(text).map(Flags::bits), bits, "{text}");
        }
        assert_eq!(Flags::parse(0x0c).expect("flags").to_string(), "DUPSORT|INTEGERKEY");
    }
}
