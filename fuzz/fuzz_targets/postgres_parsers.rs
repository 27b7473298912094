//! What the PostgreSQL engine reads from sets and users: archives of pg_dump, streams in binary, URLs, password files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_postgres::fuzzing::parse(bytes));
