//! Who may see the page? A request must name a host that is meant, and where a token is set, know it.
//!
//! A web page of somebody else can lead its own name to this machine (DNS rebinding). So on a loopback address only names
//! of this machine count, and those of the configuration. After the login form a cookie takes the place of the token: it says
//! until when it counts, signed with the token, so that nothing is kept, and another token ends it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN, RETRY_AFTER, SET_COOKIE};
use hyper::{HeaderMap, Method, StatusCode};
use ring::hmac;
use seawall_core::{Clock as _, Moment, SystemClock};
use tokio::time::Instant;

use super::page;
use crate::config::{Hidden, WebConfig};
use crate::http::{Answer, Request};
use crate::services::token::{Token, is_equal};

/// The name of the cookie.
const NAME: &str = "seawall";

/// How long a login lasts.
const LOGIN: Duration = Duration::from_secs(12 * 3600);

/// How many wrong tokens one address may try within the window.
const TRIES: (u32, Duration) = (10, Duration::from_secs(60));

/// Addresses whose tries are counted. All others share one count.
const ADDRESSES: usize = 1024;

/// What let a request through, and for how long it does. It holds secrets, so it has no Debug (I13).
#[derive(Clone, Default)]
pub(super) struct Pass {
    /// The token that counted then.
    token: Option<Hidden>,
    /// The login, with its end.
    login: Option<(String, Moment)>,
    /// What the forms of this login carry; `None` if it may not act.
    form: Option<String>,
}

impl Pass {
    /// What the forms of this login carry; `None` if it may not act.
    pub(super) fn form(&self) -> Option<String> {
        self.form.clone()
    }

    /// Whether a form is one that the page made for this login. Compares in a time that tells nothing.
    pub(super) fn is_form_of(&self, given: &str) -> bool {
        self.form.as_ref().is_some_and(|form| is_equal(form, given))
    }
}

/// Decides who may look.
pub(super) struct Guard {
    config: WebConfig,
    token: Option<Token>,
    tries: Mutex<Tries>,
}

impl Guard {
    pub(super) fn new(config: WebConfig) -> Self {
        let token = config.token.clone().map(|token| Token::new(token, config.token_file.clone()));
        Self { config, token, tries: Mutex::default() }
    }

    /// Whether visitors log in.
    pub(super) fn has_login(&self) -> bool {
        self.token.is_some()
    }

    /// Whether what let a request through still does: the token is the same, and the login isn't over.
    pub(super) async fn still_lets(&self, pass: &Pass) -> bool {
        let Some(token) = &self.token else { return true };
        let (now, token) = (SystemClock.now(), token.now().await);
        pass.login.as_ref().is_none_or(|(_, until)| *until > now)
            && pass.token.as_ref().is_some_and(|then| *then == token)
    }

    /// Lets a request through, or answers it: with a refusal, the login form, or what came of a login.
    pub(super) async fn admit(&self, request: &Request, prefix: &str) -> Result<Pass, Box<Answer>> {
        if !request.header(HOST).is_some_and(|host| self.is_meant(host)) {
            let told = "This name isn't one of the page's. Visit it as localhost, or add the name to web.hosts.\n";
            return Err(Box::new(Answer::text(StatusCode::MISDIRECTED_REQUEST, told)));
        }
        if is_loaded_by_others(request) {
            return Err(Box::new(Answer::status(StatusCode::FORBIDDEN)));
        }
        let path = page::below(prefix, &request.path);
        let Some(token) = &self.token else {
            if is_brought(&request.headers) {
                let told = "This page has no token, and a proxy brings visitors of other machines. \
                            Set web.token or web.token-file (of `seawall web`: --token-file).\n";
                return Err(Box::new(Answer::text(StatusCode::FORBIDDEN, told)));
            }
            return match request.method == Method::GET || request.method == Method::HEAD {
                true => Ok(Pass::default()),
                false => Err(Box::new(Answer::status(StatusCode::METHOD_NOT_ALLOWED))),
            };
        };
        let token = token.now().await;
        match (&request.method, path) {
            (&Method::POST, "/login") => Err(Box::new(self.login(request, prefix, &token))),
            (&Method::POST, "/logout") => Err(Box::new(self.logout(request, prefix))),
            (&Method::POST, "/do") if self.config.actions => self.act(request, prefix, &token),
            (&Method::GET | &Method::HEAD, _) => self.look_at(request, prefix, &token),
            _ => Err(Box::new(Answer::status(StatusCode::METHOD_NOT_ALLOWED))),
        }
    }

    /// Whether a host that a request names is one of the page's.
    fn is_meant(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        if self.config.hosts.contains(&name) {
            return true;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let ip = bare.parse::<IpAddr>().ok();
        match self.config.address.ip().is_loopback() {
            true => name == "localhost" || ip.is_some_and(|ip| ip.is_loopback()),
            // Elsewhere the token protects it, and a cookie belongs to one name.
            false => self.config.hosts.is_empty() || ip.is_some(),
        }
    }

    fn look_at(&self, request: &Request, prefix: &str, token: &Hidden) -> Result<Pass, Box<Answer>> {
        if let Some(login) = login_of(request, token) {
            let form = self.config.actions.then(|| form_of(&login.0, token));
            return Ok(Pass { token: Some(token.clone()), login: Some(login), form });
        }
        match request.header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")) {
            None => Err(Box::new(page::login(prefix, StatusCode::UNAUTHORIZED, None))),
            Some(given) => match self.check(request, given, token) {
                Ok(()) => Ok(Pass { token: Some(token.clone()), login: None, form: None }),
                Err(status) => {
                    let told = if status == StatusCode::UNAUTHORIZED { WRONG } else { TOO_MANY };
                    Err(Box::new(late(page::login(prefix, status, Some(told)))))
                }
            },
        }
    }

    /// Lets a form through that acts: from the page itself, which a browser says, and with a login. A token in a header isn't one.
    fn act(&self, request: &Request, prefix: &str, token: &Hidden) -> Result<Pass, Box<Answer>> {
        if !request.headers.contains_key(ORIGIN) || !self.is_own(request) {
            return Err(Box::new(of_another(request)));
        }
        match login_of(request, token) {
            Some(_) => self.look_at(request, prefix, token),
            None => Err(Box::new(page::login(prefix, StatusCode::UNAUTHORIZED, None))),
        }
    }

    fn login(&self, request: &Request, prefix: &str, token: &Hidden) -> Answer {
        if !self.is_own(request) {
            return of_another(request);
        }
        let given = form_urlencoded::parse(&request.body).find(|(key, _)| key == "token").map(|(_, value)| value);
        match self.check(request, given.unwrap_or_default().trim(), token) {
            Ok(()) => {
                let until = SystemClock.now().after(LOGIN);
                let life = format!("; Max-Age={}", LOGIN.as_secs());
                gone_to(prefix, &set_cookie(request, prefix, &signed(until, token), &life))
            }
            Err(StatusCode::UNAUTHORIZED) => page::login(prefix, StatusCode::UNAUTHORIZED, Some(WRONG)),
            Err(status) => late(page::login(prefix, status, Some(TOO_MANY))),
        }
    }

    fn logout(&self, request: &Request, prefix: &str) -> Answer {
        match self.is_own(request) {
            true => gone_to(prefix, &set_cookie(request, prefix, "", "; Max-Age=0")),
            false => Answer::status(StatusCode::FORBIDDEN),
        }
    }

    /// Whether a form was sent by the page itself. A browser says from where. A proxy may replace the visited name in `Host` by its own name, or
    /// leave out the port: an origin that `web.hosts` names is the page's, too.
    fn is_own(&self, request: &Request) -> bool {
        let Some(origin) = request.header(ORIGIN) else { return !request.headers.contains_key(ORIGIN) };
        let host = origin.split_once("://").map(|(_, host)| host);
        let is_named = |host: &str| self.config.hosts.contains(&name_of(host).to_ascii_lowercase());
        host.is_some() && host == request.header(HOST) || host.is_some_and(is_named)
    }

    /// Compares a token, unless this address has tried too many wrong ones.
    fn check(&self, request: &Request, given: &str, token: &Hidden) -> Result<(), StatusCode> {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !tries.may_try(request.peer, now) {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        if is_equal(given, token.reveal()) {
            return Ok(());
        }
        tries.failed(request.peer, now);
        Err(StatusCode::UNAUTHORIZED)
    }
}

/// What is said of a wrong token.
const WRONG: &str = "This token is wrong.";

/// What is said of too many wrong ones.
const TOO_MANY: &str = "Too many wrong tokens came from your address. Wait a minute, and try again.";

fn late(mut answer: Answer) -> Answer {
    if answer.status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers.push((RETRY_AFTER, HeaderValue::from_static("60")));
    }
    answer
}

/// The wrong tries of each address.
#[derive(Debug, Default)]
struct Tries(HashMap<Option<IpAddr>, (Instant, u32)>);

impl Tries {
    fn may_try(&mut self, peer: Option<IpAddr>, now: Instant) -> bool {
        let key = self.key(peer);
        self.0.get(&key).is_none_or(|(since, count)| *count < TRIES.0 || now.duration_since(*since) >= TRIES.1)
    }

    fn failed(&mut self, peer: Option<IpAddr>, now: Instant) {
        if self.0.len() >= ADDRESSES {
            self.0.retain(|_, (since, _)| now.duration_since(*since) < TRIES.1);
        }
        let entry = self.0.entry(self.key(peer)).or_insert((now, 0));
        if now.duration_since(entry.0) >= TRIES.1 {
            *entry = (now, 0);
        }
        entry.1 += 1;
    }

    /// Under what an address is counted. A network of IPv6 counts as one address, because its user has all of them.
    fn key(&self, peer: Option<IpAddr>) -> Option<IpAddr> {
        let key = peer.map(|peer| match peer.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() & !u128::from(u64::MAX)).into()),
            ip => ip,
        });
        if self.0.len() < ADDRESSES || self.0.contains_key(&key) { key } else { None }
    }
}

/// The name in `name:port`.
fn name_of(host: &str) -> &str {
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether a proxy says that it brings the request of somebody else.
fn is_brought(headers: &HeaderMap) -> bool {
    ["forwarded", "x-forwarded-for", "x-real-ip"].iter().any(|name| headers.contains_key(*name))
}

/// Whether a page of another site loads this one as a part of itself. A browser says so; a link of another site is fine.
fn is_loaded_by_others(request: &Request) -> bool {
    let site = request.header(HeaderName::from_static("sec-fetch-site"));
    let is_link = request.header(HeaderName::from_static("sec-fetch-dest")) == Some("document");
    matches!(site, Some("cross-site" | "same-site")) && !is_link
}

/// The answer to a form that another page sent, as far as can be told.
fn of_another(request: &Request) -> Answer {
    let text = |name| request.header(name).unwrap_or("an unknown place").escape_default().to_string();
    let told = format!(
        "This form was sent from {}, and the request is for {}. Behind a proxy, name the public name in web.hosts, or let the proxy pass \
         the Host header on (nginx: proxy_set_header Host $http_host;).\n",
        text(ORIGIN),
        text(HOST)
    );
    Answer::text(StatusCode::FORBIDDEN, told)
}

/// The values of the page's cookies that a request carries.
fn cookies(request: &Request) -> impl Iterator<Item = &str> {
    let all = request.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}

/// The value of a cookie that counts until a moment.
fn signed(until: Moment, token: &Hidden) -> String {
    let until = until.as_millis().to_string();
    let tag = hmac::sign(&key(token), until.as_bytes());
    format!("{until}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

/// The login that a request carries, with its end.
fn login_of(request: &Request, token: &Hidden) -> Option<(String, Moment)> {
    let now = SystemClock.now();
    cookies(request).find_map(|value| Some((value.to_owned(), counts_until(value, token, now)?)))
}

/// Until when the value of a cookie counts; `None` if it doesn't count any more. Compares in a time that tells nothing.
fn counts_until(value: &str, token: &Hidden, now: Moment) -> Option<Moment> {
    let (until, tag) = value.split_once('.')?;
    let end = Moment::from_millis(until.parse().ok()?);
    let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).ok()?;
    (end > now && hmac::verify(&key(token), until.as_bytes(), &tag).is_ok()).then_some(end)
}

fn key(token: &Hidden) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, format!("seawall page login\n{}", token.reveal()).as_bytes())
}

/// What the forms of a login carry, so that no other page can make one.
fn form_of(login: &str, token: &Hidden) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, format!("seawall page form\n{}", token.reveal()).as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&key, login.as_bytes()))
}

/// The header of a cookie for the page alone, out of reach of scripts and of other sites.
fn set_cookie(request: &Request, prefix: &str, value: &str, life: &str) -> String {
    let is_encrypted = request.header(HeaderName::from_static("x-forwarded-proto")) == Some("https");
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("{NAME}={value}; Path={prefix}/; HttpOnly; SameSite=Strict{secure}{life}")
}

/// Leads to the first screen, and sets a cookie.
fn gone_to(prefix: &str, cookie: &str) -> Answer {
    let mut answer = Answer::text(StatusCode::SEE_OTHER, "");
    for (name, value) in [(LOCATION, format!("{prefix}/")), (SET_COOKIE, cookie.to_owned())] {
        // Both are made of ASCII.
        answer.headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let guard = |address: &str, hosts: &[&str]| {
            let config = WebConfig::parse(address).expect("an address");
            Guard::new(WebConfig { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..config })
        };
        for (address, hosts, host, is_meant) in [
            ("127.0.0.1:8400", &[][..], "127.0.0.1:8400", true),
            ("127.0.0.1:8400", &[], "localhost", true),
            ("127.0.0.1:8400", &[], "LOCALHOST:8400", true),
            ("127.0.0.1:8400", &[], "[::1]:8400", true),
            ("127.0.0.1:8400", &[], "evil.example", false),
            ("127.0.0.1:8400", &[], "localhost.evil.example:8400", false),
            ("127.0.0.1:8400", &[], "192.0.2.1:8400", false),
            ("127.0.0.1:8400", &[], "", false),
            ("127.0.0.1:8400", &["seawall.example"], "Seawall.example:443", true),
            ("127.0.0.1:8400", &["seawall.example"], "evil.example", false),
            ("0.0.0.0:80", &[], "any.example", true),
            ("0.0.0.0:80", &["seawall.example"], "seawall.example", true),
            ("0.0.0.0:80", &["seawall.example"], "192.0.2.1", true),
            ("0.0.0.0:80", &["seawall.example"], "evil.example", false),
        ] {
            assert_eq!(guard(address, hosts).is_meant(host), is_meant, "{address} {hosts:?} {host}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_what_it_adds() {
        for (name, expected) in [
            ("forwarded", true),
            ("x-forwarded-for", true),
            ("x-real-ip", true),
            ("x-forwarded-proto", false),
            ("host", false),
        ] {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("192.0.2.1"))]);
            assert_eq!(is_brought(&headers), expected, "{name}");
        }
    }

    #[test]
    fn cookies_count_for_a_while_and_for_one_token() {
        let (token, other) = (Hidden::new("0123456789abcdef"), Hidden::new("0123456789abcdeg"));
        let now = Moment::from_millis(1_000);
        let value = signed(now.after(LOGIN), &token);
        assert!(!value.contains("0123456789abcdef"));
        let later = format!("9{value}");
        for (value, token, now, expected) in [
            (&*value, &token, now, true),
            (&value, &other, now, false),
            (&value, &token, now.after(LOGIN), false),
            (&later, &token, now, false),
            ("", &token, now, false),
            ("9999999999999.", &token, now, false),
            ("9999999999999.AAAA", &token, now, false),
        ] {
            assert_eq!(counts_until(value, token, now).is_some(), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn wrong_tokens_are_counted_by_address() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let ip = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        let (one, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        for _ in 0..TRIES.0 {
            assert!(tries.may_try(one, now));
            tries.failed(one, now);
        }
        assert!(!tries.may_try(one, now) && tries.may_try(other, now) && tries.may_try(None, now));
        assert!(!tries.may_try(ip("::ffff:192.0.2.1"), now), "the same in other words");
        assert!(tries.may_try(one, now + TRIES.1));
        (0..TRIES.0).for_each(|n| tries.failed(ip(&format!("2001:db8::{n}")), now));
        assert!(!tries.may_try(ip("2001:db8::ffff"), now) && tries.may_try(ip("2001:db8:0:1::1"), now));
        // Very many addresses take no memory: later addresses share one count.
        (0..2 * ADDRESSES).for_each(|n| tries.failed(ip(&format!("2001:db8:{n:x}::1")), now));
        assert!(tries.0.len() <= ADDRESSES + 1);
        assert!(!tries.may_try(ip("2001:db8:ffff::1"), now));
    }
}
