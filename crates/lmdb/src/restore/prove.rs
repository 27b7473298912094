//! Verification of snapshots: is every snapshot whole, and does its index match its content?

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _};

use seawall_core::{Failure, Finding, Moment, Progress, StrongVerification, Verification};
use seawall_vault::{ObjectKey, Vault};

use crate::capture::shape::Content;
use crate::error::{Error, snapshot_problem};
use crate::merge::belongs::belongs;
use crate::peers::latest::Listed;
use crate::peers::transfer::{self, Part};
use crate::restore::plan;
use crate::snapshot::index::Span;
use crate::snapshot::{Decompressor, Limits, SnapshotReader};

/// Reads all snapshots of a database. A snapshot that was deleted since the listing is no finding.
pub(crate) async fn verify(
    vault: &Vault,
    listed: &[Listed],
    now: Moment,
    progress: &dyn Progress,
) -> Result<Verification, Error> {
    read_all(vault, listed, now, progress).await.map(|(verification, _)| verification)
}

/// The same, with the keys of the snapshots that say that Seawall wrote them.
async fn read_all(
    vault: &Vault,
    listed: &[Listed],
    now: Moment,
    progress: &dyn Progress,
) -> Result<(Verification, BTreeSet<String>), Error> {
    progress.begin("verify", Some(listed.iter().map(|snapshot| snapshot.bytes).sum()));
    let mut found =
        Verification { at: now, newest: None, objects: 0, bytes: 0, findings: Vec::new(), doubts: Vec::new() };
    let (mut whole, mut ours) = (Vec::new(), BTreeSet::new());
    for snapshot in listed {
        let key = ObjectKey::new(&snapshot.key)?;
        let object = snapshot.key.clone();
        let (limits, name) = (Limits::default(), snapshot.name.clone());
        let read = transfer::read(vault, &key, vec![Part::Whole], move |source| {
            let mut reader = SnapshotReader::new(source, limits);
            while reader.next().map_err(|problem| snapshot_problem(&object, problem))?.is_some() {}
            belongs(&reader.preamble().meta, &name, &object).map(|()| reader.is_ours())
        });
        match read.await? {
            Err(Error::Vault(error)) if error.is_not_found() => continue,
            Err(error) if error.is_bad_snapshot() => found.findings.push(finding(&snapshot.key, error)),
            Err(error) => return Err(error),
            Ok(is_ours) => {
                whole.push(snapshot);
                if is_ours {
                    ours.insert(snapshot.key.clone());
                }
            }
        }
        found.objects += 1;
        found.bytes = found.bytes.saturating_add(snapshot.bytes);
        progress.advance(snapshot.bytes);
    }
    found.newest = plan::newest_point(whole);
    progress.finish();
    Ok((found, ours))
}

fn finding(key: &str, error: Error) -> Finding {
    let failure = Failure::from(error);
    Finding { code: failure.code, object: key.to_owned(), cause: failure.cause }
}

/// The same, and compares every piece with its digest in the index.
pub(crate) async fn verify_strong(
    vault: &Vault,
    listed: &[Listed],
    now: Moment,
    progress: &dyn Progress,
) -> Result<StrongVerification, Error> {
    let (verification, ours) = read_all(vault, listed, now, progress).await?;
    let mut strong = StrongVerification { verification, compared: 0, without_digest: Vec::new() };
    for snapshot in listed {
        if strong.verification.findings.iter().any(|finding| finding.object == snapshot.key) {
            continue;
        }
        let key = ObjectKey::new(&snapshot.key)?;
        let index = match transfer::index(vault, &key, snapshot.bytes).await {
            Err(Error::Vault(error)) if error.is_not_found() => continue,
            index => index?,
        };
        let Some(index) = index else {
            if ours.contains(&snapshot.key) {
                let cause = "Seawall wrote it with an index, which is missing or damaged: its end was cut or changed";
                let (code, object) = ("lmdb.index", snapshot.key.clone());
                strong.verification.findings.push(Finding { code, object, cause: cause.to_owned() });
                continue;
            }
            strong.without_digest.push(snapshot.key.clone());
            continue;
        };
        let spans: Vec<Span> = index.sections.into_iter().flat_map(|section| section.pieces).collect();
        let parts = ranges(&spans);
        let wrong = transfer::read(vault, &key, parts, move |source| compare(source, &spans)).await?;
        match wrong.map_err(|source| Error::Io { path: snapshot.key.clone().into(), source })? {
            None => strong.compared += 1,
            Some(first) => strong.verification.findings.push(Finding {
                code: "lmdb.index",
                object: snapshot.key.clone(),
                cause: format!("its index has another digest of the piece at byte {first} than what is there"),
            }),
        }
    }
    Ok(strong)
}

/// The bytes of all pieces; adjacent pieces are read at once.
fn ranges(spans: &[Span]) -> Vec<Part> {
    let mut parts = Vec::new();
    for span in spans {
        let end = span.at.saturating_add(span.length);
        match parts.last_mut() {
            Some(Part::Range(before)) if before.end == span.at => before.end = end,
            _ => parts.push(Part::Range(span.at..end)),
        }
    }
    parts
}

/// The offset of the first piece that doesn't match its entry in the index.
fn compare(mut source: impl io::Read, spans: &[Span]) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; 64 << 10];
    for span in spans {
        let mut part = (&mut source).take(span.length);
        let mut piece = Decompressor::new(&mut part);
        let (mut hasher, mut raw) = (blake3::Hasher::new(), 0_u64);
        loop {
            match piece.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    raw += count as u64;
                    hasher.update(buffer.get(..count).unwrap_or_default());
                }
                // Any other error is the vault's.
                Err(error) => match error.kind() {
                    ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                        return Ok(Some(span.at));
                    }
                    _ => return Err(error),
                },
            }
        }
        // What the decoder left unread of it.
        drop(piece);
        io::copy(&mut part, &mut io::sink())?;
        let mut content = Content::default();
        hasher.finalize_xof().fill(&mut content);
        if content != span.content || raw != span.raw {
            return Ok(Some(span.at));
        }
    }
    Ok(None)
}
