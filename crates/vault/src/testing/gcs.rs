//! A fake-gcs-server. It knows no uploads in parts of the XML protocol, by which objects without a condition are streamed;
//! these are answered here, and end in the server as whole objects. Every other request goes through to it.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::http::{Served, parameter, reply, serve};
use super::{BUCKET, answers, free_port, not_run};

/// The smallest part, the last one excepted.
const SMALLEST_PART: usize = 5 << 20;

/// A fake-gcs-server with the bucket [`BUCKET`], in memory. It ends when dropped.
#[derive(Debug)]
pub struct GcsServer {
    child: Child,
    front: Served,
}

impl GcsServer {
    /// Starts one, or prints that `what` is not run when there is no `fake-gcs-server` on the PATH.
    ///
    /// # Panics
    /// As [`super::S3Server::start`].
    pub async fn start(what: &str) -> Option<Self> {
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "fake-gcs-server did not get ready");
            let port = free_port();
            let behind = Arc::new(Behind { client: client(), port, uploads: Mutex::default() });
            let front = serve({
                let behind = Arc::clone(&behind);
                move |request| answer(Arc::clone(&behind), request)
            })
            .await;
            let spawned = Command::new("fake-gcs-server")
                .args(["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", &port.to_string()])
                .args(["-public-host", &front.host(), "-external-url", &front.endpoint()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if spawned.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                not_run(what, "fake-gcs-server is not on PATH");
                return None;
            }
            let mut child = spawned.expect("fake-gcs-server can be started");
            if !answers(&mut child, port).await {
                let _ = child.kill();
                continue;
            }
            let made = behind.send(
                Method::POST,
                "/storage/v1/b?project=test",
                HeaderMap::new(),
                format!("{{\"name\":\"{BUCKET}\"}}"),
            );
            assert!(made.await.status().is_success(), "the bucket can be made");
            return Some(Self { child, front });
        }
    }

    /// The URL of a prefix in its bucket.
    pub fn url(&self, path: &str) -> String {
        format!("gs://{BUCKET}/{path}?endpoint={}", self.endpoint())
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        self.front.endpoint()
    }
}

impl Drop for GcsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.build().expect("a client")
}

/// The server, and the uploads in parts that are under way.
#[derive(Debug)]
struct Behind {
    client: reqwest::Client,
    port: u16,
    uploads: Mutex<BTreeMap<String, Upload>>,
}

#[derive(Debug, Clone)]
struct Upload {
    bucket: String,
    name: String,
    metadata: Map<String, Value>,
    parts: BTreeMap<usize, Bytes>,
}

impl Behind {
    async fn send(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: impl Into<reqwest::Body>,
    ) -> Response<Bytes> {
        let request = self.client.request(method, format!("http://127.0.0.1:{}{target}", self.port));
        let sent = match request.headers(headers).body(body).send().await {
            Ok(sent) => sent,
            Err(error) => return reply(502, error.to_string()),
        };
        let (status, headers) = (sent.status(), sent.headers().clone());
        let mut answer = match sent.bytes().await {
            Ok(body) => reply(status.as_u16(), body),
            Err(error) => return reply(502, error.to_string()),
        };
        *answer.headers_mut() = headers;
        for name in [header::TRANSFER_ENCODING, header::CONNECTION] {
            answer.headers_mut().remove(name);
        }
        answer
    }

    fn uploads(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Upload>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the object from its parts, in the order of the list.
    async fn complete(&self, id: &str, list: &str) -> Response<Bytes> {
        let Some(Upload { bucket, name, metadata, parts }) = self.uploads().get(id).cloned() else {
            return reply(404, "<Error><Code>NoSuchUpload</Code></Error>");
        };
        let mut bytes = Vec::new();
        let named: Vec<usize> = numbers(list);
        for (index, number) in named.iter().enumerate() {
            match parts.get(number) {
                Some(part) if part.len() < SMALLEST_PART && index + 1 < named.len() => {
                    return reply(400, "<Error><Code>EntityTooSmall</Code></Error>");
                }
                Some(part) => bytes.extend_from_slice(part),
                None => return reply(400, "<Error><Code>InvalidPart</Code></Error>"),
            }
        }
        let document = Value::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
        let mut body = format!(
            "--edge\r\nContent-Type: application/json\r\n\r\n{document}\r\n--edge\r\nContent-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(&bytes);
        body.extend_from_slice(b"\r\n--edge--\r\n");
        let mut target = format!("/upload/storage/v1/b/{bucket}/o?uploadType=multipart&name=");
        target.extend(form_urlencoded::byte_serialize(name.as_bytes()));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "multipart/related; boundary=edge".parse().expect("a header"));
        let made = self.send(Method::POST, &target, headers, body).await;
        if !made.status().is_success() {
            return made;
        }
        self.uploads().remove(id);
        let document: Value = serde_json::from_slice(made.body()).expect("an object of the server");
        let mut answer = reply(200, "<CompleteMultipartUploadResult/>");
        let generation = document["generation"].as_str().expect("a generation");
        answer.headers_mut().insert("x-goog-generation", generation.parse().expect("a header"));
        answer
    }
}

/// The numbers of the parts in the body that completes an upload.
fn numbers(list: &str) -> Vec<usize> {
    let rest = list.split("<PartNumber>").skip(1);
    rest.filter_map(|rest| rest.split_once('<')?.0.parse().ok()).collect()
}

async fn answer(behind: Arc<Behind>, request: Request<Bytes>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    let (query, path) = (head.uri.query(), head.uri.path().trim_start_matches('/'));
    let (id, part) = (parameter(query, "uploadId"), parameter(query, "partNumber"));
    match (&head.method, id) {
        (&Method::POST, None) if query == Some("uploads") => {
            let Some((bucket, name)) = path.split_once('/') else { return reply(400, "") };
            let kept = head.headers.iter().filter_map(|(name, value)| {
                let name = name.as_str().strip_prefix("x-goog-meta-")?;
                Some((name.to_owned(), Value::String(value.to_str().ok()?.to_owned())))
            });
            let upload = Upload {
                bucket: bucket.to_owned(),
                name: percent_decode_str(name).decode_utf8_lossy().into_owned(),
                metadata: kept.collect(),
                parts: BTreeMap::new(),
            };
            let mut uploads = behind.uploads();
            let id = format!("upload-{}-{}", fastrand::u64(..), uploads.len());
            let text =
                format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
            uploads.insert(id, upload);
            reply(200, text)
        }
        (&Method::PUT, Some(id)) if part.is_some() => {
            let number = part.and_then(|part| part.parse().ok()).unwrap_or_default();
            match behind.uploads().get_mut(&id) {
                Some(upload) if number > 0 => drop(upload.parts.insert(number, body)),
                _ => return reply(404, "<Error><Code>NoSuchUpload</Code></Error>"),
            }
            let mut answer = reply(200, "");
            answer.headers_mut().insert(header::ETAG, format!("\"part-{number}\"").parse().expect("a header"));
            answer
        }
        (&Method::POST, Some(id)) if !path.starts_with("upload/") => {
            behind.complete(&id, &String::from_utf8_lossy(&body)).await
        }
        (&Method::DELETE, Some(id)) if !path.starts_with("upload/") => {
            behind.uploads().remove(&id);
            reply(204, "")
        }
        _ => behind.send(head.method.clone(), target, head.headers.clone(), body).await,
    }
}
