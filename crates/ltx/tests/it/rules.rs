//! Files that the encoder refuses to write, as tables.

use seawall_ltx::{
    Checksum, Encoder, Error, Header, HeaderError, PageNo, PageRule, PostApplyRule, Txid, compress_batch, decode_all,
};

use crate::support::{page, rolling, size, write};

fn increment() -> Header {
    Header::new(size(512), 9, Txid(2), Txid(3))
}

fn snapshot() -> Header {
    Header { no_checksum: false, ..Header::new(size(512), 3, Txid(1), Txid(3)) }
}

#[test]
fn headers() {
    let checked = Header { no_checksum: false, pre_apply: Checksum::EMPTY, ..increment() };
    let cases: [(Header, Result<(), HeaderError>); 18] = [
        (increment(), Ok(())),
        (checked, Ok(())),
        (snapshot(), Ok(())),
        (Header { timestamp_ms: i64::MIN, node_id: u64::MAX, reserved: [255; 20], ..increment() }, Ok(())),
        (Header { min_txid: Txid(0), ..increment() }, Err(HeaderError::TxidZero)),
        (Header { max_txid: Txid(0), ..increment() }, Err(HeaderError::TxidZero)),
        (Header { min_txid: Txid(4), ..increment() }, Err(HeaderError::TxidOrder { min: Txid(4), max: Txid(3) })),
        (Header { wal_offset: 1 << 63, ..increment() }, Err(HeaderError::WalNegative)),
        (Header { wal_offset: 32, wal_size: 1 << 63, ..increment() }, Err(HeaderError::WalNegative)),
        (Header { wal_offset: 32, wal_size: 0, ..increment() }, Ok(())),
        (Header { wal_size: 1, ..increment() }, Err(HeaderError::WalOffsetMissing)),
        (Header { wal_salt1: 1, ..increment() }, Err(HeaderError::WalOffsetMissing)),
        (Header { wal_salt2: 1, ..increment() }, Err(HeaderError::WalOffsetMissing)),
        (Header { pre_apply: Checksum::EMPTY, ..snapshot() }, Err(HeaderError::PreApplyOnSnapshot)),
        (Header { pre_apply: Checksum::EMPTY, ..increment() }, Err(HeaderError::PreApplyNotAllowed)),
        (Header { pre_apply: Checksum::NONE, ..checked }, Err(HeaderError::PreApplyMissing)),
        (Header { pre_apply: Checksum(1), ..checked }, Err(HeaderError::PreApplyFlag)),
        (Header { commit: 0, ..increment() }, Err(HeaderError::DeletionUnchecked)),
    ];
    for (header, expected) in cases {
        assert_eq!(header.validate(), expected, "{header:?}");
        let parsed = Header::parse(&header.encode());
        assert_eq!(parsed, expected.map(|()| header).map_err(Error::from), "{header:?}");
        let mut out = Vec::new();
        let encoder = Encoder::new(header, &mut out);
        assert_eq!(
            encoder.map(|_| out.len()).map_err(|error| error.to_string()),
            expected.map(|()| 100).map_err(|e| Error::from(e).to_string())
        );
    }
}

#[test]
fn page_order() {
    let lock = size(65536).lock_page();
    let page_of = |page, rule| Err(Error::Page { page: PageNo(page), rule });
    let hole = |missing| Err(Error::SnapshotHole { missing: PageNo(missing) });
    let over_lock = Header::new(size(65536), lock.0 + 5, Txid(2), Txid(2));
    let cases: [(Header, &[u32], Result<(), Error>); 10] = [
        (increment(), &[], Ok(())),
        (increment(), &[2, 3, 9], Ok(())),
        (increment(), &[0], page_of(0, PageRule::Zero)),
        (increment(), &[10], page_of(10, PageRule::BeyondCommit { commit: 9 })),
        (increment(), &[3, 3], page_of(3, PageRule::Order { previous: PageNo(3) })),
        (increment(), &[3, 2], page_of(2, PageRule::Order { previous: PageNo(3) })),
        (over_lock, &[lock.0 - 1, lock.0 + 1], Ok(())),
        (over_lock, &[lock.0], page_of(lock.0, PageRule::Lock)),
        (snapshot(), &[2], hole(1)),
        (snapshot(), &[1, 3], hole(2)),
    ];
    for (header, numbers, expected) in cases {
        let pages: Vec<_> = numbers.iter().map(|number| (*number, page(header.page_size, *number, 3))).collect();
        let result = write(header, &pages, Checksum::NONE).map(|_| ());
        assert_eq!(result, expected, "{numbers:?}");
    }
}

#[test]
fn a_refused_page_leaves_the_file_as_it_was() {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(increment(), &mut file).unwrap();
    encoder.push(PageNo(4), &page(size(512), 4, 3), &mut file).unwrap();
    let len = file.len();
    assert_eq!(encoder.len(), len as u64);
    assert!(encoder.push(PageNo(4), &page(size(512), 4, 3), &mut file).is_err());
    let short = encoder.push(PageNo(5), &[0; 511], &mut file);
    assert_eq!(short, Err(Error::PageLength { page: PageNo(5), len: 511, expected: size(512) }));
    let batch = compress_batch(size(512), [(PageNo(5), &[0; 512][..]), (PageNo(2), &[0; 512])]).unwrap();
    assert!(matches!(encoder.append(&batch, &mut file), Err(Error::Page { .. })));
    let batch = compress_batch(size(1024), [(PageNo(5), &[0; 1024][..])]).unwrap();
    assert!(matches!(encoder.append(&batch, &mut file), Err(Error::BatchPageSize { .. })));
    assert_eq!((file.len(), encoder.pages()), (len, 1));
    encoder.push(PageNo(5), &page(size(512), 5, 3), &mut file).unwrap();
    encoder.finish(Checksum::NONE, &mut file).unwrap();
    assert_eq!(decode_all(&file, |_, _| ()).unwrap().pages, 2);
}

#[test]
fn ends() {
    let pages: Vec<_> = (1..=3).map(|number| (number, page(size(512), number, 3))).collect();
    let sum = rolling(&pages);
    let other = Checksum(sum.0 ^ 1);
    let checked = Header { no_checksum: false, pre_apply: sum, ..increment() };
    let deleted = Header { commit: 0, ..checked };
    let refused = |found, rule| Err(Error::PostApply { found, rule });
    let cases = [
        (snapshot(), &pages[..], sum, Ok(())),
        (snapshot(), &pages, other, Err(Error::DatabaseChecksum { stored: other, computed: sum })),
        (snapshot(), &pages, Checksum::NONE, refused(Checksum::NONE, PostApplyRule::Missing)),
        (snapshot(), &pages[..2], sum, Err(Error::SnapshotHole { missing: PageNo(3) })),
        (snapshot(), &[], sum, Err(Error::SnapshotHole { missing: PageNo(1) })),
        (increment(), &pages, Checksum::NONE, Ok(())),
        (increment(), &pages, sum, refused(sum, PostApplyRule::NotAllowed)),
        (checked, &pages, other, Ok(())),
        (checked, &pages, Checksum(5), refused(Checksum(5), PostApplyRule::Flag)),
        (deleted, &[], Checksum::EMPTY, Ok(())),
        (deleted, &[], sum, refused(sum, PostApplyRule::NotEmpty)),
    ];
    for (header, pages, post_apply, expected) in cases {
        assert_eq!(write(header, pages, post_apply).map(|_| ()), expected, "{header:?} {post_apply}");
    }
}
