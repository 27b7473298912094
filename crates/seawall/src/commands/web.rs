//! `seawall web`: the page of a prefix, from the vaults alone.

use std::sync::Arc;

use seawall_agent::config::WebConfig;
use seawall_agent::{Level, LogFormat, PrefixPage, Signals};
use seawall_core::{Failure, Shutdown};
use serde_json::json;

use crate::arguments::{Common, WebArguments};
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::{runtime, server};

/// Runs the command until a signal.
pub(crate) fn run(arguments: &WebArguments, common: &Common, edge: &Edge) -> Result<Output, Failure> {
    super::log(common, Level::Info, if common.json { LogFormat::Json } else { LogFormat::Text });
    let config = config(arguments, edge)?;
    let prefix = server::place(&arguments.vault, edge)?;
    let opener = Arc::new(edge.opener(runtime::working())?);
    let shown = prefix.to_string();
    let page = PrefixPage { config, opener, prefix, fresh: arguments.fresh, version: env!("CARGO_PKG_VERSION") };
    let runtime = runtime::lasting(runtime::PROTECTING)?;
    let ended = runtime.block_on(async {
        let shutdown = Shutdown::new();
        let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
        let forwarding = tokio::spawn(signals.forward(shutdown.clone(), false));
        let listens = |address: &str| tracing::info!(address, "page: listening");
        let ended = page.show(&shutdown, listens).await;
        forwarding.abort();
        ended
    });
    runtime::end(runtime);
    ended?;
    Ok(Output::done(format!("{shown}: shown until a signal\n"), &json!({ "vault": shown })))
}

/// The page as the command line has it.
fn config(arguments: &WebArguments, edge: &Edge) -> Result<WebConfig, Failure> {
    let WebArguments { listen, token_file, host, path, .. } = arguments;
    let mut config = WebConfig::parse(listen).ok_or_else(|| {
        let next = "write an address of this machine, such as --listen 127.0.0.1:8400";
        usage("usage.arguments", "--listen", &format!("`{listen}` is no address with a port"), next)
    })?;
    for name in host {
        config.hosts.push(WebConfig::host(name).ok_or_else(|| {
            let next = "write names without a port, such as --host backup.example.org";
            usage("usage.arguments", "--host", &format!("`{name}` is no name of a host"), next)
        })?);
    }
    if let Some(path) = path {
        config.prefix = WebConfig::path(path).ok_or_else(|| {
            let next = "write a path such as /seawall, of letters, digits, \"/\", \".\", \"_\" and \"-\"";
            usage("usage.arguments", "--path", &format!("`{path}` is no such path"), next)
        })?;
    }
    if let Some(file) = token_file {
        let file = edge.absolute(file);
        config.read_token(&file).map_err(|cause| {
            let next = "write a token of at least 16 letters, digits or signs into the file";
            usage("usage.arguments", "--token-file", &format!("{}: {cause}", file.display()), next)
        })?;
    }
    if !config.is_guarded() {
        let next = "name a file with --token-file, or listen on 127.0.0.1 without --host";
        return Err(usage("config.unsafe", "--listen", &config.unguarded(), next));
    }
    Ok(config)
}
