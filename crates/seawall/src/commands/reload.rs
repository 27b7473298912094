//! `seawall config reload`: a running process reads its configuration again.

use seawall_agent::{ConfigStatus, Reloaded};
use seawall_core::{Failure, Moment};

use super::agent::control;
use crate::arguments::ReloadArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &ReloadArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(&arguments.socket, edge)?;
    let done = runtime::run(control.reload(arguments.timeout()))?;
    let exit = Exit::judge(true, done.is_whole());
    let failures = done.failed.iter().map(|one| one.failure()).collect();
    Ok(Output { text: render(&done), failures, json: to_json(&done), exit })
}

fn render(done: &Reloaded) -> String {
    let mut text = String::new();
    for (what, names) in [
        ("added", &done.added),
        ("changed", &done.changed),
        ("removed", &done.removed),
        ("settings that hold now", &done.settings),
        ("settings that need a restart", &done.needs_restart),
    ] {
        if !names.is_empty() {
            text.push_str(&format!("{what}: {}\n", names.join(", ")));
        }
    }
    for warning in &done.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    let same = table::count(done.same, "database");
    text + &format!("{}: {}, {same} not touched\n", done.file, done.status)
}

/// What of its configuration a running process doesn't follow, and why; empty where it follows all of it.
pub(super) fn what_does_not_hold(config: &ConfigStatus, now: Moment) -> String {
    let mut text = String::new();
    if let Some(error) = &config.error {
        text.push_str(&format!(
            "configuration not reloaded: error[{}]: {} ({})\nnext: {}\n",
            error.code,
            error.message,
            table::ago(error.at, now),
            error.next
        ));
    }
    if !config.needs_restart.is_empty() {
        text.push_str(&format!("settings that need a restart: {}\n", config.needs_restart.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done() {
        let done: Reloaded = serde_json::from_value(serde_json::json!({
            "status": "reloaded", "file": "/etc/seawall.yml", "loaded_at": "2026-11-23T10:00:00.000Z",
            "added": ["a", "b"], "changed": [], "removed": ["c"], "same": 2, "settings": ["metrics-addr"],
            "needs_restart": ["socket"], "failed": [], "warnings": []
        }))
        .expect("an answer");
        assert_eq!(
            render(&done),
            "added: a, b\nremoved: c\nsettings that hold now: metrics-addr\nsettings that need a restart: socket\n\
             /etc/seawall.yml: reloaded, 2 databases not touched\n"
        );
        assert!(!done.is_whole());
    }
}
