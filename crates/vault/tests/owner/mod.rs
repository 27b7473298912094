//! Keys of an owner, and names and sizes of an encrypted vault, for the tests of several kinds of encrypted vaults.

use std::path::Path;
use std::sync::Arc;

use seawall_vault::{Identities, NoPrompt, Prompt, Recipients, Secret};

/// The object that says how a vault is encrypted.
pub(crate) const MARKER: &str = "seawall/encryption.json";

/// Bytes of plaintext in each chunk but the last.
pub(crate) const CHUNK: usize = 64 << 10;

/// A key of an owner's.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) secret: Secret,
    pub(crate) public: String,
}

impl Owner {
    pub(crate) fn new() -> Self {
        let (secret, public) = Identities::generate();
        Self { secret, public }
    }
}

/// The list of these owners' public keys.
pub(crate) fn recipients(owners: &[&Owner]) -> Recipients {
    Recipients::read(owners.iter().map(|owner| &owner.public), Path::new("")).expect("recipients")
}

/// The secret keys of these owners, as from one file.
pub(crate) fn identities(owners: &[&Owner]) -> Identities {
    let text: Vec<&str> = owners.iter().map(|owner| owner.secret.reveal()).collect();
    let prompt: Arc<dyn Prompt> = Arc::new(NoPrompt);
    Identities::parse(&Secret::new(text.join("\n")), "the keys", &prompt).expect("identities")
}
