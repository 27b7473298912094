//! The server: accepts, bounds, reads one request after the other, and lets a handler answer.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::listen::Listener;
use super::patient::Patient;

/// Connections at a time. Others wait in the system's queue.
const CONNECTIONS: usize = 32;

/// How long the head of a request may take, the first and every later one.
const HEAD: Duration = Duration::from_secs(5);

/// How long a body may take.
const BODY: Duration = Duration::from_secs(5);

/// The largest body.
const BODY_BYTES: usize = 64 << 10;

/// How long a peer may read nothing of an answer.
const UNREAD: Duration = Duration::from_secs(10);

/// How long a whole connection may live. Longer than any answer takes.
const CONNECTION: Duration = Duration::from_secs(900);

/// How long to wait after the system refused a connection, for example for want of descriptors.
const REFUSED: Duration = Duration::from_millis(200);

/// What a peer asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path without its query.
    pub(crate) path: String,
    /// What stands behind the `?`.
    pub(crate) query: String,
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// The address of the peer; `None` on a Unix socket.
    pub(crate) peer: Option<IpAddr>,
}

impl Request {
    /// A header that is text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// What it is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// Further headers.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What follows the body, for as long as the peer listens.
    pub(crate) events: Option<Events>,
}

/// Parts of an answer that come later. Dropped as soon as the peer is gone.
pub(crate) struct Events(pub(crate) BoxStream<'static, Bytes>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Answer {
    /// A body of any kind.
    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, body: body.into(), headers: Vec::new(), events: None }
    }

    /// A JSON document.
    pub(crate) fn json(status: StatusCode, document: &impl serde::Serialize) -> Self {
        // Our own types always have a JSON form.
        let body = serde_json::to_string(document).unwrap_or_else(|_| "{}".to_owned());
        Self::new(status, "application/json", body + "\n")
    }

    /// Plain text.
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into())
    }

    /// Nothing but a status.
    pub(crate) fn status(status: StatusCode) -> Self {
        Self::text(status, status.canonical_reason().map(|reason| format!("{reason}\n")).unwrap_or_default())
    }
}

/// Answers requests.
#[async_trait]
pub(crate) trait Handler: Send + Sync + 'static {
    /// One answer. Bounds its own waits.
    async fn answer(&self, request: Request) -> Answer;
}

/// Serves until dropped.
pub(crate) async fn serve(listener: Listener, handler: Arc<impl Handler>) {
    serve_readers(listener, handler, UNREAD).await;
}

/// The same; a peer may read nothing of an answer for as long as `unread`.
async fn serve_readers(listener: Listener, handler: Arc<impl Handler>, unread: Duration) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was refused");
                tokio::time::sleep(REFUSED).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let handler = handler.clone();
        connections.spawn(async move {
            let _place = place;
            let service = service_fn(move |request| {
                let handler = handler.clone();
                async move { Ok::<_, Infallible>(respond(&*handler, request, peer).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(16 << 10)
                .max_headers(32)
                .serve_connection(TokioIo::new(Patient::new(stream, unread)), service);
            match timeout(CONNECTION, connection).await {
                Ok(Ok(())) => {}
                // What a peer does wrong is not our error.
                Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
                Err(_) => tracing::debug!("a connection took too long"),
            }
        });
    }
}

/// The body of an answer: whole, or in parts.
type Body = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

async fn respond(handler: &impl Handler, request: hyper::Request<Incoming>, peer: Option<IpAddr>) -> Response<Body> {
    let answer = match read(request, peer).await {
        Ok(request) => handler.answer(request).await,
        Err(status) => Answer::status(status),
    };
    let body = match answer.events {
        None => Either::Left(Full::new(answer.body)),
        Some(Events(events)) => {
            let first = futures::stream::iter([answer.body]).filter(|first| std::future::ready(!first.is_empty()));
            Either::Right(StreamBody::new(first.chain(events).map(|part| Ok(Frame::data(part))).boxed()))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = answer.status;
    if answer.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    response.headers_mut().extend(answer.headers);
    response
}

async fn read(request: hyper::Request<Incoming>, peer: Option<IpAddr>) -> Result<Request, StatusCode> {
    let (head, body) = request.into_parts();
    let body = match timeout(BODY, Limited::new(body, BODY_BYTES).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST),
        Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
    };
    Ok(Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body,
        headers: head.headers,
        peer,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    /// Answers with more than the system keeps for a peer that doesn't read.
    struct Large(Bytes);

    #[async_trait]
    impl Handler for Large {
        async fn answer(&self, request: Request) -> Answer {
            let length = if request.path == "/large" { self.0.len() } else { 1 };
            Answer::new(StatusCode::OK, "text/plain", self.0.slice(..length))
        }
    }

    #[tokio::test]
    async fn peers_that_read_nothing_give_their_places_up() {
        let listener = Listener::tcp(([127, 0, 0, 1], 0).into()).await.expect("an address");
        let address = listener.address();
        let serving = tokio::spawn(serve_readers(
            listener,
            Arc::new(Large(vec![b'x'; 32 << 20].into())),
            Duration::from_millis(100),
        ));
        let ask = async |path: &str| {
            let mut stream = TcpStream::connect(&address).await.expect("connected");
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("asked");
            stream
        };
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(ask("/large").await);
        }
        let mut answer = String::new();
        let mut one = ask("/small").await;
        timeout(CONNECTION / 10, one.read_to_string(&mut answer)).await.expect("in time").expect("an answer");
        assert!(answer.ends_with("\r\n\r\nx"), "{answer}");
        serving.abort();
    }
}
