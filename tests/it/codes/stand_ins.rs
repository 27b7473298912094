//! Stand-ins for stores, servers and other programs. Each answers in one way, whoever asks, and ends with its test.

use std::io::{Read, Result, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Starts all of them, and returns the variables that name their ports and sockets.
pub(super) fn begin(folder: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("HOLE", on_port(silent)),
        ("TALK", on_port(talkative)),
        ("S3", on_port(store)),
        ("MYSQL", on_port(mysql)),
        ("PG", on_port(postgres)),
        ("JUNK", on_socket(folder, "junk", |stream| answer(stream, "200 OK", "junk"))),
        (
            "OTHER",
            on_socket(folder, "other", |stream| answer(stream, "400 Bad Request", "{\"error\":\"no such thing\"}")),
        ),
    ]
}

fn on_port<F: Fn(&mut std::net::TcpStream) -> Result<()> + Copy + Send + 'static>(act: F) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A client that goes away is no failure of the test.
            std::thread::spawn(move || drop(act(&mut stream)));
        }
    });
    port
}

fn on_socket(
    folder: &Path,
    name: &str,
    act: impl Fn(&mut std::os::unix::net::UnixStream) -> Result<()> + Send + 'static,
) -> String {
    let path = folder.join(name);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            drop(act(&mut stream));
        }
    });
    path.to_str().unwrap().to_owned()
}

/// Takes everything and says nothing.
fn silent(stream: &mut impl Read) -> Result<()> {
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes)? > 0 {}
    Ok(())
}

/// Speaks first, and of something else.
fn talkative(stream: &mut (impl Read + Write)) -> Result<()> {
    packet(stream, 0, b"\x09nonsense")?;
    stream.read(&mut [0; 4096]).map(drop)
}

/// The first line of a request. The rest of its head is read, too.
fn request(stream: &mut impl Read) -> Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned())
}

fn answer(stream: &mut (impl Read + Write), status: &str, body: &str) -> Result<()> {
    let head = request(stream)?;
    let body = if head.starts_with("HEAD") { "" } else { body };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// A store that answers as the bucket's name asks: `a403-AccessDenied` with status 403 and this code. `empty` lists nothing.
fn store(stream: &mut (impl Read + Write)) -> Result<()> {
    const NOTHING: &str = "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>";
    let head = request(stream)?;
    if head.contains("/empty?") {
        let length = NOTHING.len();
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{NOTHING}");
    }
    let bucket = head.split(['/', '?', ' ']).find(|part| part.starts_with('a')).unwrap_or_default();
    let (status, code) =
        bucket.trim_start_matches('a').split_once('-').unwrap_or((bucket.trim_start_matches('a'), "Odd"));
    let body = match head.starts_with("HEAD") {
        true => String::new(),
        false => {
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the bucket says</Message></Error>")
        }
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} As Asked\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// A server that refuses each login with the error that the user's name asks for: `e1062_23000`.
fn mysql(stream: &mut (impl Read + Write)) -> Result<()> {
    let abilities: u32 = 0x000f_a20f & !0x800;
    let mut greeting = b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0".to_vec();
    let [low, lower, high, higher] = abilities.to_le_bytes();
    greeting.extend([low, lower, 0x2d, 2, 0, high, higher, 21]);
    greeting.extend([0; 10]);
    greeting.extend(b"abcdefghijkl\0mysql_native_password\0");
    packet(stream, 0, &greeting)?;
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let [first, second, third, number] = head;
    let mut login = vec![0; u32::from_le_bytes([first, second, third, 0]) as usize];
    stream.read_exact(&mut login)?;
    let user = login.get(32..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
    let user = String::from_utf8_lossy(user).into_owned();
    let (error, state) =
        user.trim_start_matches('e').split_once('_').unwrap_or((user.trim_start_matches('e'), "HY000"));
    let mut refused = vec![0xff];
    refused.extend(error.parse::<u16>().unwrap_or_default().to_le_bytes());
    refused.extend(format!("#{state}as the user asked").into_bytes());
    packet(stream, number.wrapping_add(1), &refused)
}

fn packet(stream: &mut impl Write, number: u8, body: &[u8]) -> Result<()> {
    let [first, second, third, _] = u32::try_from(body.len()).unwrap().to_le_bytes();
    stream.write_all(&[first, second, third, number])?;
    stream.write_all(body)
}

/// A server that refuses each login with the SQLSTATE that the role's name asks for: `e57014`. It has no TLS.
fn postgres(stream: &mut (impl Read + Write)) -> Result<()> {
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    // A request for TLS.
    while head[4..] != [0, 3, 0, 0] {
        stream.write_all(b"N")?;
        stream.read_exact(&mut head)?;
    }
    let [a, b, c, d, ..] = head;
    let mut startup = vec![0; (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(8)];
    stream.read_exact(&mut startup)?;
    let words: Vec<String> =
        startup.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let role =
        words.iter().position(|word| word == "user").and_then(|at| words.get(at + 1)).cloned().unwrap_or_default();
    let state = role.trim_start_matches('e').to_uppercase();
    let fields = format!("SFATAL\0VFATAL\0C{state}\0Mas the role asked\0\0");
    stream.write_all(b"E")?;
    stream.write_all(&u32::try_from(fields.len() + 4).unwrap().to_be_bytes())?;
    stream.write_all(fields.as_bytes())
}
