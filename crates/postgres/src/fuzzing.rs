//! What the fuzz target calls: everything here that reads bytes which somebody else wrote.

use seawall_vault::Environment;

use crate::client::{Target, find_password};
use crate::directory::{self, Directory};
use crate::script::{Rows, Scanner, rows};
use crate::{After, Globals, ItemDetail, Needs, ServerDetail, SetDetail, roles, toc};

/// Reads `bytes` as an archive, as the details of a set, as a URL and as a password file. Nothing may panic.
pub fn parse(bytes: &[u8]) {
    if let Ok(entries) = toc::parse(bytes) {
        let _ = (toc::heavy(&entries).len(), toc::owners(&entries).len());
    }
    if let Ok(directory) = Directory::read(bytes) {
        assert!(toc::read(&directory.contents).is_ok_and(|toc| toc.entries.len() >= directory.parts.len()));
    }
    let _ = directory::objects(bytes);
    let _ = serde_json::from_slice::<SetDetail>(bytes);
    let _ = serde_json::from_slice::<ItemDetail>(bytes);
    let _ = serde_json::from_slice::<After>(bytes);
    let _ = serde_json::from_slice::<ServerDetail>(bytes);
    let _ = serde_json::from_slice::<Needs>(bytes);
    scan(bytes);
    if let Ok(globals) = serde_json::from_slice::<Globals>(bytes) {
        let plan = roles::plan(&globals, &Globals::default(), 180_000);
        let _ = (plan.statements.len(), roles::tablespaces(&globals, &Globals::default()).len());
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(target) = Target::parse(&text, &Environment::empty()) {
        let shown = target.to_string();
        let again = Target::parse(&shown, &Environment::empty()).map(|target| target.to_string());
        assert!(again.is_ok_and(|again| again == shown), "{shown}");
    }
    let _ = find_password(&text, ["host", "5432", "database", "user"]);
}

/// Takes every statement of a script, and rows behind each.
fn scan(bytes: &[u8]) {
    let (mut scanner, mut rest, mut found) = (Scanner::default(), bytes, 0);
    while !rest.is_empty() {
        rest = &rest[scanner.feed(rest)..];
        loop {
            match scanner.statement() {
                Ok(Some(statement)) => found += statement.len(),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        match rows(rest, true) {
            Rows::End(size, next) => assert!(size < next && next <= rest.len()),
            Rows::Go(size) => assert!(size <= rest.len()),
        }
    }
    assert!(found <= bytes.len());
}
