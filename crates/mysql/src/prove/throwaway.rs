//! A server for one proof: MariaDB or MySQL as it is installed here, started in a private folder with a private socket, and
//! gone with its folder.
//!
//! Only the proof logs in: the account has a password that is drawn, and the server listens on no network. Events don't run,
//! and the server reads and writes no file outside of its folder for a statement.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system and starts a server")]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use seawall_archive::preflight::no_room;
use seawall_archive::server::ISOLATE;
use seawall_host::{Apart, Folder, NotStarted, ServerProgram, free_space};
use seawall_vault::Environment;
use tokio::process::Command;
use tokio::time::Instant;

use crate::client::quote::text;
use crate::client::{Connection, Target};
use crate::detail::ServerFacts;
use crate::{Error, Limits};

/// How long it may take until it answers.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long to wait before asking again whether it answers.
const PAUSE: Duration = Duration::from_millis(50);

/// What its folder is called.
const PREFIX: &str = "seawall-proof-";

/// Where packages put servers.
const FOLDERS: [&str; 6] =
    ["/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/mysql/bin", "/opt/mysql/bin"];

/// No process but the proof's asks it anything, and nothing of it is needed after a crash. What not every version knows begins with
/// `loose`.
const SETTINGS: [&str; 19] = [
    "--skip-networking",
    "--skip-log-bin",
    "--symbolic-links=0",
    "--local-infile=1",
    "--max-allowed-packet=1G",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=128M",
    "--loose-innodb-doublewrite=0",
    "--loose-innodb-flush-method=nosync",
    "--innodb-fast-shutdown=2",
    // Off, and not disabled: a disabled one takes no events at all.
    "--event-scheduler=OFF",
    "--log-bin-trust-function-creators=1",
    "--character-set-server=utf8mb4",
    "--loose-mysqlx=OFF",
    "--loose-performance-schema=OFF",
    "--loose-skip-slave-start",
    "--loose-feedback=OFF",
    "--loose-admin-port=0",
    "--loose-log-warnings=1",
];

/// A program that is a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    path: PathBuf,
    family: &'static str,
    version: u32,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = (self.version / 10_000, self.version / 100 % 100, self.version % 100);
        write!(f, "{} of {} {major}.{minor}.{patch}", self.path.display(), self.family)
    }
}

/// The family and version in `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`.
fn parse_version(said: &str) -> Option<(&'static str, u32)> {
    let version = said.split_once("Ver ")?.1.split_whitespace().next()?;
    let family = if said.contains("MariaDB") { "mariadb" } else { "mysql" };
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0).min(99);
    let (major, minor, patch) = (next(), next(), next());
    (major > 0).then_some((family, major * 10_000 + minor * 100 + patch))
}

/// The one to use: of the family, the oldest whose series is that of the source or a later one.
fn choose<'a>(found: &'a [Program], wanted: &ServerFacts) -> Option<&'a Program> {
    let fits = |program: &&Program| program.family == wanted.family && program.version / 100 >= wanted.version / 100;
    found.iter().filter(fits).min_by_key(|program| program.version)
}

/// A server that runs until this is dropped.
pub(crate) struct Throwaway {
    apart: Apart,
    pub(crate) target: Target,
}

impl Throwaway {
    /// Starts one that takes a set of such a server.
    pub(crate) async fn start(wanted: &ServerFacts, limits: &Limits, environment: &Environment) -> Result<Self, Error> {
        let program = find(wanted, limits, environment).await?;
        let libraries = environment.get("LD_LIBRARY_PATH");
        let folder = match &limits.scratch {
            Some(place) => Folder::within(place, PREFIX).map_err(|error| io(&place.display().to_string(), &error))?,
            None => Folder::new(PREFIX).map_err(|error| io("TMPDIR", &error))?,
        };
        let place = folder.path().display().to_string();
        let data = folder.make("data").map_err(|error| io(&place, &error))?;
        let files = folder.make("files").map_err(|error| io(&place, &error))?;
        install(&program, &folder, &data, libraries).await?;
        let mut arguments = vec!["--no-defaults".to_owned()];
        for (name, file) in [
            ("datadir", data.display().to_string()),
            ("secure-file-priv", files.display().to_string()),
            ("tmpdir", place.clone()),
            ("socket", format!("{place}/s")),
            ("pid-file", format!("{place}/pid")),
            ("lower-case-table-names", wanted.lower_case_table_names.min(1).to_string()),
        ] {
            arguments.push(format!("--{name}={file}"));
        }
        arguments.extend(SETTINGS.map(str::to_owned));
        let (path, arguments, time, isolated) = (&program.path, &arguments, limits.proof, limits.isolated);
        let server = ServerProgram { path, arguments, signal: "KILL", libraries, time, isolated };
        let mut apart = Apart::start(folder, server).await.map_err(|error| match error {
            NotStarted::Io(error) => io(&program.path.display().to_string(), &error),
            NotStarted::NotIsolated(why) => Error::Refused {
                code: "proof.not-isolated",
                object: "the server of the proof".to_owned(),
                cause: why.to_owned(),
                next: ISOLATE.to_owned(),
            },
        })?;
        let url = format!("mysql://root@localhost/?socket={place}/s");
        let first = Target::parse(&url, &quiet(""))?;
        let mut connection = until_ready(&mut apart, &first).await?;
        let password = drawn()?;
        // MariaDB passes over the password of ALTER USER CURRENT_USER().
        let set = format!("ALTER USER root@localhost IDENTIFIED BY {}", text(&password));
        connection.execute(&set).await?;
        connection.close().await;
        let mut target = Target::parse(&url, &quiet(&password))?;
        target.is_unspoken = true;
        Ok(Self { apart, target })
    }

    /// Takes in a database that had `size` bytes: from now on the server may take what that needs. One that has no room here
    /// is refused.
    pub(crate) fn admit(&self, size: u64) -> Result<(), Error> {
        let folder = self.apart.folder().path();
        let Some(cause) = free_space(folder).and_then(|free| no_room(free, size)) else {
            self.apart.admit(size);
            return Ok(());
        };
        let next = "name a folder on a larger disk with --scratch or prove.scratch, or a server with --to".to_owned();
        Err(Error::Refused { code: "mysql.no-space", object: folder.display().to_string(), cause, next })
    }

    /// Why a proof failed: perhaps because its server was ended for what it took.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match self.apart.exceeded() {
            Some(cause) => Error::Refused {
                code: "mysql.proof-limit",
                object: "the server of the proof".to_owned(),
                cause: format!("{cause}; the proof was ended, and proves nothing"),
                next: "give it longer with --proof-timeout, a larger disk with --scratch, or a server with --to"
                    .to_owned(),
            },
            None => error,
        }
    }

    /// What may be reached from it, if it couldn't be kept apart.
    pub(crate) fn not_isolated(&self) -> Option<&'static str> {
        self.apart.not_isolated()
    }

    /// Ends it and removes all of it.
    pub(crate) async fn stop(self) {
        self.apart.stop().await;
    }
}

/// An environment in which nothing but the password counts, so that no option file of this machine is read.
fn quiet(password: &str) -> Environment {
    let pairs = [("MYSQL_PWD".to_owned(), password.to_owned()), ("HOME".to_owned(), "/nonexistent".to_owned())];
    pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// A password that no other process knows.
fn drawn() -> Result<String, Error> {
    let mut drawn = [0_u8; 24];
    getrandom::fill(&mut drawn).map_err(|_| Error::Internal("the system gives no random numbers".to_owned()))?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Looks for the servers that are installed.
pub(crate) async fn find(wanted: &ServerFacts, limits: &Limits, environment: &Environment) -> Result<Program, Error> {
    let folders: Vec<PathBuf> = match &limits.bindir {
        Some(folder) => vec![folder.clone()],
        None => {
            let of_path = environment.get("PATH").map(|path| std::env::split_paths(path).collect::<Vec<_>>());
            FOLDERS.iter().map(PathBuf::from).chain(of_path.unwrap_or_default()).collect()
        }
    };
    let mut found = Vec::new();
    for path in folders.iter().flat_map(|folder| ["mariadbd", "mysqld"].map(|name| folder.join(name))) {
        if !path.is_file() {
            continue;
        }
        let asked = Command::new(&path).args(["--no-defaults", "--version"]).stdin(Stdio::null()).output().await;
        let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        if let Some((family, version)) = parse_version(&said) {
            found.push(Program { path, family, version });
        }
    }
    if let Some(program) = choose(&found, wanted) {
        return Ok(program.clone());
    }
    let name = if wanted.family == "mariadb" { "MariaDB" } else { "MySQL" };
    let (major, minor) = (wanted.version / 10_000, wanted.version / 100 % 100);
    let there: Vec<String> = found.iter().map(Program::to_string).collect();
    Err(Error::Refused {
        code: "mysql.no-server",
        object: format!("{name} {major}.{minor}"),
        cause: match there.is_empty() {
            true => "no server of it is installed here".to_owned(),
            false => format!("no server of it is installed here, only {}", there.join(", ")),
        },
        next: format!(
            "install {name} {major}.{minor} or later, name its folder with --bindir, or name a server with --to"
        ),
    })
}

/// Makes the system tables.
async fn install(program: &Program, folder: &Folder, data: &Path, libraries: Option<&str>) -> Result<(), Error> {
    let data = format!("--datadir={}", data.display());
    let output = match program.family {
        "mariadb" => {
            let beside = program.path.parent().unwrap_or(Path::new("/"));
            let places =
                [beside.to_owned(), beside.join("../bin"), beside.join("../scripts"), PathBuf::from("/usr/bin")];
            let scripts =
                places.iter().flat_map(|place| ["mariadb-install-db", "mysql_install_db"].map(|name| place.join(name)));
            let script = scripts.into_iter().find(|script| script.is_file()).ok_or_else(|| Error::Refused {
                code: "mysql.no-server",
                object: "mariadb-install-db".to_owned(),
                cause: "it isn't installed beside the server, and makes its system tables".to_owned(),
                next: "install the whole package of the server, or name a server with --to".to_owned(),
            })?;
            let mut install = folder.command(&script, libraries);
            install.args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ]);
            install
                .arg(&data)
                .arg(format!("--tmpdir={}", folder.path().display()))
                .stderr(Stdio::piped())
                .output()
                .await
        }
        _ => {
            let mut install = folder.command(&program.path, libraries);
            install.args(["--no-defaults", "--initialize-insecure", &data]).stderr(Stdio::piped()).output().await
        }
    };
    let output = output.map_err(|error| io(&program.path.display().to_string(), &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(not_started(program, &format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

fn not_started(program: &Program, cause: &str) -> Error {
    Error::Refused {
        code: "mysql.no-server",
        object: program.path.display().to_string(),
        cause: format!("it doesn't start: {cause}"),
        next: "mend that, or name a server with --to".to_owned(),
    }
}

/// Waits until it answers.
async fn until_ready(apart: &mut Apart, target: &Target) -> Result<Connection, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = apart.ended();
        let why = match Connection::open(target).await {
            Ok(connection) => return Ok(connection),
            Err(why) => why,
        };
        if ended.is_some() || Instant::now() > deadline {
            let log = apart.folder().log();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            return Err(Error::Refused {
                code: "mysql.no-server",
                object: "the server of the proof".to_owned(),
                cause: format!("{why}: {}", last.into_iter().rev().collect::<Vec<_>>().join("; ")),
                next: "mend that, or name a server with --to".to_owned(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn io(path: &str, error: &io::Error) -> Error {
    Error::Io { path: path.to_owned(), cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account with all rights, on a server that would read and write any file of its user.
    #[tokio::test]
    async fn the_server_of_a_proof_reads_and_writes_no_file_of_ours() {
        let wanted = ServerFacts { family: "mariadb".into(), version: 101_100, ..ServerFacts::default() };
        let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
        let environment: Environment = [("PATH".to_owned(), path)].into_iter().collect();
        let limits = Limits { jobs: 1, memory: 24 << 20, ..Limits::default() };
        if find(&wanted, &limits, &environment).await.is_err() {
            return;
        }
        let ours = tempfile::tempdir().expect("a folder");
        let secret = ours.path().join("secret");
        std::fs::write(&secret, "canary\n").expect("written");
        for (path, mode) in [(ours.path(), 0o777), (secret.as_path(), 0o666)] {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("set");
        }
        let server = Throwaway::start(&wanted, &limits, &environment).await.expect("it starts");
        assert_eq!(server.not_isolated(), None);
        let mut connection = Connection::open(&server.target).await.expect("connected");
        let place = ours.path().display();
        for sql in [
            format!("SELECT 1 FROM dual WHERE LOAD_FILE('{place}/secret') IS NULL"),
            "SELECT 1 FROM dual WHERE LOAD_FILE('/proc/self/environ') IS NULL".to_owned(),
        ] {
            assert_eq!(connection.query(&sql).await.expect("asked").len(), 1, "{sql}");
        }
        let _refused = connection.execute("CREATE DATABASE d").await;
        for sql in [
            format!("SET GLOBAL general_log_file = '{place}/written'; "),
            "SET GLOBAL general_log = ON".to_owned(),
            format!("SET GLOBAL slow_query_log_file = '{place}/written'"),
            format!("SELECT 'x' INTO OUTFILE '{place}/written'"),
            format!("CREATE TABLE d.away (a int) DATA DIRECTORY = '{place}'"),
            format!("CREATE TABLE d.t (a text); LOAD DATA INFILE '{place}/secret' INTO TABLE d.t"),
        ] {
            if let Err(error) = connection.execute(sql.trim_end_matches("; ")).await {
                let told = error.to_string();
                assert!(told.contains("SQLSTATE") && !told.contains("written"), "its words stay here: {told}");
            }
        }
        connection.close().await;
        server.stop().await;
        let left: Vec<_> = ours.path().read_dir().expect("it").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["secret"]);
    }

    #[test]
    fn servers_say_what_they_are() {
        for (said, expected) in [
            (
                "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                Some(("mariadb", 101_106)),
            ),
            (
                "/usr/sbin/mysqld  Ver 8.0.36 for Linux on x86_64 (MySQL Community Server - GPL)",
                Some(("mysql", 80_036)),
            ),
            ("mysqld Ver 9.7.0-4 for Linux", Some(("mysql", 90_700))),
            ("bash: not found", None),
            ("", None),
        ] {
            assert_eq!(parse_version(said), expected, "{said}");
        }
    }

    #[test]
    fn the_oldest_that_fits_is_chosen() {
        let program = |family, version: u32| Program { path: PathBuf::from(version.to_string()), family, version };
        let found = [program("mariadb", 110_402), program("mariadb", 101_106), program("mysql", 80_036)];
        for (family, version, expected) in [
            ("mariadb", 101_119, Some(101_106)),
            ("mariadb", 100_622, Some(101_106)),
            ("mariadb", 110_000, Some(110_402)),
            ("mariadb", 120_000, None),
            ("mysql", 80_040, Some(80_036)),
            ("mysql", 90_000, None),
        ] {
            let wanted = ServerFacts { family: family.into(), version, ..ServerFacts::default() };
            assert_eq!(choose(&found, &wanted).map(|program| program.version), expected, "{family} {version}");
        }
    }
}
