//! What is on a server: its facts, the rights of our account, databases, tables and their columns, users.
//!
//! Every statement names `information_schema` or `mysql`, and asks for one database at a time. Names are compared here and
//! not by the server, whose comparison may ignore case.

pub(crate) mod columns;
pub(crate) mod engines;
pub(crate) mod facts;
pub(crate) mod grants;
pub(crate) mod inventory;
pub(crate) mod listing;
pub(crate) mod rights;
pub(crate) mod users;
