//! A list of databases: a search, a sum, a table with rows that change, and links to its other pages.

use maud::{Markup, PreEscaped, html};
use seawall_core::Status;

use crate::web::filter::{Filter, ROWS, Show, Sort};
use crate::web::live::Parts;

/// What is different in each list.
pub(in crate::web) trait List {
    /// What it lists.
    type Of;
    /// Its path.
    const PATH: &str;
    /// What the table is about.
    const CAPTION: &str;
    /// The choices of databases, each with its name in a link and for people.
    const SHOWS: &[(Show, &str, &str)];
    /// The orders, each with its name in a link and for people.
    const SORTS: &[(Sort, &str, &str)];
    /// The names of its columns.
    const COLUMNS: &[&str];
    /// What a search and an order go by.
    fn status<'a>(&self, of: &'a Self::Of) -> &'a Status;
    /// A sentence on all databases.
    fn sum(&self, all: &[Self::Of]) -> Markup;
    /// The rows of a database, each with the `id` of its element.
    fn rows(&self, prefix: &str, of: &Self::Of) -> Vec<(String, Markup)>;
}

/// The caption of the lists of a process.
pub(super) const LIVE: &str = "What the process knows of each database.";

/// The parts of a list.
pub(in crate::web) fn parts<L: List>(list: &L, prefix: &str, filter: &Filter, all: &[L::Of]) -> Parts {
    let selection = filter.select(all.iter().map(|one| list.status(one)));
    let rows = selection.rows.iter().filter_map(|row| all.get(*row)).flat_map(|one| list.rows(prefix, one));
    let held: Vec<(String, String)> = rows.map(|(id, row)| (id, row.into_string())).collect();
    let (page, pages) = selection.page;
    let (from, to) = (page * ROWS + 1, page * ROWS + selection.rows.len());
    let shown = html! {
        p #shown role="status" {
            @if selection.rows.is_empty() { "No database is like that." }
            @else { "Databases " (from) " to " (to) " of " (selection.taken) "." }
        }
    };
    let holder = html! {
        tbody #rows role="rowgroup" { @for (_, row) in &held { (PreEscaped(row)) } }
    };
    let path = format!("{prefix}{}", L::PATH);
    let pager = html! {
        nav #pager.links aria-label="Pages" {
            @if page > 0 { a rel="prev" href={ (path) (filter.link(page - 1)) } { "Previous page" } }
            @if page + 1 < pages { a rel="next" href={ (path) (filter.link(page + 1)) } { "Next page" } }
        }
    };
    let sum = html! { div #sum { (list.sum(all)) } };
    let beside = [("sum", sum), ("shown", shown), ("pager", pager)];
    Parts {
        holder: Some(("rows".to_owned(), holder.into_string())),
        held,
        beside: beside.map(|(id, part)| (id.to_owned(), part.into_string())).into(),
    }
}

/// The page around the parts.
pub(in crate::web) fn body<L: List>(_list: &L, prefix: &str, filter: &Filter, parts: &Parts) -> Markup {
    let part = |id: &str| {
        let found = parts.beside.iter().chain(&parts.holder).find(|(name, _)| name == id);
        PreEscaped(found.map_or("", |(_, html)| html))
    };
    html! {
        (part("sum"))
        form method="get" action={ (prefix) (L::PATH) } role="search" {
            div {
                label for="q" { "Search" }
                input #q type="search" name="q" value=(filter.text) placeholder="name, engine, source, vault";
            }
            div {
                label for="show" { "Show" }
                select #show name="show" {
                    @for (show, name, text) in L::SHOWS { option value=(name) selected[*show == filter.show] { (text) } }
                }
            }
            div {
                label for="sort" { "Order" }
                select #sort name="sort" {
                    @for (sort, name, text) in L::SORTS { option value=(name) selected[*sort == filter.sort] { (text) } }
                }
            }
            button { "Apply" }
        }
        (part("shown"))
        table role="table" aria-describedby="shown" {
            caption { (L::CAPTION) }
            thead role="rowgroup" {
                tr role="row" { @for column in L::COLUMNS { th scope="col" role="columnheader" { (column) } } }
            }
            (part("rows"))
        }
        (part("pager"))
    }
}

/// How many of a thing there are.
pub(in crate::web) fn count(number: usize, one: &str, more: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {more}") }
}
