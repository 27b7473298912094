//! What does a point hold, without a restore? The index of a snapshot lists its DBIs with their sizes, and a digest of each piece.

use seawall_core::{Contents, Part, When};
use seawall_vault::{ObjectKey, Vault};

use super::plan;
use crate::error::Error;
use crate::peers::latest::{Listed, newest};
use crate::peers::transfer;
use crate::snapshot::index::{Index, Section};

/// What the point holds that `when` names, of the environment `database`. Parts are those of the newest snapshot, which holds what its instance
/// had merged from the others.
pub(crate) async fn contents(vault: &Vault, database: &str, listed: &[Listed], when: &When) -> Result<Contents, Error> {
    let wanted: Vec<_> = newest(&plan::until(listed, when), &Default::default()).into_values().collect();
    let latest = plan::latest(&wanted)
        .ok_or_else(|| Error::NothingThere { vault: vault.url().to_owned(), database: database.into() })?;
    let index = transfer::index(vault, &ObjectKey::new(&latest.key)?, latest.bytes).await?;
    let mut doubts = Vec::new();
    if index.is_none() {
        doubts.push(format!("{} has no index, which only Seawall writes, so that its DBIs aren't known", latest.key));
    }
    let parts: Vec<Part> = index.iter().flat_map(|index: &Index| &index.sections).map(part).collect();
    Ok(Contents {
        point: plan::point(latest),
        bytes: index.is_some().then(|| parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes))),
        objects: wanted.len() as u64,
        stored_bytes: wanted.iter().map(|snapshot| snapshot.bytes).sum(),
        parts,
        doubts,
    })
}

/// A DBI. Its pieces begin at the same keys wherever the data are the same, so their digests stand for its content.
fn part(section: &Section) -> Part {
    let mut hasher = blake3::Hasher::new();
    for piece in &section.pieces {
        hasher.update(&piece.raw.to_le_bytes()).update(&piece.content);
    }
    Part {
        name: String::from_utf8_lossy(&section.name).into_owned(),
        rows: None,
        bytes: section.pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(piece.raw)),
        digest: Some(hasher.finalize().as_bytes().to_vec()),
    }
}
