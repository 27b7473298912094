//! Reads configurations. This crate knows no engine and no key of an engine.
//!
//! `document` turns text into a tree with line numbers. `fields` reads the keys of a mapping and refuses unknown keys.
//! `error` reports the line and the cause of a mistake. `place` reads vaults, and `kinds` has the settings of each kind. `expand` inserts environment
//! variables. `pattern`, `size` and `names` read single values.

pub mod document;
pub mod error;
pub mod expand;
pub mod fields;
pub mod kinds;
mod names;
pub mod pattern;
pub mod place;
pub mod size;

pub use error::{ConfigError, Location, Problem};
pub use fields::{At, Fields};
pub use names::{absolute, is_name};
