//! TLS to a server whose certificate is checked as strictly as the user asks: not at all, its chain, or its chain and its name.
//! The certificates that may sign it come from a file; a self-signed certificate in that file is believed too.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What a connection asks of TLS.
#[derive(Debug, Clone, Copy)]
pub struct Demands<'a> {
    /// The file of the certificates, in PEM, that may sign the server's. Without it any certificate is accepted.
    pub roots: Option<&'a Path>,
    /// Whether the certificate must have the server's name.
    pub checks_name: bool,
    /// The files of our own certificate and its key, in PEM, where the server asks for one.
    pub identity: Option<(&'a Path, &'a Path)>,
}

/// What can't be used; the text names the file and the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The certificates that may sign the server's.
    Roots(String),
    /// Our own certificate.
    Certificate(String),
    /// Its key.
    Key(String),
    /// The server's name can't be in a certificate.
    Name,
    /// A defect of this program.
    Internal(String),
}

/// Why an encrypted connection can't be had.
#[derive(Debug)]
pub enum Failure {
    /// Something that the user named.
    Unusable(Unusable),
    /// The handshake; see [`fault`].
    Handshake(std::io::Error),
}

impl Demands<'_> {
    /// Encrypts a connection to the server of a name.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn encrypt<Wire: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &str,
        wire: Wire,
    ) -> Result<TlsStream<Wire>, Failure> {
        let connector = TlsConnector::from(Arc::new(self.config().map_err(Failure::Unusable)?));
        let name = ServerName::try_from(name.to_owned()).map_err(|_| Failure::Unusable(Unusable::Name))?;
        connector.connect(name, wire).await.map_err(Failure::Handshake)
    }

    fn config(&self) -> Result<ClientConfig, Unusable> {
        let provider = Arc::new(ring::default_provider());
        let chain = self.roots.map(|file| from_file(file, &provider)).transpose()?;
        let verifier = Checked { chain, name: self.checks_name, provider: Arc::clone(&provider) };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Unusable::Internal(format!("TLS: {error}")))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let Some((certificate, key)) = self.identity else { return Ok(builder.with_no_client_auth()) };
        let wrong = |file: &Path, cause: &dyn std::fmt::Display| format!("{}: {cause}", file.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| Unusable::Certificate(wrong(certificate, &error)))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| Unusable::Key(wrong(key, &error)))?;
        let config = builder.with_client_auth_cert(chain, private);
        config.map_err(|error| Unusable::Certificate(wrong(certificate, &error)))
    }
}

/// The file of the system's certificates, if it is known.
pub fn system_certificates() -> Option<PathBuf> {
    openssl_probe::probe().cert_file
}

/// Why a handshake failed, if TLS is the cause and not the network.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The server's certificate, and what is wrong with it.
    Certificate(CertificateError),
    /// The server has none.
    NoCertificate,
    /// Versions, ciphers and the rest.
    Other,
}

/// The fault of a failed handshake with its text; `None` where the network failed.
pub fn fault(error: &std::io::Error) -> Option<(Fault, String)> {
    let tls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let fault = match tls {
        rustls::Error::InvalidCertificate(wrong) => Fault::Certificate(wrong.clone()),
        rustls::Error::NoCertificatesPresented => Fault::NoCertificate,
        _ => Fault::Other,
    };
    Some((fault, tls.to_string()))
}

/// How a kind of server names the settings that advice speaks of.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The file of the certificates that may sign the server's.
    pub roots: &'a str,
    /// The settings that check the chain and not the name.
    pub without_name: &'a str,
    /// The setting that asks for the check that failed.
    pub asked: &'a str,
}

/// The next thing to do about a wrong certificate that was held against the certificates of a file.
pub fn advice(wrong: &CertificateError, settings: Settings<'_>, file: Option<&Path>) -> String {
    let Settings { roots, without_name, asked } = settings;
    let held = file.map_or(String::new(), |file| format!(" (asked was {})", file.display()));
    match wrong {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "connect by a name that the certificate has, or give {without_name}, which doesn't look at the name"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew the server's certificate, or set this machine's clock".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "set this machine's clock, or wait until the certificate is valid".to_owned()
        }
        _ => format!(
            "name the certificate of the authority that signed the server's in {roots}{held}; {asked} asks for it"
        ),
    }
}

fn from_file(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Chain, Unusable> {
    let unusable = |cause: String| Unusable::Roots(format!("{}: {cause}", file.display()));
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

/// The certificates that may sign the server's.
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
            // A self-signed certificate that is in the file itself, as in the servers' manuals. This error comes after
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

/// Checks as much of the certificate as the user asks for.
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
        for (certificate, named, name, checks_name, believed) in [
            (&right, &right, "db", true, true),
            (&right, &right, "other", true, false),
            (&right, &right, "other", false, true),
            (&right, &other, "db", true, false),
            (&right, &other, "db", false, false),
            (&expired, &expired, "db", false, false),
        ] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), named.pem()).expect("written");
            let provider = Arc::new(ring::default_provider());
            let chain = Some(from_file(file.path(), &provider).expect("a chain"));
            let checked = Checked { chain, name: checks_name, provider };
            let server = ServerName::try_from(name).expect("a name");
            let verified = checked.verify_server_cert(certificate.der(), &[], &server, &[], now);
            assert_eq!(verified.is_ok(), believed, "{name} {checks_name}: {verified:?}");
        }
    }
}
