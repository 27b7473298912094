//! From settings to a store. A pure function decides what the settings leave open.

use std::fmt;

use async_trait::async_trait;
use opendal_core::{HttpTransporter, Operator};
use opendal_http_transport_reqwest::ReqwestTransport;
use opendal_service_gcs::Gcs;

use super::GsStore;
use super::credentials::{self, Source, choose};
use super::settings::GsSettings;
use crate::connections::Trust;
use crate::stores::cloud::endpoint::endpoint;
use crate::stores::cloud::reason::Reason;
use crate::stores::cloud::transport::{self, Transport};
use crate::stores::cloud::{Reach, Versions, unbuffered};
use crate::text::wrong;
use crate::{Abilities, Environment, Error, PlaceSettings, Policy, Scheme, Tls};

/// The most objects of one call for deletions.
const BATCH: usize = 100;

/// The smallest part of an upload in parts.
const SMALLEST_PART: usize = 5 << 20;

/// The variable by which Google's own tools are told of an emulator.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// A bucket.
pub struct Bucket {
    operator: Operator,
    endpoint: Option<String>,
    url: String,
    /// Why there is no token now.
    reason: Reason,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.url).finish()
    }
}

#[async_trait]
impl Reach for Bucket {
    const SCHEME: Scheme = Scheme::Gs;
    const STAMP: &'static str = "litestream-timestamp";
    const DIGEST: &'static str = "seawall-blake3";
    const LISTS_AFTER: bool = true;
    const VERSIONS: Versions = Versions::Generations;

    async fn operator(&self) -> Result<Operator, Error> {
        Ok(self.operator.clone())
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    fn reason(&self) -> &Reason {
        &self.reason
    }

    /// A batch is a document of many requests, and emulators don't read OpenDAL's.
    fn deletes_many(&self) -> bool {
        false
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: BATCH,
            smallest_part: SMALLEST_PART,
            most_parts: 10_000,
            part_size: None,
            parts_in_flight: None,
            digests_of_parts: false,
        }
    }
}

/// The server that settings or environment name, if it isn't Google's own.
fn server(settings: &GsSettings, environment: &Environment) -> Result<Option<String>, Error> {
    match (&settings.endpoint, environment.get(EMULATOR)) {
        (Some(server), _) => Ok(Some(server.clone())),
        (None, Some(host)) => {
            endpoint(host).map(Some).map_err(|_| wrong(EMULATOR, "this is no server's address", "write HOST:PORT"))
        }
        (None, None) => Ok(None),
    }
}

impl GsStore {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, or are wrong.
    pub async fn connect(settings: &GsSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let url = settings.url();
        let endpoint = server(settings, environment)?;
        let trust = Trust::of(settings.skip_verify, settings.ca_file.as_ref(), &Tls::default());
        let transport = HttpTransporter::new(Transport {
            inner: ReqwestTransport::new(policy.connections.client(&trust, &url)?),
            attempt: policy.attempt,
            slowest: policy.slowest,
            tigris: false,
            missing: transport::MISSING_IN_GOOGLE,
        });
        let reason = Reason::default();
        // OpenDAL looks for credentials itself only where it is given none.
        let mut builder = Gcs::default().root(&settings.path).bucket(&settings.bucket);
        builder = builder.disable_config_load().disable_vm_metadata();
        if let Some(endpoint) = &endpoint {
            builder = builder.endpoint(endpoint);
        }
        if let Some(class) = &settings.storage_class {
            builder = builder.default_storage_class(class);
        }
        builder = match choose(settings, environment, endpoint.as_deref()) {
            Source::Nothing => builder.skip_signature(),
            source => builder.credential_provider_chain(credentials::chain(source, environment, reason.clone())),
        };
        let operator = Operator::new(builder).map_err(|error| wrong(&url, error.message(), "check the settings"))?;
        let operator = unbuffered(operator, &transport);
        Ok(Self::new(Bucket { operator, endpoint, url: url.clone(), reason }, url, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let emulator = |host: &str| [(EMULATOR.to_owned(), host.to_owned())].into_iter().collect::<Environment>();
        let at = |endpoint: Option<&str>| GsSettings { endpoint: endpoint.map(str::to_owned), ..GsSettings::default() };
        for (set, environment, expected) in [
            (None, Environment::empty(), Ok(None)),
            (None, emulator("localhost:4443"), Ok(Some("http://localhost:4443"))),
            (None, emulator("http://127.0.0.1:1"), Ok(Some("http://127.0.0.1:1"))),
            (Some("https://h"), emulator("localhost:4443"), Ok(Some("https://h"))),
            (None, emulator("a b"), Err(())),
        ] {
            let found = server(&at(set), &environment);
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(|_| ()), expected, "{set:?}");
        }
    }

    #[tokio::test]
    async fn nothing_shows_a_secret() {
        let settings = GsSettings {
            bucket: "b".into(),
            credentials: Some(crate::Secret::new("hunter2")),
            ..GsSettings::default()
        };
        let store = GsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("lazily");
        assert!(!format!("{store:?} {store:#?}").contains("hunter2"));
    }
}
