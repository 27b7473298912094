//! The surroundings of one test: a directory, a database, a vault, and the two programs.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::{App, Output, Place, Process, S3Server, binaries, place::Txid, run};

/// A directory with a database `app.db` and a place for its vault. `SEAWALL_KEEP=1` keeps it when its test fails.
#[derive(Debug)]
pub struct Stand {
    dir: TempDir,
    /// Where the vault is.
    pub place: Place,
    /// The seed of the writer's content.
    pub seed: u64,
    outputs: Cell<u32>,
}

impl Stand {
    /// A stand whose vault is a folder.
    pub fn folder(seed: u64) -> Self {
        Self::folder_in(&std::env::temp_dir(), seed)
    }

    /// The same, below a folder of one's choice.
    pub fn folder_in(above: &Path, seed: u64) -> Self {
        let dir = TempDir::with_prefix_in("seawall-", above).unwrap();
        let place = Place::Folder(dir.path().join("vault"));
        Self { dir, place, seed, outputs: Cell::new(0) }
    }

    /// A stand whose vault is in a bucket of a real S3 server of its own.
    pub fn bucket(seed: u64) -> Self {
        // A host's locks know a vault by its name, so every stand has another name.
        let unique = format!("sites/{:016x}", crate::random::fresh());
        Self::bucket_at(seed, &unique)
    }

    /// The same, with a prefix of one's choice.
    pub fn bucket_at(seed: u64, prefix: &str) -> Self {
        let dir = TempDir::with_prefix("seawall-").unwrap();
        let place = Place::Bucket(Box::new(S3Server::start()), prefix.to_owned());
        Self { dir, place, seed, outputs: Cell::new(0) }
    }

    /// A stand whose vault is in a bucket of a server over TLS.
    pub fn bucket_over_tls(seed: u64) -> Self {
        let dir = TempDir::with_prefix("seawall-").unwrap();
        let prefix = format!("sites/{:016x}", crate::random::fresh());
        Self { dir, place: Place::Bucket(Box::new(S3Server::start_tls()), prefix), seed, outputs: Cell::new(0) }
    }

    /// A file of this stand.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The database.
    pub fn db(&self) -> PathBuf {
        self.path("app.db")
    }

    /// The folder of `seawall`'s state of the database.
    pub fn state(&self) -> PathBuf {
        self.path(".app.db-seawall")
    }

    /// Starts the application on the database.
    pub fn app(&self) -> App {
        App::start(&self.db(), self.seed)
    }

    /// `seawall`, in the stand's directory, with only those variables of the machine's environment that it needs.
    pub fn command(&self) -> Command {
        self.program(binaries::seawall())
    }

    /// `litestream`, the same way.
    pub fn litestream_command(&self) -> Command {
        self.program(binaries::peer("litestream"))
    }

    /// `seawall`, called by the name of `litestream`.
    pub fn drop_in_command(&self) -> Command {
        let link = self.path("bin/litestream");
        if !link.exists() {
            std::fs::create_dir_all(self.path("bin")).unwrap();
            std::os::unix::fs::symlink(binaries::seawall(), &link).unwrap();
        }
        self.program(link)
    }

    /// The `ltx` tool, the same way.
    pub fn ltx_tool_command(&self) -> Command {
        self.program(binaries::peer("ltx"))
    }

    fn program(&self, path: PathBuf) -> Command {
        let mut command = Command::new(path);
        command.current_dir(self.dir.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.dir.path());
        if let Place::Bucket(..) = self.place {
            command.env("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY);
            command.env("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_KEY);
        }
        command
    }

    /// Runs `seawall` with these arguments to its end.
    pub fn seawall(&self, args: &[&str]) -> Output {
        run("seawall", self.command().args(args))
    }

    /// Starts `seawall replicate` for the database, with more arguments.
    pub fn replicate_with(&self, args: &[&str]) -> Process {
        Process::spawn("seawall", self.command().arg("replicate").args(args).arg(self.db()).arg(self.place.url()))
    }

    /// Starts `seawall replicate app.db VAULT`.
    pub fn replicate(&self) -> Process {
        self.replicate_with(&[])
    }

    /// Runs `seawall replicate --once`.
    pub fn replicate_once(&self) {
        self.replicate_with(&["--once"]).wait(crate::wait::SOON * 4).ok();
    }

    /// A name for a file that is not there yet.
    pub fn new_file(&self) -> PathBuf {
        self.outputs.set(self.outputs.get() + 1);
        self.path(&format!("back-{}.db", self.outputs.get()))
    }

    /// Restores the newest state with `seawall`, into a new file.
    #[track_caller]
    pub fn restore(&self) -> PathBuf {
        self.restore_with(&[])
    }

    /// Restores exactly a transaction with `seawall`, into a new file.
    #[track_caller]
    pub fn restore_txid(&self, txid: Txid) -> PathBuf {
        self.restore_with(&["--at", &format!("{txid:016x}")])
    }

    /// Restores with `seawall` and more arguments, into a new file.
    #[track_caller]
    pub fn restore_with(&self, args: &[&str]) -> PathBuf {
        let file = self.new_file();
        run("seawall", self.command().arg("restore").arg(self.place.url()).arg("-o").arg(&file).args(args)).ok();
        file
    }

    /// Writes a configuration in Litestream's format with this database alone, and returns its path.
    /// `top` goes before the databases; the database looks after its WAL ten times a second.
    pub fn litestream_yml(&self, top: &str) -> PathBuf {
        let file = self.path("litestream.yml");
        let text = format!(
            "{top}\ndbs:\n  - path: {}\n    monitor-interval: 100ms\n    replica:\n      sync-interval: 100ms\n{}",
            self.db().display(),
            self.place.yaml(6),
        );
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Starts `litestream replicate`; `top` is more configuration, for example of its levels.
    pub fn litestream(&self, top: &str) -> Process {
        let config = self.litestream_yml(top);
        Process::spawn("litestream", self.litestream_command().arg("replicate").arg("-config").arg(config))
    }

    /// Runs `litestream replicate -once`.
    pub fn litestream_once(&self) {
        let config = self.litestream_yml("");
        run("litestream", self.litestream_command().args(["replicate", "-once", "-config"]).arg(config)).ok();
    }

    /// Restores with `litestream` and more arguments, into a new file.
    #[track_caller]
    pub fn litestream_restore(&self, args: &[&str]) -> PathBuf {
        let (config, file) = (self.litestream_yml(""), self.new_file());
        let mut command = self.litestream_command();
        command.args(["restore", "-config"]).arg(config).args(args).arg("-o").arg(&file).arg(self.db());
        run("litestream", &mut command).ok();
        file
    }

    /// Restores exactly a transaction with `litestream`, into a new file.
    #[track_caller]
    pub fn litestream_restore_txid(&self, txid: Txid) -> PathBuf {
        self.litestream_restore(&["-txid", &format!("{txid:016x}")])
    }

    /// What `seawall status --json` says of the database.
    #[track_caller]
    pub fn status(&self) -> Value {
        let output = run("seawall", self.command().args(["status", "--json"]).arg(self.db()));
        let all = output.json();
        all.as_array().and_then(|all| all.first()).unwrap_or_else(|| panic!("no status in {all}\n{output}")).clone()
    }

    /// Waits until a running `seawall` says that everything is in the vault: it holds a point and nothing lags.
    pub fn until_protected(&self, seawall: &mut Process) -> Txid {
        crate::wait::until("everything to be protected", crate::wait::SOON * 2, || {
            assert!(seawall.running(), "seawall ended by itself");
            let status = self.status();
            (status["lag_bytes"] == 0 && status["phase"] == "protecting").then(|| protected(&status)).flatten()
        })
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("SEAWALL_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept {}", self.dir.path().display());
        }
    }
}

/// The transaction up to which a status says that everything is durable.
pub fn protected(status: &Value) -> Option<Txid> {
    let position = status["protected"]["position"].as_str()?;
    Some(Txid::from_str_radix(position, 16).unwrap_or_else(|e| panic!("{position} is no transaction: {e}")))
}
