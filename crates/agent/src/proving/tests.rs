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
    let (board, now) = (Board::default(), at("20T12:00"));
    let step = |now| {
        let found = next(&members, &board, now);
        found.map(|(member, step)| (member.config.name.clone(), step != Step::Read))
    };
    let turn = |name: &str, proves| Some((name.to_owned(), proves));
    assert_eq!(step(now), turn("a", false));
    board.read(&members[0].config, Vec::new(), at("20T11:00"));
    assert_eq!(step(now), turn("b", false));
    // Records that can't be read are read later, and the others don't wait.
    board.unread(&members[1].config, now);
    assert_eq!(step(now), turn("a", true));
    board.pass_over(&members[0].config, at("20T12:01"));
    assert_eq!(step(now), None);
    assert_eq!(step(at("20T13:30")), turn("b", false));
    board.read(&members[1].config, Vec::new(), at("20T10:00"));
    assert_eq!(step(at("20T13:30")), turn("b", true), "it has waited for longer");
    board.passed(&members[1].config, at("20T13:30"));
    assert_eq!(step(at("20T13:30")), turn("a", true));
    board.passed(&members[0].config, at("20T13:30"));
    assert_eq!(step(at("20T13:30")), None);
    assert_eq!(step(at("20T13:31")), turn("a", true), "a proof that came to nothing is repeated");
}
