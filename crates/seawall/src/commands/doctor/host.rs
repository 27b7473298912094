//! The checks of this machine: files, space, limits of the system, leftovers. Facts are gathered here; pure functions judge them.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use seawall_agent::SCRATCH;
use seawall_host::PrivateFolder;

use super::finding::Finding;
use crate::table;

/// Less free space than this is wrong: a WAL grows by more in a moment.
const NO_SPACE: u64 = 32 << 20;

/// Less free space than this is worth a warning.
const LITTLE_SPACE: u64 = 256 << 20;

/// A temporary file that was not written for so long is of a run that was killed.
const LEFT: Duration = Duration::from_secs(24 * 3600);

/// The first bytes of a SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// What a SQLite file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Header {
    /// It is empty, as a database without content is.
    Empty,
    Wal,
    Rollback,
    Other,
}

/// What the first twenty bytes of a file say.
pub(in crate::commands) fn header(bytes: &[u8]) -> Header {
    match bytes {
        [] => Header::Empty,
        bytes if !bytes.starts_with(MAGIC) => Header::Other,
        // The file format's section 1.3.3: the write and the read version.
        [.., write, _] if bytes.len() == 20 => match write {
            2 => Header::Wal,
            1 => Header::Rollback,
            _ => Header::Other,
        },
        _ => Header::Other,
    }
}

/// The file of a SQLite database.
pub(super) fn sqlite(path: &Path) -> Finding {
    let read = || -> std::io::Result<Vec<u8>> {
        // Opening a FIFO would wait for a writer.
        if !path.metadata()?.is_file() {
            return Ok(b"something else".to_vec());
        }
        let mut bytes = Vec::with_capacity(20);
        File::open(path)?.take(20).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    of_header(path, read().map(|bytes| header(&bytes)))
}

fn of_header(path: &Path, header: std::io::Result<Header>) -> Finding {
    const CHECK: &str = "source";
    let shown = path.display().to_string();
    match header {
        Ok(Header::Wal) => Finding::fine(CHECK, shown, "it is a SQLite database in WAL mode"),
        Ok(Header::Empty) => Finding::fine(CHECK, shown, "it is an empty file, which is an empty database"),
        Ok(Header::Rollback) => {
            let meaning = "its journal mode isn't WAL; `seawall replicate` changes that when it starts, and it stays so unless the \
                           application sets another mode";
            Finding::warning(CHECK, &shown, meaning, format!("sqlite3 '{shown}' 'PRAGMA journal_mode=wal'"))
        }
        Ok(Header::Other) => {
            let next = "correct its path in the configuration; if it is the database, restore it: `seawall restore NAME -o FILE`";
            Finding::wrong(CHECK, shown, "it isn't a SQLite database", next)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let next = "correct its path, start the application, or restore it: `seawall restore NAME`";
            Finding::warning(CHECK, shown, "it doesn't exist; it is protected as soon as it does", next)
        }
        Err(error) => {
            let next = format!("run Seawall as the user that owns it, or: chmod u+rw '{shown}'");
            Finding::wrong(CHECK, &shown, format!("it can't be read: {error}"), next)
        }
    }
}

/// A file or folder that another engine reads.
pub(super) fn exists(path: &Path) -> Finding {
    match path.metadata() {
        Ok(_) => Finding::fine("source", path.display().to_string(), "it exists"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let next = "correct its path, start the application, or restore it: `seawall restore NAME`";
            Finding::warning("source", path.display().to_string(), "it doesn't exist", next)
        }
        Err(error) => {
            let next = "run Seawall as the user that owns it";
            Finding::wrong("source", path.display().to_string(), format!("it can't be looked at: {error}"), next)
        }
    }
}

/// The free space where a database and its state record are written.
pub(super) fn space(folder: &Path) -> Option<Finding> {
    seawall_host::free_space(folder).map(|free| of_space(folder, free))
}

fn of_space(folder: &Path, free: u64) -> Finding {
    let shown = folder.display().to_string();
    let meaning = format!("{} are free on its disk", table::bytes(free));
    let next = format!("free space: du -x '{shown}' | sort -n | tail");
    match free {
        ..NO_SPACE => Finding::wrong("space", shown, meaning, next),
        NO_SPACE..LITTLE_SPACE => Finding::warning("space", shown, meaning, next),
        _ => Finding::fine("space", shown, meaning),
    }
}

/// The folder in which proofs restore databases, the largest of which has so many bytes.
pub(super) fn scratch(folder: &Path, largest: u64) -> Vec<Finding> {
    const CHECK: &str = "scratch";
    let shown = folder.display().to_string();
    let mut found: Vec<Finding> = PrivateFolder::left_in(folder, SCRATCH)
        .iter()
        .map(|path| {
            let shown = path.display().to_string();
            let meaning = "a killed proof left it, with what it had restored; the next proof in that folder removes it";
            Finding::warning("leftovers", &shown, meaning, format!("rm -r '{shown}'"))
        })
        .collect();
    let is_folder = folder.metadata().is_ok_and(|facts| facts.is_dir());
    let may_write = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    found.push(match (is_folder, may_write, seawall_host::free_space(folder)) {
        (false, ..) => {
            let meaning = "proofs restore databases into it, and it isn't a folder, so none can be made";
            Finding::wrong(CHECK, &shown, meaning, format!("mkdir -p '{shown}', or name another one: prove.scratch"))
        }
        (true, Err(error), _) => {
            let meaning = format!("proofs restore databases into it, and this user can't write to it: {error}");
            let next = format!(
                "run the command as the user of the service; if that can't write either: chown SERVICE-USER '{shown}'"
            );
            Finding::wrong(CHECK, &shown, meaning, next)
        }
        (true, Ok(()), Some(free)) => of_scratch(&shown, free, largest),
        (true, Ok(()), None) => Finding::fine(CHECK, shown, "this user can write to it"),
    });
    found
}

fn of_scratch(folder: &str, free: u64, largest: u64) -> Finding {
    let needed = largest.saturating_add(LITTLE_SPACE);
    let (free_text, needed_text) = (table::bytes(free), table::bytes(needed));
    if free < needed {
        let meaning = format!(
            "{free_text} are free on its disk, and the proof of the largest database needs about {needed_text}"
        );
        let next = "name a folder on a disk with more room: prove.scratch";
        return Finding::warning("scratch", folder, meaning, next);
    }
    Finding::fine("scratch", folder, format!("{free_text} are free on its disk, and a proof needs about {needed_text}"))
}

/// The folder in which a database's state record is kept; `None` where it doesn't exist yet and can be made.
pub(super) fn state(folder: &Path) -> Option<Finding> {
    let place = if folder.exists() { folder } else { seawall_host::folder_of(folder) };
    let shown = folder.display().to_string();
    match rustix::fs::access(place, rustix::fs::Access::WRITE_OK) {
        Ok(()) if folder.exists() => Some(Finding::fine("state", shown, "this user can write to it")),
        Ok(()) | Err(rustix::io::Errno::NOENT) => None,
        Err(error) => {
            let meaning = format!("this user can't write to {}: {error}", place.display());
            let next =
                format!("run Seawall as the user that owns it, or: chown -R \"$(id -un)\" '{}'", place.display());
            Some(Finding::wrong("state", shown, meaning, next))
        }
    }
}

/// Temporary files of runs that were killed, in these folders.
pub(super) fn leftovers(folders: &[PathBuf], now: SystemTime) -> Vec<Finding> {
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name().to_string_lossy())) {
            let Ok(metadata) = entry.metadata() else { continue };
            let age = metadata.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
            if metadata.is_file() && age >= LEFT {
                let shown = entry.path().display().to_string();
                let meaning = format!("a killed run left it, {}", table::bytes(metadata.len()));
                found.push(Finding::warning("leftovers", &shown, meaning, format!("rm '{shown}'")));
            }
        }
    }
    found.sort_by(|a, b| a.object.cmp(&b.object));
    found
}

/// Whether a file has a name that Seawall gives to a file that is being made: `app.db.0123456789abcdef.tmp`.
fn is_ours(name: &str) -> bool {
    let Some((_, random)) = name.strip_suffix(".tmp").and_then(|stem| stem.rsplit_once('.')) else { return false };
    random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Who may read the configuration.
pub(super) fn readers(file: &Path) -> Option<Finding> {
    let mode = file.metadata().ok()?.permissions().mode();
    let text = std::fs::read_to_string(file).ok()?;
    Some(of_readers(file, mode, has_secret(&text)))
}

/// Who may read a file of environment variables; `None` if it can't be read, which is told elsewhere.
pub(super) fn readers_of_variables(file: &Path) -> Option<Finding> {
    let mode = file.metadata().ok().filter(std::fs::Metadata::is_file)?.permissions().mode();
    let text = std::fs::read_to_string(file).ok()?;
    let mut variables = text.lines().filter_map(|line| line.split_once('='));
    Some(of_readers(file, mode, variables.any(|(name, value)| is_secret(name, value))))
}

fn of_readers(file: &Path, mode: u32, has_secret: bool) -> Finding {
    let shown = file.display().to_string();
    match (mode & 0o004 != 0, has_secret) {
        (true, true) => {
            let meaning = "it holds a secret, and every user of this machine may read it";
            Finding::warning("permissions", &shown, meaning, format!("chmod 600 '{shown}'"))
        }
        (_, true) => Finding::fine("permissions", shown, "it holds a secret, and not every user may read it"),
        (_, false) => Finding::fine("permissions", shown, "no secret stands in it"),
    }
}

/// Whether a configuration holds a secret itself, and not just the name of a variable that does.
fn has_secret(text: &str) -> bool {
    let mut parts = text.lines().flat_map(|line| {
        // A mapping may stand on one line: `web: { token: x }`. A URL is looked at whole, too.
        let parts = line.split(['{', '}', '[', ']', ',']);
        parts.chain([line]).filter_map(|part| part.trim().trim_start_matches("- ").split_once(':'))
    });
    parts.any(|(key, value)| is_secret(key.trim().trim_matches(['"', '\'']), value))
}

/// Whether a key with this value is a secret itself: of a configuration, or an environment variable.
pub(super) fn is_secret(key: &str, value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let is_given = |value: &str| !value.is_empty() && !value.starts_with(['$', '#']);
    let in_query = |(name, value): (&str, &str)| is_named_secret(name) && is_given(value);
    let query = value.split_once("://").and_then(|(_, rest)| rest.split_once('?')).map_or("", |(_, query)| query);
    is_named_secret(key) && is_given(value)
        || has_password(value)
        || query.split('&').filter_map(|pair| pair.split_once('=')).any(in_query)
}

/// Whether the value of a key of this name is a secret.
fn is_named_secret(key: &str) -> bool {
    const ENDS: [&str; 10] = [
        "password",
        "passphrase",
        "token",
        "secret",
        "secret-key",
        "account-key",
        "storage-key",
        "application-key",
        "secret-access-key",
        "mysql-pwd",
    ];
    // NATS: a seed, a key that is a seed, and a signed login.
    const WHOLE: [&str; 6] = ["seed", "nkey", "jwt", "nats-seed", "nats-nkey", "nats-jwt"];
    let key = key.trim().trim_start_matches("export ").to_lowercase().replace('_', "-");
    ENDS.iter().any(|secret| key.ends_with(secret)) || WHOLE.contains(&&*key)
}

/// Whether a URL has a password: `postgres://user:password@host`.
fn has_password(value: &str) -> bool {
    let authority = value.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.and_then(|user| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty() && !password.starts_with('$'))
}

/// The system's limits for so many databases: those of the running process, or else those of a process that this user starts now.
pub(super) fn limits(databases: u64, running: Option<u32>) -> Vec<Finding> {
    let of_process = running.and_then(|pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        Some((format!("process {pid}"), open_files(&text)?))
    });
    let (process, files) = of_process.unwrap_or_else(|| {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        ("a process that is started as this command was".to_owned(), most)
    });
    // The second one is that of a user namespace, which a container may have.
    let limits = ["/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"];
    let read = |file| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let watches = limits.into_iter().filter_map(read).min();
    let mut found = vec![of_files(databases, &process, files)];
    found.extend(watches.map(|watches| of_watches(databases, watches)));
    found
}

/// How many files a process may open, as `/proc/PID/limits` has it; `Some(None)` without a limit, and `None` if the text doesn't say.
/// Seawall raises this limit as far as it may when it starts.
fn open_files(text: &str) -> Option<Option<u64>> {
    let now = text.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if now == "unlimited" { Some(None) } else { now.parse().ok().map(Some) }
}

fn of_files(databases: u64, process: &str, most: Option<u64>) -> Finding {
    let needed = seawall_agent::files_needed(databases);
    match most {
        Some(most) if most < needed => Finding::warning(
            "limits",
            "open files",
            format!("{process} may open {most} files, and {databases} databases need {needed}"),
            format!("LimitNOFILE={needed} in the unit (or ulimit -n {needed}), and restart the process"),
        ),
        _ => Finding::fine("limits", "open files", format!("{process} may open enough for {databases} databases")),
    }
}

fn of_watches(databases: u64, most: u64) -> Finding {
    // A folder and two files for each database.
    let needed = databases.saturating_mul(3).saturating_add(64);
    if most < needed {
        let meaning = format!(
            "the system allows a user {most} watches, and {databases} databases take up to {needed}; without a watch Seawall looks \
             for changes by the clock"
        );
        let next = format!("sysctl fs.inotify.max_user_watches={}", needed.saturating_mul(2));
        return Finding::warning("limits", "file watches", meaning, next);
    }
    Finding::fine("limits", "file watches", format!("enough for {databases} databases"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Warning, Wrong};
    use super::*;

    #[test]
    fn what_a_header_says() {
        let with = |version: u8| [MAGIC, &[16, 0, version, version]].concat();
        for (bytes, expected) in [
            (Vec::new(), Header::Empty),
            (with(2), Header::Wal),
            (with(1), Header::Rollback),
            (with(7), Header::Other),
            (with(2)[..18].to_vec(), Header::Other),
            (b"-- a dump".to_vec(), Header::Other),
        ] {
            assert_eq!(header(&bytes), expected, "{bytes:?}");
        }
        let path = Path::new("/a.db");
        assert_eq!(sqlite(Path::new("/dev/zero")).verdict, Wrong);
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        for (header, verdict) in [
            (Ok(Header::Wal), Fine),
            (Ok(Header::Empty), Fine),
            (Ok(Header::Rollback), Warning),
            (Ok(Header::Other), Wrong),
            (Err(missing), Warning),
            (Err(denied), Wrong),
        ] {
            let found = of_header(path, header);
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert_eq!(found.next.is_empty(), verdict == Fine, "{found:?}");
        }
    }

    #[test]
    fn borders_of_space_and_limits() {
        let folder = Path::new("/data");
        for (free, verdict) in [(0, Wrong), (NO_SPACE - 1, Wrong), (NO_SPACE, Warning), (LITTLE_SPACE, Fine)] {
            assert_eq!(of_space(folder, free).verdict, verdict, "{free}");
        }
        for (databases, files, verdict) in [(1, Some(516), Fine), (2, Some(516), Warning), (2, None, Fine)] {
            assert_eq!(of_files(databases, "process 7", files).verdict, verdict, "{databases}");
        }
        for (databases, watches, verdict) in [(100, 364, Fine), (100, 363, Warning), (u64::MAX, 8192, Warning)] {
            assert_eq!(of_watches(databases, watches).verdict, verdict, "{databases}");
        }
    }

    #[test]
    fn limits_of_a_running_process() {
        let head = "Limit                     Soft Limit           Hard Limit           Units     \n";
        for (line, expected) in [
            ("Max open files            1024                 524288               files     ", Some(Some(1024))),
            ("Max open files            unlimited            unlimited            files     ", Some(None)),
            ("Max open files", None),
            ("Max open files            -1", None),
            ("Max locked memory         8388608              8388608              bytes     ", None),
        ] {
            assert_eq!(open_files(&format!("{head}{line}\n")), expected, "{line}");
        }
    }

    #[test]
    fn room_and_leftovers_of_proofs() {
        for (free, largest, verdict) in
            [(LITTLE_SPACE, 0, Fine), (LITTLE_SPACE, 1, Warning), (LITTLE_SPACE + 7, 7, Fine), (0, u64::MAX, Warning)]
        {
            assert_eq!(of_scratch("/tmp", free, largest).verdict, verdict, "{free} {largest}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let verdicts =
            |folder: &Path| scratch(folder, 0).iter().map(|one| (one.check, one.verdict)).collect::<Vec<_>>();
        assert_eq!(verdicts(&folder.path().join("nowhere")), [("scratch", Wrong)]);
        let left = folder.path().join(format!("{SCRATCH}abcdefghijkl"));
        std::fs::create_dir_all(left.join("restored.db")).expect("made");
        std::fs::create_dir_all(folder.path().join("another")).expect("made");
        assert_eq!(verdicts(folder.path())[0], ("leftovers", Warning));
        let held = PrivateFolder::new(folder.path(), SCRATCH, "proof", None).expect("made");
        std::fs::write(held.path().join("restored.db"), "x").expect("written");
        assert_eq!(
            scratch(folder.path(), 0).iter().filter(|one| one.object.contains(SCRATCH)).count(),
            usize::from(left.exists())
        );
    }

    #[test]
    fn secrets_in_a_configuration() {
        for (text, expected) in [
            ("secret-access-key: abc", true),
            ("  password: 'x'", true),
            ("- secret-access-key: \"abc\"", true),
            ("secret-access-key: ${SECRET}", false),
            ("password: $PASSWORD # no", false),
            ("password:", false),
            ("web: {token: 0123456789abcdef}", true),
            ("web: { listen: ':1', \"token\": '0123456789abcdef' }", true),
            ("web: { token: ${TOKEN}, prefix: /a }", false),
            ("web: { token-file: /etc/token }", false),
            ("vaults: [ { url: 's3://b', secret-access-key: x } ]", true),
            ("# a password is in the environment", false),
            ("mcp-token: 0123456789abcdef", true),
            ("mcp-token-file: /etc/token", false),
            ("url: postgres://app:hush@db/shop", true),
            ("- url: 'postgres://app@db/shop'", false),
            ("url: postgres://app:${PASSWORD}@db/shop", false),
            ("seed: SUAJ4", true),
            ("nkey: SUAJ4", true),
            ("nkey: $SEED", false),
            ("jwt: eyJ0", true),
            ("application-key: K001", true),
            ("account-key-file: /etc/key", false),
            ("access-key-id: AKIA", false),
            ("url: s3://b/p?region=x&secret-access-key=hush", true),
            ("url: s3://b/p?region=x&secret-access-key=${KEY}", false),
            ("url: s3://b/p?region=x", false),
        ] {
            assert_eq!(has_secret(text), expected, "{text}");
        }
        for (name, expected) in [
            ("AZURE_STORAGE_KEY", true),
            ("LITESTREAM_AZURE_ACCOUNT_KEY", true),
            ("AZURE_STORAGE_SAS_TOKEN", true),
            ("B2_APPLICATION_KEY", true),
            ("B2_APPLICATION_KEY_ID", false),
            ("OSS_ACCESS_KEY_SECRET", true),
            ("OSS_ACCESS_KEY_ID", false),
            ("AWS_SECRET_ACCESS_KEY", true),
            ("PGPASSWORD", true),
            ("MYSQL_PWD", true),
            ("export WEBDAV_TOKEN", true),
            ("SEAWALL_SEED", false),
            ("AWS_REGION", false),
        ] {
            assert_eq!(is_secret(name, "x"), expected, "{name}");
        }
        let file = Path::new("/etc/seawall.yml");
        for (mode, secret, verdict) in
            [(0o644, true, Warning), (0o640, true, Fine), (0o600, true, Fine), (0o644, false, Fine)]
        {
            assert_eq!(of_readers(file, mode, secret).verdict, verdict, "{mode:o}");
        }
    }

    #[test]
    fn leftovers_are_old_and_have_our_names() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["app.db.0123456789abcdef.tmp", "app.db.tmp", "app.0123456789ABCDEF.tmp", "app.db"] {
            std::fs::write(folder.path().join(name), b"x").expect("written");
        }
        let folders = [folder.path().to_owned(), PathBuf::from("/nowhere")];
        let now = SystemTime::now();
        assert_eq!(leftovers(&folders, now), []);
        let found = leftovers(&folders, now + LEFT + Duration::from_secs(60));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].object.ends_with("app.db.0123456789abcdef.tmp"), "{found:?}");
    }
}
