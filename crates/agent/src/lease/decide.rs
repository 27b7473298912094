//! May this process have the lease now?
//!
//! A pure function decides, from two facts: the lease in the vault, and for how long this process has seen it
//! unchanged. Only this process's own clock counts. The end that the holder wrote into the lease is for people to read.

use std::time::Duration;

use seawall_core::Moment;
use serde::{Deserialize, Serialize};

/// The longest time that another process's lease is respected without a renewal, whatever the lease says.
const LONGEST: Duration = Duration::from_secs(3600);

/// The object `lock.json`. The first three fields are those of Litestream's library; docs/formats.md has all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// How often the lease has changed hands.
    pub(crate) generation: i64,
    /// Until when it holds, by the clock of its holder. In the year 1970 or before it was given back.
    pub(crate) expires_at: Moment,
    /// Who has it: host and process id.
    pub(crate) owner: String,
    /// For how long it holds without being renewed.
    #[serde(default)]
    pub(crate) ttl_ms: u64,
    /// A random number, new in each version, by which a process recognises a version that it wrote.
    #[serde(default)]
    pub(crate) nonce: u64,
}

/// The lease object as it is in the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There is no object.
    Nothing,
    /// A lease.
    Lease(Document),
    /// An object that can't be understood.
    Unknown,
}

/// The next step of a process that wants the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// No process has the lease: create it.
    Create,
    /// The lease was given back, or its holder is gone: replace exactly this version.
    Replace,
    /// Another process has the lease: look again, at the latest after this time.
    Wait(Duration),
}

/// Decides. This process has seen the same version for `unchanged`, and its own lease would last for `ttl`.
pub(crate) fn decide(seen: &Seen, unchanged: Duration, ttl: Duration) -> Decision {
    let lasts = match seen {
        Seen::Nothing => return Decision::Create,
        Seen::Lease(document) if document.expires_at <= Moment::from_millis(0) => return Decision::Replace,
        Seen::Lease(Document { ttl_ms: 0, .. }) | Seen::Unknown => ttl,
        Seen::Lease(document) => Duration::from_millis(document.ttl_ms).min(LONGEST),
    };
    match lasts.checked_sub(unchanged) {
        None | Some(Duration::ZERO) => Decision::Replace,
        Some(left) => Decision::Wait(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn lease(expires_at: i64, ttl_ms: u64) -> Seen {
        let expires_at = Moment::from_millis(expires_at);
        Seen::Lease(Document { generation: 3, expires_at, owner: "a:1".into(), ttl_ms, nonce: 7 })
    }

    #[test]
    fn who_may_have_it() {
        let (now, past, future) = (1_800_000_000_000, 1_000_000_000_000, 3_000_000_000_000);
        let seconds = Duration::from_secs;
        for (seen, unchanged, decision) in [
            (Seen::Nothing, 0, Decision::Create),
            (lease(0, 30_000), 0, Decision::Replace),
            (lease(-62_135_596_800_000, 0), 0, Decision::Replace),
            (lease(now, 30_000), 0, Decision::Wait(seconds(30))),
            (lease(now, 30_000), 29, Decision::Wait(seconds(1))),
            (lease(now, 30_000), 30, Decision::Replace),
            // Clocks that are wrong by decades change nothing.
            (lease(past, 30_000), 29, Decision::Wait(seconds(1))),
            (lease(future, 30_000), 30, Decision::Replace),
            // Its own time counts, and not for ever; without one ours does.
            (lease(now, 300_000), 31, Decision::Wait(seconds(269))),
            (lease(now, u64::MAX), 3600, Decision::Replace),
            (lease(now, 0), 29, Decision::Wait(seconds(1))),
            (lease(now, 0), 31, Decision::Replace),
            (Seen::Unknown, 0, Decision::Wait(seconds(30))),
            (Seen::Unknown, 30, Decision::Replace),
        ] {
            assert_eq!(decide(&seen, seconds(unchanged), TTL), decision, "{seen:?} for {unchanged} s");
        }
    }

    /// As Litestream's library writes one, and as it reads ours.
    #[test]
    fn litestreams_own_is_understood() {
        let theirs = r#"{"generation":2,"expires_at":"2026-11-22T10:00:00.123456789Z","owner":"web:42"}"#;
        let read: Document = serde_json::from_str(theirs).expect("a lease");
        assert_eq!((read.generation, read.owner.as_str(), read.ttl_ms), (2, "web:42", 0));
        let given_back = r#"{"generation":2,"expires_at":"0001-01-01T00:00:00Z","owner":"web:42"}"#;
        let read: Document = serde_json::from_str(given_back).expect("a lease");
        assert_eq!(decide(&Seen::Lease(read), Duration::ZERO, TTL), Decision::Replace);
        let Seen::Lease(ours) = lease(0, 30_000) else { return };
        let text = serde_json::to_string(&ours).expect("JSON");
        assert!(text.starts_with(r#"{"generation":3,"expires_at":"1970-01-01T00:00:00.000Z","owner":"a:1""#), "{text}");
    }
}
