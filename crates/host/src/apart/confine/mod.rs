//! What a program may reach that is started for a proof: its own folder, and the programs and libraries of the system.
//!
//! The owner of the source decides what runs in the server of a proof, and the server runs as our user. So the kernel closes
//! everything else to it before its first instruction: Landlock closes the files, a filter of system calls closes the network and
//! other processes (`calls`). Both hold for the thread that asks for them, and for every process that comes of it. So a thread
//! confines itself, starts the server, and ends. Neither needs a right or a namespace.
//!
//! The rooms: `calls` (which system calls are refused), `places` (which files can be read).

mod calls;
mod places;

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, Scope, path_beneath_rules,
};
use tokio::sync::oneshot;

/// The newest version of Landlock that this asks for. An older kernel gives what it has.
const NEWEST: ABI = ABI::V10;

/// Since this version a program can't send signals out of its walls.
const SIGNALS: u8 = 6;

/// What the system lets us do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offers {
    /// The version of Landlock; 0 is none.
    pub(super) landlock: u8,
    /// Whether system calls can be refused.
    pub(super) calls: bool,
    /// Whether a program can have a network, processes and shared memory of its own (namespaces).
    pub(super) namespaces: bool,
}

/// How well a server is kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walls {
    /// It reaches nothing else.
    Whole,
    /// It reaches no file, network or environment but its own. What else it reaches.
    Low(&'static str),
    /// It reaches files, the network, or what our environment holds. What is missing here.
    Open(&'static str),
}

/// How well a server is kept apart with what the system offers.
pub(super) fn judge(offers: Offers) -> Walls {
    match offers {
        Offers { landlock: 0, .. } => Walls::Open(
            "the kernel has no Landlock here (Linux 5.13 or later, with `landlock` in /sys/kernel/security/lsm), so that what is \
             restored could reach files of this user, and the network",
        ),
        Offers { calls: false, .. } => Walls::Open(
            "no system call can be refused here (seccomp), so that what is restored could reach the network",
        ),
        Offers { landlock: ..SIGNALS, namespaces: false, .. } => Walls::Low(
            "what is restored could end other processes of its user: the kernel is older than Linux 6.12, and `unshare` fails here",
        ),
        Offers { .. } => Walls::Whole,
    }
}

/// What a program may use beside the system's own programs and libraries.
#[derive(Debug)]
pub(super) struct Room {
    /// The folder that it may write to.
    pub(super) folder: PathBuf,
    /// The program.
    pub(super) program: PathBuf,
    /// Folders of libraries, as in `LD_LIBRARY_PATH`.
    pub(super) libraries: Option<String>,
}

/// Does something on a thread that reaches nothing but a room, if the system can do that and `room` is one; `work` is told what it could. What
/// `work` starts reaches nothing else either.
///
/// # Errors
/// No thread can be started.
pub(super) async fn on_confined_thread<T: Send + 'static>(
    room: Option<Room>,
    work: impl FnOnce(Offers) -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::Builder::new().name("seawall-apart".to_owned()).spawn(move || {
        let _entered = runtime.enter();
        let offers = room.as_ref().map(confine).unwrap_or_default();
        let _nobody_waits = done.send(work(offers));
    })?;
    result.await.map_err(|_| io::Error::other("the thread that starts the server panicked"))
}

/// Confines the calling thread as far as the system can.
fn confine(room: &Room) -> Offers {
    let landlock = files(room).unwrap_or_else(|error| {
        tracing::warn!("Landlock doesn't close the files to the server of the proof: {error}");
        0
    });
    let calls = calls::refuse(landlock).map_err(|error| {
        tracing::warn!("no system call is refused to the server of the proof: {error}");
    });
    Offers { landlock, calls: calls.is_ok(), namespaces: false }
}

/// Closes all files but those of a room to the calling thread. Returns the version of Landlock that does it; 0 is none.
fn files(room: &Room) -> Result<u8, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let mut others = places::beside(&room.program, room.libraries.as_deref());
    others.extend(places::of_this_system());
    let readable = places::READABLE.iter().map(Path::new).chain(others.iter().map(PathBuf::as_path));
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(places::DEVICES, device))?
        .add_rules(path_beneath_rules([&room.folder], AccessFs::from_all(NEWEST)))?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => u8::try_from(effective_abi as i32).unwrap_or(u8::MAX),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_offers_decides_how_well_a_server_is_kept_apart() {
        let offers = |landlock, calls, namespaces| Offers { landlock, calls, namespaces };
        for (offers, is_open, is_whole) in [
            (offers(0, true, true), true, false),
            (offers(0, false, false), true, false),
            (offers(7, false, true), true, false),
            (offers(1, true, false), false, false),
            (offers(5, true, false), false, false),
            (offers(1, true, true), false, true),
            (offers(6, true, false), false, true),
            (offers(9, true, true), false, true),
        ] {
            let walls = judge(offers);
            assert_eq!(matches!(walls, Walls::Open(_)), is_open, "{offers:?} {walls:?}");
            assert_eq!(walls == Walls::Whole, is_whole, "{offers:?} {walls:?}");
        }
    }

    #[tokio::test]
    async fn a_confined_thread_reaches_no_network_and_no_socket() {
        let place = tempfile::tempdir().expect("a folder");
        let (socket, listens) =
            (place.path().join("socket"), std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
        let _listens = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let at = listens.local_addr().expect("an address");
        let room = Room { folder: place.path().to_owned(), program: PathBuf::from("/bin/sh"), libraries: None };
        let work = move |offers: Offers| {
            let tried = [
                std::net::TcpStream::connect(at).map(drop),
                std::net::TcpListener::bind("127.0.0.1:0").map(drop),
                std::net::UdpSocket::bind("127.0.0.1:0").map(drop),
                std::os::unix::net::UnixStream::connect(&socket).map(drop),
                std::os::unix::net::UnixDatagram::unbound().and_then(|bound| bound.send_to(b"x", &socket).map(drop)),
                std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)),
            ];
            let own = std::os::unix::net::UnixListener::bind(socket.with_file_name("own")).map(drop);
            (offers, tried.map(|tried| tried.map_err(|error| error.raw_os_error())), own.is_ok())
        };
        let (offers, tried, own) = on_confined_thread(Some(room), work).await.expect("a thread");
        assert!(offers.landlock > 0 && offers.calls, "these tests need Linux with Landlock: {offers:?}");
        assert!(own && tried.iter().all(|tried| *tried == Err(Some(libc::EPERM))), "{tried:?}");
    }
}
