//! A transport that signs each request before it is sent.

use http::{Request, Response};
use opendal_core::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use reqsign_aliyun_oss::Credential;
use reqsign_core::Signer;

use crate::stores::cloud::transport::Transport;

/// HTTP with deadlines and signatures.
pub(super) struct Signing {
    pub(super) inner: Transport,
    pub(super) signer: Signer<Credential>,
}

impl HttpTransport for Signing {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (mut head, body) = request.into_parts();
        let signed = self.signer.sign(&mut head, None).await;
        signed.map_err(|error| Error::new(ErrorKind::Unexpected, "the request can't be signed").set_source(error))?;
        self.inner.fetch(Request::from_parts(head, body)).await
    }
}
