//! Pages of any content come back from a file, and the file passes verification.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid, compress_batch, decode_all};

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (power, batch, bytes) = input;
    let Some(page_size) = PageSize::new(512 << (power % 8)) else { return };
    let pages: Vec<Vec<u8>> = bytes
        .chunks(page_size.bytes())
        .map(|chunk| chunk.iter().copied().chain(std::iter::repeat(0)).take(page_size.bytes()).collect())
        .collect();
    let numbered: Vec<(PageNo, &[u8])> =
        pages.iter().enumerate().map(|(at, page)| (PageNo(at as u32 * 3 + 1), page.as_slice())).collect();
    let mut file = Vec::new();
    let header = Header::new(page_size, u32::MAX, Txid(2), Txid(2));
    let mut encoder = Encoder::new(header, &mut file).expect("a valid header");
    for pages in numbered.chunks(usize::from(batch) + 1) {
        let batch = compress_batch(page_size, pages.iter().copied()).expect("whole pages");
        encoder.append(&batch, &mut file).expect("ascending pages");
    }
    encoder.finish(Checksum::NONE, &mut file).expect("a complete file");
    let mut back = Vec::new();
    decode_all(&file, |page, data| back.push((page, data.to_vec()))).expect("a valid file");
    assert!(back.iter().map(|(page, data)| (*page, data.as_slice())).eq(numbered));
});
