//! Names and numbers: what is read is spelled the same again (numbers in lower case).
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{Checksum, FileName, Position, Timestamp, Txid};

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<FileName>() {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(txid) = text.parse::<Txid>() {
        assert_eq!(txid.to_string(), text.to_ascii_lowercase());
    }
    if let Ok(checksum) = text.parse::<Checksum>() {
        assert_eq!(checksum.to_string(), text.to_ascii_lowercase());
    }
    if let Ok(position) = text.parse::<Position>() {
        assert_eq!(position.to_string(), text.to_ascii_lowercase());
    }
    // A moment has many spellings; the one that we write stands for the same.
    if let Ok(time) = text.parse::<Timestamp>() {
        assert_eq!(time.to_string().parse(), Ok(time));
    }
});
