//! Every valid golden file reads as the manifest says.

use seawall_ltx::{
    Error, Generation, Index, PageNo, Result, Rolling, Summary, decode_all, decode_any, decode_frame, page_checksum,
};
use serde_json::Value;

use crate::support::{golden, golden_json, hex, read, sha256, text};

fn files(format: &str) -> Vec<Value> {
    let manifest = golden_json("manifest.json");
    let all = manifest["files"].as_array().unwrap();
    all.iter().filter(|file| file["format"] == format).cloned().collect()
}

#[test]
fn every_file_of_the_current_generation_reads_as_recorded() {
    let files = files("v3");
    assert!(files.len() > 100);
    read_as_recorded(&files, None, |file, visit| decode_all(file, visit));
}

#[test]
fn every_file_of_an_older_generation_reads_as_recorded() {
    for (format, generation) in [("v1", Generation::V1), ("v1lz4", Generation::V1Lz4), ("v2", Generation::V2)] {
        let files = files(format);
        assert!(files.len() >= 4);
        read_as_recorded(&files, Some(generation), |file, visit| decode_any(file, visit));
    }
}

type Visit<'a> = &'a mut dyn FnMut(PageNo, &[u8]);

/// Reads files and compares them with the facts of the manifest.
fn read_as_recorded(
    files: &[Value],
    generation: Option<Generation>,
    decode: impl Fn(&[u8], Visit<'_>) -> Result<Summary>,
) {
    for facts in files {
        let name = text(facts, "file");
        let file = golden(name);
        assert_eq!(sha256(&file), text(facts, "sha256"), "{name}");
        let mut numbers = Vec::new();
        let mut data = Vec::new();
        let mut sum = Rolling::new();
        assert_eq!(Generation::detect(&file), Ok(generation), "{name}");
        let summary = decode(&file, &mut |page, bytes| {
            numbers.push(page.0);
            data.extend_from_slice(bytes);
            sum.toggle(page_checksum(page, bytes));
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));

        let header = summary.header;
        assert_eq!(u64::from(header.no_checksum) * 2, !1 & facts["flags"].as_u64().unwrap(), "{name}");
        assert_eq!(u64::from(header.page_size.get()), facts["page_size"].as_u64().unwrap(), "{name}");
        assert_eq!(u64::from(header.commit), facts["commit"].as_u64().unwrap(), "{name}");
        assert_eq!(header.min_txid.0, hex(facts, "min_txid"), "{name}");
        assert_eq!(header.max_txid.0, hex(facts, "max_txid"), "{name}");
        assert_eq!(header.timestamp_ms, facts["timestamp"].as_i64().unwrap(), "{name}");
        assert_eq!(header.pre_apply.0, hex(facts, "pre_apply"), "{name}");
        assert_eq!(header.wal_offset, facts["wal_offset"].as_u64().unwrap(), "{name}");
        assert_eq!(header.wal_size, facts["wal_size"].as_u64().unwrap(), "{name}");
        assert_eq!(u64::from(header.wal_salt1), hex(facts, "wal_salt1"), "{name}");
        assert_eq!(u64::from(header.wal_salt2), hex(facts, "wal_salt2"), "{name}");
        assert_eq!(header.node_id, facts["node_id"].as_u64().unwrap(), "{name}");
        assert_eq!(header.is_snapshot(), facts["snapshot"].as_bool().unwrap(), "{name}");
        assert_eq!(header.encode()[8..], file[8..100], "{name}");
        assert_eq!(summary.trailer.post_apply.0, hex(facts, "post_apply"), "{name}");
        assert_eq!(summary.trailer.file.0, hex(facts, "file_checksum"), "{name}");
        let recorded: Vec<u32> = serde_json::from_value(facts["pages"].clone()).unwrap();
        assert_eq!(numbers, recorded, "{name}");
        assert_eq!(summary.pages, recorded.len() as u64, "{name}");
        assert_eq!(sha256(&data), text(facts, "pages_sha256"), "{name}");
        if facts["snapshot"] == true {
            assert_eq!(sum.checksum().0, hex(facts, "db_checksum"), "{name}");
        }
    }
}

#[test]
fn every_index_leads_to_the_pages() {
    for facts in files("v3") {
        let name = text(&facts, "file");
        let file = golden(name);
        let (summary, pages) = read(&file, file.len(), 1).unwrap();
        let len = file.len() as u64;
        let needed = facts["index_size"].as_u64().unwrap() + 24;
        assert_eq!(Index::parse(&[], len), Err(Error::TailTooShort { needed: 24 }), "{name}");
        assert_eq!(Index::parse(&file[file.len() - 24..], len), Err(Error::TailTooShort { needed }), "{name}");
        let index = Index::parse(&file[(len - needed) as usize..], len).unwrap();
        assert_eq!(Index::parse(&file, len), Ok(index.clone()), "{name}");
        assert_eq!(index.trailer(), summary.trailer, "{name}");
        index.check(&summary.header).unwrap();
        assert_eq!(index.entries().len(), pages.len(), "{name}");
        for (number, data) in pages {
            let entry = index.find(PageNo(number)).unwrap();
            let frame = &file[entry.offset as usize..][..entry.size as usize];
            assert_eq!(decode_frame(summary.header.page_size, frame), Ok((PageNo(number), data)), "{name}");
        }
    }
}

#[test]
fn older_generations_are_refused_by_name() {
    for (format, generation) in [("v1", Generation::V1), ("v1lz4", Generation::V1Lz4), ("v2", Generation::V2)] {
        let files = files(format);
        assert!(!files.is_empty());
        for facts in files {
            let name = text(&facts, "file");
            let error = decode_all(&golden(name), |_, _| ()).unwrap_err();
            assert_eq!(error, Error::Generation(generation), "{name}");
        }
    }
}
