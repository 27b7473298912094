//! What is around every screen: the head with style and script, the links between screens, and the headers.
//!
//! All text of others passes [`cleaned`] as the last step, whatever screen it is on: markup is escaped where it is put in, and
//! characters that a reader wouldn't see in their place are written out here.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use libdeflater::{CompressionLvl, Compressor};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};
use seawall_core::{Clock as _, Failure, SystemClock, is_visible};

use super::screens::time;
use crate::http::{Answer, Request};

/// The style of every screen.
pub(super) const STYLE: &str = include_str!("style.css");

/// The one script.
pub(super) const SCRIPT: &str = include_str!("live.js");

/// A shorter body isn't worth compressing.
const WORTH: usize = 1024;

/// What a browser may do with the page: use the style and the script that are in it, send its form, and listen to it.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

/// The screens that every screen leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Screen {
    Fleet,
    /// It is reached from the fleet.
    Database,
    Proofs,
    Activity,
    Vaults,
    Settings,
}

impl Screen {
    /// The links of a process's page, each with its path and its name.
    pub(super) const OF_PROCESS: [(Self, &str, &str); 5] = [
        (Self::Fleet, "/", "Databases"),
        (Self::Proofs, "/proofs", "Proofs"),
        (Self::Activity, "/activity", "Activity"),
        (Self::Vaults, "/vaults", "Vaults"),
        (Self::Settings, "/settings", "Settings"),
    ];

    /// The links of a page of vaults alone.
    pub(super) const OF_VAULTS: [(Self, &str, &str); 2] =
        [(Self::Fleet, "/", "Databases"), (Self::Proofs, "/proofs", "Proofs")];
}

/// What stands on one page.
pub(super) struct Content {
    pub(super) screen: Screen,
    pub(super) title: String,
    /// Where parts that change come from, if any do.
    pub(super) live: Option<String>,
    pub(super) body: Markup,
}

/// What is around the content.
pub(super) struct Around<'a> {
    pub(super) prefix: &'a str,
    /// The screens that every screen leads to.
    pub(super) links: &'a [(Screen, &'a str, &'a str)],
    pub(super) has_login: bool,
    /// Whether the visitor may act.
    pub(super) may_act: bool,
}

/// A whole page.
pub(super) fn whole(around: &Around<'_>, version: &str, content: &Content) -> Answer {
    let Around { prefix, links, has_login, may_act } = *around;
    let Content { screen, title, live, body } = content;
    let page = html! {
        (head(title))
        body data-live=[live.as_ref()] {
            a.skip href="#main" { "Skip to the content" }
            header {
                nav aria-label="Screens" {
                    @for (link, path, name) in links {
                        a href={ (prefix) (path) } aria-current=[(link == screen).then_some("page")] { (name) }
                    }
                }
                p #live .quiet role="status" { @if live.is_some() { "As of " (time(SystemClock.now())) " UTC" } }
                @if has_login {
                    form method="post" action={ (prefix) "/logout" } { button { "Log out" } }
                }
            }
            main #main tabindex="-1" {
                h1 { bdi { (title) } }
                (body)
            }
            footer { "Seawall " (version) ". All times are UTC." @if !may_act { " Nothing can be changed here." } }
            script { (PreEscaped(SCRIPT)) }
        }
    };
    answer(StatusCode::OK, &document(page))
}

/// The form that asks for the token.
pub(super) fn login(prefix: &str, status: StatusCode, told: Option<&str>) -> Answer {
    let page = html! {
        (head("Log in"))
        body {
            main {
                h1 { "Seawall" }
                @if let Some(told) = told { p.bad role="alert" { (told) } }
                form method="post" action={ (prefix) "/login" } {
                    label for="token" { "Token" }
                    input #token type="password" name="token" autocomplete="current-password" required autofocus;
                    button { "Log in" }
                }
                p.quiet { "It is the one of " code { "web.token" } " or " code { "web.token-file" } " in the configuration, or of " code { "--token-file" } "." }
            }
        }
    };
    answer(status, &document(page))
}

/// A page that says only why there is none.
pub(super) fn refusal(prefix: &str, status: StatusCode, what: &str, next: &str) -> Answer {
    let page = html! {
        (head(what))
        body { main { h1 { (what) } p { (next) } p { a href={ (prefix) "/" } { "All databases" } } } }
    };
    answer(status, &document(page))
}

/// A page that says what failed, and the next thing to do.
pub(super) fn failed(prefix: &str, status: StatusCode, what: &str, failure: &Failure) -> Answer {
    let page = html! {
        (head(what))
        body {
            main {
                h1 { (what) }
                (super::screens::failure("Refused:", failure))
                p { a href={ (prefix) "/" } { "All databases" } }
            }
        }
    };
    answer(status, &document(page))
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Seawall" }
            link rel="icon" href="data:,";
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn document(page: Markup) -> String {
    html! { (DOCTYPE) html lang="en" { (page) } }.into_string()
}

fn answer(status: StatusCode, html: &str) -> Answer {
    Answer::new(status, "text/html; charset=utf-8", cleaned(html))
}

/// A text in which each character that a reader doesn't see in its place is written out.
pub(super) fn cleaned(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || is_visible(c) { cleaned.push(c) } else { cleaned.extend(c.escape_default()) }
    }
    cleaned
}

/// The path below the prefix. A reverse proxy may have taken the prefix away.
pub(super) fn below<'a>(prefix: &str, path: &'a str) -> &'a str {
    match path.strip_prefix(prefix) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    }
}

/// The answer with the headers that every answer has. Its address goes to the page itself and to no other site: under a stricter
/// policy browsers hide from a form's receiver where the form came from.
/// It is compressed if the browser takes that.
pub(super) fn sealed(mut answer: Answer, request: &Request) -> Answer {
    let fixed = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (VARY, "Accept-Encoding, Cookie"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    answer.headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer.headers.extend(HeaderValue::from_str(&POLICY).ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
    let takes_it = request.header(ACCEPT_ENCODING).is_some_and(|all| {
        let mut codings = all.split(',').map(|coding| coding.split(';').map(str::trim).collect::<Vec<_>>());
        codings.any(|coding| coding[0] == "gzip" && coding.get(1) != Some(&"q=0"))
    });
    if takes_it
        && answer.events.is_none()
        && answer.body.len() > WORTH
        && let Some(small) = gzip(&answer.body)
    {
        answer.body = small.into();
        answer.headers.push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
    }
    answer
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut small = vec![0; compressor.gzip_compress_bound(body.len())];
    let length = compressor.gzip_compress(body, &mut small).ok()?;
    small.truncate(length);
    Some(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_below_a_prefix() {
        for (prefix, path, expected) in [
            ("", "/", "/"),
            ("", "/proofs", "/proofs"),
            ("/sea", "/sea", "/"),
            ("/sea", "/sea/", "/"),
            ("/sea", "/sea/proofs", "/proofs"),
            ("/sea", "/proofs", "/proofs"),
            ("/sea", "/seaside", "/seaside"),
        ] {
            assert_eq!(below(prefix, path), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn nothing_hides_in_a_text() {
        assert_eq!(cleaned("a\u{202e}b\n\u{1b}[2J\u{200b}ä"), "a\\u{202e}b\n\\u{1b}[2J\\u{200b}ä");
    }

    #[test]
    fn what_is_embedded_is_small_and_asks_nobody() {
        assert!(SCRIPT.len() < 10 << 10, "{}", SCRIPT.len());
        for text in [STYLE, SCRIPT] {
            assert!(
                !text.contains("://") && !text.contains("url(") && !text.contains("@import") && !text.contains("</")
            );
        }
    }

    /// The ratio of two colours as WCAG has it.
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |colour: &str| {
            let part = |at: usize| u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour");
            let linear = |value: u8| match f64::from(value) / 255.0 {
                value if value <= 0.039_28 => value / 12.92,
                value => ((value + 0.055) / 1.055).powf(2.4),
            };
            0.2126 * linear(part(1)) + 0.7152 * linear(part(3)) + 0.0722 * linear(part(5))
        };
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_text_has_contrast() {
        let schemes: Vec<&str> = STYLE.split(":root").skip(1).collect();
        assert_eq!(schemes.len(), 2, "one for the day, and one for the night");
        for scheme in schemes {
            let colour = |name: &str| {
                let (_, rest) = scheme.split_once(&format!("--{name}:")).expect(name);
                &rest[..7]
            };
            for (text, ground) in [
                ("fg", "bg"),
                ("muted", "bg"),
                ("link", "bg"),
                ("fg", "panel"),
                ("muted", "panel"),
                ("link", "panel"),
                ("good", "good-bg"),
                ("warn", "warn-bg"),
                ("bad", "bad-bg"),
                ("quiet", "quiet-bg"),
            ] {
                let found = contrast(colour(text), colour(ground));
                assert!(found >= 4.5, "{text} on {ground}: {found:.1}");
            }
            for bar in ["span", "hole"] {
                assert!(contrast(colour(bar), colour("panel")) >= 3.0, "{bar}");
            }
        }
    }
}
