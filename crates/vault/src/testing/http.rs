//! A small HTTP server on a port of its own, for services that no program imitates. It ends when dropped.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A server. It ends when dropped.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    /// Its address, such as `127.0.0.1:8080`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Its address with `http://`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers requests with whole bodies.
///
/// # Panics
/// When no port can be bound.
pub async fn serve<Answer, Answering>(answer: Answer) -> Served
where
    Answer: Fn(Request<Bytes>) -> Answering + Send + Sync + 'static,
    Answering: Future<Output = Response<Bytes>> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port can be bound");
    let address = listener.local_addr().expect("it has an address");
    let answer = Arc::new(answer);
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let (head, body) = request.into_parts();
                    let body = match body.collect().await {
                        Ok(body) => body.to_bytes(),
                        Err(error) => return Ok(reply(400, error.to_string()).map(Full::new)),
                    };
                    Ok::<_, Infallible>(answer(Request::from_parts(head, body)).await.map(Full::new))
                }
            });
            connections.spawn(async move {
                // A client that goes away ends only its own connection.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Served { address, task }
}

/// An answer with a body and no headers.
///
/// # Panics
/// When the status is none.
pub fn reply(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder().status(status).body(body.into()).expect("a sound status")
}

/// The value of a parameter of the query, decoded.
pub fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}
