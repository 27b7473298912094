//! The engine against real servers.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod client;
mod consistency;
mod content;
mod crossing;
mod hostile;
mod hostile_source;
mod kills;
mod locks;
mod login;
mod mysql8;
mod mysql9;
mod planted;
mod restore;
mod restoring;
mod rights;
mod server;
mod settings;
mod support;
mod sweep;
