//! Who asks: explicit keys, keys in files, the environment that the caller hands in, then the usual AWS ways.
//!
//! What is in files is read again while it is in use, so that keys can be renewed without a restart.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqsign_aws_v4::{Credential, DefaultCredentialProvider, ProfileCredentialProvider};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain};

use super::settings::S3Settings;
use crate::{Environment, Secret};

/// How long keys from files are used before the next request reads them again: 5 s, because the signer renews two minutes
/// before the end.
const FRESH: Duration = Duration::from_secs(125);

/// Where credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Given as they are.
    Keys {
        /// The key's id.
        id: Secret,
        /// The key.
        key: Secret,
        /// The token of temporary keys.
        token: Option<Secret>,
    },
    /// In two files.
    Files(KeyFiles),
    /// Profile files, web identity, container and instance roles.
    Ambient,
}

/// The first source that is complete.
pub(super) fn choose(settings: &S3Settings, environment: &Environment) -> Source {
    if let (Some(id), Some(key)) = (&settings.access_key_id, &settings.secret_access_key) {
        return Source::Keys { id: id.clone(), key: key.clone(), token: settings.session_token.clone() };
    }
    if let (Some(id), Some(key)) = (&settings.access_key_id_file, &settings.secret_access_key_file) {
        return Source::Files(KeyFiles { id: id.clone(), key: key.clone() });
    }
    // A profile that is asked for by name is not overruled by what happens to be in the environment.
    if settings.profile.is_some() {
        return Source::Ambient;
    }
    let variables = |id: &str, key: &str, token: Option<&str>| {
        let secret = |name: &str| environment.get(name).map(Secret::new);
        Some(Source::Keys { id: secret(id)?, key: secret(key)?, token: token.and_then(secret) })
    };
    variables("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", Some("AWS_SESSION_TOKEN"))
        .or_else(|| variables("LITESTREAM_ACCESS_KEY_ID", "LITESTREAM_SECRET_ACCESS_KEY", None))
        .unwrap_or(Source::Ambient)
}

/// Keys in files that someone else renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyFiles {
    id: String,
    key: String,
}

impl ProvideCredential for KeyFiles {
    type Credential = Credential;

    async fn provide_credential(&self, _context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let (id, key) = (self.id.clone(), self.key.clone());
        let read = tokio::task::spawn_blocking(move || Ok((line(&id)?, line(&key)?))).await;
        let unreadable =
            |cause: String| reqsign_core::Error::credential_invalid(format!("a key file can't be read: {cause}"));
        let (access_key_id, secret_access_key) = match read {
            Ok(Ok(pair)) => pair,
            Ok(Err(error)) => return Err(unreadable(std::io::Error::to_string(&error))),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let expires_in = Some(Timestamp::now() + FRESH);
        Ok(Some(Credential { access_key_id, secret_access_key, session_token: None, expires_in }))
    }
}

/// A profile in the usual AWS files, which another program may renew.
#[derive(Debug)]
struct Profile {
    files: ProfileCredentialProvider,
    /// Whether it held keys once.
    known: AtomicBool,
}

impl ProvideCredential for Profile {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        match self.files.provide_credential(context).await? {
            Some(credential) => {
                self.known.store(true, Ordering::Relaxed);
                Ok(Some(Credential { expires_in: Some(Timestamp::now() + FRESH), ..credential }))
            }
            // Between two versions of a file there may be none. The keys of the machine must not take its place.
            None if self.known.load(Ordering::Relaxed) => {
                Err(reqsign_core::Error::credential_invalid("the profile has no keys any more"))
            }
            None => Ok(None),
        }
    }
}

/// The usual AWS ways: a profile first, and then everything that isn't in files.
pub(super) fn ambient(profile: Option<&str>) -> ProvideCredentialChain<Credential> {
    let (mut own, mut others) = (ProfileCredentialProvider::new(), DefaultCredentialProvider::builder());
    if let Some(name) = profile {
        own = own.with_profile(name);
        others = others.with_profile(name);
    }
    let own = Profile { files: own, known: AtomicBool::new(false) };
    ProvideCredentialChain::new().push(own).push(others.no_profile().build())
}

/// The text of a small file without the line end.
fn line(path: &str) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(64 << 10).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn settings(pairs: &[(&str, &str)]) -> S3Settings {
        let mut settings = S3Settings::default();
        for (name, value) in pairs {
            settings.set(name, value).expect("a setting");
        }
        settings
    }

    fn keys(id: &str, token: Option<&str>) -> Source {
        Source::Keys { id: Secret::new(id), key: Secret::new("k"), token: token.map(Secret::new) }
    }

    #[test]
    fn the_order_of_sources() {
        let aws = [("AWS_ACCESS_KEY_ID", "aws"), ("AWS_SECRET_ACCESS_KEY", "k"), ("AWS_SESSION_TOKEN", "t")];
        let litestream = [("LITESTREAM_ACCESS_KEY_ID", "ls"), ("LITESTREAM_SECRET_ACCESS_KEY", "k")];
        let both: Vec<_> = aws.iter().chain(&litestream).copied().collect();
        let given = [("access-key-id", "given"), ("secret-access-key", "k")];
        let files = [("access-key-id-file", "/i"), ("secret-access-key-file", "/k")];
        let given_and_files: Vec<_> = given.iter().chain(&files).copied().collect();
        let in_files = Source::Files(KeyFiles { id: "/i".into(), key: "/k".into() });
        for (configured, variables, expected) in [
            (&given_and_files[..], &both[..], keys("given", None)),
            (&files[..], &both[..], in_files),
            (&[("profile", "p")][..], &both[..], Source::Ambient),
            (&[][..], &both[..], keys("aws", Some("t"))),
            (&[][..], &litestream[..], keys("ls", None)),
            (&[][..], &aws[..1], Source::Ambient),
            (&[][..], &[][..], Source::Ambient),
        ] {
            assert_eq!(
                choose(&settings(configured), &environment(variables)),
                expected,
                "{configured:?} {variables:?}"
            );
        }
    }

    #[tokio::test]
    async fn key_files_are_read_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let files = KeyFiles { id: path("id"), key: path("key") };
        let context = Context::new();
        assert!(files.provide_credential(&context).await.is_err(), "no files");
        for round in ["1", "2"] {
            std::fs::write(path("id"), format!("id{round}\n")).expect("write");
            std::fs::write(path("key"), format!("key{round}\n")).expect("write");
            let found = files.provide_credential(&context).await.expect("read").expect("keys");
            assert_eq!((found.access_key_id, found.secret_access_key), (format!("id{round}"), format!("key{round}")));
        }
    }

    #[derive(Debug)]
    struct Disk;

    impl reqsign_core::FileRead for Disk {
        async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
            std::fs::read(path).map_err(|error| reqsign_core::Error::unexpected(error.to_string()))
        }
    }

    #[tokio::test]
    async fn a_profile_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("credentials");
        let shown = file.display().to_string();
        let envs = [("AWS_SHARED_CREDENTIALS_FILE".to_owned(), shown), ("AWS_CONFIG_FILE".to_owned(), "/none".into())];
        let envs = reqsign_core::StaticEnv { home_dir: None, envs: envs.into_iter().collect() };
        let context = Context::new().with_file_read(Disk).with_env(envs);
        let files = ProfileCredentialProvider::new().with_profile("backup");
        let profile = Profile { files, known: AtomicBool::new(false) };
        assert!(profile.provide_credential(&context).await.expect("no profile").is_none());
        for round in ["1", "2"] {
            let text = format!("[backup]\naws_access_key_id = id{round}\naws_secret_access_key = key{round}\n");
            std::fs::write(&file, text).expect("written");
            let found = profile.provide_credential(&context).await.expect("read").expect("keys");
            assert_eq!((found.access_key_id, found.secret_access_key), (format!("id{round}"), format!("key{round}")));
            let lasts = found.expires_in.expect("an end") - FRESH;
            assert!(lasts <= Timestamp::now(), "it is asked for again within seconds");
        }
        std::fs::write(&file, "[other]\n").expect("written");
        assert!(profile.provide_credential(&context).await.is_err(), "no other keys are taken instead");
    }

    #[test]
    fn sources_are_shown_without_secrets() {
        let shown =
            format!("{:?}", Source::Keys { id: Secret::new("hunter2"), key: Secret::new("hunter2"), token: None });
        assert!(!shown.contains("hunter2"));
        let environment = environment(&[("AWS_SECRET_ACCESS_KEY", "hunter2")]);
        assert!(!format!("{environment:?}").contains("hunter2"));
    }
}
