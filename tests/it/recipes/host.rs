//! A host that a recipe is carried out on: a folder of this machine. Absolute paths of the recipe lead into it, `s3://` into folders
//! in it, and `systemctl` starts and stops a real `seawall`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use seawall_tests::{Output, Process, run, seawall, wait};
use serde_json::Value;
use tempfile::TempDir;

use super::page::{Page, seawall_part};

/// Where absolute paths of the recipes begin.
const ROOTS: [&str; 7] = ["/srv/", "/etc/", "/var/lib/", "/opt/", "/run/", "/mnt/", "/data/"];

/// A host.
pub(super) struct Host {
    dir: TempDir,
    seawall: Option<Process>,
    /// What the recipe's `--at` becomes.
    pub(super) moment: String,
    /// Where the configuration is: `SEAWALL_CONFIG`.
    config: String,
}

impl Host {
    /// A new one, without any file.
    pub(super) fn new() -> Self {
        // What lies below /dev, as the folder of temporary files may, can be written under any unit.
        let dir = TempDir::with_prefix_in("seawall-", "/var/tmp").unwrap();
        for folder in ["bin", "etc/seawall", "run/seawall", "store", "tmp", "var/lib/seawall", "home", "empty"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(seawall(), dir.path().join("bin/seawall")).unwrap();
        Self { dir, seawall: None, moment: String::new(), config: "/etc/seawall.yml".to_owned() }
    }

    /// One with the page's configuration in `/etc/seawall.yml`.
    pub(super) fn with(page: &Page) -> Self {
        let host = Self::new();
        host.write("/etc/seawall.yml", page.file("seawall.yml"));
        host.write("/etc/seawall/alert-url", "http://127.0.0.1:9/");
        host
    }

    /// The same, with the configuration at another path.
    pub(super) fn with_config_at(page: &Page, path: &str) -> Self {
        let mut host = Self::new();
        host.write(path, page.file("seawall.yml"));
        host.config = path.to_owned();
        host
    }

    /// The place of a path of the recipe on this machine.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file of the recipe, with its paths changed.
    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.relocate(text)).unwrap();
    }

    /// Text of a recipe, with paths and places that lead into this host's folder.
    pub(super) fn relocate(&self, text: &str) -> String {
        let root = self.dir.path().to_str().unwrap();
        let text = text.replace("s3://", &format!("{root}/store/")).replace("/tmp/seawall.sock", "/run/seawall.sock");
        let text = text.replace("?endpoint=https://fly.storage.tigris.dev", "").replace("0.0.0.0:909", "127.0.0.1:0 #");
        let mut out = String::with_capacity(text.len());
        for (at, letter) in text.char_indices() {
            let inside = out.ends_with(|before: char| before.is_alphanumeric() || "./-_~".contains(before));
            if !inside && ROOTS.iter().any(|path| text[at..].starts_with(path)) {
                out += root;
            }
            out.push(letter);
        }
        out
    }

    /// A program in this host's environment.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.path("empty"))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("SEAWALL_CONFIG", self.path(&self.config))
            // What recipes take from the environment.
            .env("HEARTBEAT_URL", "http://127.0.0.1:9/beat")
            .env("BUCKET_NAME", "shop-backups")
            .env("AWS_ENDPOINT_URL_S3", "https://fly.storage.tigris.dev");
        command
    }

    /// Runs a line of the recipe's commands.
    pub(super) fn sh(&self, line: &str) -> Output {
        let mut line = self.relocate(line);
        for moment in ["2026-11-27T09:00:00Z", "2026-11-27T02:00:00Z", "2 hours ago", "1 hour ago"] {
            if line.contains(moment) {
                assert!(!self.moment.is_empty(), "{line} needs a moment");
                line = line.replace(moment, &self.moment);
            }
        }
        run(&line, self.command("sh").args(["-c", &line]))
    }

    /// Carries a line out: `systemctl` by hand, `seawall` for real. `false`: it is another program's.
    #[track_caller]
    pub(super) fn carry_out(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["systemctl", "stop", units @ ..] if units.contains(&"seawall") => self.stop(),
            ["systemctl", "start" | "enable", units @ ..] if units.contains(&"seawall") => self.start(),
            // The application's unit wants `seawall.service`.
            ["systemctl", "start", _application] => self.start_if_stopped(),
            _ => match seawall_part(line) {
                Some(line) => {
                    self.sh(&line).ok();
                }
                None => return false,
            },
        }
        true
    }

    /// Carries out lines that are all of `systemctl` and `seawall`.
    #[track_caller]
    pub(super) fn carry_all_out(&mut self, lines: &[String]) {
        for line in lines {
            assert!(self.carry_out(line), "who runs '{line}'?");
        }
    }

    /// Starts `seawall replicate`, and waits as a unit of `Type=notify` does.
    pub(super) fn start(&mut self) {
        self.start_with(&["replicate"]);
        wait::until("every database to be protected", wait::SOON, || {
            let status = run("status", self.command("seawall").args(["status", "--json"]));
            let status: Value = serde_json::from_str(&status.stdout).ok()?;
            let all = status.as_array()?;
            let protected = |one: &Value| one["phase"] == "protecting" && !one["protected"].is_null();
            (!all.is_empty() && all.iter().all(protected)).then_some(())
        });
    }

    /// Starts `seawall` with these arguments, and waits for its control socket.
    pub(super) fn start_with(&mut self, args: &[&str]) {
        assert!(self.seawall.is_none(), "it runs already");
        self.seawall = Some(Process::spawn("seawall", self.command("seawall").args(args)));
        wait::until("the control socket", wait::SOON, || {
            assert!(self.seawall.as_mut().unwrap().running(), "seawall ended");
            (run("info", self.command("seawall").arg("info")).code() == 0).then_some(())
        });
    }

    /// Stops it as a service manager does, if it runs.
    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.seawall.take() {
            process.stop().ok();
        }
    }

    /// Ends it as a power cut does.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.seawall.take() {
            process.kill_9();
        }
    }

    /// Waits until everything that was committed to these databases is in the vault, and notes the moment.
    pub(super) fn settle(&mut self, databases: &[&str]) {
        for name in databases {
            self.sh(&format!("seawall sync {name} --wait")).ok();
        }
        self.moment = jiff::Timestamp::now().to_string();
        // The next commit has another millisecond.
        wait::pass(std::time::Duration::from_millis(5));
    }

    /// Loses folders with all that is in them, and makes them anew, empty.
    pub(super) fn lose(&mut self, folders: &[&str]) {
        self.kill();
        let _ = fs::remove_file(self.path("/run/seawall.sock"));
        let _ = fs::remove_file(self.path("/run/seawall/seawall.sock"));
        for folder in folders {
            fs::remove_dir_all(self.path(folder)).unwrap();
            fs::create_dir_all(self.path(folder)).unwrap();
        }
    }
}

impl Host {
    /// Starts it, unless it runs.
    pub(super) fn start_if_stopped(&mut self) {
        if self.seawall.is_none() {
            self.start();
        }
    }
}
