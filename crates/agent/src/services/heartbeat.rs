//! A sign of life to a monitoring service: a request now and then, as long as everything is protected.
//!
//! The service raises the alarm when none comes. So a heartbeat is sent only if no database has a critical alarm that isn't
//! silenced, none has had anything waiting for longer than the interval, every one is protected, and something of each folder of
//! databases is. This is the one timer that a process has for it, and it has it only if it is asked for. While no heartbeat may be sent, it
//! looks again sooner than in an interval, so that the service knows soon that all is well again.

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Backoff, Phase, Shutdown, Status};
use seawall_engines::alarms;
use seawall_vault::HttpClient as Client;

use crate::config::{HeartbeatConfig, Hidden};
use crate::control::Actions;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long after the start, and after a look that found something wrong, the next look is made. It is doubled each time, up to the
/// interval.
const SOON: Duration = Duration::from_secs(2);

/// Sends heartbeats until the shutdown: the first one as soon as everything is protected, and one in each interval after it.
pub(crate) async fn beat(config: HeartbeatConfig, client: Client, actions: Arc<Actions>, shutdown: Shutdown) {
    let (mut failing, mut withheld) = (false, false);
    let mut soon = Backoff::new(SOON, config.interval);
    let mut wait = soon.failed();
    loop {
        tokio::select! {
            () = shutdown.graceful() => return,
            () = tokio::time::sleep(wait) => {}
        }
        let all = actions.status_of_all(false).await.unwrap_or_default();
        if let Some(sick) = all.iter().find(|status| !is_well(status, config.interval)) {
            // A start takes its time.
            if !withheld && !matches!(sick.phase, Phase::Starting | Phase::Base) {
                tracing::warn!(database = sick.name, phase = ?sick.phase, "no heartbeat: not everything is protected");
                withheld = true;
            }
            wait = soon.failed();
            continue;
        }
        soon.worked();
        (wait, withheld) = (config.interval, false);
        let problem = send(&client, &config.url).await.err();
        match &problem {
            Some(problem) if !failing => tracing::warn!(problem, "the heartbeat doesn't arrive"),
            None if failing => tracing::info!("the heartbeat arrives again"),
            _ => {}
        }
        failing = problem.is_some();
    }
}

/// Sends one; the failure says why it didn't arrive. The URL is not part of it: it often is the secret itself.
async fn send(client: &Client, url: &Hidden) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, client.get(url.reveal()).send()).await {
        Ok(Ok(response)) if response.status().is_success() => Ok(()),
        Ok(Ok(response)) => Err(format!("the answer is {}", response.status())),
        Ok(Err(error)) => Err(error.without_url().to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Whether a database is as safe as it is meant to be. A folder of databases must be there, and hold some that it held before. One that isn't there yet, or was stopped by someone, has
/// nothing to protect; one that was there and is gone is not well.
fn is_well(status: &Status, interval: Duration) -> bool {
    let waits_long = Duration::from_millis(status.lag_ms) > interval;
    match status.phase {
        // Nothing shows yet that the database is protected.
        Phase::Starting | Phase::Base => false,
        Phase::Protecting if waits_long && status.silenced_until.is_none() => false,
        _ => !alarms::is_urgent(&status.alarms),
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Description, Moment};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_arrives_and_what_does_not() {
        let client = seawall_vault::Policy::default().connections.plain().expect("a client");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = Hidden::new(format!("http://{}/hush", listener.local_addr().expect("an address")));
        for (answer, arrives) in [
            ("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", true),
            ("HTTP/1.1 500 Oh\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", false),
            ("HTTP/1.1 302 There\r\nlocation: /other\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", false),
            ("", false),
        ] {
            let serving = async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.expect("a request");
                assert!(request.get(..length).is_some_and(|request| request.starts_with(b"GET /hush HTTP/1.1\r\n")));
                stream.write_all(answer.as_bytes()).await.expect("answered");
            };
            let (sent, ()) = tokio::join!(send(&client, &url), serving);
            assert_eq!(sent.is_ok(), arrives, "{answer}: {sent:?}");
            assert!(!sent.is_err_and(|problem| problem.contains("hush")));
        }
        drop(listener);
        let problem = send(&client, &url).await.expect_err("no server listens");
        assert!(!problem.contains("hush") && !problem.is_empty(), "{problem}");
    }

    #[test]
    fn when_all_is_well() {
        let interval = Duration::from_secs(60);
        for (phase, lag_ms, code, well) in [
            (Phase::Protecting, 0, None, true),
            (Phase::Protecting, 60_000, None, true),
            (Phase::Protecting, 60_001, None, false),
            (Phase::Protecting, 0, Some("vault.unavailable"), true),
            (Phase::Protecting, 0, Some("vault.vanished"), false),
            (Phase::Waiting, 0, None, true),
            (Phase::Waiting, 0, Some("stub.missing"), false),
            (Phase::Stopped, 90_000, None, true),
            (Phase::Failing, 0, None, false),
            (Phase::Halted, 0, None, false),
            (Phase::Base, 0, None, false),
            (Phase::Starting, 0, None, false),
        ] {
            let error = code.map(|code: &str| seawall_core::LastError {
                code: code.to_owned(),
                message: String::new(),
                next: String::new(),
                at: Moment::default(),
                count: 1,
            });
            let database =
                Description { name: "app".into(), engine: "stub", source: Some("/app.db".into()), vault: "/v".into() };
            let status = Status { lag_ms, error, ..Status::new(database, phase, Moment::default()) };
            let keeper = if phase == Phase::Stopped { alarms::Keeper::Resting } else { alarms::Keeper::Running };
            let database = alarms::Judged { is_scheduled: false, limits: &alarms::Limits::default() };
            let status = alarms::judged(status, keeper, database, alarms::Local::default(), Moment::default());
            assert_eq!(is_well(&status, interval), well, "{phase:?} {lag_ms} {code:?}");
        }
    }
}
