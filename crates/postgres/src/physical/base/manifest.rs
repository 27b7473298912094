//! The manifest of a base: what it holds, which packs it needs, and where its log begins. Pure: it is a document of two
//! lines, as those of backup sets.

use std::collections::BTreeMap;

use seawall_archive::{Digest, SetId};
use seawall_core::Moment;
use serde::{Deserialize, Serialize};

use super::label::Tablespace;
use seawall_archive::log::Lsn;

/// Size and digest of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// Its bytes.
    pub bytes: u64,
    /// The digest of all of them.
    pub blake3: Digest,
}

/// A part of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The path of its first extent.
    pub first: String,
    /// Where that extent begins in its file.
    pub offset: u64,
    /// Its bytes when it is decompressed.
    pub raw: u64,
    /// The object.
    pub sealed: Sealed,
}

/// Packs of an earlier base that this one needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uses {
    /// The earlier base.
    pub base: SetId,
    /// Its packs, by number.
    pub packs: BTreeMap<u32, Sealed>,
}

/// A file with pages whose checksum is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damaged {
    /// The file.
    pub path: String,
    /// The pages, counted from the beginning of the relation; at most a hundred are named.
    pub pages: Vec<u32>,
    /// How many there are.
    pub count: u64,
}

/// Sums over a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of blocks that were sent, because the base before has them not or otherwise.
    pub sent: u64,
    /// Bytes of this base's own packs.
    pub stored: u64,
}

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseManifest {
    /// Its name.
    pub id: SetId,
    /// The system identifier of the cluster, in decimal.
    pub system: String,
    /// The program that made it.
    pub tool: String,
    /// The server's version as a number: 150018.
    pub version: u32,
    /// When the copy began, by the clock of Seawall's host.
    pub began: Moment,
    /// When `pg_backup_stop` had answered, by the server's clock: no earlier moment can be restored from this base.
    pub ended: Moment,
    /// The timeline of the log that it needs.
    pub timeline: u32,
    /// Where recovery begins to read the log.
    pub start: Lsn,
    /// The end of what recovery must read before the files agree with each other.
    pub stop: Lsn,
    /// The next transaction when the copy had ended, with its epoch.
    pub next_xid: u64,
    /// Whether a standby was copied.
    pub from_standby: bool,
    /// Bytes of a segment of the log.
    pub segment: u64,
    /// Whether the cluster's pages have checksums, so that they were checked.
    pub checksums: bool,
    /// `backup_label`, as the server returned it.
    pub label: String,
    /// `tablespace_map`, as the server returned it.
    pub tablespace_map: String,
    /// The tablespaces outside the data directory.
    pub tablespaces: Vec<Tablespace>,
    /// The numbers of tablespaces that are folders within it.
    pub in_place: Vec<u32>,
    /// The superuser that `initdb` made, if the role may see it.
    pub superuser: Option<String>,
    /// Settings that a server must have to replay the log of this one.
    pub settings: BTreeMap<String, String>,
    /// What isn't in the base and a server needs, each one sentence without a full stop.
    pub notes: Vec<String>,
    /// Files with damaged pages.
    pub damaged: Vec<Damaged>,
    /// Sums.
    pub totals: Totals,
    /// Its own packs; a pack's place is its number.
    pub packs: Vec<Sealed>,
    /// The packs of earlier bases that it needs.
    pub uses: Vec<Uses>,
    /// The parts of the index, in order.
    pub index: Vec<Part>,
}

impl BaseManifest {
    /// The object of each frame of the base, by the numbers that its index has.
    pub(crate) fn pack(&self, base: u32, pack: u32) -> Option<(SetId, Sealed)> {
        match base.checked_sub(1) {
            None => Some((self.id, *self.packs.get(pack as usize)?)),
            Some(nth) => {
                let uses = self.uses.get(nth as usize)?;
                Some((uses.base, *uses.packs.get(&pack)?))
            }
        }
    }

    /// How many earlier bases it needs.
    pub(crate) fn others(&self) -> u32 {
        u32::try_from(self.uses.len()).unwrap_or(u32::MAX)
    }

    /// Bytes of all objects that a restore needs.
    pub fn needs(&self) -> u64 {
        let others = self.uses.iter().flat_map(|uses| uses.packs.values());
        let parts = self.index.iter().map(|part| &part.sealed);
        self.packs.iter().chain(others).chain(parts).map(|sealed| sealed.bytes).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use seawall_archive::{read_document, write_document};

    use super::*;

    /// A base that was begun at a second, whose log goes from `start` to `stop`.
    pub(crate) fn sample(second: i64, start: u64, stop: u64) -> BaseManifest {
        let sealed = |bytes| Sealed { bytes, blake3: Digest::of(b"x") };
        let at = |second: i64| Moment::from_millis(second * 1000);
        BaseManifest {
            id: SetId::new(at(second), 1),
            system: "7".into(),
            tool: "seawall test".into(),
            version: 150_018,
            began: at(second),
            ended: at(second + 1),
            timeline: 1,
            start: Lsn::new(start),
            stop: Lsn::new(stop),
            next_xid: 745,
            from_standby: false,
            segment: 16 << 20,
            checksums: true,
            label: "START WAL LOCATION: …\n".into(),
            tablespace_map: "16384 /mnt/fast\n".into(),
            tablespaces: vec![Tablespace { oid: 16_384, location: "/mnt/fast".into() }],
            in_place: vec![16_390],
            superuser: Some("postgres".into()),
            settings: BTreeMap::from([("max_connections".to_owned(), "100".to_owned())]),
            notes: Vec::new(),
            damaged: vec![Damaged { path: "base/5/1".into(), pages: vec![7], count: 1 }],
            totals: Totals { files: 3, bytes: 100, sent: 50, stored: 20 },
            packs: vec![sealed(10), sealed(20)],
            uses: vec![Uses { base: SetId::new(at(second - 10), 1), packs: BTreeMap::from([(5, sealed(30))]) }],
            index: vec![Part { first: "PG_VERSION".into(), offset: 0, raw: 9, sealed: sealed(4) }],
        }
    }

    #[test]
    fn a_manifest_is_a_document_and_names_every_pack() {
        let manifest = sample(100, 1, 2);
        let bytes = write_document(&manifest).expect("written");
        assert_eq!(read_document::<BaseManifest>(&bytes, "it").expect("read"), manifest);
        let pack = |base, pack| manifest.pack(base, pack).map(|(id, sealed)| (id, sealed.bytes));
        assert_eq!(pack(0, 1), Some((manifest.id, 20)));
        assert_eq!(pack(1, 5), Some((manifest.uses[0].base, 30)));
        for (base, number) in [(0, 2), (1, 4), (2, 0), (u32::MAX, 0)] {
            assert_eq!(pack(base, number), None, "{base} {number}");
        }
        assert_eq!((manifest.others(), manifest.needs()), (1, 64));
        let mut damaged = bytes;
        damaged[20] ^= 1;
        read_document::<BaseManifest>(&damaged, "it").expect_err("changed");
    }
}
