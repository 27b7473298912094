//! What can be wrong with a vault that is encrypted, or should be: each fault has its own code, cause and next step.

use seawall_core::{Failure, Kind};

/// The kinds of faults. Each is a decision for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The vault is encrypted, and nothing says so here.
    Encrypted,
    /// The vault is to be encrypted, and holds objects that aren't.
    NotEncrypted,
    /// The vault is encrypted for other recipients.
    Recipients,
    /// The object that says how the vault is encrypted can't be read.
    Marker,
    /// No key at hand opens the object.
    NoKey,
    /// An object isn't encrypted.
    Plaintext,
    /// An object was encrypted under another name.
    Exchanged,
    /// An object of another vault.
    OtherVault,
    /// An age file that no known writer of this vault sealed.
    Foreign,
    /// An object ends before it should.
    Cut,
    /// An object's bytes were changed.
    Changed,
    /// A key of this host can't be read or written.
    HostKeys,
    /// A recipient or an identity is wrong.
    Keys,
    /// A recipient of the vault would go that wasn't named.
    Goes,
    /// The store can't replace an object on the condition that it is unchanged.
    NoSwap,
}

impl Fault {
    /// Whether it is about one object's content, and not about the vault or this host.
    pub fn is_of_object(self) -> bool {
        use Fault::{Changed, Cut, Exchanged, Foreign, NoKey, OtherVault, Plaintext};
        matches!(self, NoKey | Plaintext | Exchanged | OtherVault | Foreign | Cut | Changed)
    }

    /// What the fault says to a user.
    pub(crate) fn failure(self, object: String, cause: String) -> Failure {
        const LOOK: &str = "run `seawall verify` on the vault, and find out who writes to it: this was no writer of it";
        const DAMAGED: &str = "run `seawall verify` on the vault to see what else is damaged";
        let (kind, code, next) = match self {
            Self::Encrypted => (
                Kind::Usage,
                "vault.encrypted",
                "to read, give --identity FILE (or SEAWALL_IDENTITY_FILE); to write, name the same recipients with \
                 --recipient, or under `encryption` in the configuration",
            ),
            Self::NotEncrypted => (
                Kind::Usage,
                "vault.not-encrypted",
                "take a new place for the encrypted vault. If this vault is to stay as it is, leave out `encryption`, --recipient, \
                 --identity and SEAWALL_IDENTITY_FILE. If somebody deleted that object, put it back, or read the vault as it was \
                 with --as-stored-at",
            ),
            Self::Recipients => (
                Kind::Usage,
                "vault.recipients",
                "name the vault's recipients with --recipient or under `encryption`; `seawall vault rekey` gives the vault \
                 others, and `seawall copy --recipient` makes a vault for others",
            ),
            Self::Marker => (
                Kind::Corrupt,
                "vault.encryption",
                "put the object back as it was. If the bucket keeps versions, read the vault as it was with --as-stored-at. Without \
                 the object, each other one can still be opened with `age -d`",
            ),
            Self::NoKey => (
                Kind::Denied,
                "vault.no-key",
                "give the identity of a recipient for whom it was written: --identity FILE, or SEAWALL_IDENTITY_FILE",
            ),
            Self::Plaintext => (Kind::Corrupt, "vault.plaintext", LOOK),
            Self::Exchanged => (Kind::Corrupt, "vault.exchanged", LOOK),
            Self::OtherVault => (Kind::Corrupt, "vault.other", LOOK),
            Self::Foreign => (Kind::Corrupt, "vault.foreign", LOOK),
            Self::Cut => (Kind::Corrupt, "vault.cut", DAMAGED),
            Self::Changed => (Kind::Corrupt, "vault.altered", DAMAGED),
            Self::HostKeys => {
                (Kind::Unavailable, "vault.host-keys", "see that the folder can be read and written by this user only")
            }
            Self::Goes => (
                Kind::Refused,
                "vault.recipient-goes",
                "name each recipient that goes with --remove, and each that stays with --recipient. If one is unknown to \
                 you, somebody else wrote it into the list of the vault: find out who can write there",
            ),
            Self::NoSwap => (
                Kind::Refused,
                "vault.no-swap",
                "copy the vault to another place, encrypted for the new list: `seawall copy FROM TO --recipient KEY \
                 --identity FILE`. Without --rewrite, this vault gets the new list for new objects",
            ),
            Self::Keys => (Kind::Usage, "vault.keys", "check what `age-keygen -y` says of the key"),
        };
        Failure::new(kind, code, object, cause, next)
    }
}
