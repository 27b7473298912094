//! How a connection notices that the other machine is gone. A statement may take any time, and a broken network sends no error.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// How long a connection is silent before the system asks whether the server's machine is there.
pub const SILENCE: Duration = Duration::from_secs(60);

/// How long the machine has for an answer.
pub const BETWEEN: Duration = Duration::from_secs(10);

/// How often the system asks.
pub const QUESTIONS: u32 = 6;

/// Has the system check that the other side is still there, and end the connection otherwise.
///
/// # Errors
/// The system refuses the setting.
pub fn notice_silence(stream: &TcpStream) -> std::io::Result<()> {
    let socket = SockRef::from(stream);
    let questions = TcpKeepalive::new().with_time(SILENCE).with_interval(BETWEEN).with_retries(QUESTIONS);
    socket.set_tcp_keepalive(&questions)?;
    socket.set_tcp_user_timeout(Some(SILENCE + BETWEEN * QUESTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_network_that_is_gone_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
        notice_silence(&stream).expect("set");
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("known"));
        assert_eq!(socket.tcp_keepalive_time().expect("known"), Duration::from_secs(60));
        assert_eq!(socket.tcp_user_timeout().expect("known"), Some(Duration::from_secs(120)));
    }
}
