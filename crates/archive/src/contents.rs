//! What does a set hold, without a restore? Its index counts the rows and bytes of each item.

use seawall_core::{Contents, Part, When};
use seawall_vault::Vault;

use crate::{Catalog, Error, Index, SetReader, point};

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
        parts: parts(reader.index()),
        doubts,
    })
}

/// The items with their rows and bytes. In a set of a whole server, the database stands before the name.
fn parts(index: &Index) -> Vec<Part> {
    let mut parts: Vec<Part> = index
        .items
        .iter()
        .map(|item| Part {
            name: item.database.iter().chain([&item.name]).map(String::as_str).collect::<Vec<_>>().join("."),
            rows: Some(0),
            bytes: 0,
            digest: None,
        })
        .collect();
    for frame in index.chunks.iter().flat_map(|chunk| &chunk.frames) {
        let Some(part) = usize::try_from(frame.item).ok().and_then(|item| parts.get_mut(item)) else { continue };
        part.rows = part.rows.map(|rows| rows.saturating_add(frame.rows));
        part.bytes = part.bytes.saturating_add(frame.raw);
    }
    parts
}
