//! Where credentials come from: explicit keys, keys in files, a profile that is named, the environment that the caller
//! hands in, then the usual AWS ways.
//!
//! Another source is another identity, which may write to a bucket of another owner. So a source that was configured is
//! the only one, and so is the first of the usual ways that gave keys. If it has no keys, or fails, the requests fail.
//!
//! Files are read again while they are in use, so that keys can be renewed without a restart.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::sync::OnceLock;
use std::time::Duration;

use reqsign_aws_v4::{
    Credential, ECSCredentialProvider, EnvCredentialProvider, IMDSv2CredentialProvider, ProfileCredentialProvider,
    SSOCredentialProvider,
};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain, ProvideCredentialDyn};

use seawall_core::Moment;

use super::settings::S3Settings;
use super::web_identity::WebIdentity;
use crate::stores::cloud::reason::Reason;
use crate::{Environment, Secret, expiry};

/// How long keys from files are used before the next request reads them again: 5 s, because the signer renews two minutes
/// before the end.
const FRESH: Duration = Duration::from_secs(125);

/// Where credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Keys that are given directly.
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
    /// A profile that a setting or `AWS_PROFILE` names: its keys, or its single sign-on.
    Profile(String),
    /// The default profile, web identity, container and instance roles.
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
    // The environment doesn't overrule a profile that the settings name.
    if let Some(name) = &settings.profile {
        return Source::Profile(name.clone());
    }
    let variables = |id: &str, key: &str, token: Option<&str>| {
        let secret = |name: &str| environment.get(name).map(Secret::new);
        Some(Source::Keys { id: secret(id)?, key: secret(key)?, token: token.and_then(secret) })
    };
    variables("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", Some("AWS_SESSION_TOKEN"))
        .or_else(|| variables("LITESTREAM_ACCESS_KEY_ID", "LITESTREAM_SECRET_ACCESS_KEY", None))
        .or_else(|| environment.get("AWS_PROFILE").map(|name| Source::Profile(name.to_owned())))
        .unwrap_or(Source::Ambient)
}

/// When keys of the environment end: a tool that puts temporary ones there names their end beside them.
pub(super) fn end(source: &Source, settings: &S3Settings, environment: &Environment) -> Option<Moment> {
    let is_of_environment = settings.access_key_id.is_none();
    let is_temporary = matches!(source, Source::Keys { token: Some(_), .. });
    let named = environment.get("AWS_CREDENTIAL_EXPIRATION").filter(|_| is_of_environment && is_temporary);
    named.and_then(expiry::of_text)
}

/// Keys in files that another program renews.
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
        let (access_key_id, secret_access_key) = match read {
            Ok(Ok(pair)) => pair,
            Ok(Err(error)) => return Err(invalid(std::io::Error::to_string(&error))),
            Err(error) => return Err(invalid(error.to_string())),
        };
        // Between two versions of a file there may be nothing in it.
        if access_key_id.is_empty() || secret_access_key.is_empty() {
            return Ok(None);
        }
        let expires_in = Some(Timestamp::now() + FRESH);
        Ok(Some(Credential { access_key_id, secret_access_key, session_token: None, expires_in }))
    }
}

/// Keys of a profile in the usual AWS files, which another program may renew.
#[derive(Debug)]
struct Profile(ProfileCredentialProvider);

impl ProvideCredential for Profile {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let found = self.0.provide_credential(context).await?;
        Ok(found.map(|credential| Credential { expires_in: Some(Timestamp::now() + FRESH), ..credential }))
    }
}

/// One source, and its name for people.
#[derive(Debug)]
struct Named {
    name: String,
    provider: Box<dyn ProvideCredentialDyn<Credential = Credential>>,
    /// Whether it is asked also where nothing says that it exists, so that its failure may only mean that it doesn't.
    is_guessed: bool,
}

impl Named {
    fn new(name: impl Into<String>, provider: impl ProvideCredential<Credential = Credential> + 'static) -> Self {
        Self { name: name.into(), provider: Box::new(provider), is_guessed: false }
    }

    fn guessed(self) -> Self {
        Self { is_guessed: true, ..self }
    }
}

/// Asks the sources in their order, until one has keys. From then on it asks only those of that name. A source that
/// fails ends the search.
#[derive(Debug)]
struct Sources {
    all: Vec<Named>,
    /// What is said if none of them has keys.
    none: String,
    /// The name of the source that gave keys.
    used: OnceLock<String>,
    reason: Reason,
}

impl Sources {
    fn new((all, none): (Vec<Named>, String), reason: Reason) -> Self {
        Self { all, none, used: OnceLock::new(), reason }
    }

    async fn find(&self, context: &Context) -> Result<Credential, String> {
        let used = self.used.get();
        for Named { name, provider, is_guessed } in &self.all {
            if used.is_some_and(|used| used != name) {
                continue;
            }
            match provider.provide_credential_dyn(context).await {
                Ok(Some(credential)) => {
                    self.used.get_or_init(|| name.clone());
                    return Ok(credential);
                }
                Ok(None) => {}
                Err(error) if *is_guessed && used.is_none() => return Err(format!("{} ({name}: {error})", self.none)),
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        Err(used.map_or_else(|| self.none.clone(), |used| format!("{used} has no keys any more")))
    }
}

impl ProvideCredential for Sources {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let found = self.find(context).await;
        self.reason.set(found.as_ref().err().cloned());
        found.map(Some).map_err(invalid)
    }
}

fn invalid(cause: String) -> reqsign_core::Error {
    reqsign_core::Error::credential_invalid(cause)
}

/// Keys in files, and nothing else.
pub(super) fn files(files: KeyFiles, reason: Reason) -> ProvideCredentialChain<Credential> {
    let name = format!("the pair of key files {} and {}", files.id, files.key);
    let none = format!("{name} has no keys");
    only(Sources::new((vec![Named::new(name, files)], none), reason))
}

/// A profile, and nothing else.
pub(super) fn profile(name: &str, reason: Reason) -> ProvideCredentialChain<Credential> {
    only(Sources::new(of_profile(name), reason))
}

/// The usual AWS ways: the default profile first, and then everything that isn't in files.
pub(super) fn ambient(reason: Reason) -> ProvideCredentialChain<Credential> {
    only(Sources::new(usual(), reason))
}

/// A chain goes on after an error, so it holds one link.
fn only(sources: Sources) -> ProvideCredentialChain<Credential> {
    ProvideCredentialChain::new().push(sources)
}

/// The sources of a profile, and what is said if they have no keys.
fn of_profile(name: &str) -> (Vec<Named>, String) {
    let shown = format!("the profile {name:?}");
    let none = format!(
        "{shown} has no keys that Seawall can read (static keys, or sso_start_url; role_arn, sso_session and \
         credential_process aren't supported)"
    );
    let all = vec![
        Named::new(&*shown, Profile(ProfileCredentialProvider::new().with_profile(name))),
        Named::new(&*shown, SSOCredentialProvider::new().with_profile(name)),
    ];
    (all, none)
}

/// The usual sources, and what is said if they have no keys.
fn usual() -> (Vec<Named>, String) {
    let all = vec![
        Named::new("the default profile", Profile(ProfileCredentialProvider::new())),
        Named::new("the environment", EnvCredentialProvider::new()),
        Named::new("the default profile", SSOCredentialProvider::new()),
        Named::new("the web identity", WebIdentity),
        Named::new("the container's role", ECSCredentialProvider::new()),
        Named::new("the instance's role", IMDSv2CredentialProvider::new()).guessed(),
    ];
    (all, "no keys are configured, and none are in the usual places".to_owned())
}

/// The text of a small file without the line end.
fn line(path: &str) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(64 << 10).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod roles_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSettings as _;

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
    fn only_temporary_keys_of_the_environment_have_an_end_there() {
        let end = ("AWS_CREDENTIAL_EXPIRATION", "2026-12-01T10:00:00Z");
        let keys = [("AWS_ACCESS_KEY_ID", "aws"), ("AWS_SECRET_ACCESS_KEY", "k")];
        let temporary = [keys[0], keys[1], ("AWS_SESSION_TOKEN", "t"), end];
        let given = [("access-key-id", "given"), ("secret-access-key", "k"), ("session-token", "t")];
        for (configured, variables, expected) in [
            (&[][..], &temporary[..], end.1.parse().ok()),
            (&[][..], &[keys[0], keys[1], end][..], None),
            (&given[..], &temporary[..], None),
            (&[][..], &[end][..], None),
        ] {
            let (settings, environment) = (settings(configured), environment(variables));
            let source = choose(&settings, &environment);
            assert_eq!(super::end(&source, &settings, &environment), expected, "{configured:?} {variables:?}");
        }
    }

    #[test]
    fn the_order_of_sources() {
        let aws = [("AWS_ACCESS_KEY_ID", "aws"), ("AWS_SECRET_ACCESS_KEY", "k"), ("AWS_SESSION_TOKEN", "t")];
        let litestream = [("LITESTREAM_ACCESS_KEY_ID", "ls"), ("LITESTREAM_SECRET_ACCESS_KEY", "k")];
        let both: Vec<_> = aws.iter().chain(&litestream).copied().collect();
        let named: Vec<_> = aws.iter().chain(&[("AWS_PROFILE", "q")]).copied().collect();
        let given = [("access-key-id", "given"), ("secret-access-key", "k")];
        let files = [("access-key-id-file", "/i"), ("secret-access-key-file", "/k")];
        let given_and_files: Vec<_> = given.iter().chain(&files).copied().collect();
        let in_files = Source::Files(KeyFiles { id: "/i".into(), key: "/k".into() });
        for (configured, variables, expected) in [
            (&given_and_files[..], &both[..], keys("given", None)),
            (&files[..], &both[..], in_files),
            (&[("profile", "p")][..], &both[..], Source::Profile("p".into())),
            (&[("profile", "p")][..], &[("AWS_PROFILE", "q")][..], Source::Profile("p".into())),
            (&[][..], &[("AWS_PROFILE", "q")][..], Source::Profile("q".into())),
            (&[][..], &named[..], keys("aws", Some("t"))),
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
        let profile = Profile(files);
        assert!(profile.provide_credential(&context).await.expect("no profile").is_none());
        for round in ["1", "2"] {
            let text = format!("[backup]\naws_access_key_id = id{round}\naws_secret_access_key = key{round}\n");
            std::fs::write(&file, text).expect("written");
            let found = profile.provide_credential(&context).await.expect("read").expect("keys");
            assert_eq!((found.access_key_id, found.secret_access_key), (format!("id{round}"), format!("key{round}")));
            let lasts = found.expires_in.expect("an end") - FRESH;
            assert!(lasts <= Timestamp::now(), "it is asked for again within seconds");
        }
    }

    /// A context with files of AWS in a folder, and with keys in the environment.
    fn machine(folder: &std::path::Path) -> Context {
        let path = |name: &str| folder.join(name).display().to_string();
        let envs = [
            ("AWS_SHARED_CREDENTIALS_FILE", path("credentials")),
            ("AWS_CONFIG_FILE", path("config")),
            ("AWS_ACCESS_KEY_ID", "the machine's".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "k".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ];
        let envs = envs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Context::new().with_file_read(Disk).with_env(reqsign_core::StaticEnv { home_dir: None, envs })
    }

    /// Keys of another source are another identity.
    #[tokio::test]
    async fn a_source_that_was_configured_or_used_is_the_only_one() {
        let keys_of = |name: &str| format!("[{name}]\naws_access_key_id = {name}\naws_secret_access_key = k\n");
        let (backup, default) = (keys_of("backup"), keys_of("default"));
        let wanted = Source::Profile("backup".into());
        // What the credentials file holds at each request, and whose keys are taken, or what is said.
        for (source, steps) in [
            (&wanted, &[(&backup, Ok("backup")), (&default, Err("the profile \"backup\" has no keys any more"))][..]),
            (
                &wanted,
                &[
                    (&default, Err("the profile \"backup\" has no keys that Seawall can read (")),
                    (&backup, Ok("backup")),
                ],
            ),
            (&wanted, &[(&"[broken".to_owned(), Err("the profile \"backup\": "))]),
            (
                &Source::Ambient,
                &[(&default, Ok("default")), (&backup, Err("the default profile has no keys any more"))],
            ),
            (&Source::Ambient, &[(&backup, Ok("the machine's")), (&default, Ok("the machine's"))]),
            (&Source::Ambient, &[(&"[broken".to_owned(), Err("the default profile: ")), (&default, Ok("default"))]),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let (context, reason) = (machine(folder.path()), Reason::default());
            let all = if let Source::Profile(name) = source { of_profile(name) } else { usual() };
            let sources = Sources::new(all, reason.clone());
            for (text, expected) in steps {
                std::fs::write(folder.path().join("credentials"), text).expect("written");
                let found = sources.provide_credential(&context).await;
                match (found, expected) {
                    (Ok(Some(found)), Ok(id)) => {
                        assert_eq!(found.access_key_id, *id, "{source:?} {steps:?}");
                        assert_eq!(reason.get(), None);
                    }
                    (Err(_), Err(why)) => {
                        let told = reason.get().expect("a reason");
                        assert!(told.starts_with(why), "{told}: {source:?} {steps:?}");
                    }
                    (found, _) => panic!("{found:?}: {source:?} {steps:?}"),
                }
            }
        }
    }

    /// Seawall runs no program of a profile, so this isn't a source that fails.
    #[tokio::test]
    async fn a_profile_with_a_program_hides_no_role() {
        const NONE: &str = "no keys are configured, and none are in the usual places";
        let folder = tempfile::tempdir().expect("a folder");
        let config = "[default]\ncredential_process = /bin/true\n[profile p]\ncredential_process = /bin/true\n";
        std::fs::write(folder.path().join("config"), config).expect("written");
        for (sources, is_instance, expected) in [
            (usual(), false, NONE.to_owned()),
            // No network is in this context, as on a machine that isn't an instance.
            (usual(), true, format!("{NONE} (the instance's role: ")),
            (of_profile("p"), true, "the profile \"p\" has no keys that Seawall can read (static keys, ".to_owned()),
        ] {
            let path = |name: &str| folder.path().join(name).display().to_string();
            let envs = [
                ("AWS_SHARED_CREDENTIALS_FILE", path("credentials")),
                ("AWS_CONFIG_FILE", path("config")),
                ("AWS_EC2_METADATA_DISABLED", (!is_instance).to_string()),
            ];
            let envs = envs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let envs = reqsign_core::StaticEnv { home_dir: None, envs };
            let (context, reason) = (Context::new().with_file_read(Disk).with_env(envs), Reason::default());
            assert!(Sources::new(sources, reason.clone()).provide_credential(&context).await.is_err());
            let told = reason.get().expect("a reason");
            assert!(told.starts_with(&expected), "{told}");
        }
    }

    #[tokio::test]
    async fn key_files_that_are_emptied_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (context, reason) = (machine(folder.path()), Reason::default());
        let chain = files(KeyFiles { id: path("id"), key: path("key") }, reason.clone());
        for (text, has_keys) in [(Some("1\n"), true), (Some(""), false), (None, false), (Some("2\n"), true)] {
            for name in ["id", "key"] {
                match text {
                    Some(text) => std::fs::write(path(name), text).expect("written"),
                    None => std::fs::remove_file(path(name)).expect("removed"),
                }
            }
            let found = chain.provide_credential(&context).await.expect("a chain has no errors");
            assert_eq!(found.is_some(), has_keys, "{text:?}");
            assert!(reason.get().is_none_or(|reason| reason.contains(&path("id"))));
            assert_eq!(reason.get().is_none(), has_keys);
        }
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
