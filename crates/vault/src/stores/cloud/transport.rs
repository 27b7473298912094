//! The HTTP transport: a deadline for every answer, a size limit for every answer that isn't an object, and the special
//! needs of some providers.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_RANGE, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use opendal_core::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use opendal_http_transport_reqwest::ReqwestTransport;

use super::classify::Notice;

/// The most bytes of a listing or an error. A page of 1000 of the longest keys is far below.
const LARGEST_ANSWER: usize = 16 << 20;

/// In so many bytes of a listing its root element begins.
const LARGEST_HEAD: usize = 4 << 10;

/// The most bytes of an error that is looked into.
const LARGEST_ERROR: usize = 64 << 10;

/// The codes of 404 by which S3 speaks of an object, a bucket, an upload or a lock.
pub(crate) const MISSING_IN_S3: &[&str] = &[
    "NoSuchKey",
    "NoSuchBucket",
    "NoSuchUpload",
    "NoSuchVersion",
    "NotFound",
    "ObjectLockConfigurationNotFoundError",
    "NoSuchObjectLockConfiguration",
];

/// The codes of 404 by which Alibaba Cloud speaks of an object, a bucket or an upload.
pub(crate) const MISSING_IN_OSS: &[&str] = &["NoSuchKey", "NoSuchBucket", "NoSuchUpload"];

/// Google speaks of objects and buckets without such a code.
pub(crate) const MISSING_IN_GOOGLE: &[&str] = &[];

/// The codes of 404 by which Azure speaks of a blob or a container.
pub(crate) const MISSING_IN_AZURE: &[&str] = &["BlobNotFound", "ContainerNotFound", "ResourceNotFound"];

/// Where machines and containers of clouds get their credentials: AWS, Google, Alibaba.
const METADATA_HOSTS: [&str; 5] =
    ["169.254.169.254", "169.254.170.2", "[fd00:ec2::254]", "metadata.google.internal", "100.100.100.200"];

/// How long to wait for the service that gives cloud machines their credentials. Elsewhere nothing answers.
const METADATA_PATIENCE: Duration = Duration::from_secs(2);

/// The client for these hosts, which a machine reaches itself: a proxy would ask for its own machine. It keeps no connection, because
/// clients of several runtimes use it. `None` if the system lets no client be made.
fn direct() -> Option<&'static ReqwestTransport> {
    static DIRECT: OnceLock<Option<ReqwestTransport>> = OnceLock::new();
    let make = || {
        let client = reqwest::Client::builder().no_proxy().connect_timeout(METADATA_PATIENCE);
        let client = client.pool_max_idle_per_host(0).redirect(reqwest::redirect::Policy::none()).build();
        client.ok().map(ReqwestTransport::new)
    };
    DIRECT.get_or_init(make).as_ref()
}

/// HTTP with deadlines.
pub(crate) struct Transport {
    pub(crate) inner: ReqwestTransport,
    /// How long an answer may take to begin, beside the time for the request's bytes.
    pub(crate) attempt: Duration,
    /// The slowest transfer waited for, in bytes per second.
    pub(crate) slowest: u64,
    /// Ask Tigris for consistent answers.
    pub(crate) tigris: bool,
    /// The codes of 404 that speak of an object or a bucket; any other is a refusal.
    pub(crate) missing: &'static [&'static str],
}

impl HttpTransport for Transport {
    async fn fetch(&self, mut request: Request<Buffer>) -> Result<Response<HttpBody>> {
        if self.tigris {
            request.headers_mut().insert("x-tigris-consistent", HeaderValue::from_static("true"));
        }
        let of_machine = request.uri().host().is_some_and(|host| METADATA_HOSTS.contains(&host));
        let inner = if of_machine { direct().unwrap_or(&self.inner) } else { &self.inner };
        let deadline = match of_machine {
            true => METADATA_PATIENCE,
            // Completing an upload, a server may join its parts before it answers.
            _ if request.method() == Method::POST => 3 * self.attempt,
            _ => self.attempt + Duration::from_secs(request.body().len() as u64 / self.slowest.max(1)),
        };
        let object = request.method() == Method::GET && is_of_object(request.uri().query());
        let listing = if request.method() == Method::GET { root_of_listing(request.uri().query()) } else { None };
        let head = request.method() == Method::HEAD;
        let ranged = request.headers().contains_key(http::header::RANGE);
        let response = match tokio::time::timeout(deadline, inner.fetch(request)).await {
            Ok(response) => response?,
            Err(_) => return Err(noticed(Notice::Silence).set_temporary()),
        };
        match response.status() {
            status if is_web_page(status, response.headers()) => Err(noticed(Notice::WebPage).set_temporary()),
            StatusCode::INSUFFICIENT_STORAGE => Err(noticed(Notice::Full)),
            StatusCode::UNAUTHORIZED => Err(noticed(Notice::Unauthorized)),
            StatusCode::NOT_FOUND if !head => {
                let known = self.missing;
                refused(response, |code| !known.contains(&code)).await
            }
            // S3 answers so to temporary credentials that have ended, and to names that no bucket has.
            StatusCode::BAD_REQUEST if !head => {
                refused(response, |code| BAD_TOKENS.contains(&code) || code == BAD_BUCKET).await
            }
            // Not among the codes that OpenDAL repeats.
            StatusCode::REQUEST_TIMEOUT => Err(noticed(Notice::Silence).set_temporary()),
            // The whole object in the place of its end would be taken for the end.
            StatusCode::OK if ranged => Err(noticed(Notice::WrongRange)),
            // OpenDAL knows this answer of S3's alone.
            StatusCode::RANGE_NOT_SATISFIABLE => Err(noticed(Notice::BehindEnd)),
            StatusCode::PARTIAL_CONTENT if is_empty_range(response.headers()) => Err(noticed(Notice::BehindEnd)),
            status if object && status.is_success() => Ok(response),
            StatusCode::OK if listing.is_some() => whole_listing(response, listing.unwrap_or_default()).await,
            _ => Ok(response.map(|body| bounded(body, LARGEST_ANSWER))),
        }
    }
}

/// Whether an answer of success is a web page: a proxy's, or the login page of a network. No store answers so, and none has
/// done what it was asked for.
pub(crate) fn is_web_page(status: StatusCode, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    // Servers of WebDAV tell in a page what they created (201).
    status == StatusCode::OK
        && ["text/html", "application/xhtml+xml"].iter().any(|page| kind.eq_ignore_ascii_case(page))
}

/// Whether an answer has no byte: Azurite says so of a range that begins at the object's end (`bytes 5-4/5`), instead of 416.
fn is_empty_range(headers: &HeaderMap) -> bool {
    let range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let bounds = range.and_then(|range| range.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-'));
    let number = |text: &str| text.parse::<u64>().ok();
    bounds.and_then(|(start, end)| Some(number(end)? < number(start)?)).unwrap_or(false)
}

/// Whether a GET with this query asks for the bytes of an object.
fn is_of_object(query: Option<&str>) -> bool {
    let of_version = |query: &str| query.starts_with("versionId=") && !query.contains('&');
    query.is_none_or(|query| query == "alt=media" || of_version(query))
}

/// How the document begins that answers this query, if it asks for a listing of S3, OSS or Azure.
fn root_of_listing(query: Option<&str>) -> Option<&'static str> {
    let mut parts = query?.split('&');
    parts.find_map(|part| match part {
        "list-type=2" => Some("<ListBucketResult"),
        "comp=list" => Some("<EnumerationResults"),
        _ => None,
    })
}

/// A listing, if the answer is one. Any other document would be read as a listing without objects, and so as an empty vault.
async fn whole_listing(response: Response<HttpBody>, root: &str) -> Result<Response<HttpBody>> {
    let (parts, body) = response.into_parts();
    let text = bounded(body, LARGEST_ANSWER).to_buffer().await?.to_bytes();
    let begin = text.get(..text.len().min(LARGEST_HEAD)).unwrap_or_default();
    if !begin.windows(root.len()).any(|window| window == root.as_bytes()) {
        return Err(noticed(Notice::NoListing(code(begin).unwrap_or_default())).set_temporary());
    }
    Ok(read_already(parts, text))
}

/// An answer whose body was read to be looked at.
fn read_already(parts: Parts, text: Bytes) -> Response<HttpBody> {
    let size = text.len() as u64;
    let again = futures::stream::iter([Ok(Buffer::from(text))]);
    Response::from_parts(parts, HttpBody::new(again, Some(size)))
}

fn noticed(notice: Notice) -> Error {
    Error::new(ErrorKind::Unexpected, notice.to_string()).set_source(notice)
}

/// Codes of S3 for temporary credentials that it doesn't take, or no more.
pub(crate) const BAD_TOKENS: [&str; 3] = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"];

/// The code of S3 for a name that no bucket can have.
pub(crate) const BAD_BUCKET: &str = "InvalidBucketName";

/// Distinguishes what an error's status says from what only its code says: a missing object from other things that a server doesn't
/// find, credentials that have ended from a wrong request.
async fn refused(response: Response<HttpBody>, is_refusal: impl Fn(&str) -> bool) -> Result<Response<HttpBody>> {
    let (parts, body) = response.into_parts();
    let text = bounded(body, LARGEST_ERROR).to_buffer().await?.to_bytes();
    match code(&text) {
        Some(code) if is_refusal(&code) => Err(noticed(Notice::Refused(code))),
        _ => Ok(read_already(parts, text)),
    }
}

/// The `Code` element of an error of S3 or Azure.
fn code(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let sound = !code.is_empty() && code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric());
    sound.then(|| code.to_owned())
}

/// Cuts an answer off that a hostile server makes endless (I11).
fn bounded(body: HttpBody, most: usize) -> HttpBody {
    body.map_inner(move |stream| {
        let mut left = most;
        Box::new(stream.map(move |chunk| {
            let chunk = chunk?;
            left = left.checked_sub(chunk.len()).ok_or_else(|| noticed(Notice::Flood))?;
            Ok(chunk)
        }))
    })
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::stream;

    use super::*;

    #[test]
    fn codes_of_errors() {
        for (text, expected) in [
            ("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>x</Message></Error>", Some("NoSuchKey")),
            ("<Error><Message>NoSuchKey</Message></Error>", None),
            ("<Error><Code></Code></Error>", None),
            ("<Error><Code><b/></Code></Error>", None),
            ("<Code>x", None),
            ("", None),
        ] {
            assert_eq!(code(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn objects_are_of_any_size() {
        for (query, expected) in [
            (None, true),
            (Some("alt=media"), true),
            (Some("prefix=alt=media"), false),
            (Some("versionId=x"), true),
            (Some("versions=&prefix=x"), false),
            (Some("versionId=x&retention="), false),
            (Some("list-type=2"), false),
        ] {
            assert_eq!(is_of_object(query), expected, "{query:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_listing_is_no_empty_one() {
        assert_eq!(root_of_listing(Some("list-type=2&prefix=a")), Some("<ListBucketResult"));
        assert_eq!(root_of_listing(Some("restype=container&comp=list")), Some("<EnumerationResults"));
        for other in [None, Some("prefix=list-type=2"), Some("alt=media"), Some("versions=")] {
            assert_eq!(root_of_listing(other), None, "{other:?}");
        }
        for (text, expected) in [
            ("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"></ListBucketResult>", None),
            ("<Error><Code>SlowDown</Code></Error>", Some("SlowDown")),
            ("{}", Some("")),
            ("", Some("")),
        ] {
            let body = HttpBody::new(stream::iter([Ok(Buffer::from(text))]), Some(text.len() as u64));
            let told = match whole_listing(Response::new(body), "<ListBucketResult").await {
                Ok(mut response) => {
                    assert_eq!(response.body_mut().to_buffer().await.expect("again").to_bytes(), text.as_bytes());
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            let is_told = match (&told, expected) {
                (None, None) => true,
                (Some(told), Some(code)) => told.contains(code) && told.contains("no listing"),
                _ => false,
            };
            assert!(is_told, "{text}: {told:?}");
        }
    }

    #[test]
    fn ranges_without_a_byte() {
        for (value, expected) in [
            ("bytes 5-4/5", true),
            ("bytes 0-0/5", false),
            ("bytes 0-4/5", false),
            ("bytes */5", false),
            ("5-4/5", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(value))]);
            assert_eq!(is_empty_range(&headers), expected, "{value}");
        }
    }

    #[test]
    fn web_pages() {
        for (status, kind, expected) in [
            (200, "text/html", true),
            (200, "Text/HTML; charset=utf-8", true),
            (200, "application/xhtml+xml", true),
            (201, "text/html", false),
            (404, "text/html", false),
            (200, "application/xml", false),
            (200, "binary/octet-stream", false),
            (200, "", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(is_web_page(status, &headers), expected, "{status} {kind}");
        }
        assert!(!is_web_page(StatusCode::OK, &HeaderMap::new()));
    }

    #[tokio::test]
    async fn endless_answers_are_cut_off() {
        let chunks = stream::repeat_with(|| Ok(Buffer::from(vec![0; 1 << 10])));
        let mut body = bounded(HttpBody::new(chunks, None), 1 << 20);
        let error = body.to_buffer().await.expect_err("endless");
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        assert!(!error.is_temporary());
        let chunk = stream::once(ready(Ok(Buffer::from(vec![0; 1 << 10]))));
        let mut body = bounded(HttpBody::new(chunk, None), 1 << 10);
        assert_eq!(body.to_buffer().await.expect("small").len(), 1 << 10);
    }
}
