//! A connection whose peer must read: a write that makes no progress for too long ends it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes are bounded. A peer that reads a part in time may go on.
pub(super) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// The end of the wait of the write that is under way.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Patient<S> {
    /// Lets each write wait for the peer for at most `limit`.
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, until: None }
    }

    /// The result of a write, or `TimedOut` if the peer has read nothing since the wait began.
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(until.as_mut().poll(cx));
        // The next write, if there is one, gets its own time.
        until.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer doesn't read its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_ends_the_connection() {
        let (_silent, ours) = duplex(16);
        let begun = Instant::now();
        let failed = Patient::new(ours, LIMIT).write_all(&[7; 64]).await.expect_err("nobody reads");
        assert_eq!((failed.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_gets_everything() {
        let (mut slow, ours) = duplex(16);
        let mut ours = Patient::new(ours, LIMIT);
        let reading = async {
            let mut all = Vec::new();
            let mut part = [0; 16];
            while all.len() < 160 {
                tokio::time::sleep(LIMIT / 2).await;
                let length = slow.read(&mut part).await.expect("read");
                all.extend_from_slice(&part[..length]);
            }
            all
        };
        let (written, all) = tokio::join!(ours.write_all(&[7; 160]), reading);
        assert!(written.is_ok() && all == [7; 160], "{written:?}");
    }
}
