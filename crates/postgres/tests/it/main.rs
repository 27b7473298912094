//! The engine against real servers: every test ends in a restored database compared with its source.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]
#![expect(clippy::panic, reason = "these are tests")]

mod artefacts;
mod binary;
mod bound;
mod bounded;
mod catalog;
mod changes;
mod checked;
mod content;
mod differing;
mod directories;
mod encodings;
mod extensions;
mod faults;
mod globals;
mod guarded;
mod hostile;
mod isolated;
mod kills;
mod load;
mod loading;
mod locks;
mod login;
mod login_failures;
mod network;
mod opened;
mod parts;
mod preflight;
mod properties;
mod prove;
mod providers;
mod remains;
mod resume;
mod rights;
mod rows;
mod sample;
mod scheduled;
mod secured;
mod server;
mod settings;
mod steps;
mod support;
mod unfinished;
mod walk;
mod whole_server;
