//! The newest known proof of each database: by its schedule, or by a person on the page.

use maud::{Markup, html};
use seawall_core::Status;

use super::list::{LIVE, List, count};
use super::{badge, id_of, link_to, time};
use crate::figures::{bytes, span};
use crate::web::filter::{Show, Sort};
use crate::web::look::Known;
use crate::web::verdict;

/// The list.
pub(super) struct Proofs;

impl List for Proofs {
    type Of = Known;

    const PATH: &str = "/proofs";
    const CAPTION: &str = LIVE;
    const SHOWS: &[(Show, &str, &str)] = &Show::ALL;
    const SORTS: &[(Sort, &str, &str)] = &Sort::ALL;
    const COLUMNS: &[&str] = &["Database", "Proof", "Point", "Level", "Restore", "Next one due", "Host"];

    fn status<'a>(&self, known: &'a Known) -> &'a Status {
        &known.status
    }

    fn sum(&self, all: &[Known]) -> Markup {
        let proofs = || all.iter().filter_map(|known| known.status.proof.as_ref());
        let holds = proofs().filter(|proof| proof.holds()).count();
        let scheduled = all.iter().filter(|known| known.proof_due.is_some()).count();
        html! {
            p {
                (count(holds, "database", "databases")) " of " (all.len()) " has a proof that holds; "
                (scheduled) " are proved by a schedule. A proof is a restore that was really done and checked."
            }
        }
    }

    fn rows(&self, prefix: &str, known: &Known) -> Vec<(String, Markup)> {
        let (id, status) = (id_of(known), &known.status);
        let proof = status.proof.as_ref();
        let row = html! {
            tr id=(id) role="row" {
                th scope="row" role="rowheader" {
                    a id={ (id) "a" } href=(link_to(prefix, &status.name)) { bdi { (status.name) } }
                }
                td role="cell" data-l="Proof" {
                    (badge(&verdict::proof(status)))
                    @if let Some(fault) = proof.and_then(|proof| proof.faults.first()) {
                        div { bdi { (fault.object) } ": " bdi { (fault.cause) } " " code { (fault.code) } }
                    }
                }
                td role="cell" data-l="Point" {
                    @match proof.and_then(|proof| proof.point.as_ref()) { Some(point) => (time(point.moment)), None => "none" }
                }
                td role="cell" data-l="Level" { @match proof { Some(proof) => (proof.level.name()), None => "none" } }
                td role="cell" data-l="Restore" {
                    @match proof.filter(|proof| proof.point.is_some()) {
                        Some(proof) => { (bytes(proof.restored_bytes)) " in " (span(proof.restore_ms)) }
                        None => "none",
                    }
                }
                td role="cell" data-l="Next one due" {
                    @match known.proof_due { Some(due) => (time(due)), None => "no schedule" }
                }
                td role="cell" data-l="Host" { @if let Some(proof) = proof { bdi { (proof.host) } } }
            }
        };
        vec![(id, row)]
    }
}
