//! Looks at many things in few places, several at once. A place that is away is asked for few of them: each request to it takes until
//! its retries end.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use seawall_agent::VaultUrl;
use seawall_core::{Failure, Kind};

/// Things that are looked at at once.
const AT_ONCE: usize = 16;

/// The place of a vault's store: what is away as a whole. A server or a bucket with its settings; a folder is a place of its own.
pub(in crate::commands) fn place(url: &VaultUrl) -> String {
    of_text(&url.to_string())
}

fn of_text(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| *scheme != "file") else {
        return url.to_owned();
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = path.split('/').next().unwrap_or_default();
    format!("{scheme}://{authority}?{query}")
}

/// Places that are away, each with the failure that told it.
pub(in crate::commands) type Away = BTreeMap<String, Failure>;

/// How many items of a place show whether it is away: one of them may be slow by itself.
const SHOW: usize = 2;

/// The answer for each item, in their order. A place that is `away` isn't asked, and its failure is the answer. The first items of a
/// place show whether it is away.
pub(in crate::commands) async fn each<'a, I, T, F>(
    items: &'a [I],
    place: impl Fn(&I) -> String,
    away: &mut Away,
    look: impl Fn(&'a I) -> F,
) -> Vec<Result<T, Failure>>
where
    F: Future<Output = Result<T, Failure>>,
{
    let places: Vec<String> = items.iter().map(place).collect();
    let all = |numbers: Vec<usize>| {
        let look = |at: usize| {
            let answer = look(&items[at]);
            async move { (at, answer.await) }
        };
        stream::iter(numbers).map(look).buffer_unordered(AT_ONCE).collect::<Vec<_>>()
    };
    let mut firsts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, place) in places.iter().enumerate().filter(|(_, place)| !away.contains_key(*place)) {
        let firsts = firsts.entry(place).or_default();
        if firsts.len() < SHOW {
            firsts.push(at);
        }
    }
    // Other failures than the store's are those of one database.
    let is_of_store = |failure: &&Failure| failure.kind == Kind::Unavailable && failure.code.starts_with("vault.");
    let mut answers: BTreeMap<usize, Result<T, Failure>> =
        all(firsts.values().flatten().copied().collect()).await.into_iter().collect();
    for (place, firsts) in firsts {
        let failures = firsts.iter().map(|at| answers.get(at)?.as_ref().err().filter(is_of_store));
        // Each of them failed.
        if let Some(failure) = failures.collect::<Option<Vec<_>>>().and_then(|all| all.first().copied()) {
            away.insert(place.to_owned(), failure.clone());
        }
    }
    let others = (0..items.len()).filter(|at| !answers.contains_key(at));
    let (spared, asked): (Vec<usize>, Vec<usize>) = others.partition(|at| away.contains_key(&places[*at]));
    answers.extend(all(asked).await);
    answers.extend(spared.into_iter().filter_map(|at| Some((at, Err(away.get(&places[at])?.clone())))));
    answers.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn what_is_away_as_a_whole() {
        for (url, expected) in [
            ("s3://bucket/a/b", "s3://bucket?"),
            ("s3://bucket/a?endpoint=http://h:1&region=x", "s3://bucket?endpoint=http://h:1&region=x"),
            ("sftp://me@host:22/a", "sftp://me@host:22?"),
            ("file:///a/b", "file:///a/b"),
            ("/a/b", "/a/b"),
        ] {
            assert_eq!(of_text(url), expected);
        }
    }

    #[tokio::test]
    async fn a_place_that_is_away_is_hardly_asked_and_others_at_the_same_time() {
        let of = ["away", "here", "away", "denied", "here", "denied", "away", "slow", "slow", "slow"];
        let items: Vec<(&str, u32)> = of.into_iter().zip(1..).collect();
        let (asked, now, most) = (RefCell::new(Vec::new()), Cell::new(0), Cell::new(0));
        let look = |(place, number): &(&'static str, u32)| {
            let (place, number) = (*place, *number);
            let (asked, now, most) = (&asked, &now, &most);
            async move {
                asked.borrow_mut().push(number);
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
                let failure = |kind| Err(Failure::new(kind, "vault.x", place, "c", "d"));
                match (place, number) {
                    // One item of a place that answers for the others.
                    ("away", _) | ("slow", 8) => failure(Kind::Unavailable),
                    ("denied", _) => failure(Kind::Denied),
                    _ => Ok(number),
                }
            }
        };
        let mut away = Away::new();
        let answers = each(&items, |(place, _)| (*place).to_owned(), &mut away, look).await;
        let told: Vec<_> = answers.into_iter().map(|answer| answer.map_err(|failure| failure.object)).collect();
        let no = |place: &str| Err(place.to_owned());
        let (away_, denied) = (|| no("away"), || no("denied"));
        assert_eq!(told, [away_(), Ok(2), away_(), denied(), Ok(5), denied(), away_(), no("slow"), Ok(9), Ok(10)]);
        asked.borrow_mut().sort_unstable();
        assert_eq!((asked.take(), most.get()), (vec![1, 2, 3, 4, 5, 6, 8, 9, 10], 8));
        assert_eq!(away.keys().collect::<Vec<_>>(), ["away"]);
        // What is known to be away isn't asked again.
        each(&items, |(place, _)| (*place).to_owned(), &mut away, look).await;
        asked.borrow_mut().sort_unstable();
        assert_eq!(asked.take(), [2, 4, 5, 6, 8, 9, 10]);
    }
}
