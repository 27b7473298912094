//! A data file that another program cuts while it is mapped.
//!
//! `cp` over the file, and `truncate`, cut it first. A read of a missing page through the map raises SIGBUS, which ends
//! the process. The opening and each transaction look at the file's length before they read, but the file may be cut in
//! the middle.
//!
//! Then the process can't go on. liblmdb takes lengths and places from the pages that it reads; on a page of zeros it
//! would read far behind the page, and a write transaction would write what it found there to the application's file.
//! So the process ends by itself, with a line that says which file was cut, and a supervisor starts it again. The next
//! process doesn't open the file before it is whole, so that it reads no missing page either. A SIGBUS of any other
//! origin goes to the handler that was there before.

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The exit code: that of a shell for a program that SIGBUS ended.
const ENDED: c_int = 128 + libc::SIGBUS;

/// The line of a process that ends.
pub(super) type Words = str;

thread_local! {
    /// The line for the environment that this thread reads now. It has no destructor, so that a handler may read it.
    static NOW: Cell<Option<&'static Words>> = const { Cell::new(None) };
}

/// The action for SIGBUS that was there before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Lines that were made; each path has one for the life of the process.
static LINES: Mutex<Vec<&'static Words>> = Mutex::new(Vec::new());

/// The line for an environment. Installs the handler with the first one.
pub(super) fn words(path: &Path) -> &'static Words {
    install();
    let text = format!(
        "seawall: {}: lmdb.cut: another program cut the data file while it was read; this process can't go on and ends. \
         Start it again once the file is whole\n",
        path.display()
    );
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = lines.iter().find(|line| **line == text) {
        return line;
    }
    let line: &'static Words = Box::leak(text.into_boxed_str());
    lines.push(line);
    line
}

/// While it lives, this thread reads the map of an environment.
pub(super) struct Inside {
    outer: Option<&'static Words>,
}

impl Inside {
    pub(super) fn new(words: &'static Words) -> Self {
        Self { outer: NOW.replace(Some(words)) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        NOW.set(self.outer);
    }
}

fn install() {
    BEFORE.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: plain numbers, for which zeros are values.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks for the present action; `before` is a place for it.
        unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) };
        // SAFETY: zeros are a value of it, and the call may have filled it.
        let before = unsafe { before.assume_init() };
        ours.sa_sigaction = handle as *const () as usize;
        // On the alternative stack, as the handler of the standard library.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the form that SA_SIGINFO wants, and calls only functions that a handler may call. If a
        // signal comes before `BEFORE` is set, it gets the default action.
        unsafe { libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) };
        before
    });
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if let Ok(Some(words)) = NOW.try_with(Cell::get) {
        // SAFETY: the text lives for ever; both functions may be called in a handler.
        unsafe {
            libc::write(2, words.as_ptr().cast(), words.len());
            libc::_exit(ENDED);
        }
    }
    match BEFORE.get() {
        Some(before) if !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) => {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the system told us that this is a handler with three arguments.
                let before: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(before.sa_sigaction) };
                before(signal, info, context);
            } else {
                // SAFETY: the system told us that this is a handler with one argument.
                let before: extern "C" fn(c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
                before(signal);
            }
        }
        // The access is repeated after this, and ends the process.
        // SAFETY: may be called in a handler.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}
