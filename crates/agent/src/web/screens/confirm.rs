//! The form that asks for an action: what happens, and the name to type.

use hyper::StatusCode;
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Site, link_to};
use crate::http::Answer;
use crate::restoring::beside;
use crate::web::deed::Deed;
use crate::web::page::{self, Content, Screen};

/// The page. `at` is the moment that the form proposes.
pub(in crate::web) async fn answer(site: &Site<'_>, deed: &str, name: &str, at: &str) -> Answer {
    let member = site.look.actions().fleet().find(name);
    let (Some(form), Some(deed), Some(member)) = (&site.form, Deed::parse(deed), member) else {
        let next = "The page has no such action, or your login doesn't allow it.";
        return page::refusal(site.prefix, StatusCode::NOT_FOUND, "No such action", next);
    };
    let name = &member.config.name;
    let body = html! {
        p { (deed.explained()) }
        @if deed == Deed::Restore && let Some(path) = member.config.path() {
            p { "It makes " code { bdi { (beside(path).display()) } } "." }
        }
        form.card method="post" action={ (site.prefix) "/do" } {
            input type="hidden" name="form" value=(form);
            input type="hidden" name="do" value=(deed.word());
            // Encoded, because the finished page writes characters out that a reader wouldn't see.
            input type="hidden" name="name" value=(utf8_percent_encode(name, NON_ALPHANUMERIC));
            @if deed.takes_moment() {
                div {
                    label for="at" { "Moment" }
                    input #at name="at" size="32" value=(at) required autocomplete="off";
                }
            }
            @if deed.takes_span() {
                div {
                    label for="for" { "For how long" }
                    input #for name="for" size="8" value="2h" required autocomplete="off";
                }
            }
            div {
                label for="typed" { "To confirm, type the name: " strong { bdi { (name) } } }
                input #typed name="typed" required autocomplete="off" autocapitalize="off" spellcheck="false" autofocus;
            }
            button { (deed.title()) }
        }
        p { a href=(link_to(site.prefix, name)) { "Back, without doing anything" } }
    };
    site.page(&Content { screen: Screen::Database, title: format!("{}: {name}", deed.title()), live: None, body })
}
