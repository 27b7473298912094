//! The databases below a prefix, and their proofs.

use std::time::Duration;

use hyper::StatusCode;
use maud::{Markup, PreEscaped, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Moment, Severity, Status};
use seawall_engines::catalog::Row;

use super::Catalogue;
use super::look::Shelved;
use crate::figures::{bytes, span};
use crate::http::Answer;
use crate::web::filter::{Filter, Show, Sort};
use crate::web::page::Screen;
use crate::web::screens::list::{self, List, count};
use crate::web::screens::{badge, time};
use crate::web::verdict::{self, Badge, Tone};

/// The choices of databases.
const SHOWS: &[(Show, &str, &str)] = &[
    (Show::All, "all", "All databases"),
    (Show::Alarms, "alarms", "With an alarm"),
    (Show::Critical, "critical", "With a critical alarm"),
    (Show::Unproved, "unproved", "Without a proof that holds"),
];

/// The orders.
const SORTS: &[(Sort, &str, &str)] = &[
    (Sort::Urgency, "urgency", "Urgency"),
    (Sort::Name, "name", "Name"),
    (Sort::Lag, "lag", "Oldest newest point"),
    (Sort::Size, "size", "Size"),
    (Sort::Proof, "proof", "Oldest proof"),
];

/// Days for which a proof counts after it, while points come.
const DAYS: u64 = 35;

/// Doubts of one database that are listed in a row.
const DOUBTS: usize = 3;

impl Catalogue {
    /// A screen with a list.
    pub(super) async fn list<L: List<Of = Shelved>>(
        &self,
        list: &L,
        (screen, title): (Screen, &str),
        filter: &Filter,
    ) -> Answer {
        let told = self.look.all().await;
        let body = match &told.shelves {
            Some(shelves) => {
                let parts = list::parts(list, &self.prefix, filter, &shelves.all);
                let body = list::body(list, &self.prefix, filter, &parts);
                html! {
                    (PreEscaped(body.into_string()))
                    @if shelves.foreign > 0 { p.quiet { (shelves.foreign) " objects belong to no database that Seawall knows." } }
                }
            }
            None => html! {},
        };
        let mut answer = self.page(screen, title, &told, &body);
        if told.shelves.is_none() {
            answer.status = StatusCode::SERVICE_UNAVAILABLE;
        }
        answer
    }
}

/// The list of databases.
pub(super) struct Databases;

impl List for Databases {
    type Of = Shelved;

    const PATH: &str = "/";
    const CAPTION: &str =
        "What the vault of each database tells. Whether a process protects it now, a vault doesn't tell.";
    const SHOWS: &[(Show, &str, &str)] = SHOWS;
    const SORTS: &[(Sort, &str, &str)] = SORTS;
    const COLUMNS: &[&str] =
        &["Database", "Newest point", "Age", "Last proof", "Stored", "A complete copy grows", "To know"];

    fn status<'a>(&self, one: &'a Shelved) -> &'a Status {
        &one.status
    }

    fn sum(&self, all: &[Shelved]) -> Markup {
        let worst = |one: &Shelved| one.row.alarms.iter().map(|alarm| alarm.severity).max();
        let with = |severity| all.iter().filter(|one| worst(one) == Some(severity)).count();
        let unknown = all.iter().filter(|one| one.row.alarms.is_empty() && !one.row.is_fine()).count();
        let size = all.iter().fold(0u64, |sum, one| sum.saturating_add(one.row.bytes));
        html! {
            @if all.is_empty() { p.warn { "No database has its vault here." } }
            @else {
                p {
                    (count(all.len(), "database", "databases")) ", " (bytes(size)) " stored; "
                    (with(Severity::Warning)) " with a warning, " (with(Severity::Critical)) " with a critical alarm"
                    @if unknown > 0 { ", " (unknown) " of which something isn't known" } "."
                }
            }
        }
    }

    fn rows(&self, prefix: &str, one: &Shelved) -> Vec<(String, Markup)> {
        let (id, row) = (id_of(&one.row), &one.row);
        let markup = html! {
            tr id=(id) role="row" {
                th scope="row" role="rowheader" {
                    a href=(link_to(prefix, row)) { bdi { (name(row)) } }
                    div.quiet { (row.engine) @if row.encrypted { ", encrypted" } }
                }
                td role="cell" data-l="Newest point" {
                    @match &row.newest { Some(point) => (time(point.moment)), None => "none" }
                }
                td role="cell" data-l="Age" {
                    @match row.age_s { Some(age) => (span(age.saturating_mul(1000))), None => "unknown" }
                    @if let Some(every) = row.every_s { div.quiet { "every " (span(every.saturating_mul(1000))) } }
                }
                td role="cell" data-l="Last proof" { (badge(&proof(one))) }
                td.n role="cell" data-l="Stored" { (bytes(row.bytes)) }
                td.n role="cell" data-l="A complete copy grows" {
                    @match row.growth_bytes_per_day { Some(growth) => (a_day(growth)), None => "unknown" }
                }
                td role="cell" data-l="To know" { (to_know(row)) }
            }
        };
        vec![(id, markup)]
    }
}

/// The list of proofs.
pub(super) struct Proofs;

impl List for Proofs {
    type Of = Shelved;

    const PATH: &str = "/proofs";
    const CAPTION: &str = "The newest proof in each vault.";
    const SHOWS: &[(Show, &str, &str)] = SHOWS;
    const SORTS: &[(Sort, &str, &str)] = SORTS;
    const COLUMNS: &[&str] = &["Database", "Proof", "Point", "Level", "Restore", "Host"];

    fn status<'a>(&self, one: &'a Shelved) -> &'a Status {
        &one.status
    }

    fn sum(&self, all: &[Shelved]) -> Markup {
        let holds = |one: &&Shelved| one.row.proof.as_ref().is_some_and(|proof| proof.holds());
        let old = all.iter().filter(holds).filter(|one| is_old(&one.row)).count();
        let holds = all.iter().filter(holds).count() - old;
        html! {
            p {
                (count(holds, "database", "databases")) " of " (all.len())
                " has a proof that holds"
                @if old > 0 { ", and " (old) " one that is more than " (DAYS) " days older than the newest point" }
                ". A proof is a restore that was really done and checked."
            }
        }
    }

    fn rows(&self, prefix: &str, one: &Shelved) -> Vec<(String, Markup)> {
        let (id, row) = (id_of(&one.row), &one.row);
        let made = row.proof.as_ref();
        let restored = made.filter(|proof| proof.point.is_some());
        let markup = html! {
            tr id=(id) role="row" {
                th scope="row" role="rowheader" { a href=(link_to(prefix, row)) { bdi { (name(row)) } } }
                td role="cell" data-l="Proof" {
                    (badge(&proof(one)))
                    @if let Some(fault) = made.and_then(|proof| proof.faults.first()) {
                        div { bdi { (fault.object) } ": " bdi { (fault.cause) } " " code { (fault.code) } }
                    }
                }
                td role="cell" data-l="Point" {
                    @match made.and_then(|proof| proof.point.as_ref()) { Some(point) => (time(point.moment)), None => "none" }
                }
                td role="cell" data-l="Level" { @match made { Some(proof) => (proof.level.name()), None => "none" } }
                td role="cell" data-l="Restore" {
                    @match restored { Some(proof) => { (bytes(proof.restored_bytes)) " in " (span(proof.restore_ms)) } None => "none" }
                }
                td role="cell" data-l="Host" { @if let Some(proof) = made { bdi { (proof.host) } } }
            }
        };
        vec![(id, markup)]
    }
}

/// What people call a database.
pub(super) fn name(row: &Row) -> &str {
    if row.name.is_empty() { "(the prefix itself)" } else { &row.name }
}

/// The badge of the newest proof.
pub(super) fn proof(one: &Shelved) -> Badge {
    match (&one.row.proof, one.row.proved_at) {
        (Some(_), _) => {
            let badge = verdict::proof(&one.status);
            match badge.tone == Tone::Good && is_old(&one.row) {
                true => Badge { tone: Tone::Warn, text: format!("{}, long before the newest point", badge.text) },
                false => badge,
            }
        }
        // A record that is there and can't be read proves nothing.
        (None, Some(_)) => Badge { tone: Tone::Warn, text: "its record can't be read".into() },
        (None, None) => Badge { tone: Tone::Quiet, text: "never proved".into() },
    }
}

/// Whether so much came after the newest proof that it says little. Of a database at rest a proof says as much as ever.
fn is_old(row: &Row) -> bool {
    row.proof.as_ref().zip(row.newest.as_ref()).is_some_and(|(proof, newest)| is_long(proof.at, newest.moment))
}

fn is_long(proof: Moment, newest: Moment) -> bool {
    newest.since(proof) > Duration::from_secs(DAYS * 24 * 3600)
}

/// Growth for people.
pub(super) fn a_day(growth: i64) -> String {
    let sign = if growth < 0 { "-" } else { "+" };
    format!("{sign}{} a day", bytes(growth.unsigned_abs()))
}

/// The link to the screen of a database.
fn link_to(prefix: &str, row: &Row) -> String {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    format!("{prefix}/database?name={}&vault={}", encoded(&row.name), encoded(&row.vault))
}

/// What the element of a database is called: by what no other database has.
fn id_of(row: &Row) -> String {
    format!("r{:x}", crate::web::live::number_of(&(&row.vault, &row.name)))
}

/// Alarms, holes, gaps, writers and doubts.
fn to_know(row: &Row) -> Markup {
    let number =
        |number: Option<u64>| number.filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok());
    let is_silent = row.alarms.is_empty() && row.doubts.is_empty();
    let (holes, gaps) = (number(row.holes), number(row.gaps));
    html! {
        @for alarm in &row.alarms {
            @let tone = if alarm.severity == Severity::Critical { Tone::Bad } else { Tone::Warn };
            div { (badge(&Badge { tone, text: alarm.code.clone() })) " " bdi { (alarm.cause) } }
        }
        @if let Some(holes) = holes { div { (count(holes, "hole", "holes")) } }
        @if let Some(gaps) = gaps { div { (count(gaps, "gap", "gaps")) " between backups" } }
        @for doubt in row.doubts.iter().take(DOUBTS) { div { bdi { (doubt) } } }
        @if is_silent && holes.is_none() && gaps.is_none() {
            @if row.newest.is_some() { "nothing" } @else { "no point is known" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_counts_for_a_while_after_it() {
        let at = |days: i64| Moment::from_millis(days * 86_400_000);
        for (proof, newest, expected) in [(0, 0, false), (0, 35, false), (0, 36, true), (1000, 0, false)] {
            assert_eq!(is_long(at(proof), at(newest)), expected, "{proof} {newest}");
        }
    }
}
