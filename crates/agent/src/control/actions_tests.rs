//! What is asked of a process, through its socket.

use super::*;
use crate::control::{Control, Socket};
use crate::http::{Listener, serve};
use crate::testing::{Stubs, database};
use seawall_core::Shutdown;

const BOUND: Duration = Duration::from_secs(5);

struct Scene {
    folder: tempfile::TempDir,
    fleet: Fleet,
    control: Control,
    _server: tokio::task::JoinHandle<()>,
}

/// A process with stubs of these names and a socket.
async fn scene(names: &[&str]) -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = Fleet::new(Arc::new(Stubs), Shutdown::new());
    for name in names {
        fleet.add(database(name), Origin::Configured).await.expect("added");
    }
    let registering = Registering::plain(Path::new("/"), BOUND);
    let registry = Registry::new(folder.path().join("registered.json"));
    let actions = Actions::new(fleet.clone(), registering, Some(registry), "1.2.3");
    let socket = folder.path().join("s.sock");
    let (listener, unlink) = Listener::unix(&socket, 0o600).await.expect("a socket");
    let server = tokio::spawn(async move {
        let _unlink = unlink;
        serve(listener, Arc::new(Socket(Arc::new(actions)))).await;
    });
    Scene { control: Control::new(&socket), folder, fleet, _server: server }
}

fn path(name: &str) -> String {
    database(name).source().to_string()
}

fn code<T: std::fmt::Debug>(result: Result<T, Failure>) -> (Kind, &'static str) {
    let failure = result.expect_err("a failure");
    (failure.kind, failure.code)
}

#[tokio::test]
async fn what_it_says_of_itself() {
    let scene = scene(&["work-1", "fail-2"]).await;
    let info = scene.control.info().await.expect("an answer");
    assert_eq!((info.version.as_str(), info.pid, info.database_count), ("1.2.3", std::process::id(), 2));
    while scene.fleet.find("fail-2").is_some_and(|member| member.running) {
        tokio::task::yield_now().await;
    }
    let list = scene.control.list().await.expect("an answer");
    let told: Vec<_> = list.iter().map(|one| (one.name.as_str(), one.status.as_str(), one.origin.as_str())).collect();
    assert_eq!(told, [("work-1", "replicating", "configured"), ("fail-2", "stopped", "configured")]);
    let (status, config) = scene.control.status().await.expect("an answer");
    assert_eq!(config, None);
    assert_eq!(status[0].phase, Phase::Protecting);
    assert_eq!(status[1].phase, Phase::Halted);
    assert_eq!(status[1].error.as_ref().map(|error| error.code.as_str()), Some("stub.failed"));
}

#[tokio::test]
async fn start_stop_and_sync() {
    let scene = scene(&["work-1", "stubborn"]).await;
    let control = &scene.control;
    let path = path("work-1");
    assert_eq!(control.start(&path, BOUND).await.expect("an answer").status, "already_running");
    let synced = control.sync("work-1", true, BOUND).await.expect("an answer");
    assert_eq!((synced.status.as_str(), synced.txid), ("no_change", 1));
    assert_eq!(control.sync("work-1", false, BOUND).await.expect("an answer").status, "no_change");
    let stopped = control.stop(&path, BOUND).await.expect("an answer");
    assert_eq!((stopped.status.as_str(), stopped.path.as_str(), stopped.txid), ("stopped", path.as_str(), 1));
    assert_eq!(control.stop("work-1", BOUND).await.expect("an answer").status, "already_stopped");
    assert_eq!(code(control.sync(&path, true, BOUND).await), (Kind::Refused, "agent.not-running"));
    assert_eq!(control.start("work-1", BOUND).await.expect("an answer").status, "started");
    for asked in [control.start("nobody", BOUND).await, control.stop("nobody", BOUND).await] {
        assert_eq!(code(asked), (Kind::NotFound, "agent.unknown-database"));
    }
    let late = control.stop("stubborn", Duration::from_millis(1)).await;
    assert_eq!(code(late), (Kind::Unavailable, "agent.shutdown-timeout"));
}

#[tokio::test]
async fn a_registration_is_kept_for_the_next_process() {
    let Scene { control, folder, fleet, .. } = scene(&["work-1"]).await;
    let registry = Registry::new(folder.path().join("registered.json"));
    let (file, vault) = (folder.path().join("new.db"), folder.path().join("vault"));
    let vault = vault.to_str().expect("text");
    let registered = control.register(&file, Some(vault), Some("work-new"), BOUND).await.expect("an answer");
    assert_eq!((registered.status.as_str(), registered.name.as_str()), ("registered", "work-new"));
    assert!(fleet.find("work-new").is_some_and(|member| member.origin == Origin::Registered && member.running));
    assert_eq!(registry.load().expect("kept").len(), 1);
    let again = control.register(&file, Some(vault), Some("work-new"), BOUND).await.expect("an answer");
    assert_eq!(again.status, "already_registered");
    let elsewhere = control.register(&file, Some("/elsewhere"), None, BOUND).await;
    assert_eq!(code(elsewhere), (Kind::Conflict, "agent.duplicate"));
    let unopened = control.register(Path::new("/other.db"), Some("/v/other"), Some("unopened"), BOUND).await;
    assert_eq!(code(unopened), (Kind::Denied, "stub.unopened"));
    assert_eq!(code(control.register(Path::new("/x.db"), None, None, BOUND).await), (Kind::Usage, "agent.register"));
    assert_eq!(registry.load().expect("kept").len(), 1, "what failed isn't kept");
    let gone = control.unregister(file.to_str().expect("text"), BOUND).await.expect("an answer");
    assert_eq!((gone.status.as_str(), gone.txid), ("unregistered", 1));
    assert_eq!(registry.load(), Ok(vec![]));
    let gone = control.unregister("work-new", BOUND).await.expect("an answer");
    assert_eq!((gone.status.as_str(), gone.txid), ("already_unregistered", 0));
    assert_eq!(fleet.len(), 1);
}

#[tokio::test]
async fn a_registration_that_cannot_be_kept_is_not_begun() {
    let Scene { control, folder, fleet, .. } = scene(&[]).await;
    let file = folder.path().join("registered.json");
    tokio::fs::write(&file, "{ damaged").await.expect("written");
    let registered = control.register(Path::new("/new.db"), Some("/v/new"), Some("work-new"), BOUND).await;
    assert_eq!(code(registered), (Kind::Unavailable, "agent.registry"));
    assert_eq!(fleet.len(), 0);
}

#[tokio::test]
async fn nobody_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = Control::new(&folder.path().join("s.sock"));
    assert_eq!(code(control.info().await), (Kind::NotFound, "agent.no-process"));
}

#[tokio::test]
async fn hostile_requests_get_an_answer_or_an_end() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Scene { control, folder, .. } = scene(&["work-1"]).await;
    let big = format!("POST /sync HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n{}", "x".repeat(70_000));
    let headers = format!("GET /info HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5000));
    for (bytes, expected) in [
        ("GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 404"),
        ("GET /debug/pprof/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 404"),
        ("GET /sync HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 405"),
        ("POST /sync HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\n{bad", "HTTP/1.1 400"),
        ("GET /txid HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("GET /txid?path=%FF%00 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "HTTP/1.1 404"),
        (
            "POST /stop HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 31\r\n\r\n{\"path\":\"work-1\",\"timeout\":-1.5}",
            "HTTP/1.1 400",
        ),
        (&big, "HTTP/1.1 413"),
        (&headers, "HTTP/1.1 4"),
        ("\x16\x03\x01\x02\x00\x01\r\n\r\n", ""),
        ("", ""),
    ] {
        let mut stream = tokio::net::UnixStream::connect(folder.path().join("s.sock")).await.expect("connected");
        // The server may close before it has read all.
        let _closed = stream.write_all(bytes.as_bytes()).await;
        let _closed = stream.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
        let _reset = read.expect("the connection ends");
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with(expected), "{:?}: {text}", bytes.get(..40));
    }
    // Slow peers take places, and lose them.
    let mut slow = Vec::new();
    for _ in 0..40 {
        slow.push(tokio::net::UnixStream::connect(folder.path().join("s.sock")).await.expect("connected"));
    }
    assert_eq!(control.info().await.map(|info| info.database_count), Ok(1));
}
