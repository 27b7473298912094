//! The terminal: taken when the screens begin, and given back however they end.
//!
//! - `keys`: what a terminal sends becomes a key;
//! - `input`: a thread that reads it;
//! - `backend`: what frames are written to.
//!
//! It is given back on the normal end, after an error, in a panic, before a stop by a signal, and before the process is suspended. A
//! terminal that takes no more output can't keep the process: `insist` ends it.

mod backend;
mod input;
mod keys;

use std::io::{self, IsTerminal as _, stderr, stdout};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, kill_current_process_group};
use seawall_core::{Failure, Kind};

use self::backend::Quiet;
pub(super) use self::input::{Typed, read};
use crate::edge::{Edge, usage};
use crate::exit::Exit;

/// Whether the terminal is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Standard error, while it goes nowhere because it is the terminal that shows the screens: programs that run before and after a restore
/// write there.
static ASIDE: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// How long the terminal may take to accept the last output, after a signal.
const LAST: Duration = Duration::from_secs(5);

/// A terminal that shows the screens.
pub(super) struct Screen {
    terminal: Terminal<Quiet>,
}

/// Refuses what can't show screens.
pub(super) fn check(edge: &Edge) -> Result<(), Failure> {
    let cause = match (edge.has_screen, edge.environment.get("TERM")) {
        (false, _) => "standard input and standard output are no terminal",
        (true, None) => "the variable TERM isn't set, so the terminal may know no screens",
        (true, Some("dumb" | "")) => "the terminal is a dumb one (TERM=dumb): it can't move its cursor",
        (true, Some(_)) => return Ok(()),
    };
    let next = "use `seawall status`, or `seawall fleet PREFIX` for a vault; both print text";
    Err(usage("command.no-terminal", "terminal", cause, next))
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> Result<Self, Failure> {
        let give_back_in_panic = std::panic::take_hook();
        let main = std::thread::current().id();
        std::panic::set_hook(Box::new(move |panic| {
            // Work that panics becomes a failure on the screen. A message here would go into the middle of it.
            if std::thread::current().id() == main {
                give_back();
                give_back_in_panic(panic);
            }
        }));
        let terminal = enter().and_then(|()| Terminal::new(Quiet::new()));
        terminal.map(|terminal| Self { terminal }).map_err(|error| {
            give_back();
            refused(&error)
        })
    }

    /// Draws.
    pub(super) fn draw(&mut self, frame: impl FnOnce(&mut ratatui::Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(frame).map(drop).map_err(|error| refused(&error))
    }

    /// Forgets what the terminal shows, so that all of it is drawn again.
    pub(super) fn forget(&mut self) -> Result<(), Failure> {
        self.terminal.clear().map_err(|error| refused(&error))
    }

    /// Gives the terminal back, stops the process until a shell continues it, and takes the terminal again.
    pub(super) fn suspend(&mut self) -> Result<(), Failure> {
        give_back();
        // A signal that can't be caught: the process stops here, and goes on from here. A script around it stops too, so that the shell
        // gets the terminal.
        kill_current_process_group(Signal::STOP).map_err(|error| refused(&error.into()))?;
        enter().map_err(|error| refused(&error))?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    if stderr().is_terminal() {
        let nowhere = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        let own = rustix::io::fcntl_dupfd_cloexec(stderr(), 3)?;
        rustix::stdio::dup2_stderr(nowhere)?;
        *ASIDE.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    }
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)
}

/// Gives the terminal back, once. What can't be written any more is lost with the terminal.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // The mode comes first: it holds also where the terminal takes no output.
        drop(disable_raw_mode());
        drop(execute!(stdout(), Show, DisableBracketedPaste, LeaveAlternateScreen));
        if let Some(own) = ASIDE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = rustix::stdio::dup2_stderr(own);
        }
    }
}

/// Ends the process: a signal asked for it [`LAST`] ago, and a terminal whose output is stopped still keeps the screens.
pub(super) async fn insist() {
    tokio::time::sleep(LAST).await;
    // What the terminal shows can't be changed any more, but its mode can.
    drop(disable_raw_mode());
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

fn refused(error: &io::Error) -> Failure {
    let (cause, next) = (format!("the terminal can't be used: {error}"), "use `seawall status`, which prints text");
    Failure::new(Kind::Unavailable, "command.terminal", "terminal", cause, next)
}
