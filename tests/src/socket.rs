//! A bare client for Unix sockets and addresses: tests speak to a running process as another program would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks over a Unix socket, and returns the status and the body.
pub fn ask_socket(socket: &Path, method: &str, target: &str, body: &str) -> (u16, String) {
    let stream = UnixStream::connect(socket).unwrap_or_else(|e| panic!("{}: {e}", socket.display()));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    converse(stream, method, target, "", body)
}

/// Asks at an address, with more headers (each ends with `\r\n`), and returns the status and the body.
pub fn ask_address(address: &str, method: &str, target: &str, headers: &str, body: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    converse(stream, method, target, headers, body)
}

fn converse(mut stream: impl Read + Write, method: &str, target: &str, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    (status, body.to_owned())
}
