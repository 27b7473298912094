//! Systems other than Linux: a server can't be kept apart there.

use std::io;
use std::path::PathBuf;

/// What the system lets us do: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offers {
    /// Whether a program can have processes of its own.
    pub(super) namespaces: bool,
}

/// How well a server is kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(dead_code, reason = "only Linux builds walls")]
pub(super) enum Walls {
    /// It reaches nothing else.
    Whole,
    /// What else it reaches.
    Low(&'static str),
    /// What is missing here.
    Open(&'static str),
}

/// How well a server is kept apart.
pub(super) fn judge(_offers: Offers) -> Walls {
    Walls::Open(
        "only Linux keeps a server apart, so that what is restored could reach files of this user, and the network",
    )
}

/// What a program may use.
#[derive(Debug)]
#[expect(dead_code, reason = "only Linux builds walls")]
pub(super) struct Room {
    /// The folder that it may write to.
    pub(super) folder: PathBuf,
    /// The program.
    pub(super) program: PathBuf,
    /// Folders of libraries, as in `LD_LIBRARY_PATH`.
    pub(super) libraries: Option<String>,
}

/// Does something, on no thread of its own.
///
/// # Errors
/// None.
pub(super) async fn on_confined_thread<T: Send + 'static>(
    _room: Option<Room>,
    work: impl FnOnce(Offers) -> T + Send + 'static,
) -> io::Result<T> {
    Ok(work(Offers::default()))
}
