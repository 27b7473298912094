//! What a server and its databases hold, from the catalogs, and what a role may not see of it.

pub(crate) mod globals;
pub(crate) mod grants;
pub(crate) mod inventory;
pub(crate) mod pages;
pub(crate) mod properties;
pub(crate) mod rights;
pub(crate) mod snapshot;
