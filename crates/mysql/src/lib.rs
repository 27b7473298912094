//! MySQL and MariaDB: consistent parallel dumps into backup sets, and parallel restores from them.
//!
//! Rows pass as the server's bytes, in the text that `LOAD DATA` reads back, on several connections that see one snapshot, and
//! through the pipeline of `seawall-archive`.
//!
//! The rooms, from a server to a set and back:
//!
//! - `client`: the protocol, rows as lines, and LOAD DATA.
//!
//! Beside the rooms: `error`.

#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod testing;

mod client;
mod error;

pub use client::{Flavour, Host, Target, TlsMode};
pub use error::{Error, ServerError, Side};
