//! What a process offers while it protects: the control socket, metrics, MCP, the page, heartbeats, notifications, renewed locks.
//!
//! Protection never depends on any of it. What can't be offered is an error in the log, and everything else goes on. All
//! but the control socket follow the configuration when it is read again.

pub(crate) mod heartbeat;
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod notifications;
mod renewals;
pub(crate) mod resources;
pub(crate) mod token;

use std::path::PathBuf;
use std::sync::Arc;

use seawall_core::{Failure, Shutdown};
use seawall_notify::{Sender, Store};
use seawall_vault::HttpClient as Client;
use tokio::task::JoinHandle;

use crate::Opener;
use crate::config::{McpConfig, Services, SocketConfig};
use crate::control::{Actions, Socket};
use crate::http::{Listener, serve};
use crate::services::mcp::Mcp;
use crate::services::metrics::Metrics;
use crate::web::Web;

/// What is sent to other machines, and what they may know of this one.
#[derive(Clone)]
pub(crate) struct Outside {
    /// Makes what heartbeats and notifications are sent with; `None` where that can't be had, which the log says.
    client: Arc<dyn Fn() -> Option<Client> + Send + Sync>,
    /// The name of this host.
    host: String,
    /// What notifications told.
    told: Arc<Store>,
}

impl Outside {
    /// With the connections of `opener`, and the file that notes what notifications told. Blocks.
    pub(crate) fn new(opener: Arc<Opener>, told: Option<PathBuf>) -> Self {
        let host = opener.hostname().to_owned();
        Self { client: Arc::new(move || opener.client()), host, told: Store::open(told) }
    }

    /// Nothing can be sent.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { client: Arc::new(|| None), host: "db1".to_owned(), told: Store::open(None) }
    }
}

/// What serves one thing. It ends when this is dropped.
struct Task(JoinHandle<()>);

impl Task {
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Ends it, and returns when its address is free.
    async fn end(mut self) {
        self.0.abort();
        let _aborted = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is offered now.
pub(crate) struct Offered {
    services: Services,
    outside: Outside,
    socket: Option<Task>,
    metrics: Option<Task>,
    mcp: Option<Task>,
    web: Option<Task>,
    heartbeat: Option<Task>,
    notifications: Option<Task>,
    /// Renews locks, as each vault's settings ask.
    renewals: Option<Task>,
}

impl Offered {
    /// Begins everything that is asked for.
    pub(crate) async fn begin(
        services: &Services,
        outside: Outside,
        actions: &Arc<Actions>,
        shutdown: &Shutdown,
    ) -> Self {
        let (socket, metrics, mcp, web, heartbeat, notifications) = Default::default();
        let renewals = Some(Task::start(renewals::renew(Arc::clone(actions))));
        let mut offered = Self {
            services: Services::default(),
            outside,
            socket,
            metrics,
            mcp,
            web,
            heartbeat,
            notifications,
            renewals,
        };
        if let Some(config) = &services.socket {
            offered.socket = told("control socket", control(config, actions).await).ok();
        }
        // What fails is told, and later tried again if it is asked for again.
        let _told = offered.change(services, actions, shutdown).await;
        offered
    }

    /// Offers what is asked for now, except for the socket. Returns what can't be offered, by its key.
    pub(crate) async fn change(
        &mut self,
        services: &Services,
        actions: &Arc<Actions>,
        shutdown: &Shutdown,
    ) -> Vec<(&'static str, Failure)> {
        let was = std::mem::replace(&mut self.services, services.clone());
        let mut failed = Vec::new();
        if was.metrics != services.metrics || self.metrics.is_none() {
            end(self.metrics.take()).await;
            if let Some(address) = services.metrics {
                let listener = Listener::tcp(address).await;
                let handler = Metrics { actions: Arc::clone(actions), turn: Default::default() };
                let begun = told("metrics", listener.map(|listener| begin(listener, handler)));
                self.metrics = begun.map_err(|failure| failed.push(("metrics-addr", failure))).ok();
            }
        }
        if was.mcp != services.mcp || self.mcp.is_none() {
            end(self.mcp.take()).await;
            if let Some(config) = &services.mcp {
                let begun = told("MCP", assistants(config, actions).await);
                self.mcp = begun.map_err(|failure| failed.push(("mcp-addr", failure))).ok();
            }
        }
        if was.web != services.web || self.web.is_none() {
            end(self.web.take()).await;
            if let Some(config) = &services.web {
                let listener = Listener::tcp(config.address).await;
                let page = Web::new(config.clone(), Arc::clone(actions));
                let begun = told("page", listener.map(|listener| begin(listener, page)));
                self.web = begun.map_err(|failure| failed.push(("web", failure))).ok();
            }
        }
        if was.heartbeat != services.heartbeat {
            end(self.heartbeat.take()).await;
            let client = services.heartbeat.as_ref().and_then(|_| (self.outside.client)());
            if let (Some(config), Some(client)) = (&services.heartbeat, client) {
                tracing::info!(interval = ?config.interval, "heartbeats");
                let beat = heartbeat::beat(config.clone(), client, Arc::clone(actions), shutdown.clone());
                self.heartbeat = Some(Task::start(beat));
            }
        }
        if was.notify != services.notify {
            end(self.notifications.take()).await;
            if !services.notify.is_empty() {
                let channels: Vec<&str> = services.notify.iter().map(|channel| channel.name.as_str()).collect();
                tracing::info!(?channels, "notifications");
                let Outside { client, host, told } = &self.outside;
                let channels = (services.notify.clone(), Sender::new(client(), host), Arc::clone(told));
                let work = notifications::notify(channels, Arc::clone(actions), shutdown.clone());
                self.notifications = Some(Task::start(work));
            }
        }
        failed
    }

    /// Ends everything.
    pub(crate) async fn end(self) {
        for task in [self.socket, self.metrics, self.mcp, self.web, self.heartbeat, self.notifications, self.renewals] {
            end(task).await;
        }
    }
}

async fn end(task: Option<Task>) {
    if let Some(task) = task {
        task.end().await;
    }
}

async fn control(socket: &SocketConfig, actions: &Arc<Actions>) -> Result<(String, Task), Failure> {
    let (listener, unlink) = Listener::unix(&socket.path, socket.permissions).await?;
    let handler = Arc::new(Socket(Arc::clone(actions)));
    let task = Task::start(async move {
        let _unlink = unlink;
        serve(listener, handler).await;
    });
    Ok((socket.path.display().to_string(), task))
}

async fn assistants(config: &McpConfig, actions: &Arc<Actions>) -> Result<(String, Task), Failure> {
    let listener = Listener::tcp(config.address).await?;
    Ok(begin(listener, Mcp::new(config.clone(), Arc::clone(actions))))
}

fn begin(listener: Listener, handler: impl crate::http::Handler) -> (String, Task) {
    let address = listener.address();
    (address, Task::start(serve(listener, Arc::new(handler))))
}

fn told(what: &str, listening: Result<(String, Task), Failure>) -> Result<Task, Failure> {
    match &listening {
        Ok((address, _)) => tracing::info!(address, "{what}: listening"),
        Err(failure) => tracing::error!(code = failure.code, next = failure.next, "{what}: {failure}"),
    }
    listening.map(|(_, task)| task)
}
