//! Where credentials for Azure come from: one answer, decided by settings and environment.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;

use super::settings::AbsSettings;
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

/// The key that is in a file now, which another program may renew.
///
/// # Errors
/// Why there is none.
pub(super) async fn key_of(file: &str) -> Result<Secret, String> {
    let named = file.to_owned();
    match tokio::task::spawn_blocking(move || line(&named)).await {
        Ok(Ok(key)) if key.is_empty() => Err(format!("there is no key in {file}")),
        Ok(Ok(key)) => Ok(Secret::new(key)),
        Ok(Err(error)) => Err(format!("{file}: {error}")),
        Err(error) => Err(error.to_string()),
    }
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
