//! Which screen does a path mean?

use std::collections::HashMap;
use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::Web;
use super::filter::Filter;
use super::guard::Pass;
use super::page::{self, below};
use super::screens::{Shows, Site, View, activity, confirm, database, settings};
use crate::http::{Answer, Request};

impl Web {
    /// The answer to a request that was let through.
    pub(super) async fn route(&self, request: &Request, pass: Pass) -> Answer {
        let query: HashMap<String, String> = form_urlencoded::parse(request.query.as_bytes()).into_owned().collect();
        let said = |key: &str| query.get(key).map_or("", String::as_str);
        let path = below(&self.prefix, &request.path);
        if request.method == Method::POST {
            return self.act(request, &pass).await;
        }
        let has_login = self.guard.has_login();
        let site = Site { prefix: &self.prefix, look: &self.look, has_login, form: pass.form() };
        let asked = said("asked").parse().ok();
        let shows = match path {
            "/" => Shows::Fleet(Filter::parse(&query)),
            "/proofs" => Shows::Proofs(Filter::parse(&query)),
            "/vaults" => Shows::Vaults(Filter::parse(&query)),
            "/settings" => return settings::answer(&site).await,
            "/activity" => return activity::answer(&site, asked).await,
            "/confirm" => return confirm::answer(&site, said("do"), said("name"), said("at")).await,
            "/database" => return database::answer(&site, said("name"), query.get("at").map(String::as_str)).await,
            "/live" => {
                let shows = match said("screen") {
                    "fleet" => Shows::Fleet(Filter::parse(&query)),
                    "proofs" => Shows::Proofs(Filter::parse(&query)),
                    "vaults" => Shows::Vaults(Filter::parse(&query)),
                    "activity" => Shows::Activity(asked),
                    "database" => Shows::Database(said("name").to_owned()),
                    _ => return Answer::status(StatusCode::NOT_FOUND),
                };
                let view = View { prefix: self.prefix.clone(), shows };
                let guard = Arc::clone(&self.guard);
                return self.listeners.listen(&self.look, view, said("seen").parse().ok(), (guard, pass));
            }
            _ => {
                let next = "The page has no such part.";
                return page::refusal(&self.prefix, StatusCode::NOT_FOUND, "Not found", next);
            }
        };
        site.list(shows).await
    }
}
