//! What a unit of systemd lets its service see and write. Pure: from the unit's directives to an answer for a path.
//!
//! The rules are those of systemd's own table of mounts (`namespace.c`, systemd.exec(5)). The longest path decides, but what hides a
//! folder hides everything below it.

use std::path::{Path, PathBuf};

/// Folders that stay writable under `ProtectSystem=strict`; `ProtectHome` decides about the last three.
const NEVER_PROTECTED: [&str; 6] = ["/dev", "/proc", "/sys", "/home", "/root", "/run/user"];

/// What `ProtectHome` is about.
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// What a service may do with a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Write,
    Read,
    /// It doesn't see what others see there, because of this directive.
    Nothing(&'static str),
}

/// What a rule does with a folder, the strongest of one folder last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    /// It may be written.
    Write,
    /// It may only be read.
    Read,
    /// The folder is shown at its own place, also where the folders above are empty.
    Show { writable: bool },
    /// Another, empty folder stands there. Only what is shown below it is seen.
    Empty,
    /// Nothing below is seen, whatever other rules say.
    Hide,
}

/// A rule of the unit.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    key: &'static str,
    path: PathBuf,
    does: Does,
    /// Whether the unit starts without it: it has a minus, or systemd makes it.
    may_be_missing: bool,
}

/// The directives of a unit that confine its service to a part of the file system.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Confined {
    protect_system: String,
    protect_home: String,
    private_tmp: bool,
    dynamic_user: bool,
    /// Another root, with the directive that sets it.
    root: Option<String>,
    rules: Vec<Rule>,
}

impl Confined {
    /// Takes up a directive: its key, and its value with the words of it. Others than those that matter here are passed over.
    pub(super) fn take(&mut self, key: &str, value: &str, words: &[String]) {
        match key {
            "ProtectSystem" => value.clone_into(&mut self.protect_system),
            "ProtectHome" => value.clone_into(&mut self.protect_home),
            "PrivateTmp" => self.private_tmp = is_on(value) || value == "disconnected",
            "DynamicUser" => self.dynamic_user = is_on(value),
            "RootDirectory" | "RootImage" if value.is_empty() || value == "/" => self.root = None,
            "RootDirectory" | "RootImage" => self.root = Some(format!("{key}={value}")),
            "ReadWritePaths" | "ReadWriteDirectories" => self.paths("ReadWritePaths", words, Does::Write),
            "ReadOnlyPaths" | "ReadOnlyDirectories" => self.paths("ReadOnlyPaths", words, Does::Read),
            "InaccessiblePaths" | "InaccessibleDirectories" => self.paths("InaccessiblePaths", words, Does::Hide),
            "TemporaryFileSystem" => self.paths("TemporaryFileSystem", words, Does::Empty),
            "BindPaths" => self.paths("BindPaths", words, Does::Show { writable: true }),
            "BindReadOnlyPaths" => self.paths("BindReadOnlyPaths", words, Does::Show { writable: false }),
            "StateDirectory" => self.made("StateDirectory", words, "/var/lib"),
            "CacheDirectory" => self.made("CacheDirectory", words, "/var/cache"),
            "LogsDirectory" => self.made("LogsDirectory", words, "/var/log"),
            "RuntimeDirectory" => self.made("RuntimeDirectory", words, "/run"),
            _ => {}
        }
    }

    /// Paths of the host. An empty list takes back the earlier ones of its key.
    fn paths(&mut self, key: &'static str, words: &[String], does: Does) {
        if words.is_empty() {
            self.rules.retain(|rule| rule.key != key);
        }
        let rule = |word: &String| {
            let path = word.trim_start_matches(['-', '+']);
            let mut parts = path.split(':');
            let (source, target) =
                (parts.next().unwrap_or_default(), parts.next().filter(|part| part.starts_with('/')));
            // A folder in the place of another one hides that.
            let does = if target.is_some_and(|target| target != source) { Does::Empty } else { does };
            let path = PathBuf::from(target.unwrap_or(source));
            // systemd makes the mount points of these.
            let is_made = matches!(does, Does::Empty);
            Rule { key, path, does, may_be_missing: is_made || word.starts_with('-') }
        };
        self.rules.extend(words.iter().map(rule));
    }

    /// Folders that systemd makes for the service.
    fn made(&mut self, key: &'static str, words: &[String], below: &str) {
        if words.is_empty() {
            self.rules.retain(|rule| rule.key != key);
        }
        let folder = |word: &String| Path::new(below).join(word.split(':').next().unwrap_or_default());
        let rule = |word| Rule { key, path: folder(word), does: Does::Write, may_be_missing: true };
        self.rules.extend(words.iter().map(rule));
    }

    /// Whether the service runs as a user that exists only while it runs.
    pub(super) fn has_dynamic_user(&self) -> bool {
        self.dynamic_user
    }

    /// The directive that gives the service another root.
    pub(super) fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// Paths without which the unit doesn't start, each with its directive. What systemd makes is none, nor what is hidden anyway.
    pub(super) fn must_exist(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let is_made = |path: &Path| {
            let made = ["StateDirectory", "CacheDirectory", "LogsDirectory", "RuntimeDirectory"];
            self.rules.iter().any(|rule| made.contains(&rule.key) && path.starts_with(&rule.path))
        };
        let is_hidden = |rule: &Rule| {
            let above = |other: &Rule| other.path != rule.path && rule.path.starts_with(&other.path);
            self.all().iter().any(|other| other.does == Does::Hide && above(other))
        };
        let must = move |rule: &&Rule| !rule.may_be_missing && !is_made(&rule.path) && !is_hidden(rule);
        self.rules.iter().filter(must).map(|rule| (rule.key, rule.path.as_path()))
    }

    /// What the service may do with a path.
    pub(super) fn may(&self, path: &Path) -> May {
        let mut rules = self.all();
        rules.retain(|rule| path.starts_with(&rule.path));
        let depth = |rule: &&Rule| rule.path.components().count();
        if let Some(hidden) = rules.iter().find(|rule| rule.does == Does::Hide) {
            return May::Nothing(hidden.key);
        }
        let is_shown = |rule: &&Rule| matches!(rule.does, Does::Show { .. });
        let emptied = rules.iter().filter(|rule| rule.does == Does::Empty).max_by_key(depth);
        let shown = rules.iter().filter(is_shown).max_by_key(depth);
        if let Some(emptied) =
            emptied.filter(|emptied| shown.as_ref().is_none_or(|shown| depth(shown) < depth(emptied)))
        {
            return May::Nothing(emptied.key);
        }
        let strongest =
            rules.iter().filter(|rule| rule.does != Does::Empty).max_by_key(|rule| (depth(rule), rule.does));
        match strongest.map(|rule| rule.does) {
            Some(Does::Read | Does::Show { writable: false }) => May::Read,
            _ => May::Write,
        }
    }

    /// All rules, also those that other directives stand for.
    fn all(&self) -> Vec<Rule> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut add = |key, paths: &[&str], does| {
            let rule = |path: &&str| Rule { key, path: PathBuf::from(*path), does, may_be_missing: true };
            rules.extend(paths.iter().map(rule));
        };
        // A dynamic user implies these, and a unit can't take them back.
        match self.protect_system.as_str() {
            _ if self.dynamic_user => strict("DynamicUser", &mut add),
            "strict" => strict("ProtectSystem", &mut add),
            "full" => add("ProtectSystem", &["/usr", "/boot", "/efi", "/etc"], Does::Read),
            value if is_on(value) => add("ProtectSystem", &["/usr", "/boot", "/efi"], Does::Read),
            _ => {}
        }
        match self.protect_home.as_str() {
            "read-only" => add("ProtectHome", &HOMES, Does::Read),
            "tmpfs" => add("ProtectHome", &HOMES, Does::Empty),
            value if is_on(value) => add("ProtectHome", &HOMES, Does::Hide),
            _ if self.dynamic_user => add("DynamicUser", &HOMES, Does::Read),
            _ => {}
        }
        if self.private_tmp || self.dynamic_user {
            let key = if self.private_tmp { "PrivateTmp" } else { "DynamicUser" };
            add(key, &["/tmp", "/var/tmp"], Does::Empty);
        }
        rules.extend(self.rules.iter().map(|Rule { key, path, does, may_be_missing }| Rule {
            key,
            path: path.clone(),
            does: *does,
            may_be_missing: *may_be_missing,
        }));
        rules
    }
}

fn strict(key: &'static str, add: &mut impl FnMut(&'static str, &[&str], Does)) {
    add(key, &["/"], Does::Read);
    add(key, &NEVER_PROTECTED, Does::Write);
}

pub(super) fn is_on(value: &str) -> bool {
    matches!(value, "yes" | "true" | "on" | "1" | "y" | "t")
}

#[cfg(test)]
mod tests {
    use super::May::{Nothing, Read, Write};
    use super::*;

    fn may(unit: &str, path: &str) -> May {
        let mut confined = Confined::default();
        for (key, value) in unit.lines().filter_map(|line| line.split_once('=')) {
            let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
            confined.take(key, value, &words);
        }
        confined.may(Path::new(path))
    }

    #[test]
    fn what_a_service_may_do_with_a_path() {
        for (unit, path, expected) in [
            ("", "/srv/app", Write),
            ("ProtectSystem=strict", "/srv/app", Read),
            ("ProtectSystem=strict", "/home/app", Write),
            ("ProtectSystem=strict\nProtectHome=read-only", "/home/app", Read),
            ("ProtectSystem=strict\nReadWritePaths=/srv", "/srv/app", Write),
            ("ReadWritePaths=/srv\nReadOnlyPaths=/srv", "/srv/app", Read),
            // A dynamic user implies all of these.
            ("DynamicUser=yes", "/var/lib/app", Read),
            ("DynamicUser=yes\nProtectSystem=no", "/var/lib/app", Read),
            ("DynamicUser=yes", "/home/app", Read),
            ("DynamicUser=yes\nProtectHome=yes", "/home/app", Nothing("ProtectHome")),
            ("DynamicUser=yes", "/tmp/app", Nothing("DynamicUser")),
            ("DynamicUser=yes\nStateDirectory=app", "/var/lib/app", Write),
            ("DynamicUser=yes\nStateDirectory=app:other", "/var/lib/app", Write),
            ("DynamicUser=yes\nReadWritePaths=/srv", "/srv/app", Write),
            ("DynamicUser=yes\nDynamicUser=no", "/srv/app", Write),
            // Nothing below what is hidden comes back.
            ("ProtectHome=yes\nReadWritePaths=/home/app", "/home/app", Nothing("ProtectHome")),
            ("ProtectHome=yes\nBindPaths=/home/app", "/home/app", Nothing("ProtectHome")),
            ("InaccessiblePaths=/srv\nReadWritePaths=/srv/app", "/srv/app", Nothing("InaccessiblePaths")),
            ("InaccessiblePaths=/srv\nInaccessiblePaths=", "/srv/app", Write),
            // Below what is empty only a bind mount shows something.
            ("PrivateTmp=yes\nReadWritePaths=/tmp/x", "/tmp/x", Nothing("PrivateTmp")),
            ("PrivateTmp=yes\nBindPaths=/tmp/x", "/tmp/x/y", Write),
            ("ProtectHome=tmpfs\nReadWritePaths=/home/app", "/home/app", Nothing("ProtectHome")),
            ("ProtectHome=tmpfs\nBindPaths=/home/app", "/home/app", Write),
            ("TemporaryFileSystem=/var:ro", "/var/lib/app", Nothing("TemporaryFileSystem")),
            ("TemporaryFileSystem=/var\nStateDirectory=app", "/var/lib/app", Nothing("TemporaryFileSystem")),
            ("TemporaryFileSystem=/var\nBindPaths=/var/lib/app", "/var/lib/app", Write),
            ("TemporaryFileSystem=/var\nBindReadOnlyPaths=/var/lib/app", "/var/lib/app", Read),
            ("BindPaths=/srv/other:/srv/app", "/srv/app", Nothing("BindPaths")),
            ("BindPaths=/srv/other:/srv/app", "/srv/other", Write),
            ("ProtectSystem=strict\nBindPaths=/srv/app:/srv/app:norbind", "/srv/app", Write),
            // Each list is taken back alone.
            ("ProtectSystem=strict\nStateDirectory=app\nReadWritePaths=", "/var/lib/app", Write),
        ] {
            assert_eq!(may(unit, path), expected, "{unit} {path}");
        }
    }
}
