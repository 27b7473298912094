//! Requests to a running process: its status, and to register, unregister, start, stop or ship a database.
//!
//! [`Actions`] carries requests out, for the control socket, for MCP and for the page. `longer` has those that only the page makes, and
//! `errands` remembers what came of them. `trace` keeps how lag and size went. `handler` speaks HTTP on the control socket,
//! in the words of Litestream's own socket and a few more. [`Control`] is the client that the commands use.

mod actions;
mod api;
mod client;
mod errands;
mod handler;
mod longer;
mod registry;
mod standing;
mod trace;

pub(crate) use actions::{Actions, txid};
pub(crate) use api::WireFailure;
pub use api::{Info, Listed, Registered, Silenced, Stopped, Synced};
pub use client::Control;
pub(crate) use errands::Errand;
pub(crate) use handler::Socket;
pub(crate) use registry::{Registration, Registry};
pub(crate) use trace::{Sample, Trace};
