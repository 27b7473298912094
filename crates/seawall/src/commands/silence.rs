//! `seawall silence`: a person knows, and doesn't want to be told again for a while.

use seawall_agent::alarms::silence_until;
use seawall_agent::{Silenced, place_of_folder};
use seawall_core::{Clock as _, Failure, Kind, SystemClock};

use super::agent;
use crate::arguments::SilenceArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::{configuration, runtime};

/// Runs the command: by the running process, and without one in the database's state folder, where a process finds it.
pub(crate) fn run(arguments: &SilenceArguments, edge: &Edge) -> Result<Output, Failure> {
    let control = agent::control(&arguments.socket, edge)?;
    let database = agent::database(&arguments.database, edge);
    let answer = match runtime::run(control.silence(&database, arguments.r#for)) {
        Err(failure) if failure.code == "agent.no-process" && arguments.socket.socket.is_none() => {
            without_process(arguments, edge)?
        }
        answered => answered?,
    };
    let text = match &answer.silenced_until {
        Some(until) => format!("{}: alarms are silenced until {until}\n", answer.name),
        None => format!("{}: alarms aren't silenced\n", answer.name),
    };
    Ok(Output::done(text, &answer))
}

fn without_process(arguments: &SilenceArguments, edge: &Edge) -> Result<Silenced, Failure> {
    let config = configuration::require(&arguments.socket.config, edge)?;
    let until_of = |name: &str| arguments.r#for.map(|span| silence_until(name, span, SystemClock.now())).transpose();
    let folder = edge.directory.join(&arguments.database);
    if let Some(directory) = config.directories.iter().find(|directory| directory.dir == folder) {
        // As the configuration writes it: the file is found by that.
        let name = directory.dir.display().to_string();
        let until = until_of(&name)?;
        place_of_folder(&directory.dir, &edge.environment).silence(&name, until)?;
        return Ok(Silenced { name, silenced_until: until });
    }
    let database = config.find(&arguments.database, &edge.directory).ok_or_else(|| {
        let cause = "no process runs, and the configuration names no such database";
        let next = "see `seawall config check` for the names";
        Failure::new(Kind::NotFound, "agent.unknown-database", &arguments.database, cause, next)
    })?;
    let name = database.name.clone();
    let until = until_of(&name)?;
    let place = database.place_here(&edge.environment);
    // A folder that this command made could belong to another user than the process that protects.
    if place.state.as_deref().is_some_and(|state| !state.is_dir()) {
        let cause = "it was never protected on this machine, so there is nothing to silence";
        return Err(Failure::new(Kind::NotFound, "command.no-state", name, cause, "begin with `seawall replicate`"));
    }
    place.silence(&name, until)?;
    Ok(Silenced { name, silenced_until: until })
}
