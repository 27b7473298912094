//! All databases of a server, with its accounts. Each database is made under a name of its own; when all are there, they get
//! into the wanted ones together.
//!
//! The journal of the first database speaks for all of them. It says which accounts this restore makes, before it makes them: so a
//! run that goes on gives them their rights. And it says that everything is there but for the removal of unfinished databases, of
//! which it is in the last.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::SetReader;
use seawall_core::Progress;

use crate::client::{Connection, Target};
use crate::detail::ServerDetail;
use crate::journal::Journal;
use crate::preflight::{self, Server};
use crate::restore::accounts;
use crate::restore::{Member, begin, begun, make, settle};
use crate::set::scope::Scope;
use crate::set::{self, Set};
use crate::{Error, RestoreOptions, Restored};

/// The note that all databases have their names and their objects, and all accounts their rights.
const ENDING: &str = "ending";

/// Restores all databases of a server's set.
pub(crate) async fn restore(
    reader: Arc<SetReader>,
    detail: &ServerDetail,
    target: &Target,
    options: &RestoreOptions,
    progress: &dyn Progress,
    restored: &mut Restored,
) -> Result<(), Error> {
    if !options.tables.is_empty() || options.data_only {
        let object = format!("set {}", reader.manifest().id);
        let cause = "single tables and rows alone are of one database, and this set is of a whole server".to_owned();
        let next = "name the database behind the URL's last slash".to_owned();
        return Err(Error::Refused { code: "mysql.which-database", object, cause, next });
    }
    let mut connection = Connection::open(target).await?;
    let server = Server::look(&mut connection).await?;
    let globals = match options.owners {
        true => set::globals(&reader).await?,
        false => crate::Globals::default(),
    };
    let mut accounts = accounts::look(&mut connection, &globals).await?;
    let made: BTreeSet<String> = accounts.missing.iter().map(|account| accounts::shown(account)).collect();
    let mut sets = Vec::with_capacity(detail.databases.len());
    for name in &detail.databases {
        sets.push(Set::open(Arc::clone(&reader), Some(name)).await?);
    }
    let whats = sets.iter().map(|set| Scope::new(options, set)).collect::<Result<Vec<_>, Error>>()?;
    let mut members = Vec::with_capacity(sets.len());
    for (set, what) in sets.iter().zip(&whats) {
        let name = &set.detail.name;
        let member = Member::look(&mut connection, &server, set, what, target, name, &made).await?;
        for lack in &member.look.lacks {
            let cause = if lack.cause.contains(name) {
                lack.cause.clone()
            } else {
                format!("in database {name}, {}", lack.cause)
            };
            if !restored.lacks.iter().any(|known| known.mend == lack.mend && lack.mend.starts_with("GRANT")) {
                restored.lacks.push(seawall_archive::preflight::Lack { cause, mend: lack.mend.clone() });
            }
        }
        restored.doubts.extend(member.look.doubts.iter().map(|doubt| format!("in database {name}, {doubt}")));
        members.push(member);
    }
    let places: Vec<_> = members
        .iter()
        .zip(&sets)
        .zip(&whats)
        .map(|((member, set), what)| member.place(set, what, target, &server))
        .collect();
    let mut lead = match places.first() {
        Some(first) => begun(first, &mut connection).await?,
        None => None,
    };
    if let Some(journal) = &lead {
        accounts.are_of(journal);
    }
    restored.roles = accounts.missing.iter().map(|account| accounts::shown(account)).collect();
    let kept = |account: &&crate::AccountStatements| {
        (format!("account {}", accounts::shown(account)), "it was there already, with its own rights".to_owned())
    };
    restored.kept = accounts.there.iter().map(kept).collect();
    restored.lacks.extend(accounts::lacks(&mut connection, &accounts).await?);
    restored.doubts.extend(accounts::doubts(&mut connection, &globals).await?);
    restored.databases.clone_from(&detail.databases);
    let is_ending = lead.as_ref().is_some_and(|journal| journal.has(ENDING));
    if is_ending {
        // The databases are there, and they are this restore's.
        restored.lacks.clear();
        restored.resumed = true;
    }
    if options.dry_run {
        connection.close().await;
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    for place in &places {
        Journal::hold(&mut connection, &place.made).await.map_err(|error| error.leaves(&place.made))?;
    }
    if let Some(first) = places.first() {
        lead = Some(begin(first, &mut connection).await?);
    }
    restored.refused.extend(accounts::make(&mut connection, lead.as_mut(), &accounts.missing).await?);
    restored.refused.extend(accounts::libraries(&mut connection, &globals).await?);
    let (refused, kept) = accounts::servers(&mut connection, &globals).await?;
    restored.refused.extend(refused);
    restored.kept.extend(kept);
    if !is_ending {
        let mut journals: Vec<Journal> = Vec::with_capacity(places.len());
        for place in &places {
            let made = make(place, &mut connection, progress, restored).await;
            journals.push(made.map_err(|error| error.leaves(&place.made))?);
        }
        for ((place, journal), member) in places.iter().zip(&mut journals).zip(&members) {
            place.take_name(&mut connection, journal, member.replaces).await?;
        }
    }
    let all: Vec<_> = places.iter().collect();
    settle(&all, &mut connection, restored).await?;
    restored.refused.extend(accounts::grant(&mut connection, &accounts.missing).await?);
    if let Some(journal) = lead.as_mut().filter(|_| !is_ending) {
        journal.note(&mut connection, ENDING).await?;
    }
    for place in places.iter().rev() {
        place.end(&mut connection).await?;
    }
    connection.close().await;
    Ok(())
}
