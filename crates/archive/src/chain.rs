//! The chain of a vault: one link for each set and for each retirement, numbered without gaps, each with the digest of
//! the one before it.
//!
//! A link is created only if no object has its name, so two writers can't both have a number: the loser reads the
//! winner's link and takes the next number. Two things raise an alarm: a missing link that no retirement names, and a
//! link whose digest differs from the digest that the next link holds. The chain can't show that its newest links were
//! deleted; to detect that, compare the newest number with a number that was noted elsewhere.

use std::collections::BTreeMap;

use seawall_core::{Finding, Moment};
use serde::{Deserialize, Serialize};

use crate::manifest::read_document;
use crate::{Digest, Error, Manifest, Previous, SetId};

/// A set that was deleted, or that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retired {
    /// The number of the set's link.
    pub number: u64,
    /// The set.
    pub id: SetId,
    /// The digest of the link.
    pub blake3: Digest,
    /// The retention rule that retired the set.
    pub rule: String,
}

/// The record that sets were retired. It is written before the first of their objects is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retirement {
    /// When.
    pub at: Moment,
    /// A random number: two writers never make equal links.
    pub nonce: u64,
    /// The sets.
    pub retired: Vec<Retired>,
}

/// A missing link that a user acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Its number.
    pub number: u64,
    /// Its digest, if the next link exists and holds it.
    pub blake3: Option<Digest>,
}

/// The record that a user acknowledged missing links, so that they raise no alarm any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// When.
    pub at: Moment,
    /// A random number: two writers never make equal links.
    pub nonce: u64,
    /// The links.
    pub missing: Vec<Missing>,
}

/// What a link holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// A set became whole.
    Set(Box<Manifest>),
    /// Sets were retired.
    Retirement(Retirement),
    /// A user acknowledged missing links.
    Acknowledgement(Acknowledgement),
}

/// One link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its number, from 1.
    pub number: u64,
    /// The link before it; `None` for the first, and where it is unread.
    pub previous: Option<Previous>,
    /// Whether the writer had no key that opens the link before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// What it holds.
    #[serde(flatten)]
    pub record: Record,
}

impl Link {
    /// The link of this number, from the bytes of its object.
    ///
    /// # Errors
    /// When they aren't what Seawall wrote, or those of another number.
    pub fn read(bytes: &[u8], number: u64) -> Result<Self, Error> {
        let object = format!("chain/{number:08}.json");
        let link = read_document::<Self>(bytes, &object)?;
        if link.number != number {
            return Err(Error::corrupt(&object, format!("it is the link of number {}", link.number)));
        }
        Ok(link)
    }

    /// The set that the link counts, if it is one of a set.
    pub fn set(&self) -> Option<&Manifest> {
        match &self.record {
            Record::Set(manifest) => Some(manifest),
            Record::Retirement(_) | Record::Acknowledgement(_) => None,
        }
    }
}

/// A link as it was found: with the digest of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The link.
    pub link: Link,
    /// The digest of all of its bytes.
    pub blake3: Digest,
}

/// The problems of a chain. `links` are the links that could be read, in the order of their numbers. `newest` is the
/// number of the last link's object, readable or not. `sealed` is the newest link that no key at hand opens, or 0: it may be
/// the retirement that names links before it. Each comes with the number of its link.
pub fn judge(links: &[Found], newest: u64, unreadable: &[u64], sealed: u64) -> Vec<(u64, Finding)> {
    let by_number: BTreeMap<u64, &Found> = links.iter().map(|found| (found.link.number, found)).collect();
    let retired = may_be_missing(links);
    let finding =
        |number: u64, code, cause: String| (number, Finding { code, object: format!("chain/{number:08}.json"), cause });
    let mut findings = Vec::new();
    for number in 1..=newest {
        match by_number.get(&number) {
            // The reader of the link has reported it already.
            None if unreadable.contains(&number) => {}
            None if retired.contains_key(&number) || number < sealed => {}
            None => {
                let cause = "it is missing, and no retirement names it: somebody deleted it".to_owned();
                findings.push(finding(number, "archive.missing-link", cause));
            }
            Some(found) => {
                if retired.get(&number).is_some_and(|digest| digest.is_some_and(|digest| digest != found.blake3)) {
                    let cause = "a retirement or an acknowledgement names another link of this number".to_owned();
                    findings.push(finding(number, "archive.broken-chain", cause));
                }
                if let Some(cause) = broken(found, &by_number, &retired) {
                    findings.push(finding(number, "archive.broken-chain", cause));
                }
            }
        }
    }
    findings
}

/// The links that may be missing, and their digests where they are known.
pub(crate) fn may_be_missing(links: &[Found]) -> BTreeMap<u64, Option<Digest>> {
    let mut gone = BTreeMap::new();
    for found in links {
        match &found.link.record {
            Record::Retirement(retirement) => {
                gone.extend(retirement.retired.iter().map(|set| (set.number, Some(set.blake3))));
            }
            Record::Acknowledgement(known) => {
                gone.extend(known.missing.iter().map(|missing| (missing.number, missing.blake3)));
            }
            Record::Set(_) => {}
        }
    }
    gone
}

/// The acknowledgement of `numbers`. The error is the first number whose link isn't missing, or whose absence is
/// recorded already.
pub(crate) fn acknowledge(links: &[Found], newest: u64, numbers: &[u64]) -> Result<Vec<Missing>, u64> {
    let known = may_be_missing(links);
    let missing = |number: &u64| {
        let is_there = links.iter().any(|found| found.link.number == *number);
        if *number == 0 || *number > newest || is_there || known.contains_key(number) {
            return Err(*number);
        }
        let behind = links.iter().filter_map(|found| found.link.previous).find(|before| before.number == *number);
        Ok(Missing { number: *number, blake3: behind.map(|before| before.blake3) })
    };
    numbers.iter().map(missing).collect()
}

/// Why a link doesn't continue the one before it.
fn broken(found: &Found, by_number: &BTreeMap<u64, &Found>, retired: &BTreeMap<u64, Option<Digest>>) -> Option<String> {
    let number = found.link.number;
    let before = number.checked_sub(1).filter(|before| *before > 0);
    match (found.link.previous, before) {
        (None, None) => None,
        (None, Some(_)) if found.link.unread => None,
        (Some(previous), Some(before)) if previous.number == before => {
            let known =
                by_number.get(&before).map(|found| found.blake3).or_else(|| retired.get(&before).copied().flatten());
            match known {
                Some(digest) if digest != previous.blake3 => Some("the link before it is not the one it names".into()),
                _ => None,
            }
        }
        _ => Some("it doesn't name the link before it".into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::manifest::tests::sample;

    /// A chain of `n` sets; its digests are made up.
    pub(crate) fn sets(n: u64) -> Vec<Found> {
        (1..=n).map(|number| found(number, Record::Set(Box::new(manifest(number))))).collect()
    }

    fn manifest(number: u64) -> Manifest {
        let id = SetId::new(Moment::from_millis(i64::try_from(number).expect("small") * 1_000), 1);
        Manifest { id, point: id.moment(), ..sample().0 }
    }

    pub(crate) fn digest(number: u64) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    pub(crate) fn found(number: u64, record: Record) -> Found {
        let previous = (number > 1).then(|| Previous { number: number - 1, blake3: digest(number - 1) });
        Found { link: Link { number, previous, unread: false, record }, blake3: digest(number) }
    }

    fn retirement(number: u64, gone: &[u64]) -> Found {
        let retired = |number: &u64| Retired {
            number: *number,
            id: manifest(*number).id,
            blake3: digest(*number),
            rule: "a test".into(),
        };
        let retired = gone.iter().map(retired).collect();
        found(number, Record::Retirement(Retirement { at: Moment::default(), nonce: 1, retired }))
    }

    fn codes(links: &[Found], newest: u64) -> Vec<String> {
        judge(links, newest, &[], 0)
            .into_iter()
            .map(|(_, finding)| format!("{} {}", finding.code, finding.object))
            .collect()
    }

    #[test]
    fn a_link_is_read_from_its_object_and_no_other() {
        let link = sets(2).remove(1).link;
        let bytes = crate::manifest::write_document(&link).expect("bytes");
        assert_eq!(Link::read(&bytes, 2).expect("it is link 2").set().map(|set| set.id), Some(manifest(2).id));
        assert!(Link::read(&bytes, 3).is_err() && Link::read(&bytes[1..], 2).is_err() && Link::read(b"", 2).is_err());
    }

    #[test]
    fn an_unbroken_chain_has_no_findings() {
        assert_eq!(codes(&[], 0), Vec::<String>::new());
        assert_eq!(codes(&sets(5), 5), Vec::<String>::new());
    }

    #[test]
    fn a_set_that_was_retired_may_be_missing() {
        let mut links = sets(3);
        links.push(retirement(4, &[1, 2]));
        assert_eq!(codes(&links, 4), Vec::<String>::new(), "retired, not deleted yet");
        links.drain(..2);
        assert_eq!(codes(&links, 4), Vec::<String>::new(), "deleted");
    }

    #[test]
    fn a_set_that_is_missing_without_a_retirement_is_an_alarm() {
        let mut links = sets(4);
        links.remove(1);
        assert_eq!(codes(&links, 4), ["archive.missing-link chain/00000002.json"]);
        assert_eq!(judge(&links, 4, &[2], 0), Vec::new(), "unreadable is another finding");
    }

    #[test]
    fn what_no_key_opens_may_explain_what_is_missing_before_it_and_nothing_behind() {
        let mut links = sets(6);
        links.retain(|found| ![2, 3, 5].contains(&found.link.number));
        let missing = |sealed| judge(&links, 6, &[3], sealed).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(missing(0), [2, 5]);
        assert_eq!(missing(3), [5]);
    }

    #[test]
    fn a_writer_that_cannot_read_the_link_before_says_so() {
        let mut links = sets(3);
        links[2].link.previous = None;
        assert_eq!(codes(&links, 3), ["archive.broken-chain chain/00000003.json"]);
        links[2].link.unread = true;
        assert_eq!(codes(&links, 3), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_can_be_acknowledged_and_nothing_else() {
        let mut links = sets(7);
        links.retain(|found| ![2, 4, 5].contains(&found.link.number));
        for (numbers, refused) in [(&[1][..], 1), (&[2, 8], 8), (&[0], 0)] {
            assert_eq!(acknowledge(&links, 7, numbers), Err(refused));
        }
        let missing = acknowledge(&links, 7, &[2, 4, 5]).expect("they are missing");
        let digests: Vec<Option<Digest>> = missing.iter().map(|one| one.blake3).collect();
        assert_eq!(digests, [Some(digest(2)), None, Some(digest(5))], "no backup after 4 is left that says its digest");
        let known = |missing| Record::Acknowledgement(Acknowledgement { at: Moment::default(), nonce: 1, missing });
        links.push(found(8, known(missing)));
        assert_eq!(codes(&links, 8), Vec::<String>::new());
        assert_eq!(acknowledge(&links, 8, &[2]), Err(2), "once is enough");
        // One that comes back counts again, if it is the one that was missing.
        links.insert(1, sets(2).remove(1));
        assert_eq!(codes(&links, 8), Vec::<String>::new());
        links[1].blake3 = Digest::of(b"another");
        assert_eq!(codes(&links, 8)[0], "archive.broken-chain chain/00000002.json");
    }

    #[test]
    fn an_exchanged_link_is_an_alarm() {
        let mut links = sets(3);
        links[1].blake3 = Digest::of(b"another");
        assert_eq!(codes(&links, 3), ["archive.broken-chain chain/00000003.json"]);
        let mut links = sets(3);
        links.push(retirement(4, &[1]));
        links[0].blake3 = Digest::of(b"another");
        assert_eq!(
            codes(&links, 4),
            ["archive.broken-chain chain/00000001.json", "archive.broken-chain chain/00000002.json"]
        );
    }

    #[test]
    fn a_link_says_what_stands_before_it() {
        let mut links = sets(3);
        links[0].link.previous = Some(Previous { number: 0, blake3: digest(0) });
        links[2].link.previous = None;
        assert_eq!(
            codes(&links, 3),
            ["archive.broken-chain chain/00000001.json", "archive.broken-chain chain/00000003.json"]
        );
    }
}
