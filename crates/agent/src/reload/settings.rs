//! Which settings of the process itself does a new configuration change, and which of them wait for a restart? A pure
//! function.

use crate::process::protect::Job;

/// Keys of the configuration, as its own format calls them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// They hold from now on.
    pub(crate) now: Vec<&'static str>,
    /// They hold after a restart.
    pub(crate) restart: Vec<&'static str>,
}

/// Compares what is in force with what is wanted.
///
/// A restart is needed for what the process was built with: its listener for requests like this one, its watcher for
/// events, the throttle that all vaults share, the form of its log, and the program that it runs.
pub(crate) fn settings(old: &Job, new: &Job) -> Settings {
    let (was, is) = (&old.services, &new.services);
    let now = [
        ("shutdown-timeout", old.bound != new.bound),
        ("logging.level", old.log.0 != new.log.0),
        ("metrics-addr", was.metrics != is.metrics),
        ("mcp", was.mcp != is.mcp),
        ("web", was.web != is.web),
        ("heartbeat", was.heartbeat != is.heartbeat),
        ("notify", was.notify != is.notify),
    ];
    let restart = [
        ("socket", was.socket != is.socket),
        ("sweep-interval", old.sweep != new.sweep),
        ("upload-limit", old.upload_limit != new.upload_limit),
        ("logging.type", old.log.1 != new.log.1),
        ("exec", old.exec != new.exec),
    ];
    let names = |all: &[(&'static str, bool)]| all.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    Settings { now: names(&now), restart: names(&restart) }
}

/// What is in force after a reload: everything that is wanted, but for what waits for a restart.
pub(crate) fn in_force(old: &Job, new: Job) -> Job {
    let socket = old.services.socket.clone();
    Job {
        services: crate::config::Services { socket, ..new.services },
        sweep: old.sweep,
        upload_limit: old.upload_limit,
        log: (new.log.0, old.log.1),
        exec: old.exec.clone(),
        registry: old.registry.clone(),
        told: old.told.clone(),
        // The runtime keeps the threads that it was started with.
        threads: old.threads,
        ..new
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{HeartbeatConfig, Hidden, McpConfig, SocketConfig, WebConfig};
    use crate::testing::job;
    use crate::{ExecCommand, Level, LogFormat};

    fn channels() -> Vec<seawall_notify::Channel> {
        let text = "notify: [{ type: command, command: [a] }]";
        let tree = seawall_config::document::parse(text).expect("YAML");
        let mut fields = seawall_config::Fields::new("the top level", tree).expect("a mapping");
        seawall_notify::read(&mut fields, "/".as_ref()).expect("channels")
    }

    #[test]
    fn what_holds_now_and_what_waits_for_a_restart() {
        let address = "127.0.0.1:9".parse().expect("an address");
        let mcp = |token: &str| McpConfig { address, token: Hidden::new(token), token_file: None, actions: false };
        let beat = HeartbeatConfig { url: Hidden::new("http://h"), interval: Duration::from_secs(60) };
        let with = |change: &dyn Fn(&mut Job)| {
            let mut job = job(&["work"]);
            change(&mut job);
            job
        };
        let one = |change: &dyn Fn(&mut Job)| settings(&job(&["work"]), &with(change));
        let now = |key| Settings { now: vec![key], restart: vec![] };
        let later = |key| Settings { now: vec![], restart: vec![key] };
        for (change, expected) in [
            (&(|_: &mut Job| {}) as &dyn Fn(&mut Job), Settings::default()),
            (&|job| job.databases.clear(), Settings::default()),
            (&|job| job.bound *= 2, now("shutdown-timeout")),
            (&|job| job.log.0 = Level::Trace, now("logging.level")),
            (&|job| job.services.metrics = Some(address), now("metrics-addr")),
            (&|job| job.services.mcp = Some(mcp("x")), now("mcp")),
            (&|job| job.services.web = WebConfig::parse("127.0.0.1:9"), now("web")),
            (&|job| job.services.heartbeat = Some(beat.clone()), now("heartbeat")),
            (&|job| job.services.notify = channels(), now("notify")),
            (&|job| job.services.socket = Some(SocketConfig::new("/s".into())), later("socket")),
            (&|job| job.sweep *= 2, later("sweep-interval")),
            (&|job| job.upload_limit = Some(1), later("upload-limit")),
            (&|job| job.log.1 = LogFormat::Json, later("logging.type")),
            (&|job| job.exec = ExecCommand::parse("true").ok(), later("exec")),
        ] {
            assert_eq!(one(change), expected);
            // What waits is told again by the next reload; what holds isn't.
            let after = settings(&in_force(&job(&["work"]), with(change)), &with(change));
            assert_eq!(after, Settings { now: vec![], restart: expected.restart });
        }
        let other =
            settings(&with(&|job| job.services.mcp = Some(mcp("x"))), &with(&|job| job.services.mcp = Some(mcp("y"))));
        assert_eq!(other, now("mcp"));
    }
}
