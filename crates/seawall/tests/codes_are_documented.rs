//! `docs/errors.md` lists exactly the codes that the sources have, with the kinds that they have there.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Whether a text looks like a code: `area.problem`.
fn is_code(text: &str) -> bool {
    const AREAS: [&str; 20] = [
        "agent", "alarm", "archive", "command", "config", "copy", "demo", "engine", "hook", "lmdb", "ltx", "mysql",
        "notify", "postgres", "proof", "query", "sqlite", "usage", "vault", "view",
    ];
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    text.split_once('.').is_some_and(|(area, problem)| AREAS.contains(&area) && word(problem))
}

/// Texts between `quote`s that look like a code.
fn codes(text: &str, quote: char) -> impl Iterator<Item = String> {
    text.split(quote).filter(|part| is_code(part)).map(str::to_owned)
}

/// The sources below the crates, their tests left out.
fn sources() -> Vec<String> {
    fn gather(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" && name != "target" {
                gather(&path, found);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).expect("a source");
                found.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    gather(&root().join("crates"), &mut found);
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    fs::read_to_string(root().join("docs/errors.md")).expect("docs/errors.md")
}

#[test]
fn no_more_and_no_fewer() {
    let mut sources: BTreeSet<String> =
        sources().iter().flat_map(|text| codes(text, '"').collect::<Vec<_>>()).collect();
    // Names of files that look like codes.
    sources.retain(|code| !code.ends_with(".yml") && !code.ends_with(".db"));
    let documented: BTreeSet<String> = codes(&document(), '`').collect();
    let missing: Vec<_> = sources.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&sources).collect();
    assert!(missing.is_empty() && stale.is_empty(), "not documented: {missing:?}; not in the sources: {stale:?}");
}

/// Many errors are written as `Kind::Refused, "vault.key"`, and their row must name that kind.
#[test]
fn the_kinds_are_those_of_the_sources() {
    let document = document();
    let rows = document.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.splitn(3, " | ");
        Some((cells.next()?.trim_end_matches('`'), cells.next()?))
    });
    let documented: BTreeMap<&str, &str> = rows.collect();
    let (mut compared, mut wrong) = (BTreeSet::new(), Vec::new());
    for text in sources() {
        for rest in text.split("Kind::").skip(1) {
            let Some((kind, rest)) = rest.split_once(',') else { continue };
            let code = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            let is_name = kind.chars().all(|c| c.is_ascii_alphabetic());
            let Some(code) = code.filter(|code| is_name && is_code(code)) else { continue };
            let kind = kebab(kind);
            let kinds = documented.get(code).copied().unwrap_or_default();
            if !kinds.split([',', ' ']).any(|one| one == kind) && kinds != "any" {
                wrong.push(format!("{code}: {kind} in the sources, {kinds} in the document"));
            }
            compared.insert(code.to_owned());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared.len() > 250, "only {} codes were compared", compared.len());
}

/// `NotFound` as `not-found`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for (index, c) in name.char_indices() {
        if c.is_ascii_uppercase() && index > 0 {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}
