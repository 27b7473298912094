//! What is read of backup sets: links, indexes, names of objects, rows in binary, frames.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_archive::fuzzing::parse(bytes));
