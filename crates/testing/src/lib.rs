//! What tests of several crates share. A dependency of tests alone.
//!
//! The rooms: `counting` (an allocator that counts), `invariants` (which do not hold of a vault?), `seeds` (random numbers that can be repeated), and behind the feature
//! `stores` the stores that stand before others: `forwarding` (hands every call on, but for what a test does otherwise) and
//! `gate` (stands still on request).

#![allow(clippy::disallowed_methods, reason = "tests are an edge")]

pub mod counting;
#[cfg(feature = "stores")]
mod forwarding;
#[cfg(feature = "stores")]
mod gate;
pub mod invariants;
mod seeds;

#[cfg(feature = "stores")]
pub use forwarding::{Forwarding, Hooks};
#[cfg(feature = "stores")]
pub use gate::Gate;
pub use seeds::{fresh_seed, seed};
