//! Which of several vaults a database is restored from: of those that hold its history the one with the newest point.
//!
//! If it can't be told which of them hold it, none is chosen (`vault.unsure`): the owner names one by its URL.

use std::future::Future;
use std::time::Duration;

use futures::future::{join, join_all};
use seawall_core::{Failure, Kind, Moment, Point, When};
use seawall_vault::Vault;
use seawall_vault::several::kin::{Kin, Look, Verdict, doubt, is_unconfirmed, look, which};
use seawall_vault::several::{Belongs, LateStore};

use crate::database::DatabaseConfig;
use crate::open::Opener;
use crate::several::{judge_of, named_as, record};

/// How long a vault is waited for when the newest of several is looked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The vault that a database is restored from, and those that could not be looked at.
#[derive(Debug)]
pub struct Choice {
    /// The database with that vault alone.
    pub database: DatabaseConfig,
    /// The vaults that could not be reached or read, and those that hold another history.
    pub away: Vec<Failure>,
    /// The database with each other vault alone that may have what is asked for, the best one first.
    pub others: Vec<DatabaseConfig>,
    /// Whether nothing confirms that the vault holds the database's history: no record knows it, and no other vault could be compared.
    pub unconfirmed: bool,
}

impl Choice {
    /// Says in the log which of several vaults was read, and which were passed over.
    pub fn tell(&self) {
        if self.away.is_empty() && self.others.is_empty() {
            return;
        }
        let database = self.database.name.as_str();
        for failure in &self.away {
            tracing::warn!(database, vault = failure.object, code = failure.code, "passed over: {}", failure.cause);
        }
        tracing::info!(database, vault = self.database.vault.to_string(), "restored from this one of several vaults");
        if self.unconfirmed {
            tracing::warn!(
                database,
                "nothing confirms that this is the database's history: no other vault could be compared"
            );
        }
    }

    /// The next vault, if what this one holds can't be read, or doesn't join: the failure says so. An answer about the database stays
    /// one.
    #[must_use]
    pub fn next(mut self, failure: &Failure) -> Option<Self> {
        let is_of_vault =
            matches!(failure.kind, Kind::Corrupt | Kind::Unavailable) || failure.code == "sqlite.unreachable";
        if !is_of_vault || self.others.is_empty() {
            return None;
        }
        self.away.push(failure.clone());
        self.database = self.others.remove(0);
        Some(self)
    }
}

impl Opener {
    /// Looks at all vaults of a database, and chooses the one whose newest point that `when` allows is the newest, among those that hold
    /// the database's history. A vault that holds nothing of a database, that can't be looked at, or that holds another history is passed over.
    ///
    /// # Errors
    /// When none can be looked at, and when it can't be told which of them hold the history (`vault.unsure`); the failure names each.
    pub async fn newest(&self, database: &DatabaseConfig, when: &When) -> Result<Choice, Failure> {
        let all = database.each();
        if all.len() == 1 {
            let (away, others) = (Vec::new(), Vec::new());
            return Ok(Choice { database: database.clone(), away, others, unconfirmed: false });
        }
        let spans = |one: DatabaseConfig| async move {
            let look = async { self.database(&one).await?.history().timeline().await };
            match tokio::time::timeout(PATIENCE, look).await {
                Ok(Ok(timeline)) => Ok(timeline.spans.into_iter().map(|span| (span.from, span.to)).collect()),
                Ok(Err(failure)) if failure.kind == Kind::NotFound => Ok(Vec::new()),
                Ok(Err(failure)) => Err(failure),
                Err(_) => Err(late(&one)),
            }
        };
        let (looks, seen) = join(self.looks(database, &all), join_all(all.iter().cloned().map(spans))).await;
        let looks = looks?;
        let shown: Vec<Option<&Look>> = looks.iter().map(|look| look.as_ref().ok()).collect();
        let ours = match which(&shown) {
            Verdict::In(ours) => ours,
            Verdict::Unsure => return Err(unsure(database, &all, &looks, &seen)),
        };
        let unconfirmed = is_unconfirmed(&shown);
        let nothing = looks.iter().all(|look| look.as_ref().is_ok_and(|look| !look.holds));
        let (mut ends, mut away, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (spans, look)) in seen.into_iter().zip(looks).enumerate() {
            let passed_over = match look {
                Err(failure) => Some(failure),
                Ok(look) if !look.holds && !nothing => all.get(i).map(empty),
                Ok(look) if look.holds && !ours.get(i).copied().unwrap_or(false) => {
                    let best = ours.iter().position(|ours| *ours).and_then(|j| look.kin.get(j)).copied();
                    all.get(i).map(|one| stranger(one, &look, best))
                }
                Ok(_) => None,
            };
            let spans = passed_over.map_or(spans, Err);
            if spans.as_ref().is_err_and(|failure| failure.kind == Kind::Corrupt) {
                unread.push(i);
            }
            ends.push(spans.map_err(|failure| away.push(failure)).ok());
        }
        // A vault whose history can't be told may still restore what is asked for.
        let mut order = ranked(&ends, when).into_iter().chain(unread).filter_map(|i| all.get(i).cloned());
        match order.next() {
            Some(database) => Ok(Choice { others: order.collect(), database, away, unconfirmed }),
            None => Err(all_away(database, &away)),
        }
    }

    /// Does work with the vault whose newest point is the newest, and with the next one if that vault can't be read. Returns the
    /// vaults that were passed over.
    ///
    /// # Errors
    /// Those of the work with the last vault, and `vault.all-away` if that one holds nothing and another one could not be looked at.
    pub async fn with_newest<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        database: &DatabaseConfig,
        when: &When,
        work: impl Fn(DatabaseConfig) -> F,
    ) -> Result<(Choice, T), Failure> {
        let mut choice = self.newest(database, when).await?;
        loop {
            match work(choice.database.clone()).await {
                Ok(done) => return Ok((choice, done)),
                // Only all vaults together say that there is nothing.
                Err(failure) if *when == When::Latest && failure.kind == Kind::NotFound && !choice.away.is_empty() => {
                    choice.away.push(failure);
                    return Err(all_away(database, &choice.away));
                }
                Err(failure) => choice = choice.next(&failure).ok_or(failure)?,
            }
        }
    }

    /// A look at each vault.
    async fn looks(
        &self,
        database: &DatabaseConfig,
        all: &[DatabaseConfig],
    ) -> Result<Vec<Result<Look, Failure>>, Failure> {
        let access = self.access_of(database)?;
        let open = |one: &DatabaseConfig| {
            let (one, first, policy) = (one.clone(), database.vault.scheme(), self.next_policy(access.clone()));
            async move {
                let store = LateStore::open(&one.vault, &self.environment, &policy).await;
                Vault::new(named_as(&one.engine, first, one.vault.scheme(), store), policy)
            }
        };
        let vaults = join_all(all.iter().map(open)).await;
        // The record tells of a later state than the vaults had then.
        let record = record(self, database).filter(|_| !database.vault.is_past());
        let judge = judge_of(&database.engine);
        let looks = look(&vaults, record.as_deref(), judge.as_deref()).await;
        Ok(looks.into_iter().map(|look| look.map_err(Failure::from)).collect())
    }
}

fn late(database: &DatabaseConfig) -> Failure {
    let cause = format!("no answer within {} s", PATIENCE.as_secs());
    let next = "see to the vault, or restore from another one by its URL";
    Failure::new(Kind::Unavailable, "vault.timeout", database.vault.to_string(), cause, next)
}

fn empty(database: &DatabaseConfig) -> Failure {
    let next = "see whether it is the right place; another vault of the database may hold its history";
    Failure::new(Kind::NotFound, "command.empty-vault", database.vault.to_string(), "it holds nothing to restore", next)
}

/// Why a vault that holds another history is passed over.
fn stranger(database: &DatabaseConfig, look: &Look, kin: Option<Kin>) -> Failure {
    if let Belongs::No(error) = &look.belongs {
        return Failure::from(error.clone());
    }
    let cause = match kin {
        Some(Kin::Unread) => "it could not be compared with the vaults that this machine knows",
        Some(Kin::Unknown) => "it has no object in common with the vaults that this machine knows",
        Some(Kin::Same | Kin::Other) | None => "it holds another history than the vaults that this machine knows",
    };
    let next = "look at the vault; if its history is the right one, restore from it by its URL";
    Failure::new(Kind::Conflict, "vault.differs", database.vault.to_string(), cause, next)
}

/// The failure when nothing tells which vaults hold the database's history.
fn unsure(
    database: &DatabaseConfig,
    all: &[DatabaseConfig],
    looks: &[Result<Look, Failure>],
    seen: &[Result<Vec<(Point, Point)>, Failure>],
) -> Failure {
    let mut shown = Vec::new();
    for ((one, look), spans) in all.iter().zip(looks).zip(seen) {
        let what = match (look, spans) {
            (Err(failure), _) => format!("could not be looked at ({})", failure.cause),
            (Ok(look), _) if !look.holds => "holds nothing to restore".to_owned(),
            (Ok(_), Err(failure)) => format!("its points can't be told ({})", failure.cause),
            (Ok(_), Ok(spans)) => match spans.iter().map(|(_, to)| to).max_by_key(|point| point.moment) {
                Some(newest) => format!("its newest point is {} of {}", newest.position, newest.moment),
                None => "has no point".to_owned(),
            },
        };
        shown.push(format!("{} {what}", one.vault));
    }
    let reason = doubt(&looks.iter().map(|look| look.as_ref().ok()).collect::<Vec<_>>());
    let cause = format!("{reason}: {}", shown.join("; "));
    let next = "look at them (`seawall timeline URL`), then name one by its URL instead of the database (`seawall restore URL …`)";
    Failure::new(Kind::Refused, "vault.unsure", database.name.clone(), cause, next)
}

fn all_away(database: &DatabaseConfig, away: &[Failure]) -> Failure {
    let reasons: Vec<String> = away.iter().map(ToString::to_string).collect();
    // One answered, and holds nothing: the database may be a new one, and only the owner knows that.
    let may_be_new = away.iter().any(|failure| failure.kind == Kind::NotFound);
    let next = match may_be_new {
        true => {
            "see to the others, then try again; a new database starts once they are left out of `vaults`, where they can be put back later"
        }
        false => "see to one of them, then try again",
    };
    Failure::new(
        Kind::Unavailable,
        "vault.all-away",
        database.name.clone(),
        format!("none of its vaults can be read that holds anything: {}", reasons.join("; ")),
        next,
    )
}

/// The numbers of the vaults to restore from, the best one first. Each has the ends of its spans; `None` for one that is away.
fn ranked(vaults: &[Option<Vec<(Point, Point)>>], when: &When) -> Vec<usize> {
    let reached = |i: &usize| vaults.get(*i).is_some_and(Option::is_some);
    let spans = |i: usize| vaults.get(i).and_then(Option::as_ref).into_iter().flatten();
    let newest = |i: usize| -> Option<Moment> {
        match when {
            When::Latest => spans(i).map(|(_, to)| to.moment).max(),
            // Within a span there are points up to the moment; the last one before it is in every vault that has the span.
            When::Moment(moment) => {
                spans(i).filter(|(from, _)| from.moment <= *moment).map(|(_, to)| to.moment.min(*moment)).max()
            }
            When::Position(position) => spans(i)
                .find(|(from, to)| (from.position.as_str()..=to.position.as_str()).contains(&position.as_str()))
                .map(|(_, to)| to.moment),
        }
    };
    let mut order: Vec<usize> = (0..vaults.len()).filter(reached).collect();
    // Of equal ones the first of the configuration.
    order.sort_by_key(|i| std::cmp::Reverse(newest(*i)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(millis: i64) -> Point {
        Point { position: format!("{millis:016x}"), moment: Moment::from_millis(millis) }
    }

    /// A process that finds its database's file missing doesn't begin anew by itself while a vault is away.
    #[test]
    fn the_way_out_of_a_new_database() {
        let vault = seawall_vault::VaultUrl::parse("/vault/app").expect("a place");
        let database = DatabaseConfig::new("app".to_owned(), "/nowhere/app.db".into(), vault);
        for (away, is_new) in [
            (vec![late(&database), empty(&database)], true),
            (vec![empty(&database), late(&database)], true),
            (vec![late(&database), late(&database)], false),
        ] {
            let failure = all_away(&database, &away);
            assert_eq!((failure.code, failure.kind), ("vault.all-away", Kind::Unavailable));
            assert_eq!(failure.next.contains("a new database"), is_new, "{}", failure.next);
        }
    }

    #[test]
    fn the_newest_is_restored_from() {
        let to = |ends: &[(i64, i64)]| Some(ends.iter().map(|(from, to)| (point(*from), point(*to))).collect());
        let (at, exactly) =
            (|millis| When::Moment(Moment::from_millis(millis)), |n: i64| When::Position(point(n).position));
        for (vaults, when, expected) in [
            (vec![to(&[(1, 5)]), to(&[(1, 5)])], When::Latest, Some(0)),
            (vec![to(&[(1, 5)]), to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![None, to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![None, None], When::Latest, None),
            (vec![to(&[]), to(&[(1, 9)])], When::Latest, Some(1)),
            (vec![to(&[]), None], When::Latest, Some(0)),
            (vec![to(&[(1, 9)]), to(&[(1, 12)])], at(7), Some(0)),
            (vec![to(&[(1, 5)]), to(&[(1, 12)])], at(7), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(1, 3)])], at(4), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(1, 3), (6, 8)])], exactly(2), Some(1)),
            (vec![to(&[(6, 9)]), to(&[(6, 8)])], exactly(7), Some(0)),
        ] {
            assert_eq!(ranked(&vaults, &when).first().copied(), expected, "{vaults:?} {when:?}");
        }
    }
}
