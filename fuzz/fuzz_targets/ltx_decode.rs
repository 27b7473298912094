//! Whole LTX files: no panic, and the same verdict whatever the pieces and batches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{Result, Splitter, Summary, crc64};

fn read(file: &[u8], piece: usize, batch: usize) -> (Result<Summary>, u64) {
    let mut splitter = Splitter::with_batch_size(batch);
    let mut pages = Vec::new();
    let mut read = || {
        for mut piece in file.chunks(piece) {
            while let Some(batch) = splitter.feed(&mut piece)? {
                let batch = batch.decode()?;
                splitter.join(&batch)?;
                for (number, data) in batch.pages() {
                    pages.push((number, crc64(data)));
                }
            }
        }
        Ok(())
    };
    let result = read().and_then(|()| splitter.finish());
    (result, pages.len() as u64)
}

fuzz_target!(|file: &[u8]| {
    let (whole, pages) = read(file, usize::MAX, 1);
    let (pieces, pages_of_pieces) = read(file, 7, 1);
    assert_eq!((&whole, pages), (&pieces, pages_of_pieces));
    let (batches, _) = read(file, 1000, 1 << 20);
    assert_eq!(whole, batches);
    if let Ok(summary) = whole {
        assert_eq!(summary.pages, pages);
    }
});
