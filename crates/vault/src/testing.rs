//! Real servers for the tests of this crate and of `tests/`: starts them, waits until they answer, and ends them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A versitygw that serves a folder of its own, with the bucket `bucket`. It ends when dropped.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    port: u16,
    secure: bool,
    folder: PathBuf,
}

/// The bucket that a test server has.
pub const BUCKET: &str = "bucket";

/// The key id and key of a test server.
pub const KEYS: (&str, &str) = ("seawall-test", "seawall-test-key");

impl S3Server {
    /// Starts one in `folder`, or prints that `what` is not run when there is no `versitygw` on the PATH.
    ///
    /// # Panics
    /// When the server doesn't start; and in CI (`CI=true`) also when there is none, because a check that can't run
    /// is a failure (I12).
    pub async fn start(what: &str, folder: &Path) -> Option<Self> {
        Self::start_with(what, folder, None).await
    }

    /// The same, with a certificate and its key in two files, for `https`.
    ///
    /// # Panics
    /// As [`S3Server::start`].
    pub async fn start_with(what: &str, folder: &Path, tls: Option<(&Path, &Path)>) -> Option<Self> {
        std::fs::create_dir_all(folder.join(BUCKET)).expect("the bucket's folder can be made");
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "versitygw did not get ready");
            let port = free_port();
            let mut command = Command::new("versitygw");
            if let Some((certificate, key)) = tls {
                command.arg("--cert").arg(certificate).arg("--key").arg(key);
            }
            let spawned = command
                .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
                .arg(folder)
                .env("ROOT_ACCESS_KEY", KEYS.0)
                .env("ROOT_SECRET_KEY", KEYS.1)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if spawned.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                not_run(what, "versitygw is not on PATH");
                return None;
            }
            let child = spawned.expect("versitygw can be started");
            let mut server = Self { child, port, secure: tls.is_some(), folder: folder.to_path_buf() };
            if server.ready().await {
                return Some(server);
            }
            // Another process took the port in between: try another port.
        }
    }

    /// The URL of a prefix in its bucket, with its keys.
    pub fn url(&self, path: &str) -> String {
        let (id, key) = KEYS;
        format!("s3://{BUCKET}/{path}?endpoint={}&access-key-id={id}&secret-access-key={key}", self.endpoint())
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.secure { "https" } else { "http" }, self.port)
    }

    /// The folder that holds its buckets.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    async fn ready(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port can be bound");
    listener.local_addr().expect("it has an address").port()
}

/// Says that something was not checked; in CI that is a failure.
///
/// # Panics
/// In CI.
pub fn not_run(what: &str, because: &str) {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment that they run in CI")]
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!ci, "{what} not run, because {because}");
    println!("{what} not run, because {because}");
}
