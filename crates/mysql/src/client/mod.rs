//! A client for the protocol of MySQL and MariaDB: the part that a backup needs, and rows without an allocation for
//! each of them.
//!
//! The well-kept clients don't fit for two reasons. They decode each row into values of its own, which costs more than the
//! server's work. And a backup needs values as the server's bytes, LOCAL INFILE as a stream, and every decision of a login.
//! Everything is sent as text queries. [`quote`] quotes names and values.
//!
//! Dropping a connection closes it. The server then ends its statement and rolls back. A connection whose answer wasn't read
//! to its end, because [`Rows`], [`LoadIn`] or a future was dropped, takes no further statement.
//!
//! What a hostile server can get: a password only where [`auth`] allows it, and never a file, because LOCAL INFILE is
//! answered only where [`Connection::load`] asked for it, and with the caller's bytes.

mod answer;
mod auth;
mod connection;
mod encryption;
mod facts;
pub(crate) mod fuzzing;
mod handshake;
mod line;
mod load;
mod login;
mod login_path;
mod option_file;
mod packet;
mod passfile;
pub mod quote;
mod rows;
mod scramble;
mod session;
mod target;
mod tls;
pub mod tried;
mod url;

pub use answer::Done;
pub use connection::{Connection, Row};
pub use encryption::TlsMode;
pub use facts::Flavour;
pub use load::{LOCAL_FILE, LoadIn};
pub use login::Purpose;
pub use rows::{Filled, Rows};
pub(crate) use session::BEHIND;
pub use target::{Host, Target};
