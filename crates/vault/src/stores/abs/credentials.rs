//! Where credentials for Azure come from: one answer, decided by settings and environment.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;

use reqsign_azure_storage::Credential;
use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain};

use super::settings::AbsSettings;
use crate::stores::cloud::reason::Reason;
use crate::{Environment, Secret};

/// The most bytes of a file with a key.
const LARGEST: u64 = 64 << 10;

/// A source of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The account's key.
    Key(Secret),
    /// A file with it.
    File(String),
    /// A shared access signature.
    Signature(Secret),
    /// The usual ways: the environment, workload and managed identities, the command line's login.
    Ambient,
}

/// The source that counts. Settings come before the environment, a signature before a key.
pub(super) fn choose(settings: &AbsSettings, environment: &Environment) -> Source {
    let variable = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(Secret::new);
    if let Some(token) = &settings.sas_token {
        return Source::Signature(token.clone());
    }
    if let Some(key) = &settings.account_key {
        return Source::Key(key.clone());
    }
    if let Some(file) = &settings.account_key_file {
        return Source::File(file.clone());
    }
    let token = ["LITESTREAM_AZURE_SAS_TOKEN", "AZURE_STORAGE_SAS_TOKEN"].into_iter().find_map(variable);
    if let Some(token) = token {
        return Source::Signature(Secret::new(token.reveal().trim_start_matches('?')));
    }
    let key = ["LITESTREAM_AZURE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"].into_iter().find_map(variable);
    key.map_or(Source::Ambient, Source::Key)
}

/// The account that settings or environment name.
pub(super) fn account(settings: &AbsSettings, environment: &Environment) -> Option<String> {
    settings.account.clone().or_else(|| environment.get("AZURE_STORAGE_ACCOUNT").map(str::to_owned))
}

/// A key in a file that another program renews.
#[derive(Debug)]
struct KeyFile {
    account: String,
    file: String,
    reason: Reason,
}

impl ProvideCredential for KeyFile {
    type Credential = Credential;

    async fn provide_credential(&self, _context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || line(&file)).await;
        let (key, reason) = match read {
            Ok(Ok(key)) if key.is_empty() => (None, Some(format!("there is no key in {}", self.file))),
            Ok(Ok(key)) => (Some(key), None),
            Ok(Err(error)) => (None, Some(format!("{}: {error}", self.file))),
            Err(error) => (None, Some(error.to_string())),
        };
        self.reason.set(reason);
        Ok(key.map(|key| Credential::with_shared_key(&self.account, &key)))
    }
}

/// A chain that reads the key from a file whenever a request needs it.
pub(super) fn of_file(account: String, file: String, reason: Reason) -> ProvideCredentialChain<Credential> {
    ProvideCredentialChain::new().push(KeyFile { account, file, reason })
}

/// The text of a small file without the line end.
pub(super) fn line(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSettings as _;

    #[test]
    fn settings_come_before_the_environment() {
        let environment: Environment =
            [("LITESTREAM_AZURE_ACCOUNT_KEY".to_owned(), "env".to_owned())].into_iter().collect();
        let signed: Environment = [("LITESTREAM_AZURE_SAS_TOKEN".to_owned(), "?sv=1".to_owned())].into_iter().collect();
        let secret = |text: &str| Secret::new(text);
        let settings = |name: &str| {
            let mut settings = AbsSettings::default();
            if !name.is_empty() {
                settings.set(name, "set").expect("a setting");
            }
            settings
        };
        for (name, environment, expected) in [
            ("", &Environment::empty(), Source::Ambient),
            ("", &environment, Source::Key(secret("env"))),
            ("", &signed, Source::Signature(secret("sv=1"))),
            ("account-key", &environment, Source::Key(secret("set"))),
            ("account-key-file", &environment, Source::File("set".to_owned())),
            ("sas-token", &environment, Source::Signature(secret("set"))),
            ("account-key", &signed, Source::Key(secret("set"))),
        ] {
            assert_eq!(choose(&settings(name), environment), expected, "{name}");
        }
    }
}
