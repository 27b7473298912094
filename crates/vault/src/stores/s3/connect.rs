//! From settings to a store. A pure function decides what the settings leave open.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use opendal_core::{Buffer, HttpTransporter, Operator};
use opendal_http_transport_reqwest::ReqwestTransport;
use opendal_service_s3::S3;
use seawall_core::Moment;
use tokio::sync::OnceCell;

use super::S3Store;
use super::as_stored::AsStored;
use super::bucket::{Bucket, region_for};
use super::credentials::{self, Source, choose};
use super::parts::Parts;
use super::protection;
use super::provider::{Provider, amazon_server, provider};
use super::requests::{Requests, Target};
use super::settings::S3Settings;
use crate::connections::Trust;
use crate::stores::cloud::endpoint::host_of;
use crate::stores::cloud::limits::SMALLEST_PART;
use crate::stores::cloud::reason::Reason;
use crate::stores::cloud::transport::{self, Transport};
use crate::stores::cloud::{Reach, unbuffered};
use crate::text::wrong;
use crate::{Abilities, Environment, Error, Lock, LockMode, PlaceSettings, Policy, Protection, Scheme, Store};

/// The variable that names a file of further authorities.
const BUNDLE: &str = "AWS_CA_BUNDLE";

/// The settings with every open question decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) endpoint: Option<String>,
    /// `None`: to be asked for.
    region: Option<String>,
    pub(super) virtual_host: bool,
    provider: Provider,
}

fn decide(settings: &S3Settings, environment: &Environment) -> Result<Decided, Error> {
    let endpoint = match (&settings.endpoint, environment.get("LITESTREAM_S3_ENDPOINT")) {
        (Some(endpoint), _) => Some(endpoint.clone()),
        (None, Some(value)) => {
            let mut completed = S3Settings::default();
            completed.set("endpoint", value)?;
            completed.endpoint
        }
        (None, None) => None,
    };
    let provider = endpoint.as_deref().map(|endpoint| provider(host_of(endpoint))).unwrap_or_default();
    let named = || environment.get("AWS_REGION").or_else(|| environment.get("AWS_DEFAULT_REGION")).map(str::to_owned);
    let region = settings.region.clone().or_else(named).or_else(|| provider.region.clone());
    // A bucket with dots has no certificate for its host name; a server of one's own seldom has one host per bucket.
    let in_path = settings.force_path_style.unwrap_or(endpoint.is_some() || settings.bucket.contains('.'));
    if !in_path && settings.bucket.contains('.') {
        let next = "leave force-path-style away";
        return Err(wrong("force-path-style", "a bucket with dots can't stand in a host name", next));
    }
    Ok(Decided { endpoint, region, virtual_host: !in_path, provider })
}

/// A connection that is made at the first request, because that may have to ask for the region first.
pub struct Connection {
    client: OnceCell<Client>,
    transport: HttpTransporter,
    settings: S3Settings,
    environment: Environment,
    decided: Decided,
    url: String,
    /// Why there are no keys now.
    reason: Reason,
}

/// What a connection is when it is made.
struct Client {
    operator: Operator,
    /// What OpenDAL doesn't have.
    requests: Arc<Requests>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.url).finish()
    }
}

#[async_trait]
impl Reach for Connection {
    const SCHEME: Scheme = Scheme::S3;
    const STAMP: &'static str = "litestream-timestamp";
    const DIGEST: &'static str = "seawall-blake3";
    const LISTS_AFTER: bool = true;
    const PROTECTS: bool = true;

    async fn operator(&self) -> Result<Operator, Error> {
        Ok(self.client().await?.operator.clone())
    }

    fn endpoint(&self) -> Option<&str> {
        self.decided.endpoint.as_deref()
    }

    fn reason(&self) -> &Reason {
        &self.reason
    }

    fn credentials_end(&self) -> Option<Moment> {
        credentials::end(&choose(&self.settings, &self.environment), &self.settings, &self.environment)
    }

    fn deletes_many(&self) -> bool {
        !self.decided.provider.tigris
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            create: true,
            update: true,
            stamps: true,
            delete_batch: 1000,
            smallest_part: SMALLEST_PART,
            most_parts: 10_000,
            part_size: self.settings.part_size.or(self.decided.provider.part_size),
            parts_in_flight: self.settings.concurrency.or(self.decided.provider.concurrency),
            digests_of_parts: false,
        }
    }

    async fn protection(&self) -> Result<Protection, Error> {
        protection::of_bucket(self.requests().await?, &self.url).await
    }

    async fn lock(&self, name: &str, version: Option<&str>) -> Result<Lock, Error> {
        let (name, object) = (format!("{}{name}", self.root()), format!("{}/{name}", self.url));
        protection::of_object(self.requests().await?, &name, version, &object).await
    }

    fn keeps_locked(&self) -> Option<Duration> {
        self.settings.object_lock_keep
    }

    async fn set_lock(&self, name: &str, lock: (LockMode, Moment)) -> Result<(), Error> {
        let (name, object) = (format!("{}{name}", self.root()), format!("{}/{name}", self.url));
        protection::set_lock(self.requests().await?, &name, lock, &object).await
    }
}

impl Connection {
    async fn client(&self) -> Result<&Client, Error> {
        self.client.get_or_try_init(|| self.connect()).await
    }

    /// Sends what OpenDAL has no request for.
    pub(super) async fn requests(&self) -> Result<&Arc<Requests>, Error> {
        Ok(&self.client().await?.requests)
    }

    /// The prefix of all keys of the place in its bucket.
    pub(super) fn root(&self) -> String {
        self.settings.root()
    }

    async fn connect(&self) -> Result<Client, Error> {
        let region = match &self.decided.region {
            Some(region) => region.clone(),
            None => {
                let asked = ask_region(&self.transport, &self.settings.bucket, &self.url).await;
                if self.settings.create_bucket { region_for(asked)? } else { asked? }
            }
        };
        if self.settings.create_bucket {
            let bucket = Bucket { settings: &self.settings, decided: &self.decided, region: &region, url: &self.url };
            bucket.make(&self.transport, choose(&self.settings, &self.environment)).await?;
        }
        let builder = build(&self.settings, &self.environment, &self.decided, &region, self.reason.clone()).await?;
        let operator =
            Operator::new(builder).map_err(|error| wrong(&self.url, error.message(), "check the settings"))?;
        let target = Target { bucket: &self.settings.bucket, decided: &self.decided, region: &region, url: &self.url };
        let source = choose(&self.settings, &self.environment);
        let requests = Requests::new(&self.transport, &target, source, self.reason.clone());
        let requests = Arc::new(match customer_key(&self.settings).await? {
            Some((algorithm, key)) => requests.with_customer_key(algorithm, &key),
            None => requests,
        });
        let transport = match self.settings.sse_kms_key_id {
            Some(_) => Parts::over(&requests),
            None => self.transport.clone(),
        };
        Ok(Client { operator: unbuffered(operator, &transport), requests })
    }
}

/// The store of a place as it was stored at a moment.
pub(crate) async fn open_past(
    settings: &S3Settings,
    at: Moment,
    environment: &Environment,
    policy: &Policy,
) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(AsStored::new(S3Store::connect(settings, environment, policy).await?, at)))
}

impl Connection {
    /// A connection for the settings. Checks the settings; makes no request.
    pub(crate) async fn new(
        settings: &S3Settings,
        environment: &Environment,
        policy: &Policy,
        url: &str,
    ) -> Result<Self, Error> {
        let decided = decide(settings, environment)?;
        let mut trust = Trust::of(settings.skip_verify, settings.ca_file.as_ref(), &settings.tls);
        trust.bundle = trust.bundle.or_else(|| environment.get(BUNDLE).map(|path| (BUNDLE, path.to_owned())));
        let transport = HttpTransporter::new(Transport {
            inner: ReqwestTransport::new(policy.connections.client(&trust, url)?),
            attempt: policy.attempt,
            slowest: policy.slowest,
            tigris: decided.provider.tigris,
            missing: transport::MISSING_IN_S3,
        });
        // If the first request needs the region or makes the bucket, connecting waits for it. Otherwise mistakes in the
        // settings show now.
        let asks = decided.region.is_none() || settings.create_bucket;
        let connection = Self {
            client: OnceCell::new(),
            transport,
            settings: settings.clone(),
            environment: environment.clone(),
            decided,
            url: url.to_owned(),
            reason: Reason::default(),
        };
        if !asks {
            connection.operator().await?;
        }
        Ok(connection)
    }
}

impl S3Store {
    /// Makes a store for the settings. Checks the settings; makes no request.
    pub async fn connect(settings: &S3Settings, environment: &Environment, policy: &Policy) -> Result<Self, Error> {
        settings.check()?;
        let url = settings.url();
        let connection = Connection::new(settings, environment, policy, &url).await?;
        Ok(Self::new(connection, url, settings.prefix.as_deref().unwrap_or_default()))
    }
}

async fn build(
    settings: &S3Settings,
    environment: &Environment,
    decided: &Decided,
    region: &str,
    reason: Reason,
) -> Result<S3, Error> {
    let mut builder = S3::default().root(&settings.path).bucket(&settings.bucket).region(region);
    builder = builder.endpoint(&decided.endpoint.clone().unwrap_or_else(|| amazon_server(region)));
    if decided.virtual_host {
        builder = builder.enable_virtual_host_style();
    }
    builder = match choose(settings, environment) {
        Source::Keys { id, key, token } => {
            builder = builder.access_key_id(id.reveal()).secret_access_key(key.reveal()).disable_config_load();
            token.iter().fold(builder, |builder, token| builder.session_token(token.reveal()))
        }
        Source::Files(files) => builder.credential_provider_chain(credentials::files(files, reason)),
        Source::Profile(name) => builder.credential_provider_chain(credentials::profile(&name, reason)),
        Source::Ambient => builder.credential_provider_chain(credentials::ambient(reason)),
    };
    if let Some(class) = &settings.storage_class {
        builder = builder.default_storage_class(class);
    }
    // Without checksums, a server may keep the bytes that came before a connection broke as the whole object.
    if settings.checksums.unwrap_or(!decided.provider.without_checksums) {
        builder = builder.checksum_algorithm("crc32c");
    }
    if let Some(key) = &settings.sse_kms_key_id {
        builder = builder.server_side_encryption_with_customer_managed_kms_key(key);
    }
    if let Some((algorithm, key)) = customer_key(settings).await? {
        builder = builder.server_side_encryption_with_customer_key(algorithm, &key);
    }
    Ok(builder)
}

/// The customer's key and its algorithm: 32 bytes, in base64 or in a file. The file may also hold the bytes themselves.
async fn customer_key(settings: &S3Settings) -> Result<Option<(&str, Vec<u8>)>, Error> {
    let algorithm = settings.sse_customer_algorithm.as_deref().unwrap_or("AES256");
    let (name, text) = match (&settings.sse_customer_key, &settings.sse_customer_key_path) {
        (None, None) => return Ok(None),
        (Some(key), _) => ("sse-customer-key", key.reveal().as_bytes().to_vec()),
        (None, Some(path)) => {
            let from = path.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read(from)).await;
            let unreadable = || wrong("sse-customer-key-path", "the file can't be read", "check the path");
            ("sse-customer-key-path", read.ok().and_then(Result::ok).ok_or_else(unreadable)?)
        }
    };
    if name == "sse-customer-key-path" && text.len() == 32 {
        return Ok(Some((algorithm, text)));
    }
    match STANDARD.decode(text.trim_ascii()) {
        Ok(key) if key.len() == 32 => Ok(Some((algorithm, key))),
        _ => Err(wrong(name, "this is no key of 32 bytes in base64", "make one: head -c32 /dev/urandom | base64")),
    }
}

/// Asks AWS where a bucket is: it answers that to everyone, also with a refusal.
async fn ask_region(transport: &HttpTransporter, bucket: &str, url: &str) -> Result<String, Error> {
    let away = |cause: String| Error::Unavailable { object: url.to_owned(), cause, retryable: true };
    let request = Request::head(format!("https://s3.amazonaws.com/{bucket}"))
        .body(Buffer::new())
        .map_err(|error| away(error.to_string()))?;
    let answer = transport.send(request).await;
    let answer =
        answer.map_err(|error| away(format!("the bucket's region can't be asked for: {}", error.message())))?;
    match answer.headers().get("x-amz-bucket-region").and_then(|value| value.to_str().ok()) {
        Some(region) => Ok(region.to_owned()),
        None if answer.status().as_u16() == 404 => {
            Err(Error::Missing { object: url.to_owned(), cause: "the bucket does not exist".to_owned() })
        }
        None => Err(wrong(url, "the bucket's region is not known", "give it: ?region=…, or AWS_REGION")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> S3Settings {
        match crate::VaultUrl::parse(url) {
            Ok(crate::VaultUrl::S3(settings)) => *settings,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn decisions() {
        let none = Environment::empty();
        // (URL, endpoint, region, bucket in the host name)
        for (url, endpoint, region, virtual_host) in [
            ("s3://b/p", None, None, true),
            ("s3://my.b/p", None, None, false),
            ("s3://b/p?forcePathStyle=true", None, None, false),
            ("s3://b/p?region=r", None, Some("r"), true),
            ("s3://b/p?endpoint=h", Some("https://h"), Some("us-east-1"), false),
            ("s3://b/p?endpoint=h&forcePathStyle=false", Some("https://h"), Some("us-east-1"), true),
            ("s3://b.localhost:9000/p", Some("http://localhost:9000"), Some("us-east-1"), false),
            ("s3://b/p?endpoint=t3.storage.dev", Some("https://t3.storage.dev"), Some("auto"), false),
            (
                "s3://b?endpoint=acc.r2.cloudflarestorage.com",
                Some("https://acc.r2.cloudflarestorage.com"),
                Some("auto"),
                false,
            ),
            (
                "s3://b/p?endpoint=s3.us-west-004.backblazeb2.com",
                Some("https://s3.us-west-004.backblazeb2.com"),
                Some("us-west-004"),
                false,
            ),
            (
                "s3://b/p?endpoint=https://ref.supabase.co/storage/v1/s3&region=eu-west-1",
                Some("https://ref.supabase.co/storage/v1/s3"),
                Some("eu-west-1"),
                false,
            ),
            (
                "s3://arn:aws:s3:eu-west-1:1:accesspoint/ap/p",
                Some("https://s3-accesspoint.eu-west-1.amazonaws.com"),
                Some("eu-west-1"),
                true,
            ),
        ] {
            let decided = decide(&settings(url), &none).expect(url);
            assert_eq!((decided.endpoint.as_deref(), decided.region.as_deref()), (endpoint, region), "{url}");
            assert_eq!(decided.virtual_host, virtual_host, "{url}");
        }
        assert!(decide(&settings("s3://my.b/p?forcePathStyle=false"), &none).is_err());
    }

    #[test]
    fn what_the_environment_adds() {
        let pairs = [("AWS_REGION", "from-env"), ("LITESTREAM_S3_ENDPOINT", "localhost:9000")];
        let environment: Environment = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let decided = decide(&settings("s3://b/p"), &environment).expect("decided");
        assert_eq!(decided.endpoint.as_deref(), Some("http://localhost:9000"));
        assert_eq!(decided.region.as_deref(), Some("from-env"));
        let decided = decide(&settings("s3://b/p?endpoint=h&region=r"), &environment).expect("decided");
        assert_eq!((decided.endpoint.as_deref(), decided.region.as_deref()), (Some("https://h"), Some("r")));
    }

    #[tokio::test]
    async fn nothing_shows_a_secret() {
        let environment = Environment::empty();
        let settings = settings("s3://AKID:hunter2@b/p?endpoint=localhost:9");
        let store = S3Store::connect(&settings, &environment, &Policy::default()).await.expect("connects lazily");
        assert!(!format!("{store:?} {store:#?}").contains("hunter2"));
    }
}
