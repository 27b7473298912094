//! Where a server listens: a Unix socket that only its owner may use, or an address.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// A listening socket.
#[derive(Debug)]
pub(crate) enum Listener {
    /// On this machine.
    Unix(UnixListener),
    /// On a network.
    Tcp(TcpListener),
}

/// A connection of either kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Removes a socket's file when the process ends in order.
#[derive(Debug)]
pub(crate) struct Unlink(PathBuf);

impl Drop for Unlink {
    fn drop(&mut self) {
        // Someone else may have been here first.
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens on an address.
    pub(crate) async fn tcp(address: SocketAddr) -> Result<Self, Failure> {
        let bound = match TcpListener::bind(address).await {
            // A machine without IPv6 has no `[::]`, which was meant as everyone.
            Err(error) if address.ip().is_unspecified() && address.is_ipv6() => {
                TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await.map_err(|_| error)
            }
            bound => bound,
        };
        bound.map(Self::Tcp).map_err(|error| cannot_listen(&address.to_string(), &error.to_string()))
    }

    /// Listens on a Unix socket. A socket that an earlier process left behind is replaced; one that another process
    /// listens on is not, and neither is any other file.
    pub(crate) async fn unix(path: &Path, permissions: u32) -> Result<(Self, Unlink), Failure> {
        let failed = |cause: &str| cannot_listen(&path.display().to_string(), cause);
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(failed("there is a file that is no socket")),
            Ok(_) => {
                if UnixStream::connect(path).await.is_ok() {
                    return Err(failed("another process listens there"));
                }
                std::fs::remove_file(path).map_err(|error| failed(&error.to_string()))?;
            }
            Err(_) => {}
        }
        let bound = bind(path, permissions).map_err(|error| failed(&error.to_string()))?;
        Ok((Self::Unix(bound), Unlink(path.to_owned())))
    }

    /// The address, with the port that the system chose if none was asked for.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                address.and_then(|address| Some(address.as_pathname()?.display().to_string())).unwrap_or_default()
            }
            Self::Tcp(listener) => listener.local_addr().map(|address| address.to_string()).unwrap_or_default(),
        }
    }

    /// Waits for the next connection, and says from which address it came.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| (Box::new(stream) as _, None)),
            Self::Tcp(listener) => {
                listener.accept().await.map(|(stream, peer)| (Box::new(stream) as _, Some(peer.ip())))
            }
        }
    }
}

/// Binds a socket that no other user can reach before it has its permissions: it is made in a folder that only we may
/// enter, and then moved to its place.
fn bind(path: &Path, permissions: u32) -> io::Result<UnixListener> {
    let parent = seawall_host::folder_of(path);
    let private = parent.join(format!(".seawall-{}", std::process::id()));
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&private)?;
    let made = private.join("s");
    let bound = UnixListener::bind(&made).and_then(|listener| {
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(permissions))?;
        std::fs::rename(&made, path)?;
        Ok(listener)
    });
    let _moved = std::fs::remove_file(&made);
    let _empty = std::fs::remove_dir(&private);
    bound
}

fn cannot_listen(object: &str, cause: &str) -> Failure {
    Failure::new(
        Kind::Unavailable,
        "agent.listen",
        object,
        format!("it can't listen here: {cause}"),
        "stop the process that has the address, or configure another address; protection goes on without it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_of_ones_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.sock");
        let (listener, unlink) = Listener::unix(&path, 0o600).await.expect("a socket");
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
        let second = Listener::unix(&path, 0o600).await.map(drop).expect_err("it is taken");
        assert!(second.code == "agent.listen" && second.cause.contains("another process"), "{second}");
        // As a crash leaves it: no process listens any more.
        drop(listener);
        std::mem::forget(unlink);
        let (_listener, unlink) = Listener::unix(&path, 0o660).await.expect("the left one is replaced");
        drop(unlink);
        assert!(!path.exists());
        std::fs::write(&path, "precious").expect("written");
        assert!(Listener::unix(&path, 0o600).await.is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "precious");
    }
}
