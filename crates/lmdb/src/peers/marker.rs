//! The update marker: one small object that changes with every write. While it doesn't change, instances don't need to
//! list the vault.
//!
//! Either all instances of a bucket use the marker, or none: others find an object that was written without it only
//! when they list anyway.

use std::time::Duration;

use crate::Stamp;

/// Its name in the vault.
pub(crate) const NAME: &str = "update-marker";

/// The most bytes that a marker may have.
pub(crate) const MOST: u64 = 4096;

/// How the marker is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The prefix of names in the bucket.
    pub prefix: String,
    /// List after this time even if the marker didn't change.
    pub force: Duration,
}

impl Marker {
    /// The marker's content after an object was written or deleted. Readers compare contents, so the object's version
    /// isn't in it.
    pub(crate) fn text(&self, key: &str, now: Stamp, deleted: bool) -> String {
        format!("{}{key}::{}:{deleted}", self.prefix, now.0)
    }

    /// Whether the last listing still holds: it was made under the same marker, and isn't too old.
    pub(crate) fn holds(&self, found: Option<&[u8]>, last: Option<&[u8]>, since: Duration) -> bool {
        found.is_some() && found == last && since < self.force
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_listing_is_spared() {
        let marker = Marker { prefix: "p/".to_owned(), force: Duration::from_secs(300) };
        let text = marker.text("main__a.pb.gz", Stamp(7), false);
        assert_eq!(text, "p/main__a.pb.gz::7:false");
        let (same, other) = (Some(&b"x"[..]), Some(&b"y"[..]));
        for (found, last, seconds, holds) in [
            (same, same, 299, true),
            (same, same, 300, false),
            (same, other, 1, false),
            (same, None, 1, false),
            (None, None, 1, false),
            (None, same, 1, false),
        ] {
            assert_eq!(marker.holds(found, last, Duration::from_secs(seconds)), holds);
        }
    }
}
