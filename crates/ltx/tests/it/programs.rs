//! The programs in `examples/`, run on golden files.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

use seawall_ltx::{PageNo, Txid, decode_all};
use serde_json::Value;

use crate::support::{golden, golden_json, golden_path, sha256, text};

#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/apply.rs"]
mod apply;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/from_wal.rs"]
mod from_wal;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/info.rs"]
mod info;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../examples/page.rs"]
mod page;

#[test]
fn info_prints_what_the_manifest_says() {
    for facts in golden_json("manifest.json")["files"].as_array().unwrap() {
        let name = text(facts, "file");
        let printed = info::info(&golden(name)).unwrap();
        let line = |label: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(label));
            line.unwrap_or_else(|| panic!("{name}: no {label} in {printed}")).trim().to_owned()
        };
        let generation = match text(facts, "format") {
            "v1" => "1",
            "v1lz4" => "1 (compressed)",
            "v2" => "2",
            _ => "current",
        };
        assert_eq!(line("generation"), generation, "{name}");
        assert_eq!(line("kind"), if facts["snapshot"] == true { "snapshot" } else { "increment" }, "{name}");
        let [min, max] = ["min_txid", "max_txid"].map(|field| text(facts, field));
        assert_eq!(line("transactions"), format!("{min} to {max}"), "{name}");
        assert_eq!(line("page size"), facts["page_size"].to_string(), "{name}");
        assert_eq!(line("database"), format!("{} pages", facts["commit"]), "{name}");
        assert_eq!(line("pre-apply"), text(facts, "pre_apply"), "{name}");
        assert_eq!(line("post-apply"), text(facts, "post_apply"), "{name}");
        assert_eq!(line("file checksum"), text(facts, "file_checksum"), "{name}");
        let pages: Vec<String> = facts["pages"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(line("pages"), pages.join(" "), "{name}");
    }
}

#[test]
fn apply_builds_each_state_of_a_chain() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = golden_json("manifest.json");
    for name in ["chain-512", "chain-4096"] {
        let chain = manifest["chains"].as_array().unwrap().iter().find(|chain| chain["name"] == name).unwrap();
        let after = chain["after"].as_array().unwrap();
        let paths: Vec<PathBuf> = after.iter().map(|state| golden_path(text(state, "file"))).collect();
        for (at, state) in after.iter().enumerate() {
            let (new, grown) = (folder.path().join(format!("{name}-{at}.db")), folder.path().join(name));
            // All at once into a new database, and file by file into one that exists.
            let applied = [
                (&new, apply::apply(&new, &paths[..=at]).unwrap()),
                (&grown, apply::apply(&grown, &paths[at..=at]).unwrap()),
            ];
            for (database, applied) in applied {
                assert_eq!(sha256(&std::fs::read(database).unwrap()), text(state, "db_sha256"), "{name} {at}");
                assert_eq!(applied.checksum.unwrap().to_string(), text(state, "post_apply"), "{name} {at}");
            }
        }
        assert!(apply::apply(&folder.path().join("gap.db"), &[paths[0].clone(), paths[2].clone()]).is_err());
    }
}

/// Counts the bytes that are read.
struct Counted(Cursor<Vec<u8>>, u64);

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(out)?;
        self.1 += read as u64;
        Ok(read)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn page_reads_header_index_and_one_frame() {
    let files = golden_json("manifest.json");
    let files = files["files"].as_array().unwrap().iter().filter(|facts| facts["format"] == "v3");
    for facts in files {
        let name = text(facts, "file");
        let file = golden(name);
        let mut pages = Vec::new();
        let header = decode_all(&file, |number, data| pages.push((number, data.to_vec()))).unwrap().header;
        let mut counted = Counted(Cursor::new(file), 0);
        for (number, data) in pages.iter().take(20) {
            counted.1 = 0;
            assert_eq!(page::page(&mut counted, *number).unwrap().as_ref(), Some(data), "{name}");
            let frame = header.page_size.bytes() as u64 * 260 / 256 + 40;
            let most = 100 + 24 + 24 + facts["index_size"].as_u64().unwrap() + frame;
            assert!(counted.1 <= most, "{name}: {} bytes", counted.1);
        }
        assert_eq!(page::page(&mut counted, PageNo(header.commit + 1)).unwrap(), None, "{name}");
    }
    for facts in golden_json("manifest.json")["corrupted"].as_array().unwrap() {
        // Damage elsewhere in the file isn't seen. Whatever there is, no panic.
        let _ = page::page(&mut Cursor::new(golden(text(facts, "file"))), PageNo(1));
    }
}

#[test]
fn from_wal_holds_what_a_checkpoint_brings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = rusqlite::Connection::open(path("app.db")).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x)").unwrap();
    let mut files = Vec::new();
    for txid in 1..=5 {
        db.execute("INSERT INTO t VALUES (zeroblob(7000 * ?1))", [txid as i64]).unwrap();
        let wal = std::fs::read(path("app.db-wal")).unwrap();
        let file = from_wal::from_wal(&wal, Txid(txid), 0).unwrap();
        let name = path(&format!("{txid}.ltx"));
        std::fs::write(&name, file).unwrap();
        files.push(name);
        // The next log begins anew.
        let busy: i64 = db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0);
        let copy = path(&format!("{txid}.db"));
        assert_eq!(apply::apply(&copy, &files).unwrap().txid, Txid(txid));
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(path("app.db")).unwrap(), "transaction {txid}");
    }
    assert!(from_wal::from_wal(b"no log", Txid(1), 0).is_err());
}
