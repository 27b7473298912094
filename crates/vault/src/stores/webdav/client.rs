//! The requests of WebDAV (RFC 4918) that the store needs, each with a deadline for its answer.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Body, RequestBuilder, Response};
use seawall_core::Moment;

use super::classify::{classify, unanswered};
use super::multistatus::{Found, Multistatus, moment, strong};
use crate::Error;
use crate::stores::cloud::classify::Notice;
use crate::stores::cloud::transport::is_web_page;

/// The characters of a path that are written as they are; `/` joins the segments.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The most bytes of one listing of a folder: some two million names.
const LARGEST_LISTING: u64 = 1 << 30;

/// A folder on a server.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) http: reqwest::Client,
    /// The server with its scheme.
    pub(super) server: String,
    /// The path of the folder, without `/` at its ends.
    pub(super) root: String,
    /// The place for messages.
    pub(super) url: String,
    /// What proves who we are.
    pub(super) authorization: Option<HeaderValue>,
    /// How long an answer may take to begin, beside the time for the request's bytes.
    pub(super) attempt: Duration,
    /// The slowest transfer waited for, in bytes per second.
    pub(super) slowest: u64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.url).finish()
    }
}

/// An object on its way.
pub(super) struct Answer {
    pub(super) size: Option<u64>,
    pub(super) tag: Option<String>,
    pub(super) response: Response,
}

impl Client {
    /// The name of a path below the place, for messages.
    pub(super) fn name(&self, path: &str) -> String {
        format!("{}/{}", self.url, path.trim_end_matches('/'))
    }

    /// The path of a folder below the place (empty, or ending in `/`) on the server, decoded, with `/` at both ends.
    fn folder(&self, below: &str) -> String {
        format!("/{}/{below}", self.root)
    }

    fn address(&self, path: &str) -> String {
        format!("{}{}", self.server, utf8_percent_encode(path, ESCAPED))
    }

    fn object(&self, path: &str) -> String {
        self.address(&self.folder(path))
    }

    async fn send(&self, object: &str, request: RequestBuilder, bytes: u64) -> Result<Response, Error> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let deadline = self.attempt + Duration::from_secs(bytes / self.slowest.max(1));
        match tokio::time::timeout(deadline, request.send()).await {
            Ok(answer) => no_web_page(object, answer.map_err(|error| unanswered(object, error))?),
            Err(_) => Err(Error::Timeout { object: object.to_owned(), after: deadline }),
        }
    }

    fn request(&self, method: &'static str, address: String) -> RequestBuilder {
        // These are tokens, so they are methods.
        let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::OPTIONS);
        self.http.request(method, address)
    }

    /// Writes a whole file.
    pub(super) async fn put(&self, path: &str, body: Bytes) -> Result<(), Error> {
        let (object, size) = (self.name(path), body.len() as u64);
        let request = self.http.put(self.object(path)).header(CONTENT_LENGTH, size).body(body);
        success(&object, "PUT", self.send(&object, request, size).await?)
    }

    /// Writes a file of unknown length, however long that takes: the sender of the bytes has deadlines.
    pub(super) async fn put_stream(&self, path: &str, body: Body) -> Result<(), Error> {
        let object = self.name(path);
        let request = self.http.put(self.object(path)).body(body);
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let answer = request.send().await.map_err(|error| unanswered(&object, error))?;
        success(&object, "PUT", no_web_page(&object, answer)?)
    }

    /// Gives a file another name; with `overwrite` also one that another file has.
    pub(super) async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), Error> {
        let object = self.name(to);
        let request = self
            .request("MOVE", self.object(from))
            .header("Destination", self.object(to))
            .header("Overwrite", if overwrite { "T" } else { "F" });
        let answer = self.send(&object, request, 0).await?;
        if answer.status() == StatusCode::MULTI_STATUS {
            let cause = "the server moved the object in part (MOVE: 207)".to_owned();
            return Err(Error::Unavailable { object, cause, retryable: true });
        }
        success(&object, "MOVE", answer)
    }

    /// Makes a folder; `Ok(false)` if the folder above is missing.
    pub(super) async fn make_folder(&self, address: &str) -> Result<bool, Error> {
        let request = self.request("MKCOL", self.address(address));
        let answer = self.send(&self.url, request, 0).await?;
        match answer.status() {
            status if status.is_success() => Ok(true),
            // It exists. Servers that redirect mean the same: there is something at this address.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::MOVED_PERMANENTLY => Ok(true),
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => Ok(false),
            // Another process may have made it in the same moment.
            status => match self.is_folder(address).await {
                true => Ok(true),
                false => Err(classify(&self.url, "MKCOL", status)),
            },
        }
    }

    async fn is_folder(&self, address: &str) -> bool {
        let mut folder = false;
        let asked = self.properties(&self.url, self.address(address), "0", |found| folder |= found.folder).await;
        asked.is_ok() && folder
    }

    /// Makes a folder below the place (empty, or ending in `/`), and those above that are missing.
    pub(super) async fn make_folders(&self, below: &str) -> Result<(), Error> {
        let path = self.folder(below);
        let path = path.trim_end_matches('/');
        let mut missing = vec![path];
        while let Some(folder) = missing.last().copied() {
            if self.make_folder(&format!("{folder}/")).await? {
                missing.pop();
                continue;
            }
            match folder.rsplit_once('/') {
                Some((above, _)) if !above.is_empty() && missing.len() <= path.matches('/').count() => {
                    missing.push(above);
                }
                _ => {
                    let cause = "the server makes no folder here (MKCOL: 409)".to_owned();
                    return Err(Error::NoFolder { object: self.url.clone(), cause });
                }
            }
        }
        Ok(())
    }

    /// Deletes a file. A file that isn't there counts as deleted.
    pub(super) async fn delete(&self, path: &str) -> Result<(), Error> {
        let object = self.name(path);
        // With this depth no server deletes a folder.
        let request = self.http.delete(self.object(path)).header("Depth", "0");
        let answer = self.send(&object, request, 0).await?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(()),
            // So some servers answer for a folder of that name, or for a name below a file.
            StatusCode::CONFLICT | StatusCode::BAD_REQUEST => match self.look(path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                _ => success(&object, "DELETE", answer),
            },
            StatusCode::MULTI_STATUS => {
                let cause = "the server deleted it in part (DELETE: 207)".to_owned();
                Err(Error::Unavailable { object, cause, retryable: true })
            }
            _ => success(&object, "DELETE", answer),
        }
    }

    /// Reads a file, or a range of it.
    pub(super) async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Answer, Error> {
        let object = self.name(path);
        let mut request = self.http.get(self.object(path));
        if let Some(Range { start, end }) = &range {
            let last = if *end > i64::MAX.unsigned_abs() { String::new() } else { end.saturating_sub(1).to_string() };
            request = request.header(RANGE, format!("bytes={start}-{last}"));
        }
        let response = self.send(&object, request, 0).await?;
        let (status, headers) = (response.status(), response.headers());
        let start = range.as_ref().map_or(0, |range| range.start);
        let size = match (status, &range) {
            (StatusCode::OK, None) => response.content_length(),
            (StatusCode::PARTIAL_CONTENT, Some(_)) => {
                let told = content_range(headers).filter(|(first, _)| *first == start);
                let wrong = || Error::Corrupt { object: object.clone(), cause: "this is another range".to_owned() };
                told.ok_or_else(wrong)?.1
            }
            (StatusCode::OK, Some(_)) => {
                let cause = "the server ignored the range that was asked for".to_owned();
                return Err(Error::Corrupt { object, cause });
            }
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => return Err(Error::OutOfRange { object, start }),
            _ if is_folder(status, headers, &self.object(path)) => return Err(Error::NotFound { object }),
            _ => return Err(classify(&object, "GET", status)),
        };
        let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok()).and_then(strong).map(str::to_owned);
        Ok(Answer { size, tag, response })
    }

    /// What is known about a file.
    pub(super) async fn look(&self, path: &str) -> Result<Found, Error> {
        let object = self.name(path);
        let mut all = Vec::new();
        self.properties(&object, self.object(path), "0", |found| {
            if all.is_empty() {
                all.push(found);
            }
        })
        .await?;
        match all.pop() {
            Some(found) if found.folder || matches!(found.status, Some(404 | 410)) => Err(Error::NotFound { object }),
            Some(found) if found.status.is_none_or(|status| status < 300) => Ok(found),
            found => {
                let status = found.and_then(|found| found.status);
                let cause = format!("the server tells nothing of it (PROPFIND: {status:?})");
                Err(Error::Corrupt { object, cause })
            }
        }
    }

    /// What is in a folder below the place (empty, or ending in `/`): names and properties, in the server's order. Returns the
    /// server's time.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such folder.
    pub(super) async fn list(
        &self,
        below: &str,
        mut found: impl FnMut(String, Found) + Send,
    ) -> Result<Option<Moment>, Error> {
        let (object, folder) = (self.name(below), self.folder(below));
        let mut foreign = None;
        let date = self
            .properties(&object, self.address(&folder), "1", |resource| match child(&folder, &resource.href) {
                Child::Named(name) => found(name, resource),
                Child::Itself | Child::Unreadable => {}
                Child::Elsewhere => foreign = foreign.take().or(Some(resource.href)),
            })
            .await?;
        // Names that are left out in silence would be a vault with holes.
        if let Some(href) = foreign {
            let href: String = href.chars().take(200).collect();
            let cause = format!("the server lists a name that is not in this folder: {}", href.escape_debug());
            return Err(Error::Corrupt { object, cause });
        }
        Ok(date)
    }

    async fn properties(
        &self,
        object: &str,
        address: String,
        depth: &str,
        mut found: impl FnMut(Found) + Send,
    ) -> Result<Option<Moment>, Error> {
        // Without a body, which asks for all properties: servers (WsgiDAV) leave a body unread when they refuse, and take it for
        // the next request on the connection.
        let request = self.request("PROPFIND", address).header("Depth", depth);
        let mut response = self.send(object, request, 0).await?;
        match response.status() {
            StatusCode::MULTI_STATUS => {}
            status if status.is_success() => return Err(classify(object, "PROPFIND", StatusCode::NOT_IMPLEMENTED)),
            status => return Err(classify(object, "PROPFIND", status)),
        }
        let date = response.headers().get(DATE).and_then(|date| moment(date.to_str().ok()?));
        let corrupt = |cause: &str| Error::Corrupt { object: object.to_owned(), cause: cause.to_owned() };
        let (mut answer, mut taken) = (Multistatus::default(), 0_u64);
        while let Some(chunk) = self.chunk(object, &mut response).await? {
            taken += chunk.len() as u64;
            if taken > LARGEST_LISTING {
                return Err(corrupt("the answer is too large"));
            }
            answer.feed(&chunk, &mut found).map_err(corrupt)?;
        }
        if !answer.is_complete() {
            return Err(corrupt("the answer ends in the middle, or is none of WebDAV"));
        }
        Ok(date)
    }

    async fn chunk(&self, object: &str, response: &mut Response) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.attempt, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| unanswered(object, error)),
            Err(_) => Err(Error::Timeout { object: object.to_owned(), after: self.attempt }),
        }
    }
}

/// Refuses an answer that is another's.
fn no_web_page(object: &str, answer: Response) -> Result<Response, Error> {
    if !is_web_page(answer.status(), answer.headers()) {
        return Ok(answer);
    }
    let cause = Notice::WebPage.to_string();
    Err(Error::Unavailable { object: object.to_owned(), cause, retryable: true })
}

fn success(object: &str, method: &str, answer: Response) -> Result<(), Error> {
    if answer.status().is_success() { Ok(()) } else { Err(classify(object, method, answer.status())) }
}

/// Whether the answer sends to the same address with a `/` at its end: so servers say that a name is a folder's.
fn is_folder(status: StatusCode, headers: &HeaderMap, address: &str) -> bool {
    let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
    let path = |address: &str| match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or(String::new(), |(_, path)| format!("/{path}")),
        None => address.to_owned(),
    };
    status.is_redirection() && path(to).strip_suffix('/').is_some_and(|to| decoded(to) == decoded(&path(address)))
}

fn decoded(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}

/// The first byte and the object's size of `bytes 0-9/100`.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (bounds, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((bounds.split_once('-')?.0.parse().ok()?, size.parse().ok()))
}

/// What an address in a listing names.
#[derive(Debug, PartialEq, Eq)]
enum Child {
    Itself,
    Named(String),
    /// A name that isn't text, and so none of an object.
    Unreadable,
    Elsewhere,
}

/// The name that an address has in a folder (with `/` at both ends). Only the path counts: behind a proxy, servers name
/// themselves otherwise, and no request ever goes to such an address.
fn child(folder: &str, href: &str) -> Child {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("/".to_owned(), |(_, path)| format!("/{path}")),
        None => href.to_owned(),
    };
    let Some(path) = decoded(&path) else { return Child::Unreadable };
    if path.trim_end_matches('/') == folder.trim_end_matches('/') {
        return Child::Itself;
    }
    let Some(name) = path.strip_prefix(folder) else { return Child::Elsewhere };
    let name = name.strip_suffix('/').unwrap_or(name);
    if name.contains('/') { Child::Elsewhere } else { Child::Named(name.to_owned()) }
}

/// What proves who we are.
pub(super) fn authorization(
    username: Option<&str>,
    password: Option<&str>,
    token: Option<&str>,
) -> Result<Option<HeaderValue>, Error> {
    use base64::Engine as _;
    let text = match (username, password, token) {
        (_, _, Some(token)) => format!("Bearer {token}"),
        (None, None, None) => return Ok(None),
        (name, password, None) => {
            let pair = format!("{}:{}", name.unwrap_or_default(), password.unwrap_or_default());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        }
    };
    let unusable = |_| crate::text::wrong("token", "it holds a character that no header takes", "check the token");
    let mut value = HeaderValue::from_str(&text).map_err(unusable)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// The time of a file as HTTP tells it.
pub(super) fn when(found: &Found) -> Moment {
    found.modified.unwrap_or(Moment::from_millis(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_listings() {
        let named = |name: &str| Child::Named(name.to_owned());
        for (href, expected) in [
            ("/a/b%20c/", Child::Itself),
            ("/a/b%20c", Child::Itself),
            ("http://other:81/a/b%20c/x", named("x")),
            ("/a/b c/x/", named("x")),
            ("/a/b%20c/%2B%2541", named("+%41")),
            ("/a/b%20c/..", named("..")),
            ("/a/b%20c/x/y", Child::Elsewhere),
            ("/a/b%20c/x%2Fy", Child::Elsewhere),
            ("/a/x", Child::Elsewhere),
            ("x", Child::Elsewhere),
            ("/a/b%20c/%ff", Child::Unreadable),
        ] {
            assert_eq!(child("/a/b c/", href), expected, "{href}");
        }
    }

    #[test]
    fn redirections_to_folders() {
        for (status, to, expected) in [
            (301, "http://h:1/a/b%20c/", true),
            (302, "/a/b%20c/", true),
            (301, "https://h:1/a/b%20c", false),
            (301, "https://login.example/", false),
            (200, "/a/b%20c/", false),
        ] {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(to))]);
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(is_folder(status, &headers, "http://h/a/b%20c"), expected, "{to}");
        }
    }

    #[test]
    fn ranges() {
        for (value, expected) in [
            ("bytes 5-9/100", Some((5, Some(100)))),
            ("bytes 5-9/*", Some((5, None))),
            ("bytes */100", None),
            ("5-9/100", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(value))]);
            assert_eq!(content_range(&headers), expected, "{value}");
        }
    }

    #[test]
    fn proofs_are_sensitive() {
        let basic = authorization(Some("me"), Some("hunter2"), None).expect("a proof").expect("one");
        assert_eq!(basic.to_str().ok(), Some("Basic bWU6aHVudGVyMg=="));
        assert!(!format!("{basic:?}").contains("bWU6"));
        assert_eq!(authorization(None, None, None), Ok(None));
        assert!(authorization(None, None, Some("a\u{1}b")).is_err());
    }
}
