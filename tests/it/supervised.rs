//! What systemd hears of a process (`Type=notify`), and what shells and readers of manuals get.

use std::fs;
use std::os::unix::net::UnixDatagram;

use seawall_tests::{Process, Random, Stand, model, wait};

/// A socket such as systemd has, and everything that came so far.
struct Systemd {
    socket: UnixDatagram,
    heard: Vec<String>,
}

impl Systemd {
    fn listen(stand: &Stand) -> Self {
        let socket = UnixDatagram::bind(stand.path("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, heard: Vec::new() }
    }

    /// Waits for a line of a message.
    fn hear(&mut self, line: &str) {
        let mut buffer = [0; 4096];
        wait::until(&format!("{line} among {:?}", self.heard), wait::SOON * 2, || {
            while let Ok(length) = self.socket.recv(&mut buffer) {
                let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
                self.heard.extend(message.lines().map(str::to_owned));
            }
            self.heard.iter().any(|heard| heard.starts_with(line)).then_some(())
        });
    }
}

#[test]
fn systemd_hears_when_databases_are_protected_and_that_the_process_lives() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let mut systemd = Systemd::listen(&stand);
    let mut command = stand.command();
    command.args(["replicate", stand.db().to_str().unwrap(), &stand.place.url()]);
    command.env("NOTIFY_SOCKET", stand.path("notify")).env("WATCHDOG_USEC", "200000");
    let mut seawall = Process::spawn("seawall", &mut command);
    systemd.hear("READY=1");
    // A unit that waited for it starts under protection.
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
    assert!(
        systemd.heard.iter().any(|line| line == "STATUS=1 of 1 databases run; see: seawall status"),
        "{:?}",
        systemd.heard
    );
    systemd.heard.clear();
    systemd.hear("WATCHDOG=1");
    systemd.heard.clear();
    systemd.hear("WATCHDOG=1");
    seawall.stop().ok();
    systemd.hear("STOPPING=1");
}

#[test]
fn a_database_that_is_missing_or_away_keeps_no_unit_from_starting() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut systemd = Systemd::listen(&stand);
    let mut command = stand.command();
    command.args(["replicate", stand.path("later.db").to_str().unwrap(), &stand.place.url()]);
    let mut seawall = Process::spawn("seawall", command.env("NOTIFY_SOCKET", stand.path("notify")));
    systemd.hear("READY=1");
    assert!(!systemd.heard.iter().any(|line| line.starts_with("WATCHDOG")), "no watchdog is set");
    seawall.stop().ok();
}

#[test]
fn every_command_is_in_the_completions_and_the_manual() {
    let stand = Stand::folder(1);
    for shell in ["bash", "zsh", "fish"] {
        let script = stand.seawall(&["completion", shell]).ok().stdout;
        assert!(["replicate", "restore", "doctor"].iter().all(|command| script.contains(command)), "{shell}");
    }
    let folder = stand.path("man");
    fs::create_dir(&folder).unwrap();
    stand.seawall(&["manual", "-o", folder.to_str().unwrap()]).ok();
    for page in ["seawall.1", "seawall-restore.1", "seawall-vault-init.1"] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains("Example"), "{page}: {text}");
    }
    let nowhere = stand.seawall(&["manual", "-o", "nowhere", "--json"]).exits(1).json();
    assert_eq!(nowhere["error"]["code"], "command.manual", "{nowhere}");
}
