//! Reads what a person types, in a thread that waits for the terminal.

use std::io::{self, stdin};
use std::time::Duration;

use crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seawall_core::Failure;
use tokio::sync::mpsc::UnboundedSender;

use super::keys::input;
use crate::runtime;
use crate::ui::model::Input;

/// How long the thread waits at a time: the screen that ended is noticed then.
const WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long the parser of keys may look for more. It doesn't look at all without a time.
const LOOK: Duration = Duration::from_millis(1);

/// What the thread hands over.
#[derive(Debug)]
pub(in crate::ui) enum Typed {
    Input(Input),
    /// The terminal is gone.
    Gone,
}

/// Starts the thread.
pub(in crate::ui) fn read(to: UnboundedSender<Typed>) -> Result<(), Failure> {
    let thread = std::thread::Builder::new().name("input".into());
    let reading = move || {
        // A terminal that can't be read any more is gone, whatever the error.
        let _ended = read_until_gone(&to);
        let _sent = to.send(Typed::Gone);
    };
    thread.spawn(reading).map(drop).map_err(|error| runtime::no_runtime(&error))
}

fn read_until_gone(to: &UnboundedSender<Typed>) -> io::Result<()> {
    let stdin = stdin();
    while !to.is_closed() {
        let mut wanted = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut wanted, Some(&WAIT)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // A terminal that was hung up says that there is something to read, again and again.
        if wanted[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(());
        }
        while event::poll(LOOK)? {
            let Some(typed) = input(event::read()?) else { continue };
            if to.send(Typed::Input(typed)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
