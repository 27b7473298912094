//! A list of databases: a search, a sum, a table with rows that change, and links to its other pages.

use maud::{Markup, PreEscaped, html};

use crate::web::filter::{Filter, ROWS, Show, Sort};
use crate::web::live::Parts;
use crate::web::look::Known;

/// What is different in each list.
pub(super) trait List {
    /// Its path.
    const PATH: &str;
    /// The names of its columns.
    const COLUMNS: &[&str];
    /// A sentence on all databases.
    fn sum(&self, all: &[Known]) -> Markup;
    /// The rows of a database, each with the `id` of its element.
    fn rows(&self, prefix: &str, known: &Known) -> Vec<(String, Markup)>;
}

/// The parts of a list.
pub(super) fn parts<L: List>(list: &L, prefix: &str, filter: &Filter, all: &[Known]) -> Parts {
    let selection = filter.select(all.iter().map(|known| &known.status));
    let rows = selection.rows.iter().filter_map(|row| all.get(*row)).flat_map(|known| list.rows(prefix, known));
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
pub(super) fn body<L: List>(_list: &L, prefix: &str, filter: &Filter, parts: &Parts) -> Markup {
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
                    @for (show, name, text) in Show::ALL { option value=(name) selected[show == filter.show] { (text) } }
                }
            }
            div {
                label for="sort" { "Order" }
                select #sort name="sort" {
                    @for (sort, name, text) in Sort::ALL { option value=(name) selected[sort == filter.sort] { (text) } }
                }
            }
            button { "Apply" }
        }
        (part("shown"))
        table role="table" aria-describedby="shown" {
            caption { "What the process knows of each database; it changes by itself." }
            thead role="rowgroup" {
                tr role="row" { @for column in L::COLUMNS { th scope="col" role="columnheader" { (column) } } }
            }
            (part("rows"))
        }
        (part("pager"))
    }
}

/// How many of a thing there are.
pub(super) fn count(number: usize, one: &str, more: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {more}") }
}
