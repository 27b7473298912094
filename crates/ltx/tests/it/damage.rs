//! Invalid files are refused, without a panic.

use seawall_ltx::{Checksum, Encoder, Error, Header, Index, PageNo, Part, Txid, decode_all, decode_any};

use crate::support::{golden, golden_json, page, read, rolling, size, text, write};

/// Whether an error is of the class that the manifest names.
fn is_class(error: &Error, class: &str) -> bool {
    match class {
        "header_truncated" => matches!(error, Error::Truncated { part: Part::Header, .. }),
        "bad_magic" | "bad_page_size" | "bad_txid" | "bad_wal_fields" | "bad_pre_apply" => {
            matches!(error, Error::Header(_))
        }
        "bad_header_flags" => matches!(error, Error::Header(_) | Error::Generation(_)),
        "page_header_truncated" => matches!(error, Error::Truncated { part: Part::Pages, .. }),
        // A length that no page has is not waited for.
        "page_data_truncated" => {
            matches!(error, Error::Truncated { part: Part::Pages, .. } | Error::FrameLength { .. })
        }
        "bad_page_flags" => matches!(error, Error::PageFlags { .. }),
        "page_number_required" | "page_order" | "page_out_of_range" | "lock_page" => {
            matches!(error, Error::Page { .. })
        }
        // A wrong length shows first at what then seems to be the next frame.
        "lz4_error" | "page_size_mismatch" => {
            matches!(error, Error::Lz4 { .. } | Error::FrameLength { .. } | Error::PageFlags { .. })
        }
        "snapshot_incomplete" => matches!(error, Error::SnapshotHole { .. }),
        "index_mismatch" | "index_size_mismatch" | "index_error" => matches!(error, Error::Index { .. }),
        "index_truncated" => matches!(error, Error::Truncated { part: Part::Index, .. }),
        "trailer_truncated" => matches!(error, Error::Truncated { part: Part::Trailer, .. }),
        "trailing_data" => matches!(error, Error::Trailing { .. }),
        "file_checksum_mismatch" => matches!(error, Error::FileChecksum { .. }),
        "post_apply_mismatch" => matches!(error, Error::DatabaseChecksum { .. }),
        "bad_post_apply" => matches!(error, Error::PostApply { .. }),
        // Where the page header ends too early, what follows is read as the rest of it.
        "page_header_or_index_error" => {
            matches!(error, Error::PageFlags { .. } | Error::Page { .. } | Error::Index { .. })
        }
        // An oddity that a reader may refuse.
        "either" => true,
        _ => panic!("{class} is no class"),
    }
}

#[test]
fn every_crafted_defect_is_refused_and_every_oddity_accepted() {
    let manifest = golden_json("manifest.json");
    let mut refused = 0;
    for facts in manifest["corrupted"].as_array().unwrap() {
        let (name, class) = (text(facts, "file"), text(facts, "expect"));
        let file = golden(name);
        let result = decode_all(&file, |_, _| ());
        match result {
            Ok(_) => assert_ne!(facts["must_reject"], true, "{name} is accepted"),
            Err(error) => {
                assert_ne!(class, "ok", "{name} is refused: {error}");
                assert!(is_class(&error, class), "{name}: {class} is reported as {error:?}");
                refused += 1;
            }
        }
        // Whatever the whole file is, its tail alone must not be trusted to be sane.
        let _ = Index::parse(&file, file.len() as u64);
    }
    assert!(refused > 75);
}

#[test]
fn every_bit_flip_is_refused() {
    let manifest = golden_json("manifest.json");
    for flip in manifest["bit_flips"]["items"].as_array().unwrap() {
        let mut file = golden(flip[0].as_str().unwrap());
        file[flip[1].as_u64().unwrap() as usize] ^= flip[2].as_u64().unwrap() as u8;
        // The recorded exception is a bit of the compressed form that no content depends on.
        let harmless = flip[4] != "reject";
        assert!(decode_all(&file, |_, _| ()).is_err() || harmless, "{flip}");
    }
}

/// A snapshot and an increment, of a few hundred bytes each.
fn small_files() -> [Vec<u8>; 2] {
    let pages: Vec<_> = (1..=3).map(|number| (number, page(size(512), number, 1))).collect();
    let snapshot = Header { no_checksum: false, ..Header::new(size(512), 3, Txid(1), Txid(4)) };
    let increment = Header::new(size(512), 9, Txid(5), Txid(5));
    [write(snapshot, &pages, rolling(&pages)).unwrap(), write(increment, &pages[1..], Checksum::NONE).unwrap()]
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for file in small_files() {
        for end in 0..file.len() {
            let error = decode_all(&file[..end], |_, _| ()).unwrap_err();
            assert!(matches!(error, Error::Truncated { offset, .. } if offset == end as u64), "{end}: {error}");
            assert!(Index::parse(&file[..end], end as u64).is_err(), "{end}");
        }
    }
}

#[test]
fn a_file_with_any_bit_flipped_is_refused() {
    for file in small_files() {
        let original = read(&file, file.len(), 1).unwrap();
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // What another reader may refuse, the low half of a block's last token, says nothing.
            if let Ok(read) = read(&flipped, flipped.len(), 1) {
                assert_eq!(read, original, "bit {bit}");
            }
        }
    }
}

#[test]
fn a_file_is_refused_with_anything_behind_it() {
    for mut file in small_files() {
        let end = file.len() as u64;
        file.push(0);
        assert_eq!(decode_all(&file, |_, _| ()), Err(Error::Trailing { offset: end }));
    }
}

#[test]
fn an_error_stays() {
    let mut file = small_files()[0].clone();
    file[104] = 0xff;
    let mut splitter = seawall_ltx::Splitter::new();
    let error = splitter.feed(&mut file.as_slice()).unwrap_err();
    assert_eq!(splitter.feed(&mut file.as_slice()).unwrap_err(), error);
    assert_eq!(splitter.finish(), Err(error));
}

#[test]
fn batches_out_of_order_or_left_out_are_refused() {
    let file = &small_files()[0];
    let mut splitter = seawall_ltx::Splitter::with_batch_size(1);
    let mut rest = file.as_slice();
    let mut batches = Vec::new();
    while let Some(batch) = splitter.feed(&mut rest).unwrap() {
        batches.push(batch.decode().unwrap());
    }
    assert_eq!(batches.len(), 3);
    assert!(matches!(splitter.join(&batches[1]), Err(Error::BatchOrder { .. })));
    splitter.join(&batches[0]).unwrap();
    splitter.join(&batches[1]).unwrap();
    assert!(matches!(splitter.finish(), Err(Error::BatchOrder { .. })));
}

#[test]
fn a_length_that_a_file_claims_costs_no_memory() {
    let mut file = Vec::new();
    let _encoder = Encoder::new(Header::new(size(4096), 9, Txid(2), Txid(2)), &mut file).unwrap();
    file.extend_from_slice(&[0, 0, 0, 1, 0, 1, 0xff, 0xff, 0xff, 0xf0]);
    let error = decode_all(&file, |_, _| ()).unwrap_err();
    assert_eq!(error, Error::FrameLength { page: PageNo(1), offset: 100, len: 0xffff_fff0 });
    let mut tail = vec![0; 24];
    tail[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    assert!(matches!(Index::parse(&tail, 1 << 40), Err(Error::Truncated { .. })));
    tail[..8].copy_from_slice(&(1_u64 << 39).to_be_bytes());
    assert_eq!(Index::parse(&tail, 1 << 40), Err(Error::TailTooShort { needed: (1 << 39) + 24 }));
}

#[test]
fn older_files_are_refused_cut_or_flipped_too() {
    for name in ["legacy/v1-raw-inc-512.ltx", "legacy/v1-lz4-512.ltx", "legacy/v2-frame-inc-512.ltx"] {
        let file = golden(name);
        let mut original = Vec::new();
        decode_any(&file, |page, data| original.push((page, data.to_vec()))).unwrap();
        for end in 0..file.len() {
            assert!(decode_any(&file[..end], |_, _| ()).is_err(), "{name} {end}");
        }
        for bit in (0..file.len() * 8).step_by(3) {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut pages = Vec::new();
            if decode_any(&flipped, |page, data| pages.push((page, data.to_vec()))).is_ok() {
                assert_eq!(pages, original, "{name} {bit}");
            }
        }
    }
}
