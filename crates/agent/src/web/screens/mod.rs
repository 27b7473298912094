//! The screens. Those of many databases are lists with a search; what changes by itself comes in parts.

pub(super) mod activity;
pub(super) mod confirm;
mod curves;
pub(super) mod database;
mod fleet;
pub(super) mod list;
mod proofs;
pub(super) mod settings;
mod vaults;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Clock as _, Failure, Moment, SystemClock};

use super::filter::Filter;
use super::live::Parts;
use super::look::{Known, Look};
use super::page::{self, Around, Content, Screen};
use super::verdict::{Badge, Tone};
use crate::http::Answer;

/// What every screen needs.
pub(super) struct Site<'a> {
    pub(super) prefix: &'a str,
    pub(super) look: &'a Arc<Look>,
    pub(super) has_login: bool,
    /// What the visitor's forms carry; `None` if the visitor may not act.
    pub(super) form: Option<String>,
}

/// A screen with parts that change.
pub(super) struct View {
    pub(super) prefix: String,
    pub(super) shows: Shows,
}

/// What it shows.
pub(super) enum Shows {
    Fleet(Filter),
    Proofs(Filter),
    Vaults(Filter),
    /// What the process does and did, and what came of a visitor's request with this number.
    Activity(Option<u64>),
    /// One database, by its name.
    Database(String),
}

impl View {
    /// The parts as they are now.
    pub(super) async fn parts(&self, look: &Look) -> Parts {
        match &self.shows {
            Shows::Fleet(filter) => list::parts(&fleet::Fleet, &self.prefix, filter, &look.all().await),
            Shows::Proofs(filter) => list::parts(&proofs::Proofs, &self.prefix, filter, &look.all().await),
            Shows::Vaults(filter) => list::parts(&vaults::Vaults, &self.prefix, filter, &look.all().await),
            Shows::Activity(asked) => activity::parts(&self.prefix, look, &look.all().await, *asked, SystemClock.now()),
            Shows::Database(name) => match look.actions().fleet().find(name) {
                Some(member) => database::parts(&look.known(&member).await),
                None => database::gone(),
            },
        }
    }

    /// Where these parts come from when they change.
    fn live(&self, parts: &Parts) -> String {
        let (screen, rest) = match &self.shows {
            Shows::Fleet(filter) => ("fleet", filter.link(filter.page).replacen('?', "&", 1)),
            Shows::Proofs(filter) => ("proofs", filter.link(filter.page).replacen('?', "&", 1)),
            Shows::Vaults(filter) => ("vaults", filter.link(filter.page).replacen('?', "&", 1)),
            Shows::Activity(asked) => ("activity", asked.map_or_else(String::new, |asked| format!("&asked={asked}"))),
            Shows::Database(name) => ("database", format!("&name={}", utf8_percent_encode(name, NON_ALPHANUMERIC))),
        };
        format!("{}/live?screen={screen}&seen={}{rest}", self.prefix, parts.number())
    }
}

impl Site<'_> {
    /// A page with a list.
    pub(super) async fn list(&self, shows: Shows) -> Answer {
        let view = View { prefix: self.prefix.to_owned(), shows };
        let parts = view.parts(self.look).await;
        let (screen, title, body) = match &view.shows {
            Shows::Fleet(filter) => {
                (Screen::Fleet, "Databases", list::body(&fleet::Fleet, self.prefix, filter, &parts))
            }
            Shows::Proofs(filter) => {
                (Screen::Proofs, "Proofs", list::body(&proofs::Proofs, self.prefix, filter, &parts))
            }
            Shows::Vaults(filter) => {
                (Screen::Vaults, "Vaults", list::body(&vaults::Vaults, self.prefix, filter, &parts))
            }
            Shows::Activity(_) | Shows::Database(_) => (Screen::Database, "", html! {}),
        };
        let live = Some(view.live(&parts));
        self.page(&Content { screen, title: title.to_owned(), live, body })
    }

    fn page(&self, content: &Content) -> Answer {
        let (links, may_act) = (&Screen::OF_PROCESS, self.form.is_some());
        let around = Around { prefix: self.prefix, links, has_login: self.has_login, may_act };
        page::whole(&around, self.look.actions().version(), content)
    }
}

/// The link to the screen of a database.
fn link_to(prefix: &str, name: &str) -> String {
    format!("{prefix}/database?name={}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// What the elements of a database are called: by its name, which no other database has.
fn id_of(known: &Known) -> String {
    let mut hasher = DefaultHasher::new();
    known.status.name.hash(&mut hasher);
    format!("r{:x}", hasher.finish())
}

pub(super) fn badge(badge: &Badge) -> Markup {
    let (class, sign) = match badge.tone {
        Tone::Good => ("b good", "✓ "),
        Tone::Warn => ("b warn", "! "),
        Tone::Bad => ("b bad", "✕ "),
        Tone::Quiet => ("b dim", "– "),
    };
    html! { span class=(class) { span aria-hidden="true" { (sign) } (badge.text) } }
}

/// A moment to the second; its element has all of it.
pub(super) fn time(moment: Moment) -> Markup {
    let whole = moment.to_string();
    let short = whole.get(..19).filter(|_| whole.ends_with('Z') && whole.len() == 24).unwrap_or(&whole);
    html! { time datetime=(whole) { (short.replacen('T', " ", 1)) } }
}

/// A failure with its next step.
pub(super) fn failure(what: &str, failure: &Failure) -> Markup {
    html! {
        div.card {
            h3 { (what) " " code { (failure.code) } }
            p { bdi { (failure.object) } ": " bdi { (failure.cause) } }
            p { "Next: " (failure.next) }
        }
    }
}

/// The parts of the first list, for tests.
#[cfg(test)]
pub(super) fn test_parts(filter: &Filter, all: &[Known]) -> Parts {
    list::parts(&fleet::Fleet, "", filter, all)
}
