//! `seawall notify test`: whether messages arrive.

use seawall_core::{Failure, Kind};
use seawall_notify::{Channel, Sender, try_out};
use serde_json::json;

use crate::arguments::NotifyTestArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::{configuration, runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &NotifyTestArguments, edge: &Edge) -> Result<Output, Failure> {
    let config = configuration::require(&arguments.config, edge)?;
    let file = config.file.display().to_string();
    let channels = chosen(config.services.notify, arguments.channel.as_deref(), &file)?;
    let opener = edge.opener(1)?;
    let outcomes = runtime::run(async {
        let sender = Sender::new(opener.client(), &edge.hostname);
        Ok(try_out(&channels, &sender).await)
    })?;
    Ok(render(&channels, outcomes))
}

/// The channel of this name, or all.
fn chosen(mut channels: Vec<Channel>, name: Option<&str>, file: &str) -> Result<Vec<Channel>, Failure> {
    let names = channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", ");
    if channels.is_empty() {
        let next = "list channels under notify, see docs/configuration.md";
        return Err(Failure::new(Kind::Usage, "notify.none", file, "it has no channels", next));
    }
    if let Some(name) = name {
        channels.retain(|channel| channel.name == name);
    }
    if channels.is_empty() {
        let cause = format!("{file} has no channel of this name");
        let next = format!("name one of these: {names}");
        return Err(Failure::new(Kind::NotFound, "notify.unknown-channel", name.unwrap_or_default(), cause, next));
    }
    Ok(channels)
}

fn render(channels: &[Channel], outcomes: Vec<Result<(), Failure>>) -> Output {
    let count = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let exit = match (count, outcomes.len()) {
        (count, all) if count == all => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::Partly,
    };
    let word = |outcome: &Result<(), Failure>| if outcome.is_ok() { "it arrived" } else { "it failed" };
    let row = |(channel, outcome): (&Channel, &Result<(), Failure>)| {
        vec![channel.name.clone(), channel.way.name().to_owned(), word(outcome).to_owned()]
    };
    let rows = channels.iter().zip(&outcomes).map(row).collect();
    let document = |(channel, outcome): (&Channel, &Result<(), Failure>)| {
        json!({
            "name": channel.name,
            "type": channel.way.name(),
            "delivered": outcome.is_ok(),
            "error": outcome.as_ref().err().map(to_json),
        })
    };
    let documents: Vec<_> = channels.iter().zip(&outcomes).map(document).collect();
    Output {
        text: table::table(&["channel", "type", "message"], rows, &[]),
        json: json!({ "channels": documents }),
        failures: outcomes.into_iter().filter_map(Result::err).collect(),
        exit,
    }
}
