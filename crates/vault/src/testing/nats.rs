//! NATS with JetStream.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use async_nats::ConnectOptions;

use super::{answers, free_port, not_run};

/// The user and password of the NATS of tests.
pub const NATS_USER: (&str, &str) = ("seawall-test", "seawall-test-password");

/// A nats-server that keeps its streams in a folder. It ends when dropped.
#[derive(Debug)]
pub struct NatsServer {
    child: Child,
    port: u16,
    folder: PathBuf,
}

fn spawn(folder: &Path, port: u16) -> std::io::Result<Child> {
    let (user, password) = NATS_USER;
    Command::new("nats-server")
        .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "--user", user, "--pass", password, "-sd"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl NatsServer {
    /// Starts one in `folder`, or prints that `what` is not run when there is no `nats-server` on the PATH.
    ///
    /// # Panics
    /// As [`super::S3Server::start`].
    pub async fn start(what: &str, folder: &Path) -> Option<Self> {
        // Another process may take the port in between: then another port is tried.
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "nats-server did not get ready");
            let port = free_port();
            let spawned = spawn(folder, port);
            if spawned.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                not_run(what, "nats-server is not on PATH");
                return None;
            }
            let mut child = spawned.expect("nats-server can be started");
            if answers(&mut child, port).await {
                return Some(Self { child, port, folder: folder.to_path_buf() });
            }
            let _ = child.kill();
        }
    }

    /// Makes a bucket, as NATS's own tool does.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn make_bucket(&self, bucket: &str) {
        let (user, password) = NATS_USER;
        let options = ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
        let client = options.connect(format!("127.0.0.1:{}", self.port)).await.expect("a connection");
        let config = serde_json::json!({
            "name": format!("OBJ_{bucket}"),
            "subjects": [format!("$O.{bucket}.C.>"), format!("$O.{bucket}.M.>")],
            "retention": "limits", "discard": "new", "storage": "file", "num_replicas": 1,
            "allow_rollup_hdrs": true, "allow_direct": true,
        });
        let request = format!("$JS.API.STREAM.CREATE.OBJ_{bucket}");
        let answer = client.request(request, config.to_string().into()).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer.payload).into_owned();
        assert!(!answer.contains("\"error\""), "{answer}");
    }

    /// The URL of a path in a bucket, with the user and password.
    pub fn url(&self, bucket: &str, path: &str) -> String {
        self.url_through(self.port, bucket, path)
    }

    /// The same through another port of this machine.
    pub fn url_through(&self, port: u16, bucket: &str, path: &str) -> String {
        let (user, password) = NATS_USER;
        format!("nats://{user}:{password}@127.0.0.1:{port}/{bucket}/{path}")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it, as a crash would.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same port.
    ///
    /// # Panics
    /// When it doesn't start.
    pub async fn restart(&mut self) {
        self.stop();
        self.child = spawn(&self.folder, self.port).expect("nats-server can be started");
        assert!(answers(&mut self.child, self.port).await, "the server did not get ready again");
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
    }
}
