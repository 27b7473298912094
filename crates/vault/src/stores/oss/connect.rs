//! From settings to a store.

use std::fmt;

use async_trait::async_trait;
use opendal_core::{HttpTransporter, Operator};
use opendal_http_transport_reqwest::ReqwestTransport;
use opendal_service_oss::Oss;
use reqsign_aliyun_oss::{RequestSigner, SigningVersion};
use reqsign_core::{Context, Signer};

use super::OssStore;
use super::credentials::{Files, Keys, choose, variables};
use super::settings::OssSettings;
use super::sign::{STAMP, Signing};
use crate::connections::Trust;
use crate::stores::cloud::endpoint::{host_of, is_private};
use crate::stores::cloud::reason::Reason;
use crate::stores::cloud::transport::{self, Transport};
use crate::stores::cloud::{Reach, Versions, unbuffered};
use crate::text::wrong;
use crate::{Abilities, Environment, Error, PlaceSettings, Policy, Scheme, Tls};

/// The most objects of one request for deletions.
const BATCH: usize = 1000;

/// The smallest part of an upload in parts.
const SMALLEST_PART: usize = 100 << 10;

/// A bucket.
pub struct Bucket {
    operator: Operator,
    settings: OssSettings,
    /// Why there are no keys now.
    reason: Reason,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.settings.url()).finish()
    }
}

#[async_trait]
impl Reach for Bucket {
    const SCHEME: Scheme = Scheme::Oss;
    const STAMP: &'static str = STAMP;
    const DIGEST: &'static str = "seawall-blake3";
    const LISTS_AFTER: bool = true;
    const METADATA_OF_PARTS: bool = false;
    const VERSIONS: Versions = Versions::Told;

    async fn operator(&self) -> Result<Operator, Error> {
        Ok(self.operator.clone())
    }

    fn endpoint(&self) -> Option<&str> {
        self.settings.endpoint.as_deref()
    }

    /// Whether the bucket keeps versions decides whether the service creates exclusively.
    fn needs_probe(&self) -> bool {
        true
    }

    fn reason(&self) -> &Reason {
        &self.reason
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: false,
            stamps: true,
            delete_batch: BATCH,
            smallest_part: SMALLEST_PART,
            most_parts: 10_000,
            part_size: self.settings.part_size,
            parts_in_flight: self.settings.concurrency,
            digests_of_parts: false,
        }
    }
}

impl OssStore {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, or are wrong.
    pub async fn connect(settings: &OssSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let (url, server, reason) = (settings.url(), settings.server(), Reason::default());
        let trust = Trust::of(settings.skip_verify, settings.ca_file.as_ref(), &Tls::default());
        let client = policy.connections.client(&trust, &url)?;
        let transport = || Transport {
            inner: ReqwestTransport::new(client.clone()),
            attempt: policy.attempt,
            slowest: policy.slowest,
            tigris: false,
            missing: transport::MISSING_IN_OSS,
        };
        let context = Context::new()
            .with_file_read(Files)
            .with_env(variables(environment))
            .with_http_send(HttpTransporter::new(transport()));
        let keys = Keys { source: choose(settings, environment), reason: reason.clone() };
        let signature = RequestSigner::new(&settings.bucket)
            .with_region(settings.region())
            .with_signing_version(SigningVersion::V4);
        let signing = Signing { inner: transport(), signer: Signer::new(context, keys, signature) };
        // The service itself has the bucket in the host's name, and nowhere else.
        let style = if is_private(host_of(&server)) { "path" } else { "virtual" };
        let builder = Oss::default().root(&settings.path).bucket(&settings.bucket).endpoint(&server);
        let builder = builder.addressing_style(style).skip_signature();
        let operator = Operator::new(builder).map_err(|error| wrong(&url, error.message(), "check the settings"))?;
        let operator = unbuffered(operator, &HttpTransporter::new(signing));
        Ok(Self::new(Bucket { operator, settings: settings.clone(), reason }, url, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_shows_a_secret() {
        let url = "oss://bkt/p?access-key-id=AKID&secret-access-key=hunter2";
        let Ok(crate::VaultUrl::Oss(settings)) = crate::VaultUrl::parse(url) else { panic!("a URL") };
        let store = OssStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("lazily");
        assert!(!format!("{store:?} {store:#?}").contains("hunter2"));
    }
}
