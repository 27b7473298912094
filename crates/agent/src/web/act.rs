//! Carries out what a visitor asks for, and answers with where it can be followed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use percent_encoding::percent_decode_str;
use seawall_core::{Failure, Kind};

use super::Web;
use super::deed::{Deed, Order};
use super::guard::Pass;
use super::page;
use crate::fleet;
use crate::http::{Answer, Request};

/// How long the answer waits for the end of what is asked for. What takes longer goes on.
const BRIEF: Duration = Duration::from_secs(2);

impl Web {
    /// The answer to a form that was let through.
    pub(super) async fn act(&self, request: &Request, pass: &Pass) -> Answer {
        let fields: HashMap<String, String> = form_urlencoded::parse(&request.body).into_owned().collect();
        let said = |key: &str| fields.get(key).map_or("", String::as_str);
        match self.begin(&said, pass) {
            Ok((number, task)) => {
                let _goes_on = tokio::time::timeout(BRIEF, task).await;
                let mut answer = Answer::text(StatusCode::SEE_OTHER, "");
                let place = format!("{}/activity?asked={number}", self.prefix);
                answer.headers.extend(HeaderValue::from_str(&place).ok().map(|place| (LOCATION, place)));
                answer
            }
            Err((status, failure)) => page::failed(&self.prefix, status, "Nothing was done", &failure),
        }
    }

    fn begin<'f>(
        &self,
        said: &impl Fn(&str) -> &'f str,
        pass: &Pass,
    ) -> Result<(u64, tokio::task::JoinHandle<()>), (StatusCode, Failure)> {
        if !pass.is_form_of(said("form")) {
            let cause = "the form isn't one that this page made for this login";
            let next = "load the page again, and send its own form";
            return Err((StatusCode::FORBIDDEN, Failure::new(Kind::Denied, "agent.page-form", "form", cause, next)));
        }
        let name = percent_decode_str(said("name")).decode_utf8_lossy();
        let (name, actions) = (&*name, self.look.shared_actions());
        let Some(deed) = Deed::parse(said("do")) else {
            let failure = Failure::new(
                Kind::Usage,
                "agent.page-form",
                "form",
                "the page has no such action",
                "load the page again",
            );
            return Err((StatusCode::BAD_REQUEST, failure));
        };
        let member = actions.fleet().find(name).filter(|member| member.config.name == name);
        let member = member.ok_or_else(|| (StatusCode::NOT_FOUND, fleet::unknown(name)))?;
        let order = Order::read(deed, &member.config.name, said("typed"), said("at"), said("for"))
            .map_err(|failure| (StatusCode::BAD_REQUEST, failure))?;
        tracing::info!(database = name, "the page asks: {}", deed.word());
        let work = order.carry_out(Arc::clone(&actions));
        actions.errands().begin(deed.word(), name, work).map_err(|failure| (StatusCode::CONFLICT, failure))
    }
}
