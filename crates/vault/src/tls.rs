//! Certificates: whom a connection believes, and what it shows of itself.

use crate::Secret;

/// Certificates or a key in PEM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pem {
    /// In a file.
    File(String),
    /// As it is.
    Text(Secret),
}

/// Whom a connection believes, and what it shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tls {
    /// Authorities that are believed; `None` is the system's.
    pub authorities: Option<Pem>,
    /// Believe the system's authorities besides.
    pub system_too: bool,
    /// A certificate of the client with its key.
    pub identity: Option<(Pem, Pem)>,
}
