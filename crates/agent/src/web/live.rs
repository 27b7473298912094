//! Parts of a screen that have changed, over one connection for as long as somebody looks.
//!
//! The timer is in the answer itself: it runs while the browser reads, and is gone with the connection.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::guard::{Guard, Pass};
use super::look::Look;
use super::page::cleaned;
use super::screens::View;
use crate::http::{Answer, Events};

/// How often the screen is compared with what the browser has.
const TICK: Duration = Duration::from_secs(2);

/// After so many quiet ticks an event without parts is sent: a browser that hears none for 30 s says that it isn't live.
const QUIET: u32 = 5;

/// Browsers that listen at a time: half of the connections that the server has.
const LISTENERS: usize = 16;

/// Parts of a screen: each with the `id` of its element, which is the whole of the element.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// An element that holds the next ones. It is sent whole when one of them comes, goes or moves.
    pub(super) holder: Option<(String, String)>,
    /// What is in the holder.
    pub(super) held: Vec<(String, String)>,
    /// Elements beside it.
    pub(super) beside: Vec<(String, String)>,
}

impl Parts {
    /// A number that other parts don't have.
    pub(super) fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.held, &self.beside).hash(&mut hasher);
        hasher.finish()
    }

    /// What a browser with the `before` parts needs to show these.
    fn since<'a>(&'a self, before: &Known) -> Vec<(&'a str, &'a str)> {
        let order: Vec<u64> = self.held.iter().map(|(id, _)| number_of(id)).collect();
        let is_new = |(id, html): &&(String, String)| before.parts.get(id) != Some(&number_of(html));
        let held: Vec<&(String, String)> = match &self.holder {
            Some(holder) if order != before.order => vec![holder],
            _ => self.held.iter().filter(is_new).collect(),
        };
        held.into_iter().chain(self.beside.iter().filter(is_new)).map(|(id, html)| (&**id, &**html)).collect()
    }
}

/// What a browser has.
#[derive(Debug, Default)]
struct Known {
    order: Vec<u64>,
    parts: HashMap<String, u64>,
}

impl From<&Parts> for Known {
    fn from(parts: &Parts) -> Self {
        let all = parts.held.iter().chain(&parts.beside);
        Self {
            order: parts.held.iter().map(|(id, _)| number_of(id)).collect(),
            parts: all.map(|(id, html)| (id.clone(), number_of(html))).collect(),
        }
    }
}

/// A number that another value doesn't have.
pub(super) fn number_of(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The places of those who listen.
pub(super) struct Listeners(Arc<Semaphore>);

impl Default for Listeners {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LISTENERS)))
    }
}

/// One who listens.
struct Listener {
    look: Arc<Look>,
    view: View,
    /// The number of the parts that the page was loaded with, before the first look.
    seen: Option<u64>,
    known: Known,
    is_first: bool,
    /// What let the browser in. When it doesn't any more, the stream ends.
    let_in: (Arc<Guard>, Pass),
    _place: OwnedSemaphorePermit,
}

impl Listeners {
    /// Sends the changes of a view from now on. `seen` is the number of the parts that the browser has.
    pub(super) fn listen(&self, look: &Arc<Look>, view: View, seen: Option<u64>, let_in: (Arc<Guard>, Pass)) -> Answer {
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else {
            let mut answer = Answer::text(StatusCode::SERVICE_UNAVAILABLE, "too many browsers listen\n");
            answer.headers.push((RETRY_AFTER, HeaderValue::from_static("15")));
            return answer;
        };
        let known = Known::default();
        let listener = Listener { look: Arc::clone(look), view, seen, known, is_first: true, let_in, _place: place };
        let events = futures::stream::unfold(listener, |mut listener| async move {
            let event = listener.next().await?;
            Some((event, listener))
        });
        let mut answer = Answer::new(StatusCode::OK, "text/event-stream", ": here\n\n");
        // nginx would keep the events back.
        answer.headers.push((HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")));
        answer.events = Some(Events(events.boxed()));
        answer
    }
}

impl Listener {
    /// Waits for the next change, or for the time of a sign of life. `None` once the browser may not look any more.
    async fn next(&mut self) -> Option<Bytes> {
        for _ in 0..QUIET {
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(TICK).await;
            }
            let (guard, pass) = &self.let_in;
            if !guard.still_lets(pass).await {
                return None;
            }
            let parts = self.view.parts(&self.look).await;
            // What the browser was loaded with, it needn't get again.
            if self.seen.take() == Some(parts.number()) {
                self.known = Known::from(&parts);
            }
            let changed = parts.since(&self.known);
            if !changed.is_empty() {
                let event = event(&changed);
                self.known = Known::from(&parts);
                return Some(event);
            }
        }
        Some(Bytes::from_static(b"data: []\n\n"))
    }
}

/// One message. JSON has no line breaks, so that it is one line.
fn event(changed: &[(&str, &str)]) -> Bytes {
    let parts: Vec<(&str, String)> = changed.iter().map(|(id, html)| (*id, cleaned(html))).collect();
    // Texts always have a JSON form.
    format!("data: {}\n\n", serde_json::to_string(&parts).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(held: &[(&str, &str)], beside: &[(&str, &str)]) -> Parts {
        let own = |all: &[(&str, &str)]| all.iter().map(|(id, html)| ((*id).into(), (*html).into())).collect();
        let whole = held.iter().map(|(_, html)| *html).collect::<String>();
        Parts { holder: Some(("rows".into(), whole)), held: own(held), beside: own(beside) }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let before = parts(&[("a", "1"), ("b", "2")], &[("sum", "3")]);
        for (now, expected) in [
            (before.clone(), &[][..]),
            (parts(&[("a", "1"), ("b", "9")], &[("sum", "3")]), &[("b", "9")]),
            (parts(&[("a", "1"), ("b", "2")], &[("sum", "4")]), &[("sum", "4")]),
            (parts(&[("b", "2"), ("a", "1")], &[("sum", "3")]), &[("rows", "21")]),
            (parts(&[("a", "1")], &[("sum", "4")]), &[("rows", "1"), ("sum", "4")]),
            (parts(&[("a", "1"), ("b", "2"), ("c", "5")], &[("sum", "3")]), &[("rows", "125")]),
        ] {
            assert_eq!(now.since(&Known::from(&before)), expected, "{now:?}");
            assert_eq!(now.number() == before.number(), expected.is_empty());
        }
        assert_eq!(before.since(&Known::default()), [("rows", "12"), ("sum", "3")]);
    }

    #[test]
    fn a_message_is_one_line() {
        let text = event(&[("a", "<p>x\ny\u{202e}</p>")]);
        assert_eq!(text, "data: [[\"a\",\"<p>x\\ny\\\\u{202e}</p>\"]]\n\n");
    }
}
