//! What are databases of a proof called, and how are they known again? Pure.
//!
//! A proof that was killed leaves its databases behind. The next proof on that server removes them, and a backup of the
//! whole server leaves them out. Their names alone tell: each ends in a digest of what comes before it, so that no database
//! that a person has named is taken for one.

use crate::Digest;

/// What the names begin with.
const PREFIX: &str = "seawall_proof_";

/// What the name of a database ends with that isn't whole yet, and of one that others are compared with.
const ENDS: [&str; 3] = ["", "_unfinished", "_control"];

/// The names of the databases of one proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProofName {
    /// The number that the proof has drawn.
    pub nonce: u32,
}

impl ProofName {
    /// The names of the proof that has drawn this number.
    pub fn new(nonce: u32) -> Self {
        Self { nonce }
    }

    /// The database that was restored.
    pub fn whole(self) -> String {
        let begins = format!("{PREFIX}{:08x}", self.nonce);
        let digest = Digest::of(begins.as_bytes()).to_string();
        format!("{begins}_{}", &digest[..8])
    }

    /// The database that PostgreSQL's own tool made.
    pub fn control(self) -> String {
        self.whole() + ENDS[2]
    }

    /// All of them.
    pub fn all(self) -> [String; 3] {
        ENDS.map(|end| self.whole() + end)
    }

    /// The proof that has a database of this name.
    pub fn of(name: &str) -> Option<Self> {
        let digits = name.strip_prefix(PREFIX)?.get(..8)?;
        let proof = Self { nonce: u32::from_str_radix(digits, 16).ok()? };
        proof.all().contains(&name.to_owned()).then_some(proof)
    }

    /// What the database `name` is called until it is whole, if it is one of a proof.
    pub fn unfinished(name: &str) -> Option<String> {
        Self::of(name).map(|proof| proof.whole() + ENDS[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_of_proofs_are_known_by_their_names_and_no_others() {
        let proof = ProofName::new(0x12ab);
        let [whole, unfinished, control] = proof.all();
        assert!(whole.starts_with("seawall_proof_000012ab_"), "{whole}");
        assert_eq!((proof.control(), ProofName::unfinished(&whole)), (control.clone(), Some(unfinished.clone())));
        for name in [&whole, &unfinished, &control] {
            assert_eq!(ProofName::of(name), Some(proof), "{name}");
            assert!(name.len() < 64);
        }
        for name in
            ["seawall_proof_000012ab", "seawall_proof_000012ab_00000000", "seawall_proof_", "seawall_proof_é", "shop"]
        {
            assert_eq!(ProofName::of(name), None, "{name}");
            assert_eq!(ProofName::unfinished(name), None, "{name}");
        }
        assert_eq!(ProofName::of(&format!("{whole}_copy")), None);
        assert_eq!(ProofName::of(&whole.replace("12ab", "12AB")), None);
    }
}
