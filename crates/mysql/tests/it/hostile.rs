//! Servers that want more than they may have, or that speak nonsense.

use std::sync::{Arc, Mutex};

use rsa::PrivateKey;
use rsa::pkcs8::{EncodePublicKey as _, LineEnding};
use seawall_core::Failure;
use seawall_mysql::Error;
use seawall_mysql::testing::{Connection, Purpose};
use sha1::Sha1;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Server, target};

const PASSWORD: &str = "s3cret";
const SCRAMBLE: &[u8; 20] = b"abcdefghijklmnopqrst";

/// What MariaDB 10.11 can do, without TLS.
const ABILITIES: u32 = 0x0108_8205 | 1 << 7 | 1 << 19;

/// One side of a conversation, which writes down everything that it hears.
struct Fake {
    stream: TcpStream,
    sequence: u8,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Fake {
    async fn send(&mut self, payload: &[u8]) {
        let mut packet = u32::try_from(payload.len()).expect("short").to_le_bytes()[..3].to_vec();
        packet.push(self.sequence);
        packet.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet).await.expect("sent");
    }

    /// The next packet; `None` when the client has left.
    async fn hear(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header).await.ok()?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.ok()?;
        self.sequence = header[3].wrapping_add(1);
        self.heard.lock().expect("heard").extend_from_slice(&payload);
        Some(payload)
    }

    async fn greet(&mut self, plugin: &str) {
        let mut payload = b"\x0a8.0.99\0\x07\0\0\0".to_vec();
        payload.extend_from_slice(&SCRAMBLE[..8]);
        payload.push(0);
        payload.extend_from_slice(&(ABILITIES as u16).to_le_bytes());
        payload.extend_from_slice(&[45, 2, 0]);
        payload.extend_from_slice(&((ABILITIES >> 16) as u16).to_le_bytes());
        payload.push(21);
        payload.extend_from_slice(&[0; 10]);
        payload.extend_from_slice(&SCRAMBLE[8..]);
        payload.push(0);
        payload.extend_from_slice(plugin.as_bytes());
        payload.push(0);
        self.send(&payload).await;
    }

    async fn ok(&mut self) {
        self.send(b"\0\0\0\x02\0\0\0").await;
    }

    /// Asks for another way to log in, and returns the answer.
    async fn switch(&mut self, plugin: &str) -> Option<Vec<u8>> {
        let request = [b"\xfe", plugin.as_bytes(), b"\0", SCRAMBLE, b"\0"].concat();
        self.send(&request).await;
        self.hear().await
    }

    /// Agrees to everything until a statement that isn't of the setup.
    async fn until_statement(&mut self) {
        while let Some(statement) = self.hear().await {
            if statement.starts_with(b"\x03SELECT") || statement.starts_with(b"\x03LOAD") {
                return;
            }
            self.ok().await;
        }
    }
}

/// Runs a server that speaks to one client. Returns its port and what it heard.
async fn fake<F, R>(conversation: F) -> (u16, Arc<Mutex<Vec<u8>>>)
where
    F: FnOnce(Fake) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&heard);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepted");
        conversation(Fake { stream, sequence: 0, heard: writes }).await;
    });
    (port, heard)
}

fn url(port: u16, settings: &str) -> String {
    format!("mysql://app:{PASSWORD}@127.0.0.1:{port}/{settings}")
}

fn contains(heard: &Arc<Mutex<Vec<u8>>>, what: &str) -> bool {
    heard.lock().expect("heard").windows(what.len()).any(|window| window == what.as_bytes())
}

async fn open(port: u16, settings: &str, purpose: Purpose) -> Result<Connection, Error> {
    Connection::open_for(&target(&url(port, settings)), purpose).await
}

#[tokio::test]
async fn a_server_gets_no_file_that_no_statement_asked_for() {
    for purpose in [Purpose::Statements, Purpose::Rows, Purpose::Load] {
        for (call, name) in
            [("query", "/etc/passwd"), ("rows", "seawall"), ("load", "/etc/passwd"), ("execute", "seawall")]
        {
            if call == "load" && purpose != Purpose::Load {
                continue;
            }
            let (port, heard) = fake(move |mut server: Fake| async move {
                server.greet("mysql_native_password").await;
                server.hear().await;
                server.ok().await;
                server.until_statement().await;
                server.send(&[b"\xfb", name.as_bytes()].concat()).await;
                while server.hear().await.is_some() {}
            })
            .await;
            let mut connection = open(port, "", purpose).await.expect("connected");
            let answer = match call {
                "query" => connection.query("SELECT 1").await.map(drop),
                "execute" => connection.execute("SELECT 1").await.map(drop),
                "rows" => connection.rows("SELECT 1").await.map(drop),
                _ => connection.load("LOAD DATA LOCAL INFILE 'seawall' INTO TABLE t").await.map(drop),
            };
            let failure = Failure::from(answer.expect_err("refused"));
            assert_eq!(failure.code, "mysql.asks-for-file", "{purpose:?} {call} {failure:?}");
            drop(connection);
            assert!(!contains(&heard, "root:"), "{call}");
        }
    }
}

#[tokio::test]
async fn a_server_that_nothing_proves_gets_no_password() {
    for (first, plugin) in [
        ("mysql_native_password", "mysql_clear_password"),
        ("mysql_clear_password", "mysql_clear_password"),
        ("caching_sha2_password", "sha256_password"),
        ("mysql_native_password", "unheard_of"),
        ("mysql_native_password", "auth_socket"),
    ] {
        let (port, heard) = fake(move |mut server: Fake| async move {
            server.greet(first).await;
            server.hear().await;
            server.switch(plugin).await;
        })
        .await;
        let failure = Failure::from(open(port, "", Purpose::Statements).await.map(drop).expect_err("refused"));
        assert_eq!(failure.code, "mysql.password", "{plugin}: {failure:?}");
        assert!(!contains(&heard, PASSWORD) && contains(&heard, "app\0"), "{plugin}");
        assert!(!format!("{failure:?}").contains(PASSWORD), "{failure:?}");
    }
}

#[tokio::test]
async fn caching_sha2_is_fast_where_the_server_knows_the_hash() {
    let (port, heard) = fake(|mut server: Fake| async move {
        server.greet("caching_sha2_password").await;
        let answer = server.hear().await.expect("an answer");
        assert!(answer.windows(22).any(|window| window == b"caching_sha2_password\0"));
        server.send(b"\x01\x03").await;
        server.ok().await;
        server.until_statement().await;
        server.ok().await;
    })
    .await;
    let mut connection = open(port, "", Purpose::Statements).await.expect("logged in");
    connection.execute("SELECT 1").await.expect("done");
    assert!(!contains(&heard, PASSWORD));
}

#[tokio::test]
async fn parsec_answers_once_with_random_bytes_and_a_signature() {
    let (port, heard) = fake(|mut server: Fake| async move {
        server.greet("mysql_native_password").await;
        server.hear().await.expect("an answer");
        server.send(&[b"\xfeparsec\0", &[9; 31][..], b"\0"].concat()).await;
        assert_eq!(server.hear().await.expect("a request for the salt"), b"");
        server.send(&[b"P\0", &[5; 18][..]].concat()).await;
        assert_eq!(server.hear().await.expect("an answer").len(), 96);
        server.ok().await;
        server.until_statement().await;
        server.ok().await;
    })
    .await;
    let mut connection = open(port, "", Purpose::Statements).await.expect("logged in");
    connection.execute("SELECT 1").await.expect("done");
    assert!(!contains(&heard, PASSWORD));
    let (port, _) = fake(|mut server: Fake| async move {
        server.greet("mysql_native_password").await;
        server.hear().await.expect("an answer");
        server.send(&[b"\xfeparsec\0", &[9; 32][..]].concat()).await;
        server.hear().await.expect("a request for the salt");
        server.send(&[b"P\0", &[5; 18][..]].concat()).await;
        server.hear().await.expect("an answer");
        server.send(&[b"P\0", &[6; 18][..]].concat()).await;
        assert_eq!(server.hear().await, None, "a second signature");
    })
    .await;
    let refused = open(port, "", Purpose::Statements).await.map(drop).expect_err("it asks again");
    assert_eq!(Failure::from(refused).code, "mysql.password");
}

#[tokio::test]
async fn a_password_is_encrypted_with_the_servers_key() {
    let key = PrivateKey::new(&mut getrandom_sys::SysRng, 2048).expect("a key");
    let pem = key.as_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("public_key.pem");
    std::fs::write(&file, &pem).expect("written");
    let pinned = format!("?server-public-key-path={}", file.display());
    let any = "?get-server-public-key=1".to_owned();
    for plugin in ["caching_sha2_password", "sha256_password"] {
        for (settings, asks) in [(pinned.clone(), false), (any.clone(), true)] {
            let (pem, got) = (pem.clone(), Arc::new(Mutex::new(Vec::new())));
            let gets = Arc::clone(&got);
            let (port, heard) = fake(move |mut server: Fake| async move {
                server.greet("mysql_native_password").await;
                server.hear().await;
                let mut answer = server.switch(plugin).await.expect("an answer");
                if plugin == "caching_sha2_password" {
                    assert_eq!(answer.len(), 32, "a proof");
                    server.send(b"\x01\x04").await;
                    answer = server.hear().await.expect("an answer");
                }
                if asks {
                    assert_eq!(answer, [if plugin == "sha256_password" { 1 } else { 2 }]);
                    server.send(&[b"\x01", pem.as_bytes()].concat()).await;
                    answer = server.hear().await.expect("an answer");
                }
                *gets.lock().expect("gets") = answer;
                server.ok().await;
                server.until_statement().await;
            })
            .await;
            drop(
                open(port, &settings, Purpose::Statements)
                    .await
                    .unwrap_or_else(|error| panic!("{plugin} {asks}: {error}")),
            );
            let sent = got.lock().expect("got").clone();
            let plain = key.oaep_decrypt::<Sha1>(&sent).expect("decrypted");
            let plain: Vec<u8> = plain.iter().zip(SCRAMBLE).map(|(a, b)| a ^ b).collect();
            assert_eq!(plain, b"s3cret\0", "{plugin} {asks}");
            assert!(!contains(&heard, PASSWORD));
        }
    }
}

#[tokio::test]
async fn nonsense_is_an_error_and_never_waits() {
    let answers: [(&str, Vec<Vec<u8>>); 9] = [
        ("an empty packet", vec![vec![]]),
        ("a cut OK", vec![vec![0]]),
        ("a cut error", vec![vec![0xFF, 1]]),
        ("too many columns", vec![vec![0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]]),
        ("another answer to come", vec![b"\0\0\0\x0a\0\0\0".to_vec()]),
        ("a row of another width", vec![vec![1], b"def".to_vec(), b"\x01a\x01b".to_vec()]),
        ("a row that is cut", vec![vec![1], b"def".to_vec(), b"\x09a".to_vec()]),
        ("a row without a byte", vec![vec![1], b"def".to_vec(), vec![]]),
        ("an end that is cut", vec![vec![1], b"def".to_vec(), vec![0xFE]]),
    ];
    for (what, packets) in answers {
        for streams in [false, true] {
            let packets = packets.clone();
            let (port, _) = fake(move |mut server: Fake| async move {
                server.greet("mysql_native_password").await;
                server.hear().await;
                server.ok().await;
                server.until_statement().await;
                for packet in packets {
                    server.send(&packet).await;
                }
                while server.hear().await.is_some() {}
            })
            .await;
            let mut connection = open(port, "", Purpose::Rows).await.expect("connected");
            let answer = match streams {
                false => connection.query("SELECT 1").await.map(drop),
                true => match connection.rows("SELECT 1").await {
                    Ok(mut rows) => rows.fill(&mut Vec::with_capacity(1 << 16)).await.map(drop),
                    Err(error) => Err(error),
                },
            };
            assert_eq!(Failure::from(answer.expect_err(what)).code, "mysql.protocol", "{what} {streams}");
        }
    }
    for greeting in [&b""[..], b"\x09old", b"\x0a8.0", b"HTTP/1.1 400 Bad Request"] {
        let (port, _) = fake(move |mut server: Fake| async move {
            server.send(greeting).await;
            server.hear().await;
        })
        .await;
        let failure = Failure::from(open(port, "", Purpose::Statements).await.map(drop).expect_err("nonsense"));
        assert_eq!(failure.code, "mysql.protocol", "{failure:?}");
    }
}

#[tokio::test]
async fn questions_of_a_login_have_an_end() {
    let (port, _) = fake(|mut server: Fake| async move {
        server.greet("caching_sha2_password").await;
        server.hear().await;
        while server.switch("mysql_native_password").await.is_some() {}
    })
    .await;
    let failure = Failure::from(open(port, "", Purpose::Statements).await.map(drop).expect_err("without end"));
    assert_eq!(failure.code, "mysql.protocol", "{failure:?}");
}

/// MariaDB's PAM asks for a password in clear; a server with a checked certificate gets it, and no other does.
#[tokio::test]
async fn a_password_in_clear_goes_through_a_checked_certificate() {
    let server = Server::start_with(&["--plugin-load-add=auth_pam", "--pam-use-cleartext-plugin"]);
    server.sql("CREATE USER pam IDENTIFIED VIA pam USING 'no-such-service'");
    let ca = server.file("ca.pem");
    for (settings, code) in [
        ("?ssl-mode=DISABLED".to_owned(), "mysql.password"),
        ("?ssl-mode=REQUIRED".to_owned(), "mysql.password"),
        ("?ssl-mode=REQUIRED&get-server-public-key=1".to_owned(), "mysql.password"),
        // The server knows no such service, and so refuses the password that it got.
        (format!("?ssl-mode=VERIFY_CA&ssl-ca={ca}"), "mysql.login"),
    ] {
        let url = server.tcp("pam:s3cret", &settings);
        let failure = Failure::from(Connection::open(&target(&url)).await.map(drop).expect_err("refused"));
        assert_eq!(failure.code, code, "{settings}: {failure:?}");
    }
}
