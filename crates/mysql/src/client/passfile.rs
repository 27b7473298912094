//! A password in a file of its own: the first line is the password, and the file has no other.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The password of a file that no other user can read.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let failed = |cause: &str| format!("{}: {cause}", file.display());
    let mode = std::fs::metadata(file).map_err(|error| failed(&error.to_string()))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(failed("others can read it: chmod 600"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    password(&text).map(str::to_owned).ok_or_else(|| failed("it must have one line, the password"))
}

/// The one line of a text.
fn password(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    let password = lines.next().filter(|password| !password.is_empty())?;
    lines.next().is_none().then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line() {
        for (text, expected) in [
            ("p\n", Some("p")),
            ("p", Some("p")),
            ("a b#c\r\n", Some("a b#c")),
            ("", None),
            ("\n", None),
            ("p\nq\n", None),
        ] {
            assert_eq!(password(text), expected, "{text:?}");
        }
    }

    #[test]
    fn others_must_not_read_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "p\n").expect("written");
        for (mode, expected) in [(0o600, true), (0o400, true), (0o640, false), (0o644, false)] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("set");
            assert_eq!(read(file.path()).is_ok(), expected, "{mode:o}");
        }
    }
}
