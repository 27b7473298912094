//! What the LMDB engine reads from vault and environment: snapshots, names of objects, headers of values, flags.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_lmdb::fuzzing::parse(bytes));
