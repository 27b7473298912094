//! A vault: a place that keeps objects, named by a URL.
//!
//! Engines use [`Vault`] and nothing else of this crate. A [`Vault`] uses any [`Store`] (one raw attempt per call) and
//! adds what must be the same everywhere: deadlines, classified retry, settlement of ambiguous answers, bandwidth,
//! counting, and reads that resume. Only [`VaultUrl`] turns text into a store.
//!
//! The arrows: `scheme` (the list of kinds), `url` (text) -> `stores` (a folder for each kind) -> `store` (the
//! contract) <- `vault`, `reading`, `upload` (the facade) with `retry`, `settle`, `throttle`, `counts`. `sealed` is a
//! store over a store, which encrypts. Stores with a server share `connections`, `tls` and `secret`. `limits` decides what
//! a place lacks, `trial` tries a place out for people.
//!
//! ```
//! use bytes::Bytes;
//! use seawall_vault::{Created, Environment, ObjectKey, Policy, Vault, VaultUrl};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), seawall_vault::Error> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let text = folder.path().display().to_string();
//! let vault = Vault::open(&VaultUrl::parse(&text)?, &Environment::empty(), Policy::default()).await?;
//! let key = ObjectKey::new("ltx/0/0000000000000001-0000000000000001.ltx")?;
//! assert_eq!(vault.create(&key, Bytes::from("with a nonce"), None).await?, Created::Fresh);
//! // The answer was lost? The same again is adopted; another's object would be refused.
//! assert_eq!(vault.create(&key, Bytes::from("with a nonce"), None).await?, Created::Adopted);
//! assert_eq!(vault.read(&key, None, 1 << 20).await?, "with a nonce");
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "testing")]
pub mod conformance;
mod connections;
mod counts;
mod digest;
mod environment;
mod error;
mod expiry;
pub mod fuzzing;
mod key;
mod limits;
mod place;
mod protection;
mod reading;
mod retry;
mod scheme;
mod sealed;
mod secret;
mod settle;
pub mod several;
mod store;
mod stores;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod throttle;
mod tls;
pub mod trial;
mod trouble;
mod upload;
mod url;
mod vault;

/// What [`Connections::plain`] gives.
pub use reqwest::Client as HttpClient;

pub use connections::Connections;
pub use counts::Operation;
pub use digest::{Digest, Digester, NoDigest};
pub use environment::Environment;
pub use error::Error;
pub use key::{ObjectKey, Prefix};
pub use limits::Capabilities;
pub use place::PlaceSettings;
pub use protection::{Lock, LockMode, Protection};
pub use retry::Policy;
pub use scheme::Scheme;
pub use sealed::{
    Access, Fault, HostKeys, Identities, NoPrompt, Prompt, Recipients, SealedStore, Sealing, canary, rekey,
};
pub use secret::Secret;
pub use store::{Abilities, Body, Condition, Entry, Meta, Multipart, Noted, Page, PassedOver, PutOptions, Store, Tag};
pub use stores::abs::AbsStore;
pub use stores::abs::settings::AbsSettings;
pub use stores::b2::B2Store;
pub use stores::b2::settings::B2Settings;
pub use stores::file::FileStore;
pub use stores::gs::GsStore;
pub use stores::gs::settings::GsSettings;
pub use stores::nats::NatsStore;
pub use stores::nats::settings::NatsSettings;
pub use stores::oss::OssStore;
pub use stores::oss::settings::OssSettings;
pub use stores::s3::S3Store;
pub use stores::s3::settings::S3Settings;
pub use stores::sftp::settings::SftpSettings;
pub use stores::sftp::{Root, SftpStore};
pub use stores::webdav::WebdavStore;
pub use stores::webdav::settings::WebdavSettings;
pub use stores::{memory, simulated};
pub use throttle::Throttle;
pub use tls::{Pem, Tls};
pub use trouble::Trouble;
pub use upload::Upload;
pub use url::VaultUrl;
pub use vault::{Created, Vault};
