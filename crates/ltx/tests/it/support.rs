//! Golden files and small files of our own.

use std::path::PathBuf;

use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Result, Rolling, Splitter, Summary, page_checksum};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The path of a golden file.
pub(crate) fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/ltx").join(name)
}

/// The bytes of a golden file.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let path = golden_path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A golden file in JSON.
pub(crate) fn golden_json(name: &str) -> Value {
    serde_json::from_slice(&golden(name)).unwrap()
}

/// A string field.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is not a string in {value}"))
}

/// A field with a number in hexadecimal digits.
pub(crate) fn hex(value: &Value, field: &str) -> u64 {
    u64::from_str_radix(text(value, field), 16).unwrap()
}

/// The SHA-256 of bytes in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn size(bytes: u32) -> PageSize {
    PageSize::new(bytes).unwrap()
}

/// A page whose content depends on its number and on `salt`; a part of it doesn't compress.
pub(crate) fn page(page_size: PageSize, number: u32, salt: u64) -> Vec<u8> {
    let mut x = u64::from(number) << 32 ^ salt;
    let noisy = page_size.bytes() / 8 * (salt % 9) as usize;
    (0..page_size.bytes())
        .map(|i| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if i < noisy { (x >> 33) as u8 } else { (i / 100) as u8 }
        })
        .collect()
}

/// Writes a file page by page.
pub(crate) fn write(header: Header, pages: &[(u32, Vec<u8>)], post_apply: Checksum) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(header, &mut file)?;
    for (number, data) in pages {
        encoder.push(PageNo(*number), data, &mut file)?;
    }
    encoder.finish(post_apply, &mut file)?;
    Ok(file)
}

/// The database checksum of pages.
pub(crate) fn rolling(pages: &[(u32, Vec<u8>)]) -> Checksum {
    let mut sum = Rolling::new();
    pages.iter().for_each(|(number, data)| sum.toggle(page_checksum(PageNo(*number), data)));
    sum.checksum()
}

/// The pages of a file.
pub(crate) type Pages = Vec<(u32, Vec<u8>)>;

/// Reads a file in pieces of `piece` bytes, in batches of `batch` bytes.
pub(crate) fn read(file: &[u8], piece: usize, batch: usize) -> Result<(Summary, Pages)> {
    let mut splitter = Splitter::with_batch_size(batch);
    let mut pages = Vec::new();
    for mut piece in file.chunks(piece) {
        while let Some(batch) = splitter.feed(&mut piece)? {
            let batch = batch.decode()?;
            splitter.join(&batch)?;
            pages.extend(batch.pages().map(|(number, data)| (number.0, data.to_vec())));
        }
    }
    Ok((splitter.finish()?, pages))
}
