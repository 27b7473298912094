//! A data file that another program cuts while it is mapped.
//!
//! `cp` over the file, and `truncate`, cut it first. A read of a missing page through the map raises SIGBUS, which ends
//! the process. Each transaction looks at the file's length before it begins, but the file may be cut in the middle.
//!
//! Then the process can't go on. liblmdb takes lengths and places from the pages that it reads; on a page of zeros it
//! would read far behind the page, and a write transaction would write what it found there to the application's file.
//! So the process ends by itself, with a line that says which file was cut, and a supervisor starts it again. A SIGBUS
//! of any other origin goes to the handler that was there before.

use std::cell::Cell;
use std::ffi::c_int;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
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

/// Whether the first bytes of a data file and its length say that no page is missing.
pub(super) fn is_whole(data: &Path, bytes: u64) -> bool {
    let mut head = [0; 2 * META];
    let Ok(file) = File::open(data) else { return false };
    let Some((first, second)) = head.split_at_mut_checked(META) else { return false };
    if file.read_exact_at(first, 0).is_err() {
        return false;
    }
    let Some(one) = Meta::parse(first) else { return false };
    if file.read_exact_at(second, one.page).is_err() {
        return false;
    }
    let Some(two) = Meta::parse(second) else { return false };
    let newest = if two.transaction > one.transaction { two } else { one };
    newest.last.checked_add(1).and_then(|pages| pages.checked_mul(newest.page)).is_some_and(|used| used <= bytes)
}

/// Bytes of a meta page that are looked at: the page's head, then the meta data.
const META: usize = 152;

/// What a meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    /// Bytes of a page.
    page: u64,
    /// The last page that is in use.
    last: u64,
    transaction: u64,
}

impl Meta {
    /// Parses the meta page of a 64-bit process in this machine's order of bytes.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
        if (word(16)?, word(20)?) != (0xBEEF_C0DE, 1) {
            return None;
        }
        Some(Self { page: word(40)?.into(), last: long(136)?, transaction: long(144)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Env, EnvOptions};
    use crate::flags::Flags;

    #[test]
    fn a_file_without_its_last_page_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::open(folder.path(), &EnvOptions { create: true, ..EnvOptions::default() }).unwrap();
        let mut txn = env.write().unwrap();
        let dbi = txn.create(b"d", Flags::default()).unwrap();
        txn.put(dbi, b"k", &[7; 20_000]).unwrap();
        txn.commit().unwrap();
        let (data, used) = (folder.path().join("data.mdb"), env.info().unwrap().used);
        assert!(is_whole(&data, used));
        assert!(!is_whole(&data, used - 1));
        let empty = folder.path().join("empty");
        std::fs::write(&empty, [0; 8192]).unwrap();
        assert!(!is_whole(&empty, 8192));
        assert!(!is_whole(&folder.path().join("none"), 8192));
    }
}
