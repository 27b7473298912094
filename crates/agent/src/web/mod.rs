//! The page: what a running process knows, for a browser. HTML is made here, and nothing on it comes from elsewhere.
//!
//! Everything is read from the one status type. Nothing can be changed unless the configuration says so, and then only by a visitor
//! who logged in. The page is whole without its script, which
//! only swaps parts that have changed. While no browser is connected, nothing of this runs.
//!
//! - `guard`: who may look, under which name, and how often a wrong token may be tried;
//! - `routes`: which screen a path means;
//! - `look`: the facts that the screens show, read once for all who look at the same time;
//! - `screens`: a file for each screen; `page` is what is around it;
//! - `deed`: what a visitor may ask for; `act` begins it;
//! - `filter`, `verdict`, `svg`, `calendar`, `plan`: what is decided without any I/O;
//! - `live`: parts that have changed, over one connection;
//! - `catalogue`: the page of a prefix in a store, where no process protects.

mod act;
mod calendar;
pub(crate) mod catalogue;
mod deed;
mod filter;
mod guard;
mod live;
mod look;
mod page;
mod plan;
mod routes;
mod screens;
mod svg;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use async_trait::async_trait;

use self::guard::Guard;
use self::live::Listeners;
use self::look::Look;
use crate::config::WebConfig;
use crate::control::Actions;
use crate::http::{Answer, Handler, Request};

/// Serves the page.
pub(crate) struct Web {
    guard: Arc<Guard>,
    look: Arc<Look>,
    listeners: Listeners,
    /// What links begin with.
    prefix: String,
}

impl Web {
    /// The page as `config` has it.
    pub(crate) fn new(config: WebConfig, actions: Arc<Actions>) -> Self {
        let prefix = config.prefix.clone();
        let (guard, look) = (Arc::new(Guard::new(config)), Arc::new(Look::new(actions)));
        Self { guard, look, listeners: Listeners::default(), prefix }
    }
}

#[async_trait]
impl Handler for Web {
    async fn answer(&self, request: Request) -> Answer {
        let answer = match self.guard.admit(&request, &self.prefix).await {
            Ok(pass) => self.route(&request, pass).await,
            Err(refused) => *refused,
        };
        page::sealed(answer, &request)
    }
}
