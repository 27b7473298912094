//! Asks for passphrases at the terminal, not at the standard input, which may be something else.

use seawall_vault::{Prompt, Secret};

use crate::output::complain;

/// The terminal of this process, if it has one.
#[derive(Debug)]
pub(crate) struct Terminal;

impl Prompt for Terminal {
    fn passphrase(&self, of: &str) -> Option<Secret> {
        rpassword::prompt_password(format!("passphrase of {of}: ")).ok().map(Secret::new)
    }

    fn show(&self, message: &str) {
        complain(&format!("{message}\n"));
    }
}
