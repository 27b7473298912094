//! A server that speaks the protocol of Alibaba Cloud's OSS, as far as its manual describes what a vault needs: no
//! program imitates the service. It keeps one bucket in memory, in the server's path, and computes each request's signature
//! (version 4) itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqsign_core::hash::{hex_hmac_sha256, hex_sha256, hmac_sha256};
use reqsign_core::time::Timestamp;

use super::http::{Served, parameter, reply, serve};
use super::{BUCKET, KEYS};

/// The region that requests are signed for.
const REGION: &str = "cn-test";

/// The smallest part, the last one excepted.
const SMALLEST_PART: usize = 100 << 10;

/// The most names of a page.
const PAGE: usize = 1000;

/// What the service's names of resources leave as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A server with the bucket [`BUCKET`]. It ends when dropped.
#[derive(Debug)]
pub struct OssServer {
    served: Served,
}

impl OssServer {
    /// Starts one.
    pub async fn start() -> Self {
        let bucket = Arc::new(Mutex::new(Bucket::default()));
        Self { served: serve(move |request| std::future::ready(answer(&bucket, &request))).await }
    }

    /// The URL of a prefix in its bucket, with its keys.
    pub fn url(&self, path: &str) -> String {
        let ((id, key), endpoint) = (KEYS, self.served.endpoint());
        format!("oss://{BUCKET}/{path}?endpoint={endpoint}&region={REGION}&access-key-id={id}&secret-access-key={key}")
    }
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Upload>,
}

#[derive(Debug)]
struct Object {
    bytes: Bytes,
    tag: String,
    modified: Timestamp,
    metadata: HeaderMap,
}

#[derive(Debug)]
struct Upload {
    name: String,
    metadata: HeaderMap,
    parts: BTreeMap<usize, Bytes>,
}

fn refused(status: u16, code: &str) -> Response<Bytes> {
    reply(status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>refused</Message></Error>"))
}

/// The version of these bytes. The service takes the MD5; like it, this is equal for equal bytes.
fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex_sha256(bytes)[..32].to_uppercase())
}

fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn metadata(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-oss-meta-"));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

/// The texts of all elements of that name.
fn elements<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    document.split(&*open).skip(1).filter_map(|rest| Some(rest.split_once(&*close)?.0)).collect()
}

/// The name of the object, if the path names one of the bucket; empty for the bucket itself.
fn name_of(path: &str) -> Option<String> {
    let rest = path.strip_prefix(&format!("/{BUCKET}"))?;
    let name = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    Some(percent_decode_str(name).decode_utf8().ok()?.into_owned())
}

fn answer(bucket: &Mutex<Bucket>, request: &Request<Bytes>) -> Response<Bytes> {
    let (method, query) = (request.method(), request.uri().query());
    if signature(request).is_none() {
        return refused(403, "SignatureDoesNotMatch");
    }
    let Some(name) = name_of(request.uri().path()) else { return refused(404, "NoSuchBucket") };
    let mut bucket: MutexGuard<'_, Bucket> = bucket.lock().unwrap_or_else(PoisonError::into_inner);
    let id = parameter(query, "uploadId");
    match (method, &id) {
        (&Method::GET, _) if name.is_empty() => bucket.list(query),
        (&Method::POST, _) if name.is_empty() && query == Some("delete") => bucket.delete_many(request),
        (_, _) if name.is_empty() => refused(405, "MethodNotAllowed"),
        (&Method::GET, _) => bucket.get(&name, request.headers()),
        (&Method::HEAD, _) => bucket.get(&name, &HeaderMap::new()),
        (&Method::POST, None) if query == Some("uploads") => bucket.begin(name, request.headers()),
        (&Method::PUT, Some(id)) => bucket.part(id, query, request.body()),
        (&Method::POST, Some(id)) => bucket.complete(id, request),
        (&Method::DELETE, Some(id)) => {
            bucket.uploads.remove(id);
            reply(204, "")
        }
        (&Method::PUT, None) => {
            bucket.put(name, request.headers(), metadata(request.headers()), request.body().clone())
        }
        (&Method::DELETE, None) => {
            bucket.objects.remove(&name);
            reply(204, "")
        }
        _ => refused(405, "MethodNotAllowed"),
    }
}

impl Bucket {
    fn put(&mut self, name: String, headers: &HeaderMap, metadata: HeaderMap, bytes: Bytes) -> Response<Bytes> {
        let forbids = headers.get("x-oss-forbid-overwrite").is_some_and(|value| value == "true");
        if forbids && self.objects.contains_key(&name) {
            return refused(409, "FileAlreadyExists");
        }
        let object = Object { tag: tag(&bytes), bytes, modified: now(), metadata };
        let mut answer = reply(200, "");
        answer.headers_mut().insert(header::ETAG, object.tag.parse().expect("a header"));
        self.objects.insert(name, object);
        answer
    }

    fn get(&self, name: &str, headers: &HeaderMap) -> Response<Bytes> {
        let Some(object) = self.objects.get(name) else { return refused(404, "NoSuchKey") };
        let size = object.bytes.len();
        let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok()?.strip_prefix("bytes="));
        let mut answer = match asked.and_then(|range| range.split_once('-')) {
            None => {
                let mut answer = reply(200, object.bytes.clone());
                answer.headers_mut().insert(header::CONTENT_LENGTH, size.into());
                answer
            }
            Some((start, end)) => {
                let start: usize = start.parse().unwrap_or(usize::MAX);
                let end = end.parse().unwrap_or(usize::MAX).min(size.saturating_sub(1));
                if start >= size || start > end {
                    return refused(416, "InvalidRange");
                }
                let mut answer = reply(206, object.bytes.slice(start..=end));
                let range = format!("bytes {start}-{end}/{size}").parse().expect("a header");
                answer.headers_mut().insert(header::CONTENT_RANGE, range);
                answer
            }
        };
        let headers = answer.headers_mut();
        headers.extend(object.metadata.clone());
        headers.insert(header::ETAG, object.tag.parse().expect("a header"));
        headers.insert(header::LAST_MODIFIED, object.modified.format_http_date().parse().expect("a header"));
        answer
    }

    fn list(&self, query: Option<&str>) -> Response<Bytes> {
        if parameter(query, "list-type").as_deref() != Some("2") {
            return refused(400, "InvalidArgument");
        }
        let text = |name: &str| parameter(query, name).unwrap_or_default();
        let most = text("max-keys").parse().unwrap_or(100_usize).clamp(1, PAGE);
        let (prefix, after) = (text("prefix"), text("start-after").max(text("continuation-token")));
        let mut found = self.objects.iter().filter(|(name, _)| name.starts_with(&prefix) && **name > after).peekable();
        let (mut contents, mut last) = (String::new(), String::new());
        for (name, object) in found.by_ref().take(most) {
            let (tag, size) = (escaped(&object.tag), object.bytes.len());
            let (modified, shown) = (object.modified.format_rfc3339_zulu(), escaped(name));
            contents += &format!(
                "<Contents><Key>{shown}</Key><LastModified>{modified}</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
            );
            last.clone_from(name);
        }
        let more = found.peek().is_some();
        let next = if more {
            format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(&last))
        } else {
            String::new()
        };
        reply(200, format!("<ListBucketResult>{contents}<IsTruncated>{more}</IsTruncated>{next}</ListBucketResult>"))
    }

    fn delete_many(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        if !request.headers().contains_key("content-md5") {
            return refused(400, "MissingArgument");
        }
        let document = String::from_utf8_lossy(request.body()).into_owned();
        let names = elements(&document, "Key");
        if names.len() > 1000 {
            return refused(400, "MalformedXML");
        }
        let mut deleted = String::new();
        for name in names {
            self.objects.remove(&unescaped(name));
            deleted += &format!("<Deleted><Key>{name}</Key></Deleted>");
        }
        reply(200, format!("<DeleteResult>{deleted}</DeleteResult>"))
    }

    fn begin(&mut self, name: String, headers: &HeaderMap) -> Response<Bytes> {
        let id = format!("{:032X}", fastrand::u128(..));
        self.uploads.insert(id.clone(), Upload { name, metadata: metadata(headers), parts: BTreeMap::new() });
        reply(200, format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"))
    }

    fn part(&mut self, id: &str, query: Option<&str>, bytes: &Bytes) -> Response<Bytes> {
        let number = parameter(query, "partNumber").and_then(|number| number.parse().ok());
        match (self.uploads.get_mut(id), number) {
            (Some(upload), Some(number @ 1..=10_000)) => {
                upload.parts.insert(number, bytes.clone());
                let mut answer = reply(200, "");
                answer.headers_mut().insert(header::ETAG, tag(bytes).parse().expect("a header"));
                answer
            }
            (Some(_), _) => refused(400, "InvalidArgument"),
            (None, _) => refused(404, "NoSuchUpload"),
        }
    }

    fn complete(&mut self, id: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let Some(upload) = self.uploads.get(id) else { return refused(404, "NoSuchUpload") };
        let document = String::from_utf8_lossy(request.body()).into_owned();
        let parts = elements(&document, "Part");
        let mut bytes = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let number = elements(part, "PartNumber").first().and_then(|number| number.parse::<usize>().ok());
            let known = number.and_then(|number| upload.parts.get(&number));
            let named = elements(part, "ETag").first().map(|tag| unescaped(tag));
            match known {
                Some(known) if index + 1 < parts.len() && known.len() < SMALLEST_PART => {
                    return refused(400, "EntityTooSmall");
                }
                Some(known) if named.as_deref() == Some(&*tag(known)) => bytes.extend_from_slice(known),
                _ => return refused(400, "InvalidPart"),
            }
        }
        let (name, metadata) = (upload.name.clone(), upload.metadata.clone());
        let answer = self.put(name, request.headers(), metadata, bytes.into());
        if answer.status().is_success() {
            self.uploads.remove(id);
        }
        answer
    }
}

/// Checks a request's signature, as the manual computes it ("Include V4 signatures in the Authorization header").
fn signature(request: &Request<Bytes>) -> Option<()> {
    let header = |name: &str| request.headers().get(name)?.to_str().ok();
    let given = header("authorization")?.strip_prefix("OSS4-HMAC-SHA256 ")?;
    let field = |name: &str| given.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    let (id, scope) = field("Credential")?.split_once('/')?;
    let date = header("x-oss-date")?;
    if id != KEYS.0 || scope != format!("{}/{REGION}/oss/aliyun_v4_request", date.get(..8)?) {
        return None;
    }
    let additional: Vec<&str> = field("AdditionalHeaders").map(|names| names.split(';').collect()).unwrap_or_default();
    let (uri, query) = (encoded_path(request.uri().path())?, encoded_query(request.uri().query()));
    let headers = signed_headers(request, &additional)?;
    let payload = header("x-oss-content-sha256")?;
    let canonical = format!("{}\n{uri}\n{query}\n{headers}\n{}\n{payload}", request.method(), additional.join(";"));
    let text = format!("OSS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex_sha256(canonical.as_bytes()));
    let mut key = format!("aliyun_v4{}", KEYS.1).into_bytes();
    for part in scope.split('/') {
        key = hmac_sha256(&key, part.as_bytes());
    }
    (field("Signature")? == hex_hmac_sha256(&key, text.as_bytes())).then_some(())
}

fn encoded_path(path: &str) -> Option<String> {
    let segment = |text: &str| -> Option<String> {
        let decoded = percent_decode_str(text).decode_utf8().ok()?;
        Some(utf8_percent_encode(&decoded, PLAIN).to_string())
    };
    Some(path.split('/').map(segment).collect::<Option<Vec<_>>>()?.join("/"))
}

fn encoded_query(query: Option<&str>) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
    let mut pairs: Vec<String> = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .map(|(name, value)| match &*value {
            "" => encoded(&name),
            value => format!("{}={}", encoded(&name), encoded(value)),
        })
        .collect();
    pairs.sort();
    pairs.join("&")
}

fn signed_headers(request: &Request<Bytes>, additional: &[&str]) -> Option<String> {
    let always = |name: &str| matches!(name, "content-type" | "content-md5") || name.starts_with("x-oss-");
    let mut lines = Vec::new();
    for (name, value) in request.headers() {
        if always(name.as_str()) || additional.contains(&name.as_str()) {
            lines.push(format!("{name}:{}\n", value.to_str().ok()?.trim()));
        }
    }
    lines.sort();
    Some(lines.concat())
}
