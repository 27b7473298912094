//! Where keys for Alibaba Cloud come from: settings, the environment, a role with a token (RRSA), the machine's role. The
//! first source that is configured is the only one: another source is another identity.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;

use reqsign_aliyun_oss::{
    AssumeRoleWithOidcCredentialProvider, Credential, EcsRamRoleCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::{Context, FileRead, ProvideCredential, StaticEnv};

use super::settings::OssSettings;
use crate::stores::cloud::reason::Reason;
use crate::{Environment, Secret};

/// The most bytes of a file with a token.
const LARGEST: u64 = 64 << 10;

/// The variables that tell how a role is taken.
const VARIABLES: [&str; 9] = [
    "ALIBABA_CLOUD_ECS_METADATA",
    "ALIBABA_CLOUD_ECS_METADATA_DISABLED",
    "ALIBABA_CLOUD_ECS_METADATA_SERVICE_ENDPOINT",
    "ALIBABA_CLOUD_IMDSV1_DISABLED",
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN",
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE",
    "ALIBABA_CLOUD_ROLE_ARN",
    "ALIBABA_CLOUD_ROLE_SESSION_NAME",
    "ALIBABA_CLOUD_STS_ENDPOINT",
];

/// Where keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Keys that are given.
    Keys {
        /// The key's id.
        id: Secret,
        /// The key.
        key: Secret,
        /// The token of temporary keys.
        token: Option<Secret>,
    },
    /// A role that a token in a file stands for.
    Role,
    /// The role of this machine.
    Machine,
}

/// The source that counts.
pub(super) fn choose(settings: &OssSettings, environment: &Environment) -> Source {
    if let (Some(id), Some(key)) = (&settings.access_key_id, &settings.secret_access_key) {
        return Source::Keys { id: id.clone(), key: key.clone(), token: settings.session_token.clone() };
    }
    let secret = |name: &str| environment.get(name).map(Secret::new);
    for (id, key, token) in [
        ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN"),
        ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN"),
    ] {
        if let (Some(id), Some(key)) = (secret(id), secret(key)) {
            return Source::Keys { id, key, token: secret(token) };
        }
    }
    let named = |name: &str| environment.get(name).is_some();
    let role = ["ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "ALIBABA_CLOUD_OIDC_TOKEN_FILE"];
    if role.into_iter().all(named) { Source::Role } else { Source::Machine }
}

/// What the sources see of the environment.
pub(super) fn variables(environment: &Environment) -> StaticEnv {
    let known = VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), environment.get(name)?.to_owned())));
    StaticEnv { home_dir: None, envs: known.collect() }
}

/// One source, which tells why it has no keys.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) source: Source,
    pub(super) reason: Reason,
}

impl Keys {
    async fn find(&self, context: &Context) -> Result<Credential, String> {
        let (found, none) = match &self.source {
            Source::Keys { id, key, token } => {
                let given = StaticCredentialProvider::new(id.reveal(), key.reveal());
                let given = token.iter().fold(given, |given, token| given.with_security_token(token.reveal()));
                (given.provide_credential(context).await, "the keys are empty")
            }
            Source::Role => {
                let found = AssumeRoleWithOidcCredentialProvider::new().provide_credential(context).await;
                (found, "no role is given for the token in ALIBABA_CLOUD_OIDC_TOKEN_FILE")
            }
            Source::Machine => {
                let found = EcsRamRoleCredentialProvider::new().provide_credential(context).await;
                (found, "no keys are configured, and this machine has no role")
            }
        };
        found.map_err(|error| format!("{none} ({error})"))?.ok_or_else(|| none.to_owned())
    }
}

impl ProvideCredential for Keys {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let found = self.find(context).await;
        self.reason.set(found.as_ref().err().cloned());
        found.map(Some).map_err(reqsign_core::Error::credential_invalid)
    }
}

/// Small files, for the token of a role.
#[derive(Debug)]
pub(super) struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let named = path.to_owned();
        let read = tokio::task::spawn_blocking(move || -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            std::fs::File::open(named)?.take(LARGEST).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        let failed = |cause: String| reqsign_core::Error::credential_invalid(format!("{path}: {cause}"));
        read.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSettings as _;

    #[test]
    fn one_source_counts() {
        let environment = |names: &[&str]| -> Environment {
            names.iter().map(|name| ((*name).to_owned(), (*name).to_owned())).collect()
        };
        let keys = |id: &str, key: &str| Source::Keys { id: Secret::new(id), key: Secret::new(key), token: None };
        let alibaba = ["ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"];
        let oss = ["OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET"];
        let role = ["ALIBABA_CLOUD_ROLE_ARN", "ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "ALIBABA_CLOUD_OIDC_TOKEN_FILE"];
        for (set, names, expected) in [
            (true, &alibaba[..], keys("set", "set")),
            (false, &[alibaba, oss].concat()[..], keys(alibaba[0], alibaba[1])),
            (false, &oss[..], keys(oss[0], oss[1])),
            (false, &role[..], Source::Role),
            (false, &role[..2], Source::Machine),
            (false, &[][..], Source::Machine),
        ] {
            let mut settings = OssSettings::default();
            if set {
                settings.set("access-key-id", "set").expect("a setting");
                settings.set("secret-access-key", "set").expect("a setting");
            }
            assert_eq!(choose(&settings, &environment(names)), expected, "{names:?}");
        }
        assert!(!format!("{:?}", keys("hunter2", "hunter2")).contains("hunter2"));
    }
}
