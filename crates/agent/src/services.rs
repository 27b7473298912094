//! What a process offers while it protects: the control socket, metrics, MCP, heartbeats.
//!
//! Protection never depends on any of it. What can't be offered is an error in the log, and everything else goes on.

use std::sync::Arc;

use seawall_core::{Failure, Shutdown};
use seawall_vault::HttpClient as Client;
use tokio::task::JoinSet;

use crate::config::{HeartbeatConfig, McpConfig, Services, SocketConfig};
use crate::control::{Actions, Socket};
use crate::heartbeat;
use crate::http::{Listener, serve};
use crate::mcp::Mcp;
use crate::metrics::Metrics;

/// What is to be offered, and what a heartbeat is sent with.
pub(crate) struct Offer<'a> {
    pub(crate) services: &'a Services,
    pub(crate) client: Option<Client>,
}

impl Offer<'_> {
    /// Begins everything that is asked for. It ends when what is returned is dropped.
    pub(crate) async fn begin(self, actions: Arc<Actions>, shutdown: &Shutdown) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let Services { socket, metrics, mcp, heartbeat } = self.services;
        if let Some(socket) = socket {
            tell("control socket", control(socket, &actions, &mut tasks).await);
        }
        if let Some(address) = metrics {
            let handler = Metrics { actions: Arc::clone(&actions), turn: Default::default() };
            tell("metrics", Listener::tcp(*address).await.map(|listener| begin(listener, handler, &mut tasks)));
        }
        if let Some(config) = mcp {
            tell("MCP", assistants(config, &actions, &mut tasks).await);
        }
        if let (Some(config), Some(client)) = (heartbeat, self.client) {
            let HeartbeatConfig { interval, .. } = config;
            tracing::info!(?interval, "heartbeats");
            tasks.spawn(heartbeat::beat(config.clone(), client, actions, shutdown.clone()));
        }
        tasks
    }
}

async fn control(socket: &SocketConfig, actions: &Arc<Actions>, tasks: &mut JoinSet<()>) -> Result<String, Failure> {
    let (listener, unlink) = Listener::unix(&socket.path, socket.permissions).await?;
    let handler = Arc::new(Socket(Arc::clone(actions)));
    tasks.spawn(async move {
        let _unlink = unlink;
        serve(listener, handler).await;
    });
    Ok(socket.path.display().to_string())
}

async fn assistants(config: &McpConfig, actions: &Arc<Actions>, tasks: &mut JoinSet<()>) -> Result<String, Failure> {
    let listener = Listener::tcp(config.address).await?;
    Ok(begin(listener, Mcp { config: config.clone(), actions: Arc::clone(actions) }, tasks))
}

fn begin(listener: Listener, handler: impl crate::http::Handler, tasks: &mut JoinSet<()>) -> String {
    let address = listener.address();
    tasks.spawn(serve(listener, Arc::new(handler)));
    address
}

fn tell(what: &str, listening: Result<String, Failure>) {
    match listening {
        Ok(address) => tracing::info!(address, "{what}: listening"),
        Err(failure) => tracing::error!(code = failure.code, next = failure.next, "{what}: {failure}"),
    }
}
