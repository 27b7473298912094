//! From settings to a store.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use opendal_core::{HttpTransporter, Operator};
use opendal_http_transport_reqwest::ReqwestTransport;
use opendal_service_azblob::Azblob;
use seawall_core::Moment;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use super::AbsStore;
use super::container;
use super::credentials::{self, Source, account, choose};
use super::settings::AbsSettings;
use crate::connections::Trust;
use crate::stores::cloud::endpoint::{host_of, is_private};
use crate::stores::cloud::reason::Reason;
use crate::stores::cloud::transport::{self, Transport};
use crate::stores::cloud::{Reach, unbuffered};
use crate::text::wrong;
use crate::{Abilities, Environment, Error, PlaceSettings, Policy, Scheme, Secret, expiry};

/// The most blobs of one batch.
const BATCH: usize = 256;

/// The smallest part that is worth a request; Azure itself takes any.
const SMALLEST_PART: usize = 1 << 20;

/// A container of an account. Its client is made at the first request where that makes the container.
pub struct Container {
    operator: OnceCell<Operator>,
    /// The client for the key that was in the file last, if the key is in a file.
    of_file: Mutex<Option<OfFile>>,
    transport: HttpTransporter,
    settings: AbsSettings,
    account: Option<String>,
    /// The address of the account's service.
    address: String,
    source: Source,
    url: String,
    /// Why there is no key now.
    reason: Reason,
}

/// A client for a key, and when the file was read.
struct OfFile {
    key: Secret,
    read: Instant,
    operator: Operator,
}

/// How long a key from a file is used before the next request reads the file again.
const FRESH: Duration = Duration::from_secs(5);

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Container").field(&self.url).finish()
    }
}

/// The address of an account's service. A server of one's own has the account's name in its path.
fn address(endpoint: Option<&str>, account: Option<&str>) -> Result<String, Error> {
    let next = "write abs://ACCOUNT@CONTAINER/PATH, or set AZURE_STORAGE_ACCOUNT";
    match (endpoint, account) {
        (Some(endpoint), _) if endpoint.matches('/').count() > 2 => Ok(endpoint.to_owned()),
        (Some(endpoint), Some(account)) if is_private(host_of(endpoint)) => Ok(format!("{endpoint}/{account}")),
        (Some(endpoint), _) => Ok(endpoint.to_owned()),
        (None, Some(account)) => Ok(format!("https://{account}.blob.core.windows.net")),
        (None, None) => Err(wrong("account-name", "there is no account", next)),
    }
}

#[async_trait]
impl Reach for Container {
    const SCHEME: Scheme = Scheme::Abs;
    // Names of metadata are identifiers here.
    const STAMP: &'static str = "litestreamtimestamp";
    const DIGEST: &'static str = "seawallblake3";
    const LISTS_AFTER: bool = false;

    async fn operator(&self) -> Result<Operator, Error> {
        let operator = self.operator.get_or_try_init(|| self.connect()).await?;
        match &self.source {
            Source::File(file) => self.of_file(file).await,
            _ => Ok(operator.clone()),
        }
    }

    fn endpoint(&self) -> Option<&str> {
        self.settings.endpoint.as_deref()
    }

    fn reason(&self) -> &Reason {
        &self.reason
    }

    fn credentials_end(&self) -> Option<Moment> {
        match &self.source {
            Source::Signature(token) => expiry::of_signature(token.reveal()),
            _ => None,
        }
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: BATCH,
            smallest_part: SMALLEST_PART,
            most_parts: 50_000,
            part_size: self.settings.part_size,
            parts_in_flight: self.settings.concurrency,
            digests_of_parts: false,
        }
    }
}

impl Container {
    async fn connect(&self) -> Result<Operator, Error> {
        if self.settings.create_container {
            let credential = container::credential(&self.source, self.account.as_deref()).await?;
            container::make(&self.transport, &self.address, &self.settings.container, &credential, &self.url).await?;
        }
        self.client(&self.source)
    }

    /// The client for the key that is in the file now. The signer itself keeps a key for ever.
    async fn of_file(&self, file: &str) -> Result<Operator, Error> {
        let mut kept = self.of_file.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.read.elapsed() < FRESH) {
            return Ok(kept.operator.clone());
        }
        let denied = |cause: String| Error::Denied { object: self.url.clone(), cause };
        let key = credentials::key_of(file).await.map_err(denied)?;
        let operator = match kept.as_ref().filter(|kept| kept.key == key) {
            Some(kept) => kept.operator.clone(),
            None => self.client(&Source::Key(key.clone()))?,
        };
        *kept = Some(OfFile { key, read: Instant::now(), operator: operator.clone() });
        Ok(operator)
    }

    fn client(&self, source: &Source) -> Result<Operator, Error> {
        let builder = self.build(source)?;
        let operator =
            Operator::new(builder).map_err(|error| wrong(&self.url, error.message(), "check the settings"))?;
        Ok(unbuffered(operator, &self.transport))
    }

    fn build(&self, source: &Source) -> Result<Azblob, Error> {
        let mut builder = Azblob::default().root(&self.settings.path).container(&self.settings.container);
        builder = builder.endpoint(&self.address);
        if let Some(account) = &self.account {
            builder = builder.account_name(account);
        }
        let unnamed = || {
            let next = "write abs://ACCOUNT@CONTAINER/PATH, or set AZURE_STORAGE_ACCOUNT";
            wrong("account-name", "a key is given, and no account", next)
        };
        Ok(match source {
            Source::Key(key) => {
                self.account.as_ref().ok_or_else(unnamed)?;
                builder.account_key(key.reveal())
            }
            Source::File(_) => {
                self.account.as_ref().ok_or_else(unnamed)?;
                builder
            }
            Source::Signature(token) => builder.sas_token(token.reveal()),
            Source::Ambient => builder,
        })
    }
}

impl AbsStore {
    /// Makes a store for the settings. Checks the settings; makes no request.
    ///
    /// # Errors
    /// The settings don't name a place, or are wrong.
    pub async fn connect(settings: &AbsSettings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let url = settings.url();
        let account = account(settings, environment);
        let address = address(settings.endpoint.as_deref(), account.as_deref())?;
        let trust = Trust::of(settings.skip_verify, settings.ca_file.as_ref(), &settings.tls);
        let transport = HttpTransporter::new(Transport {
            inner: ReqwestTransport::new(policy.connections.client(&trust, &url)?),
            attempt: policy.attempt,
            slowest: policy.slowest,
            tigris: false,
            missing: transport::MISSING_IN_AZURE,
        });
        let container = Container {
            operator: OnceCell::new(),
            of_file: Mutex::new(None),
            transport,
            settings: settings.clone(),
            account,
            address,
            source: choose(settings, environment),
            url: url.clone(),
            reason: Reason::default(),
        };
        // Otherwise mistakes in the settings show now.
        if !settings.create_container {
            container.operator.get_or_try_init(|| container.connect()).await?;
        }
        Ok(Self::new(container, url, settings.prefix.as_deref().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (endpoint, account, expected) in [
            (None, Some("a"), Some("https://a.blob.core.windows.net")),
            (None, None, None),
            (Some("http://127.0.0.1:10000/a"), Some("a"), Some("http://127.0.0.1:10000/a")),
            (Some("http://127.0.0.1:10000"), Some("a"), Some("http://127.0.0.1:10000/a")),
            (Some("https://a.blob.core.usgovcloudapi.net"), Some("a"), Some("https://a.blob.core.usgovcloudapi.net")),
            (Some("https://h"), None, Some("https://h")),
        ] {
            assert_eq!(address(endpoint, account).ok().as_deref(), expected, "{endpoint:?} {account:?}");
        }
    }

    #[tokio::test]
    async fn nothing_shows_a_secret() {
        let Ok(crate::VaultUrl::Abs(settings)) =
            crate::VaultUrl::parse("abs://acct@c/p?endpoint=http://localhost:9&account-key=aHVudGVyMg==")
        else {
            panic!("a URL")
        };
        let store = AbsStore::connect(&settings, &Environment::empty(), &Policy::default()).await.expect("lazily");
        assert!(!format!("{store:?} {store:#?}").contains("aHVudGVyMg"));
    }
}
