//! The lease as an object of the vault. A process takes, renews and gives it back by conditional writes.

use std::time::Duration;

use bytes::Bytes;
use seawall_core::{Clock as _, Failure, Kind, Moment, SystemClock};
use seawall_vault::{Error, ObjectKey, Tag, Vault};
use tokio::time::Instant;

use super::decide::{Decision, Document, Seen, decide};

/// Its name, which is Litestream's.
const NAME: &str = "lock.json";

/// More than this is no lease.
const LARGEST: u64 = 4096;

/// How often a waiting process looks at the lease. It notices this soon that the holder gave the lease back.
const LOOK: Duration = Duration::from_millis(500);

/// How leases of a process are made.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// Who it is.
    pub(crate) owner: String,
    /// How long a lease holds without being renewed.
    pub(crate) ttl: Duration,
}

/// A lease that this process has.
#[derive(Debug)]
pub(crate) struct Lease {
    vault: Vault,
    key: ObjectKey,
    terms: Terms,
    generation: i64,
    tag: Tag,
}

/// A version that stands in the vault, and since when this process has known it.
struct Known {
    tag: Option<Tag>,
    seen: Seen,
    since: Instant,
}

impl Lease {
    /// Waits until no other process has the lease, and takes it. Calls `told` once for each process that it waits for.
    ///
    /// # Errors
    /// If the store can't replace objects under a condition, or refuses a request. A store that is away is asked again.
    pub(crate) async fn take(vault: &Vault, terms: &Terms, mut told: impl FnMut(Failure)) -> Result<Self, Failure> {
        let key = ObjectKey::new(NAME)?;
        let mut known: Option<Known> = None;
        let mut last_told = None;
        loop {
            let now = match look(vault, &key, known.take()).await {
                Ok(now) => now,
                Err(error) if error.is_retryable() => {
                    told(error.into());
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let wait = match decide(&now.seen, now.since.elapsed(), terms.ttl) {
                Decision::Wait(left) => left.min(LOOK),
                decision => match Self::write_first(vault, &key, terms, &now, decision).await? {
                    Some(lease) => return Ok(lease),
                    None => Duration::ZERO,
                },
            };
            if !wait.is_zero() && last_told.as_ref() != Some(&now.seen.owner()) {
                last_told = Some(now.seen.owner());
                told(held(vault, &now.seen));
            }
            known = Some(now);
            tokio::time::sleep(wait.max(Duration::from_millis(20))).await;
        }
    }

    /// Writes this process's first version; `None` if another process came first.
    async fn write_first(
        vault: &Vault,
        key: &ObjectKey,
        terms: &Terms,
        now: &Known,
        decision: Decision,
    ) -> Result<Option<Self>, Failure> {
        let generation = match &now.seen {
            Seen::Lease(document) => document.generation.saturating_add(1),
            _ => 1,
        };
        let body = body(terms, generation, expiry(terms.ttl))?;
        let written = match (&now.tag, decision) {
            (Some(tag), Decision::Replace) => vault.replace(key, body, tag).await.map(Some),
            _ => match vault.create(key, body, None).await {
                Ok(_) => vault.head(key).await.map(|meta| meta.and_then(|meta| meta.tag)),
                Err(error) => Err(error),
            },
        };
        match written {
            Ok(Some(tag)) => {
                Ok(Some(Self { vault: vault.clone(), key: key.clone(), terms: terms.clone(), generation, tag }))
            }
            Ok(None) | Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(None),
            Err(error) if error.is_retryable() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How often the lease is renewed.
    pub(crate) fn renewal(&self) -> Duration {
        self.terms.ttl / 3
    }

    /// Renews the lease. `Ok(false)`: another process has it.
    pub(crate) async fn renew(&mut self) -> Result<bool, Failure> {
        self.write(expiry(self.terms.ttl)).await
    }

    /// Gives the lease back, so that a waiting process gets it at once. This writes and doesn't delete: credentials
    /// without the right to delete are enough, and a late process can't delete another process's lease.
    pub(crate) async fn give_back(mut self) -> Result<bool, Failure> {
        self.write(Moment::from_millis(0)).await
    }

    async fn write(&mut self, expires_at: Moment) -> Result<bool, Failure> {
        let body = body(&self.terms, self.generation, expires_at)?;
        match self.vault.replace(&self.key, body, &self.tag).await {
            Ok(tag) => {
                self.tag = tag;
                Ok(true)
            }
            Err(Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The failure of a holder that lost the lease to another process.
    pub(crate) fn lost(&self) -> Failure {
        Failure::new(
            Kind::Conflict,
            "agent.lease-lost",
            self.vault.object(&self.key),
            "another process has taken the lease over, and protects its own database here",
            "make sure that only one is the true database; start this one again when the other has stopped",
        )
    }
}

/// Checks that the store tells versions of an object apart. Turns depend on it. Every call goes by what a probe found.
pub(crate) async fn check(vault: &Vault) -> Result<(), Failure> {
    let Some(lack) = vault.capabilities().await?.lack_of_update() else { return Ok(()) };
    Err(Failure::new(
        Kind::Refused,
        "agent.no-leases",
        vault.url(),
        format!("leases can't be relied on in this store: {lack}"),
        "leave out lease, and see to it that only one process writes here",
    ))
}

/// The lease as it is in the vault now. A version that is known already isn't read again.
async fn look(vault: &Vault, key: &ObjectKey, known: Option<Known>) -> Result<Known, Error> {
    let nothing = |since| Known { tag: None, seen: Seen::Nothing, since };
    let Some(meta) = vault.head(key).await? else { return Ok(nothing(Instant::now())) };
    if let Some(known) = known.filter(|known| known.tag.is_some() && known.tag == meta.tag) {
        return Ok(known);
    }
    // The version is read before the content. If the object changes in between, the conditional write fails, and the
    // caller looks again.
    let seen = match vault.read(key, None, LARGEST).await {
        Ok(bytes) => serde_json::from_slice(&bytes).map_or(Seen::Unknown, Seen::Lease),
        Err(Error::NotFound { .. }) => return Ok(nothing(Instant::now())),
        Err(Error::TooLarge { .. }) => Seen::Unknown,
        Err(error) => return Err(error),
    };
    Ok(Known { tag: meta.tag, seen, since: Instant::now() })
}

fn expiry(ttl: Duration) -> Moment {
    SystemClock.now().after(ttl)
}

fn body(terms: &Terms, generation: i64, expires_at: Moment) -> Result<Bytes, Failure> {
    let document = Document {
        generation,
        expires_at,
        owner: terms.owner.clone(),
        ttl_ms: u64::try_from(terms.ttl.as_millis()).unwrap_or(u64::MAX),
        nonce: fastrand::u64(..),
    };
    serde_json::to_vec(&document).map(Bytes::from).map_err(|_| crate::process::defect(NAME))
}

impl Seen {
    fn owner(&self) -> Option<String> {
        match self {
            Self::Lease(document) => Some(document.owner.clone()),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

/// The failure of a process that waits because another process has the lease.
pub(crate) fn held(vault: &Vault, seen: &Seen) -> Failure {
    let owner = seen.owner().map_or_else(|| "somebody unknown".to_owned(), |owner| format!("{owner:?}"));
    Failure::new(
        Kind::Refused,
        "agent.lease-held",
        vault.url(),
        format!("{owner} has the lease"),
        "nothing: it is taken over once that process has stopped, or is gone for as long as its lease lasts",
    )
}
