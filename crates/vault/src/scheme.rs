//! The list of the kinds of stores. To add a kind, begin with a line here. The compiler then names each place that must
//! handle it.

use std::fmt;

macro_rules! schemes {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// A kind of store, by the scheme of its URLs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Scheme {
            $($(#[$doc])* $kind,)*
        }

        impl Scheme {
            /// All kinds of stores that are built.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The scheme as URLs have it. The folder of the store's code has the same name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

schemes! {
    /// A folder of this machine.
    File = "file",
    /// A container of Azure Blob Storage.
    Abs = "abs",
    /// A bucket of Backblaze B2.
    B2 = "b2",
    /// A bucket of Google Cloud Storage.
    Gs = "gs",
    /// A bucket of the object store of NATS JetStream.
    Nats = "nats",
    /// A bucket of Alibaba Cloud.
    Oss = "oss",
    /// A bucket of S3, or of a server that speaks its protocol.
    S3 = "s3",
    /// A folder on an SFTP server.
    Sftp = "sftp",
    /// A folder on a WebDAV server.
    Webdav = "webdav",
}

impl Scheme {
    /// The kind with that scheme, in lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = match name {
            "az" => "abs",
            "webdavs" => "webdav",
            name => name,
        };
        Self::ALL.iter().copied().find(|scheme| scheme.as_str() == name)
    }

    /// All schemes.
    pub(crate) fn known() -> Vec<&'static str> {
        Self::ALL.iter().map(|scheme| scheme.as_str()).collect()
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
