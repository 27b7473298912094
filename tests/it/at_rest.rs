//! A process with many idle databases does nothing, and holds few resources (I6).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::Command;
use std::time::Duration;

use seawall_tests::{App, Process, Random, Stand, listen_to, wait};

const DATABASES: usize = 60;

/// Files of the process itself: the runtime, events, its output.
const BESIDES: usize = 32;

/// How often each thread was put on a processor.
fn switches(pid: i32) -> BTreeMap<String, String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .filter_map(|thread| {
            let thread = thread.unwrap().path();
            // It may have ended since.
            let status = fs::read_to_string(thread.join("status")).ok()?;
            let lines: Vec<_> = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
            Some((thread.display().to_string(), lines.join(" ")))
        })
        .collect()
}

#[test]
fn many_databases_at_rest() {
    let stand = Stand::folder(Random::from_env().seed());
    fs::create_dir(stand.path("data")).unwrap();
    let name = |nth: usize| format!("{nth:02}.db");
    let mut apps: Vec<App> = (0..DATABASES).map(|nth| App::start(&stand.path("data").join(name(nth)), 1)).collect();
    let mut command: Command = stand.command();
    command.args(["replicate", "data", "vault", "--web=127.0.0.1:0"]);
    let mut seawall = Process::spawn("seawall", &mut command);
    let first = |nth: usize| stand.path("vault").join(name(nth)).join("ltx/0/0000000000000002-0000000000000002.ltx");
    wait::until("a first copy of each", wait::SOON, || (0..DATABASES).all(|nth| first(nth).exists()).then_some(()));

    // A browser that was here and went leaves no timer.
    let log = seawall.stderr();
    let port: String = log.split("127.0.0.1:").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let mut events = listen_to(&format!("127.0.0.1:{port}"), "/live?screen=fleet");
    wait::until("an event", wait::SOON, || {
        let mut part = [0; 4096];
        let length = events.read(&mut part).unwrap();
        String::from_utf8_lossy(&part[..length]).contains("data: ").then_some(())
    });
    drop(events);

    // Between two looks a second apart no thread ran; the sweep is a minute away.
    let pid = seawall.pid().as_raw_nonzero().get();
    let mut before = switches(pid);
    wait::until("the process to rest", Duration::from_secs(60), || {
        wait::pass(Duration::from_secs(1));
        let now = switches(pid);
        let rests = now == before;
        before = now;
        rests.then_some(())
    });
    assert!(before.len() <= 12, "{} threads", before.len());
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(files <= 2 * DATABASES + BESIDES, "{files} open files");

    // It was at rest, not asleep.
    let last = apps.last_mut().unwrap();
    last.commit(1);
    let next = stand.path("vault").join(name(DATABASES - 1)).join("ltx/0/0000000000000003-0000000000000003.ltx");
    wait::until("the next commit", wait::SOON, || next.exists().then_some(()));
    seawall.stop().ok();
}
