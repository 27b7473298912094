//! TLS as `ssl-mode` asks for it.

use std::path::{Path, PathBuf};

use seawall_net::tls::{self, Demands, Failure, Fault, Settings, Unusable};

use super::connection::Wire;
use super::encryption::{self, TlsMode, Trust};
use super::target::{Host, Target};
use super::url::wrong;
use crate::Error;

/// Encrypts a connection.
pub(super) async fn begin(target: &Target, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>, Error> {
    let roots = roots(target)?;
    let name = match &target.host {
        Host::Socket(_) => "localhost",
        Host::Tcp(name) => name,
    };
    let demands = Demands {
        roots: roots.as_deref(),
        checks_name: target.tls == TlsMode::VerifyIdentity,
        identity: target.identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path())),
    };
    match demands.encrypt(name, wire).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(Failure::Unusable(unusable)) => Err(refused(unusable)),
        Err(Failure::Handshake(error)) => Err(failed(target, roots.as_deref(), &error)),
    }
}

/// The file of the certificates that may sign the server's, if any is asked for.
fn roots(target: &Target) -> Result<Option<PathBuf>, Error> {
    match encryption::trust(target.tls, target.authority.as_ref())? {
        Trust::Anyone => Ok(None),
        Trust::File(file) => Ok(Some(file)),
        Trust::System => {
            target.system_certificates.clone().or_else(tls::system_certificates).map(Some).ok_or_else(|| {
                let next = "name the file of the certificates that sign the server's in ssl-ca";
                wrong("ssl-ca", "the system's certificates are in no file that is known", next)
            })
        }
    }
}

/// The error for a setting that TLS can't use.
fn refused(unusable: Unusable) -> Error {
    match unusable {
        Unusable::Roots(cause) => {
            wrong("ssl-ca", &cause, "name a file with the certificates that sign the server's, in PEM")
        }
        Unusable::Certificate(cause) => wrong("ssl-cert", &cause, "name files in PEM"),
        Unusable::Key(cause) => wrong("ssl-key", &cause, "name files in PEM"),
        Unusable::Name => {
            wrong("host", "this is no name that a certificate can have", "name the server as its certificate does")
        }
        Unusable::Internal(cause) => Error::Internal(cause),
    }
}

/// Why TLS failed: a fault of the certificate, or another error.
fn failed(target: &Target, roots: Option<&Path>, error: &std::io::Error) -> Error {
    let server = target.to_string();
    let Some((fault, cause)) = tls::fault(error) else { return Error::connection(server, error) };
    let asked = format!("ssl-mode={}", target.tls.name());
    let settings = Settings { roots: "ssl-ca", without_name: "ssl-mode=VERIFY_CA with ssl-ca", asked: &asked };
    let (code, next) = match fault {
        Fault::Certificate(wrong) => ("mysql.certificate", tls::advice(&wrong, settings, roots)),
        Fault::NoCertificate => ("mysql.certificate", "give the server a certificate".to_owned()),
        Fault::Other => ("mysql.tls", "give the server TLS 1.2 or 1.3 with a cipher of the kind ECDHE (tls_version, ssl_cipher); old builds have none".to_owned()),
    };
    Error::Tls { code, server, cause, next }
}
