//! What every backup writes into a set: the details of items, small documents, and what a program writes.

use seawall_archive::{SetWriter, Stage};
use serde::Serialize;
use tokio::time::Instant;

use crate::Error;
use crate::detail::ItemDetail;
use crate::tools::Running;

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::Internal(format!("a document can't be written: {error}")))
}

/// Takes everything that a tool writes as the bytes of an item.
pub(crate) async fn written(writer: &SetWriter, item: u32, mut running: Running) -> Result<(), Error> {
    let mut lane = writer.lane();
    loop {
        let mut buffer = lane.buffer().await?;
        let started = Instant::now();
        let more = running.read(&mut buffer).await?;
        lane.waited(Stage::Server, started.elapsed());
        lane.push(item, 0, buffer).await?;
        if !more {
            break;
        }
    }
    running.finish().await?;
    Ok(lane.finish().await?)
}

/// A small file of our own.
pub(crate) async fn file(
    writer: &SetWriter,
    name: &str,
    detail: &ItemDetail,
    content: &impl Serialize,
) -> Result<(), Error> {
    Ok(writer.document(name, json(detail)?, content).await?)
}
