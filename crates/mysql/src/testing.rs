//! The client, for this crate's integration tests.

pub use crate::client::{Connection, Done, Filled, LOCAL_FILE, LoadIn, Purpose, Row, Rows, quote, tried};
