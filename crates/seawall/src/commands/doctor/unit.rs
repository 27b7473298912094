//! What a unit of systemd that runs Seawall would keep it from doing. Pure: from the unit's text to findings.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::host::is_secret;

const CHECK: &str = "unit";

/// Folders that stay writable under `ProtectSystem=strict`.
const NEVER_PROTECTED: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A folder that Seawall writes to, and what for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written {
    pub(super) folder: PathBuf,
    pub(super) purpose: String,
}

/// What the unit is held against.
pub(super) struct Needs<'a> {
    /// The configuration that the command looks at.
    pub(super) config: &'a Path,
    /// What Seawall writes to with that configuration.
    pub(super) written: &'a [Written],
    /// Whether a file is there.
    pub(super) exists: &'a dyn Fn(&Path) -> bool,
}

/// What a service may do with a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum May {
    Write,
    Read,
    /// It doesn't see what others see there.
    Nothing,
}

/// The lines of a unit that matter here. Drop-ins may stand behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// The words of the command.
    command: Vec<String>,
    /// Files of variables that must be there.
    environment_files: Vec<PathBuf>,
    /// Names of variables that hold a secret in the unit itself.
    secrets: Vec<String>,
    /// `SEAWALL_CONFIG`, where the unit sets it.
    config: Option<PathBuf>,
    protect_system: String,
    protect_home: String,
    private_tmp: bool,
    /// Paths with what the unit says of them.
    paths: Vec<(PathBuf, May)>,
}

impl Unit {
    /// Reads a unit.
    pub(super) fn read(text: &str) -> Self {
        let mut unit = Self::default();
        // A backslash at the end joins lines.
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';', '[']));
        for (key, value) in lines.filter_map(|line| line.split_once('=')) {
            unit.take(key.trim(), value.trim());
        }
        unit
    }

    fn take(&mut self, key: &str, value: &str) {
        let is_on = matches!(value, "yes" | "true" | "on" | "1");
        match key {
            // An empty assignment takes back the earlier ones.
            "ExecStart" if value.is_empty() => self.command.clear(),
            "ExecStart" => self.command = words(value),
            "EnvironmentFile" if value.is_empty() => self.environment_files.clear(),
            // With a minus it may be missing.
            "EnvironmentFile" if !value.starts_with('-') => self.environment_files.push(unquoted(value).into()),
            "Environment" => words(value).iter().for_each(|word| self.set(word)),
            "ProtectSystem" => value.clone_into(&mut self.protect_system),
            "ProtectHome" => value.clone_into(&mut self.protect_home),
            "PrivateTmp" => self.private_tmp = is_on || value == "disconnected",
            "ReadWritePaths" | "ReadWriteDirectories" => self.allow(value, "/", May::Write),
            "ReadOnlyPaths" | "ReadOnlyDirectories" => self.allow(value, "/", May::Read),
            "InaccessiblePaths" | "InaccessibleDirectories" => self.allow(value, "/", May::Nothing),
            "StateDirectory" => self.allow(value, "/var/lib", May::Write),
            "CacheDirectory" => self.allow(value, "/var/cache", May::Write),
            "LogsDirectory" => self.allow(value, "/var/log", May::Write),
            "RuntimeDirectory" => self.allow(value, "/run", May::Write),
            _ => {}
        }
    }

    fn set(&mut self, word: &str) {
        let Some((name, value)) = word.split_once('=') else { return };
        if name == "SEAWALL_CONFIG" {
            self.config = Some(value.into());
        }
        if is_secret(name, value) {
            self.secrets.push(name.to_owned());
        }
    }

    fn allow(&mut self, value: &str, below: &str, may: May) {
        if value.is_empty() {
            self.paths.retain(|(_, known)| *known != may);
        }
        let path = |word: &String| Path::new(below).join(word.trim_start_matches(['-', '+']));
        self.paths.extend(words(value).iter().map(|word| (path(word), may)));
    }

    /// The program.
    fn program(&self) -> Option<&Path> {
        self.command.first().map(|word| Path::new(word.trim_start_matches(['@', '-', ':', '+', '!'])))
    }

    /// Whether it runs `seawall replicate`, under whatever path.
    pub(super) fn runs_seawall(&self) -> bool {
        self.program().and_then(Path::file_name).is_some_and(|name| name == "seawall")
            && self.command.iter().any(|word| word == "replicate")
    }

    /// The configuration that it names.
    pub(super) fn config(&self) -> Option<PathBuf> {
        let mut words = self.command.iter();
        while let Some(word) = words.next() {
            if word == "--config" {
                return words.next().map(PathBuf::from);
            }
            if let Some(file) = word.strip_prefix("--config=") {
                return Some(file.into());
            }
        }
        self.config.clone()
    }

    /// The files of variables that it reads.
    pub(super) fn environment_files(&self) -> &[PathBuf] {
        &self.environment_files
    }

    /// What the service may do with a path: the longest path of which the unit says something decides.
    fn may(&self, path: &Path) -> May {
        let (system, home) = (self.protect_system.as_str(), self.protect_home.as_str());
        let mut rules: Vec<(PathBuf, May)> = Vec::new();
        let mut rule = |paths: &[&str], may| rules.extend(paths.iter().map(|path| (PathBuf::from(path), may)));
        match system {
            "strict" => {
                rule(&["/"], May::Read);
                rule(&NEVER_PROTECTED, May::Write);
            }
            "full" => rule(&["/usr", "/boot", "/efi", "/etc"], May::Read),
            "yes" | "true" | "on" | "1" => rule(&["/usr", "/boot", "/efi"], May::Read),
            _ => {}
        }
        match home {
            "read-only" => rule(&["/home", "/root", "/run/user"], May::Read),
            "yes" | "true" | "on" | "1" | "tmpfs" => rule(&["/home", "/root", "/run/user"], May::Nothing),
            _ => {}
        }
        if self.private_tmp {
            rule(&["/tmp", "/var/tmp"], May::Nothing);
        }
        rules.extend(self.paths.iter().cloned());
        let of_path = rules.iter().filter(|(folder, _)| path.starts_with(folder));
        of_path.max_by_key(|(folder, _)| folder.components().count()).map_or(May::Write, |(_, may)| *may)
    }
}

/// The words of a value, as systemd parts them: quotes hold blanks together.
fn words(value: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_open) = (Vec::new(), String::new(), None, false);
    for letter in value.chars() {
        match (letter, quote) {
            ('"' | '\'', None) => (quote, is_open) = (Some(letter), true),
            (letter, Some(end)) if letter == end => quote = None,
            (letter, None) if letter.is_whitespace() => {
                if is_open {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            (letter, _) => {
                word.push(letter);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words
}

fn unquoted(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

/// Whether systemd replaces something in a path, so that it can't be looked for.
fn is_variable(path: &Path) -> bool {
    path.to_string_lossy().contains(['%', '$'])
}

/// What to do about a unit: change its file, and let systemd take the change over.
fn edit(name: &str, change: &str) -> String {
    let service = Path::new(name).file_name().unwrap_or_default().display();
    format!("{change} in '{name}', then: systemctl daemon-reload && systemctl restart '{service}'")
}

/// What a unit means for a configuration. `name` is the unit's file.
pub(super) fn of_unit(name: &str, unit: &Unit, needs: &Needs<'_>) -> Vec<Finding> {
    let edit = |change: &str| edit(name, change);
    if !unit.runs_seawall() {
        let meaning = "its ExecStart doesn't run `seawall replicate`, so the unit protects nothing";
        return vec![Finding::wrong(CHECK, name, meaning, edit("correct ExecStart"))];
    }
    let is_missing = |path: &Path| path.is_absolute() && !is_variable(path) && !(needs.exists)(path);
    let mut found = Vec::new();
    let mut missing = |path: &Path, what: &str, next: &str| {
        if is_missing(path) {
            let meaning = format!("{what} {} doesn't exist, so the unit doesn't start", path.display());
            found.push(Finding::wrong(CHECK, name, meaning, edit(next)));
        }
    };
    unit.program().into_iter().for_each(|path| missing(path, "its program", "correct ExecStart"));
    unit.config().iter().for_each(|path| missing(path, "its configuration", "correct --config"));
    unit.environment_files.iter().for_each(|path| {
        missing(path, "its EnvironmentFile", "correct EnvironmentFile, or put a minus before it if it may be missing");
    });
    if !unit.secrets.is_empty() {
        let meaning = format!("it holds a secret ({}), and every user may read units", unit.secrets.join(", "));
        found.push(Finding::warning(
            CHECK,
            name,
            meaning,
            edit("put it into a file with mode 600 and name it as EnvironmentFile"),
        ));
    }
    match unit.config() {
        Some(config) if !is_variable(&config) && config != needs.config => {
            let meaning =
                format!("it runs with {}, and this command looked at {}", config.display(), needs.config.display());
            found.push(Finding::warning(
                CHECK,
                name,
                meaning,
                format!("seawall doctor --config '{}'", config.display()),
            ));
        }
        _ => found.extend(needs.written.iter().filter_map(|written| of_written(name, unit, written))),
    }
    if found.is_empty() {
        found.push(Finding::fine(
            CHECK,
            name,
            "its files exist, and it may write everything that the configuration needs",
        ));
    }
    found
}

/// Whether the service can write to a folder.
fn of_written(name: &str, unit: &Unit, Written { folder, purpose }: &Written) -> Option<Finding> {
    let shown = folder.display();
    let may = unit.may(folder);
    let in_temporary = unit.private_tmp && (folder.starts_with("/tmp") || folder.starts_with("/var/tmp"));
    let (meaning, next) = match may {
        May::Write => return None,
        May::Read => (
            format!("the service can't write to {shown} ({purpose}): the unit makes it read-only"),
            format!("add ReadWritePaths={shown}"),
        ),
        May::Nothing if in_temporary => (
            format!("the service doesn't see {shown} ({purpose}): PrivateTmp gives it a folder of its own"),
            "set PrivateTmp=no, or use another folder,".to_owned(),
        ),
        May::Nothing => (
            format!("the service doesn't see {shown} ({purpose}): the unit hides it"),
            format!("set ProtectHome=no, or remove it from InaccessiblePaths, for {shown}"),
        ),
    };
    Some(Finding::wrong(CHECK, name, meaning, edit(name, &next)))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{self, Fine, Warning, Wrong};
    use super::*;

    const EXEC: &str = "[Service]\nExecStart=/usr/local/bin/seawall replicate --config /etc/seawall.yml\n";

    fn judged(more: &str, folder: &str) -> Vec<Finding> {
        let written = [Written { folder: folder.into(), purpose: "the state of app".into() }];
        let there = ["/usr/local/bin/seawall", "/etc/seawall.yml", "/etc/other.yml", "/etc/seawall.env"];
        let exists = |path: &Path| there.iter().any(|one| path == Path::new(one));
        let needs = Needs { config: Path::new("/etc/seawall.yml"), written: &written, exists: &exists };
        of_unit("/etc/systemd/system/seawall.service", &Unit::read(more), &needs)
    }

    fn verdicts(more: &str, folder: &str) -> Vec<Verdict> {
        let found = judged(more, folder);
        assert!(found.iter().all(|finding| finding.next.is_empty() == (finding.verdict == Fine)), "{found:?}");
        found.into_iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn what_a_unit_runs() {
        for (unit, expected) in [
            (EXEC.to_owned(), vec![Fine]),
            ("[Service]\nExecStart=/bin/true\n".to_owned(), vec![Wrong]),
            (String::new(), vec![Wrong]),
            ("ExecStart=/usr/bin/seawall replicate\n".to_owned(), vec![Wrong]),
            (
                "ExecStart=-/usr/local/bin/seawall \\\n  replicate --config=/etc/gone.yml\n".to_owned(),
                vec![Wrong, Warning],
            ),
            ("ExecStart=/usr/local/bin/seawall replicate --config /etc/other.yml\n".to_owned(), vec![Warning]),
            ("ExecStart=/usr/local/bin/seawall replicate --config %E/seawall.yml\n".to_owned(), vec![Fine]),
            ("ExecStart=seawall replicate\nEnvironment=SEAWALL_CONFIG=/etc/other.yml\n".to_owned(), vec![Warning]),
            (format!("{EXEC}EnvironmentFile=/etc/gone.env\n"), vec![Wrong]),
            (format!("{EXEC}EnvironmentFile=-/etc/gone.env\nEnvironmentFile=/etc/seawall.env\n"), vec![Fine]),
            (format!("{EXEC}Environment=A=1 \"AWS_SECRET_ACCESS_KEY=x y\"\n"), vec![Warning]),
            (format!("{EXEC}Environment=AWS_REGION=x PGPASSWORD=hush\n"), vec![Warning]),
            // A drop-in replaces the command.
            (format!("{EXEC}[Service]\nExecStart=\nExecStart=/opt/seawall replicate\n"), vec![Wrong]),
            (format!("# ExecStart=/bin/true\n{EXEC}"), vec![Fine]),
        ] {
            assert_eq!(verdicts(&unit, "/var/lib/app"), expected, "{unit}");
        }
    }

    #[test]
    fn what_a_unit_lets_it_write() {
        for (more, folder, expected) in [
            ("", "/etc/app", Fine),
            ("ProtectSystem=yes", "/usr/share/app", Wrong),
            ("ProtectSystem=yes", "/etc/app", Fine),
            ("ProtectSystem=full", "/etc/app", Wrong),
            ("ProtectSystem=full", "/var/lib/app", Fine),
            ("ProtectSystem=strict", "/var/lib/app", Wrong),
            ("ProtectSystem=strict", "/dev/shm/app", Fine),
            ("ProtectSystem=strict\nReadWritePaths=/var/lib/app", "/var/lib/app/x", Fine),
            ("ProtectSystem=strict\nReadWritePaths=/srv -/var/lib", "/var/lib/app", Fine),
            ("ProtectSystem=strict\nReadWritePaths=/var/lib/app\nReadWritePaths=", "/var/lib/app", Wrong),
            ("ProtectSystem=strict\nReadWritePaths=/var/lib/ap", "/var/lib/app", Wrong),
            ("ProtectSystem=strict\nStateDirectory=app", "/var/lib/app", Fine),
            ("ProtectSystem=strict\nReadWritePaths=/var\nReadOnlyPaths=/var/lib/app", "/var/lib/app", Wrong),
            ("ProtectHome=yes", "/home/app", Wrong),
            ("ProtectHome=read-only", "/run/user/app", Wrong),
            ("ProtectHome=no", "/home/app", Fine),
            ("InaccessiblePaths=/srv", "/srv/app", Wrong),
            ("PrivateTmp=yes", "/tmp/app", Wrong),
            ("PrivateTmp=yes\nProtectSystem=strict", "/var/lib/app", Wrong),
            ("PrivateTmp=no", "/tmp/app", Fine),
        ] {
            assert_eq!(verdicts(&format!("{EXEC}{more}\n"), folder), [expected], "{more} {folder}");
        }
        let mend = &judged(&format!("{EXEC}ProtectSystem=strict\n"), "/var/lib/app")[0].next;
        assert!(mend.starts_with("add ReadWritePaths=/var/lib/app in "), "{mend}");
        assert!(mend.ends_with("systemctl restart 'seawall.service'"), "{mend}");
    }

    #[test]
    fn words_of_a_line() {
        for (text, expected) in [
            ("", &[][..]),
            (" a  b ", &["a", "b"]),
            ("'a b' c\"d e\"", &["a b", "cd e"]),
            ("''", &[""]),
            ("\"open", &["open"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
