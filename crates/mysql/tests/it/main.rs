//! The engine against real servers.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod backups;
mod blocking;
mod by_hand;
mod client;
mod consistency;
mod content;
mod crashes;
mod crossing;
mod cutting;
mod definers;
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
mod mysql9;
mod network;
mod packets;
mod plain;
mod planted;
mod regressions;
mod replica;
mod restore;
mod restores;
mod restoring;
mod resume;
mod rights;
mod sample;
mod server;
mod settings;
mod stores;
mod support;
mod sweep;
mod tampered;
