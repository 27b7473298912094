//! What the SQLite engine reads from disk and vault: WAL, wal-index, state records, hole records, names of objects.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_sqlite::fuzzing::parse(bytes));
