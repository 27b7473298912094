//! One database: facts, alarms with their next steps, what can be restored, and the plan of a restore.

use hyper::StatusCode;
use maud::{Markup, PreEscaped, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Alarm, Figures, LastError, Severity, Status, Work};

use super::list::count;
use super::{Shows, Site, View, badge, curves, time};
use crate::figures::{bytes, span};
use crate::fleet::Seen;
use crate::http::Answer;
use crate::web::deed::Deed;
use crate::web::live::Parts;
use crate::web::look::Known;
use crate::web::page::{self, Content, Screen};
use crate::web::plan;
use crate::web::verdict;

mod days;
mod planner;
mod timeline;

pub(in crate::web) use self::planner::{Shown, of_proofs, restore};

/// The page. `at` is the moment whose restore is planned, if one is asked for.
pub(in crate::web) async fn answer(site: &Site<'_>, name: &str, at: Option<&str>) -> Answer {
    let Some(member) = site.look.actions().fleet().find(name) else {
        let next = "The process doesn't know this database, or not any more.";
        return page::refusal(site.prefix, StatusCode::NOT_FOUND, "No such database", next);
    };
    let known = site.look.known(&member).await;
    let at = at.map(str::trim).filter(|at| !at.is_empty());
    let planned = async {
        match at {
            Some(at) => Some(plan::plan(site.look, &member, at).await),
            None => None,
        }
    };
    let (history, planned) = tokio::join!(site.look.history(&member), planned);
    let parts = parts(&known);
    let name = member.config.name.clone();
    let view = View { prefix: site.prefix.to_owned(), shows: Shows::Database(name.clone()) };
    let live = Some(view.live(&parts));
    let part = |id: &str| {
        let found = parts.beside.iter().find(|(found, _)| found == id);
        PreEscaped(found.map_or("", |(_, html)| html))
    };
    let named = [("name", name.as_str())];
    let shown = Shown { prefix: site.prefix, named: &named, at, planned: planned.as_ref(), history: &history };
    let to_form = |deed: Deed, at: &str| {
        (site.form.is_some() && deed.suits(&member, false)).then(|| link_to_form(site.prefix, deed, &name, Some(at)))
    };
    let body = html! {
        (part("facts"))
        (part("alarms"))
        @if site.form.is_some() { (of_deeds(site.prefix, &member, &known)) }
        (restore(&shown, to_form))
        (of_proofs(&history))
        (part("curves"))
        (part("figures"))
    };
    site.page(&Content { screen: Screen::Database, title: name, live, body })
}

/// The parts that change.
pub(super) fn parts(known: &Known) -> Parts {
    let Known { status, figures, .. } = known;
    let beside = [
        ("facts", facts(known)),
        ("alarms", alarms(status)),
        ("curves", curves::of(known)),
        ("figures", of_figures(figures)),
    ];
    Parts { beside: beside.map(|(id, part)| (id.to_owned(), part.into_string())).into(), ..Parts::default() }
}

/// The parts of a database that isn't there any more.
pub(super) fn gone() -> Parts {
    let told = html! { div #facts { p.warn { "The process doesn't know this database any more." } } };
    Parts { beside: vec![("facts".into(), told.into_string())], ..Parts::default() }
}

fn facts(known: &Known) -> Markup {
    let status = &known.status;
    html! {
        dl #facts {
            dt { "State" } dd { (badge(&verdict::state(status))) }
            dt { "Protected up to" }
            dd {
                @match &status.protected {
                    Some(point) => { (time(point.moment)) " (" code { (point.position) } ")" }
                    None => "nothing yet",
                }
            }
            dt { "Lag" } dd { (verdict::lag(status)) }
            dt { "Last proof" } dd { (badge(&verdict::proof(status))) }
            @if let Some(due) = known.proof_due { dt { "Next proof due" } dd { (time(due)) } }
            @if let Some(seen) = status.vault_seen_at { dt { "Vault seen" } dd { (time(seen)) } }
            @if let Some(read) = status.content_read_at { dt { "Read back and right" } dd { (time(read)) } }
            @if let Some(progress) = &status.progress {
                dt { "Under way" }
                dd {
                    (progress.stage) ": " (bytes(progress.done_bytes))
                    @if let Some(total) = progress.total_bytes { " of " (bytes(total)) }
                }
            }
            dt { "Engine" } dd { (status.engine) }
            dt { "Source" } dd { bdi { (status.source) } }
            dt { "Size" } dd { @match status.source_bytes { Some(size) => (bytes(size)), None => "unknown" } }
            @if let Some(log) = status.log_bytes { dt { "Its log" } dd { (bytes(log)) } }
            dt { "Vault" }
            dd {
                @if status.vaults.is_empty() { bdi { (status.vault) } }
                @for vault in &status.vaults {
                    div { bdi { (vault.url) } ": " (if vault.in_step { "in step" } else { "behind" }) }
                }
            }
            @if let Some(until) = status.silenced_until { dt { "Alarms silenced until" } dd { (time(until)) } }
        }
    }
}

pub(in crate::web) fn alarms(status: &Status) -> Markup {
    let one = |alarm: &Alarm| {
        let (class, severity) = match alarm.severity {
            Severity::Critical => ("b bad", "✕ critical"),
            Severity::Warning => ("b warn", "! warning"),
        };
        html! {
            div.card {
                h3 { span class=(class) { (severity) } " " code { (alarm.code) } }
                p { bdi { (alarm.cause) } }
                p { "Next: " bdi { (alarm.next) } }
                p.quiet {
                    "Since " (time(alarm.since))
                    @if let Some(until) = alarm.silenced_until { ", silenced until " (time(until)) }
                }
            }
        }
    };
    let error = |what: &str, error: &LastError| {
        html! {
            div.card {
                h3 { (what) " " code { (error.code) } }
                p { bdi { (error.message) } }
                p { "Next: " bdi { (error.next) } }
                p.quiet { (time(error.at)) ", " (error.count) " since the last success" }
            }
        }
    };
    html! {
        section #alarms aria-labelledby="alarms-h" {
            h2 #alarms-h { "Alarms" }
            @if status.alarms.is_empty() { p { "None." } }
            @for alarm in &status.alarms { (one(alarm)) }
            @if let Some(last) = &status.error { (error("Last error", last)) }
            @if let Some(last) = &status.upkeep { (error("Last error of merging and deleting", last)) }
        }
    }
}

/// A link to the form of an action.
fn link_to_form(prefix: &str, deed: Deed, name: &str, at: Option<&str>) -> String {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let at = at.map_or_else(String::new, |at| format!("&at={}", encoded(at)));
    format!("{prefix}/confirm?do={}&name={}{at}", deed.word(), encoded(name))
}

/// What the visitor may ask for. Each link leads to a form that asks for the name.
fn of_deeds(prefix: &str, member: &Seen, known: &Known) -> Markup {
    let (name, is_silenced) = (&member.config.name, known.status.silenced_until.is_some());
    html! {
        h2 { "Actions" }
        nav.links aria-label="Actions" {
            @for deed in Deed::ALL.into_iter().filter(|deed| deed.suits(member, is_silenced)) {
                @let at = deed.takes_moment().then_some("latest");
                a href=(link_to_form(prefix, deed, name, at)) { (deed.title()) }
            }
        }
    }
}

fn of_figures(figures: &Figures) -> Markup {
    let total = |all: &[Work]| {
        all.iter().fold(Work::default(), |sum, work| Work {
            done: sum.done.saturating_add(work.done),
            failed: sum.failed.saturating_add(work.failed),
            bytes: sum.bytes.saturating_add(work.bytes),
            micros: sum.micros.saturating_add(work.micros),
        })
    };
    let rows = [
        ("Complete copies", figures.bases),
        ("Captures shipped", figures.captures),
        ("Checkpoints", figures.checkpoints),
        ("Merges", total(&figures.compactions)),
        ("Objects deleted", total(&figures.deletions)),
        ("Restores", figures.restores),
        ("Verifications", figures.verifications),
    ];
    let requests = figures.requests;
    html! {
        section #figures aria-labelledby="figures-h" {
            h2 #figures-h { "Since the process began" }
            table role="table" {
                caption { "Work on this database. " (count(usize::try_from(requests.failures).unwrap_or(usize::MAX), "request", "requests")) " to its vault failed." }
                thead role="rowgroup" {
                    tr role="row" { @for name in ["Work", "Done", "In vain", "Bytes", "Time"] { th scope="col" role="columnheader" { (name) } } }
                }
                tbody role="rowgroup" {
                    @for (name, work) in rows {
                        tr role="row" {
                            th scope="row" role="rowheader" { (name) }
                            td role="cell" data-l="Done" { (work.done) }
                            td role="cell" data-l="In vain" { (work.failed) }
                            td role="cell" data-l="Bytes" { (bytes(work.bytes)) }
                            td role="cell" data-l="Time" { (span(work.micros / 1000)) }
                        }
                    }
                }
            }
        }
    }
}
