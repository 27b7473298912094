//! Proxies before an S3 server. One passes on everything except deletions, as for credentials that may not delete. Another
//! answers listings as they were at an earlier moment, and a third one has another clock.

use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use crate::{Place, S3Server};

const REFUSED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";

/// The server. It ends with its test.
#[derive(Debug)]
pub struct NoDeletes {
    port: u16,
    refused: Arc<AtomicUsize>,
}

impl NoDeletes {
    /// Starts one in front of another.
    pub fn before(server: &S3Server) -> Self {
        let (refused, behind) = (Arc::<AtomicUsize>::default(), server.port());
        let counted = refused.clone();
        let port = serve(move |request| {
            let deletes = request.starts_with("DELETE ") || request.starts_with("POST ") && request.contains("delete");
            if deletes {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            (!deletes).then_some(behind)
        });
        Self { port, refused }
    }

    /// How often a deletion was asked for.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// The URL of a place behind the proxy, for `seawall`.
    pub fn url(&self, place: &Place) -> String {
        behind(place, self.port)
    }
}

/// The server that answers listings, and nothing else, as they were. It ends with its test.
#[derive(Debug)]
pub struct OldListings {
    port: u16,
    lists: Arc<AtomicU16>,
    old: Option<S3Server>,
}

impl OldListings {
    /// Starts one in front of another. Listings are new until [`Self::freeze`].
    pub fn before(server: &S3Server) -> Self {
        let (behind, lists) = (server.port(), Arc::new(AtomicU16::new(server.port())));
        let asked = lists.clone();
        let is_list = |request: &str| request.starts_with("GET ") && request.contains("list-type=");
        let port = serve(move |request| Some(if is_list(request) { asked.load(Ordering::SeqCst) } else { behind }));
        Self { port, lists, old: None }
    }

    /// From now on listings are what they are now.
    pub fn freeze(&mut self, server: &S3Server) {
        let old = server.as_it_is_now();
        self.lists.store(old.port(), Ordering::SeqCst);
        self.old = Some(old);
    }

    /// From now on listings are true again.
    pub fn thaw(&mut self, server: &S3Server) {
        self.lists.store(server.port(), Ordering::SeqCst);
        self.old = None;
    }

    /// The URL of a place behind the proxy, for `seawall`.
    pub fn url(&self, place: &Place) -> String {
        behind(place, self.port)
    }
}

/// The server whose clock is years behind: it says so in `Last-Modified`. It ends with its test.
#[derive(Debug)]
pub struct LateClock {
    port: u16,
}

impl LateClock {
    /// Starts one in front of another.
    pub fn before(server: &S3Server) -> Self {
        let behind = server.port();
        Self { port: serve_with(move |_| Some(behind), late) }
    }

    /// The URL of a place behind the proxy, for `seawall`.
    pub fn url(&self, place: &Place) -> String {
        behind(place, self.port)
    }
}

/// The same answer with another `Last-Modified`.
fn late(answer: Vec<u8>) -> Vec<u8> {
    const NAME: &[u8] = b"last-modified: ";
    const THEN: &[u8] = b"Mon, 06 Jan 2020 08:00:00 GMT";
    let mut answer = answer;
    let place = answer.windows(NAME.len()).position(|some| some.eq_ignore_ascii_case(NAME));
    if let Some(moment) = place.and_then(|at| answer.get_mut(at + NAME.len()..at + NAME.len() + THEN.len())) {
        moment.copy_from_slice(THEN);
    }
    answer
}

/// The URL of a place behind a proxy on `port`.
fn behind(place: &Place, port: u16) -> String {
    let Place::Bucket(server, _) = place else { panic!("a folder has no server") };
    place.url().replace(&server.endpoint(), &format!("http://127.0.0.1:{port}"))
}

/// Listens on the returned port. `choose` says of the first line of a request to which port it goes; it refuses with `None`.
fn serve(choose: impl Fn(&str) -> Option<u16> + Send + Sync + 'static) -> u16 {
    serve_with(choose, |answer| answer)
}

/// The same, with a change of each answer.
fn serve_with(choose: impl Fn(&str) -> Option<u16> + Send + Sync + 'static, change: fn(Vec<u8>) -> Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let choose = Arc::new(choose);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let choose = choose.clone();
            // A connection that breaks is the client's to repeat.
            std::thread::spawn(move || drop(pass(client, &*choose, change)));
        }
    });
    port
}

/// Passes one request on; the connection ends with its answer.
fn pass(
    client: TcpStream,
    choose: &impl Fn(&str) -> Option<u16>,
    change: fn(Vec<u8>) -> Vec<u8>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            head.push(line);
        }
    }
    let request = head.first().cloned().unwrap_or_default();
    let mut body = reader.by_ref().take(length);
    let mut client = client;
    let Some(behind) = choose(&request) else {
        copy(&mut body, &mut std::io::sink())?;
        let size = REFUSED.len();
        let head = "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-type: application/xml";
        return write!(client, "{head}\r\ncontent-length: {size}\r\n\r\n{REFUSED}");
    };
    let mut server = TcpStream::connect(("127.0.0.1", behind))?;
    server.write_all(head.concat().as_bytes())?;
    server.write_all(b"connection: close\r\n\r\n")?;
    copy(&mut body, &mut server)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    client.write_all(&change(answer))
}
