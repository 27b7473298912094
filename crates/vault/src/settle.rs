//! Whose object is it? The answer to a refused or ambiguous write, from what stands in the store now.
//!
//! Everything that is written under a condition carries a nonce, so equal bytes mean: our own earlier attempt.

use bytes::Bytes;

use crate::Error;

/// What a read-back showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Our own write took effect.
    Ours,
    /// Another writer's object stands there.
    Theirs,
    /// Nothing stands there.
    Nobody,
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It took effect.
    Ours,
    /// Another writer was first (I9).
    Theirs,
    /// It did not take effect so far, and may be tried again.
    Open,
}

/// Whether the store said no to the condition.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. })
}

/// Whether only reading back tells what a write that ended so came to: a refusal can be due to an earlier attempt of
/// our own.
pub(crate) fn is_unclear(error: &Error) -> bool {
    is_refusal(error) || error.is_ambiguous()
}

/// What a write came to that ended in `error` (`None`: well), with `owner` standing there now; `unchanged` when that
/// is still the version which was to be replaced.
pub(crate) fn decide(error: Option<&Error>, owner: Owner, unchanged: bool) -> Settled {
    match owner {
        Owner::Ours => Settled::Ours,
        Owner::Theirs if unchanged => Settled::Open,
        Owner::Theirs => Settled::Theirs,
        // Gone is not the expected version either.
        Owner::Nobody if matches!(error, Some(Error::Precondition { .. })) => Settled::Theirs,
        Owner::Nobody => Settled::Open,
    }
}

/// How many bytes of a streamed object's beginning and end are kept to know it again: formats of ours carry a nonce
/// in the head and a checksum in the tail.
pub(crate) const SAMPLE: usize = 1024;

/// Whose object it is when all of ours is at hand.
pub(crate) fn whole(ours: &[u8], found: Option<&[u8]>) -> Owner {
    match found {
        None => Owner::Nobody,
        Some(found) if found == ours => Owner::Ours,
        Some(_) => Owner::Theirs,
    }
}

/// What is kept of a streamed object: its size, first and last bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    pub(crate) size: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl Sample {
    /// Takes the next bytes in.
    pub(crate) fn extend(&mut self, bytes: &Bytes) {
        self.size += bytes.len() as u64;
        let missing = SAMPLE.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..missing).unwrap_or_default());
        let fresh = bytes.get(bytes.len().saturating_sub(SAMPLE)..).unwrap_or_default();
        let stale = (self.tail.len() + fresh.len()).saturating_sub(SAMPLE);
        self.tail.drain(..stale.min(self.tail.len()));
        self.tail.extend_from_slice(fresh);
    }
}

/// Whose object it is when only samples are at hand.
pub(crate) fn sampled(ours: &Sample, found: Option<&Sample>) -> Owner {
    match found {
        None => Owner::Nobody,
        Some(found) if found == ours => Owner::Ours,
        Some(_) => Owner::Theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes: &[u8], chunk: usize) -> Sample {
        let mut sample = Sample::default();
        for part in bytes.chunks(chunk) {
            sample.extend(&Bytes::copy_from_slice(part));
        }
        sample
    }

    #[test]
    fn samples_do_not_depend_on_chunks() {
        for size in [0_usize, 1, 10, 1023, 1024, 1025, 3000, 70_000] {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let expected = Sample {
                size: size as u64,
                head: bytes[..size.min(SAMPLE)].to_vec(),
                tail: bytes[size.saturating_sub(SAMPLE)..].to_vec(),
            };
            for chunk in [1, 7, 1000, 1024, 5000, 100_000] {
                assert_eq!(sample(&bytes, chunk), expected, "{size} bytes by {chunk}");
            }
        }
    }

    #[test]
    fn what_a_write_came_to() {
        let object = || "x".to_owned();
        let exists = Error::AlreadyExists { object: object() };
        let changed = Error::Precondition { object: object() };
        let away = Error::Unavailable { object: object(), cause: String::new(), retryable: true };
        for (error, owner, unchanged, settled) in [
            (Some(&exists), Owner::Ours, false, Settled::Ours),
            (Some(&exists), Owner::Theirs, false, Settled::Theirs),
            (Some(&exists), Owner::Nobody, false, Settled::Open),
            (Some(&changed), Owner::Ours, false, Settled::Ours),
            (Some(&changed), Owner::Theirs, false, Settled::Theirs),
            (Some(&changed), Owner::Nobody, false, Settled::Theirs),
            (Some(&away), Owner::Ours, false, Settled::Ours),
            (Some(&away), Owner::Theirs, false, Settled::Theirs),
            (Some(&away), Owner::Theirs, true, Settled::Open),
            (Some(&away), Owner::Nobody, false, Settled::Open),
            (None, Owner::Ours, false, Settled::Ours),
            (None, Owner::Theirs, false, Settled::Theirs),
        ] {
            assert_eq!(decide(error, owner, unchanged), settled, "{error:?} {owner:?} {unchanged}");
        }
        assert!(is_unclear(&exists) && is_unclear(&away) && !is_refusal(&away));
        assert!(!is_unclear(&Error::Full { object: object(), cause: String::new() }));
    }

    #[test]
    fn owners() {
        assert_eq!(whole(b"a", None), Owner::Nobody);
        assert_eq!(whole(b"a", Some(b"a")), Owner::Ours);
        assert_eq!(whole(b"a", Some(b"ab")), Owner::Theirs);
        let ours = sample(&[1; 5000], 100);
        assert_eq!(sampled(&ours, None), Owner::Nobody);
        assert_eq!(sampled(&ours, Some(&sample(&[1; 5000], 999))), Owner::Ours);
        assert_eq!(sampled(&ours, Some(&sample(&[1; 5001], 999))), Owner::Theirs);
    }
}
