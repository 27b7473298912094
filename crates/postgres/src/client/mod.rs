//! A client for PostgreSQL's protocol, version 3: as much as a backup needs, and COPY without a copy or an allocation
//! for each row.
//!
//! Why not one of the well-kept clients: they hand out one buffer a row, which costs more than the server does, and none
//! has replication connections, which streaming WAL needs. The messages, and the passwords' arithmetic, are
//! `postgres-protocol`'s; what is here is the order of messages. Everything is sent as simple queries, so it works on
//! replication connections as well; values are quoted by [`quote`].
//!
//! Dropping a connection, or a future that uses it, closes it; the server ends what it was doing and rolls back.

pub(crate) mod binary;
mod child;
mod connection;
mod copy;
mod encryption;
mod passfile;
pub(crate) mod quote;
pub(crate) mod session;
mod startup;
mod target;
mod text;
mod tls;
mod url;

pub(crate) use child::child_environment;
pub(crate) use connection::{Connection, Row};
pub(crate) use copy::{CopyIn, Filled};
pub use encryption::TlsMode;
pub(crate) use passfile::find_password;
pub(crate) use startup::keepalives;
pub(crate) use target::Login;
pub use target::{Host, Target};
pub(crate) use text::TextEncoding;
