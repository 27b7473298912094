//! Streamed objects: one PUT to a temporary name while the parts come, then MOVE.
//!
//! The request is one stream, so a broken connection ends the upload: no server takes its rest. Some servers behind gateways
//! lose the bytes of a request whose length isn't known before, and report success. So the size of what arrived is compared
//! before the object gets its name.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Inner;
use crate::{Condition, Error, Multipart, ObjectKey, Tag};

/// An object that is being written.
pub(super) struct WebdavUpload {
    store: Arc<Inner>,
    key: ObjectKey,
    condition: Condition,
    temporary: String,
    /// Takes parts; gone once all have come.
    parts: Option<mpsc::Sender<Vec<Bytes>>>,
    request: Option<JoinHandle<Result<(), Error>>>,
    /// The outcome of the request.
    arrived: Option<Result<(), Error>>,
    size: u64,
}

impl WebdavUpload {
    /// Opens the request. `in_flight` parts wait at most, the one on its way among them.
    pub(super) fn begin(
        store: Arc<Inner>,
        key: ObjectKey,
        condition: Condition,
        temporary: String,
        in_flight: usize,
    ) -> Self {
        let (parts, waiting) = mpsc::channel::<Vec<Bytes>>(in_flight.saturating_sub(1).max(1));
        let body = stream::unfold((waiting, VecDeque::new()), |(mut waiting, mut chunks)| async move {
            loop {
                if let Some(chunk) = chunks.pop_front() {
                    return Some((Ok::<Bytes, std::io::Error>(chunk), (waiting, chunks)));
                }
                chunks = waiting.recv().await?.into();
            }
        });
        let (client, path) = (store.client.clone(), temporary.clone());
        let request = tokio::spawn(async move { client.put_stream(&path, reqwest::Body::wrap_stream(body)).await });
        Self { store, key, condition, temporary, parts: Some(parts), request: Some(request), arrived: None, size: 0 }
    }

    /// Waits for the answer to the request.
    async fn outcome(&mut self) -> Result<(), Error> {
        if let Some(request) = self.request.as_mut() {
            let outcome = request.await.unwrap_or_else(|_| Err(self.ended("the upload was given up")));
            self.request = None;
            self.arrived = Some(outcome);
        }
        self.arrived.clone().unwrap_or_else(|| Err(self.ended("the upload was given up")))
    }

    /// The error for an upload whose request ended. Its bytes are gone, so it can't be repeated from here.
    fn ended(&self, cause: &str) -> Error {
        Error::Unavailable {
            object: self.store.client.name(self.key.as_str()),
            cause: cause.to_owned(),
            retryable: false,
        }
    }

    fn finally(&self, error: Error) -> Error {
        match error {
            Error::Unavailable { cause, retryable: true, .. } => self.ended(&cause),
            error => error,
        }
    }
}

#[async_trait]
impl Multipart for WebdavUpload {
    async fn write(&mut self, part: Vec<Bytes>) -> Result<(), Error> {
        let size: u64 = part.iter().map(|chunk| chunk.len() as u64).sum();
        let sent = match &self.parts {
            Some(parts) => parts.send(part).await.is_ok(),
            None => false,
        };
        if sent {
            self.size += size;
            return Ok(());
        }
        self.parts = None;
        let outcome = self.outcome().await;
        Err(outcome
            .map_or_else(|error| self.finally(error), |()| self.ended("the server answered before the last byte")))
    }

    async fn complete(&mut self) -> Result<Option<Tag>, Error> {
        self.parts = None;
        self.outcome().await.map_err(|error| self.finally(error))?;
        let found = match self.store.client.look(&self.temporary).await {
            // An earlier completion gave the object its name; the vault looks whose it is.
            Err(Error::NotFound { .. }) => return Err(self.ended("the uploaded bytes are not there any more")),
            found => found?,
        };
        if found.size != Some(self.size) {
            let cause = format!(
                "the server kept {} of {} bytes: it, or a gateway before it, loses uploads whose length isn't known before",
                found.size.unwrap_or_default(),
                self.size
            );
            return Err(Error::Corrupt { object: self.store.client.name(self.key.as_str()), cause });
        }
        self.store.publish(&self.temporary, &self.key, &self.condition).await?;
        Ok(None)
    }

    async fn abort(&mut self) -> Result<(), Error> {
        self.parts = None;
        if let Some(request) = self.request.take() {
            request.abort();
        }
        self.store.client.delete(&self.temporary).await
    }
}

impl Drop for WebdavUpload {
    fn drop(&mut self) {
        // Otherwise the end of the parts would be the end of the file.
        if let Some(request) = &self.request {
            request.abort();
        }
    }
}
