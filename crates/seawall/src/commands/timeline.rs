//! `seawall timeline`: shows the points that can be restored.

use seawall_agent::{Proofs, beyond};
use seawall_core::{Clock as _, Failure, Kind, SystemClock, Timeline, When};
use serde_json::json;

use crate::arguments::SourceArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::source::Source;
use crate::{runtime, table};

/// Proofs that are shown.
const PROOFS: usize = 5;

/// Runs the command.
pub(crate) fn run(arguments: &SourceArguments, edge: &Edge) -> Result<Output, Failure> {
    let source = Source::find(&arguments.source, &arguments.config, edge)?.past(&arguments.past)?;
    let opener = edge.opener(runtime::working())?;
    let (told, vault, timeline, is_whole) = runtime::run(async {
        let (source, told) = source.newest(&opener, &When::Latest).await?;
        let (vault, engine) = source.open_with_vault(&opener).await?;
        let listed = SystemClock.now();
        let timeline = engine.history().timeline().await?;
        let described = engine.describe();
        let mut recorded = Proofs::of(vault, &described).newest(PROOFS).await?;
        let gone = beyond(&recorded.proofs, timeline.newest(), listed, &described.vault);
        recorded.doubts.extend(gone.map(|failure| format!("{} [{}]", failure.cause, failure.code)));
        let is_whole = timeline.doubts.is_empty();
        let doubts = timeline.doubts.iter().cloned().chain(recorded.doubts).collect();
        let timeline = Timeline { proofs: recorded.proofs, doubts, ..timeline };
        Ok::<_, Failure>((told, described.vault, timeline, is_whole))
    })?;
    if timeline.spans.is_empty() && timeline.levels.iter().all(|level| level.objects == 0) {
        return Err(nothing(&vault));
    }
    let mut document = to_json(&timeline);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(vault));
    }
    let output = Output::done(told + &render(&timeline), &document);
    Ok(Output { exit: Exit::judge(true, is_whole), ..output })
}

/// The vault is there and holds nothing.
pub(crate) fn nothing(vault: &str) -> Failure {
    Failure::new(
        Kind::NotFound,
        "command.empty-vault",
        vault,
        "there is nothing to restore here",
        "check the place; a vault with several databases has each below its name",
    )
}

fn render(timeline: &Timeline) -> String {
    let note = |position: &str| {
        let found = timeline.notes.iter().find(|note| note.position == position);
        found.map_or_else(String::new, |found| found.note.clone())
    };
    let spans = timeline.spans.iter().map(|span| {
        (
            (span.from.moment, span.to.moment),
            vec![
                span.from.moment.to_string(),
                span.to.moment.to_string(),
                format!("{} to {}", span.from.position, span.to.position),
                span.points.to_string(),
                note(&span.to.position),
            ],
        )
    });
    let holes = timeline.holes.iter().map(|hole| {
        let from = hole.from.as_ref();
        (
            (from.map_or(hole.to.moment, |point| point.moment), hole.to.moment),
            vec![
                from.map_or("-".into(), |point| point.moment.to_string()),
                hole.to.moment.to_string(),
                format!("{} to {}", from.map_or("-", |point| &point.position), hole.to.position),
                "hole".into(),
                hole.reason.clone(),
            ],
        )
    });
    let mut rows: Vec<_> = spans.chain(holes).collect();
    rows.sort_by_key(|(moments, _)| *moments);
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    let ranges = table::table(&["from", "to", "positions", "points", ""], rows, &[3]);
    let row = |level: &seawall_core::LevelSummary| {
        vec![level.level.clone(), level.objects.to_string(), table::bytes(level.bytes)]
    };
    let levels = table::table(&["level", "objects", "size"], timeline.levels.iter().map(row).collect(), &[1, 2]);
    let pins =
        if timeline.pins.is_empty() { String::new() } else { format!("\npinned: {}\n", timeline.pins.join(", ")) };
    format!("{ranges}\n{levels}{pins}{}", proofs(timeline))
}

/// The newest proofs, and what is wrong with their records.
fn proofs(timeline: &Timeline) -> String {
    let proofs = timeline.proofs.iter().map(|proof| super::prove::line(proof) + "\n");
    let doubts = timeline.doubts.iter().map(|doubt| format!("{doubt}\n"));
    let lines: String = proofs.chain(doubts).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Hole, LevelSummary, Moment, Note, Point, Span};

    use super::*;

    fn point(n: i64) -> Point {
        Point { position: format!("{n:016x}"), moment: Moment::from_millis(n * 1000) }
    }

    #[test]
    fn holes_stand_between_the_ranges() {
        let timeline = Timeline {
            spans: vec![
                Span { from: point(1), to: point(3), points: 3 },
                Span { from: point(9), to: point(9), points: 1 },
            ],
            holes: vec![Hole {
                from: Some(point(3)),
                to: point(9),
                reason: "the WAL was replaced".into(),
                restored: false,
            }],
            levels: vec![LevelSummary { level: "0".into(), objects: 4, bytes: 4096 }],
            pins: vec!["0000000000000003".into()],
            notes: vec![Note { position: "0000000000000009".into(), note: "it is odd".into() }],
            proofs: Vec::new(),
            doubts: vec!["seawall/proofs/x.json: left out".into()],
        };
        assert_eq!(
            render(&timeline),
            "from                      to                        positions                             points\n\
             1970-01-01T00:00:01.000Z  1970-01-01T00:00:03.000Z  0000000000000001 to 0000000000000003       3\n\
             1970-01-01T00:00:03.000Z  1970-01-01T00:00:09.000Z  0000000000000003 to 0000000000000009    hole  the WAL was replaced\n\
             1970-01-01T00:00:09.000Z  1970-01-01T00:00:09.000Z  0000000000000009 to 0000000000000009       1  it is odd\n\
             \n\
             level  objects     size\n\
             0            4  4.0 KiB\n\
             \n\
             pinned: 0000000000000003\n\
             \n\
             seawall/proofs/x.json: left out\n"
        );
    }
}
