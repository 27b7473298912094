//! TLS as `sslmode` asks for it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};

use seawall_net::tls::{self, Demands, Failure, Fault, Settings, Unusable};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::encryption::{self, TlsMode, Trust};
use super::target::Target;
use super::url::wrong;
use crate::Error;

/// Encrypts a connection to the server of a name.
pub(super) async fn begin(target: &Target, name: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, Error> {
    let roots = roots(target)?;
    let checks_name = target.tls == TlsMode::VerifyFull;
    let demands = Demands { roots: roots.as_deref(), checks_name, identity: None };
    demands.encrypt(name, stream).await.map_err(|failure| match failure {
        Failure::Unusable(unusable) => refused(unusable),
        Failure::Handshake(error) => failed(target, roots.as_deref(), &error),
    })
}

/// The file of the certificates that may sign the server's, if any is asked for.
pub(super) fn roots(target: &Target) -> Result<Option<PathBuf>, Error> {
    if target.is_local() {
        return Ok(None);
    }
    match encryption::trust(target.tls, &target.roots, |file| std::fs::metadata(file).is_ok())? {
        Trust::Anyone => Ok(None),
        Trust::File(file) => Ok(Some(file)),
        Trust::System => {
            target.system_certificates.clone().or_else(tls::system_certificates).map(Some).ok_or_else(|| {
                let next = "name the file of the certificates that sign the server's in sslrootcert";
                wrong("sslrootcert", "the system's certificates are in no file that is known", next)
            })
        }
    }
}

/// The error for a setting that TLS can't use.
fn refused(unusable: Unusable) -> Error {
    match unusable {
        Unusable::Roots(cause) => {
            wrong("sslrootcert", &cause, "name a file with the certificates that sign the server's, in PEM")
        }
        Unusable::Name => {
            wrong("host", "this is no name that a certificate can have", "name the server as its certificate does")
        }
        Unusable::Certificate(cause) | Unusable::Key(cause) | Unusable::Internal(cause) => Error::Internal(cause),
    }
}

/// Why TLS failed: a fault of the certificate, or another error.
fn failed(target: &Target, roots: Option<&Path>, error: &std::io::Error) -> Error {
    let server = target.to_string();
    let Some((fault, cause)) = tls::fault(error) else { return Error::connection(server, error) };
    let asked = format!("sslmode={}", target.tls.name());
    let settings = Settings { roots: "sslrootcert", without_name: "sslmode=verify-ca with sslrootcert", asked: &asked };
    let (code, next) = match fault {
        Fault::Certificate(wrong) => ("postgres.certificate", tls::advice(&wrong, settings, roots)),
        Fault::NoCertificate => ("postgres.certificate", "give the server a certificate".to_owned()),
        Fault::Other => {
            ("postgres.tls", "see what TLS the server has (ssl_min_protocol_version, ssl_ciphers)".to_owned())
        }
    };
    Error::Tls { code, server, cause, next }
}
