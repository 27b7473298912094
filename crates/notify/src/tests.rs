//! Channels against servers in this process: the requests that arrive, attempts that fail, and what a restart does.

#![expect(clippy::disallowed_methods, reason = "the certificate of a server is in a file")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use seawall_config::document::parse;
use seawall_config::fields::Fields;
use seawall_core::{Alarm, Backoff, Severity};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::deliver::tell;
use crate::message::tests::alarm;
use crate::{Channel, Sender, Store, Watched, try_out};

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const GONE: &str = "HTTP/1.1 404 Gone\r\nconnection: close\r\ncontent-length: 4\r\n\r\nhush";

/// A request that arrived.
#[derive(Debug)]
struct Arrived {
    head: String,
    body: String,
}

impl Arrived {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.split_once(": ").filter(|(found, _)| *found == name));
        line.map(|(_, value)| value)
    }
}

/// A server that gives these answers, the last one again and again. An empty answer never comes.
async fn server(answers: &'static [&'static str]) -> (SocketAddr, mpsc::UnboundedReceiver<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (arrived, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut answers = answers.iter();
        let mut answer = "";
        while let Ok((stream, _)) = listener.accept().await {
            answer = answers.next().copied().unwrap_or(answer);
            let arrived = arrived.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).await.is_ok_and(|read| read > 0) {}
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
                tokio::io::AsyncReadExt::read_exact(&mut stream, &mut body).await.expect("a body");
                let body = String::from_utf8(body).expect("text");
                drop(arrived.send(Arrived { head, body }));
                if answer.is_empty() {
                    return std::future::pending().await;
                }
                let _gone = stream.write_all(answer.as_bytes()).await;
                // An answer without an end: the reader has to go away by itself.
                while answer.contains("chunked") && stream.write_all(b"1000\r\n").await.is_ok() {
                    if stream.write_all(&[b'x'; 0x1000]).await.is_err() || stream.write_all(b"\r\n").await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

fn channels(text: &str) -> Vec<Channel> {
    let mut fields = Fields::new("the top level", parse(text).expect("YAML")).expect("a mapping");
    crate::read(&mut fields, Path::new("/")).expect("channels")
}

fn sender() -> Sender {
    let client = seawall_vault::Policy::default().connections.plain().expect("a client");
    Sender::new(Some(client), "db1")
}

async fn next(requests: &mut mpsc::UnboundedReceiver<Arrived>) -> Arrived {
    tokio::time::timeout(Duration::from_secs(60), requests.recv()).await.expect("in time").expect("a request")
}

#[tokio::test]
async fn each_type_posts_what_its_service_reads() {
    for (more, path, pointer, expected) in [
        ("type: webhook, secret: hush", "/x", "/event", "test"),
        ("type: slack", "/x", "/text", "⚪ Seawall on db1: test of a channel\ntest: this is a test"),
        ("type: discord", "/x", "/content", "⚪ **Seawall on db1: test of a channel**"),
        ("type: teams", "/x", "/attachments/0/content/body/0/inlines/0/text", "Seawall on db1: test of a channel"),
        ("type: ntfy, token: tk_hush", "/", "/title", "Seawall on db1: test of a channel"),
        ("type: template, body: '{\"a\":\"{{title}}\"}', headers: { X-Key: hush }", "/x", "/a", "Seawall on db1: test"),
    ] {
        let (address, mut requests) = server(&[OK]).await;
        let channels = channels(&format!("notify:\n- {{ {more}, url: 'http://{address}/x' }}\n"));
        assert_eq!(try_out(&channels, &sender()).await, [Ok(())], "{more}");
        let arrived = next(&mut requests).await;
        assert!(arrived.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{more}: {}", arrived.head);
        assert_eq!(arrived.header("content-type"), Some("application/json"), "{more}");
        let document = arrived.json();
        let found = document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        assert!(found.starts_with(expected), "{more}: {document}");
        assert!(!arrived.body.contains("hush"), "{more}: {document}");
        match channels[0].way.name() {
            "webhook" => {
                let second = arrived.header("seawall-timestamp").expect("a second");
                let key = hmac::Key::new(hmac::HMAC_SHA256, b"hush");
                let sum = hmac::sign(&key, format!("{second}.{}", arrived.body).as_bytes());
                let expected = format!("sha256={}", crate::payload::hex(sum.as_ref()));
                assert_eq!(arrived.header("seawall-signature"), Some(expected.as_str()));
            }
            "ntfy" => assert_eq!(arrived.header("authorization"), Some("Bearer tk_hush")),
            "template" => assert_eq!(arrived.header("x-key"), Some("hush")),
            _ => {}
        }
    }
}

#[tokio::test]
async fn what_fails_is_told_without_a_secret_and_holds_nothing_up() {
    let (silent, _kept) = server(&[""]).await;
    let (gone, _kept_too) = server(&[GONE]).await;
    let (endless, _kept_as_well) = server(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let channels = channels(&format!(
        "notify:\n\
         - {{ name: silent, type: slack, url: 'http://{silent}/hush', timeout: 1s }}\n\
         - {{ name: gone, type: discord, url: 'http://{gone}/hush' }}\n\
         - {{ name: endless, type: teams, url: 'http://{endless}/hush' }}\n\
         - {{ name: closed, type: webhook, url: 'http://{closed}/hush', secret: hush }}\n\
         - {{ name: no-url, type: webhook, url: 'http://[hush/' }}\n\
         - {{ name: no-file, type: webhook, url-file: /nowhere/at-all }}\n\
         - {{ name: no-program, type: command, command: [/nowhere/at-all, hush] }}\n"
    ));
    let outcomes = try_out(&channels, &sender()).await;
    for ((channel, outcome), expected) in channels.iter().zip(outcomes).zip([
        "no answer in time",
        "the server answers 404",
        "",
        "error sending request",
        "no request can be made",
        "/nowhere/at-all: No such file",
        "it can't be started",
    ]) {
        let failure = outcome.err();
        let cause = failure.as_ref().map(|failure| failure.cause.clone()).unwrap_or_default();
        assert!(cause.starts_with(expected) && cause.is_empty() == expected.is_empty(), "{}: {cause}", channel.name);
        assert!(!format!("{failure:?}").contains("hush"), "{failure:?}");
    }
}

/// What a process sees, and a channel that is told of it until this is dropped.
struct Telling {
    seen: watch::Sender<Vec<Watched>>,
    task: tokio::task::JoinHandle<()>,
}

impl Telling {
    fn begin(channel: &Channel, store: &Arc<Store>, alarms: &[Alarm]) -> Self {
        let (seen, seeing) = watch::channel(Self::watched(alarms));
        let (channel, store) = (channel.clone(), Arc::clone(store));
        let waits = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let task = tokio::spawn(async move { tell(&channel, &sender(), seeing, &store, waits).await });
        Self { seen, task }
    }

    fn watched(alarms: &[Alarm]) -> Vec<Watched> {
        vec![Watched { database: "app".to_owned(), alarms: Some(alarms.to_vec()) }]
    }

    fn see(&self, alarms: &[Alarm]) {
        drop(self.seen.send(Self::watched(alarms)));
    }

    /// Ends after everything that is due was told.
    async fn end(self) {
        drop(self.seen);
        self.task.await.expect("no panic");
    }
}

#[tokio::test]
async fn a_message_that_fails_is_sent_again_and_once_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("told.json");
    let (address, mut requests) = server(&[BUSY, BUSY, OK]).await;
    let channel = channels(&format!("notify:\n- {{ type: webhook, url: 'http://{address}/x' }}\n")).remove(0);
    let (lag, full) = (alarm("alarm.lag", Severity::Warning), alarm("alarm.space", Severity::Critical));
    let telling = Telling::begin(&channel, &Store::open(Some(file.clone())), std::slice::from_ref(&lag));
    let mut ids = Vec::new();
    for _ in 0..3 {
        let document = next(&mut requests).await.json();
        assert_eq!((&document["event"], &document["alarms"][0]["code"]), (&"raised".into(), &"alarm.lag".into()));
        ids.push(document["id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "attempts of one message have one id");
    telling.end().await;
    // A process that starts again tells nothing anew: the next message is about the other alarm.
    let telling = Telling::begin(&channel, &Store::open(Some(file)), std::slice::from_ref(&lag));
    telling.see(&[lag.clone(), full.clone()]);
    let document = next(&mut requests).await.json();
    assert_eq!((&document["event"], &document["alarms"][0]["code"]), (&"raised".into(), &"alarm.space".into()));
    assert_eq!(document["alarms"].as_array().map(Vec::len), Some(1));
    telling.see(&[]);
    let document = next(&mut requests).await.json();
    assert_eq!((&document["event"], document["alarms"].as_array().map(Vec::len)), (&"recovered".into(), Some(2)));
    telling.end().await;
    assert!(requests.try_recv().is_err());
}

/// A mail server: what it heard on its last connection.
struct MailServer {
    address: SocketAddr,
    heard: mpsc::UnboundedReceiver<Vec<String>>,
}

impl MailServer {
    async fn start(offers: &'static str, tls: Option<tokio_rustls::TlsAcceptor>, wrapped: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (told, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut lines = Vec::new();
                match &tls {
                    Some(tls) if wrapped => {
                        if let Ok(stream) = tls.accept(stream).await {
                            converse(stream, true, offers, &mut lines).await;
                        }
                    }
                    _ => {
                        let rest = converse(stream, true, offers, &mut lines).await;
                        if let (Some(stream), Some(tls)) = (rest, &tls)
                            && let Ok(stream) = tls.accept(stream).await
                        {
                            converse(stream, false, "AUTH PLAIN", &mut lines).await;
                        }
                    }
                }
                drop(told.send(lines));
            }
        });
        Self { address, heard }
    }

    async fn heard(&mut self) -> Vec<String> {
        tokio::time::timeout(Duration::from_secs(60), self.heard.recv()).await.expect("in time").expect("a connection")
    }
}

/// Speaks SMTP until the client goes, or asks for TLS: then with what is left.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    greets: bool,
    offers: &str,
    lines: &mut Vec<String>,
) -> Option<S> {
    let mut stream = BufReader::new(stream);
    if greets {
        stream.write_all(b"220 mail.example\r\n").await.ok()?;
    }
    let (mut line, mut in_mail) = (String::new(), false);
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let text = line.trim_end().to_owned();
        lines.push(text.clone());
        let answer = match text.split(' ').next().unwrap_or_default() {
            "." if in_mail => {
                in_mail = false;
                "250 taken\r\n".to_owned()
            }
            _ if in_mail => continue,
            "EHLO" => format!("250-mail.example\r\n250 {offers}\r\n"),
            "AUTH" if text.contains(' ') && !text.contains("AHUAaHVzaA==") => "535 no: hush\r\n".to_owned(),
            "AUTH" => "235 come in\r\n".to_owned(),
            "DATA" => {
                in_mail = true;
                "354 go on\r\n".to_owned()
            }
            "STARTTLS" => "220 go on\r\n".to_owned(),
            "QUIT" => "221 bye\r\n".to_owned(),
            _ => "250 ok\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).await.ok()?;
        if text == "STARTTLS" {
            return Some(stream.into_inner());
        }
    }
}

#[tokio::test]
async fn mails_are_sent_as_safely_as_the_configuration_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, key.cert.pem()).expect("written");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![key.cert.der().clone()],
            tokio_rustls::rustls::pki_types::PrivateKeyDer::Pkcs8(key.signing_key.serialize_der().into()),
        )
        .expect("a certificate");
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let trusted = format!("ca-file: {}", pem.display());
    let login = "username: u, password: hush";
    for (offers, wrapped, more, expected) in [
        ("8BITMIME", false, "tls: none".to_owned(), ""),
        ("8BITMIME", false, "tls: starttls".to_owned(), "it doesn't offer"),
        ("STARTTLS", false, format!("{trusted}, {login}"), ""),
        ("STARTTLS", false, login.to_owned(), "the certificate"),
        ("STARTTLS", false, format!("{trusted}, username: u, password: wrong-hush"), "the server answers 535"),
        ("AUTH PLAIN", true, format!("tls: tls, {trusted}, {login}"), ""),
    ] {
        let mut server = MailServer::start(offers, Some(tls.clone()), wrapped).await;
        let port = server.address.port();
        let mail = "from: seawall@example.org, to: ops@example.org";
        let channels =
            channels(&format!("notify:\n- {{ type: smtp, host: localhost, port: {port}, {more}, {mail} }}\n"));
        let outcome = try_out(&channels, &sender()).await.remove(0);
        let heard = server.heard().await;
        let taken = heard.iter().any(|line| line == "Subject: Seawall on db1: test of a channel");
        assert_eq!(taken, expected.is_empty(), "{more}: {outcome:?} {heard:#?}");
        let failure = outcome.err().map(|failure| format!("{failure} {failure:?}")).unwrap_or_default();
        assert_eq!(failure.is_empty(), expected.is_empty(), "{more}: {failure}");
        assert!(!failure.contains("hush"), "{more}: {failure}");
        if expected != "the certificate" {
            assert!(failure.contains(expected), "{more}: {failure}");
        }
        let logged_in = heard.iter().any(|line| line == "AUTH PLAIN AHUAaHVzaA==");
        assert_eq!(logged_in, more.ends_with(login) && expected.is_empty(), "{more}: {heard:#?}");
    }
}
