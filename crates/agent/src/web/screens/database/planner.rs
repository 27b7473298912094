//! The planner: what can be restored, which command restores a moment, and what proves it.

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Clock as _, Failure, Proof, SystemClock};

use super::{days, timeline};
use crate::figures::{bytes, span};
use crate::web::deed::Deed;
use crate::web::look::History;
use crate::web::plan::{self, Planned};
use crate::web::screens::{failure, time};

/// Objects of a plan that are listed.
const OBJECTS: usize = 20;

/// Proofs that are listed.
const PROOFS: usize = 5;

/// What the planner shows of a database.
pub(in crate::web) struct Shown<'a> {
    pub(in crate::web) prefix: &'a str,
    /// The fields of a query that name the database, with their values.
    pub(in crate::web) named: &'a [(&'a str, &'a str)],
    /// The moment that the visitor asks for.
    pub(in crate::web) at: Option<&'a str>,
    /// The plan for this moment.
    pub(in crate::web) planned: Option<&'a Result<Planned, Failure>>,
    pub(in crate::web) history: &'a History,
}

impl Shown<'_> {
    /// The beginning of a link that plans a restore: a moment or a position follows.
    fn link(&self) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let fields: String = self.named.iter().map(|(key, value)| format!("{key}={}&", encoded(value))).collect();
        format!("{}/database?{fields}at=", self.prefix)
    }
}

/// The timeline with the planner, which moves along it. `to_form` makes the link to the form of an action, where the visitor may act.
pub(in crate::web) fn restore(shown: &Shown<'_>, to_form: impl Fn(Deed, &str) -> Option<String>) -> Markup {
    let Shown { prefix, named, at, planned, history } = *shown;
    let link = shown.link();
    let reached = planned.and_then(|planned| planned.as_ref().ok()).map(|planned| planned.point.moment);
    html! {
        h2 #restore { "What can be restored" }
        @match &history.timeline {
            Ok(timeline) => (timeline::picture(timeline, reached)),
            Err(error) => (failure("The timeline can't be shown", error)),
        }
        form method="get" action={ (prefix) "/database#restore" } {
            @for (key, value) in named { input type="hidden" name=(key) value=(value); }
            div {
                label for="at" { "Moment" }
                input #at name="at" size="32" value=(at.unwrap_or("latest")) aria-describedby="at-help" autocomplete="off";
            }
            button { "Plan a restore" }
            p #at-help.quiet {
                "latest, a time such as 2026-11-21T10:00:00Z, “10 minutes ago”, or a position of the table. A plan restores nothing."
            }
        }
        @match planned {
            Some(Ok(planned)) => (plan_of(&link, planned, to_form)),
            Some(Err(error)) => (failure("There is no such restore", error)),
            None => {}
        }
        @if let Ok(timeline) = &history.timeline {
            (days::calendar(timeline, history.proofs.as_ref().map_or(&[], |(proofs, _)| proofs), &link, history.listed_at))
            (timeline::tables(timeline, &link))
            p.quiet { "Listed at " (time(history.listed_at)) "." }
        }
    }
}

fn plan_of(link: &str, planned: &Planned, to_form: impl Fn(Deed, &str) -> Option<String>) -> Markup {
    let Planned { point, read: (objects, size), objects: listed, doubts, command, has_gap } = planned;
    html! {
        div.card role="status" {
            h3 { "The plan" }
            dl {
                dt { "Reaches" } dd { time datetime=(point.moment) { (point.moment) } " (" code { (point.position) } ")" }
                dt { "Reads" } dd { (objects) " objects, " (bytes(*size)) }
            }
            p { "This command restores it beside the original:" }
            pre tabindex="0" { code { (command) } }
            @if *has_gap { p { "Name the new server and its user in it first." } }
            @for doubt in doubts { p { "Can't be told: " bdi { (doubt) } } }
            @for (deed, does) in [(Deed::Restore, "Restore this point beside the original"), (Deed::Pin, "Pin this point")] {
                @if let Some(form) = to_form(deed, &point.position) { p { a href=(form) { (does) } } }
            }
            nav.links aria-label="Along the timeline" {
                @for (name, at) in plan::steps(point.moment, SystemClock.now()) {
                    a href={ (link) (at) "#restore" } { (name) }
                }
            }
            @if !listed.is_empty() {
                details {
                    summary { "Objects that are read" }
                    ul {
                        @for object in listed.iter().rev().take(OBJECTS) { li { bdi { (object.key) } ", " (bytes(object.bytes)) } }
                        @if listed.len() > OBJECTS { li { "and " (listed.len() - OBJECTS) " older ones" } }
                    }
                }
            }
        }
    }
}

pub(in crate::web) fn of_proofs(history: &History) -> Markup {
    let one = |proof: &Proof| {
        html! {
            li {
                (time(proof.at)) ": "
                @if proof.holds() {
                    "restored " (bytes(proof.restored_bytes)) " in " (span(proof.restore_ms)) ", level " (proof.level.name())
                } @else {
                    (if proof.inconclusive { "couldn't be made" } else { "failed" })
                    @if let Some(fault) = proof.faults.first() { ": " bdi { (fault.object) } ": " bdi { (fault.cause) } }
                }
                ", on host " bdi { (proof.host) }
                @for doubt in &proof.doubts { div.quiet { "Can't be told: " bdi { (doubt) } } }
            }
        }
    };
    html! {
        h2 { "Proofs in the vault" }
        @match &history.proofs {
            Ok((proofs, doubts)) => {
                @if proofs.is_empty() { p { "None: no proof shows that it can be restored. " code { "seawall verify --restore" } " makes one." } }
                ul { @for proof in proofs.iter().take(PROOFS) { (one(proof)) } }
                @for doubt in doubts.iter().take(PROOFS) { p.quiet { bdi { (doubt) } } }
            }
            Err(error) => (failure("The proofs can't be read", error)),
        }
    }
}
