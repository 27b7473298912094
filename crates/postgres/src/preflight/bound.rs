//! Extensions that are known to be bound to the name of their database: may they be made here, and how is a server started
//! in which they may?

use std::collections::BTreeSet;
use std::path::Path;

use seawall_archive::names::ProofName;
use seawall_archive::preflight::Lack;

use crate::Error;
use crate::catalog::rights::is_superuser;
use crate::client::Connection;
use crate::preflight::restorer::Destination;
use crate::quote::literal;

/// Each extension, and the setting that names its database. Its library has its name and must be loaded by the server.
const BOUND: [(&str, &str); 1] = [("pg_cron", "cron.database_name")];

/// Other extensions whose libraries the server must load before they can be made.
const PRELOADED: [&str; 1] = ["timescaledb"];

/// What was found of the extensions of a set.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What keeps them from being made.
    pub(crate) lacks: Vec<Lack>,
    /// Those that are made when the database has its name.
    pub(crate) later: Vec<String>,
}

/// What a server says of the database that an extension is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Says {
    /// This role may not know it.
    Nothing,
    /// It has no such setting.
    NotLoaded,
    Name(String),
}

/// Looks for the extensions of a set that is restored into the database `name`.
pub(crate) async fn look(
    connection: &mut Connection,
    extensions: &BTreeSet<&str>,
    name: &str,
    into: Destination,
) -> Result<Found, Error> {
    let mut found = Found::default();
    for (extension, setting) in BOUND.into_iter().filter(|(extension, _)| extensions.contains(extension)) {
        let there = format!("SELECT 1 FROM pg_catalog.pg_extension WHERE extname = {}", literal(extension));
        if into == Destination::Existing && !connection.query(&there).await?.is_empty() {
            continue;
        }
        let superuser = is_superuser(connection).await?;
        let value = connection.one(&format!("SELECT pg_catalog.current_setting({}, true)", literal(setting))).await;
        let says = match value {
            Ok(row) => row.optional(0).map_or(Says::NotLoaded, |value| Says::Name(value.to_owned())),
            Err(error) if error.sqlstate() == Some("42501") => Says::Nothing,
            Err(error) => return Err(error),
        };
        match lack(extension, setting, &says, name) {
            // What a provider lets others do only its server knows.
            Some(lack) if superuser => found.lacks.push(lack),
            _ if into == Destination::Existing || is_for_the_proof(&says, name) => {}
            _ => found.later.push(format!("extension {extension}")),
        }
    }
    Ok(found)
}

/// Whether the server was started for a proof, and set to the name that its database has from the start.
fn is_for_the_proof(says: &Says, name: &str) -> bool {
    ProofName::unfinished(name).is_some_and(|unfinished| *says == Says::Name(unfinished))
}

/// What keeps an extension from being made in the database `name`, if anything.
fn lack(extension: &str, setting: &str, says: &Says, name: &str) -> Option<Lack> {
    match says {
        Says::Nothing => None,
        Says::Name(its) if its == name || is_for_the_proof(says, name) => None,
        Says::Name(its) if ProofName::of(name).is_some() => Some(Lack::new(
            format!("the extension {extension} can only be made in the database {its}, which {setting} names"),
            "leave out --to: the server that is started for a proof is told the name of its database".to_owned(),
        )),
        Says::Name(its) => Some(Lack::new(
            format!("the extension {extension} can only be made in the database {its}, which {setting} names"),
            format!("restore into {its}; or {setting} = {} in postgresql.conf, and a restart", literal(name)),
        )),
        Says::NotLoaded => Some(Lack::new(
            format!("the extension {extension} can't be made: the server has no setting {setting}"),
            format!(
                "shared_preload_libraries = '{extension}' and {setting} = {} in postgresql.conf, and a restart",
                literal(name)
            ),
        )),
    }
}

/// The settings of a server that is started for a proof of a set with these extensions. `programs` is the folder of its programs.
pub(crate) fn settings(extensions: &BTreeSet<String>, proof: ProofName, programs: &Path) -> Vec<String> {
    let mut settings = Vec::new();
    let bound = BOUND.iter().filter(|(extension, _)| extensions.contains(*extension));
    if let Some(unfinished) = ProofName::unfinished(&proof.whole()) {
        settings.extend(bound.clone().map(|(_, setting)| format!("{setting}={unfinished}")));
    }
    if !settings.is_empty() {
        // No worker of theirs is to do what a restored table tells it to.
        settings.push("max_worker_processes=0".to_owned());
    }
    let preloaded = PRELOADED.iter().filter(|extension| extensions.contains(**extension));
    let libraries = bound.map(|(extension, _)| *extension).chain(preloaded.copied());
    let libraries: Vec<&str> = libraries.filter(|library| has_library(programs, library)).collect();
    if !libraries.is_empty() {
        settings.push(format!("shared_preload_libraries={}", libraries.join(",")));
    }
    settings
}

/// Whether the libraries beside programs have this one: a server that is to load one that isn't there doesn't start.
fn has_library(programs: &Path, library: &str) -> bool {
    let file = format!("{library}.so");
    ["lib", "lib/postgresql"].iter().any(|folder| programs.join("..").join(folder).join(&file).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_made_in_the_database_that_the_server_names() {
        let proof = ProofName::new(7);
        let unfinished = ProofName::unfinished(&proof.whole()).expect("one of a proof");
        let name = |name: &str| Says::Name(name.to_owned());
        for (says, database, mend) in [
            (Says::Nothing, "shop", None),
            (name("shop"), "shop", None),
            (name("shop"), "copy", Some("restore into shop; or a.name = 'copy' in postgresql.conf, and a restart")),
            (
                Says::NotLoaded,
                "shop",
                Some("shared_preload_libraries = 'a' and a.name = 'shop' in postgresql.conf, and a restart"),
            ),
            (name(&unfinished), &proof.whole(), None),
            (
                name("shop"),
                &proof.whole(),
                Some("leave out --to: the server that is started for a proof is told the name of its database"),
            ),
        ] {
            let mended = lack("a", "a.name", &says, database).map(|lack| lack.mend);
            assert_eq!(mended.as_deref(), mend, "{says:?} {database}");
        }
    }

    #[test]
    fn a_server_for_a_proof_is_told_the_name() {
        let (proof, nowhere) = (ProofName::new(7), Path::new("/nowhere/bin"));
        let of = |names: &[&str]| settings(&names.iter().map(|name| (*name).to_owned()).collect(), proof, nowhere);
        assert_eq!(of(&["hstore", "timescaledb"]), Vec::<String>::new());
        let unfinished = ProofName::unfinished(&proof.whole()).expect("one of a proof");
        assert_eq!(of(&["pg_cron"]), [format!("cron.database_name={unfinished}"), "max_worker_processes=0".to_owned()]);
    }
}
