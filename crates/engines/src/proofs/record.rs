//! What is the record of a proof called, and which bytes are one?
//!
//! A record is read by every host that can read the vault, and anybody who can write to the vault can make one. So it is
//! parsed as hostile bytes (I11): of bounded size, in exactly this form, with the moment that its name has, with figures that a proof
//! can have, and without characters that a reader doesn't see in their place.

use std::time::Duration;

use seawall_core::{Description, Fault, Moment, Proof, is_visible};
use serde::{Deserialize, Serialize};

use super::settings::MOST_MOMENTS;

/// The folder of records below a database's place.
const FOLDER: &str = "seawall/proofs/";

/// How far the clock of the host that proved may be ahead of this one. A record that is later isn't looked at: its proof would hide
/// what proofs of now find.
pub(super) const AHEAD: Duration = Duration::from_secs(15 * 60);

/// How far the clock of the host that wrote a point may be ahead of that of the host that proved it.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// The largest record.
pub(super) const MOST: u64 = 128 << 10;

/// Faults and doubts that a record keeps.
const MOST_LINES: usize = 20;

/// Letters of each text that a record keeps.
const MOST_LETTERS: usize = 300;

/// The largest number of bytes: what JSON holds exactly.
const MOST_BYTES: u64 = 1 << 53;

/// The longest proof, in milliseconds: a year.
const LONGEST: u64 = 366 * 86_400_000;

/// The only form that is written.
const FORMAT: u32 = 1;

/// The form of a record; see `docs/formats.md`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    proof: Proof,
}

/// The folder of a database's records, below the vault's prefix. Environments share a vault, so theirs are apart by name.
pub(super) fn folder(engine: &str, name: &str) -> String {
    if engine == "lmdb" { format!("{FOLDER}{name}/") } else { FOLDER.to_owned() }
}

/// Whether a key is in a folder of records.
pub(super) fn is_in_folder(key: &str) -> bool {
    key.starts_with(FOLDER)
}

/// The name of a record in its folder. Names sort by time.
pub(super) fn name(at: Moment, nonce: u32) -> String {
    let stamp: String = at.to_string().chars().filter(|c| !matches!(c, '-' | ':' | '.')).collect();
    format!("{stamp}-{nonce:08x}.json")
}

/// The moment of a record's name; `None` for other names.
pub(crate) fn moment_of(name: &str) -> Option<Moment> {
    let (stamp, nonce) = name.strip_suffix(".json")?.split_once('-')?;
    let part = |from: usize, to: usize| stamp.get(from..to);
    let text = format!(
        "{}-{}-{}T{}:{}:{}.{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(9, 11)?,
        part(11, 13)?,
        part(13, 15)?,
        part(15, 18)?
    );
    let at: Moment = text.parse().ok()?;
    let nonce = u32::from_str_radix(nonce, 16).ok()?;
    (self::name(at, nonce) == name).then_some(at)
}

/// A record's bytes. Long texts and lists are cut, so that every record can be read again.
pub(super) fn bytes(proof: &Proof) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Record { format: FORMAT, proof: cut(proof.clone()) })
}

/// A text as a record has it: without letters that aren't seen, and not too long.
fn as_recorded(text: &str) -> String {
    text.chars().filter(|c| is_visible(*c)).take(MOST_LETTERS).collect()
}

fn cut(mut proof: Proof) -> Proof {
    make_plausible(&mut proof);
    let more = |count: usize| count.checked_sub(MOST_LINES).filter(|more| *more > 0);
    if let Some(more) = more(proof.faults.len()) {
        proof.faults.truncate(MOST_LINES);
        proof.doubts.insert(0, format!("{more} more faults aren't in this record"));
    }
    proof.doubts.truncate(MOST_LINES);
    texts(&mut proof).into_iter().for_each(|text| {
        *text = as_recorded(text);
    });
    proof
}

/// Makes of a proof one that readers take ([`is_plausible`]): what is wrong with its figures is told, and it is recorded all the same.
fn make_plausible(proof: &mut Proof) {
    let (at, latest) = (proof.at, proof.at.after(SKEW));
    proof.vault.clear();
    proof.moments.truncate(MOST_MOMENTS as usize);
    for point in proof.point.iter_mut().chain(&mut proof.moments).filter(|point| point.moment > latest) {
        let doubt = format!(
            "the point {} has the moment {}, which is later than the proof: a clock was wrong, so the moment of the proof stands here",
            point.position, point.moment
        );
        proof.doubts.insert(0, doubt);
        point.moment = at;
    }
    let Proof { objects, read_bytes, fresh_bytes, restored_bytes, restore_ms, duration_ms, .. } = proof;
    [objects, read_bytes, fresh_bytes, restored_bytes]
        .into_iter()
        .for_each(|number| *number = (*number).min(MOST_BYTES));
    [restore_ms, duration_ms].into_iter().for_each(|span| *span = (*span).min(LONGEST));
    if proof.inconclusive && proof.faults.is_empty() {
        let cause = "it isn't known why the proof couldn't be made".to_owned();
        proof.faults.push(Fault { code: "proof.internal".to_owned(), object: proof.database.clone(), cause });
    }
}

/// Every text of a proof that a host chose freely.
fn texts(proof: &mut Proof) -> Vec<&mut String> {
    let Proof { database, engine, point, moments, faults, doubts, host, .. } = proof;
    let mut all = vec![database, engine, host];
    all.extend(point.iter_mut().chain(moments).map(|point| &mut point.position));
    all.extend(doubts);
    all.extend(faults.iter_mut().flat_map(|fault| [&mut fault.code, &mut fault.object, &mut fault.cause]));
    all
}

/// The proof of a record of this name; an error says why the bytes are no record.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Proof, &'static str> {
    if bytes.len() as u64 > MOST {
        return Err("it is too long");
    }
    let record: Record = serde_json::from_slice(bytes).map_err(|_| "it has not the form of a record")?;
    let mut proof = record.proof;
    if record.format != FORMAT {
        return Err("its format is unknown");
    }
    if moment_of(name) != Some(proof.at) {
        return Err("its moment is another one than its name says");
    }
    if proof.faults.len() > MOST_LINES || proof.doubts.len() > MOST_LINES {
        return Err("it has too many lines");
    }
    let is_odd = |text: &&mut String| text.chars().count() > MOST_LETTERS || !text.chars().all(is_visible);
    if texts(&mut proof).iter().any(is_odd) {
        return Err("it holds a text that no proof has");
    }
    if !is_plausible(&proof) {
        return Err("it holds figures that no proof has");
    }
    Ok(proof)
}

/// Whether a proof can have these figures.
fn is_plausible(proof: &Proof) -> bool {
    let Proof { at, point, moments, objects, read_bytes, fresh_bytes, restored_bytes, restore_ms, duration_ms, .. } =
        proof;
    let latest = at.after(SKEW);
    [objects, read_bytes, fresh_bytes, restored_bytes].into_iter().all(|number| *number <= MOST_BYTES)
        && [restore_ms, duration_ms].into_iter().all(|span| *span <= LONGEST)
        && moments.len() <= MOST_MOMENTS as usize
        && point.iter().chain(moments).all(|point| point.moment <= latest)
        && proof.vault.is_empty()
        // A proof that couldn't be made says why.
        && !(proof.inconclusive && proof.faults.is_empty())
}

/// Whether a record is one of this database. Hosts may call a database by the URL of its vault, and a vault alone doesn't know its
/// name.
pub(super) fn belongs(proof: &Proof, database: &Description) -> Result<(), &'static str> {
    let is_server = |engine: &str| matches!(engine, "postgres" | "mysql" | "server");
    let same_engine = match database.engine {
        "sets" | "server" => is_server(&proof.engine),
        engine => proof.engine == engine,
    };
    let same_name = proof.database == as_recorded(&database.name)
        || database.engine != "lmdb" && (database.source.is_none() || proof.database.contains("://"));
    match (same_engine, same_name) {
        (true, true) => Ok(()),
        (false, _) => Err("it is of another engine"),
        (true, false) => Err("it is of another database"),
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::Point;

    use super::*;

    fn proof() -> Proof {
        let at = Moment::from_millis(1_795_169_472_123);
        Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at,
            point: Some(Point { position: "0000000000000001".into(), moment: at }),
            restore_ms: 41_000,
            duration_ms: 60_000,
            objects: 3,
            read_bytes: 9,
            restored_bytes: 12,
            host: "here".into(),
            ..Proof::default()
        }
    }

    #[test]
    fn names_have_a_moment() {
        let name = name(proof().at, 10);
        assert_eq!(name, "20261120T101112123Z-0000000a.json");
        assert_eq!(moment_of(&name), Some(proof().at));
        for other in [
            "20261120T101112123Z-0000000A.json",
            "20261120T101112123Z-a.json",
            "20261320T101112123Z-0000000a.json",
            "20261120T101112123Z-0000000a.json.tmp",
            "20261120X101112123Z-0000000a.json",
            "x.json",
            "",
            "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}-0000000a.json",
        ] {
            assert_eq!(moment_of(other), None, "{other}");
        }
        assert_eq!(folder("sqlite", "app"), "seawall/proofs/");
        assert_eq!(folder("lmdb", "main"), "seawall/proofs/main/");
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let name = name(proof().at, 1);
        let good = String::from_utf8(bytes(&proof()).expect("JSON")).expect("text");
        assert_eq!(parse(&name, good.as_bytes()), Ok(proof()));
        let later = super::name(Moment::from_millis(0), 1);
        for (name, text) in [
            (&later, good.clone()),
            (&name, good.replace("\"format\":1", "\"format\":2")),
            (&name, good.replace("\"format\":1", "\"format\":1,\"more\":1")),
            (&name, good.replace("here", "he\\nre")),
            (&name, good.replace("here", &"x".repeat(301))),
            (&name, good.replace("here", "he\u{200b}re")),
            (&name, good.replace("here", "he\\u202ere")),
            (&name, good.replace("\"objects\":3", "\"objects\":18446744073709551615")),
            (&name, good.replace("\"restored_bytes\":12", "\"restored_bytes\":9007199254740993")),
            (&name, good.replace("\"duration_ms\":60000", "\"duration_ms\":31622400001")),
            (&name, good.replace("\"moment\":\"2026", "\"moment\":\"2027")),
            (&name, good.replace("\"faults\":[]", "\"faults\":[],\"inconclusive\":true")),
            (&name, good.replace("content", "sound")),
            (&name, good.replace("\"doubts\"", "\"others\"").replacen('{', "[", 1)),
            (&name, good.clone() + &" ".repeat(128 << 10)),
            (&name, String::new()),
            (&name, "[".repeat(1000)),
        ] {
            assert!(parse(name, text.as_bytes()).is_err(), "{text:.200}");
        }
    }

    #[test]
    fn what_a_wrong_clock_or_a_strange_engine_says_is_recorded_so_that_it_is_read() {
        let point = |days: u32| Point { position: "7".into(), moment: proof().at.after(SKEW.saturating_mul(days)) };
        for (made, doubts) in [
            (Proof { point: Some(point(400)), ..proof() }, 1),
            (Proof { point: Some(point(1)), moments: vec![point(2); 99], ..proof() }, 20),
            (Proof { objects: u64::MAX, read_bytes: u64::MAX, restored_bytes: u64::MAX, ..proof() }, 0),
            (Proof { restore_ms: u64::MAX, duration_ms: u64::MAX, fresh_bytes: u64::MAX, ..proof() }, 0),
            (Proof { inconclusive: true, ..proof() }, 0),
            (Proof { vault: "s3://b".into(), ..proof() }, 0),
        ] {
            let read = parse(&name(made.at, 1), &bytes(&made).expect("JSON")).expect("a record that is read");
            assert_eq!((read.doubts.len(), read.inconclusive), (doubts, made.inconclusive), "{read:?}");
            assert!(read.vault.is_empty() && read.point.is_some_and(|point| point.position.len() <= 16));
        }
    }

    #[test]
    fn a_record_is_never_too_long_to_be_read() {
        let fault = Fault { code: "x.y".into(), object: "\u{1b}o".repeat(1000), cause: "\u{20ac}".repeat(1000) };
        let long = Proof { faults: vec![fault; 500], doubts: vec!["d\n".repeat(900); 500], ..proof() };
        let written = bytes(&long).expect("JSON");
        let read = parse(&name(long.at, 7), &written).expect("a record");
        assert_eq!((read.faults.len(), read.doubts.len()), (MOST_LINES, MOST_LINES));
        assert!(read.doubts[0].starts_with("480 more faults"), "{}", read.doubts[0]);
    }
}
