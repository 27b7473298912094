//! What a unit of systemd that runs Seawall would keep it from doing. Pure: from the unit's text to findings.

use std::path::{Path, PathBuf};

use super::confined::{Confined, May, is_on};
use super::finding::Finding;
use super::host::is_secret;

const CHECK: &str = "unit";

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

/// The lines of a unit that matter here. Drop-ins may stand behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// The words of the command.
    command: Vec<String>,
    /// Files of variables, each with whether it must be there.
    environment_files: Vec<(PathBuf, bool)>,
    /// Names of variables that hold a secret in the unit itself.
    secrets: Vec<String>,
    /// `SEAWALL_CONFIG` or `LITESTREAM_CONFIG`, where a variable of the unit sets it.
    config: Option<PathBuf>,
    working_directory: Option<PathBuf>,
    user: Option<String>,
    /// `ProcSubset=pid`.
    hides_system: bool,
    /// `RemoveIPC=yes`.
    removes_ipc: bool,
    confined: Confined,
}

/// The program that a unit runs, by the name it is called by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Called {
    Seawall,
    /// With Litestream's own command line.
    Litestream,
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
        match key {
            // An empty assignment takes back the earlier ones.
            "ExecStart" if value.is_empty() => self.command.clear(),
            "ExecStart" => self.command = words(value),
            "EnvironmentFile" if value.is_empty() => self.environment_files.clear(),
            // With a minus it may be missing.
            "EnvironmentFile" => {
                let file = unquoted(value.trim_start_matches('-')).into();
                self.environment_files.push((file, !value.starts_with('-')));
            }
            "Environment" => words(value).iter().for_each(|word| self.set(word)),
            "WorkingDirectory" => self.working_directory = Some(unquoted(value.trim_start_matches('-')).into()),
            "User" => self.user = Some(unquoted(value).to_owned()).filter(|user| !user.is_empty()),
            "ProcSubset" => self.hides_system = value == "pid",
            "RemoveIPC" => self.removes_ipc = is_on(value),
            _ => self.confined.take(key, value, &words(value)),
        }
    }

    fn set(&mut self, word: &str) {
        let Some((name, value)) = word.split_once('=') else { return };
        self.take_variable(name, value);
        if is_secret(name, value) {
            self.secrets.push(name.to_owned());
        }
    }

    /// Takes up a variable, of the unit or of a file that it names.
    pub(super) fn take_variable(&mut self, name: &str, value: &str) {
        let of_program = match self.called() {
            Some(Called::Litestream) => "LITESTREAM_CONFIG",
            Some(Called::Seawall) | None => "SEAWALL_CONFIG",
        };
        if name.trim() == of_program {
            self.config = Some(unquoted(value.trim()).into());
        }
    }

    /// The names of secrets in the command.
    fn secrets_of_command(&self) -> Vec<String> {
        let words = self.command.iter().map(String::as_str);
        let pairs = words.clone().zip(words.clone().skip(1).chain([""]));
        let of_pair = |(word, next): (&str, &str)| {
            let name = word.trim_start_matches('-');
            match name.split_once('=') {
                Some((name, value)) if is_secret(name, value) => Some(name.to_owned()),
                _ if word.starts_with('-') && !next.starts_with('-') && is_secret(name, next) => Some(name.to_owned()),
                _ => is_secret("", word).then(|| "a URL in ExecStart".to_owned()),
            }
        };
        pairs.filter_map(of_pair).collect()
    }

    /// The program.
    fn program(&self) -> Option<&Path> {
        self.command.first().map(|word| Path::new(word.trim_start_matches(['@', '-', ':', '+', '!'])))
    }

    fn called(&self) -> Option<Called> {
        match self.program()?.file_name()?.to_str()? {
            "seawall" => Some(Called::Seawall),
            "litestream" => Some(Called::Litestream),
            _ => None,
        }
    }

    /// Whether it runs `seawall replicate`, under whatever path, or `litestream replicate`, which may be Seawall by that name.
    pub(super) fn runs_seawall(&self) -> bool {
        self.called().is_some() && self.command.iter().any(|word| word == "replicate")
    }

    /// The configuration that it runs with: the one that it names, or the one that the program looks for.
    pub(super) fn config(&self, exists: &dyn Fn(&Path) -> bool) -> PathBuf {
        let here = self.working_directory.as_deref().unwrap_or(Path::new("/"));
        let named = self.named_config().or_else(|| self.config.clone()).map(|file| match is_variable(&file) {
            true => file,
            false => here.join(file),
        });
        named.unwrap_or_else(|| match self.called() {
            Some(Called::Litestream) => PathBuf::from("/etc/litestream.yml"),
            _ => Some(here.join("seawall.yml")).filter(|file| exists(file)).unwrap_or("/etc/seawall.yml".into()),
        })
    }

    /// The configuration that the command names.
    fn named_config(&self) -> Option<PathBuf> {
        let mut words = self.command.iter();
        while let Some(word) = words.next() {
            // Litestream's own command line has one dash.
            let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
            match flag.split_once('=') {
                Some(("config", file)) => return Some(file.into()),
                None if flag == "config" => return words.next().map(PathBuf::from),
                _ => {}
            }
        }
        None
    }

    /// The files of variables that it reads.
    pub(super) fn environment_files(&self) -> impl Iterator<Item = &Path> {
        self.environment_files.iter().map(|(file, _)| file.as_path())
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
        let meaning =
            "its ExecStart runs neither `seawall replicate` nor `litestream replicate`, so the unit protects nothing";
        return vec![Finding::wrong(CHECK, name, meaning, edit("correct ExecStart"))];
    }
    let mut found = of_secrets(name, unit);
    found.extend(of_harm(name, unit));
    if let Some(root) = unit.confined.root() {
        let meaning =
            format!("it runs in another root ({root}), so what it finds and may write there can't be told here");
        let next = format!("seawall doctor --config '{}', inside that root", needs.config.display());
        found.push(Finding::warning(CHECK, name, meaning, next));
        return found;
    }
    found.extend(of_missing(name, unit, needs));
    let config = unit.config(needs.exists);
    if !is_variable(&config) && config != needs.config {
        let meaning =
            format!("it runs with {}, and this command looked at {}", config.display(), needs.config.display());
        let next = format!("seawall doctor --config '{}'", config.display());
        found.push(Finding::warning(CHECK, name, meaning, next));
    } else {
        found.extend(needs.written.iter().filter_map(|written| of_written(name, unit, written)));
    }
    if found.is_empty() {
        let user = match (&unit.user, unit.confined.has_dynamic_user()) {
            (_, true) => "; whether its dynamic user may isn't looked at".to_owned(),
            (Some(user), false) if user != "root" && user != "0" => {
                format!("; whether the user {user} may isn't looked at")
            }
            _ => String::new(),
        };
        let meaning = format!(
            "its files exist, and the directives that are looked at (`seawall doctor --help`) allow it to write everything that the \
             configuration needs{user}"
        );
        found.push(Finding::fine(CHECK, name, meaning));
    }
    found
}

/// Secrets that stand in the unit.
fn of_secrets(name: &str, unit: &Unit) -> Vec<Finding> {
    let secrets = [unit.secrets.clone(), unit.secrets_of_command()].concat();
    if secrets.is_empty() {
        return Vec::new();
    }
    let meaning = format!("it holds a secret ({}), and every user may read units", secrets.join(", "));
    let next = edit(name, "put it into a file with mode 600 and name it as EnvironmentFile");
    vec![Finding::warning(CHECK, name, meaning, next)]
}

/// Directives that narrow the rights of most services well, and harm here.
fn of_harm(name: &str, unit: &Unit) -> Vec<Finding> {
    let mut found = Vec::new();
    if unit.hides_system {
        let meaning = "ProcSubset=pid hides /proc/locks, /proc/meminfo and /proc/sys: Seawall can't find who has an LMDB environment open, \
                       bound its memory by the machine's, or tell a reboot from a restart";
        found.push(Finding::warning(CHECK, name, meaning, edit(name, "take ProcSubset away")));
    }
    // The packages' own user has no application.
    if let Some(user) = unit.user.as_deref().filter(|user| unit.removes_ipc && *user != "seawall") {
        let meaning = format!(
            "RemoveIPC deletes the semaphores and shared memory of the user {user}, also an application's, when the service stops"
        );
        found.push(Finding::warning(CHECK, name, meaning, edit(name, "take RemoveIPC away")));
    }
    found
}

/// Files and folders without which the unit doesn't start.
fn of_missing(name: &str, unit: &Unit, needs: &Needs<'_>) -> Vec<Finding> {
    let is_missing = |path: &Path| path.is_absolute() && !is_variable(path) && !(needs.exists)(path);
    let mut found = Vec::new();
    let mut missing = |path: &Path, what: &str, next: &str| {
        if is_missing(path) {
            let meaning = format!("{what} {} doesn't exist, so the unit doesn't start", path.display());
            found.push(Finding::wrong(CHECK, name, meaning, edit(name, next)));
        }
    };
    unit.program().into_iter().for_each(|path| missing(path, "its program", "correct ExecStart"));
    missing(&unit.config(needs.exists), "its configuration", "correct --config");
    unit.environment_files.iter().filter(|(_, must)| *must).for_each(|(path, _)| {
        missing(path, "its EnvironmentFile", "correct EnvironmentFile, or put a minus before it if it may be missing");
    });
    for (key, path) in unit.confined.must_exist() {
        let next = format!("mkdir -p '{}'; or correct {key}, or put a minus before the path,", path.display());
        missing(path, &format!("the path of {key}"), &next);
    }
    found
}

/// Whether the service can write to a folder.
fn of_written(name: &str, unit: &Unit, Written { folder, purpose }: &Written) -> Option<Finding> {
    let shown = folder.display();
    let (meaning, next) = match unit.confined.may(folder) {
        May::Write => return None,
        May::Read => (
            format!("the service can't write to {shown} ({purpose}): the unit makes it read-only"),
            format!("add ReadWritePaths={shown}"),
        ),
        May::Nothing(directive) => (
            format!("the service doesn't see {shown} ({purpose}): {directive} hides what is there"),
            format!("take {directive} away for that folder, or use another folder,"),
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
        let there = [
            "/usr/local/bin/seawall",
            "/usr/local/bin/litestream",
            "/etc/seawall.yml",
            "/etc/other.yml",
            "/etc/seawall.env",
            "/srv/seawall.yml",
            "/var/lib/app",
            "/srv",
            "/srv/app",
        ];
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
            // Without one it takes the one that the program looks for.
            ("ExecStart=/usr/local/bin/seawall replicate\n".to_owned(), vec![Fine]),
            ("ExecStart=/usr/local/bin/seawall replicate\nWorkingDirectory=/srv\n".to_owned(), vec![Warning]),
            ("ExecStart=seawall replicate --config other.yml\nWorkingDirectory=/etc\n".to_owned(), vec![Warning]),
            // Seawall by the name of litestream, whose configuration isn't there.
            ("ExecStart=/usr/local/bin/litestream replicate\n".to_owned(), vec![Wrong, Warning]),
            ("ExecStart=/usr/local/bin/litestream replicate -config /etc/seawall.yml\n".to_owned(), vec![Fine]),
            ("ExecStart=/usr/local/bin/litestream replicate -config=/etc/other.yml\n".to_owned(), vec![Warning]),
            ("ExecStart=/usr/local/bin/litestream databases\n".to_owned(), vec![Wrong]),
            // A root of its own.
            (format!("{EXEC}RootDirectory=/srv/root\n"), vec![Warning]),
            (format!("{EXEC}RootDirectory=/srv/root\nRootDirectory=\n"), vec![Fine]),
            (format!("{EXEC}User=app\n"), vec![Fine]),
            // Secrets in the command.
            (format!("{} --mcp-token=hush\n", EXEC.trim_end()), vec![Warning]),
            (format!("{} --mcp-token hush\n", EXEC.trim_end()), vec![Warning]),
            (format!("{} --mcp-token ${{TOKEN}}\n", EXEC.trim_end()), vec![Fine]),
            (format!("{} /a.db s3://b/p?secret-access-key=x\n", EXEC.trim_end()), vec![Warning]),
            (format!("{EXEC}EnvironmentFile=/etc/gone.env\n"), vec![Wrong]),
            (format!("{EXEC}EnvironmentFile=-/etc/gone.env\nEnvironmentFile=/etc/seawall.env\n"), vec![Fine]),
            (format!("{EXEC}Environment=A=1 \"AWS_SECRET_ACCESS_KEY=x y\"\n"), vec![Warning]),
            (format!("{EXEC}Environment=AWS_REGION=x PGPASSWORD=hush\n"), vec![Warning]),
            // What harms.
            (format!("{EXEC}ProcSubset=pid\n"), vec![Warning]),
            (format!("{EXEC}ProcSubset=pid\nProcSubset=all\n"), vec![Fine]),
            (format!("{EXEC}User=app\nRemoveIPC=yes\nProcSubset=pid\n"), vec![Warning, Warning]),
            (format!("{EXEC}User=app\nRemoveIPC=no\n"), vec![Fine]),
            (format!("{EXEC}User=seawall\nRemoveIPC=yes\n"), vec![Fine]),
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
            ("ProtectSystem=strict\nReadWritePaths=-/var/lib/ap", "/var/lib/app", Wrong),
            // The unit doesn't start.
            ("ReadWritePaths=/var/lib/gone", "/var/lib/app", Wrong),
            ("ReadWritePaths=-/var/lib/gone +/var/lib/app -+/gone", "/var/lib/app", Fine),
            ("ReadWritePaths=/var/lib/new/x\nStateDirectory=new", "/var/lib/new", Fine),
            ("ReadWritePaths=%S/gone", "/var/lib/app", Fine),
            ("ProtectSystem=strict\nStateDirectory=app", "/var/lib/app", Fine),
            ("ProtectSystem=strict\nReadWritePaths=-/var\nReadOnlyPaths=/var/lib/app", "/var/lib/app", Wrong),
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
        let user = judged(&format!("{EXEC}User=app\n"), "/var/lib/app");
        assert!(user[0].meaning.ends_with("whether the user app may isn't looked at"), "{user:?}");
        let dynamic = judged(&format!("{EXEC}User=app\nDynamicUser=yes\nStateDirectory=app\n"), "/var/lib/app");
        assert!(dynamic[0].meaning.ends_with("whether its dynamic user may isn't looked at"), "{dynamic:?}");
        let gone = judged(&format!("{EXEC}ReadWritePaths=/gone\n"), "/var/lib/app");
        assert!(gone[0].meaning.starts_with("the path of ReadWritePaths /gone doesn't exist"), "{gone:?}");
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
