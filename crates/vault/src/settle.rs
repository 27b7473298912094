//! Whose object is it? Answers that after a refused or ambiguous write, from the object that is in the store now.
//!
//! Every conditional write carries a nonce. So equal bytes are an earlier attempt of ours.

use bytes::Bytes;

use crate::Error;

/// The result of a read-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Our own write took effect.
    Ours,
    /// The object is another writer's.
    Theirs,
    /// There is no object.
    Nobody,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It took effect.
    Ours,
    /// Another writer was first (I9).
    Theirs,
    /// It has not taken effect, and may be retried.
    Open,
}

/// Whether the store refused because of the condition.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. })
}

/// Whether only a read-back tells the result of a write that ended in `error`. A refusal may be due to an earlier
/// attempt of ours.
pub(crate) fn is_unclear(error: &Error) -> bool {
    is_refusal(error) || error.is_ambiguous()
}

/// The result of a write that ended in `error` (`None`: success), when the object there now is `owner`'s. `unchanged`
/// says that it is still the version that was to be replaced.
pub(crate) fn decide(error: Option<&Error>, owner: Owner, unchanged: bool) -> Settled {
    match owner {
        Owner::Ours => Settled::Ours,
        Owner::Theirs if unchanged => Settled::Open,
        Owner::Theirs => Settled::Theirs,
        // An object that is gone isn't the expected version either.
        Owner::Nobody if matches!(error, Some(Error::Precondition { .. })) => Settled::Theirs,
        Owner::Nobody => Settled::Open,
    }
}

/// How many bytes of a streamed object's beginning and end are kept to know it again: formats of ours carry a nonce
/// in the head and a checksum in the tail.
pub(crate) const SAMPLE: usize = 1024;

/// The owner, when all of our bytes are at hand.
pub(crate) fn whole(ours: &[u8], found: Option<&[u8]>) -> Owner {
    match found {
        None => Owner::Nobody,
        Some(found) if found == ours => Owner::Ours,
        Some(_) => Owner::Theirs,
    }
}

/// The part of a streamed object that is kept: its size, its first and its last bytes.
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

/// The owner, when only samples are at hand.
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
