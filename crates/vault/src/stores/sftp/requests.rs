//! The requests of SFTP, one function each, and what a refusal means.

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::link::Lease;
use super::session::{Gone, Session};
use super::wire::{Answer, Attributes, Kind, Named, Request, Status, is_full, open, status};
use crate::Error;

/// Why a request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// There is no answer.
    Gone(Gone),
    /// The server refused.
    Refused(Status),
    /// The answer is one to another question.
    Odd,
    /// The server wasn't reached.
    Away(Error),
}

impl From<Gone> for Failed {
    fn from(gone: Gone) -> Self {
        Self::Gone(gone)
    }
}

impl Failed {
    /// The code of a refusal.
    pub(super) fn code(&self) -> Option<u32> {
        match self {
            Self::Refused(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether there is no file, or no folder that leads to it.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.code(), Some(status::NO_SUCH_FILE | status::NO_SUCH_PATH))
    }

    /// Whether the server gave no reason. OpenSSH says no more when a name is taken, or a disk is full.
    pub(super) fn is_unexplained(&self) -> bool {
        self.code() == Some(status::FAILURE)
    }

    /// The decision for a caller.
    pub(super) fn about(self, object: &str) -> Error {
        let object = object.to_owned();
        let status = match self {
            Self::Gone(Gone::Lost(cause)) => return Error::Unavailable { object, cause, retryable: true },
            Self::Gone(Gone::Silent(after)) => return Error::Timeout { object, after },
            Self::Odd => {
                let cause = "the server answers another question".to_owned();
                return Error::Unavailable { object, cause, retryable: false };
            }
            Self::Away(error) => return error,
            Self::Refused(status) => status,
        };
        let cause = match (status.message.as_str(), status.code) {
            ("", code) | ("Failure", code) => format!("the server refused with code {code}, and no reason"),
            (message, code) => format!("the server refused: {message} (code {code})"),
        };
        match status.code {
            status::NO_SUCH_FILE | status::NO_SUCH_PATH => Error::NotFound { object },
            status::DENIED | status::READ_ONLY => Error::Denied { object, cause },
            status::EXISTS => Error::AlreadyExists { object },
            status::FULL | status::QUOTA => Error::Full { object, cause },
            status::UNSUPPORTED => Error::Unsupported { object, cause },
            status::BAD_MESSAGE => Error::InvalidKey { object, cause },
            // "No connection" and "connection lost", from a server that has one of its own behind it.
            6 | 7 => Error::Unavailable { object, cause, retryable: true },
            _ => Error::Unavailable { object, cause, retryable: false },
        }
    }
}

fn confirmed(answer: Answer) -> Result<(), Failed> {
    match answer {
        Answer::Status(status) if status.code == status::OK => Ok(()),
        Answer::Status(status) => Err(Failed::Refused(status)),
        _ => Err(Failed::Odd),
    }
}

fn refused<T>(answer: Answer) -> Result<T, Failed> {
    match answer {
        Answer::Status(status) if status.code != status::OK => Err(Failed::Refused(status)),
        _ => Err(Failed::Odd),
    }
}

impl Session {
    async fn attributes(&self, kind: Kind, of: &[u8]) -> Result<Attributes, Failed> {
        match self.ask(0, |id| Request::new(kind, id, of.len()).bytes(of).done()).await? {
            Answer::Attributes(attributes) => Ok(attributes),
            answer => refused(answer),
        }
    }

    /// What is at a path; links aren't followed.
    pub(super) async fn lstat(&self, path: &str) -> Result<Attributes, Failed> {
        self.attributes(Kind::Lstat, path.as_bytes()).await
    }

    /// Removes a file's name.
    pub(super) async fn remove(&self, path: &str) -> Result<(), Failed> {
        confirmed(self.ask(0, |id| Request::new(Kind::Remove, id, path.len()).bytes(path.as_bytes()).done()).await?)
    }

    /// Makes a folder.
    pub(super) async fn mkdir(&self, path: &str, mode: u32) -> Result<(), Failed> {
        let packet =
            |id| Request::new(Kind::Mkdir, id, path.len()).bytes(path.as_bytes()).attributes(Some(mode)).done();
        confirmed(self.ask(0, packet).await?)
    }

    /// Gives a file another name. Servers of this version of the protocol refuse a name that is taken.
    pub(super) async fn rename(&self, from: &str, to: &str) -> Result<(), Failed> {
        let packet = |id| Request::new(Kind::Rename, id, 0).bytes(from.as_bytes()).bytes(to.as_bytes()).done();
        confirmed(self.ask(0, packet).await?)
    }

    /// Gives a file another name, over another file.
    pub(super) async fn replace(&self, from: &str, to: &str) -> Result<(), Failed> {
        let name = "posix-rename@openssh.com";
        let packet = |id| Request::extended(name, id).bytes(from.as_bytes()).bytes(to.as_bytes()).done();
        confirmed(self.ask(0, packet).await?)
    }

    /// Gives a file a second name, if it is free.
    pub(super) async fn link(&self, from: &str, to: &str) -> Result<(), Failed> {
        let name = "hardlink@openssh.com";
        let packet = |id| Request::extended(name, id).bytes(from.as_bytes()).bytes(to.as_bytes()).done();
        confirmed(self.ask(0, packet).await?)
    }

    /// Whether the file system of a path has no room, as far as the server tells.
    pub(super) async fn is_full(&self, path: &str) -> bool {
        if !self.features().space {
            return false;
        }
        let packet = |id| Request::extended("statvfs@openssh.com", id).bytes(path.as_bytes()).done();
        match self.ask(0, packet).await {
            Ok(Answer::Extended(reply)) => is_full(reply).unwrap_or(false),
            _ => false,
        }
    }
}

/// An open file or folder. It is closed when dropped.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) lease: Lease,
    handle: Bytes,
    is_closed: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.is_closed {
            self.lease.tell(Kind::Close, &self.handle);
        }
    }
}

impl Opened {
    async fn new(lease: Lease, is_counted: bool, packet: impl FnOnce(u32) -> Bytes) -> Result<Self, (Lease, Failed)> {
        let asked = async {
            let place = if is_counted { Some(lease.place().await?) } else { None };
            match lease.ask(0, packet).await? {
                Answer::Handle(handle) => Ok((handle, place)),
                answer => refused(answer),
            }
        };
        match asked.await {
            Ok((handle, place)) => Ok(Self { lease, handle, is_closed: false, _place: place }),
            Err(failed) => Err((lease, failed)),
        }
    }

    /// Opens a file; a new one gets `mode`.
    ///
    /// # Errors
    /// The lease comes back with the refusal.
    pub(super) async fn file(lease: Lease, path: &str, how: u32, mode: Option<u32>) -> Result<Self, (Lease, Failed)> {
        let name = path.as_bytes();
        let packet = |id| Request::new(Kind::Open, id, name.len()).bytes(name).number(how).attributes(mode).done();
        Self::new(lease, true, packet).await
    }

    /// Opens a folder, to read its names.
    pub(super) async fn folder(lease: Lease, path: &str) -> Result<Self, (Lease, Failed)> {
        Self::new(lease, true, |id| Request::new(Kind::Opendir, id, path.len()).bytes(path.as_bytes()).done()).await
    }

    /// Closes it, and says whether that went well.
    pub(super) async fn close(&mut self) -> Result<(), Failed> {
        self.is_closed = true;
        let packet = |id| Request::new(Kind::Close, id, self.handle.len()).bytes(&self.handle).done();
        confirmed(self.lease.ask(0, packet).await?)
    }

    /// What it is now.
    pub(super) async fn attributes(&self) -> Result<Attributes, Failed> {
        self.lease.attributes(Kind::Fstat, &self.handle).await
    }

    /// Reads up to `length` bytes, at least one; none behind the end.
    pub(super) async fn read(&self, at: u64, length: usize) -> Result<Bytes, Failed> {
        let count = u32::try_from(length).unwrap_or(u32::MAX);
        let packet = |id| Request::new(Kind::Read, id, 0).bytes(&self.handle).offset(at).number(count).done();
        match self.lease.ask(length as u64, packet).await? {
            Answer::Data(data) if data.len() <= length => Ok(data),
            Answer::Status(Status { code: status::END, .. }) => Ok(Bytes::new()),
            answer => refused(answer),
        }
    }

    /// Writes bytes at a place.
    pub(super) async fn write(&self, at: u64, bytes: &Bytes) -> Result<(), Failed> {
        let packet = |id| Request::new(Kind::Write, id, bytes.len()).bytes(&self.handle).offset(at).bytes(bytes).done();
        confirmed(self.lease.ask(bytes.len() as u64, packet).await?)
    }

    /// Makes it durable, where the server can.
    pub(super) async fn sync(&self) -> Result<(), Failed> {
        if !self.lease.features().sync {
            return Ok(());
        }
        let packet = |id| Request::extended("fsync@openssh.com", id).bytes(&self.handle).done();
        confirmed(self.lease.ask(0, packet).await?)
    }

    /// The next names of a folder; none at the end.
    pub(super) async fn names(&self) -> Result<Vec<Named>, Failed> {
        let packet = |id| Request::new(Kind::Readdir, id, 0).bytes(&self.handle).done();
        // About what OpenSSH sends.
        match self.lease.ask(16 << 10, packet).await? {
            Answer::Names(names) => Ok(names),
            Answer::Status(Status { code: status::END, .. }) => Ok(Vec::new()),
            answer => refused(answer),
        }
    }
}

/// Opens a folder to make its names durable, where the server opens folders as files, as OpenSSH does. Elsewhere only
/// the server knows.
pub(super) async fn open_to_sync(lease: Lease, folder: &str) -> Result<Option<Opened>, Failed> {
    if !lease.features().sync {
        return Ok(None);
    }
    let name = folder.as_bytes();
    let packet = |id| Request::new(Kind::Open, id, name.len()).bytes(name).number(open::READ).attributes(None).done();
    // It stands beside a file that is counted. Counted itself, it could wait for files that wait for their folders.
    match Opened::new(lease, false, packet).await {
        Ok(opened) => Ok(Some(opened)),
        Err((_, failed @ Failed::Gone(_))) => Err(failed),
        Err(_) => Ok(None),
    }
}

/// Makes the names in a folder durable that was opened for it.
pub(super) async fn sync_names(folder: Option<Opened>) -> Result<(), Failed> {
    let Some(folder) = folder else { return Ok(()) };
    match folder.sync().await {
        // A file system that doesn't know how to do it for folders.
        Err(failed) if matches!(failed.code(), Some(status::BAD_MESSAGE | status::UNSUPPORTED)) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn codes_become_decisions() {
        let refused = |code| Failed::Refused(Status { code, message: "Failure".into() }).about("x");
        assert!(refused(status::NO_SUCH_FILE).is_not_found() && refused(status::NO_SUCH_PATH).is_not_found());
        assert!(matches!(refused(status::DENIED), Error::Denied { .. }));
        assert!(matches!(refused(status::READ_ONLY), Error::Denied { .. }));
        assert!(matches!(refused(status::EXISTS), Error::AlreadyExists { .. }));
        assert!(
            matches!(refused(status::FULL), Error::Full { .. }) && matches!(refused(status::QUOTA), Error::Full { .. })
        );
        assert!(matches!(refused(status::UNSUPPORTED), Error::Unsupported { .. }));
        assert!(matches!(refused(status::BAD_MESSAGE), Error::InvalidKey { .. }));
        assert!(matches!(refused(status::FAILURE), Error::Unavailable { retryable: false, .. }));
        assert!(refused(7).is_retryable() && !refused(4000).is_retryable());
        assert!(Failed::Gone(Gone::Lost("x".into())).about("x").is_retryable());
        let silent = Failed::Gone(Gone::Silent(Duration::from_secs(1))).about("x");
        assert!(matches!(silent, Error::Timeout { .. }));
        assert!(matches!(Failed::Odd.about("x"), Error::Unavailable { retryable: false, .. }));
    }
}
