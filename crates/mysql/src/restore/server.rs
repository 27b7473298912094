//! All databases of a server, with its accounts. Each database is made under a name of its own; when all are there, they get
//! into the wanted ones together.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::SetReader;
use seawall_core::Progress;

use crate::client::{Connection, Target};
use crate::detail::ServerDetail;
use crate::journal::Journal;
use crate::preflight::{self, Server};
use crate::restore::accounts;
use crate::restore::scope::Scope;
use crate::restore::set::{self, Set};
use crate::restore::{Member, finish, make};
use crate::{Error, RestoreOptions, Restored};

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
    let accounts = accounts::look(&mut connection, &globals).await?;
    restored.roles = accounts.missing.iter().map(|account| accounts::shown(account)).collect();
    let kept = |account: &&crate::AccountStatements| {
        (format!("account {}", accounts::shown(account)), "it was there already, with its own rights".to_owned())
    };
    restored.kept = accounts.there.iter().map(kept).collect();
    let made: BTreeSet<String> = restored.roles.iter().cloned().collect();
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
    restored.lacks.extend(accounts::lacks(&mut connection, &accounts).await?);
    restored.doubts.extend(accounts::doubts(&mut connection, &globals).await?);
    restored.databases.clone_from(&detail.databases);
    if options.dry_run {
        connection.close().await;
        return Ok(());
    }
    preflight::refuse(&restored.target, &restored.lacks)?;
    restored.refused.extend(accounts::make(&mut connection, &accounts.missing).await?);
    restored.refused.extend(accounts::libraries(&mut connection, &globals).await?);
    let (refused, kept) = accounts::servers(&mut connection, &globals).await?;
    restored.refused.extend(refused);
    restored.kept.extend(kept);
    let places: Vec<_> = members
        .iter()
        .zip(&sets)
        .zip(&whats)
        .map(|((member, set), what)| member.place(set, what, target, &server))
        .collect();
    let mut journals: Vec<Journal> = Vec::with_capacity(places.len());
    for place in &places {
        let done = async {
            Journal::hold(&mut connection, &place.made).await?;
            make(place, &mut connection, progress, restored).await
        };
        journals.push(done.await.map_err(|error| error.leaves(&place.made))?);
    }
    let replaces: Vec<bool> = members.iter().map(|member| member.replaces).collect();
    let all: Vec<_> = places.iter().collect();
    finish(&all, &mut journals.iter_mut().collect::<Vec<_>>(), &replaces, &mut connection, restored).await?;
    restored.refused.extend(accounts::grant(&mut connection, &accounts.missing).await?);
    connection.close().await;
    Ok(())
}
