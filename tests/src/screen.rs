//! A program that takes a whole terminal, and the person before it.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::process::{Output, Process};
use crate::{terminal, wait};

/// What the terminal was sent.
#[derive(Default)]
struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

/// A terminal with a program on it.
pub struct Screen {
    process: Process,
    /// Our end, and the program's, which is kept open so that its settings can be read when the program has ended.
    screen: Arc<OwnedFd>,
    end: OwnedFd,
    before: Termios,
    shown: Arc<Mutex<Shown>>,
    is_over: Arc<AtomicBool>,
}

impl Screen {
    /// Starts a program on a terminal of a size, of which it is the only session.
    pub fn start(program: &Command, (columns, rows): (u16, u16)) -> Self {
        let (screen, end) = terminal::open();
        resize_to(&screen, (columns, rows));
        let before = tcgetattr(&end).unwrap();
        // The program gets the terminal as its own, so that the terminal's signals reach it.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        if program.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let file = || tempfile::tempfile().unwrap();
        let own = || end.try_clone().unwrap().into();
        let process = Process::spawn_between("screen", &mut command, (own(), own(), own()), (file(), file()));
        let (screen, shown, is_over) = (Arc::new(screen), Arc::<Mutex<Shown>>::default(), Arc::<AtomicBool>::default());
        shown.lock().unwrap().parser = vt100::Parser::new(nonzero(rows), nonzero(columns), 0);
        std::thread::spawn({
            let (screen, shown, is_over) = (Arc::clone(&screen), Arc::clone(&shown), Arc::clone(&is_over));
            move || copy(&screen, &shown, &is_over)
        });
        Self { process, screen, end, before, shown, is_over }
    }

    /// Types.
    pub fn press(&self, keys: &str) {
        rustix::io::write(&*self.screen, keys.as_bytes()).unwrap();
    }

    /// What the terminal shows.
    pub fn text(&self) -> String {
        self.shown().parser.screen().contents()
    }

    /// Everything that the terminal was sent.
    pub fn bytes(&self) -> Vec<u8> {
        self.shown().bytes.clone()
    }

    /// Waits until the terminal shows a text, which may be on several lines, and returns all that it shows then.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        let in_one_line = |shown: &str| shown.split_whitespace().collect::<Vec<_>>().join(" ");
        self.until_it(text, |shown| in_one_line(shown).contains(text))
    }

    /// The same, for any condition.
    #[track_caller]
    pub fn until_it(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = std::time::Instant::now();
        loop {
            let shown = self.text();
            if is_so(&shown) {
                return shown;
            }
            assert!(self.process.running(), "it ended before it showed {what}:\n{shown}");
            assert!(start.elapsed() < wait::SOON * 2, "waited in vain for {what}:\n{shown}");
            wait::pass(Duration::from_millis(10));
        }
    }

    /// Gives the terminal another size.
    pub fn resize(&self, (columns, rows): (u16, u16)) {
        self.shown().parser.screen_mut().set_size(nonzero(rows), nonzero(columns));
        resize_to(&self.screen, (columns, rows));
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process.pid(), signal).unwrap();
    }

    /// Whether the program is stopped by a signal.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    /// Whether the terminal is as it was before the program came: its settings, its cursor, and no second screen.
    pub fn is_given_back(&self) -> bool {
        let now = tcgetattr(&self.end).unwrap();
        let shown = self.shown();
        let screen = shown.parser.screen();
        let has_modes = (now.input_modes, now.output_modes, now.local_modes)
            == (self.before.input_modes, self.before.output_modes, self.before.local_modes);
        has_modes && !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste()
    }

    /// Reads no more of what the program writes.
    pub fn stop_reading(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits for the program's end, whatever the terminal shows then.
    pub fn ends_somehow(&mut self) -> Output {
        self.process.wait(wait::SOON)
    }

    /// Waits for the program's end, after which the terminal is as it was.
    #[track_caller]
    pub fn ends(&mut self) -> Output {
        let output = self.process.wait(wait::SOON);
        wait::until("the terminal to be given back", wait::SOON, || self.is_given_back().then_some(()));
        output
    }

    fn shown(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            eprintln!("---- the terminal\n{}", self.text());
        }
    }
}

fn resize_to(screen: &OwnedFd, (columns, rows): (u16, u16)) {
    tcsetwinsize(screen, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// Takes what the program writes, until the test is over.
fn copy(screen: &OwnedFd, shown: &Mutex<Shown>, is_over: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !is_over.load(Ordering::Relaxed) {
        let mut wanted = [PollFd::new(screen, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if !matches!(poll(&mut wanted, Some(&patience)), Ok(1..)) {
            continue;
        }
        let Ok(read @ 1..) = rustix::io::read(screen, &mut buffer) else { return };
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.parser.process(&buffer[..read]);
        shown.bytes.extend_from_slice(&buffer[..read]);
    }
}

/// A terminal that says that it has no size shows one character here.
fn nonzero(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN)
}
