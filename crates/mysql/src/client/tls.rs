//! TLS as `ssl-mode` asks for it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::TlsConnector;

use super::connection::Wire;
use super::encryption::{self, TlsMode, Trust};
use super::target::{Host, Target};
use super::url::wrong;
use crate::Error;

/// Encrypts a connection.
pub(super) async fn begin(target: &Target, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>, Error> {
    let roots = roots(target)?;
    let connector = TlsConnector::from(Arc::new(config(target, roots.as_deref())?));
    let name = match &target.host {
        Host::Socket(_) => "localhost",
        Host::Tcp(name) => name,
    };
    let name = ServerName::try_from(name.to_owned()).map_err(|_| {
        wrong("host", "this is no name that a certificate can have", "name the server as its certificate does")
    })?;
    let stream = connector.connect(name, wire).await.map_err(|error| failed(target, roots.as_deref(), &error))?;
    Ok(Box::new(stream))
}

/// The file of the certificates that may sign the server's, if any is asked for.
fn roots(target: &Target) -> Result<Option<PathBuf>, Error> {
    match encryption::trust(target.tls, target.authority.as_ref())? {
        Trust::Anyone => Ok(None),
        Trust::File(file) => Ok(Some(file)),
        Trust::System => {
            let file = target.system_certificates.clone().or_else(|| openssl_probe::probe().cert_file);
            file.map(Some).ok_or_else(|| {
                let next = "name the file of the certificates that sign the server's in ssl-ca";
                wrong("ssl-ca", "the system's certificates are in no file that is known", next)
            })
        }
    }
}

/// Why TLS failed: a fault of the certificate, or another error.
fn failed(target: &Target, roots: Option<&Path>, error: &std::io::Error) -> Error {
    let server = target.to_string();
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return Error::connection(server, error);
    };
    let (code, next) = match tls {
        rustls::Error::InvalidCertificate(wrong) => ("mysql.certificate", advice(wrong, target.tls, roots)),
        rustls::Error::NoCertificatesPresented => ("mysql.certificate", "give the server a certificate".to_owned()),
        _ => ("mysql.tls", "give the server TLS 1.2 or 1.3 with a cipher of the kind ECDHE (tls_version, ssl_cipher); old builds have none".to_owned()),
    };
    Error::Tls { code, server, cause: tls.to_string(), next }
}

/// Advice for a wrong certificate.
fn advice(wrong: &CertificateError, mode: TlsMode, roots: Option<&Path>) -> String {
    let asked = roots.map_or(String::new(), |file| format!(" (asked was {})", file.display()));
    match wrong {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that the certificate has, or give ssl-mode=VERIFY_CA with ssl-ca, which doesn't look at the name"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate, or set this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "set this machine's clock, or wait until the certificate is valid".to_owned()
        }
        _ => format!(
            "name the certificate of the authority that signed the server's in ssl-ca{asked}; ssl-mode={} asks for it",
            mode.name()
        ),
    }
}

/// The TLS configuration of a target.
fn config(target: &Target, roots: Option<&Path>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let chain = roots.map(|file| from_file(file, &provider)).transpose()?;
    let verifier = Checked { chain, name: target.tls == TlsMode::VerifyIdentity, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::Internal(format!("TLS: {error}")))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let Some((certificate, key)) = &target.identity else { return Ok(builder.with_no_client_auth()) };
    let unusable = |name: &str, file: &Path, cause: String| {
        wrong(name, &format!("{}: {cause}", file.display()), "name files in PEM")
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unusable("ssl-cert", certificate, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("ssl-key", key, error.to_string()))?;
    builder.with_client_auth_cert(chain, private).map_err(|error| unusable("ssl-cert", certificate, error.to_string()))
}

fn from_file(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Chain, Error> {
    let unusable = |cause: String| Error::Url {
        object: "ssl-ca".to_owned(),
        cause: format!("{}: {cause}", file.display()),
        next: "name a file with the certificates that sign the server's, in PEM".to_owned(),
    };
    let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    let mut roots = RootCertStore::empty();
    // A certificate that can't be parsed is skipped.
    roots.add_parsable_certificates(certificates.iter().cloned());
    if roots.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| unusable(error.to_string()))?;
    Ok(Chain { certificates, verifier })
}

/// Who may sign.
#[derive(Debug)]
struct Chain {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Chain {
    /// Checks signatures and dates, and then the name.
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let verified =
            self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now).map(drop);
        match &verified {
            // A self-signed certificate that is in the file itself. This error comes after
            // the check of its dates.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
                if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
                    && self.certificates.iter().any(|own| own == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
            }
            _ => verified,
        }
    }
}

/// Checks as much of the certificate as the mode asks for.
#[derive(Debug)]
struct Checked {
    /// Without a chain, any certificate is accepted.
    chain: Option<Chain>,
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Checked {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain was checked before the name.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name => {}
            verified => verified?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.chain.is_none() {
            // Without a chain the signature proves nothing, because an attacker with a made-up certificate can sign
            // too. Certificates of X.509's first version can't be checked.
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.chain.is_none() {
            // Without a chain the signature proves nothing, because an attacker with a made-up certificate can sign
            // too. Certificates of X.509's first version can't be checked.
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// A self-signed certificate for a name that is marked as an authority's, as `openssl req -x509` makes one.
    fn own(name: &str, last_year: i32) -> rcgen::Certificate {
        let mut parameters = CertificateParams::new([name.to_owned()]).expect("a name");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(last_year, 1, 1);
        parameters.self_signed(&KeyPair::generate().expect("a key")).expect("signed")
    }

    #[test]
    fn a_certificate_that_signed_itself_is_believed_where_it_is_named_itself() {
        let (right, other, expired) = (own("db", 2090), own("db", 2090), own("db", 2021));
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        for (certificate, named, name, mode, believed) in [
            (&right, &right, "db", TlsMode::VerifyIdentity, true),
            (&right, &right, "other", TlsMode::VerifyIdentity, false),
            (&right, &right, "other", TlsMode::VerifyCa, true),
            (&right, &other, "db", TlsMode::VerifyIdentity, false),
            (&right, &other, "db", TlsMode::VerifyCa, false),
            (&expired, &expired, "db", TlsMode::VerifyCa, false),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), named.pem()).expect("written");
            let provider = Arc::new(ring::default_provider());
            let chain = Some(from_file(file.path(), &provider).expect("a chain"));
            let checked = Checked { chain, name: mode == TlsMode::VerifyIdentity, provider };
            let server = ServerName::try_from(name).expect("a name");
            let verified = checked.verify_server_cert(certificate.der(), &[], &server, &[], now);
            assert_eq!(verified.is_ok(), believed, "{name} {mode:?}: {verified:?}");
        }
    }
}
