//! Merged files do to a database what their inputs do one after the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_ltx::{Checksum, Encoder, Header, PageNo, PageSize, Txid, decode_all, merge_all};

fn apply(database: &mut Vec<u8>, file: &[u8]) {
    let header = Header::parse(file).expect("a valid file");
    decode_all(file, |page, data| {
        let at = (page.0 as usize - 1) * 512;
        database.resize(database.len().max(at + 512), 0);
        database[at..at + 512].copy_from_slice(data);
    })
    .expect("a valid file");
    database.resize(header.commit as usize * 512, 0);
}

// Each transaction: the size of the database, and a bit for each page that it writes.
fuzz_target!(|history: Vec<(u8, u16)>| {
    let Some(size) = PageSize::new(512) else { return };
    let mut files = Vec::new();
    for (txid, (commit, pages)) in (2..).zip(&history) {
        let commit = u32::from(commit % 16) + 1;
        let mut file = Vec::new();
        let header = Header::new(size, commit, Txid(txid), Txid(txid));
        let mut encoder = Encoder::new(header, &mut file).expect("a valid header");
        for page in (1..=commit).filter(|page| pages >> (page - 1) & 1 == 1) {
            encoder.push(PageNo(page), &[txid as u8; 512], &mut file).expect("an ascending page");
        }
        encoder.finish(Checksum::NONE, &mut file).expect("a complete file");
        files.push(file);
    }
    if files.is_empty() {
        return;
    }
    let (mut one_by_one, mut at_once) = (vec![255; 16 * 512], vec![255; 16 * 512]);
    files.iter().for_each(|file| apply(&mut one_by_one, file));
    let mut merged = Vec::new();
    merge_all(&files.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut merged).expect("contiguous files");
    apply(&mut at_once, &merged);
    assert!(one_by_one == at_once);
});
