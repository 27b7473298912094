//! Makes a server near look far away: hands HTTP/1.1 requests on, each after a delay, and counts them by kind.
//!
//! `far PORT DELAY_MS` listens on a free port of 127.0.0.1 and prints it. Each line on its standard input makes it print
//! the counts since the last line, as `KIND=COUNT` words. A thread for each connection, and no crate: `places.py` compiles
//! it with rustc alone.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

fn main() -> io::Result<()> {
    let usage = || io::Error::other("far PORT DELAY_MS");
    let mut words = std::env::args().skip(1);
    let port: u16 = words.next().and_then(|word| word.parse().ok()).ok_or_else(usage)?;
    let delay: f64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(usage)?;
    let delay = Duration::from_secs_f64(delay / 1000.0);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    let counts = Counts::default();
    let shared = counts.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let counts = shared.clone();
            // A connection that breaks is the business of the two that it connected.
            std::thread::spawn(move || drop(serve(client, port, delay, &counts)));
        }
    });
    for line in io::stdin().lines() {
        line?;
        let taken = std::mem::take(&mut *counts.lock().expect("no thread panicked"));
        println!("{}", taken.iter().map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

fn serve(client: TcpStream, port: u16, delay: Duration, counts: &Counts) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut to_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let mut client = BufReader::with_capacity(256 << 10, client);
    let mut server = BufReader::with_capacity(256 << 10, server);
    while let Some(request) = head(&mut client)? {
        let method = request.split(' ').next().unwrap_or_default().to_owned();
        *counts.lock().expect("no thread panicked").entry(kind(&request, &method)).or_default() += 1;
        std::thread::sleep(delay);
        to_server.write_all(request.as_bytes())?;
        if header(&request, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            to_client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        body(&mut client, &mut to_server, &request, false)?;
        let (answer, status) = loop {
            let Some(answer) = head(&mut server)? else { return Ok(()) };
            let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
            if status != "100" {
                break (answer, status);
            }
        };
        to_client.write_all(answer.as_bytes())?;
        if method != "HEAD" && status != "204" && status != "304" {
            body(&mut server, &mut to_client, &answer, true)?;
        }
    }
    Ok(())
}

/// What a request is counted as: its method, but LIST and DELETE (of several objects) by their query.
fn kind(request: &str, method: &str) -> String {
    let target = request.split(' ').nth(1).unwrap_or_default();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let asks = |name: &str| query.split('&').any(|part| part.split('=').next() == Some(name));
    match method {
        "GET" if asks("list-type") || asks("prefix") => "LIST".to_owned(),
        "POST" if asks("delete") => "DELETE".to_owned(),
        other => other.to_owned(),
    }
}

/// The head of a message with the empty line that ends it; `None` at the end of the connection.
fn head(source: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        if source.read_line(&mut text)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(text))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

fn body(source: &mut impl BufRead, target: &mut TcpStream, head: &str, is_answer: bool) -> io::Result<()> {
    if let Some(length) = header(head, "content-length") {
        return exactly(source, target, length.parse().map_err(io::Error::other)?);
    }
    if header(head, "transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            source.read_line(&mut size)?;
            target.write_all(size.as_bytes())?;
            let digits = size.trim().split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
            exactly(source, target, size + 2)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
    if is_answer { Err(io::Error::other("a body of unknown length")) } else { Ok(()) }
}

fn exactly(source: &mut impl BufRead, target: &mut TcpStream, mut left: u64) -> io::Result<()> {
    while left > 0 {
        let mut limited = source.take(left);
        let piece = limited.fill_buf()?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        target.write_all(piece)?;
        let count = piece.len();
        source.consume(count);
        left -= count as u64;
    }
    Ok(())
}
