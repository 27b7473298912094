//! The crate from outside: the peers' own files, crafted defects, and round trips.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod api;
mod damage;
mod examples;
mod file_apply;
mod file_database;
mod file_model;
mod file_read;
mod golden;
mod merge;
mod mutations;
mod programs;
mod promises;
mod roundtrip;
mod rules;
mod support;
mod vectors;
