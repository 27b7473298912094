//! What can be restored: each set is a point of its own. Seawall knows no state between two sets.

use seawall_core::{LevelSummary, Moment, Note, Point, Span, Timeline};

use crate::{Catalog, Manifest};

/// The point that a set restores to.
pub fn point(manifest: &Manifest) -> Point {
    Point { position: manifest.id.to_string(), moment: manifest.point }
}

/// What to say of a set whose clock told such a moment.
pub(crate) fn note_of_misdated(said: Moment) -> String {
    format!("the clock of its host was wrong: it told {said}, and the moment here is that of the store's clock")
}

/// The sets of a vault as a timeline: one span of one point for each set, because no set holds a state between two
/// backups. A set that is missing from the chain and wasn't retired is a hole with its code.
pub fn timeline(catalog: &Catalog) -> Timeline {
    let sets = catalog.sets();
    let spans =
        sets.iter().map(|(_, manifest)| Span { from: point(manifest), to: point(manifest), points: 1 }).collect();
    let levels = if sets.is_empty() {
        Vec::new()
    } else {
        let totals = || sets.iter().map(|(_, manifest)| manifest.totals);
        vec![LevelSummary {
            level: "sets".to_owned(),
            objects: totals().map(|totals| totals.chunks + 2).sum(),
            bytes: totals().map(|totals| totals.stored).sum(),
        }]
    };
    let note = |manifest: &Manifest| {
        let artefact = manifest.artefact.as_ref().map(|format| format!("as the vendor's own tool writes it: {format}"));
        let sample = manifest.sample.map(|sample| format!("no backup: a sample of {sample} of the rows"));
        Some(Note { position: manifest.id.to_string(), note: artefact.or(sample)? })
    };
    let notes = sets.iter().filter_map(|(_, manifest)| note(manifest));
    let misdated = catalog.misdated().map(|(id, said)| Note { position: id.to_string(), note: note_of_misdated(said) });
    let notes = notes.chain(misdated).collect();
    Timeline { spans, levels, holes: catalog.missing(), notes, ..Timeline::default() }
}
