//! The commands that ask a running process. Each makes one request over the control socket.

use std::path::{Path, PathBuf};

use seawall_agent::config::SOCKET;
use seawall_agent::{Control, Info, Listed, Registered, Stopped, Synced};
use seawall_core::{Clock as _, Failure, SystemClock};

use crate::arguments::{ChangeArguments, ConfigArguments, RegisterArguments, SocketArguments, SyncArguments};
use crate::edge::Edge;
use crate::output::Output;
use crate::{configuration, runtime, table};

/// `seawall info`
pub(crate) fn info(arguments: &SocketArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(arguments, edge)?;
    let info = runtime::run(control.info())?;
    let Info { version, pid, uptime_seconds, started_at, database_count, config } = &info;
    let uptime = table::span(uptime_seconds.saturating_mul(1000));
    let databases = table::count(*database_count, "database");
    let mut text = format!("seawall {version}, pid {pid}, since {started_at} ({uptime}): {databases}\n");
    if let Some(config) = config {
        text.push_str(&format!("configuration {}, read {}\n", config.file, config.loaded_at));
        text.push_str(&super::reload::what_does_not_hold(config, SystemClock.now()));
    }
    Ok(Output::done(text, &info))
}

/// `seawall list`
pub(crate) fn list(arguments: &SocketArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(arguments, edge)?;
    let list = runtime::run(control.list())?;
    let row = |one: &Listed| {
        let last = one.last_sync_at.map_or_else(|| "-".to_owned(), |moment| moment.to_string());
        vec![one.name.clone(), one.status.clone(), last, one.origin.clone(), one.path.clone(), one.vault.clone()]
    };
    let heading = ["database", "status", "all in the vault at", "origin", "path", "vault"];
    Ok(Output::done(table::table(&heading, list.iter().map(row).collect(), &[]), &list))
}

/// `seawall register`
pub(crate) fn register(arguments: &RegisterArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(&arguments.socket, edge)?;
    let path = edge.absolute(&arguments.database);
    // A folder is where the user is, not where the process was started.
    let vault = arguments.vault.as_deref().map(|text| match text.contains("://") {
        true => text.to_owned(),
        false => edge.absolute(Path::new(text)).display().to_string(),
    });
    let asked = control.register(&path, vault.as_deref(), arguments.name.as_deref(), arguments.timeout());
    let answer = runtime::run(asked)?;
    let Registered { status, path, vault, .. } = &answer;
    let text = format!("{path}: {}, in {vault}\n", in_words(status));
    Ok(Output::done(text, &answer))
}

/// What `start`, `stop` and `unregister` ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Start,
    Stop,
    Unregister,
}

/// `seawall start`, `stop` and `unregister`
pub(crate) fn change(change: Change, arguments: &ChangeArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(&arguments.socket, edge)?;
    let (database, within) = (database(&arguments.database, edge), arguments.timeout());
    let answer = runtime::run(async {
        match change {
            Change::Start => control.start(&database, within).await,
            Change::Stop => control.stop(&database, within).await,
            Change::Unregister => control.unregister(&database, within).await,
        }
    })?;
    let Stopped { status, path, txid } = &answer;
    Ok(Output::done(format!("{path}: {}, protected up to {}\n", in_words(status), position(*txid)), &answer))
}

/// `seawall sync`
pub(crate) fn sync(arguments: &SyncArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = control(&arguments.change.socket, edge)?;
    let (database, within) = (database(&arguments.change.database, edge), arguments.change.timeout());
    let answer = runtime::run(control.sync(&database, arguments.wait, within))?;
    let Synced { status, path, replicated_txid, position: other, .. } = &answer;
    let until = other.clone().unwrap_or_else(|| position(*replicated_txid));
    let text = match status.as_str() {
        "synced_local" => "asked to ship what is committed",
        "no_change" => "nothing new",
        _ => "everything committed is in the vault",
    };
    Ok(Output::done(format!("{path}: {text}, protected up to {until}\n"), &answer))
}

/// The running process that is meant: by `--socket`, else by the configuration's socket, else at the usual place.
pub(crate) fn control(arguments: &SocketArguments, edge: &Edge) -> Result<Control, Failure> {
    socket(arguments, edge).map(|socket| Control::new(&socket))
}

/// The control socket of the running process that is meant.
pub(crate) fn socket(arguments: &SocketArguments, edge: &Edge) -> Result<PathBuf, Failure> {
    Ok(match &arguments.socket {
        Some(socket) => edge.absolute(socket),
        None => configured_socket(&arguments.config, edge)?.unwrap_or_else(|| PathBuf::from(SOCKET)),
    })
}

/// The control socket of the configuration that is named, or of the default one.
pub(crate) fn configured_socket(config: &ConfigArguments, edge: &Edge) -> Result<Option<PathBuf>, Failure> {
    configuration::socket(config, edge)
}

/// The name by which the process knows the database: a name unchanged, a path made absolute.
pub(super) fn database(text: &str, edge: &Edge) -> String {
    let path = edge.absolute(Path::new(text));
    if text.contains('/') && Path::new(text).is_absolute() || path.exists() {
        path.display().to_string()
    } else {
        text.to_owned()
    }
}

fn in_words(status: &str) -> String {
    status.replace('_', " ")
}

fn position(txid: u64) -> String {
    if txid == 0 { "nothing".to_owned() } else { format!("{txid:016x}") }
}

#[cfg(test)]
mod tests {
    use seawall_agent::Environment;

    use super::*;

    #[test]
    fn what_a_process_knows_a_database_by() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("app.db")).expect("something of that name");
        let edge = Edge {
            environment: Environment::default(),
            directory: folder.path().into(),
            hostname: String::new(),
            terminal: false,
            has_screen: false,
            identity: None,
            progress: None,
        };
        let here = |name: &str| folder.path().join(name).display().to_string();
        for (text, expected) in [
            ("app.db", here("app.db")),
            ("./app.db", here("app.db")),
            ("orders", "orders".to_owned()),
            ("tenants/a.db", "tenants/a.db".to_owned()),
            ("/gone/x.db", "/gone/x.db".to_owned()),
        ] {
            assert_eq!(database(text, &edge), expected);
        }
    }

    #[test]
    fn which_socket_is_meant() {
        let edge = Edge {
            environment: Environment::default(),
            directory: "/srv".into(),
            hostname: String::new(),
            terminal: false,
            has_screen: false,
            identity: None,
            progress: None,
        };
        let named = SocketArguments { socket: Some("s.sock".into()), config: ConfigArguments::default() };
        assert_eq!(format!("{:?}", control(&named, &edge).expect("a socket")), r#"Control { socket: "/srv/s.sock" }"#);
    }
}
