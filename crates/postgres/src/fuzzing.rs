//! Entry points for the fuzz target: all code in this crate that reads bytes of other programs.

use seawall_vault::Environment;

use crate::artefact::directory::{self, Directory};
use crate::client::binary::{HEADER, Part, part};
use crate::client::{Target, find_password};
use crate::preflight::roles;
use crate::schema::global::global;
use crate::schema::script::{Rows, Scanner, rows};
use crate::schema::{copied, created, judged, toc, written};
use crate::{After, Globals, ItemDetail, Needs, ServerDetail, SetDetail};

/// Reads `bytes` as an archive, as the details of a set, as a stream of rows in binary, as a URL and as a password file. Nothing may panic.
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
    let _ = (judged::is_of_owners(bytes), global(bytes));
    meant(bytes);
    let _ = created::locale(&String::from_utf8_lossy(bytes));
    stream(bytes);
    crate::physical::fuzzing::parse(bytes);
    let _ = crate::client::replication::streamed(bytes::Bytes::copy_from_slice(bytes));
    if let Ok(globals) = serde_json::from_slice::<Globals>(bytes) {
        let restorer = roles::Restorer { version: 180_000, role: "postgres".to_owned(), is_superuser: true };
        let plan = roles::plan(&globals, 180_000, &Globals::default(), true, &restorer);
        let _ = (plan.statements.len(), crate::preflight::tablespaces::lacks(&globals, &Globals::default()).len());
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(target) = Target::parse(&text, &Environment::empty()) {
        let shown = target.to_string();
        let again = Target::parse(&shown, &Environment::empty()).map(|target| target.to_string());
        assert!(again.is_ok_and(|again| again == shown), "{shown}");
    }
    let _ = find_password(&text, ["host", "5432", "database", "user"]);
}

/// Judges a statement. What has rows is run, and what is a copy of a file isn't.
fn meant(bytes: &[u8]) {
    let meant = written::meant(bytes);
    assert_eq!(meant == written::Meant::Rows, copied::has_rows(bytes));
    assert!(!copied::is_copy_of_a_file(bytes) || matches!(meant, written::Meant::Refused(_)));
}

/// Takes `bytes` as messages of COPY in binary, whole and as far as they have arrived.
fn stream(bytes: &[u8]) {
    for first in [true, false] {
        let whole = part(first, bytes, bytes.len());
        for arrived in 0..bytes.len().min(64) {
            let known = part(first, &bytes[..arrived], bytes.len());
            assert!(known == Ok(None) || known == whole, "{arrived}");
        }
        assert!(!matches!(whole, Ok(None)), "all of it is here");
        assert!(whole.ok().flatten().is_none_or(|part| part.skipped <= bytes.len()));
    }
    let header = [&HEADER[..], bytes].concat();
    if let Ok(Some(Part { skipped, .. })) = part(true, &header, header.len()) {
        assert!((HEADER.len()..=header.len()).contains(&skipped));
    }
}

/// Reads every statement of a script, and rows after each.
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
