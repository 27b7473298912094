//! The requests of an upload in parts, where objects are encrypted with a key of AWS KMS.
//!
//! S3 takes the key with the request that begins the upload. It refuses the same header on a part or on the completion ("not
//! supported for this operation"), and OpenDAL sends it there too. A signature covers all such headers. So the header goes, and
//! the request is signed again.

use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Request, Response};
use opendal_core::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};

use super::requests::Requests;

/// What S3 takes only with the request that begins an upload.
const KEYS: [&str; 2] = ["x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id"];

/// What a signature adds.
const SIGNED: [&str; 2] = ["x-amz-date", "x-amz-security-token"];

/// Sends requests; those of an upload that has begun without a key of AWS KMS.
pub(super) struct Parts {
    requests: Arc<Requests>,
}

impl Parts {
    /// Signs with the credentials of `requests`, and sends through its transport.
    pub(super) fn over(requests: &Arc<Requests>) -> HttpTransporter {
        HttpTransporter::new(Self { requests: Arc::clone(requests) })
    }
}

impl HttpTransport for Parts {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (mut head, body) = request.into_parts();
        if has_begun(head.uri.query()) && take_keys(&mut head.headers) {
            let denied = |cause: String| Error::new(ErrorKind::PermissionDenied, cause);
            self.requests.sign(&mut head).await.map_err(denied)?;
            head.headers.remove(HOST);
        }
        self.requests.transport().fetch(Request::from_parts(head, body)).await
    }
}

/// Whether a query is of an upload that has begun.
fn has_begun(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair.starts_with("uploadId=")))
}

/// Takes the keys away, and the signature with them. False if there are none.
fn take_keys(headers: &mut HeaderMap) -> bool {
    let taken = KEYS.iter().filter(|name| headers.remove(**name).is_some()).count();
    if taken > 0 {
        headers.remove(AUTHORIZATION);
        SIGNED.iter().for_each(|name| drop(headers.remove(*name)));
    }
    taken > 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn uploads_that_have_begun() {
        for (query, expected) in [
            (None, false),
            (Some("uploads"), false),
            (Some("uploads="), false),
            (Some("uploadId=x"), true),
            (Some("partNumber=1&uploadId=x"), true),
            (Some("prefix=uploadId=x"), false),
        ] {
            assert_eq!(has_begun(query), expected, "{query:?}");
        }
    }

    #[test]
    fn the_key_goes_with_the_signature_over_it() {
        let value = || HeaderValue::from_static("v");
        let kept = ["x-amz-checksum-crc32c", "x-amz-content-sha256", "if-none-match", "content-length"];
        let all = KEYS.iter().chain(&SIGNED).chain(&["authorization"]).chain(&kept);
        let mut headers: HeaderMap = all.map(|name| (http::HeaderName::from_static(name), value())).collect();
        assert!(take_keys(&mut headers));
        let mut left: Vec<_> = headers.keys().map(|name| name.as_str().to_owned()).collect();
        left.sort_unstable();
        let mut expected = kept.map(str::to_owned);
        expected.sort_unstable();
        assert_eq!(left, expected);
        // A customer's own key belongs to each request.
        let names = ["x-amz-server-side-encryption-customer-key", "authorization", "x-amz-date"];
        let mut headers: HeaderMap =
            names.map(|name| (http::HeaderName::from_static(name), value())).into_iter().collect();
        assert!(!take_keys(&mut headers));
        assert_eq!(headers.len(), names.len());
    }
}
