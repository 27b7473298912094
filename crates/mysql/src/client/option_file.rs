//! Option files, as the vendors' programs have them: `my.cnf`. Pure but for reading the files.
//!
//! Read are the sections `[client]`, `[client-server]`, `[client-mariadb]` and `[seawall]`; a later line replaces an earlier one.
//! Other settings of these sections are for other programs, and passed over, except those that demand something of a
//! connection that isn't built. Source: "Using Option Files" in MySQL's manual.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::url::{Parts, wrong};
use crate::Error;

const SECTIONS: [&str; 4] = ["client", "client-server", "client-mariadb", "seawall"];

/// How deeply files may include others.
const DEPTH: usize = 10;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

/// One line of a file that has a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// The beginning of a section.
    Section(String),
    /// A setting, with `-` for `_` in its name; without a value it is switched on.
    Setting(String, Option<String>),
    /// The settings of another file belong here.
    Include(String),
    /// Those of all files of a folder that end in `.cnf`.
    IncludeFolder(String),
}

/// Reads a line. `None`: it has no meaning.
pub(super) fn line(text: &str) -> Option<Line> {
    let text = text.trim();
    if let Some(directive) = text.strip_prefix('!') {
        let (word, path) = directive.split_once(|c: char| c.is_ascii_whitespace())?;
        let path = path.trim().to_owned();
        return match word {
            "include" => Some(Line::Include(path)),
            "includedir" => Some(Line::IncludeFolder(path)),
            _ => None,
        };
    }
    if text.is_empty() || text.starts_with(['#', ';']) {
        return None;
    }
    if let Some(section) = text.strip_prefix('[') {
        return Some(Line::Section(section.split_once(']')?.0.trim().to_owned()));
    }
    let text = without_comment(text).trim();
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = name.trim().replace('_', "-");
    let name = name.strip_prefix("loose-").unwrap_or(&name).to_owned();
    Some(Line::Setting(name, value.map(|value| unescape(unquote(value.trim())))))
}

/// Cuts what comes behind a `#` that isn't in quotes.
fn without_comment(text: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (place, c) in text.char_indices() {
        match c {
            '\'' | '"' if !escaped => match quote {
                None => quote = Some(c),
                Some(open) if open == c => quote = None,
                Some(_) => {}
            },
            '#' if quote.is_none() => return text.get(..place).unwrap_or(text),
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    text
}

/// Takes one pair of quotes around a value away.
fn unquote(value: &str) -> &str {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote)))
        .unwrap_or(value)
}

/// Replaces `\b`, `\t`, `\n`, `\r`, `\s` and `\\`. A backslash before any other letter is itself.
fn unescape(value: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(value.len()), value.chars());
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('b') => text.push('\u{8}'),
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('s') => text.push(' '),
            Some('\\') => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

/// Takes a setting over, if it is one of ours.
pub(super) fn apply(name: &str, value: Option<&str>, parts: &mut Parts) -> Result<(), Error> {
    let is_on = || !matches!(value, Some(off) if off.eq_ignore_ascii_case("off") || off.eq_ignore_ascii_case("false") || off == "0");
    match name {
        // MariaDB's names for modes.
        "ssl" | "ssl-verify-server-cert" | "skip-ssl" | "disable-ssl" | "skip-ssl-verify-server-cert" => {
            let mode = match (name, is_on()) {
                ("ssl", true) => "REQUIRED",
                ("ssl", false) | ("skip-ssl" | "disable-ssl", true) => "DISABLED",
                ("ssl-verify-server-cert", true) => "VERIFY_IDENTITY",
                _ => return Ok(()),
            };
            // `ssl` beside `ssl-verify-server-cert` doesn't weaken it.
            if !(mode == "REQUIRED" && parts.ssl_mode.as_deref().is_some_and(|mode| mode.starts_with("VERIFY"))) {
                parts.ssl_mode = Some(mode.to_owned());
            }
        }
        "ssl-crl" | "ssl-crlpath" | "ssl-capath" | "ssl-fp" | "ssl-fplist" | "tls-fp" | "tls-fplist"
            if value.is_some_and(|value| !value.is_empty()) =>
        {
            let next =
                "name the authority's certificate in ssl-ca instead; revocation lists and fingerprints aren't read";
            return Err(wrong(name, "it is set in an option file, and can't be kept to", next));
        }
        "get-server-public-key" => parts.get_server_public_key = Some(if is_on() { "1" } else { "0" }.to_owned()),
        // A program that has one asks for it; we don't.
        "password" if value.is_none() => {}
        _ => {
            if let (Some(place), Some(value)) = (parts.setting(name), value) {
                *place = Some(value.to_owned());
            }
        }
    }
    Ok(())
}

/// The usual files, in the order in which they are read.
pub(super) fn usual(home: Option<&Path>) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/my.cnf"), PathBuf::from("/etc/mysql/my.cnf")];
    files.extend(home.map(|home| home.join(".my.cnf")));
    files
}

/// Reads those files that exist.
pub(super) fn read_usual(home: Option<&Path>, parts: &mut Parts) -> Result<(), Error> {
    for file in usual(home) {
        if std::fs::metadata(&file).is_ok() {
            read(&file, parts, 0)?;
        }
    }
    Ok(())
}

fn unusable(file: &Path, cause: &str, next: &str) -> Error {
    wrong(&file.display().to_string(), cause, next)
}

/// Reads a file, and those that it includes. One that others can change is refused, and so is one with a password that every
/// user can read.
pub(super) fn read(file: &Path, parts: &mut Parts, depth: usize) -> Result<(), Error> {
    let failed = |error: std::io::Error| unusable(file, &error.to_string(), "check the file and its permissions");
    if depth > DEPTH {
        return Err(unusable(file, "option files include each other without end", "remove an !include"));
    }
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(unusable(file, "this is no option file", "name a file like ~/.my.cnf"));
    }
    if metadata.permissions().mode() & 0o002 != 0 {
        return Err(unusable(file, "every user can change it", "chmod o-w"));
    }
    let bytes = std::fs::read(file).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut is_ours = false;
    for text in text.lines() {
        match line(text) {
            Some(Line::Section(section)) => is_ours = SECTIONS.contains(&section.as_str()),
            Some(Line::Include(path)) => read(&beside(file, &path), parts, depth + 1)?,
            Some(Line::IncludeFolder(path)) => read_folder(&beside(file, &path), parts, depth + 1)?,
            Some(Line::Setting(name, value)) if is_ours => {
                if name == "password" && value.is_some() && metadata.permissions().mode() & 0o004 != 0 {
                    return Err(unusable(file, "it has a password, and every user can read it", "chmod 600"));
                }
                apply(&name, value.as_deref(), parts)?;
            }
            Some(Line::Setting(..)) | None => {}
        }
    }
    Ok(())
}

fn read_folder(folder: &Path, parts: &mut Parts, depth: usize) -> Result<(), Error> {
    let failed = |error: std::io::Error| unusable(folder, &error.to_string(), "check the !includedir");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cnf"));
    files.sort();
    files.iter().try_for_each(|file| read(file, parts, depth))
}

/// The path of an included file: relative ones begin at the file that names them.
fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_meaning() {
        let set = |name: &str, value: Option<&str>| Some(Line::Setting(name.into(), value.map(str::to_owned)));
        for (text, expected) in [
            ("", None),
            ("  # comment", None),
            ("; comment", None),
            ("[client]", Some(Line::Section("client".into()))),
            ("  [ client ]  # x", Some(Line::Section("client".into()))),
            ("[client", None),
            ("user=app", set("user", Some("app"))),
            ("  user = app  ", set("user", Some("app"))),
            ("user = app # me", set("user", Some("app"))),
            ("password = \"a#b\" # it", set("password", Some("a#b"))),
            ("password = 'a\"#b'", set("password", Some("a\"#b"))),
            ("password=a#b", set("password", Some("a"))),
            ("password = \"a\\\"#b\"", set("password", Some("a\\\"#b"))),
            ("password=a=b", set("password", Some("a=b"))),
            ("password=\\s\\\\\\t\\x", set("password", Some(" \\\t\\x"))),
            ("password=' a '", set("password", Some(" a "))),
            ("password='a", set("password", Some("'a"))),
            ("password=", set("password", Some(""))),
            ("password", set("password", None)),
            ("ssl_mode=required", set("ssl-mode", Some("required"))),
            ("loose-ssl-mode=x", set("ssl-mode", Some("x"))),
            ("!include /etc/x.cnf ", Some(Line::Include("/etc/x.cnf".into()))),
            ("!includedir /etc/mysql/conf.d/", Some(Line::IncludeFolder("/etc/mysql/conf.d/".into()))),
            ("!other x", None),
            ("!include", None),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
    }

    fn applied(settings: &[(&str, Option<&str>)]) -> Result<Parts, Error> {
        let mut parts = Parts::default();
        settings.iter().try_for_each(|(name, value)| apply(name, *value, &mut parts))?;
        Ok(parts)
    }

    #[test]
    fn settings_of_both_vendors() {
        for (settings, mode) in [
            (&[("ssl-mode", Some("VERIFY_CA"))][..], Some("VERIFY_CA")),
            (&[("ssl", None)], Some("REQUIRED")),
            (&[("ssl", Some("0"))], Some("DISABLED")),
            (&[("skip-ssl", None)], Some("DISABLED")),
            (&[("ssl-verify-server-cert", None), ("ssl", Some("1"))], Some("VERIFY_IDENTITY")),
            (&[("ssl-verify-server-cert", Some("OFF"))], None),
            (&[("default-character-set", Some("utf8mb4")), ("password", None)], None),
        ] {
            assert_eq!(applied(settings).expect("known").ssl_mode.as_deref(), mode, "{settings:?}");
        }
        for name in ["ssl-crl", "ssl-capath", "tls-fp"] {
            assert!(applied(&[(name, Some("/x"))]).is_err(), "{name}");
            assert!(applied(&[(name, Some(""))]).is_ok(), "{name}");
        }
        let parts = applied(&[("get-server-public-key", None), ("password", Some("p"))]).expect("known");
        assert_eq!((parts.get_server_public_key.as_deref(), parts.password.as_deref()), (Some("1"), Some("p")));
    }

    fn write(file: &Path, text: &str, mode: u32) {
        std::fs::write(file, text).expect("written");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("set");
    }

    #[test]
    fn files_include_others_and_later_lines_win() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("conf.d")).expect("made");
        write(&at("conf.d/b.cnf"), "[client]\nport=2\n", 0o644);
        write(&at("conf.d/a.cnf"), "[client]\nport=1\nhost=a\n[mysqld]\nuser=mysql\n", 0o644);
        write(&at("conf.d/c.txt"), "[client]\nport=3\n", 0o644);
        write(&at("secret.cnf"), "[client-mariadb]\npassword=p\n", 0o640);
        write(
            &at("my.cnf"),
            "[client]\nuser=u\n[mysqld]\nport=9\n!includedir conf.d\n!include secret.cnf\n[seawall]\nhost=own\n",
            0o644,
        );
        let mut parts = Parts::default();
        read(&at("my.cnf"), &mut parts, 0).expect("read");
        let expected = Parts {
            host: Some("own".into()),
            port: Some("2".into()),
            user: Some("u".into()),
            password: Some("p".into()),
            ..Parts::default()
        };
        assert_eq!(parts, expected);
        write(&at("loop.cnf"), "!include loop.cnf\n", 0o644);
        write(&at("open.cnf"), "[client]\n", 0o666);
        write(&at("shown.cnf"), "[client]\npassword=p\n", 0o644);
        for (name, cause) in [
            ("loop.cnf", "include each other"),
            ("open.cnf", "change it"),
            ("shown.cnf", "read it"),
            ("conf.d", "no option file"),
            ("none.cnf", "No such file"),
        ] {
            let error = read(&at(name), &mut Parts::default(), 0).expect_err(name);
            assert!(error.to_string().contains(cause), "{name}: {error}");
        }
    }
}
