//! The page of a prefix: every database whose vault is below it, from the vaults alone. No process that protects is asked.
//!
//! Nothing is asked of the store unless somebody loads a page, and a listing counts for a while. So a page that stays open costs nothing.
//!
//! - `look`: the listing, and what the vault of one database tells;
//! - `list`: the databases, and their proofs;
//! - `database`: one database with its timeline and the restore planner.

mod database;
mod list;
mod look;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hyper::StatusCode;
use maud::{Markup, html};
use seawall_core::{Clock as _, Failure, Shutdown, SystemClock};
use seawall_engines::Opener;
use seawall_vault::VaultUrl;

use self::look::{Look, Told};
use super::filter::Filter;
use super::guard::Guard;
use super::look::ANSWER;
use super::page::{self, Around, Content, Screen, below};
use super::screens::{failure, time};
use crate::config::WebConfig;
use crate::figures::span;
use crate::http::{Answer, Handler, Listener, Request, serve};

/// What the page of a prefix shows, and to whom.
pub struct PrefixPage {
    /// Where it listens, and what a visitor must know.
    pub config: WebConfig,
    /// Opens the vaults.
    pub opener: Arc<Opener>,
    /// The prefix below which the vaults are.
    pub prefix: VaultUrl,
    /// How long a listing of the prefix counts.
    pub fresh: Duration,
    /// The version of the program, for the foot of each screen.
    pub version: &'static str,
}

impl PrefixPage {
    /// Listens, lists the prefix, and shows it until `shutdown` begins. `listens` is called with the address once the page can be visited.
    ///
    /// # Errors
    /// When the prefix can't be listed at the start, or the address can't be had.
    pub async fn show(self, shutdown: &Shutdown, listens: impl FnOnce(&str)) -> Result<(), Failure> {
        let Self { config, opener, prefix, fresh, version } = self;
        let (address, below) = (config.address, config.prefix.clone());
        let listener = Listener::tcp(address).await?;
        listens(&listener.address());
        let look = Look::new(opener, prefix, fresh);
        tracing::info!(prefix = look.url(), "page: listing the prefix");
        let page = Arc::new(Catalogue { guard: Guard::new(config), look, prefix: below, version });
        let mut serving = std::pin::pin!(serve(listener, Arc::clone(&page)));
        tokio::select! {
            () = shutdown.graceful() => return Ok(()),
            () = &mut serving => return Ok(()),
            first = page.look.first() => first?,
        }
        tokio::select! {
            () = shutdown.graceful() => {}
            () = &mut serving => {}
        }
        Ok(())
    }
}

/// Serves the page of a prefix.
struct Catalogue {
    guard: Guard,
    look: Look,
    /// What links begin with.
    prefix: String,
    version: &'static str,
}

#[async_trait]
impl Handler for Catalogue {
    async fn answer(&self, request: Request) -> Answer {
        let answer = match self.guard.admit(&request, &self.prefix).await {
            Ok(_pass) => self.route(&request).await,
            Err(refused) => *refused,
        };
        page::sealed(answer, &request)
    }
}

impl Catalogue {
    /// The answer to a request that was let through.
    async fn route(&self, request: &Request) -> Answer {
        let query: HashMap<String, String> = form_urlencoded::parse(request.query.as_bytes()).into_owned().collect();
        let said = |key: &str| query.get(key).map_or("", String::as_str);
        match below(&self.prefix, &request.path) {
            "/" => self.list(&list::Databases, (Screen::Fleet, "Databases"), &Filter::parse(&query)).await,
            "/proofs" => self.list(&list::Proofs, (Screen::Proofs, "Proofs"), &Filter::parse(&query)).await,
            "/database" => {
                let at = query.get("at").map(|at| at.trim()).filter(|at| !at.is_empty());
                self.database(said("name"), said("vault"), at).await
            }
            _ => {
                let next = "The page has no such part.";
                page::refusal(&self.prefix, StatusCode::NOT_FOUND, "Not found", next)
            }
        }
    }

    /// A screen, below what there is to know of the listing.
    fn page(&self, screen: Screen, title: &str, told: &Told, body: &Markup) -> Answer {
        let content =
            Content { screen, title: title.to_owned(), live: None, body: html! { (self.of_listing(told)) (body) } };
        let (prefix, links, has_login) = (&*self.prefix, &Screen::OF_VAULTS, self.guard.has_login());
        page::whole(&Around { prefix, links, has_login, may_act: false }, self.version, &content)
    }

    /// From when the listing is, and what it lacks.
    fn of_listing(&self, told: &Told) -> Markup {
        let age = told.shelves.as_ref().map(|shelves| SystemClock.now().since(shelves.at));
        let old = age.filter(|age| *age > self.look.fresh() + 2 * ANSWER);
        html! {
            @if let Some(old) = old {
                p.warn {
                    "The listing is from " (span(u64::try_from(old.as_millis()).unwrap_or(u64::MAX)))
                    " ago. Ages and alarms are those of now; what came into the vaults since then isn't known."
                }
            }
            @match &told.shelves {
                Some(shelves) => p.quiet {
                    "Below " bdi { (self.look.url()) } ", as it was listed at " (time(shelves.at)) " in "
                    (shelves.pages) @if shelves.pages == 1 { " request" } @else { " requests" }
                    ". Loading this page lists it again once that is " (span(self.look.fresh_millis())) " ago."
                    @if told.is_listing { " It is being listed now." }
                }
                None if told.failure.is_none() => p.warn {
                    "Below " bdi { (self.look.url()) } " everything is being listed. Load this page again in a moment."
                },
                None => {}
            }
            @if let Some(error) = &told.failure { (failure("The prefix can't be listed now", error)) }
            @if let Some(shelves) = &told.shelves {
                @if let Some(passed_over) = &shelves.passed_over { (failure("Passed over", passed_over)) }
                @if let Some(cut_short) = &shelves.cut_short { (failure("Not all is shown", cut_short)) }
            }
        }
    }
}
