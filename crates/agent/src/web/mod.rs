//! The page: what a running process knows, for a browser. HTML is made here, and nothing on it comes from elsewhere.
//!
//! Everything is read from the one status type, and nothing can be changed. The page is whole without its script, which
//! only swaps parts that have changed. While no browser is connected, nothing of this runs.
//!
//! - `guard`: who may look, under which name, and how often a wrong token may be tried;
//! - `routes`: which screen a path means;
//! - `look`: the facts that the screens show, read once for all who look at the same time;
//! - `screens`: a file for each screen; `page` is what is around it;
//! - `filter`, `verdict`, `svg`, `plan`: what is decided without any I/O;
//! - `live`: parts that have changed, over one connection.

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
    guard: Guard,
    look: Arc<Look>,
    listeners: Listeners,
    /// What links begin with.
    prefix: String,
}

impl Web {
    /// The page as `config` has it.
    pub(crate) fn new(config: WebConfig, actions: Arc<Actions>) -> Self {
        let prefix = config.prefix.clone();
        Self { guard: Guard::new(config), look: Arc::new(Look::new(actions)), listeners: Listeners::default(), prefix }
    }
}

#[async_trait]
impl Handler for Web {
    async fn answer(&self, request: Request) -> Answer {
        let answer = match self.guard.admit(&request, &self.prefix).await {
            Ok(()) => self.route(&request).await,
            Err(refused) => *refused,
        };
        page::sealed(answer, &request)
    }
}
