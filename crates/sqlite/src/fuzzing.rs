//! The crate's parsers of foreign bytes, for the fuzz target `sqlite_parsers`. Not part of the interface.

use seawall_vault::Layout;

use crate::holes::HoleRecord;
use crate::layout::parse_key;
use crate::plan::{latest, stretches};
use crate::state::Record;
use crate::wal::{HEADER_SIZE, IndexHeader, Scan, WalHeader};

/// Reads `bytes` as everything that comes from disk or vault; none of it may panic, whatever they are.
pub fn parse(bytes: &[u8]) {
    if let Some(header) = WalHeader::parse(bytes) {
        let mut scan = Scan::new(HEADER_SIZE, header.chain);
        scan.take(&header, bytes.get(HEADER_SIZE as usize..).unwrap_or_default(), u64::MAX);
        scan.newest();
    }
    let _header = IndexHeader::parse(bytes);
    let _record = serde_json::from_slice::<Record>(bytes).map(|record| record.remembered("file:///vault").is_some());
    let _hole = serde_json::from_slice::<HoleRecord>(bytes).map(|hole| hole.to_txid());
    let text = String::from_utf8_lossy(bytes);
    for layout in [Layout::Files, Layout::Objects] {
        let files: Vec<_> = text.lines().filter_map(|line| parse_key(layout, line, 1)).collect();
        stretches(&files);
        let _chain = latest(&files);
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::wal::tests::Writer;
    use crate::wal::{Salts, WordOrder};

    /// The target itself, for as long as a test may take: whole files with random damage, and noise.
    #[test]
    fn no_bytes_panic() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut wal = Writer::new(WordOrder::Little, 512, Salts(1, 2));
        (1..5).for_each(|page| wal.frame(page, page, 7));
        let key =
            b"ltx/0/ffffffffffffffff-ffffffffffffffff.ltx\nltx/9/0000000000000001-ffffffffffffffff.ltx\n".to_vec();
        let record = br#"{"format":1,"from":null,"to":"ffffffffffffffff","reason":"","writer":{"lineage":"0000000000000001","nonce":1}}"#;
        for sample in [wal.bytes, key, record.to_vec()] {
            parse(&sample);
            for _ in 0..2000 {
                let mut damaged = sample.clone();
                for _ in 0..random.usize(1..8) {
                    let at = random.usize(..damaged.len());
                    damaged[at] = random.u8(..);
                }
                damaged.truncate(random.usize(..=damaged.len()));
                parse(&damaged);
            }
        }
    }
}
