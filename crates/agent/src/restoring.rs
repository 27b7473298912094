//! The command that restores a database beside the original: its words, and its text for a shell.

use std::path::{Path, PathBuf};

use seawall_core::is_visible;

/// How a command names the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// By its name or source, in a configuration.
    In(String, String),
    /// By its vault.
    Vault(String),
}

/// Where it is restored to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file or folder beside the original.
    Beside(PathBuf),
    /// A database beside the original on its server.
    Database(String),
    /// All databases of a server: they need another one.
    Server(String),
}

impl Target {
    /// The place beside the original. `path` is the file or folder of the database, `source` what its status calls it.
    pub fn of(path: Option<&Path>, source: &str) -> Self {
        match path {
            Some(path) => Self::Beside(beside(path)),
            None => of_server(source),
        }
    }

    /// The file or folder, if it is one.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Beside(path) => Some(path.clone()),
            Self::Database(_) | Self::Server(_) => None,
        }
    }

    /// Whether a part of the command is to be replaced first.
    pub fn has_gap(&self) -> bool {
        matches!(self, Self::Server(_))
    }
}

/// The words of the command that restores the point of this position.
pub fn command(named: &Named, target: &Target, position: &str) -> Vec<String> {
    let mut words = vec!["seawall".to_owned(), "restore".to_owned()];
    match named {
        Named::In(file, name) => words.extend(["--config".to_owned(), file.clone(), name.clone()]),
        Named::Vault(vault) => words.push(vault.clone()),
    }
    match target {
        Target::Beside(path) => words.extend(["-o".to_owned(), path.display().to_string()]),
        Target::Database(url) | Target::Server(url) => words.extend(["--to".to_owned(), url.clone()]),
    }
    words.extend(["--at".to_owned(), position.to_owned()]);
    // A name with a `-` at its beginning would be a flag.
    let is_flag = |word: &String| word.starts_with('-');
    if let Named::Vault(name) | Named::In(_, name) = named
        && is_flag(name)
    {
        words.retain(|word| word != name);
        words.extend(["--".to_owned(), name.clone()]);
    }
    words
}

/// A command as a shell takes it.
pub fn in_shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it. Characters that a reader doesn't see are written as bash, zsh and ksh read them, so that a command is what it
/// looks like.
fn quoted(word: &str) -> String {
    if word.chars().all(is_visible) {
        return shell_words::quote(word).into_owned();
    }
    let mut text = "$'".to_owned();
    for c in word.chars() {
        match c {
            '\'' | '\\' => text.extend(['\\', c]),
            c if is_visible(c) => text.push(c),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\{byte:03o}"))),
        }
    }
    text + "'"
}

/// The file or folder that a restore beside the original makes: with another name before the extension, so that it stays one of its kind.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let name = part(path.file_stem()).unwrap_or_default();
    match part(path.extension()) {
        Some(extension) => path.with_file_name(format!("{name}-restored.{extension}")),
        None => path.with_file_name(format!("{name}-restored")),
    }
}

/// The place for a database of a server: the server's URL, and the name of a database that isn't there yet.
fn of_server(url: &str) -> Target {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').map_or((rest, String::new()), |(rest, query)| (rest, format!("?{query}")));
    match rest.split_once('/') {
        Some((host, database)) if !database.is_empty() => {
            Target::Database(format!("{scheme}://{host}/{database}_restored{query}"))
        }
        _ => Target::Server(format!("{scheme}://USER@NEW_SERVER/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let beside = |path: &str| Target::of(Some(Path::new(path)), path);
        let named = |name: &str| Named::In("/etc/seawall.yml".into(), name.into());
        for (target, named, expected) in [
            (
                beside("/data/app.db"),
                named("app"),
                "seawall restore --config /etc/seawall.yml app -o /data/app-restored.db --at 00af",
            ),
            (
                beside("/data/it's here/a b"),
                Named::Vault("s3://b/x?endpoint=https://m".into()),
                "seawall restore 's3://b/x?endpoint=https://m' -o '/data/it'\\''s here/a b-restored' --at 00af",
            ),
            (
                beside("/data/a'\u{202e}\\7\u{1b}.db"),
                Named::Vault("/v".into()),
                r"seawall restore /v -o $'/data/a\'\342\200\256\\7\033-restored.db' --at 00af",
            ),
            (
                beside("/data/$(rm -rf x).db"),
                named("-rf"),
                "seawall restore --config /etc/seawall.yml -o '/data/$(rm -rf x)-restored.db' --at 00af -- -rf",
            ),
            (
                Target::of(None, "postgresql://app@db:5432/shop?sslmode=require"),
                named("shop"),
                "seawall restore --config /etc/seawall.yml shop --to 'postgresql://app@db:5432/shop_restored?sslmode=require' --at 00af",
            ),
            (
                Target::of(None, "mysql://app@db/"),
                named("all"),
                "seawall restore --config /etc/seawall.yml all --to mysql://USER@NEW_SERVER/ --at 00af",
            ),
        ] {
            assert_eq!(in_shell(&command(&named, &target, "00af")), expected);
            assert_eq!(target.has_gap(), expected.contains("NEW_SERVER"));
        }
    }
}
