//! `seawall ui` on a terminal: a real process, a real database, and a person who types.

use std::net::TcpListener;

use rustix::process::Signal;
use seawall_tests::{App, Process, Random, Screen, Stand, digest, model, wait};

const SIZE: (u16, u16) = (80, 24);

fn listening(stand: &Stand) -> Process {
    let process = stand.replicate_with(&["--socket", "s.sock"]);
    wait::until("the process to listen", wait::SOON, || {
        (stand.seawall(&["info", "--socket", "s.sock"]).code() == 0).then_some(())
    });
    process
}

fn ui(stand: &Stand, args: &[&str]) -> Screen {
    let mut command = stand.command();
    command.arg("ui").args(args);
    Screen::start(&command, SIZE)
}

/// A stand whose database is protected by a process that listens on `s.sock`.
fn protected() -> (Stand, App, Process) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut seawall = listening(&stand);
    stand.until_protected(&mut seawall);
    (stand, app, seawall)
}

#[test]
fn a_live_change_arrives_and_the_terminal_is_given_back() {
    let (stand, mut app, mut seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    let list = screen.until("protecting");
    assert!(list.contains("app.db") && list.contains("1 database, all well"), "{list}");
    screen.press("\r");
    screen.until("newest point");
    app.commit(10);
    stand.seawall(&["sync", "app.db", "--wait", "--socket", "s.sock"]).ok();
    screen.until(&format!("{:016x}", stand.place.newest()));
    screen.press("q");
    screen.until("q quit");
    screen.resize((120, 40));
    screen.until("waiting");
    screen.press("q");
    screen.ends().ok();
    assert!(seawall.running(), "what protects goes on");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let (stand, _app, _seawall) = protected();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut screen = ui(&stand, &["--socket", "s.sock"]);
        screen.until("protecting");
        screen.signal(signal);
        screen.ends().exits(130);
    }
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn a_suspended_one_goes_on_where_it_was() {
    let (stand, _app, _seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    for by_key in [true, false] {
        screen.until("protecting");
        if by_key {
            screen.press("\x1a")
        } else {
            screen.signal(Signal::TSTP)
        }
        wait::until("it to stop", wait::SOON, || (screen.is_stopped() && screen.is_given_back()).then_some(()));
        screen.signal(Signal::CONT);
    }
    screen.until("protecting");
    screen.press("?");
    screen.until("Ctrl-Z");
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn a_process_that_is_gone_is_said_and_found_again() {
    let (stand, _app, mut seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    seawall.kill_9();
    let lost = screen.until("no answer for");
    assert!(lost.contains("app.db"), "what was known stays: {lost}");
    screen.press("?");
    screen.until("what happened in this session");
    let _seawall = listening(&stand);
    screen.until_it("the process again", |shown| !shown.contains("no answer for"));
    screen.press("l");
    screen.until("answers again");
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn a_process_that_is_stopped_keeps_nothing_waiting() {
    let (stand, _app, seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    rustix::process::kill_process(seawall.pid(), Signal::STOP).unwrap();
    screen.press("t");
    screen.until("asking the vault of app.db");
    screen.press("q?");
    screen.until("Ctrl-Z");
    screen.press("q");
    screen.until("no answer for");
    screen.press("q");
    screen.ends().ok();
    rustix::process::kill_process(seawall.pid(), Signal::CONT).unwrap();
}

#[test]
fn a_database_is_restored_beside_the_original() {
    let (stand, mut app, mut seawall) = protected();
    let (then, before) = (stand.place.newest(), digest::of(&stand.db()));
    app.commit(10);
    stand.until_protected(&mut seawall);
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    for (at, committed, state, file) in
        [("", 20, digest::of(&stand.db()), "app-restored.db"), (&*format!("{then:016x}"), 10, before, "old.db")]
    {
        screen.press("r");
        screen.until("moment");
        if !at.is_empty() {
            screen.press(&format!("\x15{at}\t{file}"));
        }
        screen.press("\r");
        let preview = screen.until("Type app.db and press Enter");
        assert!(preview.contains("seawall restore") && preview.contains("reads"), "{preview}");
        assert!(!stand.path(file).exists(), "a preview writes nothing");
        screen.press("app\r");
        screen.press(".db\r");
        screen.until("Enter back");
        assert_eq!(model::check(&stand.path(file), stand.seed), committed);
        assert_eq!(digest::of(&stand.path(file)), state);
        screen.press("\r");
        screen.until("q quit");
    }
    // The file is there now, so the next restore is refused.
    screen.press("r\r");
    screen.until("Type app.db and press Enter");
    screen.press("app.db\r");
    let refused = screen.until("next:");
    assert!(refused.contains("app-restored.db"), "{refused}");
    screen.press("\rl");
    screen.until("asked for: restore of app.db");
    screen.press("\x03");
    screen.ends().ok();
}

/// A window that is dragged to nothing and back, in the middle of a dialog.
#[test]
fn any_window_keeps_a_dialog_and_gives_the_terminal_back() {
    let (stand, _app, _seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    screen.press("r");
    screen.until("moment");
    for size in [(1, 1), (0, 0), (2, 300), (300, 2), (7, 3), (200, 60)] {
        screen.resize(size);
        screen.press("\tx");
    }
    screen.resize(SIZE);
    screen.until_it("the form", |shown| {
        ["moment", "latestxxx_", "into", "Enter preview"].iter().all(|text| shown.contains(text))
    });
    screen.press("\x15latest\t\x15\r");
    screen.until("Type app.db and press Enter");
    screen.resize((1, 1));
    screen.press("app");
    screen.resize(SIZE);
    screen.until_it("the preview", |shown| shown.contains("seawall restore") && shown.contains("app_"));
    screen.press(".db\r");
    screen.until("restored to");
    assert_eq!(model::check(&stand.path("app-restored.db"), stand.seed), 10);
    screen.resize((1, 1));
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn a_point_of_the_timeline_is_restored() {
    let (stand, mut app, mut seawall) = protected();
    app.commit(10);
    stand.until_protected(&mut seawall);
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    screen.press("t");
    screen.until(&format!("{:016x}", stand.place.newest()));
    screen.press("\r");
    screen.until(&format!("{:016x}_", stand.place.newest()));
    screen.press("\r");
    screen.until("Type app.db and press Enter");
    screen.press("app.db\r");
    screen.until("restored to");
    assert_eq!(model::check(&stand.path("app-restored.db"), stand.seed), 20);
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn what_is_committed_is_shipped_and_proved_when_asked() {
    let (stand, mut app, _seawall) = protected();
    let committed = app.commit(10);
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    screen.press("b");
    screen.until("seawall sync");
    screen.press("app.db\r");
    screen.until("everything committed is in the vault");
    assert_eq!(model::check(&stand.restore(), stand.seed), committed);
    screen.press("\r");
    screen.until("q quit");
    screen.press("p");
    let preview = screen.until("Type app.db and press Enter");
    assert!(preview.contains("seawall verify --restore"), "{preview}");
    screen.press("app.db\r");
    screen.until("recorded as");
    screen.press("\x03");
    screen.ends().ok();
    let timeline = stand.seawall(&["timeline", &stand.place.url(), "--json"]).ok().json();
    assert_eq!(timeline["proofs"][0]["level"], "engine", "{timeline}");
    assert_eq!(timeline["proofs"][0]["faults"], serde_json::json!([]), "{timeline}");
}

#[test]
fn a_vault_is_looked_at_without_a_process() {
    let (stand, mut app, mut seawall) = protected();
    app.commit(10);
    seawall.stop().ok();
    let state = digest::of(&stand.db());
    let folder = stand.path("vault");
    let mut screen = ui(&stand, &[folder.to_str().unwrap()]);
    let list = screen.until("(the prefix itself)");
    assert!(list.contains("sqlite"), "{list}");
    screen.press("t");
    screen.until(&format!("{:016x}", stand.place.newest()));
    screen.press("q");
    screen.until("q quit");
    screen.press("r");
    screen.until("moment");
    screen.press("\tback.db\r");
    screen.until("and press Enter");
    screen.press("(the prefix itself)\r");
    screen.until("restored to");
    assert_eq!(model::check(&stand.path("back.db"), stand.seed), 20);
    assert_eq!(digest::of(&stand.path("back.db")), state);
    screen.press("\x03");
    screen.ends().ok();
}

#[test]
fn a_vault_that_never_answers_keeps_nothing_waiting() {
    let stand = Stand::folder(Random::from_env().seed());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("s3://bucket/x?endpoint=http://{}&region=us-east-1", silent.local_addr().unwrap());
    let mut command = stand.command();
    command.args(["ui", &url]).env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let mut screen = Screen::start(&command, SIZE);
    screen.until("asking s3://bucket/x");
    screen.press("?");
    screen.until("Ctrl-Z");
    screen.press("q");
    screen.until("asking s3://bucket/x");
    screen.press("q");
    screen.ends().ok();
}

#[test]
fn without_colours_there_are_none() {
    let (stand, _app, _seawall) = protected();
    let is_colour = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let codes = text.split("\x1b[").filter_map(|part| part.split_once('m')).map(|(codes, _)| codes.to_owned());
        let mut all = codes.flat_map(|codes| codes.split(';').map(str::to_owned).collect::<Vec<_>>());
        all.any(|code| code.parse().is_ok_and(|code: u32| (30..=38).contains(&code) || (90..=97).contains(&code)))
    };
    for (no_color, expected) in [("1", false), ("", true)] {
        let mut command = stand.command();
        command.args(["ui", "--socket", "s.sock"]).env("NO_COLOR", no_color);
        let mut screen = Screen::start(&command, SIZE);
        screen.until("protecting");
        screen.press("\x03");
        screen.ends().ok();
        assert_eq!(is_colour(&screen.bytes()), expected);
    }
}

#[test]
fn without_a_terminal_the_next_step_is_said() {
    let stand = Stand::folder(Random::from_env().seed());
    let refused = stand.seawall(&["ui"]).exits(2);
    assert!(refused.stderr.contains("command.no-terminal") && refused.stderr.contains("seawall status"), "{refused}");
    stand.seawall(&["ui", "--json"]).exits(2);
    let mut command = stand.command();
    command.arg("ui").env("TERM", "dumb");
    let mut screen = Screen::start(&command, SIZE);
    screen.ends().exits(2);
    // The last output may be read after the end.
    wait::until("the next step on the screen", wait::SOON, || {
        let shown = screen.text();
        (shown.contains("command.no-terminal") && shown.contains("seawall status")).then_some(())
    });
}

#[test]
fn a_terminal_that_takes_no_output_keeps_nothing() {
    let (stand, _app, _seawall) = protected();
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    screen.until("protecting");
    screen.stop_reading();
    // More than the terminal keeps: the program waits for it to be read.
    for _ in 0..200 {
        screen.press("\x0c");
    }
    wait::pass(std::time::Duration::from_secs(1));
    screen.signal(Signal::TERM);
    assert_eq!(screen.ends_somehow().code(), 130);
}

#[test]
fn a_process_that_never_was_is_said() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut screen = ui(&stand, &["--socket", "s.sock"]);
    let shown = screen.until("no answer for");
    assert!(shown.contains("next:"), "{shown}");
    let _app = stand.app();
    let _seawall = listening(&stand);
    screen.until("app.db");
    screen.press("q");
    screen.ends().ok();
}
