//! What the process does now, beside shipping changes, and what it did.

use maud::{Markup, PreEscaped, html};
use seawall_core::{LastError, Moment, Outcome, Task, Underway};

use super::{Shows, Site, View, badge, failure, link_to, time};
use crate::control::Errand;
use crate::figures::{bytes, span};
use crate::http::Answer;
use crate::web::live::Parts;
use crate::web::look::{Known, Look};
use crate::web::page::{Content, Screen};
use crate::web::verdict::{Badge, Tone};

/// Tasks that are listed.
const ROWS: usize = 100;

/// The page. `asked` is the number of what the visitor asked for.
pub(in crate::web) async fn answer(site: &Site<'_>, asked: Option<u64>) -> Answer {
    let view = View { prefix: site.prefix.to_owned(), shows: Shows::Activity(asked) };
    let parts = view.parts(site.look).await;
    let part = |id: &str| {
        let found = parts.beside.iter().chain(&parts.holder).find(|(name, _)| name == id);
        PreEscaped(found.map_or("", |(_, html)| html))
    };
    let body = html! {
        (part("asked"))
        h2 { "Now" }
        (part("now"))
        h2 { "Before" }
        table role="table" {
            caption { "What ended since the process began, the newest first: of each kind the newest 40 at most." }
            thead role="rowgroup" {
                tr role="row" { @for name in ["Began", "What", "Database", "Took", "Result"] { th scope="col" role="columnheader" { (name) } } }
            }
            (part("past"))
        }
    };
    let live = Some(view.live(&parts));
    site.page(&Content { screen: Screen::Activity, title: "Activity".to_owned(), live, body })
}

/// The parts that change.
pub(super) fn parts(prefix: &str, look: &Look, all: &[Known], asked: Option<u64>, now: Moment) -> Parts {
    let (running, past) = look.actions().journal().tasks();
    let held: Vec<(String, String)> =
        past.iter().take(ROWS).map(|task| (format!("t{}", task.number), row(prefix, task).into_string())).collect();
    let holder = html! { tbody #past role="rowgroup" { @for (_, row) in &held { (PreEscaped(row)) } } };
    let errand = asked.and_then(|number| look.actions().errands().get(number));
    let asked = html! { div #asked role="status" { @if let Some(errand) = &errand { (of_errand(prefix, errand)) } } };
    let beside = [("asked", asked), ("now", under_way(prefix, &running, all, now))];
    Parts {
        holder: Some(("past".to_owned(), holder.into_string())),
        held,
        beside: beside.map(|(id, part)| (id.to_owned(), part.into_string())).into(),
    }
}

/// What a visitor asked for, and what came of it.
fn of_errand(prefix: &str, errand: &Errand) -> Markup {
    let Errand { what, database, asked, ended, .. } = errand;
    html! {
        div.card {
            h2 { "You asked: " (what) " of " a href=(link_to(prefix, database)) { bdi { (database) } } }
            @match ended {
                None => p { "It is under way since " (time(*asked)) ". You may leave this page: it goes on." },
                Some((_, Ok(done))) => p { span.b.good { "✓ done" } " " bdi { (done) } },
                Some((_, Err(error))) => (failure("It failed", error)),
            }
        }
    }
}

fn under_way(prefix: &str, running: &[Task], all: &[Known], now: Moment) -> Markup {
    // A backup is a task too, and tells more there.
    let is_task =
        |known: &&Known| running.iter().any(|task| task.database == known.status.name && task.progress.is_some());
    let copies: Vec<&Known> =
        all.iter().filter(|known| known.status.progress.is_some()).filter(|known| !is_task(known)).take(ROWS).collect();
    let behind = all.iter().flat_map(|known| {
        let left = known.status.vaults.iter().filter(|vault| !vault.in_step && vault.objects_left.is_some());
        left.map(move |vault| (known, vault))
    });
    let behind: Vec<_> = behind.take(ROWS).collect();
    html! {
        div #now {
            @if running.is_empty() && copies.is_empty() && behind.is_empty() {
                p { "Nothing but the protection itself." }
            }
            @for task in running.iter().take(ROWS) {
                div.card {
                    h3 { (task.kind.name()) " of " a href=(link_to(prefix, &task.database)) { bdi { (task.database) } } }
                    p {
                        "Began " (time(task.began)) ", " (since(task.began, now)) " ago"
                        @if !task.about.is_empty() { ": " bdi { (task.about) } }
                    }
                    @match &task.progress { Some(underway) => (progress(underway)), None => p { "No progress is known yet." } }
                }
            }
            @for known in copies {
                div.card {
                    h3 { "complete copy of " a href=(link_to(prefix, &known.status.name)) { bdi { (known.status.name) } } }
                    @if let Some(underway) = &known.status.progress { (progress(underway)) }
                }
            }
            @for (known, vault) in behind {
                div.card {
                    h3 { "a vault of " a href=(link_to(prefix, &known.status.name)) { bdi { (known.status.name) } } " catches up" }
                    p {
                        bdi { (vault.url) } ": " (vault.objects_left.unwrap_or(0)) " objects left"
                        @if let Some(left) = vault.bytes_left { ", " (bytes(left)) }
                    }
                }
            }
        }
    }
}

/// A bar with its text, which says the same.
fn progress(underway: &Underway) -> Markup {
    let Underway { stage, done_bytes, total_bytes } = underway;
    html! {
        p {
            bdi { (stage) } ": " (bytes(*done_bytes))
            @if let Some(total) = total_bytes { " of " (bytes(*total)) }
        }
        @if let Some(total) = total_bytes.filter(|total| *total > 0) {
            progress max=(total) value=((*done_bytes).min(total)) aria-label=(stage) {}
        }
    }
}

fn row(prefix: &str, task: &Task) -> Markup {
    let Task { number, kind, database, about, began, ended, .. } = task;
    html! {
        tr id={ "t" (number) } role="row" {
            td role="cell" data-l="Began" { (time(*began)) }
            th scope="row" role="rowheader" { (kind.name()) @if !about.is_empty() { div.quiet { bdi { (about) } } } }
            td role="cell" data-l="Database" { a #{ "t" (number) "a" } href=(link_to(prefix, database)) { bdi { (database) } } }
            td role="cell" data-l="Took" { @if let Some((at, _)) = ended { (since(*began, *at)) } }
            td role="cell" data-l="Result" {
                @match ended.as_ref().map(|(_, outcome)| outcome) {
                    Some(Outcome::Done(done)) => { (badge(&Badge { tone: Tone::Good, text: "done".into() })) " " bdi { (done) } }
                    Some(Outcome::Failed(LastError { code, message, next, .. })) => {
                        (badge(&Badge { tone: Tone::Bad, text: "failed".into() })) " " bdi { (message) } " " code { (code) }
                        div { "Next: " bdi { (next) } }
                    }
                    Some(Outcome::GivenUp) | None => (badge(&Badge { tone: Tone::Quiet, text: "given up before its end".into() })),
                }
            }
        }
    }
}

fn since(from: Moment, to: Moment) -> String {
    span(u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX))
}
