//! Finds a password in a file like `~/.pgpass`. The format, and the host name of a socket in it, are those of `libpq`
//! ("The Password File").

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The default folder of PostgreSQL's sockets.
pub(super) const SOCKETS: &str = "/var/run/postgresql";

/// The host name in a line for a socket: its folder, or `localhost` for the default folder.
pub(super) fn host_of_socket(folder: &Path) -> String {
    if folder.as_os_str() == SOCKETS { "localhost".to_owned() } else { folder.display().to_string() }
}

/// The password that a file has for a host, port, database and role, or why it has none.
pub(super) fn look(file: &Path, wanted: [&str; 4]) -> Result<String, String> {
    let text = read_private(file).map_err(|cause| format!("{}: {cause}", file.display()))?;
    let none = || {
        format!(
            "{} has none for host {}, port {}, database {}, role {}",
            file.display(),
            wanted[0],
            wanted[1],
            wanted[2],
            wanted[3]
        )
    };
    find_password(&text, wanted).ok_or_else(none)
}

/// The text of a file that other users can't read.
fn read_private(file: &Path) -> Result<String, String> {
    let mode = std::fs::metadata(file).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err("others can read it: chmod 600".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

/// The password of the first line that matches. A line is `host:port:database:user:password`; `*` matches anything, and
/// a backslash takes the next character literally.
pub(crate) fn find_password(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = vec![String::new()];
        let mut characters = line.chars();
        while let Some(c) = characters.next() {
            // Everything after the fourth colon is the password, including colons.
            if c == ':' && fields.len() < 5 {
                fields.push(String::new());
                continue;
            }
            let c = if c == '\\' { characters.next() } else { Some(c) };
            fields.last_mut()?.extend(c);
        }
        let fits =
            fields.len() == 5 && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then(|| fields.swap_remove(4))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_a_file() {
        let text = "# comment\nlocalhost:5432:shop:app:one\n*:*:*:app:two:with:colons\na\\:b:1:*:u\\\\x:th\\:ree\nshort:line\n";
        for (wanted, password) in [
            (["localhost", "5432", "shop", "app"], Some("one")),
            (["localhost", "5433", "shop", "app"], Some("two:with:colons")),
            (["a:b", "1", "any", "u\\x"], Some("th:ree")),
            (["localhost", "5432", "shop", "other"], None),
        ] {
            assert_eq!(find_password(text, wanted).as_deref(), password, "{wanted:?}");
        }
    }
    #[test]
    fn a_socket_is_looked_up_by_its_folder_and_the_usual_one_as_localhost() {
        for (folder, host) in [
            ("/var/run/postgresql", "localhost"),
            ("/run/postgresql", "/run/postgresql"),
            ("/tmp", "/tmp"),
            ("/srv/pg", "/srv/pg"),
        ] {
            assert_eq!(host_of_socket(Path::new(folder)), host);
        }
    }
}
