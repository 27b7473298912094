//! The commands that ask a running process, side by side with Litestream's. Each program asks each program, and all
//! four answers are the same. Times, process ids, versions, folders and the numbers of transactions are normalised.

use seawall_tests::{App, Output, Process, Random, Stand, model, run, wait};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Litestream,
    Link,
}

use Program::{Link, Litestream};

impl Program {
    fn spawn(self, stand: &Stand, config: &str) -> Process {
        let line = ["replicate", "-config", config];
        match self {
            Litestream => Process::spawn("litestream", stand.litestream_command().args(line)),
            Link => Process::spawn("the link", stand.drop_in_command().args(line)),
        }
    }

    fn run(self, stand: &Stand, line: &[&str]) -> Output {
        match self {
            Litestream => run("litestream", stand.litestream_command().args(line)),
            Link => run("the link", stand.drop_in_command().args(line)),
        }
    }
}

/// A stand with the running process, and the conversation so far.
struct Talk {
    stand: Stand,
    asks: Program,
    said: String,
}

impl Talk {
    fn ask(&mut self, command: &str, rest: &[&str]) {
        let socket = self.stand.path("s.sock").display().to_string();
        let mut line = vec![command, "-socket", &socket];
        line.extend(rest);
        let output = self.asks.run(&self.stand, &line);
        let here = self.stand.path("").display().to_string();
        let text = format!("$ {}\n{}{}({})\n", line.join(" "), output.stdout, output.stderr, output.code());
        self.said.push_str(&plain(&text.replace(&here, "HERE/")));
    }
}

/// A text without the parts that differ from run to run.
fn plain(text: &str) -> String {
    let line = |line: &str| {
        let words: Vec<String> = line.split(' ').map(word).collect();
        let words = words.join(" ");
        let key = words.trim_start().trim_start_matches('"').split(['"', ':', ' ']).next().unwrap_or_default();
        let blanks = words.len() - words.trim_start().len();
        match key {
            "pid" | "PID" | "uptime_seconds" | "Uptime" | "duration_ms" | "version" => {
                format!("{}{key} …\n", " ".repeat(blanks))
            }
            "Litestream" => "Litestream …\n".to_owned(),
            _ => format!("{words}\n"),
        }
    };
    text.lines().map(line).collect()
}

fn word(word: &str) -> String {
    let inner = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_time = inner.len() >= 20 && inner.ends_with('Z') && inner.as_bytes()[10] == b'T';
    let number = inner.parse::<u64>().is_ok_and(|number| number > 0) && inner == word.trim_end_matches(',');
    match (is_time, number) {
        (true, _) => word.replace(inner, "TIME"),
        (_, true) => word.replace(inner, "N"),
        _ => word.to_owned(),
    }
}

/// The output of a client that makes every request to a running process.
fn talk(runs: Program, asks: Program) -> String {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let socket = stand.path("s.sock").display().to_string();
    let config = stand.litestream_yml(&format!("socket:\n  enabled: true\n  path: {socket}\n"));
    let mut process = runs.spawn(&stand, config.to_str().unwrap());
    let listed = |stand: &Stand| Litestream.run(stand, &["list", "-socket", &socket]);
    wait::until("everything to be in the replica", wait::SOON, || {
        let output = listed(&stand);
        (output.code() == 0 && !output.stdout.contains("never")).then_some(())
    });
    let (db, new) = (stand.db().display().to_string(), stand.path("new.db").display().to_string());
    let _second = App::start(stand.path("new.db").as_path(), stand.seed + 1);
    let replica = format!("file://{}", stand.path("new-replica").display());
    let mut talk = Talk { stand, asks, said: String::new() };
    for line in [&["info"][..], &["info", "-json"], &["list"], &["list", "-json", "-timeout", "20"]] {
        talk.ask(line[0], &line[1..]);
    }
    talk.ask("sync", &["-wait", &db]);
    let committed = app.commit(4);
    talk.ask("sync", &["-wait", "-json", "-timeout", "60", &db]);
    assert_eq!(model::check(&talk.stand.litestream_restore(&[]), talk.stand.seed), committed, "{runs:?} {asks:?}");
    talk.ask("sync", &[&db]);
    talk.ask("sync", &["-json", &db]);
    talk.ask("register", &["-replica", &replica, &new]);
    talk.ask("register", &["-replica", &replica, "-json", &new]);
    talk.ask("register", &["-replica", &replica, "-timeout", "9", &new]);
    talk.ask("sync", &["-wait", &new]);
    talk.ask("unregister", &["-dry-run", &new]);
    talk.ask("unregister", &["-dry-run", "-json", "-timeout", "90", &new]);
    talk.ask("unregister", &[&new]);
    talk.ask("unregister", &["-json", &new]);
    talk.ask("stop", &[&db]);
    talk.ask("stop", &["-json", &db]);
    talk.ask("list", &[]);
    talk.ask("sync", &["-wait", &db]);
    talk.ask("start", &[&db]);
    talk.ask("start", &["-json", &db]);
    for command in ["start", "stop", "sync"] {
        talk.ask(command, &["/nowhere.db"]);
        talk.ask(command, &[]);
        talk.ask(command, &[&db, "more"]);
    }
    talk.ask("register", &[]);
    talk.ask("register", &[&new]);
    talk.ask("unregister", &[]);
    talk.ask("info", &["more"]);
    talk.ask("list", &["more"]);
    talk.ask("info", &["-timeout", "0"]);
    talk.ask("sync", &["-timeout", "-1", &db]);
    talk.ask("unregister", &[&db]);
    talk.ask("list", &[]);
    talk.ask("list", &["-json"]);
    process.stop().ok();
    assert_eq!(model::check(&talk.stand.restore(), talk.stand.seed), committed);
    talk.said
}

#[test]
fn litestreams_clients_and_ours_say_the_same_of_either_process() {
    let theirs = talk(Litestream, Litestream);
    for (runs, asks) in [(Link, Link), (Link, Litestream), (Litestream, Link)] {
        let said = talk(runs, asks);
        let differing = theirs.lines().zip(said.lines()).find(|(theirs, ours)| theirs != ours);
        assert_eq!(differing, None, "{runs:?} answers {asks:?}:\n{said}");
        assert_eq!(said, theirs);
    }
}

#[test]
fn where_no_process_listens_litestream_and_the_link_say_so() {
    let stand = Stand::folder(Random::from_env().seed());
    for line in [
        &["info"][..],
        &["list", "-json"],
        &["sync", "/a.db"],
        &["start", "/a.db"],
        &["stop", "/a.db"],
        &["register", "-replica", "file:///r", "/a.db"],
        &["unregister", "/a.db"],
    ] {
        for program in [Litestream, Link] {
            let mut line = line.to_vec();
            line.splice(1..1, ["-socket", "none.sock"]);
            let output = program.run(&stand, &line).exits(1);
            assert!(output.stderr.starts_with("Error: failed to connect to control socket: "), "{output}");
            assert_eq!(output.stdout, "");
        }
    }
}

/// A registration is forgotten by Litestream with its process. Here it isn't.
#[test]
fn what_was_registered_under_litestreams_name_survives_a_restart() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let socket = stand.path("s.sock").display().to_string();
    // Nothing is configured: as with Litestream the process waits to be asked.
    std::fs::write(stand.path("empty.yml"), format!("socket:\n  enabled: true\n  path: {socket}\ndbs: []\n")).unwrap();
    let config = stand.path("empty.yml").display().to_string();
    let mut process = Link.spawn(&stand, &config);
    let list = |stand: &Stand| Link.run(stand, &["list", "-socket", &socket]);
    wait::until("the process to listen", wait::SOON, || (list(&stand).code() == 0).then_some(()));
    assert_eq!(list(&stand).stdout, "No databases configured\n");
    let db = stand.db().display().to_string();
    let replica = stand.place.url();
    let replica = if replica.contains("://") { replica } else { format!("file://{replica}") };
    Link.run(&stand, &["register", "-socket", &socket, "-replica", &replica, &db]).ok();
    let committed = app.commit(10);
    Link.run(&stand, &["sync", "-wait", "-socket", &socket, &db]).ok();
    assert_eq!(model::check(&stand.litestream_restore(&[]), stand.seed), committed);
    process.kill_9();
    let committed = app.commit(10);
    let mut process = Link.spawn(&stand, &config);
    wait::until("the process to know it", wait::SOON, || list(&stand).stdout.contains(&db).then_some(()));
    Link.run(&stand, &["sync", "-wait", "-socket", &socket, &db]).ok();
    assert_eq!(model::check(&stand.litestream_restore(&[]), stand.seed), committed);
    process.stop().ok();
}
