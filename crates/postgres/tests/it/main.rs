//! The engine against real servers: every test ends in a restored database compared with its source.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod artefacts;
mod binary;
mod changes;
mod content;
mod directories;
mod faults;
mod gate;
mod kills;
mod load;
mod locks;
mod login;
mod login_failures;
mod network;
mod parts;
mod preflight;
mod prove;
mod rights;
mod rows;
mod sample;
mod scheduled;
mod secured;
mod server;
mod support;
mod whole_server;
