//! How lag and size went: small pictures with their text.

use maud::{Markup, html};

use super::time;
use crate::control::Sample;
use crate::figures::{bytes, span};
use crate::web::look::Known;
use crate::web::svg::{HEIGHT, WIDTH, curve};

/// The curves of a database.
pub(super) fn of(known: &Known) -> Markup {
    let samples = known.trace.samples();
    let lags: Vec<_> = samples.iter().map(|sample| (sample.at(), sample.lag_ms())).collect();
    let sizes: Vec<_> = samples.iter().filter_map(|sample| Some((sample.at(), sample.bytes()?))).collect();
    let most = |values: &[(seawall_core::Moment, u64)]| values.iter().map(|(_, value)| *value).max().unwrap_or(0);
    html! {
        section #curves aria-labelledby="curves-h" {
            h2 #curves-h { "How it went" }
            @match samples.first().filter(|_| samples.len() > 1) {
                None => p.quiet { "Nothing is known yet: curves grow while a page is open, or metrics or notifications ask." },
                Some(first) => {
                    (picture("lag-t", &format!("Lag: at most {}", span(most(&lags))), &lags))
                    @if !sizes.is_empty() { (picture("size-t", &format!("Size: at most {}", bytes(most(&sizes))), &sizes)) }
                    p.quiet { "Since " (time(first.at())) ", as far as the status was asked for." }
                }
            }
        }
    }
}

fn picture(id: &str, told: &str, values: &[(seawall_core::Moment, u64)]) -> Markup {
    html! {
        @if let Some(points) = curve(values) {
            svg role="img" aria-labelledby=(id) viewBox={ "0 -4 " (WIDTH) " " (HEIGHT + 8) } preserveAspectRatio="none" {
                title id=(id) { (told) }
                polyline.curve points=(points) {}
            }
            p { (told) "." }
        }
    }
}

/// The lag of a database in a row, if it ever had one.
pub(super) fn small(samples: &[Sample]) -> Markup {
    let lags: Vec<_> = samples.iter().map(|sample| (sample.at(), sample.lag_ms())).collect();
    let points = curve(&lags).filter(|_| lags.iter().any(|(_, lag)| *lag > 0));
    html! {
        @if let Some(points) = points {
            svg.small aria-hidden="true" viewBox={ "0 -4 " (WIDTH) " " (HEIGHT + 8) } preserveAspectRatio="none" {
                polyline.curve points=(points) {}
            }
        }
    }
}
