//! Shared by the tests of several crates. Only tests depend on this crate.
//!
//! The rooms: `cable` (connections that a test cuts or stalls), `counting` (an allocator that counts), `invariants` (which ones
//! does a vault violate?), `seeds` (random numbers that can be repeated), `template` (folders that one test makes and the others
//! copy). Behind the feature `stores`: `forwarding` (forwards every call to another store, with hooks for a test) and `gate`
//! (stops on request).

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

mod cable;
pub mod counting;
#[cfg(feature = "stores")]
mod forwarding;
#[cfg(feature = "stores")]
mod gate;
pub mod invariants;
mod relay;
mod seeds;
mod template;

pub use cable::{Cable, IsRequest};
#[cfg(feature = "stores")]
pub use forwarding::{Forwarding, Hooks};
#[cfg(feature = "stores")]
pub use gate::Gate;
pub use relay::Relay;
pub use seeds::{fresh_seed, seed};
pub use template::{Template, from_template};
