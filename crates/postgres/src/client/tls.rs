//! TLS as `sslmode` asks for it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use rustls_platform_verifier::Verifier;

use super::target::{Host, Target, TlsMode};
use crate::Error;

/// What `target` asks for.
pub(crate) fn config(target: &Target) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: rustls::Error| Error::Url {
        object: "TLS".to_owned(),
        cause: error.to_string(),
        next: "check sslrootcert".to_owned(),
    };
    let chain: Option<Arc<dyn ServerCertVerifier>> = match (target.tls, &target.root_certificates) {
        (TlsMode::VerifyCa | TlsMode::VerifyFull, None) => {
            Some(Arc::new(Verifier::new(Arc::clone(&provider)).map_err(wrong)?))
        }
        (TlsMode::VerifyCa | TlsMode::VerifyFull, Some(file)) => Some(from_file(file, &provider)?),
        _ => None,
    };
    let verifier =
        Arc::new(Checked { chain, name: target.tls == TlsMode::VerifyFull, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(wrong)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The name that the certificate must have.
pub(crate) fn server_name(target: &Target) -> Result<ServerName<'static>, Error> {
    let Host::Tcp(host) = &target.host else { return Err(Error::Internal("TLS over a socket".to_owned())) };
    ServerName::try_from(host.clone()).map_err(|_| Error::Url {
        object: "host".to_owned(),
        cause: "this is no name that a certificate can have".to_owned(),
        next: "name the server as its certificate does".to_owned(),
    })
}

fn from_file(file: &std::path::Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let unreadable = |cause: String| Error::Io { path: file.display().to_string(), cause };
    let pem = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
    }
    let builder = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = builder.build().map_err(|error| unreadable(error.to_string()))?;
    Ok(verifier)
}

/// Checks as much of the certificate as the mode asks for.
#[derive(Debug)]
struct Checked {
    /// Without one any certificate will do.
    chain: Option<Arc<dyn ServerCertVerifier>>,
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
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain was checked before the name.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
