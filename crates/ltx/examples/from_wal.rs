//! Makes one LTX file of the committed transactions in a SQLite write-ahead log.
//!
//! The file holds the newest version of each page, and no database checksum, like the files of Litestream. The caller
//! gives the transaction id, which is one more than that of the newest file of the chain. (The first file of a chain,
//! transaction 1, must have every page. A log has them all only if it began with the database.)
//!
//! ```text
//! cargo run --example from_wal -- app.db-wal 2 0000000000000002-0000000000000002.ltx
//! ```

#![allow(clippy::disallowed_methods, reason = "an example reads files, arguments and the clock")]

use std::error::Error;
use std::time::SystemTime;

use seawall_ltx::wal::{FRAME_HEADER_SIZE, HEADER_SIZE, Scan, WalHeader};
use seawall_ltx::{Checksum, Encoder, Header, Txid};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(wal), Some(txid), Some(out)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: from_wal WAL TXID FILE".into());
    };
    let txid = Txid(txid.to_str().unwrap_or_default().parse()?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let file = from_wal(&std::fs::read(wal)?, txid, i64::try_from(now.as_millis())?)?;
    std::fs::write(out, file)?;
    Ok(())
}

/// The LTX file of a log's committed transactions.
pub(crate) fn from_wal(wal: &[u8], txid: Txid, timestamp_ms: i64) -> Result<Vec<u8>, Box<dyn Error>> {
    let log = WalHeader::parse(wal).ok_or("this is no write-ahead log, or an empty one")?;
    let mut scan = Scan::new(HEADER_SIZE, log.chain);
    // Stops at the first frame of an earlier generation of the log; frames of an open transaction don't count.
    scan.take(&log, &wal[HEADER_SIZE as usize..], u64::MAX);
    if scan.is_empty() {
        return Err("the log has no committed transaction".into());
    }

    let header = Header {
        timestamp_ms,
        wal_offset: scan.start,
        wal_size: scan.bytes(),
        wal_salt1: log.salts.0,
        wal_salt2: log.salts.1,
        ..Header::new(log.page_size, scan.commit, txid, txid)
    };
    let mut file = Vec::new();
    let mut encoder = Encoder::new(header, &mut file)?;
    for version in scan.newest() {
        let start = (HEADER_SIZE + u64::from(version.frame) * log.frame_size()) as usize + FRAME_HEADER_SIZE;
        encoder.push(version.page, &wal[start..][..log.page_size.bytes()], &mut file)?;
    }
    encoder.finish(Checksum::NONE, &mut file)?;
    Ok(file)
}
