//! The page as a browser sees it, over databases that do nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION, ORIGIN, SET_COOKIE,
};
use hyper::{Method, StatusCode};
use seawall_core::{Alarm, Description, Figures, Moment, Phase, Severity, Shutdown, Status};
use tokio::time::{Instant, timeout};

use super::filter::{Filter, ROWS};
use super::look::Known;
use super::screens::{Shows, View};
use super::*;
use crate::config::{DatabaseConfig, Hidden, Registering, WebConfig};
use crate::fleet::{Fleet, Origin};
use crate::http::Events;
use crate::testing::{Stubs, database};

const TOKEN: &str = "0123456789abcdef";

async fn web(names: &[&str], change: impl FnOnce(&mut WebConfig)) -> Web {
    let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
    for name in names {
        let place = database(&name.chars().filter(char::is_ascii_alphanumeric).collect::<String>());
        fleet.add(DatabaseConfig { name: (*name).to_owned(), ..place }, Origin::Configured).await.expect("added");
    }
    let registering = Registering::plain(Path::new("/"), Duration::from_secs(5));
    let actions = Arc::new(Actions::new(fleet, registering, None, "1.2.3"));
    let mut config = WebConfig::parse("127.0.0.1:0").expect("an address");
    change(&mut config);
    Web::new(config, actions)
}

fn get(target: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Request {
        method: Method::GET,
        path: path.to_owned(),
        query: query.to_owned(),
        body: Default::default(),
        headers: HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:8400"))]),
        peer: Some([127, 0, 0, 1].into()),
    }
}

fn with(mut request: Request, headers: &[(HeaderName, &str)]) -> Request {
    for (name, value) in headers {
        request.headers.insert(name, HeaderValue::from_str(value).expect("a value"));
    }
    request
}

fn header(answer: &Answer, name: HeaderName) -> Option<&str> {
    answer.headers.iter().find(|(found, _)| *found == name).and_then(|(_, value)| value.to_str().ok())
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).expect("text")
}

const SCREENS: [&str; 7] =
    ["/", "/proofs", "/activity", "/vaults", "/settings", "/database?name=work-1", "/database?name=work-1&at=latest"];

#[tokio::test]
async fn every_screen_is_whole_and_closed() {
    let web = web(&["work-1", "work-2"], |_| ()).await;
    for screen in SCREENS {
        let answer = web.answer(get(screen)).await;
        assert_eq!(answer.status, StatusCode::OK, "{screen}");
        let policy = header(&answer, CONTENT_SECURITY_POLICY).expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let html = text(&answer);
        assert!(html.contains("work-1") || ["/settings", "/activity"].contains(&screen), "{html}");
        // The policy has the digests of these two as they are.
        assert!(html.contains(page::STYLE) && html.contains(page::SCRIPT), "{screen}");
        // Nothing on it comes from elsewhere, and nothing needs what the policy forbids.
        for part in ["=\"http", "=\"//", " style=", " onclick", "src=", "javascript:"] {
            assert!(!html.contains(part), "{part} in {screen}: {html}");
        }
        reads_well(screen, html);
    }
    assert_eq!(web.answer(get("/database?name=nobody")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(web.answer(get("/nothing")).await.status, StatusCode::NOT_FOUND);
    let post = Request { method: Method::POST, ..get("/") };
    assert_eq!(web.answer(post).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

/// What a screen reader needs: one heading of the first level, a caption for each table, a label for each field, and each `id` once.
fn reads_well(screen: &str, html: &str) {
    let values = |name: &str| -> Vec<String> {
        let begin = format!(" {name}=\"");
        html.split(&*begin).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    let count = |text: &str| html.matches(text).count();
    assert_eq!((count("<h1"), count("<main"), count("<html lang=\"en\"")), (1, 1, 1), "{screen}");
    assert_eq!(count("<table"), count("<caption"), "{screen}");
    let mut ids = values("id");
    ids.sort();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "{screen}: {ids:?}");
    for name in ["for", "aria-labelledby", "aria-describedby"] {
        for id in values(name) {
            assert!(ids.contains(&id), "{screen}: {name}={id}");
        }
    }
    let fields = html.split("<input").skip(1).chain(html.split("<select").skip(1));
    for field in fields.filter(|field| !field.trim_start().starts_with("type=\"hidden\"")) {
        let id = field.split_once(" id=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
        let id = id.unwrap_or_else(|| panic!("{screen}: a field without an id: {field}"));
        assert!(values("for").contains(&id.to_owned()), "{screen}: {id} has no label");
    }
}

#[tokio::test]
async fn hostile_names_are_text() {
    let name = "work-<script>alert(1)</script>\"'\u{202e}\u{1b}[2J&amp;";
    let web = web(&[name], |_| ()).await;
    let linked = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string();
    let database = format!("/database?name={linked}&at={linked}");
    let search = format!("/?q={linked}");
    for screen in ["/", "/proofs", "/vaults", &search, &database] {
        let answer = web.answer(get(screen)).await;
        assert_eq!(answer.status, StatusCode::OK);
        let html = text(&answer);
        assert!(html.contains("work-&lt;script&gt;alert(1)"), "{html}");
        assert!(!html.contains("<script>alert") && !html.contains('\u{202e}') && !html.contains('\u{1b}'), "{html}");
        assert!(html.contains("\\u{202e}") && html.contains("&amp;amp;"), "{html}");
    }
}

#[tokio::test]
async fn a_token_lets_in_and_a_login_is_remembered() {
    let web = web(&["work-1"], |config| config.token = Some(Hidden::new(TOKEN))).await;
    let status = async |request: Request| web.answer(request).await.status;
    let bearer = |token: &str| with(get("/"), &[(AUTHORIZATION, &format!("Bearer {token}"))]);
    for screen in SCREENS.into_iter().chain(["/live?screen=fleet"]) {
        let answer = web.answer(get(screen)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{screen}");
        assert!(!text(&answer).contains("work-1") && answer.events.is_none());
        reads_well("login", text(&answer));
    }
    assert_eq!(status(bearer(TOKEN)).await, StatusCode::OK);
    assert_eq!(status(bearer("0123456789abcdeg")).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(with(get("/"), &[(COOKIE, "seawall=9999999999999.AAAA")])).await, StatusCode::UNAUTHORIZED);

    let login = |token: &str, headers: &[(HeaderName, &str)]| {
        let body = format!("token={token}").into();
        with(Request { method: Method::POST, body, ..get("/login") }, headers)
    };
    assert_eq!(status(login(TOKEN, &[(ORIGIN, "https://evil.example")])).await, StatusCode::FORBIDDEN);
    assert_eq!(status(login(TOKEN, &[(ORIGIN, "null")])).await, StatusCode::FORBIDDEN);
    let answer = web.answer(login(TOKEN, &[(ORIGIN, "http://localhost:8400")])).await;
    assert_eq!((answer.status, header(&answer, LOCATION)), (StatusCode::SEE_OTHER, Some("/")));
    let cookie = header(&answer, SET_COOKIE).expect("a cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(TOKEN), "{cookie}");
    let value = cookie.split(';').next().expect("a value");
    assert_eq!(status(with(get("/"), &[(COOKIE, &format!("other=1; {value}"))])).await, StatusCode::OK);
    let logout = Request { method: Method::POST, ..get("/logout") };
    let answer = web.answer(logout).await;
    assert!(header(&answer, SET_COOKIE).is_some_and(|cookie| cookie.contains("Max-Age=0")));

    // Too many wrong ones: the right one waits too, and a login that was made goes on.
    for _ in 0..20 {
        status(login("0123456789abcdeg", &[])).await;
    }
    assert_eq!(status(login(TOKEN, &[])).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(bearer(TOKEN)).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(with(get("/"), &[(COOKIE, value)])).await, StatusCode::OK);
    let other = Request { peer: Some([192, 0, 2, 1].into()), ..bearer(TOKEN) };
    assert_eq!(status(other).await, StatusCode::OK);
}

/// A page that is open ends with the token that it was opened with.
#[expect(clippy::disallowed_methods, reason = "the token is in a file")]
#[tokio::test(start_paused = true)]
async fn a_changed_token_ends_what_is_live() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let write = |token: &str| std::fs::write(&file, token).expect("written");
    write(TOKEN);
    let web = web(&["work-1"], |config| {
        (config.token, config.token_file) = (Some(Hidden::new(TOKEN)), Some(file.clone()));
    })
    .await;
    let bearer = format!("Bearer {TOKEN}");
    let login = Request { method: Method::POST, body: format!("token={TOKEN}").into(), ..get("/login") };
    let cookie = header(&web.answer(login).await, SET_COOKIE).expect("a cookie").split(';').next().map(str::to_owned);
    let cookie = cookie.expect("a value");
    let live = async |name: HeaderName, value: &str| {
        let answer = web.answer(with(get("/live?screen=fleet"), &[(name, value)])).await;
        let Events(mut events) = answer.events.expect("events");
        assert!(events.next().await.is_some_and(|event| event.starts_with(b"data: ")));
        events
    };
    let (mut first, mut second) = (live(AUTHORIZATION, &bearer).await, live(COOKIE, &cookie).await);
    assert!(first.next().await.is_some() && second.next().await.is_some(), "the token is the same");
    let mut third = live(COOKIE, &cookie).await;
    write("another-token-of-16");
    assert!(first.next().await.is_none() && second.next().await.is_none() && third.next().await.is_none());
    assert_eq!(
        web.answer(with(get("/live?screen=fleet"), &[(COOKIE, &cookie)])).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn other_names_and_prefixes() {
    let web = web(&["work-1"], |config| {
        (config.prefix, config.hosts) = ("/sea".into(), vec!["seawall.example".into()]);
    })
    .await;
    for (host, status) in [
        ("localhost:8400", StatusCode::OK),
        ("seawall.example", StatusCode::OK),
        ("evil.example", StatusCode::MISDIRECTED_REQUEST),
    ] {
        assert_eq!(web.answer(with(get("/"), &[(HOST, host)])).await.status, status, "{host}");
    }
    let mut nameless = get("/");
    nameless.headers.clear();
    assert_eq!(web.answer(nameless).await.status, StatusCode::MISDIRECTED_REQUEST);
    // A reverse proxy may leave the prefix, or take it away.
    for path in ["/sea/", "/sea", "/", "/sea/proofs", "/proofs"] {
        let answer = web.answer(get(path)).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let html = text(&answer);
        assert!(html.contains("href=\"/sea/database?name=work%2D1\""), "{html}");
        assert!(html.contains("data-live=\"/sea/live?") && !html.contains("href=\"/proofs\""), "{html}");
    }
}

/// Another site may lead a person here, and may not load anything by itself: a plan makes requests to a vault.
#[tokio::test]
async fn other_sites_load_nothing() {
    let web = web(&["work-1"], |_| ()).await;
    for (site, dest, status) in [
        ("none", "document", StatusCode::OK),
        ("same-origin", "empty", StatusCode::OK),
        ("cross-site", "document", StatusCode::OK),
        ("cross-site", "image", StatusCode::FORBIDDEN),
        ("cross-site", "iframe", StatusCode::FORBIDDEN),
        ("same-site", "empty", StatusCode::FORBIDDEN),
    ] {
        let headers = [("sec-fetch-site", site), ("sec-fetch-dest", dest)];
        let headers = headers.map(|(name, value)| (HeaderName::from_static(name), value));
        let request = with(get("/database?name=work-1&at=latest"), &headers);
        assert_eq!(web.answer(request).await.status, status, "{site} {dest}");
    }
}

#[tokio::test]
async fn who_listens_gets_what_changed_and_has_a_place_of_few() {
    let web = web(&["work-1"], |_| ()).await;
    let mut places = Vec::new();
    loop {
        let answer = web.answer(get("/live?screen=fleet&seen=1")).await;
        if answer.status != StatusCode::OK {
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
            break;
        }
        let Events(events) = answer.events.expect("events");
        places.push(events);
        assert!(places.len() < 100);
    }
    let first = timeout(Duration::from_secs(20), places[0].next()).await.expect("in time").expect("an event");
    let event = std::str::from_utf8(&first).expect("text");
    assert!(event.starts_with("data: [[\"rows\",\"<tbody") && event.ends_with("\n\n"), "{event}");
    // Whoever goes makes room.
    places.pop();
    assert_eq!(web.answer(get("/live?screen=fleet")).await.status, StatusCode::OK);
    assert_eq!(web.answer(get("/live?screen=nothing")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_the_page_was_loaded_with_is_not_sent_again() {
    let web = web(&["work-1"], |_| ()).await;
    let answer = web.answer(get("/")).await;
    let html = text(&answer);
    let (_, rest) = html.split_once("data-live=\"").expect("a live page");
    let live = rest.split_once('"').expect("a link").0.replace("&amp;", "&");
    let Events(mut events) = web.answer(get(&live)).await.events.expect("events");
    assert_eq!(events.next().await.expect("an event"), "data: []\n\n");
}

fn known(number: usize) -> Known {
    let described = Description {
        name: format!("tenant-{number:06}"),
        engine: "sqlite",
        source: Some(format!("/srv/tenants/{number:06}/database.db")),
        vault: format!("s3://bucket/tenants/tenant-{number:06}"),
    };
    let mut status = Status::new(described, Phase::Protecting, Moment::from_millis(1));
    let at = Moment::from_millis(1_700_000_000_000 + number as i64 * 7_919);
    status.protected = Some(seawall_core::Point { position: format!("{number:016x}"), moment: at });
    status.source_bytes = Some(number as u64 * 104_729);
    if number % 50 == 7 {
        status.alarms.push(Alarm {
            code: "alarm.lag".into(),
            severity: Severity::Warning,
            cause: format!("changes have been waiting for {number} s"),
            next: "see `seawall status`".into(),
            since: at,
            silenced_until: None,
        });
    }
    Known { status, figures: Figures::default(), proof_due: None, trace: Arc::default() }
}

/// Far more databases than a process has: work that grew with their square would take hours.
#[test]
fn many_databases_are_quick_and_small() {
    let started = Instant::now();
    let all: Vec<Known> = (0..100_000).map(known).collect();
    for query in [&[][..], &[("sort", "lag"), ("page", "500")], &[("q", "tenant 99"), ("show", "alarms")]] {
        let query = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let parts = screens::test_parts(&Filter::parse(&query), &all);
        assert!(parts.held.len() <= ROWS && !parts.held.is_empty());
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_first_paint_of_2000_databases_is_small() {
    let names: Vec<String> = (0..2000).map(|number| format!("work-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let web = web(&names, |_| ()).await;
    let answer = web.answer(with(get("/"), &[(ACCEPT_ENCODING, "br, gzip;q=0.8")])).await;
    assert_eq!((answer.status, header(&answer, CONTENT_ENCODING)), (StatusCode::OK, Some("gzip")));
    assert!(answer.body.len() <= 60 << 10, "{}", answer.body.len());
    let plain = web.answer(get("/?page=20")).await;
    assert!(text(&plain).contains("Databases 1901 to 2000 of 2000."), "{}", text(&plain));
    let view = View { prefix: String::new(), shows: Shows::Fleet(Filter::default()) };
    assert_eq!(view.parts(&web.look).await.held.len(), ROWS);
}
