//! Every database of the process: how far it is protected, and whether somebody should act.

use maud::{Markup, html};
use seawall_core::{Severity, Status};

use super::list::{LIVE, List, count};
use super::{badge, curves, id_of, link_to, time};
use crate::figures::bytes;
use crate::web::filter::{Show, Sort};
use crate::web::look::Known;
use crate::web::verdict::{self, Tone};

/// The list.
pub(super) struct Fleet;

impl List for Fleet {
    type Of = Known;

    const PATH: &str = "/";
    const CAPTION: &str = LIVE;
    const SHOWS: &[(Show, &str, &str)] = &Show::ALL;
    const SORTS: &[(Sort, &str, &str)] = &Sort::ALL;
    const COLUMNS: &[&str] = &["Database", "State", "Protected up to", "Lag", "Last proof", "Size", "Alarms"];

    fn status<'a>(&self, known: &'a Known) -> &'a Status {
        &known.status
    }

    fn sum(&self, all: &[Known]) -> Markup {
        let with = |severity| {
            all.iter()
                .filter(|known| known.status.alarms.iter().map(|alarm| alarm.severity).max() == Some(severity))
                .count()
        };
        let well = all.iter().filter(|known| verdict::state(&known.status).tone == Tone::Good).count();
        let (critical, warning) = (with(Severity::Critical), with(Severity::Warning));
        html! {
            @if all.is_empty() { p.warn { "No database is protected by this process." } }
            @else {
                p {
                    (count(all.len(), "database", "databases")) ": " (well) " protected without an alarm, "
                    (warning) " with a warning, " (critical) " with a critical alarm."
                }
            }
        }
    }

    fn rows(&self, prefix: &str, known: &Known) -> Vec<(String, Markup)> {
        let (id, status) = (id_of(known), &known.status);
        let row = html! {
            tr id=(id) role="row" {
                th scope="row" role="rowheader" {
                    a id={ (id) "a" } href=(link_to(prefix, &status.name)) { bdi { (status.name) } }
                    div.quiet { (status.engine) }
                }
                td role="cell" data-l="State" { (badge(&verdict::state(status))) }
                td role="cell" data-l="Protected up to" {
                    @match &status.protected { Some(point) => (time(point.moment)), None => "nothing yet" }
                }
                td role="cell" data-l="Lag" { (verdict::lag(status)) (curves::small(known.trace.samples())) }
                td role="cell" data-l="Last proof" { (badge(&verdict::proof(status))) }
                td.n role="cell" data-l="Size" { @match status.source_bytes { Some(size) => (bytes(size)), None => "unknown" } }
                td role="cell" data-l="Alarms" {
                    @match status.alarms.split_first() {
                        None => "none",
                        Some((first, others)) => {
                            bdi { (first.cause) }
                            @if !others.is_empty() { " and " (count(others.len(), "other", "others")) }
                            @if first.silenced_until.is_some() { " (silenced)" }
                        }
                    }
                }
            }
        };
        vec![(id, row)]
    }
}
