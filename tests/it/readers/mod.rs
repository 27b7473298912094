//! The extension in applications of other languages, which follow a vault and go back in time.
//!
//! An application prints the number of commits that it sees and answers lines; the files beside this one say how.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use seawall_tests::{Random, Stand, extension, node, peer};

/// An application that answers lines.
struct Reader {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Reader {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take().unwrap(), lines, child }
    }

    fn next(&mut self) -> String {
        self.lines.next().expect("the application answers").unwrap()
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.next()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a vault with an application while another one commits.
fn reads(mut command: Command) {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut process = stand.replicate();
    app.commit(10);
    let first = format!("{:016x}", stand.until_protected(&mut process));
    let uri = format!("file:app.db?vfs=seawall&vault={}&poll_interval=100ms", stand.place.url());
    let mut reader = Reader::start(command.arg(extension()).arg(uri));
    let then = reader.next();
    assert_eq!(then, app.committed().to_string());
    for _ in 0..5 {
        app.commit(5);
        stand.until_protected(&mut process);
        let wanted = app.committed().to_string();
        assert_eq!(reader.ask(&wanted), wanted);
    }
    assert_eq!(reader.ask(&format!("at {first}")), format!("{then} {first}"));
    assert_eq!(reader.ask("latest"), app.committed().to_string());
    process.stop().ok();
}

#[test]
fn an_application_in_node_reads_a_vault() {
    let mut command = Command::new(node());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/readers/node.mjs");
    command.arg("--disable-warning=ExperimentalWarning").arg(script);
    reads(command);
}

#[test]
fn an_application_in_go_reads_a_vault() {
    reads(Command::new(peer("seawall-reader")));
}
