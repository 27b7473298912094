//! A calendar of the last weeks. Each day leads to the plan of its last point.

use maud::{Markup, html};
use seawall_core::{Moment, Proof, Timeline};

use crate::web::calendar::{Day, days};
use crate::web::screens::list::count;

/// The calendar. `link` is the beginning of a link that plans a restore.
pub(super) fn calendar(timeline: &Timeline, proofs: &[Proof], link: &str, now: Moment) -> Markup {
    html! {
        section aria-labelledby="days-h" {
            h3 #days-h { "The last weeks, from Monday to Sunday" }
            p.quiet { "A link plans the restore of the last point of a day. ✓ a proof holds, ✕ a hole or a failed proof." }
            ol.days { @for day in days(timeline, proofs, now) { (one(&day, link)) } }
        }
    }
}

fn one(day: &Day, link: &str) -> Markup {
    let date = day.date();
    let number = date.get(8..).unwrap_or_default();
    let class = match (day.is_restorable, day.holes) {
        (_, 1..) => "bad",
        (true, 0) => "good",
        (false, 0) => "dim",
    };
    let told = told(day);
    html! {
        li class=(class) {
            @match day.is_restorable {
                true => a href={ (link) (day.end()) "#restore" } aria-label={ (date) ": " (told) } title=(told) { (number) },
                false => span title=(told) { (number) span.off { ": " (told) } }
            }
            span aria-hidden="true" {
                @if day.proofs > 0 { " ✓" }
                @if day.holes + day.failed > 0 { " ✕" }
            }
        }
    }
}

/// The same in words.
fn told(day: &Day) -> String {
    let points = match (day.is_restorable, day.has_more, day.points) {
        (false, ..) => "nothing to restore".to_owned(),
        (true, true, _) => "can be restored".to_owned(),
        (true, false, points) => format!("can be restored, {}", number_of(points, "point", "points")),
    };
    let more = [
        (day.holes, "hole", "holes"),
        (day.proofs, "proof that holds", "proofs that hold"),
        (day.failed, "failed proof", "failed proofs"),
    ];
    let more = more.into_iter().filter(|(many, ..)| *many > 0).map(|(many, one, more)| number_of(many, one, more));
    std::iter::once(points).chain(more).collect::<Vec<_>>().join(", ")
}

fn number_of(many: u64, one: &str, more: &str) -> String {
    count(usize::try_from(many).unwrap_or(usize::MAX), one, more)
}
