//! Sends over HTTP. Of an answer only its status and one header are read, so that no answer takes memory.

use std::time::Duration;

use seawall_vault::HttpClient;

use super::{Again, Trouble};
use crate::payload::Payload;

/// At most this long does a server have us wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Posts once.
pub(crate) async fn post(client: &HttpClient, url: &str, payload: Payload, limit: Duration) -> Result<(), Trouble> {
    let mut request = client.post(url).timeout(limit).header("content-type", payload.content_type).body(payload.body);
    for (name, value) in payload.headers {
        request = request.header(name, value);
    }
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) if error.is_timeout() => {
            return Err(Trouble::new(
                "no answer in time",
                "look whether the server is up and can be reached",
                Again::Soon,
            ));
        }
        // The text of such an error may quote the URL or a header.
        Err(error) if error.is_builder() => {
            let next = "correct url, and the values of headers: they take no line breaks";
            return Err(Trouble::new("no request can be made of this URL and these headers", next, Again::Later));
        }
        Err(error) => {
            let cause = causes(&error.without_url());
            return Err(Trouble::new(cause, "look whether the server is up and can be reached", Again::Soon));
        }
    };
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Err(refused(status, asked.map(Duration::from_secs)))
}

/// What a status other than success means.
fn refused(status: u16, asked: Option<Duration>) -> Trouble {
    let soon = asked.map_or(Again::Soon, |wait| Again::After(wait.min(LONGEST_WAIT)));
    let (next, again) = match status {
        300..400 => ("give the URL that the server redirects to", Again::Later),
        401 | 403 => ("give the URL, token or secret that the server takes", Again::Later),
        404 | 410 => ("make a new webhook there, and give its URL", Again::Later),
        408 | 425 | 429 => ("wait, or tell fewer alarms", soon),
        400..500 => ("look whether the URL is one for this type of channel", Again::Later),
        _ => ("look whether the server is well", soon),
    };
    Trouble::new(format!("the server answers {status}"), next, again)
}

/// An error with what caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_answers_are_worth_another_attempt() {
        let wait = Duration::from_secs;
        for (status, asked, again) in [
            (302, None, Again::Later),
            (400, None, Again::Later),
            (401, None, Again::Later),
            (404, Some(1), Again::Later),
            (429, None, Again::Soon),
            (429, Some(7), Again::After(wait(7))),
            (429, Some(u64::MAX), Again::After(wait(300))),
            (500, None, Again::Soon),
            (503, Some(2), Again::After(wait(2))),
        ] {
            assert_eq!(refused(status, asked.map(wait)).again, again, "{status} {asked:?}");
        }
    }
}
