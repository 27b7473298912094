//! The engine against real servers.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod backups;
mod blocking;
mod client;
mod consistency;
mod content;
mod crashes;
mod definitions;
mod fuzzed;
mod galera;
mod hostile;
mod hostile_source;
mod kills;
mod link;
mod locks;
mod login;
mod mysql8;
mod network;
mod packets;
mod regressions;
mod replica;
mod restore;
mod restores;
mod restoring;
mod resume;
mod rights;
mod server;
mod settings;
mod stores;
mod support;
mod tampered;
