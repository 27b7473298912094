//! What compresses chunks itself: gzip's fast level, and frames of LZ4. The bytes come back, and grow by little.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_archive::fuzzing::round_trip(bytes));
