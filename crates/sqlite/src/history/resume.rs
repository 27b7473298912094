//! Where does the history in the vault end?
//!
//! One pure question, [`resume`]: from the local record and the newest capture in the vault to the TXID after which
//! Seawall goes on, or takes a base. Whether the WAL continues from there is decided in `live`'s `continuity`.

use seawall_ltx::Txid;

use crate::identity::{Lineage, WalPosition};

/// Why a history can't be continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// There is no history yet.
    First,
    /// The vault holds less than was acknowledged, or its objects can't be restored.
    VaultBehind,
    /// An object that the newest state needs is damaged.
    Damaged,
    /// Objects of the vault don't belong together.
    Mixed,
    /// No key of this host opens an object that the newest state needs.
    Locked,
    /// The newest object has no WAL position.
    NoPosition,
    /// Another file is at the database's path.
    Replaced,
    /// A restore put another file at the database's path.
    Restored,
    /// Something other than a checkpoint has written to the database file.
    Overwritten,
    /// The database file was written while Seawall didn't hold the WAL: by a checkpoint, or by another program.
    Written,
    /// The database has another page size.
    PageSize,
    /// The WAL is gone or empty.
    WalGone,
    /// The WAL holds other frames at the place that was captured.
    WalRewound,
    /// The WAL was restarted while no read lock was held.
    WalRestarted,
}

impl Break {
    /// Whether a restore may be what broke the history: the file or its WAL is another one, and nothing is wrong with the vault.
    pub(crate) fn may_be_of_a_restore(self) -> bool {
        match self {
            Self::NoPosition
            | Self::Replaced
            | Self::Restored
            | Self::Overwritten
            | Self::Written
            | Self::PageSize
            | Self::WalGone
            | Self::WalRewound
            | Self::WalRestarted => true,
            Self::First | Self::VaultBehind | Self::Damaged | Self::Mixed | Self::Locked => false,
        }
    }

    /// The reason for people, in one sentence without a full stop.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::First => "there was no copy yet",
            Self::VaultBehind => "objects that had been acknowledged are missing from the vault",
            Self::Damaged => "an object in the vault that the newest state needs is damaged",
            Self::Mixed => "the vault holds an object of another database or another history",
            Self::Locked => "no key at hand opens an object in the vault that the newest state needs",
            Self::NoPosition => "the newest object in the vault does not say where in the WAL it ends",
            Self::Replaced => "the database file was replaced",
            Self::Restored => "the database was restored with Seawall, and goes on from the restored state",
            Self::Overwritten => {
                "another program wrote to the database file itself, as when a backup is copied into it"
            }
            Self::Written => {
                "the database file was written while Seawall was not holding the WAL: by a checkpoint of the application, or by \
                 another program, as when a backup is copied into it"
            }
            Self::PageSize => "the page size of the database changed",
            Self::WalGone => "the WAL was checkpointed and removed while Seawall was not holding it",
            Self::WalRewound => "the WAL holds other frames where the last capture ended, as after a power cut",
            Self::WalRestarted => "the WAL was checkpointed and overwritten while Seawall was not holding it",
        }
    }
}

/// The facts in the local state record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) txid: Txid,
    pub(crate) lineage: Lineage,
    pub(crate) wal: Option<WalPosition>,
}

/// The facts in the vault's newest capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The highest TXID at any level.
    pub(crate) max: Txid,
    /// Whether the state at that TXID can be restored.
    pub(crate) restorable: bool,
    /// Why that state can't be relied on, though there are objects for it by their names.
    pub(crate) spoilt: Option<Break>,
    /// The TXID of the newest capture (level 0), if there is one.
    pub(crate) log: Option<Txid>,
    /// Its lineage; `None` when another program wrote it.
    pub(crate) lineage: Option<Lineage>,
    /// Where in the WAL it ends, if it says so.
    pub(crate) wal: Option<WalPosition>,
}

/// Where the history in the vault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Go on after `txid`, if the WAL proves to continue from `wal`.
    After { txid: Txid, lineage: Option<Lineage>, wal: Option<WalPosition> },
    /// Take a base with the TXID after `txid`.
    Base { txid: Option<Txid>, why: Break },
}

/// Where does the history end? TXIDs never go backwards, whatever was lost on either side.
pub(crate) fn resume(local: Option<&Remembered>, remote: Option<&Remote>) -> Resume {
    let Some(remote) = remote else {
        return match local {
            None => Resume::Base { txid: None, why: Break::First },
            Some(local) => Resume::Base { txid: Some(local.txid), why: Break::VaultBehind },
        };
    };
    if let Some(local) = local.filter(|local| local.txid > remote.max) {
        return Resume::Base { txid: Some(local.txid), why: Break::VaultBehind };
    }
    if !remote.restorable {
        return Resume::Base { txid: Some(remote.max), why: Break::VaultBehind };
    }
    if let Some(why) = remote.spoilt {
        return Resume::Base { txid: Some(remote.max), why };
    }
    // The record's own position is as good as the object's where both speak of the same object.
    let same = local.filter(|local| local.txid == remote.max && remote.lineage == Some(local.lineage));
    let wal = same.map_or(remote.wal, |local| local.wal);
    if remote.log == Some(remote.max) && (same.is_some() || wal.is_some()) {
        return Resume::After { txid: remote.max, lineage: remote.lineage, wal };
    }
    Resume::Base { txid: Some(remote.max), why: Break::NoPosition }
}

#[cfg(test)]
mod tests {
    use seawall_ltx::wal::{Chain, Salts};

    use super::*;

    const END: Chain = Chain(7, 8);

    fn at(offset: u64, chain: Option<Chain>) -> Option<WalPosition> {
        Some(WalPosition { salts: Salts(5, 99), offset, chain })
    }

    #[test]
    fn where_the_history_ends() {
        let (ours, theirs) = (Lineage::new(1), Lineage::new(2));
        let place = at(100, Some(END)).expect("some");
        let ahead = at(200, Some(END)).expect("some");
        let local = |txid| Remembered { txid: Txid(txid), lineage: ours, wal: Some(place) };
        let remote = |max, lineage, wal| Remote {
            max: Txid(max),
            restorable: true,
            spoilt: None,
            log: Some(Txid(max)),
            lineage,
            wal,
        };
        let base = |txid: Option<u64>, why| Resume::Base { txid: txid.map(Txid), why };
        let after = |txid, lineage, wal| Resume::After { txid: Txid(txid), lineage, wal: Some(wal) };
        let cases = [
            ("nothing anywhere", None, None, base(None, Break::First)),
            ("vault emptied", Some(local(5)), None, base(Some(5), Break::VaultBehind)),
            (
                "vault cut back",
                Some(local(5)),
                Some(remote(4, Some(ours), Some(place))),
                base(Some(5), Break::VaultBehind),
            ),
            ("agreed", Some(local(5)), Some(remote(5, Some(ours), Some(place))), after(5, Some(ours), place)),
            (
                "ours, not acknowledged",
                Some(local(5)),
                Some(remote(6, Some(ours), Some(ahead))),
                after(6, Some(ours), ahead),
            ),
            ("Litestream went on", Some(local(5)), Some(remote(9, None, Some(ahead))), after(9, None, ahead)),
            (
                "another's at the same TXID",
                Some(local(5)),
                Some(remote(5, Some(theirs), Some(ahead))),
                after(5, Some(theirs), ahead),
            ),
            (
                "a chain with a gap",
                Some(local(5)),
                Some(Remote { restorable: false, ..remote(5, Some(ours), Some(place)) }),
                base(Some(5), Break::VaultBehind),
            ),
            ("state lost", None, Some(remote(9, Some(ours), Some(ahead))), after(9, Some(ours), ahead)),
            (
                "says nothing, but we remember",
                Some(Remembered { wal: None, ..local(2) }),
                Some(remote(2, Some(ours), None)),
                Resume::After { txid: Txid(2), lineage: Some(ours), wal: None },
            ),
            ("says nothing", None, Some(remote(2, None, None)), base(Some(2), Break::NoPosition)),
            (
                "a base without its capture",
                None,
                Some(Remote { log: Some(Txid(3)), ..remote(4, Some(ours), Some(place)) }),
                base(Some(4), Break::NoPosition),
            ),
        ];
        for (name, local, remote, expected) in cases {
            assert_eq!(resume(local.as_ref(), remote.as_ref()), expected, "{name}");
        }
    }
}
