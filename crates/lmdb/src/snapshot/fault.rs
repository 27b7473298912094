//! Faults of a snapshot: where, and which rule is broken.

use std::fmt;

/// Why a snapshot can't be read. It carries no content of the object, only a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The place, in bytes after decompression.
    pub offset: u64,
    /// What is wrong there.
    pub rule: Rule,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the decompressed snapshot: {}", self.offset, self.rule)
    }
}

impl std::error::Error for Fault {}

/// The rules of the format, and of what an LMDB can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// Not gzip, or damaged: a header, a checksum or a length is wrong, or something stands behind the last member.
    #[error("the gzip stream is damaged")]
    Gzip,
    /// The object ends in the middle.
    #[error("it ends too early")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    Varint,
    /// Field 0 doesn't exist.
    #[error("a field has the number 0")]
    FieldNumber,
    /// A field is not laid out as it must be, or in a way that doesn't exist.
    #[error("a field has the wrong wire type")]
    WireType,
    /// A field is longer than the message around it.
    #[error("a field is longer than the message around it")]
    Overrun,
    /// No `formatVersion` before the first DBI.
    #[error("there is no format version before the first DBI")]
    NoFormat,
    /// Written for readers that are newer than this one.
    #[error("it needs a reader of a newer format")]
    TooNew,
    /// Versions, or the properties of a DBI, come behind what they apply to.
    #[error("a property changes behind the data that it applies to")]
    LateProperty,
    /// A name or a property is longer than it can be.
    #[error("a name or property is too long")]
    TooLong,
    /// A DBI has no name, or one that LMDB doesn't take.
    #[error("a DBI has a name that LMDB doesn't take")]
    DbiName,
    /// A DBI has flags that LMDB doesn't know.
    #[error("a DBI has flags that LMDB doesn't know")]
    DbiFlags,
    /// A key is empty or longer than 511 bytes.
    #[error("a key is empty or longer than 511 bytes")]
    Key,
    /// An integer key that is not 4 or 8 bytes long, or not as long as the others: LMDB would read past its end.
    #[error("an integer key is not 4 or 8 bytes long, or not as long as the others")]
    IntegerKey,
    /// An entry that is larger than the limit for one entry.
    #[error("an entry is larger than the limit for one entry")]
    EntrySize,
    /// A transform that isn't known, or doesn't fit the schema.
    #[error("a DBI has a transform that is unknown, or that doesn't fit the schema")]
    Transform,
    /// A DUPSORT DBI without `dupsort_hack`, or the other way round.
    #[error("a DBI with duplicates and its transform don't fit together")]
    Dupsort,
    /// A key that `dupsort_hack` didn't make.
    #[error("a key isn't one that dupsort_hack makes")]
    DupsortKey,
    /// More new DBIs than `max_dbs` leaves room for.
    #[error("it has more DBIs than max_dbs allows")]
    TooManyDbis,
}

impl Rule {
    /// The rule with its place.
    pub(crate) fn at(self, offset: u64) -> Fault {
        Fault { offset, rule: self }
    }
}
