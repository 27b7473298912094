//! What is read of files that other backup programs left: forms, metadata, encryption, compression, tars, configurations.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_dumps::fuzzing::parse(bytes));
