//! A transport that signs each request before it is sent, and completes what OpenDAL leaves out.

use http::header::CONTENT_DISPOSITION;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use opendal_core::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use reqsign_aliyun_oss::Credential;
use reqsign_core::Signer;

use crate::stores::cloud::transport::Transport;

/// The name of the metadata that holds an object's logical time; Litestream's.
pub(super) const STAMP: &str = "litestream-timestamp";

/// HTTP with deadlines and signatures.
pub(super) struct Signing {
    pub(super) inner: Transport,
    pub(super) signer: Signer<Credential>,
}

impl HttpTransport for Signing {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (mut head, body) = request.into_parts();
        move_stamp(&mut head.headers);
        let signed = self.signer.sign(&mut head, None).await;
        signed.map_err(|error| Error::new(ErrorKind::Unexpected, "the request can't be signed").set_source(error))?;
        self.inner.fetch(Request::from_parts(head, body)).await
    }
}

/// Gives the metadata their own header. OpenDAL begins an upload in parts without metadata, and with this header.
fn move_stamp(headers: &mut HeaderMap) {
    let stamp = headers.remove(CONTENT_DISPOSITION);
    let stamp = stamp.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix(STAMP)?.strip_prefix('='));
    if let Some(value) = stamp.and_then(|stamp| HeaderValue::from_str(stamp).ok()) {
        headers.insert(HeaderName::from_static("x-oss-meta-litestream-timestamp"), value);
    }
}
