//! Turns text into a place, and a place into a store. Text is parsed once, here, into a type that can't hold an invalid
//! place.
//!
//! Secrets in a URL are accepted and never shown: not by `Display`, not by `Debug`, not by an error.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use seawall_core::Moment;

use crate::place::{PlaceSettings, shown};
use crate::stores::abs::settings::AbsSettings;
use crate::stores::b2::settings::B2Settings;
use crate::stores::gs::settings::GsSettings;
use crate::stores::nats::settings::NatsSettings;
use crate::stores::oss::settings::OssSettings;
use crate::stores::s3::settings::S3Settings;
use crate::stores::sftp::settings::SftpSettings;
use crate::stores::webdav::settings::WebdavSettings;
use crate::stores::{abs, b2, file, gs, nats, oss, s3, sftp, webdav};
use crate::text::{unknown, wrong};
use crate::{
    AbsStore, B2Store, Environment, Error, FileStore, GsStore, NatsStore, OssStore, Policy, S3Store, Scheme, SftpStore,
    Store, WebdavStore,
};

macro_rules! places {
    ($($(#[$doc:meta])* $kind:ident: $settings:ty, read by $module:ident::url, opened as $store:ty;)*) => {
        /// A place, parsed.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum VaultUrl {
            /// A folder.
            File(PathBuf),
            $($(#[$doc])* $kind(Box<$settings>),)*
        }

        impl VaultUrl {
            /// Reads the `rest` after the scheme. `typed` is the scheme in lower case, `text` the whole for messages.
            fn read(scheme: Scheme, typed: &str, rest: &str, text: &str) -> Result<Self, Error> {
                match scheme {
                    Scheme::File => file::url::parse(rest, text).map(Self::File),
                    $(Scheme::$kind => $module::url::parse(typed, rest).map(|settings| Self::$kind(Box::new(settings))),)*
                }
            }

            /// The kind of store that it names.
            pub fn scheme(&self) -> Scheme {
                match self {
                    Self::File(_) => Scheme::File,
                    $(Self::$kind(_) => Scheme::$kind,)*
                }
            }

            /// What is said about a place in a store with a server; a folder has no settings.
            pub fn settings(&self) -> Option<&dyn PlaceSettings> {
                match self {
                    Self::File(_) => None,
                    $(Self::$kind(settings) => Some(&**settings),)*
                }
            }

            /// The same, to change it.
            pub fn settings_mut(&mut self) -> Option<&mut dyn PlaceSettings> {
                match self {
                    Self::File(_) => None,
                    $(Self::$kind(settings) => Some(&mut **settings),)*
                }
            }

            /// The store of the place as it is.
            async fn connect(&self, environment: &Environment, policy: &Policy) -> Result<Arc<dyn Store>, Error> {
                Ok(match self {
                    Self::File(path) => Arc::new(match &policy.notes {
                        Some(notes) => FileStore::remembering(path, notes.clone(), policy.notes_in_own_folder),
                        None => FileStore::new(path),
                    }),
                    $(Self::$kind(settings) => Arc::new(<$store>::connect(settings, environment, policy).await?),)*
                })
            }
        }
    };
}

// To add a kind, add a line here.
places! {
    /// A prefix in a container of Azure.
    Abs: AbsSettings, read by abs::url, opened as AbsStore;
    /// A prefix in a bucket of Backblaze B2.
    B2: B2Settings, read by b2::url, opened as B2Store;
    /// A prefix in a bucket of Google Cloud Storage.
    Gs: GsSettings, read by gs::url, opened as GsStore;
    /// A part of a bucket of the object store of NATS JetStream.
    Nats: NatsSettings, read by nats::url, opened as NatsStore;
    /// A prefix in a bucket of Alibaba Cloud.
    Oss: OssSettings, read by oss::url, opened as OssStore;
    /// A prefix in a bucket of S3, or of a server that speaks its protocol.
    S3: S3Settings, read by s3::url, opened as S3Store;
    /// A folder on an SFTP server.
    Sftp: SftpSettings, read by sftp::url, opened as SftpStore;
    /// A folder on a WebDAV server.
    Webdav: WebdavSettings, read by webdav::url, opened as WebdavStore;
}

impl VaultUrl {
    /// Reads what a user typed: a path, `file:///path`, or `s3://…` in all of Litestream's forms.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let shown = redact(text);
        let located = |error: Error| match error {
            Error::InvalidUrl { object, cause, next } if object != shown => {
                Error::InvalidUrl { object: shown.clone(), cause: format!("{object}: {cause}"), next }
            }
            error => error,
        };
        if text.chars().any(char::is_control) {
            return Err(wrong(&shown, "it holds a control character", "remove it"));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return bare(text);
        };
        let scheme = scheme.to_ascii_lowercase();
        match Scheme::named(&scheme) {
            Some(kind) => Self::read(kind, &scheme, rest, &shown).map_err(located),
            None => Err(located(unknown("scheme", &scheme, &Scheme::known()))),
        }
    }

    /// The store. Checks what can be checked without a request.
    pub(crate) async fn open(&self, environment: &Environment, policy: &Policy) -> Result<Arc<dyn Store>, Error> {
        if let Self::S3(settings) = self
            && let Some(at) = settings.as_stored_at
        {
            return s3::open_past(settings, at, environment, policy).await;
        }
        self.connect(environment, policy).await
    }

    /// The same place, read only, with each object as it was stored at `at`: objects that were written over or deleted later are
    /// there, later ones aren't. The bucket must keep versions.
    ///
    /// # Errors
    /// [`Error::NoVersions`] for a kind of place whose versions Seawall doesn't read.
    pub fn as_stored_at(&self, at: Moment) -> Result<Self, Error> {
        match self {
            Self::S3(settings) => Ok(Self::S3(Box::new(S3Settings { as_stored_at: Some(at), ..(**settings).clone() }))),
            _ => {
                let cause = format!(
                    "versions of objects are read in buckets of S3 only, and this place is `{}`",
                    self.scheme()
                );
                Err(Error::NoVersions { object: self.to_string(), cause })
            }
        }
    }

    /// Whether the place is shown as it was stored at a moment.
    pub fn is_past(&self) -> bool {
        matches!(self, Self::S3(settings) if settings.as_stored_at.is_some())
    }

    /// The prefix of all objects' names in the store itself: empty, or with a `/` at the end.
    pub fn root(&self) -> String {
        self.settings().map(PlaceSettings::root).unwrap_or_default()
    }

    /// The place `below` this one, for a database of a folder of databases.
    pub fn join(&self, below: &str) -> Result<Self, Error> {
        let relative = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
        if below.is_empty() || !relative || below.chars().any(char::is_control) {
            return Err(wrong(&below.escape_debug().to_string(), "this leads elsewhere", "use a plain relative path"));
        }
        let mut joined = self.clone();
        match &mut joined {
            Self::File(path) => path.push(below),
            place => {
                if let Some(settings) = place.settings_mut() {
                    let path = format!("{}/{below}", settings.path());
                    settings.set("path", &path)?;
                    settings.check()?;
                }
            }
        }
        Ok(joined)
    }
}

impl FromStr for VaultUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl fmt::Display for VaultUrl {
    /// The URL without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) if path.is_absolute() => write!(f, "file://{}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            place => match place.settings() {
                Some(settings) => f.write_str(&shown(&settings.url(), settings.endpoint())),
                None => Ok(()),
            },
        }
    }
}

/// A URL that is safe to show before it is parsed: without user part and query.
fn redact(text: &str) -> String {
    let (plain, query) = text.split_once('?').map_or((text, ""), |(plain, _)| (plain, "?…"));
    let plain = match plain.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, rest)) => format!("{scheme}://…@{rest}"),
            None => format!("{scheme}://{rest}"),
        },
        None => plain.to_owned(),
    };
    let shown: String = plain.chars().take(200).collect();
    format!("{}{query}", shown.escape_debug())
}

fn bare(text: &str) -> Result<VaultUrl, Error> {
    if text.is_empty() {
        return Err(wrong(
            "vault",
            "there is no place",
            "give a folder, file:///path, s3://bucket/path or abs://account@container/path",
        ));
    }
    // A scheme without its slashes must not become a folder of that name. The rest may hold a secret.
    if let Some((scheme, _)) = text.split_once(':')
        && Scheme::named(scheme).is_some()
    {
        let next = format!("write {scheme}://…, or ./{scheme}:… for a folder");
        return Err(wrong(&format!("{scheme}:…"), "the slashes behind the scheme are missing", &next));
    }
    Ok(VaultUrl::File(text.into()))
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
