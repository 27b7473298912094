//! A session with servers that answer late, in another order, or with nonsense.

use bytes::{BufMut, BytesMut};
use tokio::io::{DuplexStream, duplex};

use super::super::wire::status;
use super::*;

const PATIENCE: Patience = Patience { silence: Duration::from_secs(10), slowest: 64 << 10 };

/// What a test's server hears and says.
struct Server(DuplexStream);

impl Server {
    /// The kind, the id and the rest of a request.
    async fn hears(&mut self) -> (u8, u32, Bytes) {
        let mut packet = receive(&mut self.0).await.expect("a request");
        (bytes::Buf::get_u8(&mut packet), bytes::Buf::get_u32(&mut packet), packet)
    }

    async fn says(&mut self, packet: &[u8]) {
        self.0.write_u32(u32::try_from(packet.len()).expect("small")).await.expect("said");
        self.0.write_all(packet).await.expect("said");
    }

    async fn gives_handle(&mut self, id: u32, handle: &[u8]) {
        let mut packet = BytesMut::new();
        packet.put_u8(102);
        packet.put_u32(id);
        packet.put_u32(u32::try_from(handle.len()).expect("small"));
        packet.extend_from_slice(handle);
        self.says(&packet).await;
    }
}

async fn begun() -> (Session, Server) {
    let (client, server) = duplex(1 << 20);
    let mut server = Server(server);
    let (session, ()) = tokio::join!(Session::begin(client, PATIENCE), async {
        receive(&mut server.0).await.expect("a beginning");
        server.says(&[2, 0, 0, 0, 3]).await;
    });
    (session.expect("a session"), server)
}

fn open(id: u32) -> Bytes {
    Request::new(Kind::Open, id, 0).bytes(b"x").number(1).attributes(None).done()
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let (session, mut server) = begun().await;
    let (first, second, ()) = tokio::join!(session.ask(0, open), session.ask(0, open), async {
        let ((_, first, _), (_, second, _)) = (server.hears().await, server.hears().await);
        server.gives_handle(4000, b"of no request").await;
        server.gives_handle(second, b"second").await;
        server.gives_handle(first, b"first").await;
    });
    assert_eq!(first, Ok(Answer::Handle(Bytes::from_static(b"first"))));
    assert_eq!(second, Ok(Answer::Handle(Bytes::from_static(b"second"))));
}

#[tokio::test]
async fn a_handle_that_comes_too_late_is_closed() {
    let (session, mut server) = begun().await;
    tokio::select! {
        _ = session.ask(0, open) => panic!("there was no answer"),
        (_, id, _) = server.hears() => server.gives_handle(id, b"late\xff").await,
    }
    let (kind, _, rest) = server.hears().await;
    assert_eq!((kind, &rest[4..]), (Kind::Close as u8, &b"late\xff"[..]));
    assert!(session.is_alive());
}

#[tokio::test]
async fn nonsense_ends_the_session_and_fails_what_waits() {
    for packet in [&[0xff, 0xff, 0xff, 0xff][..], &[0, 0, 0, 0], &[0, 0, 0, 1, 101], &[0, 0, 0, 5, 42, 0, 0, 0, 1]] {
        let (session, mut server) = begun().await;
        let (answer, ()) = tokio::join!(session.ask(0, open), async {
            server.hears().await;
            server.0.write_all(packet).await.expect("said");
        });
        assert!(matches!(answer, Err(Gone::Lost(_))), "{packet:?}: {answer:?}");
        assert!(!session.is_alive() && session.ask(0, open).await.is_err());
    }
    let (client, server) = duplex(1000);
    let mut server = Server(server);
    let (begun, ()) = tokio::join!(Session::begin(client, PATIENCE), server.says(&[2, 0, 0, 0, 2]));
    assert!(begun.expect_err("too old").contains("version 2"));
}

#[tokio::test(start_paused = true)]
async fn silence_ends_the_session_and_rest_does_not() {
    let (session, mut server) = begun().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let (answer, ()) = tokio::join!(session.ask(0, open), async {
        let (_, id, _) = server.hears().await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        server.gives_handle(id, b"in time").await;
    });
    assert!(answer.is_ok(), "an hour of rest is no silence: {answer:?}");
    let start = Instant::now();
    assert_eq!(session.ask(0, open).await, Err(Gone::Silent(Duration::from_secs(10))));
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    assert!(session.is_silent() && !session.is_alive());
    let (session, _server) = begun().await;
    let weight = 640 << 10;
    assert_eq!(session.ask(weight, open).await, Err(Gone::Silent(Duration::from_secs(20))), "bytes take time");
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_allowed() {
    let (session, mut server) = begun().await;
    let session = Arc::new(session);
    let asked: Vec<_> = (0..REQUESTS + 10)
        .map(|_| {
            let session = Arc::clone(&session);
            tokio::spawn(async move { session.ask(0, open).await })
        })
        .collect();
    let mut ids = Vec::new();
    for _ in 0..REQUESTS {
        ids.push(server.hears().await.1);
    }
    let more = timeout(Duration::from_millis(50), server.hears()).await;
    assert!(more.is_err(), "{more:?}");
    let refused = |id: u32| [&[101][..], &id.to_be_bytes(), &status::FAILURE.to_be_bytes()].concat();
    for id in ids {
        server.says(&refused(id)).await;
    }
    for _ in 0..10 {
        let (_, id, _) = server.hears().await;
        server.says(&refused(id)).await;
    }
    for asked in asked {
        assert!(matches!(asked.await.expect("no panic"), Ok(Answer::Status(_))));
    }
}
