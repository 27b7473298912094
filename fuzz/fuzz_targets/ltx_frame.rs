//! Single frames of any page size: what decodes is one page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{PageSize, decode_frame};

fuzz_target!(|input: (u8, &[u8])| {
    let (power, frame) = input;
    let Some(page_size) = PageSize::new(512 << (power % 8)) else { return };
    if let Ok((_, page)) = decode_frame(page_size, frame) {
        assert_eq!(page.len(), page_size.bytes());
    }
});
