//! One request over a Unix socket, with a deadline.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// The largest answer: a list of some thousand databases has a few MB.
const ANSWER_BYTES: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// No process listens there.
    Nobody(std::io::Error),
    /// What came is no answer.
    Broken(String),
    /// The time is up.
    Late,
}

/// Asks once, and waits for the answer no longer than `within`.
pub(crate) async fn request(
    socket: &Path,
    method: Method,
    target: &str,
    body: Vec<u8>,
    within: Duration,
) -> Result<(StatusCode, Bytes), Unanswered> {
    let asking = async {
        let stream = UnixStream::connect(socket).await.map_err(Unanswered::Nobody)?;
        let broken = |error: hyper::Error| Unanswered::Broken(error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, "seawall")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Unanswered::Broken(error.to_string()))?;
        let answering = async {
            let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| Unanswered::Broken(error.to_string()))?;
            Ok((head.status, body.to_bytes()))
        };
        tokio::pin!(answering);
        tokio::select! {
            biased;
            answer = &mut answering => answer,
            ended = connection => match ended {
                Ok(()) => answering.await,
                Err(error) => Err(broken(error)),
            },
        }
    };
    tokio::time::timeout(within, asking).await.unwrap_or(Err(Unanswered::Late))
}
