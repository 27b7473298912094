//! A client for PostgreSQL's protocol, version 3: the part that a backup needs, and COPY without a copy or an
//! allocation for each row.
//!
//! The well-kept clients don't fit for two reasons. They return one buffer for each row, which costs more than the
//! server's own work. And none has replication connections, which streaming WAL needs. The messages, and the arithmetic
//! of passwords, come from `postgres-protocol`; this code has the order of messages. Everything is sent as simple
//! queries, so it works on replication connections as well. [`crate::quote`] quotes values.
//!
//! Dropping a connection, or a future that uses it, closes it. The server then ends its statement and rolls back.

pub(crate) mod binary;
mod child;
mod connection;
mod copy;
mod encryption;
mod guard;
mod passfile;
pub(crate) mod replication;
pub(crate) mod session;
mod startup;
mod target;
mod text;
mod tls;
pub(crate) mod tried;
mod url;

pub(crate) use child::child_environment;
pub(crate) use connection::{Connection, Row};
pub(crate) use copy::{CopyIn, Filled};
pub use encryption::TlsMode;
pub(crate) use guard::Guard;
pub(crate) use passfile::find_password;
pub(crate) use startup::keepalives;
pub(crate) use target::Login;
pub use target::{Host, Target};
pub(crate) use text::TextEncoding;
