//! Digests of whole databases: what a database held at a point, by its pages, read from the database itself.
//!
//! An LTX file has no digest of the whole database. Two could stand in its trailer and header; Litestream refuses files with them. So
//! the digest is an object of its own. The process that protects writes one before it proves the database (`protect::content`), and a
//! proof compares what it restored with it.

use bytes::Bytes;
use seawall_ltx::Txid;
use seawall_vault::{Digest, ObjectKey, Prefix, Vault};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::identity::Tag;
use crate::layout::{SUMS, mark_key, parse_mark};

/// Anything larger is no digest of ours (I11).
const MAX_SIZE: u64 = 1 << 10;

/// How many digests are kept. An older one is of a point that merging took, or soon will.
const KEPT: usize = 8;

/// The format of the object; see `docs/formats.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sum {
    format: u32,
    /// The BLAKE3 of the pages.
    blake3: String,
    /// Names the point's branch of the history.
    tag: Option<Tag>,
}

impl Sum {
    /// Reads the object; `None` if it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let sum = serde_json::from_slice::<Self>(bytes).ok()?;
        (sum.format == 1 && sum.blake3.parse::<Digest>().is_ok()).then_some(sum)
    }

    /// The digest, if the object is of the point with this tag. Where one side has no tag, the TXID alone tells.
    pub(crate) fn of(&self, tag: Option<Tag>) -> Option<Digest> {
        let is_other = self.tag.zip(tag).is_some_and(|(ours, theirs)| ours != theirs);
        self.blake3.parse().ok().filter(|_| !is_other)
    }
}

/// Records what the database held at a point, and removes the oldest records.
pub(crate) async fn record(vault: &Vault, txid: Txid, tag: Option<Tag>, digest: Digest) -> Result<(), Error> {
    let sum = Sum { format: 1, blake3: digest.to_string(), tag };
    let bytes = serde_json::to_vec(&sum).map_err(|e| Error::Internal(e.to_string()))?;
    match vault.create(&mark_key(SUMS, txid), Bytes::from(bytes), None).await {
        // What was recorded of the point first stays.
        Ok(_) | Err(seawall_vault::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let known = match list(vault).await {
        Err(Error::Vault(seawall_vault::Error::Denied { .. })) => return Ok(()),
        known => known?,
    };
    let old: Vec<ObjectKey> = outdated(&known).iter().map(|txid| mark_key(SUMS, *txid)).collect();
    match vault.delete(&old).await {
        Ok(()) | Err(seawall_vault::Error::Denied { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Those of the recorded points, ascending, whose digests are removed.
fn outdated(known: &[Txid]) -> &[Txid] {
    &known[..known.len().saturating_sub(KEPT)]
}

/// The points of which there are digests, ascending.
pub(crate) async fn list(vault: &Vault) -> Result<Vec<Txid>, Error> {
    let entries = vault.list(&Prefix::new(SUMS)?, None).await?;
    let mut found: Vec<Txid> = entries.iter().filter_map(|entry| parse_mark(SUMS, entry.key.as_str())).collect();
    found.sort_unstable();
    Ok(found)
}

/// What was recorded of a point; `None` if there is nothing, or it can't be read as a digest.
pub(crate) async fn at(vault: &Vault, txid: Txid) -> Result<Option<Sum>, Error> {
    match vault.read(&mark_key(SUMS, txid), None, MAX_SIZE).await {
        Ok(bytes) => Ok(Sum::parse(&bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(seawall_vault::Error::TooLarge { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use seawall_ltx::{Header, PageSize};

    use super::*;

    fn tag(commit: u32) -> Option<Tag> {
        let size = PageSize::new(512).expect("a page size");
        Some(Tag::of(&Header::new(size, commit, Txid(2), Txid(2))))
    }

    #[test]
    fn a_digest_is_of_one_branch_of_the_history() {
        let digest = Digest::of(b"pages");
        for (ours, theirs, fits) in
            [(tag(1), tag(1), true), (tag(1), tag(2), false), (None, tag(2), true), (tag(1), None, true)]
        {
            let sum = Sum { format: 1, blake3: digest.to_string(), tag: ours };
            let read = Sum::parse(&serde_json::to_vec(&sum).expect("written")).expect("read");
            assert_eq!((read.of(theirs), &read), (fits.then_some(digest), &sum), "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn what_is_no_digest() {
        let digest = Digest::of(b"pages").to_string();
        for text in [
            String::new(),
            "{}".to_owned(),
            format!("{{\"format\":2,\"blake3\":\"{digest}\",\"tag\":1}}"),
            format!("{{\"format\":1,\"blake3\":\"{digest}\",\"tag\":0}}"),
            "{\"format\":1,\"blake3\":\"7\",\"tag\":1}".to_owned(),
        ] {
            assert_eq!(Sum::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_few_are_kept() {
        let known: Vec<Txid> = (1..=11).map(Txid).collect();
        for (count, gone) in [(0, 0), (8, 0), (9, 1), (11, 3)] {
            assert_eq!(outdated(&known[..count]), &known[..gone]);
        }
    }
}
