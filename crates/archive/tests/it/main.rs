//! Sets from end to end: into memory, into folders, and into a store that goes wrong.
#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(missing_docs, reason = "tests speak by their names")]

mod damage;
mod faults;
mod log;
mod lost;
mod retention;
mod sealed;
mod support;
mod tuples;
mod whole;
