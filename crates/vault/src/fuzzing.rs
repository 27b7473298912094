//! Entry points for the fuzz target: what this crate reads of servers and of objects that others can write.

use crate::stores::{nats, sftp, webdav};
use crate::{expiry, sealed};

/// Reads `bytes` as answers of servers, and as the objects of an encrypted vault. Nothing may panic.
pub fn parse(bytes: &[u8]) {
    sftp::read_anything(bytes);
    webdav::read_anything(bytes);
    nats::read_anything(bytes);
    sealed::read_anything(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ends = (expiry::of_signature(text), expiry::of_web_token(text), expiry::of_text(text));
    }
}
