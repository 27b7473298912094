//! What the MySQL engine reads from servers and users: packets of a login, answers, rows, URLs, option files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_mysql::fuzzing::parse(bytes));
