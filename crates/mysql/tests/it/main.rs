//! The engine against real servers.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod client;
mod hostile;
mod kills;
mod login;
mod mysql8;
mod server;
mod settings;
