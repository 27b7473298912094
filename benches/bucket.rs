//! A bucket with very many objects: serves the files of a folder as S3 does, and counts requests by kind.
//!
//! `bucket FOLDER NAME` listens on a free port of 127.0.0.1 and prints it. It knows the names from one walk at the start and keeps them
//! sorted, so a page of a listing costs the same in a bucket of any size, which no server over a folder that we know does. It knows
//! ListObjectsV2, GET with a range, HEAD, PUT with `If-None-Match`, DELETE and DeleteObjects, and checks no signature. Each line on its
//! standard input makes it print the counts since the last line, as `KIND=COUNT` words. A thread for each connection, and no crate.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Size, and seconds since the epoch.
type Names = RwLock<BTreeMap<String, (u64, u64)>>;

struct Bucket {
    root: PathBuf,
    name: String,
    names: Names,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(root), Some(name)) = (words.next(), words.next()) else { return Err(io::Error::other("bucket FOLDER NAME")) };
    let bucket = Bucket { root: root.into(), name, names: Names::default(), counts: Mutex::default() };
    bucket.walk(&bucket.root.clone(), "")?;
    let (bucket, listener) = (Arc::new(bucket), TcpListener::bind(("127.0.0.1", 0))?);
    println!("{}", listener.local_addr()?.port());
    let shared = bucket.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let bucket = shared.clone();
            std::thread::spawn(move || drop(bucket.serve(client)));
        }
    });
    for line in io::stdin().lines() {
        line?;
        let taken = std::mem::take(&mut *bucket.counts.lock().expect("no thread panicked"));
        println!("{}", taken.iter().map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

/// The head of a request, its path and its query, decoded.
struct Request {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Bucket {
    fn walk(&self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let key = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                self.walk(&entry.path(), &format!("{key}/"))?;
            } else {
                let written = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                self.names.write().expect("whole").insert(key, (metadata.len(), written));
            }
        }
        Ok(())
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut out = client.try_clone()?;
        let mut client = BufReader::with_capacity(64 << 10, client);
        while let Some(request) = self.read(&mut client, &mut out)? {
            let (kind, status, headers, body) = self.answer(&request);
            *self.counts.lock().expect("whole").entry(kind).or_default() += 1;
            let length = headers.iter().all(|(name, _)| *name != "content-length");
            let mut head = format!("HTTP/1.1 {status}\r\nx-amz-request-id: 1\r\n");
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            if length {
                head += &format!("content-length: {}\r\n", body.len());
            }
            head += "\r\n";
            let mut answer = head.into_bytes();
            answer.extend(body);
            out.write_all(&answer)?;
        }
        Ok(())
    }

    fn read(&self, client: &mut impl BufRead, out: &mut impl Write) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if client.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or("/").to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            client.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        if headers.get("expect").is_some() {
            out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        client.read_exact(&mut body)?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let key = decode(path.trim_start_matches('/').strip_prefix(&self.name).unwrap_or_default().trim_start_matches('/'));
        let pair = |pair: &str| pair.split_once('=').map_or((decode(pair), String::new()), |(k, v)| (decode(k), decode(v)));
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect();
        Ok(Some(Request { method, key, query, headers, body }))
    }

    #[expect(clippy::type_complexity, reason = "a small program")]
    fn answer(&self, r: &Request) -> (&'static str, String, Vec<(&'static str, String)>, Vec<u8>) {
        let ok = || "200 OK".to_owned();
        let missing = || ("404 Not Found".to_owned(), xml("<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"));
        let found = self.names.read().expect("whole").get(&r.key).copied();
        match r.method.as_str() {
            "GET" if r.key.is_empty() => ("LIST", ok(), vec![("content-type", "application/xml".into())], self.list(&r.query)),
            "GET" | "HEAD" => {
                let kind = if r.method == "GET" { "GET" } else { "HEAD" };
                let Some((size, written)) = found else {
                    let (status, body) = missing();
                    return (kind, status, vec![], if kind == "GET" { body } else { vec![] });
                };
                let mut headers = vec![("etag", format!("\"{size:x}\"")), ("last-modified", http_date(written)), ("accept-ranges", "bytes".into())];
                if kind == "HEAD" {
                    headers.push(("content-length", size.to_string()));
                    return (kind, ok(), headers, vec![]);
                }
                let Ok(mut bytes) = fs::read(self.root.join(&r.key)) else {
                    let (status, body) = missing();
                    return (kind, status, vec![], body);
                };
                if let Some((from, to)) = r.headers.get("range").and_then(|range| part(range, size)) {
                    headers.push(("content-range", format!("bytes {from}-{to}/{size}")));
                    bytes = bytes[from as usize..=to as usize].to_vec();
                    return (kind, "206 Partial Content".into(), headers, bytes);
                }
                (kind, ok(), headers, bytes)
            }
            "PUT" => {
                if found.is_some() && r.headers.contains_key("if-none-match") {
                    return ("PUT", "412 Precondition Failed".into(), vec![], xml("<Error><Code>PreconditionFailed</Code></Error>"));
                }
                let path = self.root.join(&r.key);
                let body = if r.headers.get("content-encoding").is_some_and(|e| e.contains("aws-chunked")) { unchunked(&r.body) } else { r.body.clone() };
                let done = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &body));
                if done.is_err() {
                    return ("PUT", "500 Internal Server Error".into(), vec![], vec![]);
                }
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                self.names.write().expect("whole").insert(r.key.clone(), (body.len() as u64, now));
                ("PUT", ok(), vec![("etag", format!("\"{:x}\"", body.len()))], vec![])
            }
            "DELETE" => {
                self.remove(&r.key);
                ("DELETE", "204 No Content".into(), vec![], vec![])
            }
            "POST" if r.query.contains_key("delete") => {
                let text = String::from_utf8_lossy(&r.body);
                for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
                    self.remove(key);
                }
                ("POST", ok(), vec![], xml("<DeleteResult/>"))
            }
            _ => ("OTHER", "501 Not Implemented".into(), vec![], xml("<Error><Code>NotImplemented</Code></Error>")),
        }
    }

    fn remove(&self, key: &str) {
        if self.names.write().expect("whole").remove(key).is_some() {
            fs::remove_file(self.root.join(key)).ok();
        }
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Vec<u8> {
        let get = |name: &str| query.get(name).map_or("", String::as_str);
        let (prefix, delimiter) = (get("prefix"), get("delimiter"));
        let most: usize = get("max-keys").parse().unwrap_or(1000).min(1000);
        let after = if query.contains_key("continuation-token") { get("continuation-token") } else { get("start-after") };
        let names = self.names.read().expect("whole");
        let (mut contents, mut prefixes, mut last, mut more) = (String::new(), Vec::<String>::new(), String::new(), false);
        let mut from = if after >= prefix { Bound::Excluded(after.to_owned()) } else { Bound::Included(prefix.to_owned()) };
        let mut count = 0;
        while let Some((key, (size, written))) = names.range((from.clone(), Bound::Unbounded)).next().filter(|(key, _)| key.starts_with(prefix)) {
            if count == most {
                more = true;
                break;
            }
            count += 1;
            let rest = &key[prefix.len()..];
            if let Some(at) = rest.find(delimiter).filter(|_| !delimiter.is_empty()) {
                let common = format!("{prefix}{}", &rest[..at + delimiter.len()]);
                // Past everything below it.
                last = format!("{common}\u{10ffff}");
                prefixes.push(common);
            } else {
                contents += &format!(
                    "<Contents><Key>{key}</Key><LastModified>{}</LastModified><ETag>&quot;{size:x}&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                    iso_date(*written)
                );
                last = key.clone();
            }
            from = Bound::Excluded(last.clone());
        }
        let prefixes: String = prefixes.iter().map(|one| format!("<CommonPrefixes><Prefix>{one}</Prefix></CommonPrefixes>")).collect();
        let next = if more { format!("<NextContinuationToken>{last}</NextContinuationToken>") } else { String::new() };
        xml(&format!(
            "<ListBucketResult><Name>{}</Name><Prefix>{prefix}</Prefix><KeyCount>{count}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{more}</IsTruncated>{next}{contents}{prefixes}</ListBucketResult>",
            self.name
        ))
    }
}

fn xml(text: &str) -> Vec<u8> {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{text}").into_bytes()
}

fn decode(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        let mut hex = || bytes.next().and_then(|digit| (digit as char).to_digit(16)).unwrap_or(0) as u8;
        out.push(match byte {
            b'%' => hex() << 4 | hex(),
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The first and the last byte of a range, as `bytes=1-2`, `bytes=1-` or `bytes=-2`.
fn part(range: &str, size: u64) -> Option<(u64, u64)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let last = size.checked_sub(1)?;
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => Some((from, to.min(last))),
        (Ok(from), Err(_)) => Some((from, last)),
        (Err(_), Ok(count)) => Some((size.saturating_sub(count), last)),
        _ => None,
    }
    .filter(|(from, to)| from <= to)
}

/// The content of a body in `aws-chunked`.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = body.windows(2).position(|pair| pair == b"\r\n") {
        let line = String::from_utf8_lossy(&body[..end]).into_owned();
        let size = usize::from_str_radix(line.split(';').next().unwrap_or("0"), 16).unwrap_or(0);
        let Some(data) = body.get(end + 2..end + 2 + size).filter(|data| !data.is_empty()) else { break };
        out.extend(data);
        body = body.get(end + 4 + size..).unwrap_or_default();
    }
    out
}

/// Year, month, day, hours, minutes, seconds.
fn civil(seconds: u64) -> (i64, u32, u32, u64, u64, u64) {
    let days = (seconds / 86400) as i64 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

fn iso_date(seconds: u64) -> String {
    let (year, month, day, h, m, s) = civil(seconds);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.000Z")
}

fn http_date(seconds: u64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (year, month, day, h, m, s) = civil(seconds);
    let weekday = DAYS[(seconds / 86400 % 7) as usize];
    format!("{weekday}, {day:02} {} {year:04} {h:02}:{m:02}:{s:02} GMT", MONTHS[month as usize - 1])
}
