//! What a vault reads: answers of SFTP, WebDAV and NATS servers, and the objects that say how a vault is encrypted.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| seawall_vault::fuzzing::parse(bytes));
