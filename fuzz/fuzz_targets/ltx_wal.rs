//! Write-ahead logs: no panic, and the same pages whatever the pieces in which the log is scanned.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::wal::{HEADER_SIZE, PageVersion, Scan, WalHeader};

fn scan(header: &WalHeader, wal: &[u8], frames: usize) -> (u64, Vec<PageVersion>) {
    let mut scan = Scan::new(HEADER_SIZE, header.chain);
    let frames = wal.get(HEADER_SIZE as usize..).unwrap_or_default().chunks(header.frame_size() as usize * frames);
    for piece in frames {
        if !scan.take(header, piece, u64::MAX) {
            break;
        }
    }
    (scan.bytes(), scan.newest())
}

fuzz_target!(|wal: &[u8]| {
    let Some(header) = WalHeader::parse(wal) else { return };
    let (bytes, pages) = scan(&header, wal, 1 << 20);
    assert_eq!((bytes, pages.clone()), scan(&header, wal, 1));
    assert!(bytes <= wal.len() as u64);
    assert!(pages.is_sorted_by(|a, b| a.page < b.page));
});
