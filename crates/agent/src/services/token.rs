//! The token that requests must carry. One that is in a file is read at each request, so that it can be renewed while
//! the process runs.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use seawall_config::{At, Fields, Location, Problem};

use crate::config::{Hidden, absolute};

/// More than any token has.
const LONGEST: u64 = 64 << 10;

/// Whether a text can be a token.
pub(crate) fn is_sound(text: &str) -> bool {
    text.len() >= 16 && text.chars().all(|c| c.is_ascii_graphic())
}

/// The text of a file without the white space at its end.
pub(crate) fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// Takes a token of a configuration: from the first of two keys, or from the file that the second one names.
pub(crate) fn take(
    fields: &mut Fields,
    (own, file): (&'static str, &'static str),
    here: &Path,
) -> Result<Option<(Hidden, Option<PathBuf>)>, Location> {
    let (token, path) = match (fields.text(own)?, fields.text(file)?) {
        (Some(_), Some(At { line, .. })) => {
            return Err(Problem::Contradiction(format!("{own} and {file} are both given")).at(line));
        }
        (Some(token), None) => (token, None),
        (None, Some(At { line, value })) => {
            let path = absolute(Path::new(&value), here);
            let text = read(&path).map_err(|error| {
                let found = format!("{}: {error}", path.display());
                Problem::Value { key: file.into(), expected: "takes a file to read".into(), found }.at(line)
            })?;
            (At { line, value: text }, Some(path))
        }
        (None, None) => return Ok(None),
    };
    if !is_sound(&token.value) {
        let expected = "takes at least 16 letters, digits or signs, without blanks".to_owned();
        return Err(Problem::Value { key: own.into(), expected, found: "something else".into() }.at(token.line));
    }
    Ok(Some((Hidden::new(token.value), path)))
}

/// Compares in a time that doesn't tell where the first difference is.
pub(crate) fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// The token that counts now.
#[derive(Debug)]
pub(crate) struct Token {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    token: Hidden,
    /// Whether the file held no token at the last look.
    lost: bool,
}

impl Token {
    /// A token, with the file that it was read from, if it was.
    pub(crate) fn new(token: Hidden, file: Option<PathBuf>) -> Self {
        Self { file, known: Mutex::new(Known { token, lost: false }) }
    }

    /// The token that the file holds now. While the file is away, or holds no token, the last one counts.
    pub(crate) async fn now(&self) -> Hidden {
        let Some(file) = self.file.clone() else { return self.known().token.clone() };
        let shown = file.display().to_string();
        let read = tokio::task::spawn_blocking(move || read(&file)).await;
        let problem = match read {
            Ok(Ok(text)) if is_sound(&text) => {
                let mut known = self.known();
                (known.token, known.lost) = (Hidden::new(text), false);
                return known.token.clone();
            }
            Ok(Ok(_)) => "it holds no token of at least 16 letters, digits or signs".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let mut known = self.known();
        if !std::mem::replace(&mut known.lost, true) {
            tracing::warn!(file = shown, problem, "the token can't be read again: the last one counts");
        }
        known.token.clone()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Whole between any two statements that can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_in_a_file_can_be_renewed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        let token = Token::new(Hidden::new("the-first-of-all"), Some(file.clone()));
        assert_eq!(token.now().await.reveal(), "the-first-of-all", "the file isn't there");
        for (content, expected) in [
            ("the-second-of-all\n", "the-second-of-all"),
            ("", "the-second-of-all"),
            ("short", "the-second-of-all"),
            ("the-third-of-them", "the-third-of-them"),
        ] {
            std::fs::write(&file, content).expect("written");
            assert_eq!(token.now().await.reveal(), expected, "{content}");
        }
        assert_eq!(Token::new(Hidden::new("as it is"), None).now().await.reveal(), "as it is");
    }
}
