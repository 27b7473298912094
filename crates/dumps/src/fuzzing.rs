//! Entry points of the fuzz targets: every parser here reads bytes of a file that anybody may have written.

use std::io::Read as _;

use crate::key::Key;
use crate::layers::Content;
use crate::mark::Ending;
use crate::recognise::{Form, Maker, said};
use crate::sidecar::Sidecar;
use crate::tar::{Tar, parts};
use crate::unsealed::Unsealed;

/// The most bytes that are decompressed: bombs are longer.
const MOST: u64 = 4 << 20;

/// Parses `bytes` as each form that this crate reads. No parser may panic.
pub fn parse(bytes: &[u8]) {
    let _ = (Form::of(bytes, "x.sql"), said(bytes));
    let _ = Sidecar::parse(bytes, "m");
    let _ = crate::settings::seawall_yml(&String::from_utf8_lossy(bytes), "f");
    let mut ending = Ending::default();
    bytes.chunks(7).for_each(|piece| ending.take(piece));
    let _ = ending.is_whole(Maker::Mysql);
    if let Ok(mut content) = Content::open(Box::new(bytes), "x.sql") {
        let _ = (&mut content.bytes).take(MOST).read_to_end(&mut Vec::new());
    }
    let mut tar = Tar::new(bytes, "t");
    while let Ok(Some(head)) = tar.next() {
        let _ = parts(&head.path, "t").map(|parts| crate::members::role(&parts));
        let mut content = Vec::new();
        if (&mut tar).take(MOST).read_to_end(&mut content).is_err() {
            break;
        }
    }
    if let Ok(key) = Key::parse(&[0; 32], "k")
        && let Ok(mut unsealed) = Unsealed::new(bytes, &key, "f")
    {
        let _ = unsealed.read_to_end(&mut Vec::new());
    }
}
