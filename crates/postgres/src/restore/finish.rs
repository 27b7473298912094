//! The end of a restore in several steps, because extensions wait for a database's name, or because a database can go to its
//! owner only in a session of its own: first the names, then these steps, then the end of the replaced databases. A failure
//! takes the names back, and leaves the replaced databases as they were.

use std::sync::Arc;

use seawall_core::Progress;

use crate::client::Target;
use crate::journal;
use crate::restore::naming::{self, Pair};
use crate::restore::scope::Scope;
use crate::restore::server;
use crate::restore::set::Set;
use crate::restore::{self};
use crate::{Error, Properties, Restored, World};

/// A database of which something waits for its name.
pub(crate) struct Waiting<'a> {
    pub(crate) set: &'a Set,
    pub(crate) what: &'a Scope<'a>,
    /// What it was made as.
    pub(crate) made: &'a str,
    /// What it is called in the end.
    pub(crate) name: &'a str,
}

/// Names the databases, makes what waits, gives them to their owners, and drops the databases that they replace. Owners and
/// grants are set only with `owners`.
pub(crate) async fn finish(
    target: &Target,
    (named, owners): (&[(Pair, &Properties)], bool),
    waiting: &[Waiting<'_>],
    world: &World,
    progress: &Arc<dyn Progress>,
    restored: &mut Restored,
) -> Result<(), Error> {
    let pairs: &[Pair] = &named.iter().map(|(pair, _)| pair.clone()).collect::<Vec<_>>();
    for one in waiting {
        naming::note(target, one.made, &journal::name(&one.what.title(one.set)), pairs).await?;
    }
    let mut ended = Vec::new();
    let done = async {
        naming::take(target, pairs, &mut ended).await?;
        for one in waiting {
            let target = target.with_database(one.name);
            let before = (restored.refused.len(), restored.unfilled.len(), restored.later.len());
            let made =
                restore::make_later(one.set, &target, one.made, one.what, world, Arc::clone(progress), restored).await;
            made.map_err(|error| error.within(one.name))?;
            // Of a whole server it is said in which.
            if one.set.database.is_some() {
                server::name_databases(restored, before, one.name);
            }
        }
        naming::open(target, named, owners).await
    };
    let done: Result<(), Error> = done.await;
    if let Err(error) = done {
        return Err(match naming::give_back(target, pairs, ended).await {
            Ok(()) => pairs.iter().fold(error, |error, pair| error.leaves(&pair.made)),
            Err(undo) => not_undone(pairs, &error, &undo),
        });
    }
    naming::drop_replaced(target, pairs).await?;
    for worker in naming::not_back(target, &ended).await? {
        let cause =
            "it was in the database that was replaced, and the server hasn't started it again: restart the server";
        restored.refused.push((format!("worker {worker}"), cause.to_owned()));
    }
    Ok(())
}

/// Two things went wrong: what waited, and taking the names back.
fn not_undone(pairs: &[Pair], error: &Error, undo: &Error) -> Error {
    let names: Vec<&str> = pairs.iter().map(|pair| pair.name.as_str()).collect();
    Error::Refused {
        code: "postgres.not-undone",
        object: format!("database {}", names.join(", ")),
        cause: format!("{error}; and the names can't be taken back: {undo}"),
        next:
            "start the same again: it takes the names back before anything else. A database that was there is called \
               replaced-by-seawall-… until then"
                .to_owned(),
    }
}
