//! Are the newest links of a chain still there?
//!
//! The number of links doesn't tell: after an older copy took the vault's place, the next backup gives the number of a lost link to
//! another one. A listing alone doesn't tell either: it may be stale. So the process remembers the newest link that it saw, and reads
//! that link again by its name.

use seawall_core::LastError;
use seawall_vault::Vault;

use crate::layout::{self, Name};
use crate::{Catalog, Digest, Error, SetId, catalog};

/// How many links are read by name behind those that a listing shows.
const UNLISTED: u64 = 20;

/// A link, as this process saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number.
    pub(crate) number: u64,
    /// The digest of its bytes; `None` where no key at hand opens it.
    pub(crate) blake3: Option<Digest>,
    /// The set that it counts, if it is one of a set.
    pub(crate) set: Option<SetId>,
}

impl Seen {
    /// Whether this is that link, as far as both tell.
    fn is(&self, other: &Self) -> bool {
        let digests = self.blake3.zip(other.blake3).map(|(one, other)| one == other);
        let sets = || self.set.zip(other.set).is_none_or(|(one, other)| one == other);
        self.number == other.number && digests.unwrap_or_else(sets)
    }
}

/// A loss of links that was told.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    pub(crate) error: LastError,
    /// The newest link that is gone.
    pub(crate) gone: Seen,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// The newest link now.
    pub(crate) newest: Option<Seen>,
    /// The newest link that is gone; `None` if all are there.
    pub(crate) gone: Option<Seen>,
}

/// What stands where a link was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    /// The link.
    Same,
    /// Another link.
    Another,
    /// No link, and this is whether the chain accounts for that: its set was retired and deleted, or a user acknowledged it.
    Nothing(bool),
}

impl There {
    fn is_lost(self) -> bool {
        match self {
            Self::Same => false,
            Self::Another => true,
            Self::Nothing(accounted_for) => !accounted_for,
        }
    }
}

/// Which link is gone, if one is. `known` is the newest link that was seen, with what stands there now. `made` is the set of a backup
/// that was made since, with whether a link names it now.
fn gone(known: Option<(Seen, There)>, made: Option<(SetId, bool)>) -> Option<Seen> {
    let behind = known.map_or(0, |(known, _)| known.number).saturating_add(1);
    let unnamed = made.filter(|(_, is_named)| !is_named);
    let unnamed = unnamed.map(|(set, _)| Seen { number: behind, blake3: None, set: Some(set) });
    unnamed.or_else(|| known.filter(|(_, there)| there.is_lost()).map(|(known, _)| known))
}

/// Looks at the newest links: one listing, the link that was known, and what is newer. `made` is the set of a backup that was made
/// since the last look.
pub(crate) async fn look(vault: &Vault, known: Option<Seen>, made: Option<SetId>) -> Result<Look, Error> {
    let listed = newest_number(vault).await?;
    let at_known = match known {
        Some(known) => Some((known, there(vault, &known).await?)),
        None => None,
    };
    let mut newest = at_known.filter(|(_, there)| *there == There::Same).map(|(known, _)| known);
    if newest.is_none_or(|newest| newest.number < listed) {
        newest = catalog::seen(vault, listed).await?.or(newest);
    }
    let Some(set) = made else { return Ok(Look { newest, gone: gone(at_known, None) }) };
    // The listing may be from before the backup.
    let names = |newest: &Option<Seen>| newest.is_some_and(|newest| newest.set == Some(set));
    let mut next = listed.max(known.map_or(0, |known| known.number));
    for _ in 0..UNLISTED {
        next = next.saturating_add(1);
        if names(&newest) {
            break;
        }
        let Some(link) = catalog::seen(vault, next).await? else { break };
        newest = Some(link);
    }
    // Other hosts may have added links since, or this one a retirement.
    let is_named = names(&newest) || Catalog::read(vault).await?.known().any(|known| known == set);
    Ok(Look { newest, gone: gone(at_known, Some((set, is_named))) })
}

/// Whether a link that was gone is there again.
pub(crate) async fn is_back(vault: &Vault, gone: &Seen) -> Result<bool, Error> {
    Ok(catalog::seen(vault, gone.number).await?.is_some_and(|link| link.is(gone)))
}

async fn there(vault: &Vault, known: &Seen) -> Result<There, Error> {
    Ok(match catalog::seen(vault, known.number).await? {
        Some(link) if link.is(known) => There::Same,
        Some(_) => There::Another,
        None => There::Nothing(Catalog::read(vault).await?.accounts_for(known)),
    })
}

/// The number of the newest link that a listing shows, or 0. Makes one request for each thousand links.
async fn newest_number(vault: &Vault) -> Result<u64, Error> {
    let listed = vault.list(&layout::chain()?, None).await?;
    let numbers = listed.iter().filter_map(|entry| match Name::parse(&entry.key) {
        Some(Name::Link(number)) => Some(number),
        _ => None,
    });
    Ok(numbers.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    fn id(number: u32) -> SetId {
        SetId::new(Moment::from_millis(1000), number)
    }

    fn seen(number: u64, bytes: &[u8]) -> Seen {
        Seen { number, blake3: Some(Digest::of(bytes)), set: Some(id(1)) }
    }

    #[test]
    fn which_link_is_gone() {
        use There::{Another, Nothing, Same};
        let known = |there| Some((seen(3, b"a"), there));
        for (at_known, made, expected) in [
            (None, None, None),
            (None, Some(true), None),
            // The chain vanished with the first backup.
            (None, Some(false), Some(1)),
            (known(Same), None, None),
            (known(Same), Some(true), None),
            (known(Same), Some(false), Some(4)),
            // A backup took the number of a link that is gone.
            (known(Another), None, Some(3)),
            (known(Another), Some(true), Some(3)),
            (known(Nothing(false)), None, Some(3)),
            (known(Nothing(false)), Some(false), Some(4)),
            // Another process retired and deleted it, or a user knows.
            (known(Nothing(true)), None, None),
            (known(Nothing(true)), Some(true), None),
        ] {
            let number = gone(at_known, made.map(|is_named| (id(2), is_named))).map(|gone| gone.number);
            assert_eq!(number, expected, "{at_known:?} {made:?}");
        }
    }

    #[test]
    fn links_are_told_apart_by_what_is_known_of_both() {
        let link = seen(3, b"a");
        let sealed = Seen { blake3: None, set: None, ..link };
        let unread = Seen { blake3: None, ..link };
        for (one, other, expected) in [
            (link, link, true),
            (link, seen(4, b"a"), false),
            (link, seen(3, b"b"), false),
            (link, sealed, true),
            (sealed, sealed, true),
            (unread, link, true),
            (unread, Seen { set: Some(id(2)), ..link }, false),
        ] {
            assert_eq!((one.is(&other), other.is(&one)), (expected, expected), "{one:?} {other:?}");
        }
    }
}
