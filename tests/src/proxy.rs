//! A proxy before an S3 server that passes on everything except deletions, as for credentials that may not delete.

use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (refused, behind) = (Arc::<AtomicUsize>::default(), server.port());
        let counted = refused.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let counted = counted.clone();
                // A connection that breaks is the client's to repeat.
                std::thread::spawn(move || drop(pass(client, behind, &counted)));
            }
        });
        Self { port, refused }
    }

    /// How often a deletion was asked for.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// The URL of a place behind the proxy, for `seawall`.
    pub fn url(&self, place: &Place) -> String {
        let Place::Bucket(server, _) = place else { panic!("a folder has no server") };
        place.url().replace(&server.endpoint(), &format!("http://127.0.0.1:{}", self.port))
    }
}

/// Passes one request on; the connection ends with its answer.
fn pass(client: TcpStream, behind: u16, refused: &AtomicUsize) -> std::io::Result<()> {
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
    if request.starts_with("DELETE ") || request.starts_with("POST ") && request.contains("delete") {
        refused.fetch_add(1, Ordering::SeqCst);
        copy(&mut body, &mut std::io::sink())?;
        let size = REFUSED.len();
        let head = "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-type: application/xml";
        return write!(client, "{head}\r\ncontent-length: {size}\r\n\r\n{REFUSED}");
    }
    let mut server = TcpStream::connect(("127.0.0.1", behind))?;
    server.write_all(head.concat().as_bytes())?;
    server.write_all(b"connection: close\r\n\r\n")?;
    copy(&mut body, &mut server)?;
    copy(&mut server, &mut client)?;
    Ok(())
}
