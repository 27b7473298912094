//! Names, numbers and checksums as the peers' library has them.

use seawall_ltx::{
    Checksum, FileName, HeaderError, PageNo, PageSize, Position, Rolling, Timestamp, Txid, crc64, page_checksum,
};

use crate::support::{golden_json, hex, size, text};

#[test]
fn file_names() {
    for case in golden_json("vectors.json")["parse_filename"].as_array().unwrap() {
        let parsed = text(case, "in").parse::<FileName>();
        assert_eq!(parsed.is_ok(), case["err"].is_null(), "{case}");
        if let Ok(name) = parsed {
            assert_eq!((name.min.0, name.max.0), (hex(case, "min"), hex(case, "max")));
            assert_eq!(name.to_string(), text(case, "format"));
        }
    }
}

#[test]
fn ids_and_checksums() {
    for case in golden_json("vectors.json")["parse_txid_checksum"].as_array().unwrap() {
        let (txid, checksum) = (text(case, "in").parse::<Txid>(), text(case, "in").parse::<Checksum>());
        assert_eq!(txid.is_ok(), case["txid_err"].is_null(), "{case}");
        assert_eq!(checksum.is_ok(), case["checksum_err"].is_null(), "{case}");
        if let (Ok(txid), Ok(checksum)) = (txid, checksum) {
            assert_eq!(txid.to_string(), text(case, "txid"));
            assert_eq!(checksum.to_string(), text(case, "checksum"));
        }
    }
    assert!("+000000000000001".parse::<Txid>().is_err());
}

#[test]
fn positions() {
    for case in golden_json("vectors.json")["parse_pos"].as_array().unwrap() {
        let (input, parsed) = (text(case, "in"), text(case, "in").parse::<Position>());
        // Any separator is taken there, a slash here.
        let ours = case["err"].is_null() && input.as_bytes().get(16) == Some(&b'/');
        assert_eq!(parsed.is_ok(), ours, "{case}");
        if let Ok(position) = parsed {
            assert_eq!(position.to_string(), text(case, "out"));
        }
    }
}

#[test]
fn timestamps() {
    for case in golden_json("vectors.json")["timestamps"].as_array().unwrap() {
        if let Some(millis) = case["unix_ms_in"].as_i64() {
            assert_eq!(Timestamp(millis).to_string(), text(case, "format"));
            continue;
        }
        let parsed = text(case, "in").parse::<Timestamp>();
        assert_eq!(parsed.is_ok(), case["err"].is_null(), "{case}");
        if let Ok(time) = parsed {
            assert_eq!((time.0, time.to_string().as_str()), (case["unix_ms"].as_i64().unwrap(), text(case, "format")));
        }
    }
}

#[test]
fn contiguity() {
    for case in golden_json("vectors.json")["is_contiguous"].as_array().unwrap() {
        let name = FileName { min: Txid(hex(case, "min")), max: Txid(hex(case, "max")) };
        assert_eq!(name.continues(Txid(hex(case, "prev_max"))), case["contiguous"] == true, "{case}");
    }
}

#[test]
fn page_sizes_and_lock_pages() {
    for case in golden_json("vectors.json")["lock_pgno"].as_array().unwrap() {
        let size = PageSize::new(u32::try_from(case["page_size"].as_u64().unwrap()).unwrap()).unwrap();
        assert_eq!(u64::from(size.lock_page().0), case["lock_pgno"].as_u64().unwrap());
        let lock = size.lock_page().0;
        assert_eq!(size.page_after(PageNo(lock - 1)), Some(PageNo(lock + 1)));
        assert_eq!(size.pages_in_snapshot(lock - 1), lock - 1);
        assert_eq!(size.pages_in_snapshot(lock), lock - 1);
        assert_eq!(size.pages_in_snapshot(lock + 1), lock);
    }
    for bytes in [0, 1, 256, 511, 513, 1000, 65535, 131_072, u32::MAX] {
        assert_eq!(PageSize::new(bytes), None);
        assert_eq!(PageSize::try_from(bytes), Err(HeaderError::PageSize(bytes).into()));
    }
    assert_eq!(size(512).page_after(PageNo(u32::MAX)), None);
}

#[test]
fn crc() {
    for case in golden_json("vectors.json")["crc"]["items"].as_array().unwrap() {
        let mut x = u32::try_from(case["lcg_start"].as_u64().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..case["len"].as_u64().unwrap())
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 24) as u8
            })
            .collect();
        assert_eq!(crc64(&bytes), hex(case, "crc64_iso"), "{case}");
        let page = PageNo(u32::try_from(case["pgno"].as_u64().unwrap()).unwrap());
        assert_eq!(page_checksum(page, &bytes).0, hex(case, "page_checksum"), "{case}");
    }
    assert_eq!(crc64(b"123456789"), 0xb909_56c7_75a4_1001);
}

#[test]
fn database_checksums() {
    for (at, case) in golden_json("vectors.json")["checksum_reader"].as_array().unwrap().iter().enumerate() {
        let Some(pages) = case["pages"].as_u64().filter(|pages| *pages > 0) else { continue };
        let page_size = case["page_size"].as_u64().unwrap() as usize;
        let recorded = hex(case, "checksum_reader");
        // The bytes are (i * 7 + seed) ^ (i >> 8); the seed is not recorded with the case.
        let matches = (0..=255_usize).any(|seed| {
            let mut sum = Rolling::new();
            for page in 0..pages as usize {
                let from = page * page_size;
                let data: Vec<u8> = (from..from + page_size).map(|i| ((i * 7 + seed) ^ (i >> 8)) as u8).collect();
                sum.toggle(page_checksum(PageNo(page as u32 + 1), &data));
            }
            sum.checksum().0 == recorded
        });
        assert!(matches, "case {at}");
    }
}
