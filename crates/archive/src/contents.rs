//! Tells what a set holds without a restore: its index counts the rows and bytes of each table.

use seawall_core::{Contents, Part, When};
use seawall_vault::Vault;

use crate::{Catalog, Content, Error, Index, Item, SetReader, point};

/// What the set holds that `when` names.
///
/// # Errors
/// When there is no such set, or its index can't be read.
pub(crate) async fn contents(vault: &Vault, when: &When) -> Result<Contents, Error> {
    let catalog = Catalog::read(vault).await?;
    let reader = SetReader::open(vault.clone(), catalog.find(when)?.clone()).await?;
    let manifest = reader.manifest();
    let mut doubts = Vec::new();
    if manifest.artefact.is_some() {
        doubts.push("the set holds a file of the vendor's tool, whose tables aren't listed".to_owned());
    }
    doubts.extend(manifest.doubt_of_sample());
    Ok(Contents {
        point: point(manifest),
        bytes: Some(manifest.totals.raw),
        objects: manifest.objects(),
        stored_bytes: manifest.totals.stored.saturating_add(manifest.index.bytes),
        parts: manifest.artefact.is_none().then(|| parts(reader.index())),
        merged: false,
        doubts,
    })
}

/// The tables with their rows and bytes. In a set of a whole server, the database stands before the name. Items without rows are left out:
/// they hold definitions, and what a restore needs to know.
fn parts(index: &Index) -> Vec<Part> {
    let name = |item: &Item| item.database.iter().chain([&item.name]).map(String::as_str).collect::<Vec<_>>().join(".");
    let has_rows = |item: &Item| matches!(item.content, Content::Lines | Content::Tuples);
    let empty = |item: &Item| Part { name: name(item), rows: Some(0), bytes: 0, digest: None };
    let mut parts: Vec<Option<Part>> = index.items.iter().map(|item| has_rows(item).then(|| empty(item))).collect();
    for frame in index.chunks.iter().flat_map(|chunk| &chunk.frames) {
        let part = usize::try_from(frame.item).ok().and_then(|item| parts.get_mut(item));
        let Some(Some(part)) = part else { continue };
        part.rows = part.rows.map(|rows| rows.saturating_add(frame.rows));
        part.bytes = part.bytes.saturating_add(frame.raw);
    }
    parts.into_iter().flatten().collect()
}
