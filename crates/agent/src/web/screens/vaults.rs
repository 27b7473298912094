//! The vaults of the databases: whether each is in step, what it can't do, and what was asked of it.

use std::collections::BTreeSet;

use maud::{Markup, html};
use seawall_core::{LastError, Limit, Requests, Status};

use super::list::{LIVE, List, count};
use super::{badge, id_of, link_to, time};
use crate::figures::{bytes, span};
use crate::web::filter::{Show, Sort};
use crate::web::look::Known;
use crate::web::verdict::{Badge, Tone};

/// The list.
pub(super) struct Vaults;

/// One vault of one database.
struct Vault<'a> {
    url: &'a str,
    stands: Badge,
    error: Option<&'a LastError>,
    limits: &'a [Limit],
    requests: Requests,
}

impl List for Vaults {
    type Of = Known;

    const PATH: &str = "/vaults";
    const CAPTION: &str = LIVE;
    const SHOWS: &[(Show, &str, &str)] = &Show::ALL;
    const SORTS: &[(Sort, &str, &str)] = &Sort::ALL;
    const COLUMNS: &[&str] = &["Database", "Vault", "State", "Requests", "Sent", "Read", "What it can't do"];

    fn status<'a>(&self, known: &'a Known) -> &'a Status {
        &known.status
    }

    fn sum(&self, all: &[Known]) -> Markup {
        let stores: BTreeSet<&str> = all.iter().flat_map(vaults).map(|vault| store(vault.url)).collect();
        let behind = all.iter().filter(|known| known.status.vaults.iter().any(|vault| !vault.in_step)).count();
        html! {
            p {
                (count(all.len(), "database", "databases")) " in " (count(stores.len(), "store", "stores"))
                "; of " (behind) " a vault is behind."
            }
            ul { @for store in stores.iter().take(20) { li { bdi { (store) } } } }
            @if stores.len() > 20 { p { "and " (stores.len() - 20) " more" } }
        }
    }

    fn rows(&self, prefix: &str, known: &Known) -> Vec<(String, Markup)> {
        let (id, status) = (id_of(known), &known.status);
        let row = |(number, vault): (usize, Vault<'_>)| {
            let id = format!("{id}v{number}");
            let requests = vault.requests;
            let Requests { put, upload, get, head, list, delete, .. } = requests;
            let asked = [put, upload, get, head, list, delete].into_iter().fold(0, u64::saturating_add);
            let row = html! {
                tr id=(id) role="row" {
                    th scope="row" role="rowheader" {
                        a id={ (id) "a" } href=(link_to(prefix, &status.name)) { bdi { (status.name) } }
                    }
                    td role="cell" data-l="Vault" { bdi { (vault.url) } }
                    td role="cell" data-l="State" {
                        (badge(&vault.stands))
                        @if let Some(error) = vault.error {
                            div { bdi { (error.message) } " " code { (error.code) } }
                            div { "Next: " (error.next) }
                        }
                        @if let Some(end) = status.credentials_end { div { "Its credentials end at " (time(end)) } }
                    }
                    td role="cell" data-l="Requests" {
                        (asked) @if requests.failures > 0 { ", " (requests.failures) " failed" }
                    }
                    td.n role="cell" data-l="Sent" { (bytes(requests.bytes_up)) }
                    td.n role="cell" data-l="Read" { (bytes(requests.bytes_down)) }
                    td role="cell" data-l="What it can't do" {
                        @for limit in vault.limits { div { code { (limit.lacks) } ": " (limit.effect) } }
                        @if vault.limits.is_empty() { "nothing that is known" }
                    }
                }
            };
            (id, row)
        };
        vaults(known).into_iter().enumerate().map(row).collect()
    }
}

/// The vaults of a database, also of one with a single vault.
fn vaults(known: &Known) -> Vec<Vault<'_>> {
    let Status { vaults, vault, limits, error, protected, .. } = &known.status;
    let of_one = || {
        let error = error.as_ref().filter(|error| error.code.starts_with("vault."));
        let stands = match (error, protected) {
            (Some(_), _) => Badge { tone: Tone::Bad, text: "failing".into() },
            (None, Some(_)) => Badge { tone: Tone::Good, text: "in step".into() },
            (None, None) => Badge { tone: Tone::Quiet, text: "nothing in it yet".into() },
        };
        vec![Vault { url: vault, stands, error, limits, requests: known.figures.requests }]
    };
    if vaults.is_empty() {
        return of_one();
    }
    let one = |vault: &'_ seawall_core::VaultStatus| match (vault.in_step, vault.leads) {
        (true, true) => Badge { tone: Tone::Good, text: "in step, leads".into() },
        (true, false) => Badge { tone: Tone::Good, text: "in step".into() },
        (false, _) => Badge { tone: Tone::Warn, text: format!("behind by {}", span(vault.lag_ms)) },
    };
    let each = vaults.iter().map(|vault| Vault {
        url: &vault.url,
        stands: one(vault),
        error: vault.error.as_ref(),
        limits: &vault.limits,
        requests: vault.requests,
    });
    each.collect()
}

/// The store that a vault is in: the bucket or the host, and of a folder the folder around it.
fn store(url: &str) -> &str {
    let Some((scheme, rest)) = url.split_once("://") else { return url };
    let begin = scheme.len() + 3;
    match (scheme, rest.find('/')) {
        ("file", _) => {
            rest.trim_end_matches('/').rfind('/').filter(|end| *end > 0).map_or(url, |end| &url[..begin + end])
        }
        (_, Some(end)) => &url[..begin + end],
        (_, None) => url.split('?').next().unwrap_or(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores() {
        for (url, expected) in [
            ("s3://bucket/a/b", "s3://bucket"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket?endpoint=x", "s3://bucket"),
            ("sftp://u@host:22/x", "sftp://u@host:22"),
            ("file:///backup/app", "file:///backup"),
            ("file:///backup/app/", "file:///backup"),
            ("file:///backup", "file:///backup"),
            ("file:///", "file:///"),
            ("relative", "relative"),
            ("", ""),
        ] {
            assert_eq!(store(url), expected, "{url}");
        }
    }
}
