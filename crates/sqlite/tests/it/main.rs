//! The engine against real databases: every test ends in a restored database compared with a recorded state.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(clippy::panic, reason = "that is how a test fails")]
#![allow(missing_docs, reason = "tests speak by their names")]

#[cfg(debug_assertions)]
mod beside_a_restore;
mod between_steps;
mod clocks;
mod compared;
mod content_read;
mod digests;
mod faults;
mod follow;
mod histories_go_on;
#[cfg(debug_assertions)]
mod model;
mod overwritten;
mod promises;
#[cfg(debug_assertions)]
mod running;
#[cfg(debug_assertions)]
mod sealing;
mod silent;
mod upkeep;
mod view;
mod watched;
mod what_could_be_missed;
mod what_is_committed_comes_back;
mod world;
