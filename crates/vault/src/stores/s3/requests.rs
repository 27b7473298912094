//! Requests to a bucket that OpenDAL doesn't have: versions, Object Lock. Signed with the same credentials, sent through the
//! same transport; one raw attempt a call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, Request, StatusCode};
use md5::{Digest as _, Md5};
use opendal_core::{Buffer, HttpTransporter};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqsign_aws_v4::{Credential, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, OsEnv, Signer};
use reqsign_file_read_tokio::TokioFileRead;

use super::bucket::address;
use super::connect::Decided;
use super::credentials::{self, Source};
use crate::stores::cloud::classify::classify;
use crate::stores::cloud::reason::Reason;
use crate::stores::cloud::transport::BAD_TOKENS;
use crate::{Condition, Error, Secret};

/// What stays as it is in the value of a query.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What stays as it is in a path.
const IN_PATH: &AsciiSet = &IN_QUERY.remove(b'/');

/// The longest message of a server that is shown.
const SHOWN: usize = 300;

/// Sends signed requests to one bucket.
#[derive(Debug)]
pub(super) struct Requests {
    transport: HttpTransporter,
    signer: Signer<Credential>,
    /// The bucket's address, without `/` at its end.
    bucket: String,
    /// The place, for people.
    url: String,
    reason: Reason,
    /// The headers with the customer's own key: S3 answers nothing about an object of theirs without it.
    customer_key: Vec<(&'static str, Secret)>,
}

/// A bucket in its region.
pub(super) struct Target<'a> {
    pub(super) bucket: &'a str,
    pub(super) decided: &'a Decided,
    pub(super) region: &'a str,
    /// The place, for people.
    pub(super) url: &'a str,
}

/// What a server answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Requests {
    pub(super) fn new(transport: &HttpTransporter, target: &Target<'_>, source: Source, reason: Reason) -> Self {
        let context = Context::new().with_file_read(TokioFileRead).with_env(OsEnv).with_http_send(transport.clone());
        let sign = RequestSigner::new("s3", target.region);
        let signer = match source {
            Source::Keys { id, key, token } => {
                let keys = StaticCredentialProvider::new(id.reveal(), key.reveal());
                let keys = token.iter().fold(keys, |keys, token| keys.with_session_token(token.reveal()));
                Signer::new(context, keys, sign)
            }
            Source::Files(files) => Signer::new(context, credentials::files(files, reason.clone()), sign),
            Source::Profile(name) => Signer::new(context, credentials::profile(&name, reason.clone()), sign),
            Source::Ambient => Signer::new(context, credentials::ambient(reason.clone()), sign),
        };
        let decided = target.decided;
        let bucket = address(target.bucket, decided.endpoint.as_deref(), target.region, decided.virtual_host);
        let bucket = bucket.trim_end_matches('/').to_owned();
        let url = target.url.to_owned();
        Self { transport: transport.clone(), signer, bucket, url, reason, customer_key: Vec::new() }
    }

    /// The same, where requests about an object's properties carry the customer's own key.
    pub(super) fn with_customer_key(self, algorithm: &str, key: &[u8]) -> Self {
        let headers = [
            ("x-amz-server-side-encryption-customer-algorithm", algorithm.to_owned()),
            ("x-amz-server-side-encryption-customer-key", STANDARD.encode(key)),
            ("x-amz-server-side-encryption-customer-key-md5", STANDARD.encode(Md5::digest(key))),
        ];
        Self { customer_key: headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(), ..self }
    }

    /// Asks for the properties of the object with this name, or of one of its versions (HeadObject).
    pub(super) async fn head(&self, name: &str, version: Option<&str>) -> Result<Answer, Error> {
        let query: Vec<_> = version.map(|version| ("versionId", version)).into_iter().collect();
        let headers: Vec<_> =
            self.customer_key.iter().map(|(name, value)| (*name, value.reveal().to_owned())).collect();
        self.send(Method::HEAD, Some(name), &query, &headers, Vec::new()).await
    }

    /// Sends a request about the bucket, or about the object with this name in it. Any status is an answer.
    pub(super) async fn send(
        &self,
        method: Method,
        name: Option<&str>,
        query: &[(&str, &str)],
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Result<Answer, Error> {
        let failed = |cause: String| Error::Unavailable { object: self.url.clone(), cause, retryable: false };
        let mut request = Request::builder().method(method).uri(self.address(name, query));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        request = request.header(http::header::CONTENT_LENGTH, body.len());
        let request = request.body(Buffer::from(body)).map_err(|error| failed(error.to_string()))?;
        let (mut head, body) = request.into_parts();
        let denied = |cause| Error::Denied { object: self.url.clone(), cause };
        self.sign(&mut head).await.map_err(denied)?;
        let answer = self.transport.send(Request::from_parts(head, body)).await;
        let answer = answer.map_err(|error| classify(self.url.clone(), &error, &Condition::Always, &self.reason))?;
        let (head, body) = answer.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_vec() })
    }

    /// Signs a request.
    ///
    /// # Errors
    /// Why there are no credentials.
    pub(super) async fn sign(&self, head: &mut http::request::Parts) -> Result<(), String> {
        let signed = self.signer.sign(head, None).await;
        signed.map_err(|error| shown(&self.reason.get().unwrap_or_else(|| error.to_string())))
    }

    /// The transport of all requests.
    pub(super) fn transport(&self) -> &HttpTransporter {
        &self.transport
    }

    fn address(&self, name: Option<&str>, query: &[(&str, &str)]) -> String {
        let mut address = self.bucket.clone();
        address.push('/');
        address.extend(name.into_iter().flat_map(|name| utf8_percent_encode(name, IN_PATH)));
        for (index, (name, value)) in query.iter().enumerate() {
            address.push(if index == 0 { '?' } else { '&' });
            address.push_str(name);
            address.push('=');
            address.extend(utf8_percent_encode(value, IN_QUERY));
        }
        address
    }
}

impl Answer {
    /// The code of an error; empty if the answer names none.
    pub(super) fn code(&self) -> &str {
        element(&self.body, "Code").unwrap_or_default()
    }

    /// The answer's body, or the decision for its refusal.
    pub(super) fn body(self, object: &str) -> Result<Vec<u8>, Error> {
        if self.status.is_success() { Ok(self.body) } else { Err(self.refusal(object)) }
    }

    /// The decision for an answer that is no success.
    pub(super) fn refusal(&self, object: &str) -> Error {
        let object = object.to_owned();
        let code = self.code();
        let message = element(&self.body, "Message").unwrap_or("the server gave no reason");
        let cause = shown(&format!("{} {code}: {message}", self.status.as_u16()));
        match (self.status, code) {
            (StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED, _) => Error::Denied { object, cause },
            (_, code) if BAD_TOKENS.contains(&code) => Error::Denied { object, cause },
            (_, "NoSuchBucket") => Error::Missing { object, cause: "the bucket does not exist".to_owned() },
            (StatusCode::NOT_FOUND, _) => Error::NotFound { object },
            (StatusCode::NOT_IMPLEMENTED, _) => Error::Unsupported { object, cause },
            (status, _) => {
                let retryable = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
                Error::Unavailable { object, cause, retryable }
            }
        }
    }
}

/// The text of the first element with this name; for answers whose elements are few and hold no others.
pub(super) fn element<'a>(xml: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(xml).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once(&format!("</{name}>"))?;
    (!value.contains('<')).then_some(value.trim())
}

/// A text of others, without control characters and not too long.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        for (xml, expected) in [
            ("<A><Code>AccessDenied</Code></A>", Some("AccessDenied")),
            ("<A><Code> x </Code></A>", Some("x")),
            ("<A><Code><b/></Code></A>", None),
            ("<A><Code>x", None),
            ("", None),
        ] {
            assert_eq!(element(xml.as_bytes(), "Code"), expected, "{xml}");
        }
    }

    #[test]
    fn refusals_are_decisions() {
        for (status, code, expected) in [
            (403, "AccessDenied", "vault.denied"),
            (404, "NoSuchBucket", "vault.missing"),
            (404, "NoSuchVersion", "vault.not-found"),
            (501, "NotImplemented", "vault.unsupported"),
            (503, "SlowDown", "vault.unavailable"),
            (400, "InvalidRequest", "vault.unavailable"),
            (400, "ExpiredToken", "vault.denied"),
        ] {
            let body = format!("<Error><Code>{code}</Code><Message>a\u{7}b</Message></Error>").into_bytes();
            let status = StatusCode::from_u16(status).expect("a status");
            let error = Answer { status, headers: HeaderMap::new(), body }.refusal("o");
            assert!(!error.to_string().contains('\u{7}'), "{error}");
            assert_eq!(error.is_retryable(), status == 503, "{status}");
            assert_eq!(seawall_core::Failure::from(error).code, expected, "{status}");
        }
    }
}
