//! The timeline of a database: a picture, and tables that say the same.

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Hole, Moment, Point, Span, Timeline};

use crate::figures::bytes;
use crate::web::screens::{list::count, time};
use crate::web::svg::{self, WIDTH};

/// Ranges and holes that are listed, the newest ones.
const ROWS: usize = 50;

/// Pins that are listed.
const PINS: usize = 20;

/// The picture. `reached` is the moment of a plan.
pub(super) fn picture(timeline: &Timeline, reached: Option<Moment>) -> Markup {
    let bars = svg::bars(timeline, reached);
    let Some((first, last)) = bars.ends else { return html! { p.warn { "Nothing can be restored yet." } } };
    let told = format!(
        "{} that can be restored and {} from {first} to {last}",
        count(timeline.spans.len(), "range", "ranges"),
        count(timeline.holes.len(), "hole", "holes")
    );
    html! {
        svg role="img" aria-labelledby="timeline-t" viewBox={ "0 0 " (WIDTH) " 30" } preserveAspectRatio="none" {
            title #timeline-t { (told) }
            @for bar in &bars.spans { rect.span x=(bar.x) y="6" width=(bar.width) height="18" {} }
            @for bar in &bars.holes { rect.hole x=(bar.x) y="2" width=(bar.width) height="26" {} }
            @if let Some(x) = bars.mark { rect.at x=(x) y="0" width="3" height="30" {} }
        }
        p.quiet { (told) ". Holes are red, and higher than ranges." }
    }
}

/// A row of the table.
enum Row<'a> {
    Span(&'a Span),
    Hole(&'a Hole),
}

impl Row<'_> {
    fn ends(&self) -> (Option<&Point>, &Point) {
        match self {
            Self::Span(span) => (Some(&span.from), &span.to),
            Self::Hole(hole) => (hole.from.as_ref(), &hole.to),
        }
    }
}

/// The tables. `link` is the beginning of a link that plans a restore.
pub(super) fn tables(timeline: &Timeline, link: &str) -> Markup {
    let spans = timeline.spans.iter().map(Row::Span);
    let mut rows: Vec<Row<'_>> = spans.chain(timeline.holes.iter().map(Row::Hole)).collect();
    rows.sort_by_key(|row| {
        let (from, to) = row.ends();
        std::cmp::Reverse((to.moment, from.map_or(to.moment, |from| from.moment)))
    });
    let plan = |point: &Point| {
        let href = format!("{link}{}#restore", utf8_percent_encode(&point.position, NON_ALPHANUMERIC));
        html! { a href=(href) { (time(point.moment)) } div.quiet { code { (point.position) } } }
    };
    let note = |point: &Point| timeline.notes.iter().find(|note| note.position == point.position);
    html! {
        table role="table" {
            caption {
                "Ranges and holes, the newest first. A link plans the restore of that point."
                @if rows.len() > ROWS { " " (rows.len() - ROWS) " older ones aren't listed." }
            }
            thead role="rowgroup" {
                tr role="row" { @for name in ["What", "From", "To", "Points", "Note"] { th scope="col" role="columnheader" { (name) } } }
            }
            tbody role="rowgroup" {
                @for row in rows.iter().take(ROWS) {
                    @let (from, to) = row.ends();
                    tr role="row" {
                        @match row {
                            Row::Span(span) => {
                                th scope="row" role="rowheader" { "range" }
                                td role="cell" data-l="From" { (plan(&span.from)) }
                                td role="cell" data-l="To" { (plan(&span.to)) }
                                td role="cell" data-l="Points" { (span.points) }
                                td role="cell" data-l="Note" { @if let Some(note) = note(to) { bdi { (note.note) } } }
                            }
                            Row::Hole(hole) => {
                                th scope="row" role="rowheader" { span.b.bad { "✕ hole" } }
                                td role="cell" data-l="From" { @match from { Some(from) => (time(from.moment)), None => "the beginning" } }
                                td role="cell" data-l="To" { (time(to.moment)) }
                                td role="cell" data-l="Points" { "none" }
                                td role="cell" data-l="Note" { bdi { (hole.reason) } }
                            }
                        }
                    }
                }
            }
        }
        @if !timeline.pins.is_empty() {
            p {
                "Pinned: " @for pin in timeline.pins.iter().take(PINS) { code { (pin) } " " }
                @if timeline.pins.len() > PINS { "and " (timeline.pins.len() - PINS) " more" }
            }
        }
        details {
            summary { "Objects in the vault, by level" }
            ul { @for level in &timeline.levels { li { bdi { (level.level) } ": " (level.objects) " objects, " (bytes(level.bytes)) } } }
        }
    }
}
