//! Where credentials for Google come from: settings, a file that the environment names, the login of `gcloud`, the
//! metadata server. The first source that is configured is the only one: another source is another identity.
//!
//! Requests carry a token. A file with credentials is read again for each new token, so that another program may renew it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;

use reqsign_core::{Context, ProvideCredential, ProvideCredentialChain};
use reqsign_google::{Credential, StaticCredentialProvider, VmMetadataCredentialProvider};
use serde_json::Value;

use super::settings::GsSettings;
use super::token::{self, SCOPE};
use crate::stores::cloud::endpoint::{host_of, is_private};
use crate::stores::cloud::reason::Reason;
use crate::{Environment, Secret};

/// The most bytes of a file with credentials.
const LARGEST: u64 = 64 << 10;

/// Where credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// Requests carry none, as emulators take them.
    Nothing,
    /// The text of a file.
    Text(Secret),
    /// A file.
    File(String),
    /// The login of `gcloud` of this user, if there is one; else the machine's service account.
    Ambient,
}

/// The source that counts. A server in a private network gets credentials only if the settings give them for this place.
pub(super) fn choose(settings: &GsSettings, environment: &Environment, endpoint: Option<&str>) -> Source {
    if let Some(text) = &settings.credentials {
        return Source::Text(text.clone());
    }
    if let Some(file) = &settings.credentials_file {
        return Source::File(file.clone());
    }
    if endpoint.is_some_and(|endpoint| is_private(host_of(endpoint))) {
        return Source::Nothing;
    }
    let named = environment.get("GOOGLE_APPLICATION_CREDENTIALS");
    named.map_or(Source::Ambient, |file| Source::File(file.to_owned()))
}

/// A chain of one link, which asks the source for a token.
pub(super) fn chain(source: Source, environment: &Environment, reason: Reason) -> ProvideCredentialChain<Credential> {
    let tokens = Tokens {
        source,
        login: login(environment),
        metadata: environment.get("GCE_METADATA_HOST").map(str::to_owned),
        reason,
    };
    ProvideCredentialChain::new().push(tokens)
}

/// Where `gcloud auth application-default login` leaves credentials.
fn login(environment: &Environment) -> Option<String> {
    let folder = match (environment.get("CLOUDSDK_CONFIG"), environment.get("HOME")) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(home)) => format!("{home}/.config/gcloud"),
        (None, None) => return None,
    };
    Some(format!("{folder}/application_default_credentials.json"))
}

#[derive(Debug)]
struct Tokens {
    source: Source,
    login: Option<String>,
    /// The metadata server, for anything but Google's.
    metadata: Option<String>,
    reason: Reason,
}

impl Tokens {
    async fn find(&self, context: &Context) -> Result<Credential, String> {
        match &self.source {
            Source::Nothing => Err("no credentials are configured".to_owned()),
            Source::Text(text) => {
                of_text(context, text.reveal()).await.map_err(|cause| format!("credentials: {cause}"))
            }
            Source::File(file) => {
                let text = read(file.clone()).await.map_err(|error| format!("{file}: {error}"))?;
                of_text(context, text.reveal()).await.map_err(|cause| format!("{file}: {cause}"))
            }
            Source::Ambient => {
                if let Some(file) = &self.login
                    && let Ok(text) = read(file.clone()).await
                {
                    return of_text(context, text.reveal()).await.map_err(|cause| format!("{file}: {cause}"));
                }
                let mut machine = VmMetadataCredentialProvider::new().with_scope(SCOPE);
                if let Some(host) = &self.metadata {
                    machine = machine.with_endpoint(host);
                }
                let none = "no credentials are configured, and none are in the usual places";
                let found = machine.provide_credential(context).await;
                found.map_err(|error| format!("{none} (the metadata server: {error})"))?.ok_or_else(|| none.to_owned())
            }
        }
    }
}

impl ProvideCredential for Tokens {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> reqsign_core::Result<Option<Credential>> {
        let found = self.find(context).await;
        self.reason.set(found.as_ref().err().cloned());
        found.map(Some).map_err(reqsign_core::Error::credential_invalid)
    }
}

/// A token for what a file of Google's says: the key of a service account, the login of a user, or an identity that
/// another provider vouches for.
async fn of_text(context: &Context, text: &str) -> Result<Credential, String> {
    let Ok(Value::Object(document)) = serde_json::from_str(text) else {
        return Err("these are no credentials as Google writes them".to_owned());
    };
    match document.get("type").and_then(Value::as_str) {
        Some("service_account") => token::of_service_account(context, &document).await,
        Some("authorized_user") => token::of_user(context, &document).await,
        Some("external_account" | "impersonated_service_account") => {
            let provider = StaticCredentialProvider::new(text).with_scope(SCOPE);
            let found = provider.provide_credential(context).await.map_err(|error| error.to_string())?;
            found.ok_or_else(|| "no token was given for it".to_owned())
        }
        _ => Err("credentials of this type aren't known".to_owned()),
    }
}

/// The text of a small file.
async fn read(file: String) -> Result<Secret, String> {
    let read = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(file)?.take(LARGEST).read_to_string(&mut text)?;
        Ok(text)
    });
    read.await.map_err(|error| error.to_string())?.map(Secret::new).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod of_servers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSettings as _;

    #[test]
    fn one_source_counts() {
        let named: Environment =
            [("GOOGLE_APPLICATION_CREDENTIALS".to_owned(), "/env".to_owned())].into_iter().collect();
        let none = Environment::empty();
        let (near, far) = (Some("http://127.0.0.1:4443"), Some("https://storage.example.com"));
        for (name, environment, endpoint, expected) in [
            ("", &none, None, Source::Ambient),
            ("", &named, None, Source::File("/env".into())),
            ("", &named, far, Source::File("/env".into())),
            ("", &named, near, Source::Nothing),
            ("credentials-file", &named, None, Source::File("set".into())),
            ("credentials-file", &none, near, Source::File("set".into())),
            ("credentials", &named, None, Source::Text(Secret::new("set"))),
        ] {
            let mut settings = GsSettings::default();
            if !name.is_empty() {
                settings.set(name, "set").expect("a setting");
            }
            assert_eq!(choose(&settings, environment, endpoint), expected, "{name} {endpoint:?}");
        }
    }

    #[test]
    fn the_login_of_the_user_is_where_gcloud_leaves_it() {
        for (pairs, expected) in [
            (&[("HOME", "/h")][..], Some("/h/.config/gcloud/application_default_credentials.json")),
            (&[("HOME", "/h"), ("CLOUDSDK_CONFIG", "/c")], Some("/c/application_default_credentials.json")),
            (&[], None),
        ] {
            let environment = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(login(&environment).as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn what_is_no_credential_is_named_and_not_shown() {
        for text in ["", "hunter2", "[]", "{\"type\": \"hunter2\"}", "{\"type\": \"service_account\"}"] {
            let error = of_text(&Context::new(), text).await.expect_err(text);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
