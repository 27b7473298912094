//! Whole LTX files of any generation: no panic, pages ascend and are counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{PageNo, decode_any};

fuzz_target!(|file: &[u8]| {
    let (mut last, mut pages) = (PageNo(0), 0);
    let result = decode_any(file, |page, _| {
        assert!(page > last);
        (last, pages) = (page, pages + 1);
    });
    if let Ok(summary) = result {
        assert_eq!(summary.pages, pages);
    }
});
