//! Whose turn it is.

use seawall_core::Moment;
use seawall_engines::proofs::Proving;

use super::*;
use crate::fleet::Origin;
use crate::testing::database;

fn member(name: &str, schedule: &str) -> Seen {
    let tree = seawall_config::document::parse(&format!("prove: {{ schedule: {schedule} }}")).expect("YAML");
    let mut fields = seawall_config::Fields::new("databases", tree).expect("a mapping");
    let prove = Proving::take(&mut fields, name, "/".as_ref()).expect("read").flatten().map(Arc::new);
    let config = DatabaseConfig { prove, ..database(name) };
    Seen { config, origin: Origin::Configured, engine: None, running: true, coming: false, failure: None }
}

#[test]
fn whose_turn_it_is() {
    let at = |text: &str| -> Moment { format!("2026-11-{text}:00Z").parse().expect("a moment") };
    let members = [member("a", "0 5 * * *"), member("b", "0 6 * * *")];
    let (a, b) = (&members[0].config, &members[1].config);
    let board = Board::default();
    let now_and_then = |now| {
        let turns = turns(&members, &board, at(now));
        let due = turns.due.iter().map(|source| source.to_string().chars().last().unwrap_or('?')).collect::<String>();
        let unread = turns.unread.iter().map(|config| config.name.as_str()).collect::<String>();
        (unread, due, turns.then)
    };
    let expect = |unread: &str, due: &str, then: Option<&str>| (unread.to_owned(), due.to_owned(), then.map(at));
    assert_eq!(now_and_then("20T12:00"), expect("ab", "", None));
    board.read(a, Vec::new(), at("20T11:30"));
    assert_eq!(now_and_then("20T12:00"), expect("b", "a", None));
    // The records of one can't be read, and the other has no point yet.
    let away = Failure::new(seawall_core::Kind::Unavailable, "vault.unavailable", "v", "away", "wait");
    board.unread(b, &away, at("20T12:00"));
    board.pass_over(a, at("20T12:00"));
    assert_eq!(now_and_then("20T12:00").2, Some(at("20T12:00").after(Duration::from_secs(2))));
    assert_eq!(now_and_then("20T12:40"), expect("b", "a", None));
    board.read(b, Vec::new(), at("20T10:00"));
    [a, b].into_iter().for_each(|config| board.read(config, Vec::new(), at("20T13:30")));
    assert_eq!(now_and_then("20T13:30"), expect("", "ba", None), "what has waited for longer comes first");
    board.passed(b, at("20T13:30"));
    assert_eq!(now_and_then("20T13:30"), expect("", "a", Some("20T13:31")));
    board.passed(a, at("20T13:30"));
    assert_eq!(now_and_then("20T13:30"), expect("", "", Some("20T13:31")), "what came to nothing is repeated");
}

#[tokio::test]
async fn a_proof_that_is_not_wanted_any_more_is_ended() {
    let (board, end, looks) = (Board::default(), CancellationToken::new(), std::cell::Cell::new(0));
    let work = async {
        end.cancelled().await;
        "ended"
    };
    // The first change is one of another database.
    let is_wanted = || {
        looks.set(looks.get() + 1);
        board.look_again();
        looks.get() < 2
    };
    board.look_again();
    assert_eq!(while_wanted(work, &board, is_wanted, &end).await, "ended");
    assert_eq!(looks.get(), 2);
    tokio::time::timeout(Duration::from_secs(60), board.looked_for()).await.expect("other databases are looked at too");
    let done = while_wanted(async { "done" }, &board, || false, &CancellationToken::new()).await;
    assert_eq!(done, "done");
}
