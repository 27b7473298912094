//! Where is the control socket of a configuration that has an error? An operator who corrects it wants to ask the
//! process that runs with an earlier version of it.
//!
//! Only the lines of the `socket` section are read, so the rest needn't even be YAML. What a process listens on it
//! decides by the whole configuration, never by this.

use std::path::{Path, PathBuf};

use super::fields::Fields;
use super::services::{self, SocketConfig};
use super::{Surroundings, absolute, document, expand};

/// The socket that a text names in its own `socket` section, if it does.
pub fn socket_of(file: &Path, text: &str, surroundings: &Surroundings<'_>, expand: bool) -> Option<PathBuf> {
    let Surroundings { environment, directory, pid } = *surroundings;
    let section = section(text)?;
    let is_litestream = text.lines().any(|line| line.starts_with("dbs:"));
    let (tree, here) = if is_litestream {
        let section = if expand { expand::expand_text(&section, environment, pid) } else { section };
        (document::parse(&section).ok()?, directory.to_owned())
    } else {
        let tree = document::parse(&section).ok()?;
        let tree = if expand { expand::expand_values(tree, environment).ok()? } else { tree };
        let here = seawall_host::folder_of(file);
        (tree, absolute(here, directory))
    };
    let mut top = Fields::new("the top level", tree).ok()?;
    let services = if is_litestream {
        services::read_litestream(&mut top, &here, None)
    } else {
        services::read_native(&mut top, &here)
    };
    services.ok()?.socket.map(|SocketConfig { path, .. }| path)
}

/// The lines from `socket:` at the top to the next key.
fn section(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("socket:"));
    let first = lines.next()?;
    let belongs = |line: &&str| line.is_empty() || line.starts_with([' ', '\t', '#', '}']);
    let rest: Vec<&str> = lines.take_while(belongs).collect();
    Some(format!("{first}\n{}\n", rest.join("\n")))
}

#[cfg(test)]
mod tests {
    use seawall_vault::Environment;

    use super::*;

    #[test]
    fn the_socket_is_found_beside_any_error() {
        let environment: Environment = [("RUN".to_owned(), "/run/x".to_owned())].into_iter().collect();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 1 };
        for (text, expected) in [
            ("databases: [\nsocket: { path: s.sock }\n", Some("/etc/s.sock")),
            (
                "colour: red\nsocket:\n  path: ${RUN}/s.sock\n\n  # who\n  permissions: 0660\nvault: ${UNSET}\n",
                Some("/run/x/s.sock"),
            ),
            ("socket: {}\ndatabases: 5\n", Some("/var/run/seawall.sock")),
            ("socket:\n  enabled: false\ndatabases: 5\n", None),
            ("dbs: 5\nsocket:\n  enabled: true\n  path: $RUN/l.sock\n", Some("/run/x/l.sock")),
            ("dbs: 5\nsocket:\n  path: l.sock\n", None),
            ("databases:\n  - socket: {}\n", None),
            ("socket: { colour: red }\n", None),
            ("", None),
        ] {
            let found = socket_of(Path::new("/etc/seawall.yml"), text, &surroundings, true);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{text}");
        }
    }
}
