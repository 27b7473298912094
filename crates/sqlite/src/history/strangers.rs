//! Judges objects of vaults that don't agree (`seawall_vault::several`): which are of this database's history.
//!
//! The facts are those of every start: header and end of an object, its lineage, and whether it continues the capture before it
//! (`belonging`). Names prove nothing: every database begins with the same ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::{self, StreamExt as _};
use seawall_ltx::Txid;
use seawall_vault::several::{Judge, Question, Stranger};
use seawall_vault::{Error as VaultError, ObjectKey, Vault};

use crate::belonging::{Bond, Facts, Why};
use crate::error::Error;
use crate::fetch::Fetched;
use crate::headers::{is_locked, read_whole_header, tells_nothing};
use crate::heads::Heads;
use crate::holes;
use crate::identity::Lineage;
use crate::layout::{Layout, Level, Stored, file_key, parse_key};
use crate::prove::{Strength, examine};
use crate::survey;
use crate::together::{bond, facts_of, helper};

/// The most complete copies, and the most of the newest captures, that tell which lineages a vault has.
const TELLING: usize = 64;

/// Headers that are read at a time.
const AT_ONCE: usize = 8;

/// The judge of SQLite's replicas.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// The capture that was copied last to each vault.
    copied: Mutex<BTreeMap<String, Facts>>,
}

/// The judge of SQLite's replicas in several vaults.
pub fn judge() -> Arc<dyn Judge> {
    Arc::new(Strangers::default())
}

/// What the history in a vault is known by.
struct Known {
    files: Vec<Stored>,
    lineages: BTreeSet<Lineage>,
    /// The oldest TXID that it can restore.
    oldest: Option<Txid>,
    newest: Option<Txid>,
    /// Whether another program wrote some of it: its objects name no history.
    nameless: bool,
    /// Lineages that began in the suspect behind a point of this history.
    continued: Option<BTreeSet<Lineage>>,
}

impl Strangers {
    async fn first_of(&self, question: &Question<'_>) -> Result<Option<Stranger>, Error> {
        let (suspect, sound) = (question.suspect, question.sound);
        let mut known = None;
        for key in question.names {
            let Some(file) = stored(suspect, key).await? else { continue };
            let facts = match whole(suspect, &file).await? {
                Looked::Facts(facts) => *facts,
                Looked::Damaged(why) => return Ok(Some(Stranger { key: key.clone(), why })),
                Looked::Nothing => continue,
            };
            let known = match &mut known {
                Some(known) => known,
                None => known.insert(known_of(sound).await?),
            };
            if let Some(why) = self.why(question, known, &file, &facts).await? {
                return Ok(Some(Stranger { key: key.clone(), why }));
            }
        }
        Ok(None)
    }

    /// Why a sound object isn't of the history of the other vault.
    async fn why(
        &self,
        question: &Question<'_>,
        known: &mut Known,
        file: &Stored,
        facts: &Facts,
    ) -> Result<Option<String>, Error> {
        let old = question.older_stay && known.oldest.is_some_and(|oldest| file.max < oldest);
        if old || known.lineages.is_empty() && !known.nameless {
            return Ok(None);
        }
        let begun = async || -> Result<bool, Error> {
            let hole = holes::at(question.suspect, facts.beginning()).await?;
            Ok(!question.recorded && hole.is_some_and(|hole| Some(hole.lineage()) == facts.lineage))
        };
        let belongs = match facts.lineage {
            Some(lineage) if known.lineages.contains(&lineage) => true,
            Some(lineage) => known.is_continued(question, lineage).await? || begun().await?,
            None => known.nameless,
        };
        if !belongs {
            return Ok(Some(Why::Lineage.reason().to_owned()));
        }
        let is_newer = known.newest.is_none_or(|newest| newest < file.max);
        match question.newer.decides(is_newer) {
            Some(true) => {
                let why = "it is newer than everything that this process acknowledged, and no other vault has it";
                return Ok(Some(why.to_owned()));
            }
            Some(false) => return Ok(None),
            None => {}
        }
        let Some(before) = capture_before(question.sound, file).await? else { return Ok(None) };
        Ok(match bond(question.sound, &before, facts).await? {
            Bond::Stranger(why) => Some(why.reason().to_owned()),
            Bond::Proved | Bond::Unknown(_) => None,
        })
    }

    async fn unfit(&self, from: &Vault, to: &Vault, key: &ObjectKey) -> Result<Option<Stranger>, Error> {
        let stranger = |why| Some(Stranger { key: key.clone(), why });
        let Some(file) = stored(from, key).await? else { return Ok(None) };
        let facts = match whole(from, &file).await? {
            Looked::Facts(facts) => *facts,
            Looked::Damaged(why) => return Ok(stranger(why)),
            Looked::Nothing => return Ok(None),
        };
        if file.level != Level::LOG {
            return Ok(None);
        }
        let last = self.copied().get(to.url()).copied().filter(|last| last.file.max < file.min);
        let before = match last {
            Some(last) => Some(last),
            None => capture_before(to, &file).await?,
        };
        if let Some(before) = before
            && let Bond::Stranger(why) = bond(from, &before, &facts).await?
        {
            return Ok(stranger(why.reason().to_owned()));
        }
        self.copied().insert(to.url().to_owned(), facts);
        Ok(None)
    }

    fn copied(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Facts>> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Whether a lineage began in the suspect behind a point of this history: another host restored it there and went on, while this
    /// vault was away. The record of the hole names the point. A stranger's record names a point of another history.
    async fn is_continued(&mut self, question: &Question<'_>, lineage: Lineage) -> Result<bool, Error> {
        if let Some(continued) = &self.continued {
            return Ok(continued.contains(&lineage));
        }
        let mut continued = BTreeSet::new();
        // A damaged record tells nothing here; a restore reports it.
        let holes = holes::list(question.suspect).await.unwrap_or_default();
        let suspects = if holes.is_empty() { Vec::new() } else { survey::list(question.suspect).await? };
        for hole in &holes {
            let Some(from) = &hole.from else { continue };
            let Ok(txid) = from.position.parse::<Txid>() else { continue };
            let ends = |files: &[Stored]| files.iter().find(|file| file.max == txid).copied();
            let is_point = |facts: &Facts| facts.moment == from.moment.as_millis();
            let here = match ends(&self.files) {
                Some(file) => helper(&Heads::of(question.sound), &file).await?.is_some_and(|facts| is_point(&facts)),
                None => false,
            };
            // Behind a second break of that host the point is one of its own history.
            let there = match ends(&suspects).filter(|_| !here) {
                Some(file) => helper(&Heads::of(question.suspect), &file).await?.is_some_and(|facts| {
                    is_point(&facts) && facts.lineage.is_some_and(|lineage| continued.contains(&lineage))
                }),
                None => false,
            };
            if here || there {
                continued.insert(hole.lineage());
            }
        }
        let is_continued = continued.contains(&lineage);
        self.continued = Some(continued);
        Ok(is_continued)
    }
}

/// What a look at an object showed.
enum Looked {
    Facts(Box<Facts>),
    /// It isn't what its name says.
    Damaged(String),
    /// It is gone, or no key at hand opens it.
    Nothing,
}

async fn whole(vault: &Vault, file: &Stored) -> Result<Looked, Error> {
    let looked = async {
        read_whole_header(vault, file).await?;
        facts_of(&Heads::of(vault), file).await
    };
    match looked.await {
        Ok(facts) => Ok(Looked::Facts(Box::new(facts))),
        Err(Error::Vault(VaultError::NotFound { .. })) => Ok(Looked::Nothing),
        Err(error) if is_locked(&error) => Ok(Looked::Nothing),
        Err(error) if tells_nothing(&error) => {
            Ok(Looked::Damaged(format!("it isn't an LTX file of its name: {error}")))
        }
        Err(error) => Err(error),
    }
}

/// The file of a name, with its size; `None` for another object.
async fn stored(vault: &Vault, key: &ObjectKey) -> Result<Option<Stored>, Error> {
    let layout = Layout::of(vault);
    if parse_key(layout, key.as_str(), 0).is_none() {
        return Ok(None);
    }
    Ok(vault.head(key).await?.and_then(|meta| parse_key(layout, key.as_str(), meta.size)))
}

/// The capture right before a capture, if the vault has a sound one.
async fn capture_before(vault: &Vault, file: &Stored) -> Result<Option<Facts>, Error> {
    let Some(txid) = file.min.0.checked_sub(1).filter(|txid| *txid > 0 && file.level == Level::LOG).map(Txid) else {
        return Ok(None);
    };
    match stored(vault, &file_key(Layout::of(vault), Level::LOG, txid, txid)).await? {
        Some(before) => helper(&Heads::of(vault), &before).await,
        None => Ok(None),
    }
}

/// What is known of the history in a vault: by its complete copies, its newest captures, and its recorded holes.
async fn known_of(vault: &Vault) -> Result<Known, Error> {
    let files = survey::list(vault).await?;
    let newest_of = |level| {
        let mut files: Vec<Stored> = files.iter().filter(|file| file.level == level).copied().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.max));
        files
    };
    let telling =
        newest_of(Level::BASE).into_iter().take(TELLING).chain(newest_of(Level::LOG).into_iter().take(TELLING));
    let looks: Vec<_> = telling.map(|file| async move { (file, whole(vault, &file).await) }).collect();
    let mut looks = stream::iter(looks).buffered(AT_ONCE);
    let oldest = files.iter().filter(|file| file.min.0 == 1).map(|file| file.max).min();
    let newest = files.iter().map(|file| file.max).max();
    let mut known = Known { files, lineages: BTreeSet::new(), oldest, newest, nameless: false, continued: None };
    while let Some((_, looked)) = looks.next().await {
        let Looked::Facts(facts) = looked? else { continue };
        match facts.lineage {
            Some(lineage) => drop(known.lineages.insert(lineage)),
            None => known.nameless = true,
        }
    }
    // A damaged record tells nothing here; a restore reports it.
    if let Ok(holes) = holes::list(vault).await {
        known.lineages.extend(holes.iter().map(holes::HoleRecord::lineage));
    }
    Ok(known)
}

#[async_trait]
impl Judge for Strangers {
    async fn stranger(&self, question: Question<'_>) -> Result<Option<Stranger>, VaultError> {
        self.first_of(&question).await.map_err(told)
    }

    async fn misfit(&self, from: &Vault, to: &Vault, key: &ObjectKey) -> Result<Option<Stranger>, VaultError> {
        self.unfit(from, to, key).await.map_err(told)
    }

    async fn sound(&self, vault: &Vault, key: &ObjectKey) -> Result<bool, VaultError> {
        let Some(file) = stored(vault, key).await.map_err(told)? else { return Ok(true) };
        match examine(vault, Fetched::streamed(file), 1, Strength::Format).await {
            Ok(_) => Ok(true),
            Err(error) if tells_nothing(&error) => Ok(false),
            Err(error) => Err(told(error)),
        }
    }
}

/// The vault's own error, or one that says what couldn't be judged.
fn told(error: Error) -> VaultError {
    match error {
        Error::Vault(error) => error,
        error => VaultError::Corrupt { object: String::new(), cause: error.to_string() },
    }
}
