//! A real S3 server (versitygw) with one bucket, on a free port, for one test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process::Process;
use crate::{binaries, wait};

/// The server. Its objects are files and its metadata is JSON, so a test can read and damage them.
#[derive(Debug)]
pub struct S3Server {
    process: Process,
    dir: TempDir,
    port: u16,
    scheme: &'static str,
}

impl S3Server {
    /// The bucket's name.
    pub const BUCKET: &str = "harbour";
    /// The access key.
    pub const ACCESS_KEY: &str = "seawall-tests";
    /// The secret key.
    pub const SECRET_KEY: &str = "not-a-secret-at-all";

    /// Starts one.
    pub fn start() -> Self {
        Self::start_with("http", &[])
    }

    /// Starts one over TLS, with a certificate that only [`Self::authority`] vouches for.
    pub fn start_tls() -> Self {
        let [certificate, key] = ["server.pem", "server.key"].map(tls).map(|path| path.display().to_string());
        Self::start_with("https", &["--cert", &certificate, "--key", &key])
    }

    /// The certificate of the authority that no system trusts, as a file.
    pub fn authority() -> PathBuf {
        tls("ca.pem")
    }

    fn start_with(scheme: &'static str, more: &[&str]) -> Self {
        let dir = TempDir::with_prefix("seawall-s3-").unwrap();
        for sub in ["objects", "meta"] {
            std::fs::create_dir(dir.path().join(sub)).unwrap();
        }
        std::fs::create_dir(dir.path().join("objects").join(Self::BUCKET)).unwrap();
        Self::start_in(dir, scheme, more)
    }

    /// A second server, which holds what this one holds now.
    pub(crate) fn as_it_is_now(&self) -> Self {
        let dir = TempDir::with_prefix("seawall-s3-").unwrap();
        let all = self.dir.path().join(".");
        assert!(Command::new("cp").arg("-a").arg(all).arg(dir.path()).status().unwrap().success());
        Self::start_in(dir, self.scheme, &[])
    }

    fn start_in(dir: TempDir, scheme: &'static str, more: &[&str]) -> Self {
        // Another process may take the port in between; then the server ends, and the next one is tried.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new(binaries::peer("versitygw"));
            command
                .env("ROOT_ACCESS_KEY", Self::ACCESS_KEY)
                .env("ROOT_SECRET_KEY", Self::SECRET_KEY)
                .args(["--port", &format!("127.0.0.1:{port}")])
                .args(more)
                .args(["posix", "--sidecar"])
                .arg(dir.path().join("meta"))
                .arg(dir.path().join("objects"));
            let mut process = Process::spawn("versitygw", &mut command);
            let up = wait::until("versitygw to listen", wait::SOON, || {
                if !process.running() {
                    return Some(false);
                }
                TcpStream::connect(("127.0.0.1", port)).ok().map(|_| true)
            });
            if up && process.running() {
                return Self { process, dir, port, scheme };
            }
        }
        panic!("versitygw did not start on any of ten free ports");
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// The folder in which the bucket's objects are files.
    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects").join(Self::BUCKET)
    }

    /// The user metadata of an object.
    pub fn metadata(&self, key: &Path) -> serde_json::Value {
        let file = self.dir.path().join("meta").join(Self::BUCKET).join(key).join("meta/metadata");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// Stops the server for good, as an outage does.
    pub fn stop(&mut self) {
        self.process.kill_9();
    }
}

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tls").join(name)
}
