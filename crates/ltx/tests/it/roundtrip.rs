//! Written content is read back unchanged, with every way of writing and reading.

use proptest::prelude::*;
use seawall_ltx::{Checksum, Encoder, Header, PageNo, Txid, compress_batch, decode_all};

use crate::support::{Pages, page, read, rolling, size, write};

/// Any file: header and pages, with the right post-apply checksum.
fn any_file() -> impl Strategy<Value = (Header, Pages, Checksum)> {
    let page_size = prop::sample::select(vec![512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]);
    let flags = any::<(bool, bool)>();
    let numbers = prop::collection::btree_set(1_u32..5000, 0..12);
    let fields = any::<(i64, u64, [u8; 20], u32, u32, u64)>();
    (page_size, flags, numbers, fields).prop_map(|(page_size, (no_checksum, snapshot), numbers, fields)| {
        let page_size = size(page_size);
        let numbers: Vec<u32> =
            if snapshot { (1..=numbers.len() as u32).collect() } else { numbers.into_iter().collect() };
        let (timestamp_ms, node_id, reserved, wal_salt1, wal_salt2, salt) = fields;
        let pages: Pages = numbers.iter().map(|number| (*number, page(page_size, *number, salt))).collect();
        let commit = if snapshot { numbers.len() as u32 } else { 5000 };
        let (no_checksum, min) = (no_checksum && commit > 0, if snapshot { 1 } else { 2 });
        let header = Header {
            no_checksum,
            timestamp_ms,
            node_id,
            reserved,
            wal_salt1,
            wal_salt2,
            wal_offset: 32,
            wal_size: salt >> 1,
            pre_apply: if no_checksum || snapshot { Checksum::NONE } else { Checksum::EMPTY },
            ..Header::new(page_size, commit, Txid(min), Txid(u64::MAX))
        };
        let post_apply = if no_checksum { Checksum::NONE } else { rolling(&pages) };
        (header, pages, post_apply)
    })
}

/// Writes a file in batches of these numbers of pages, and each end of the file in pieces.
fn write_batches(header: Header, pages: &Pages, post_apply: Checksum, batch: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(header, &mut file).unwrap();
    for (at, pages) in pages.chunks(batch).enumerate() {
        if at % 3 == 2 {
            for (number, data) in pages {
                encoder.push(PageNo(*number), data, &mut file).unwrap();
            }
        } else {
            let pages = pages.iter().map(|(number, data)| (PageNo(*number), data.as_slice()));
            encoder.append(&compress_batch(header.page_size, pages).unwrap(), &mut file).unwrap();
        }
    }
    encoder.finish(post_apply, &mut file).unwrap();
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_ways_of_writing_and_reading_agree((header, pages, post_apply) in any_file(), batch in 1_usize..6, piece in 1_usize..5000) {
        let file = write(header, &pages, post_apply).unwrap();
        prop_assert_eq!(&write(header, &pages, post_apply).unwrap(), &file);
        // The effort of the compressor depends on the pages before in the same batch. The decompressed content doesn't.
        let batches = write_batches(header, &pages, post_apply, batch);
        let (of_batches, back) = read(&batches, batches.len(), 1 << 20).unwrap();
        prop_assert_eq!(of_batches.header, header);
        prop_assert_eq!(of_batches.trailer.post_apply, post_apply);
        prop_assert_eq!(&back, &pages);

        let (summary, back) = read(&file, file.len(), 1 << 20).unwrap();
        prop_assert_eq!(summary.header, header);
        prop_assert_eq!(summary.trailer.post_apply, post_apply);
        prop_assert_eq!(&back, &pages);
        prop_assert_eq!(read(&file, 1, 1).unwrap(), (summary, back.clone()));
        prop_assert_eq!(read(&file, piece, batch * 1000).unwrap(), (summary, back));
    }

    #[test]
    fn hostile_bytes_are_an_error_at_most(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0_usize..700) {
        let pages: Pages = (1..=2).map(|number| (number, page(size(512), number, 2))).collect();
        let mut file = write(Header::new(size(512), 2, Txid(1), Txid(1)), &pages, Checksum::NONE).unwrap();
        let at = at.min(file.len());
        file.splice(at.., bytes);
        let _ = decode_all(&file, |_, _| ());
        let _ = seawall_ltx::Index::parse(&file, file.len() as u64);
    }
}

#[test]
fn an_index_longer_than_a_piece_is_written_in_pieces() {
    let header = Header::new(size(512), 60_000, Txid(1), Txid(1));
    let page = [0; 512];
    let mut file = Vec::new();
    let mut encoder = Encoder::new(header, &mut file).unwrap();
    let batch = compress_batch(header.page_size, (1..=60_000).map(|number| (PageNo(number), &page[..]))).unwrap();
    encoder.append(&batch, &mut file).unwrap();
    let mut tail = encoder.close(Checksum::NONE).unwrap();
    let mut pieces = 0;
    let trailer = loop {
        let before = file.len();
        let trailer = tail.write(&mut file);
        pieces += 1;
        assert!(file.len() - before < 70_000);
        if let Some(trailer) = trailer {
            break trailer;
        }
    };
    assert!(pieces > 3);
    let summary = decode_all(&file, |_, _| ()).unwrap();
    assert_eq!((summary.trailer, summary.pages), (trailer, 60_000));
    let len = file.len();
    assert_eq!((tail.write(&mut file), file.len()), (Some(trailer), len));
}
