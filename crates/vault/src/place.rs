//! What the settings of every kind of store with a server can do. So code above the stores needs no case for a kind.

use std::fmt;

use crate::Error;
use crate::text::{kebab, wrong};

/// The settings of one place in a store with a server: what a URL and the keys of a configuration say about it.
pub trait PlaceSettings: fmt::Debug + Send + Sync {
    /// Sets one setting from text. The name may be in kebab case or camel case.
    ///
    /// # Errors
    /// The name is unknown, or the value isn't one of it.
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error>;

    /// Whether the setting of that name has a value, or another setting has one that excludes it.
    fn is_set(&self, name: &str) -> bool;

    /// Checks what no single setting shows.
    ///
    /// # Errors
    /// Settings are missing or exclude each other.
    fn check(&self) -> Result<(), Error>;

    /// The place for people: no secret, and no server that stands in a setting.
    fn url(&self) -> String;

    /// The folder that all names are below, without `/` at its ends.
    fn path(&self) -> &str;

    /// The server, where a setting names it.
    fn endpoint(&self) -> Option<&str> {
        None
    }

    /// What all names in the store itself begin with: nothing, or text with a `/` at its end.
    fn root(&self) -> String {
        if self.path().is_empty() { String::new() } else { format!("{}/", self.path()) }
    }
}

/// A place with its server. Two servers may have buckets of one name, so the endpoint belongs to the place.
pub(crate) fn shown(url: &str, endpoint: Option<&str>) -> String {
    endpoint.map_or_else(|| url.to_owned(), |endpoint| format!("{url}?endpoint={endpoint}"))
}

/// Reads the query of a URL into settings. `said` are the names of what stands before the query.
///
/// # Errors
/// A setting is wrong, is given twice, or is one of `said`.
pub(crate) fn apply_query(settings: &mut dyn PlaceSettings, query: &str, said: &[&str]) -> Result<(), Error> {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (kebab(&name), value)).collect();
    for (name, _) in &pairs {
        if said.contains(&name.as_str()) {
            return Err(wrong(name, "the URL says that already", "leave it away"));
        }
    }
    let mut seen = Vec::new();
    for (name, value) in &pairs {
        settings.set(name, value)?;
        if seen.contains(&name) {
            return Err(wrong(name, "it is given twice", "give it once"));
        }
        seen.push(name);
    }
    Ok(())
}
