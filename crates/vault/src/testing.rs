//! Real servers for the tests of this crate and of `tests/`: starts them, waits until they answer, and ends them.

#![expect(clippy::disallowed_methods, reason = "tests are an edge")]

mod gcs;
pub mod http;
mod nats;
mod oss;
mod webdav;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use seawall_core::Moment;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

pub use self::gcs::GcsServer;
pub use self::nats::{NATS_USER, NatsServer};
pub use self::oss::OssServer;
pub use self::webdav::{WEBDAV_USER, WebdavServer};

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

    /// The same, with buckets that can keep versions and locks, and with users ([`S3Server::add_user`]).
    ///
    /// # Panics
    /// As [`S3Server::start`].
    pub async fn start_versioned(what: &str, folder: &Path) -> Option<Self> {
        let (buckets, versions, users) = (folder.join("buckets"), folder.join("versions"), folder.join("users"));
        for folder in [&versions, &users] {
            std::fs::create_dir_all(folder).expect("a folder of the server can be made");
        }
        let of_server = ["--iam-dir".into(), users.into_os_string(), "--iam-cache-disable".into()];
        Self::spawn(what, &buckets, &of_server, &["--versioning-dir".into(), versions.into_os_string()]).await
    }

    /// The same, with a certificate and its key in two files, for `https`.
    ///
    /// # Panics
    /// As [`S3Server::start`].
    pub async fn start_with(what: &str, folder: &Path, tls: Option<(&Path, &Path)>) -> Option<Self> {
        let pair = |(certificate, key): (&Path, &Path)| {
            ["--cert".into(), certificate.as_os_str().to_owned(), "--key".into(), key.as_os_str().to_owned()]
        };
        let mut server = Self::spawn(what, folder, &tls.map(pair).unwrap_or_default(), &[]).await?;
        server.secure = tls.is_some();
        Some(server)
    }

    async fn spawn(what: &str, folder: &Path, of_server: &[OsString], of_folder: &[OsString]) -> Option<Self> {
        std::fs::create_dir_all(folder.join(BUCKET)).expect("the bucket's folder can be made");
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "versitygw did not get ready");
            let port = free_port();
            let mut command = Command::new("versitygw");
            let of_server = of_server.iter().filter(|argument| !argument.is_empty());
            let spawned = command
                .args(of_server)
                .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
                .args(of_folder)
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
            let mut server = Self { child, port, secure: false, folder: folder.to_path_buf() };
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

    /// Adds a user, who may do what the policies of buckets allow.
    ///
    /// # Panics
    /// When the server doesn't take it.
    pub fn add_user(&self, id: &str, key: &str) {
        let added = Command::new("versitygw")
            .args(["admin", "--access", KEYS.0, "--secret", KEYS.1, "--endpoint-url", &self.endpoint()])
            .args(["create-user", "--access", id, "--secret", key, "--role", "user"])
            .output();
        let added = added.expect("versitygw can be started");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    }

    /// Lets a user do these actions with objects of its bucket, and those with the bucket itself, and no others.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn allow(&self, id: &str, on_objects: &[&str], on_bucket: &[&str]) {
        let quoted =
            |actions: &[&str]| actions.iter().map(|action| format!("\"{action}\"")).collect::<Vec<_>>().join(",");
        let statement = |actions: &[&str], on: &str| {
            format!(
                "{{\"Effect\":\"Allow\",\"Principal\":[\"{id}\"],\"Action\":[{}],\"Resource\":\"arn:aws:s3:::{BUCKET}{on}\"}}",
                quoted(actions)
            )
        };
        let both = [(on_objects, "/*"), (on_bucket, "")];
        let statements: Vec<String> = both
            .iter()
            .filter(|(actions, _)| !actions.is_empty())
            .map(|(actions, on)| statement(actions, on))
            .collect();
        let policy = format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{}]}}", statements.join(","));
        self.put_in(BUCKET, None, "policy", &policy, &[]).await;
    }

    /// The URL of a prefix in its bucket, with other keys.
    pub fn url_of(&self, path: &str, id: &str, key: &str) -> String {
        format!("s3://{BUCKET}/{path}?endpoint={}&access-key-id={id}&secret-access-key={key}", self.endpoint())
    }

    /// Lets its bucket keep versions from now on.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn keep_versions(&self) {
        let body = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Status>Enabled</Status></VersioningConfiguration>";
        self.put_in(BUCKET, None, "versioning", body, &[]).await;
    }

    /// Makes a bucket whose objects may have locks, and in which each new object is locked for `days`.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn add_locking(&self, bucket: &str, mode: &str, days: Option<u32>) {
        self.put_in(bucket, None, "", "", &[("x-amz-bucket-object-lock-enabled", "true")]).await;
        let Some(days) = days else { return };
        let body = format!(
            "<ObjectLockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>{mode}</Mode>\
             <Days>{days}</Days></DefaultRetention></Rule></ObjectLockConfiguration>"
        );
        self.put_in(bucket, None, "object-lock", &body, &[]).await;
    }

    /// Locks an object. Amazon does so by itself in a bucket with a default lock; this server only refuses to delete there.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn lock(&self, bucket: &str, object: &str, mode: &str, until: Moment) {
        let body = format!(
            "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
             <RetainUntilDate>{until}</RetainUntilDate></Retention>"
        );
        self.put_in(bucket, Some(object), "retention", &body, &[]).await;
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
        answers(&mut self.child, self.port).await
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a server takes connections before long.
async fn answers(child: &mut Child, port: u16) -> bool {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return false;
        }
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return true;
        }
        sleep(Duration::from_millis(20)).await;
    }
    false
}

/// An Azurite that keeps its blobs in a folder. It ends when dropped.
#[derive(Debug)]
pub struct AzureServer {
    child: Child,
    port: u16,
}

/// The account and its key that an Azurite of tests has.
pub const ACCOUNT: (&str, &str) = ("seawalltest", "c2Vhd2FsbC10ZXN0LWtleQ==");

impl AzureServer {
    /// Starts one in `folder`, or prints that `what` is not run when there is no `azurite-blob` on the PATH.
    ///
    /// # Panics
    /// As [`S3Server::start`].
    pub async fn start(what: &str, folder: &Path) -> Option<Self> {
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "azurite did not get ready");
            let port = free_port();
            let spawned = Command::new("azurite-blob")
                .args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1"])
                .args(["--blobPort", &port.to_string(), "--location"])
                .arg(folder)
                .env("AZURITE_ACCOUNTS", format!("{}:{}", ACCOUNT.0, ACCOUNT.1))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if spawned.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                not_run(what, "azurite-blob is not on PATH");
                return None;
            }
            let mut child = spawned.expect("azurite can be started");
            if answers(&mut child, port).await {
                return Some(Self { child, port });
            }
            let _ = child.kill();
        }
    }

    /// The URL of a prefix in a container, with the account and its key.
    pub fn url(&self, container: &str, path: &str) -> String {
        let key = ACCOUNT.1.replace('=', "%3D");
        format!("abs://{}@{container}/{path}?endpoint={}&account-key={key}", ACCOUNT.0, self.endpoint())
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, ACCOUNT.0)
    }
}

impl Drop for AzureServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An OpenSSH server with a host key of its own. It ends when dropped.
#[derive(Debug)]
pub struct SshServer {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    user: String,
}

impl SshServer {
    /// Starts one whose files are in `folder`, or prints that `what` is not run when there is no `sshd`. The user that
    /// runs the test may log in with [`SshServer::key`]. `sftp` are arguments of its SFTP.
    ///
    /// # Panics
    /// As [`S3Server::start`].
    pub async fn start(what: &str, folder: &Path, sftp: &str) -> Option<Self> {
        let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).is_file());
        if sshd.is_none() {
            not_run(what, "there is no sshd");
            return None;
        }
        std::fs::create_dir_all(folder).expect("a folder for the server");
        // What the service makes when it starts; another user than root needs none.
        let _ = std::fs::create_dir_all("/run/sshd");
        let user = Command::new("id").arg("-un").output().expect("id can be run").stdout;
        let user = String::from_utf8(user).expect("a name").trim().to_owned();
        let mut server = Self { child: None, port: 0, folder: folder.to_path_buf(), user };
        server.make_key("host_key", &["-t", "ed25519", "-N", ""]);
        let key = server.make_key("user_key", &["-t", "ed25519", "-N", ""]);
        std::fs::copy(key.with_extension("pub"), folder.join("authorized_keys")).expect("keys that may log in");
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "sshd did not get ready");
            server.port = free_port();
            let settings = format!(
                "Port {}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\n\
                 PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
                 MaxStartups 100\nSubsystem sftp internal-sftp {sftp}\n",
                server.port,
                folder = folder.display(),
            );
            std::fs::write(folder.join("sshd_config"), settings).expect("its settings");
            if server.run().await {
                return Some(server);
            }
        }
    }

    /// Makes a key by these arguments of `ssh-keygen`; its public half is beside it.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn make_key(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let path = self.folder.join(name);
        let made = Command::new("ssh-keygen").args(["-q", "-C", "test"]).args(arguments).arg("-f").arg(&path).status();
        assert!(made.expect("ssh-keygen can be run").success(), "a key is made");
        path
    }

    /// Starts it again on its port, after [`SshServer::stop`].
    pub async fn run(&mut self) -> bool {
        let spawned = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(self.folder.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.folder.join("log")).expect("its log"))
            .spawn();
        let child = self.child.insert(spawned.expect("sshd can be started"));
        answers(child, self.port).await
    }

    /// Takes no new connections from now on.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The user that may log in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The private key that may log in.
    pub fn key(&self) -> PathBuf {
        self.folder.join("user_key")
    }

    /// Its own public key.
    ///
    /// # Panics
    /// When it can't be read.
    pub fn host_key(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("host_key.pub")).expect("a host key");
        text.split(' ').take(2).collect::<Vec<_>>().join(" ")
    }

    /// The URL of a folder on this machine, at a port that leads to the server, with what a login needs.
    pub fn url_at(&self, port: u16, folder: &Path) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("key-path", &self.key().display().to_string())
            .append_pair("host-key", &self.host_key())
            .finish();
        let folder = folder.display().to_string().replace('%', "%25");
        format!("sftp://{}@127.0.0.1:{port}{folder}?{query}", self.user)
    }

    /// The same, at its own port.
    pub fn url(&self, folder: &Path) -> String {
        self.url_at(self.port, folder)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.stop();
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
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!ci, "{what} not run, because {because}");
    println!("{what} not run, because {because}");
}

/// The store of a place.
///
/// # Panics
/// When its settings are wrong.
pub async fn store(place: &crate::VaultUrl) -> std::sync::Arc<dyn crate::Store> {
    place.open(&crate::Environment::empty(), &crate::Policy::default()).await.expect("sound settings")
}
