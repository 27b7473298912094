//! Prints what an LTX file of any generation holds. Every byte of it is read and every checksum verified.
//!
//! ```text
//! cargo run --example info -- 0000000000000001-0000000000000001.ltx
//! ```

#![allow(clippy::disallowed_methods, reason = "an example reads files and arguments")]

use std::error::Error;
use std::fmt::Write;

use seawall_ltx::{Generation, Timestamp, decode_any};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: info FILE")?;
    print!("{}", info(&std::fs::read(path)?)?);
    Ok(())
}

/// What a file holds, as text.
pub(crate) fn info(file: &[u8]) -> Result<String, Box<dyn Error>> {
    let mut numbers = Vec::new();
    let summary = decode_any(file, |page, _data| numbers.push(page.to_string()))?;
    let (header, trailer) = (summary.header, summary.trailer);
    let generation = Generation::detect(file)?.map_or_else(|| "current".to_owned(), |older| older.to_string());
    let kind = if header.is_snapshot() { "snapshot" } else { "increment" };

    let mut text = String::new();
    writeln!(text, "generation     {generation}")?;
    writeln!(text, "kind           {kind}")?;
    writeln!(text, "transactions   {} to {}", header.min_txid, header.max_txid)?;
    writeln!(text, "time           {}", Timestamp(header.timestamp_ms))?;
    writeln!(text, "page size      {}", header.page_size)?;
    writeln!(text, "database       {} pages", header.commit)?;
    writeln!(text, "pre-apply      {}", header.pre_apply)?;
    writeln!(text, "post-apply     {}", trailer.post_apply)?;
    writeln!(text, "file checksum  {}", trailer.file)?;
    writeln!(text, "pages          {}", numbers.join(" "))?;
    Ok(text)
}
