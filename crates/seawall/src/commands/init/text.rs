//! The text of the configuration: from what was found and what was answered.
//!
//! What isn't taken stands there as a comment, so that a person can take it later.

use std::collections::BTreeSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::is_visible;

use super::ask::Answers;
use super::found::{Thing, What, one_line};

/// The most bytes of a name that is made here.
const LONGEST_NAME: usize = 64;

/// What is escaped in the host of a URL.
const HOST: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is escaped in a setting of a URL.
const SETTING: &AsciiSet = &HOST.remove(b'/');

/// The configuration.
pub(super) fn text(things: &[Thing], answers: &Answers) -> String {
    let mut text = "# Written by `seawall init`. `seawall config check` shows how this file is understood;\n\
        # docs/configuration.md has every setting.\n\n\
        # Everything is kept here, each database below its name.\n"
        .to_owned();
    if !answers.vault.contains("://") {
        text.push_str(
            "# A folder on this machine is lost with the machine. s3://bucket/prefix or sftp://host/path isn't.\n",
        );
    }
    let (vault, keep) = (scalar(&answers.vault), scalar(&answers.keep));
    text.push_str(&format!("vault: {vault}\n\n# You can restore to every moment of this time back.\n"));
    text.push_str(&format!("retention:\n  keep: {keep}\n\ndatabases:\n"));
    let (taken, others): (Vec<usize>, Vec<usize>) = (0..things.len()).partition(|at| answers.taken.contains(at));
    let mut names = BTreeSet::new();
    for at in taken {
        let item = item(&things[at], &mut names);
        text.extend(item.notes.iter().map(|note| format!("  # {note}\n")));
        text.extend(item.lines.iter().map(|line| format!("  {line}\n")));
    }
    if !others.is_empty() {
        text.push_str("\n  # Found, and not taken. To take one, remove the `#` before each line from its `-` on.\n");
    }
    for at in others {
        let item = item(&things[at], &mut names);
        text.extend(item.notes.iter().map(|note| format!("  # {note}\n")));
        text.extend(item.lines.iter().map(|line| format!("  #{line}\n")));
    }
    text
}

/// A database of the configuration.
struct Item {
    /// Comments.
    notes: Vec<String>,
    /// Its keys.
    lines: Vec<String>,
}

fn item(thing: &Thing, names: &mut BTreeSet<String>) -> Item {
    let name = format!("  name: {}", scalar(&name(&thing.what, names)));
    let programs: Vec<String> = thing.programs.iter().map(|program| one_line(program)).collect();
    let open = if programs.is_empty() { String::new() } else { format!(", open in {}", programs.join(", ")) };
    let schedule = "  schedule: H 3 * * *".to_owned();
    match &thing.what {
        What::Sqlite { path, wal } => {
            let mut notes = vec![format!("SQLite{open}.")];
            if !wal {
                notes.push("Its journal mode isn't WAL: Seawall switches it to WAL.".to_owned());
            }
            Item { notes, lines: vec![format!("- path: {}", scalar(path)), name] }
        }
        What::Lmdb { path, folder } => {
            let notes = vec![
                format!("LMDB{open}. Seawall keeps it in step with the environments of this name in the vault."),
                "schema-tracks-changes: true if the application puts a header before every value. With false,".to_owned(),
                "Seawall keeps versions in DBIs of its own, in the environment.".to_owned(),
            ];
            let mut lines = vec![format!("- path: {}", scalar(path)), name, "  lmdb:".to_owned()];
            lines.push("    schema-tracks-changes: false".to_owned());
            if !folder {
                lines.push("    no-subdir: true".to_owned());
            }
            Item { notes, lines }
        }
        What::Postgres { folder, port } => Item {
            notes: vec![
                "PostgreSQL: the whole server, every night. docs/commands.md has the rights that the role needs.".to_owned(),
                "The password goes into ~/.pgpass, or into a file (mode 0600) that `backup: { passfile: FILE }` names.".to_owned(),
            ],
            lines: vec![
                format!("- url: postgresql://backup@{}:{port}/", utf8_percent_encode(folder, HOST)),
                name,
                schedule,
            ],
        },
        What::Mysql { socket } => Item {
            notes: vec![
                "MySQL or MariaDB: the whole server, every night. docs/commands.md has the rights that the user needs.".to_owned(),
                "The password goes into ~/.my.cnf, or into a file (mode 0600) that `backup: { password-file: FILE }` names.".to_owned(),
            ],
            lines: vec![
                format!("- url: mysql://backup@localhost/?socket={}", utf8_percent_encode(socket, SETTING)),
                name,
                schedule,
            ],
        },
    }
}

/// A name for a database that no other one has: of its file, if need be with its folder and a number.
fn name(what: &What, names: &mut BTreeSet<String>) -> String {
    let (own, folder) = match what {
        What::Sqlite { path, .. } => {
            let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
            (file.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map_or(file, |(stem, _)| stem), folder)
        }
        What::Lmdb { path, .. } => path.rsplit_once('/').map_or((path.as_str(), ""), |(folder, file)| (file, folder)),
        What::Postgres { port, .. } => return unique(format!("postgres-{port}"), names),
        What::Mysql { .. } => return unique("mysql".to_owned(), names),
    };
    let clean = |name: &str| {
        let name = clean(name, what.engine());
        // Names of snapshots are made of parts between dots and double underscores.
        if matches!(what, What::Lmdb { .. }) { name.replace(['.', '_'], "-") } else { name }
    };
    let above = folder.rsplit('/').next().unwrap_or_default();
    match clean(own) {
        own if !names.contains(&own) || above.is_empty() => unique(own, names),
        _ => unique(clean(&format!("{above}-{own}")), names),
    }
}

/// The letters, digits and signs of a name that a configuration takes.
fn clean(name: &str, otherwise: &str) -> String {
    let mut clean = String::new();
    for c in name.chars() {
        let c = if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
        if clean.len() + c.len_utf8() > LONGEST_NAME {
            break;
        }
        clean.push(c);
    }
    match clean.trim_matches(['.', '-']) {
        "" => otherwise.to_owned(),
        name => name.to_owned(),
    }
}

fn unique(name: String, names: &mut BTreeSet<String>) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name)).unwrap_or(name);
    names.insert(free.clone());
    free
}

/// A text as a value of YAML that is read back as exactly this text, on one line.
fn scalar(text: &str) -> String {
    // The reader takes `${NAME}` for a variable.
    let text = text.replace("${", "$${");
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '.' | '-' | ':' | '@' | '?' | '=');
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    if begins && text.chars().all(is_safe) && !text.ends_with(':') && !text.eq_ignore_ascii_case("null") {
        return text;
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match (c, u32::from(c)) {
            ('"' | '\\', _) => quoted.extend(['\\', c]),
            // Characters that are no text in YAML.
            (_, code) if !is_visible(c) || code & 0xfffe == 0xfffe => quoted.push_str(&match code {
                0..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            }),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
