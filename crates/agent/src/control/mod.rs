//! Requests to a running process: its status, and to register, unregister, start, stop or ship a database.
//!
//! [`Actions`] carries requests out, for the control socket and for MCP. `handler` speaks HTTP on the control socket,
//! in the words of Litestream's own socket and a few more. [`Control`] is the client that the commands use.

mod actions;
mod api;
mod client;
mod handler;
mod registry;
mod standing;

pub(crate) use actions::{Actions, txid};
pub(crate) use api::WireFailure;
pub use api::{Info, Listed, Registered, Silenced, Stopped, Synced};
pub use client::Control;
pub(crate) use handler::Socket;
pub(crate) use registry::{Registration, Registry};
