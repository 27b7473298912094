//! Tells whether a proof restored a point that is newer than everything in the vault.
//!
//! Then objects of that point are gone, or the record is one of another database. In both cases the proof says nothing about the
//! objects that are left.

use std::time::Duration;

use seawall_core::{Failure, Kind, Moment, Point, Proof};

/// How far the moments of one point may differ: some stores tell times in whole seconds.
const ROUNDED: Duration = Duration::from_secs(2);

/// The failure of a vault that ends before the point of one of these proofs: of the one whose point is the last. `listed` is when the vault
/// was listed: a later proof may have restored a point that the listing lacks.
pub fn beyond<'a>(
    proofs: impl IntoIterator<Item = &'a Proof>,
    newest: Option<&Point>,
    listed: Moment,
    vault: &str,
) -> Option<Failure> {
    let of_point = |proof: &'a Proof| Some((proof, proof.point.as_ref()?));
    let good = proofs.into_iter().filter(|proof| proof.holds() && proof.at <= listed).filter_map(of_point);
    let gone = good.filter(|(_, proved)| newest.is_none_or(|newest| is_after(proved, newest)));
    let (proof, proved) = gone.reduce(|last, one| if is_after(one.1, last.1) { one } else { last })?;
    let ends = newest.map_or_else(
        || "the vault has no point".to_owned(),
        |newest| format!("the vault ends at {} ({})", newest.moment, newest.position),
    );
    let cause = format!(
        "a proof of {} restored {} ({}), and {ends}: what came after that is gone, or the record is of another database",
        proof.at, proved.moment, proved.position
    );
    let next =
        "find out who deleted objects; `seawall verify` reads what is left, and a new proof shows what can be restored";
    Some(Failure::new(Kind::Corrupt, "proof.beyond", vault, cause, next))
}

/// Whether a point is later than another one. TXIDs and the names of sets have an order of their own; moments may be rounded.
fn is_after(point: &Point, other: &Point) -> bool {
    let is_txid = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_set = |text: &str| text.len() == 28 && text.as_bytes()[8] == b'T' && text.as_bytes()[18] == b'Z';
    let (one, two) = (point.position.as_str(), other.position.as_str());
    if is_txid(one) && is_txid(two) {
        return one > two;
    }
    if is_set(one) && is_set(two) {
        // The name of a set has the moment of its host's clock, which may have been wrong.
        return one > two && point.moment > other.moment;
    }
    one != two && point.moment.since(other.moment) > ROUNDED
}

#[cfg(test)]
mod tests {
    use seawall_core::{Fault, Level};

    use super::*;

    const SETS: [&str; 2] = ["20261126T220418607Z-42d5573b", "20261126T230418607Z-00000001"];
    const LISTED: Moment = Moment::from_millis(99_000);

    fn point(position: &str, seconds: i64) -> Point {
        Point { position: position.into(), moment: Moment::from_millis(seconds * 1000) }
    }

    fn proof(point: Option<Point>) -> Proof {
        Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at: Moment::from_millis(99_000),
            point,
            level: Level::Engine,
            host: "h".into(),
            ..Proof::default()
        }
    }

    #[test]
    fn which_proofs_reach_beyond_the_vault() {
        let txid = |number: u64, seconds| point(&format!("{number:016x}"), seconds);
        for (proved, newest, expected) in [
            (None, None, false),
            (Some(txid(3, 30)), None, true),
            (Some(txid(3, 30)), Some(txid(3, 30)), false),
            (Some(txid(3, 30)), Some(txid(9, 90)), false),
            (Some(txid(3, 30)), Some(txid(2, 29)), true),
            // A copied vault: the store tells when it was copied.
            (Some(txid(3, 30)), Some(txid(2, 9000)), true),
            (Some(txid(3, 30)), Some(txid(3, 20)), false),
            // Snapshots: by their moments.
            (Some(point("shard__b", 30)), Some(point("a", 20)), true),
            (Some(point("shard__b", 30)), Some(point("a", 29)), false),
            (Some(point("a", 30)), Some(point("a", 20)), false),
            // Sets: the catalog knows when they began, and a proof when they were consistent.
            (Some(point(SETS[1], 9000)), Some(point(SETS[1], 30)), false),
            (Some(point(SETS[0], 9000)), Some(point(SETS[1], 30)), false),
            (Some(point(SETS[1], 30)), Some(point(SETS[0], 29)), true),
        ] {
            let found = beyond([&proof(proved.clone())], newest.as_ref(), LISTED, "v").is_some();
            assert_eq!(found, expected, "{proved:?} {newest:?}");
        }
        let fault = Fault { code: "c".into(), object: "o".into(), cause: "it is damaged".into() };
        let failed = Proof { faults: vec![fault], ..proof(Some(txid(3, 30))) };
        assert!(beyond([&failed], None, LISTED, "v").is_none(), "a failed proof restored nothing");
        let earlier = Moment::from_millis(98_999);
        assert!(beyond([&proof(Some(txid(3, 30)))], None, earlier, "v").is_none(), "it was made after the listing");
        // A proof that couldn't be made, or one of the shorter vault, hides no earlier proof.
        let late = Proof { inconclusive: true, ..failed };
        let (short, far) = (proof(Some(txid(1, 10))), proof(Some(txid(9, 90))));
        let found = beyond([&late, &short, &proof(Some(txid(3, 30))), &far], Some(&txid(1, 10)), LISTED, "v");
        assert!(found.is_some_and(|failure| failure.cause.contains("0000000000000009")));
    }
}
