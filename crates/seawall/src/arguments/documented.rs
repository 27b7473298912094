//! Every command of Seawall's in the documents, help texts and messages exists, with the flags that it is shown with.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;

use super::Arguments;

/// The documents and sources of the project, each with its text.
fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs"), root.join("crates"), root.join("packaging")];
    let mut found = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| ["md", "rs"].iter().any(|known| extension == *known)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a text"))).collect()
}

/// The command lines in a document: lines of its code blocks, and texts between backticks. Of a source only texts between
/// backticks, which are in messages.
fn lines_of(path: &Path, text: &str) -> Vec<String> {
    let is_document = path.extension().is_some_and(|extension| extension == "md");
    let joined = text.replace("\\\n", " ");
    let (mut found, mut in_block) = (Vec::new(), false);
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block && is_document {
            let line = line.trim().trim_start_matches("$ ").trim_start_matches("sudo ");
            found.extend(line.starts_with("seawall ").then(|| line.to_owned()));
        } else if is_document || !line.trim_start().starts_with("//") {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter(|span| span.starts_with("seawall ")).map(str::to_owned));
        }
    }
    found
}

/// The words of a command line as a shell takes them, up to the first thing that is the shell's. What is optional in a synopsis is left
/// out, and of alternatives the first one is taken.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut optional) = (Vec::new(), String::new(), None, 0);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => quote = Some(c),
            ('[', None) => optional += 1,
            (']', None) => optional -= 1,
            _ if optional > 0 => {}
            ('#' | '>' | '&' | ';', None) if word.is_empty() => break,
            // A remark in two columns follows, or a pipe.
            (' ', None) if rest.peek() == Some(&' ') || rest.peek() == Some(&'|') => {
                let after: String = rest.clone().collect();
                let is_alternative = !after.trim_start().starts_with("| ") && after.trim_start().starts_with('|');
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                if !is_alternative {
                    break;
                }
            }
            (' ', None) => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            (c, None) => word.push(c),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    let first = |word: &String| word.split('|').next().unwrap_or_default().to_owned();
    words.iter().map(first).filter(|word| !word.is_empty() && word != "…" && word != "...").collect()
}

#[test]
fn every_command_and_flag_in_the_documents_exists() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for (path, text) in texts() {
        for line in lines_of(&path, &text) {
            let words = words(&line);
            seen += 1;
            // A placeholder, and a drawing of the crates.
            if words.iter().any(|word| word == "COMMAND" || word == "->") {
                continue;
            }
            let Err(error) = Arguments::try_parse_from(&words) else { continue };
            // A text may name a command without all that it needs, or with a placeholder.
            if !matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) {
                continue;
            }
            let name = path.file_name().unwrap_or_default().display().to_string();
            wrong.push(format!(
                "{name}: {line}\n    {words:?}\n    {}",
                error.to_string().lines().next().unwrap_or_default()
            ));
        }
    }
    assert!(seen > 300, "the documents were found");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
