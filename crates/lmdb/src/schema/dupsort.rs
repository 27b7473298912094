//! `dupsort_hack`: how a DBI whose keys have several values becomes a DBI with one value for each key.
//!
//! A shadow's key is the key, four zeros, the value (cut to fit) and the key's length; its value is the whole value.
//! This is Lightning Stream's own transform `dupsort_hack_v1`, byte for byte.

use crate::snapshot::Rule;

/// The longest key that LMDB takes.
const MAX_KEY: usize = 511;

/// Between key and value.
const SEPARATOR: [u8; 4] = [0; 4];

/// Makes the shadow's key of a key and one of its values; `false` where the key is too long.
pub(crate) fn join(key: &[u8], value: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u8::try_from(key.len()) else { return false };
    out.clear();
    out.extend_from_slice(key);
    out.extend_from_slice(&SEPARATOR);
    let room = MAX_KEY - 1 - out.len();
    out.extend_from_slice(value.get(..room).unwrap_or(value));
    out.push(length);
    length > 0
}

/// The application's key in a shadow's key.
pub(crate) fn split(joined: &[u8]) -> Result<&[u8], Rule> {
    let (length, rest) = joined.split_last().ok_or(Rule::DupsortKey)?;
    let (key, rest) = rest.split_at_checked((*length).into()).ok_or(Rule::DupsortKey)?;
    if key.is_empty() || !rest.starts_with(&SEPARATOR) {
        return Err(Rule::DupsortKey);
    }
    Ok(key)
}

/// Whether a shadow's key is what [`join`] makes of its value.
pub(crate) fn fits(joined: &[u8], value: &[u8]) -> Result<(), Rule> {
    let key = split(joined)?;
    let shown = joined.get(key.len() + SEPARATOR.len()..joined.len() - 1).ok_or(Rule::DupsortKey)?;
    let cut = joined.len() == MAX_KEY;
    let fits = if cut { value.starts_with(shown) } else { value == shown };
    if fits { Ok(()) } else { Err(Rule::DupsortKey) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        let long = vec![b'v'; 600];
        for (key, value, length) in [
            (&b"k"[..], &b"value"[..], 11),
            (b"k", b"", 6),
            (b"a\0\0\0\0b", b"\0\0\0\0", 15),
            (&long[..255], &long[..251], 511),
            (&long[..255], &long[..500], 511),
            (b"k", &long[..], 511),
        ] {
            let mut joined = Vec::new();
            assert!(join(key, value, &mut joined));
            assert_eq!(joined.len(), length);
            assert_eq!(split(&joined), Ok(key));
            assert_eq!(fits(&joined, value), Ok(()));
            assert_eq!(fits(&joined, b"other"), Err(Rule::DupsortKey));
        }
        let mut joined = Vec::new();
        assert!(!join(&long[..256], b"v", &mut joined));
        assert!(!join(b"", b"v", &mut joined));
    }

    #[test]
    fn foreign_keys_are_refused() {
        for joined in
            [&b""[..], b"\x01", b"k\x01", b"k\0\0\0\x01", b"k\0\0\0\x01v\x01", b"\0\0\0\0\0", b"k\0\0\0\0v\x09"]
        {
            assert_eq!(split(joined), Err(Rule::DupsortKey), "{joined:?}");
        }
    }
}
