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

/// Asks at an address under the name of a host, and returns the status, the head and the body.
pub fn ask_host(
    (address, host): (&str, &str),
    method: &str,
    target: &str,
    headers: &str,
    body: &str,
) -> (u16, String, String) {
    let stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    whole(stream, host, method, target, headers, body)
}

/// Begins to listen to events at an address. The answer is read from what is returned.
pub fn listen_to(address: &str, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn converse(stream: impl Read + Write, method: &str, target: &str, headers: &str, body: &str) -> (u16, String) {
    let (status, _, body) = whole(stream, "test", method, target, headers, body);
    (status, body)
}

fn whole(
    mut stream: impl Read + Write,
    host: &str,
    method: &str,
    target: &str,
    headers: &str,
    body: &str,
) -> (u16, String, String) {
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    (status, head.to_owned(), body.to_owned())
}
