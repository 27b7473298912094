//! Programs whose error output is a terminal.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::process::{Output, Process};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program to its end, within two minutes. Its error output is all that the terminal was sent.
pub fn run(name: &str, command: &mut Command) -> Output {
    let (screen, end) = open();
    let err = tempfile::tempfile().unwrap();
    let shown = err.try_clone().unwrap();
    let process = Process::spawn_with(name, command.env("TERM", "xterm"), err, end.into());
    to_its_end(process, screen, shown)
}

/// The same, for a program that reads from the terminal what a person typed.
pub fn type_to(name: &str, command: &mut Command, typed: &str) -> Output {
    let (screen, end) = open();
    let err = tempfile::tempfile().unwrap();
    let shown = err.try_clone().unwrap();
    let input = end.try_clone().unwrap().into();
    let process = Process::spawn_reading(name, command.env("TERM", "xterm"), input, err, end.into());
    // The terminal keeps what is typed before it is read.
    rustix::io::write(&screen, typed.as_bytes()).unwrap();
    to_its_end(process, screen, shown)
}

fn to_its_end(mut process: Process, screen: OwnedFd, shown: File) -> Output {
    let copying = std::thread::spawn(move || copy(&screen, shown));
    let mut output = process.wait(LIMIT);
    copying.join().unwrap();
    output.stderr = process.stderr();
    output
}

/// Runs a program on a terminal that is gone: whatever it writes there fails.
pub fn run_on_a_closed_one(name: &str, command: &mut Command) -> Output {
    let (screen, end) = open();
    drop(screen);
    let err = tempfile::tempfile().unwrap();
    Process::spawn_with(name, command.env("TERM", "xterm"), err, end.into()).wait(LIMIT)
}

/// Both ends: one to read from, and one for the program.
pub(crate) fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let screen = openpt(flags).unwrap();
    unlockpt(&screen).unwrap();
    let end = ioctl_tiocgptpeer(&screen, flags).unwrap();
    (screen, end)
}

/// Copies until no process has the other end open, which Linux reports as an error.
fn copy(screen: &OwnedFd, mut to: File) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = rustix::io::read(screen, &mut buffer) {
        to.write_all(&buffer[..read]).unwrap();
    }
}
