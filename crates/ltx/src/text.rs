//! Text forms: file names and hexadecimal numbers.
//!
//! The name of a file gives the transactions that it holds: `<min>-<max>.ltx`, each 16 lowercase hexadecimal digits,
//! with nothing before and nothing after. Numbers on their own are read in either case, as all other programs of this
//! format do. Names are not, because two spellings of one name would be two objects.

use core::fmt;
use core::str::FromStr;

use crate::types::Txid;

/// The length of a file name: two ids, the dash and the extension.
const NAME_LEN: usize = 16 + 1 + 16 + 4;

/// Text that doesn't have the expected form.
///
/// ```
/// use seawall_ltx::{FileName, TextError, Txid};
///
/// assert_eq!("1f".parse::<Txid>(), Err(TextError::Txid));
/// assert_eq!("app.ltx".parse::<FileName>(), Err(TextError::FileName));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Not a transaction id.
    #[error("a transaction id is 16 hexadecimal digits")]
    Txid,
    /// Not a checksum.
    #[error("a checksum is 16 hexadecimal digits")]
    Checksum,
    /// Not a position.
    #[error("a position is a transaction id and a checksum with a slash between them")]
    Position,
    /// Not a moment.
    #[error("a moment is written as in RFC 3339: 2006-01-02T15:04:05.000Z")]
    Timestamp,
    /// Not the name of an LTX file.
    #[error("the name of an LTX file is two transaction ids of 16 lowercase hexadecimal digits: <min>-<max>.ltx")]
    FileName,
}

/// Exactly 16 hexadecimal digits. `u64::from_str_radix` alone would also take a sign.
pub(crate) fn hex16(text: &str) -> Option<u64> {
    let valid = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if valid { u64::from_str_radix(text, 16).ok() } else { None }
}

/// The name of an LTX file: the first and the last transaction in it.
///
/// A name with `min` above `max` can be written and is read, but no file can have such a header.
///
/// ```
/// use seawall_ltx::{FileName, Txid};
///
/// let name: FileName = "0000000000000002-0000000000000009.ltx".parse()?;
/// assert_eq!(name, FileName { min: Txid(2), max: Txid(9) });
/// assert!(name.continues(Txid(1)));
/// assert!("0000000000000002-000000000000000A.ltx".parse::<FileName>().is_err());
/// # Ok::<(), seawall_ltx::TextError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// The first transaction in the file.
    pub min: Txid,
    /// The last transaction in the file.
    pub max: Txid,
}

impl FileName {
    /// Whether a file of this name can be applied to a database at `position`: it begins at or before the next
    /// transaction and leads further. Overlap is allowed.
    pub fn continues(&self, position: Txid) -> bool {
        let begins = position.next().is_none_or(|next| self.min <= next);
        begins && self.max > position
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.ltx", self.min, self.max)
    }
}

impl FromStr for FileName {
    type Err = TextError;

    /// Reads a bare file name, without a directory.
    fn from_str(name: &str) -> Result<Self, TextError> {
        let parse = || {
            let strict = name.len() == NAME_LEN && !name.bytes().any(|b| b.is_ascii_uppercase());
            let (min, max) = name.strip_suffix(".ltx").filter(|_| strict)?.split_once('-')?;
            Some(FileName { min: Txid(hex16(min)?), max: Txid(hex16(max)?) })
        };
        parse().ok_or(TextError::FileName)
    }
}
