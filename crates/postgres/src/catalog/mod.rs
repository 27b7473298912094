//! The content of a server and its databases, from the catalogs, and the part of it that a role can't see.
//!
//! The room: `inventory` (the objects of a database), `properties` (of the database itself), `globals` (of the server:
//! roles, tablespaces), `grants` (privileges and their grantors), `records` (what a set records of all these), `rights`
//! (what can a role not see?), `snapshot` (one state, seen by many connections), `pages` (of large objects), `binary`
//! (which tables can be read in binary?), `journals` (which schemas are journals of restores?), `notes` (what restores
//! write about databases), `locks` (are there enough?).

pub(crate) mod binary;
pub(crate) mod globals;
pub(crate) mod grants;
pub(crate) mod inventory;
pub(crate) mod journals;
pub(crate) mod locks;
pub(crate) mod notes;
pub(crate) mod pages;
pub(crate) mod properties;
pub(crate) mod records;
pub(crate) mod rights;
pub(crate) mod snapshot;
