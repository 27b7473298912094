//! `seawall wal receive`: the log of a server into the vault, as it is written.

use seawall_agent::wal::{ReceiveOptions, Receiver};
use seawall_agent::{Level, LogFormat, ServerUrl, Signals};
use seawall_archive::log::TimelineId;
use seawall_core::{Failure, Shutdown};
use serde_json::json;

use crate::arguments::{Common, WalReceiveArguments};
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::{commands, runtime, server};

/// Runs the command.
pub(super) fn run(arguments: &WalReceiveArguments, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    commands::log(common, Level::Info, LogFormat::Text);
    let target = match server::url(&arguments.server, edge)? {
        ServerUrl::Postgres(target) => *target,
        ServerUrl::Mysql(_) => {
            let next = "name a PostgreSQL server: postgresql://ROLE@HOST/";
            return Err(usage("usage.server", &arguments.server, "only PostgreSQL's log can be received", next));
        }
    };
    let place = server::place(&arguments.vault, edge)?;
    let encryption = arguments.encryption.read(edge)?;
    let followed = arguments.timeline.and_then(|number| TimelineId::new(number.get()));
    let runtime = runtime::lasting(runtime::PROTECTING)?;
    let (vault, standing) = runtime.block_on(async {
        let shutdown = Shutdown::new();
        let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
        let forwarding = tokio::spawn(signals.forward(shutdown.clone(), false));
        let vault = server::open(&place, edge, None, encryption.as_ref()).await?;
        let options = ReceiveOptions { slot: arguments.slot.clone(), timeline: followed, ..ReceiveOptions::default() };
        let receiver = Receiver::new(target, vault.clone(), options, std::sync::Arc::new(seawall_core::SystemClock));
        let standing = receiver.standing();
        let received = receiver.run(&shutdown).await;
        forwarding.abort();
        received?;
        let standing = standing.borrow().clone();
        Ok::<_, Failure>((vault.url().to_owned(), standing))
    })?;
    runtime::end(runtime);
    let timeline = standing.timeline.map(TimelineId::number);
    let document = json!({ "vault": vault, "timeline": timeline, "received": standing.durable });
    let text = match standing.timeline {
        Some(timeline) => {
            format!("{vault}: the log of timeline {} is there up to {}\n", timeline.number(), standing.durable)
        }
        None => format!("{vault}: nothing was received\n"),
    };
    Ok(Output::done(text, &document))
}
