//! Headers: what is read is valid, and is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::Header;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::parse(bytes) {
        assert_eq!(header.validate(), Ok(()));
        assert_eq!(header.encode(), bytes[..100]);
    }
});
