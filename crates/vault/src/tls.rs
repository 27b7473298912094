//! Certificates: the authorities that a connection trusts, and the certificate that it presents.

use crate::Secret;

/// Certificates or a key in PEM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pem {
    /// In a file.
    File(String),
    /// As it is.
    Text(Secret),
}

/// The authorities that a connection trusts, and the certificate that it presents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tls {
    /// The trusted authorities; `None` means the system's.
    pub authorities: Option<Pem>,
    /// Believe the system's authorities besides.
    pub system_too: bool,
    /// A certificate of the client with its key.
    pub identity: Option<(Pem, Pem)>,
}
