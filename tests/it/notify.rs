//! Notifications: what a service gets from the real process, and when.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use seawall_tests::{Process, Random, Stand, wait};
use serde_json::Value;

/// A service that takes every message, and what it got.
struct Service {
    address: SocketAddr,
    messages: Receiver<(String, Value)>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (got, messages) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
                let mut body = vec![0; length.parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                stream.get_mut().write_all(answer).unwrap();
                if got.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                    return;
                }
            }
        });
        Self { address, messages }
    }

    fn next(&self) -> Value {
        wait::until("a message", wait::SOON * 4, || self.messages.try_recv().ok()).1
    }
}

/// A configuration for the stand's database that tells the service.
fn configure(stand: &Stand, service: &Service) {
    let text = format!(
        "notify:\n- {{ name: pager, type: webhook, url: 'http://{}/hush', secret: hush }}\n\
         - {{ name: program, type: command, command: [sh, -c, 'exit 3'], severity: critical }}\n\
         socket: {{ path: s.sock }}\ndatabases:\n  - path: app.db\n    vault: {}\n",
        service.address,
        stand.place.url()
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
}

#[test]
fn an_alarm_and_its_end_are_told_once_also_over_a_restart() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let service = Service::start();
    configure(&stand, &service);
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate"));
    stand.until_protected(&mut seawall);
    stand.seawall(&["stop", "app"]).ok();
    let raised = service.next();
    assert_eq!((&raised["event"], &raised["alarms"][0]["database"]), (&"raised".into(), &"app".into()), "{raised}");
    assert_eq!(raised["alarms"][0]["code"], "alarm.stopped", "{raised}");
    let noted = || {
        let notes = std::fs::read_dir(stand.path(".local/state/seawall")).unwrap().map(|entry| entry.unwrap().path());
        notes.filter_map(|note| std::fs::read_to_string(note).ok()).find(|text| text.contains("alarm.stopped"))
    };
    let raised = wait::until("it to be noted", wait::SOON, noted);
    stand.seawall(&["start", "app"]).ok();
    let recovered = service.next();
    assert_eq!((&recovered["event"], &recovered["alarms"][0]["code"]), (&"recovered".into(), &"alarm.stopped".into()));
    let log = seawall.stderr();
    assert!(!log.contains("hush"), "{log}");
    // What isn't noted yet would be told once more.
    wait::until("the end to be noted", wait::SOON, || (noted().as_ref() != Some(&raised)).then_some(()));
    seawall.stop().ok();
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate"));
    stand.until_protected(&mut seawall);
    seawall.stop().ok();
    assert!(service.messages.try_recv().is_err(), "nothing happened");
}

#[test]
fn each_channel_is_tried_out() {
    let stand = Stand::folder(0);
    let service = Service::start();
    configure(&stand, &service);
    let output = stand.seawall(&["notify", "test", "--json"]).exits(3);
    let channels = output.json()["channels"].clone();
    assert_eq!((&channels[0]["name"], &channels[0]["delivered"]), (&"pager".into(), &true.into()));
    assert_eq!((&channels[1]["delivered"], &channels[1]["error"]["code"]), (&false.into(), &"notify.failed".into()));
    let (head, body) = service.messages.try_recv().unwrap();
    assert!(head.contains("\r\nseawall-signature: sha256=") && body["event"] == "test", "{head}");
    let output = stand.seawall(&["notify", "test", "program"]).exits(1);
    assert!(output.stderr.contains("error[notify.failed]: program: it ended with code 3"), "{output}");
    assert_eq!(stand.seawall(&["notify", "test", "nobody"]).exits(4).stderr.lines().count(), 2);
    assert!(!format!("{output}").contains("hush"), "{output}");
}
