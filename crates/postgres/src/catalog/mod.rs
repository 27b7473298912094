//! What a server and its databases hold, from the catalogs, and what a role may not see of it.
//!
//! The room: `inventory` (the objects of a database), `properties` (of the database itself), `globals` (what belongs to the
//! server: roles, tablespaces), `grants` (who may do what, by whose grant), `rights` (what may a role not see?), `snapshot`
//! (one state, seen by many connections), `pages` (of large objects).

pub(crate) mod globals;
pub(crate) mod grants;
pub(crate) mod inventory;
pub(crate) mod pages;
pub(crate) mod properties;
pub(crate) mod rights;
pub(crate) mod snapshot;
