//! Documentation that runs: every public type, function and constant has an example, and every method is used in one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A public item as its file has it.
struct Item {
    place: String,
    /// The type that it belongs to; `None` for an item that belongs to no type.
    of: Option<String>,
    kind: String,
    name: String,
    /// Whether its own documentation has an example.
    shown: bool,
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The public items of a file, and the code of its examples. By lines, as rustfmt leaves them.
fn read(path: &Path, items: &mut Vec<Item>, examples: &mut String) {
    let text = fs::read_to_string(path).unwrap();
    let (mut of, mut shown, mut inside) = (None, false, false);
    for (at, line) in text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]")) {
        let code = line.trim_start();
        if let Some(said) = code.strip_prefix("///").or_else(|| code.strip_prefix("//!")) {
            let said = said.trim_start();
            if said.starts_with("```") {
                (inside, shown) = (!inside, true);
            } else if inside {
                examples.extend([said.trim_start_matches("# "), "\n"]);
            }
            continue;
        }
        if code.starts_with("#[") {
            continue;
        }
        if let Some(block) = line.strip_prefix("impl") {
            let block = block.split_once(" for ").map_or(block, |(_, own)| own);
            let block =
                if block.starts_with('<') { block.split_once("> ").map_or(block, |(_, own)| own) } else { block };
            of = Some(word(block.trim_start()).to_owned());
        } else if line.starts_with('}') {
            of = None;
        }
        if let Some((kind, name)) = public(code) {
            let place = format!("{}:{}", path.display(), at + 1);
            items.push(Item { place, of: of.clone(), kind: kind.to_owned(), name: name.to_owned(), shown });
        }
        shown = false;
    }
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The kind and the name of a public item.
fn public(code: &str) -> Option<(&str, &str)> {
    let mut words = code.strip_prefix("pub ")?.split(' ').skip_while(|word| *word == "unsafe" || *word == "async");
    let mut kind = words.next()?;
    let mut name = words.next()?;
    if (kind, name) == ("const", "fn") {
        (kind, name) = (name, words.next()?);
    }
    ["fn", "struct", "enum", "trait", "type", "const"].contains(&kind).then_some((kind, word(name)))
}

#[test]
fn every_public_item_is_shown_at_work() {
    let mut paths = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    let (mut items, mut examples) = (Vec::new(), String::new());
    for path in paths {
        read(&path, &mut items, &mut examples);
    }
    assert!(items.len() > 150, "only {} items were found", items.len());
    let missing: BTreeSet<String> = items
        .iter()
        .filter(|item| !match (&item.of, item.kind.as_str()) {
            (None, _) => item.shown,
            (Some(of), "fn") if item.name == "new" => examples.contains(&format!("{of}::new(")),
            (Some(of), "fn") => {
                let uses = [format!(".{}(", item.name), format!("{of}::{}", item.name)];
                item.shown || uses.iter().any(|used| examples.contains(used))
            }
            (Some(of), _) => examples.contains(&format!("{of}::{}", item.name)),
        })
        .map(|item| format!("{} {}", item.place, item.name))
        .collect();
    assert!(missing.is_empty(), "no example shows {missing:#?}");
}
