//! Entry points for the fuzz target: all code in this crate that reads bytes of other programs.

/// Reads `bytes` as packets of a server, as a row, as a URL and as an option file. Nothing may panic.
pub fn parse(bytes: &[u8]) {
    crate::client::fuzzing::parse(bytes);
}
