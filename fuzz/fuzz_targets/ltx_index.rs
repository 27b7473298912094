//! The end of a file: entries ascend and stay within the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{Index, PageNo};

fuzz_target!(|input: (u64, &[u8])| {
    let (extra, tail) = input;
    for len in [tail.len() as u64, extra] {
        let Ok(index) = Index::parse(tail, len) else { continue };
        let (mut page, mut end) = (PageNo(0), 100);
        for entry in index.entries() {
            assert!(entry.page > page && entry.offset == end);
            (page, end) = (entry.page, entry.offset + u64::from(entry.size));
            assert_eq!(index.find(page), Some(entry));
        }
        assert!(end < len);
    }
});
