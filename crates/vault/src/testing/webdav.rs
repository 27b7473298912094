//! WebDAV servers: WsgiDAV, which writes in place, and nginx, which doesn't list versions and ignores conditions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{answers, free_port, not_run};

/// The user and password of the WsgiDAV of tests.
pub const WEBDAV_USER: (&str, &str) = ("seawall-test", "seawall-test password");

/// A WebDAV server that serves a folder. It ends when dropped.
#[derive(Debug)]
pub struct WebdavServer {
    child: Child,
    command: Launch,
    port: u16,
    user: Option<(&'static str, &'static str)>,
}

/// How a server is started, to start it again.
#[derive(Debug)]
struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    python: Option<PathBuf>,
}

impl Launch {
    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(path) = &self.python {
            command.env("PYTHONPATH", path);
        }
        command.spawn()
    }
}

impl WebdavServer {
    /// Starts WsgiDAV with a user and its configuration in `folder`, or prints that `what` is not run when there is no `wsgidav`
    /// on the PATH.
    ///
    /// # Panics
    /// As [`super::S3Server::start`].
    pub async fn wsgidav(what: &str, folder: &Path) -> Option<Self> {
        let Some(program) = on_path("wsgidav") else {
            not_run(what, "wsgidav is not on PATH");
            return None;
        };
        // Where pip put it: the packages are beside the folder of programs.
        let python = program.parent().and_then(Path::parent).map(Path::to_path_buf);
        let root = make(folder, "files");
        let (name, password) = WEBDAV_USER;
        Self::start(what, Some(WEBDAV_USER), |port| {
            let config = folder.join("wsgidav.yaml");
            let text = format!(
                "host: 127.0.0.1\nport: {port}\nprovider_mapping: {{\"/\": \"{root}\"}}\nlogging: {{enable: false}}\nverbose: 0\n\
                 http_authenticator: {{accept_basic: true, accept_digest: true, default_to_digest: false}}\n\
                 simple_dc: {{user_mapping: {{\"*\": {{\"{name}\": {{password: \"{password}\"}}}}}}}}\n"
            );
            std::fs::write(&config, text).expect("a configuration");
            let arguments = vec!["--config".to_owned(), config.display().to_string()];
            Launch { program: program.clone(), arguments, python: python.clone() }
        })
        .await
    }

    /// Starts nginx with the modules for WebDAV and its files in `folder`, or prints that `what` is not run when there is none.
    ///
    /// # Panics
    /// As [`super::S3Server::start`].
    pub async fn nginx(what: &str, folder: &Path) -> Option<Self> {
        let module = "/usr/lib/nginx/modules/ngx_http_dav_ext_module.so";
        let program = PathBuf::from("/usr/sbin/nginx");
        if !program.is_file() || !Path::new(module).is_file() {
            not_run(what, "nginx or its module dav-ext is not there");
            return None;
        }
        let (root, temporary) = (make(folder, "files"), make(folder, "temporary"));
        Self::start(what, None, |port| {
            let config = folder.join("nginx.conf");
            let others = ["proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path {temporary}/{kind};"));
            // The first line counts where root runs this: its worker would be another user.
            let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
            let text = format!(
                "{user}\ndaemon off;\nmaster_process off;\npid {temporary}/pid;\nerror_log {temporary}/errors;\nload_module {module};\n\
                 events {{ worker_connections 128; }}\nhttp {{\naccess_log off;\nclient_max_body_size 0;\n\
                 client_body_temp_path {temporary}/bodies;\n{}\nserver {{\nlisten 127.0.0.1:{port};\nroot {root};\nlocation / {{\n\
                 dav_methods PUT DELETE MKCOL COPY MOVE;\ndav_ext_methods PROPFIND OPTIONS;\ndav_access user:rw;\n}}\n}}\n}}\n",
                others.concat()
            );
            std::fs::write(&config, text).expect("a configuration");
            let text = |text: &str| text.to_owned();
            let arguments =
                vec![text("-p"), temporary.clone(), text("-e"), format!("{temporary}/errors"), text("-c"), config.display().to_string()];
            Launch { program: program.clone(), arguments, python: None }
        })
        .await
    }

    async fn start(
        what: &str,
        user: Option<(&'static str, &'static str)>,
        prepare: impl Fn(u16) -> Launch,
    ) -> Option<Self> {
        // Another process may take the port in between: then another port is tried.
        let mut attempts = 0..5;
        loop {
            assert!(attempts.next().is_some(), "the WebDAV server for {what} did not get ready");
            let port = free_port();
            let command = prepare(port);
            let mut child = command.spawn().expect("the server can be started");
            if answers(&mut child, port).await {
                return Some(Self { child, command, port, user });
            }
            let _ = child.kill();
        }
    }

    /// The URL of a folder on it, with the user and password.
    pub fn url(&self, path: &str) -> String {
        self.url_through(self.port, path)
    }

    /// The same through another port of this machine.
    pub fn url_through(&self, port: u16, path: &str) -> String {
        let user = self.user.map(|(name, password)| format!("{name}:{}@", password.replace(' ', "%20")));
        format!("webdav://{}127.0.0.1:{port}/{path}", user.unwrap_or_default())
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
        self.child = self.command.spawn().expect("the server can be started");
        assert!(answers(&mut self.child, self.port).await, "the server did not get ready again");
    }
}

impl Drop for WebdavServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn make(folder: &Path, name: &str) -> String {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.display().to_string()
}

fn on_path(program: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where programs are")]
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
