//! What is read of a vault about proofs: names of records, records, and lists of compared objects.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_engines::fuzzing::parse(bytes));
