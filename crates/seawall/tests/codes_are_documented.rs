//! `docs/errors.md` lists exactly the codes that the sources have.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Texts between `open` and `close` that look like a code: `area.problem`.
fn codes(text: &str, quote: char) -> impl Iterator<Item = String> {
    const AREAS: [&str; 15] = [
        "engine", "archive", "mysql", "postgres", "usage", "command", "config", "agent", "sqlite", "lmdb", "vault",
        "ltx", "demo", "copy", "proof",
    ];
    let is_code = |part: &&str| {
        let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        part.split_once('.').is_some_and(|(area, problem)| AREAS.contains(&area) && word(problem))
    };
    text.split(quote).filter(is_code).map(str::to_owned)
}

/// Codes in the sources below `folder`, their tests left out.
fn in_sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "target" {
            in_sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.extend(codes(code, '"'));
        }
    }
}

#[test]
fn no_more_and_no_fewer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = BTreeSet::new();
    in_sources(&root.join("crates"), &mut sources);
    // Names of files that look like codes.
    sources.retain(|code| !code.ends_with(".yml") && !code.ends_with(".db"));
    let text = fs::read_to_string(root.join("docs/errors.md")).expect("docs/errors.md");
    let documented: BTreeSet<String> = codes(&text, '`').collect();
    let missing: Vec<_> = sources.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&sources).collect();
    assert!(missing.is_empty() && stale.is_empty(), "not documented: {missing:?}; not in the sources: {stale:?}");
}
