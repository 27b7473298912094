//! A real MariaDB server for one test: private socket, private folder, removed when dropped.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use seawall_mysql::Target;
use seawall_mysql::testing::{Connection, Purpose};
use seawall_testing::from_template;
use seawall_vault::Environment;

/// A running server.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    child: Child,
    pub(crate) port: u16,
    /// The server's program and its options, but for the port.
    program: PathBuf,
    options: Vec<String>,
    /// The program that speaks to it for the test.
    client: Vec<String>,
}

/// The folders in which packages put servers and clients.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// A program of MariaDB's: Debian's package. A check that can't run is a failure.
fn program(name: &str) -> PathBuf {
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|program| program.exists());
    found.unwrap_or_else(|| panic!("MariaDB's {name} is in none of {FOLDERS:?}: run ./test.sh once"))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port()
}

/// An authority for certificates.
fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, name);
    let pem = parameters.self_signed(&key).expect("signed").pem();
    (pem, Issuer::new(parameters, key))
}

/// Writes an authority, a stranger, a certificate of the server for `localhost`, and one of a client.
fn certificates(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    let (pem, issuer) = authority("an authority");
    write("ca.pem", &pem);
    write("stranger.pem", &authority("a stranger").0);
    for (name, host) in [("server", "localhost"), ("client", "app")] {
        let key = KeyPair::generate().expect("a key");
        let parameters = CertificateParams::new([host.to_owned()]).expect("a name");
        write(&format!("{name}.pem"), &parameters.signed_by(&key, &issuer).expect("signed").pem());
        write(&format!("{name}-key.pem"), &key.serialize_pem());
    }
}

impl Server {
    /// Starts MariaDB with more options.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("my").tempdir().expect("a folder");
        certificates(folder.path());
        let data = folder.path().join("data");
        from_template("mariadb", &program("mariadbd"), &data, |data| {
            let mut install = Command::new(program("mariadb-install-db"));
            install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
            // Servers that are installed at the same time would take each other's temporary tables.
            install.arg(format!("--datadir={}", data.display())).arg(format!("--tmpdir={}", folder.path().display()));
            install.args(is_root().then_some("--user=root"));
            let installed = install.output().expect("mariadb-install-db runs");
            assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        });
        let of = |name: &str| folder.path().join(name).display().to_string();
        let mut all = vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--ssl-ca={}", of("ca.pem")),
            format!("--ssl-cert={}", of("server.pem")),
            format!("--ssl-key={}", of("server-key.pem")),
            "--plugin-load-add=auth_ed25519".to_owned(),
            "--max-allowed-packet=64M".to_owned(),
            "--innodb-buffer-pool-size=64M".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
        ];
        all.extend(options.iter().map(|option| (*option).to_owned()));
        let client = vec![program("mariadb").display().to_string(), "--no-defaults".to_owned()];
        Self::run(folder, &program("mariadbd"), &all, client)
    }

    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Runs the server of a folder, at a port that is free.
    pub(crate) fn run(folder: tempfile::TempDir, program: &Path, options: &[String], client: Vec<String>) -> Self {
        let (port, child) = run_in(folder.path(), program, options);
        Self { folder, child, port, program: program.to_owned(), options: options.to_vec(), client }
    }

    /// Starts it again in its folder, behind [`Server::kill_9`].
    pub(crate) fn start_again(&mut self) {
        (self.port, self.child) = run_in(self.folder.path(), &self.program, &self.options);
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The URL of a database through the socket, as the superuser.
    pub(crate) fn url(&self, database: &str) -> String {
        self.socket("root", database)
    }

    pub(crate) fn socket(&self, user: &str, database: &str) -> String {
        format!("mysql://{user}@localhost/{database}?socket={}", self.file("s.sock"))
    }

    /// By TCP; `rest` is the database and settings.
    pub(crate) fn tcp(&self, user: &str, rest: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{rest}", self.port)
    }

    /// A connection of the superuser's.
    pub(crate) async fn connect(&self, purpose: Purpose) -> Connection {
        Connection::open_for(&target(&self.url("")), purpose).await.expect("connected")
    }

    /// Runs SQL by the vendor's program, and returns what it prints.
    pub(crate) fn sql(&self, sql: &str) -> String {
        String::from_utf8(self.print(sql)).expect("text").trim_end().to_owned()
    }

    fn print(&self, sql: &str) -> Vec<u8> {
        let output = self.client_for(sql);
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// What SQL prints; nothing where the server refuses it.
    pub(crate) fn try_sql(&self, sql: &str) -> Option<String> {
        let output = self.client_for(sql);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    fn client_for(&self, sql: &str) -> std::process::Output {
        let (program, arguments) = self.client.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).arg(format!("--socket={}", self.file("s.sock")));
        command.args(["--user=root", "--default-character-set=utf8mb4", "-N", "-B", "-e", sql]).stdin(Stdio::null());
        command.output().expect("the client runs")
    }

    /// Runs a file of SQL by the vendor's program, and returns what it prints. Bytes that are no text are replaced.
    pub(crate) fn script(&self, sql: &str) -> String {
        let file = self.file("script.sql");
        std::fs::write(&file, sql).expect("written");
        String::from_utf8_lossy(&self.print(&format!("source {file}"))).trim_end().to_owned()
    }

    /// The vendor's own dump of databases.
    pub(crate) fn dump_by_vendor(&self, databases: &[&str]) -> Vec<u8> {
        let mut command = Command::new(program("mariadb-dump"));
        command.arg("--no-defaults").arg(format!("--socket={}", self.file("s.sock"))).arg("--user=root");
        command.args(["--routines", "--events", "--triggers", "--databases"]).args(databases);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Loads a dump by the vendor's program, past what the server refuses.
    pub(crate) fn load_by_vendor(&self, dump: &[u8]) {
        let file = self.file("dump.sql");
        std::fs::write(&file, dump).expect("written");
        let mut command = Command::new(program("mariadb"));
        command.arg("--no-defaults").arg(format!("--socket={}", self.file("s.sock"))).args(["--user=root", "--force"]);
        command.stdin(std::fs::File::open(&file).expect("opened"));
        let _ = command.output().expect("the client runs");
    }

    /// Has the vendor's client load a file into a database. Returns what the client complains about, if it fails.
    pub(crate) fn load_file(&self, database: &str, file: &Path, options: &[&str]) -> Result<(), String> {
        let (program, arguments) = self.client.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).arg(format!("--socket={}", self.file("s.sock"))).args(["--user=root"]).args(options);
        let output = command.arg(database).stdin(std::fs::File::open(file).expect("opened")).output().expect("it runs");
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }

    /// Waits until a question has this answer. A replica may not have the table yet, and refuses the question.
    pub(crate) fn wait(&self, sql: &str, answer: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.try_sql(sql).as_deref() != Some(answer) {
            assert!(Instant::now() < deadline, "{sql} isn't {answer}: {}", self.sql("SHOW FULL PROCESSLIST"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, as a power cut does.
    pub(crate) fn kill_9(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server, and waits until it takes connections.
fn run_in(folder: &Path, program: &Path, options: &[String]) -> (u16, Child) {
    // Between the question for a free port and the start somebody else may take it.
    for _ in 0..10 {
        let port = free_port();
        let log = std::fs::File::create(folder.join("log")).expect("a log");
        let mut command = Command::new(program);
        command.arg("--no-defaults").args(is_root().then_some("--user=root")).args(options);
        for (name, file) in [("datadir", "data"), ("socket", "s.sock"), ("pid-file", "pid")] {
            command.arg(format!("--{name}={}", folder.join(file).display()));
        }
        command.arg(format!("--tmpdir={}", folder.display()));
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn().expect("the server runs");
        if until_ready(&mut child, &folder.join("s.sock")) {
            return (port, child);
        }
    }
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    panic!("the server doesn't start: {log}");
}

/// Waits until the socket takes connections; false if the server ended.
fn until_ready(child: &mut Child, socket: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        assert!(Instant::now() < deadline, "the server doesn't get ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A target of a process with these variables alone, which also reads no file of this machine.
pub(crate) fn target_of(url: &str, variables: &[(&str, &str)]) -> Target {
    let environment: Environment =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Target::parse(url, &environment).unwrap_or_else(|error| panic!("{url}: {error}"))
}

pub(crate) fn target(url: &str) -> Target {
    target_of(url, &[])
}
