//! Encodes the messages of a snapshot, piece by piece, in the order that every reader expects.
//!
//! Entries don't depend on what precedes them. So the pieces of a DBI can be compressed separately and reused in a
//! later snapshot. Only the length of a DBI must be known ahead.

use super::wire::{bytes_size, put_bytes, put_fixed, put_length, put_number, put_varint, varint_size};
use super::{COMPAT, DATABASES, DELETED, Entry, FORMAT, Meta};

/// Appends the messages before the first of `databases` DBIs. The number of DBIs is a field of Seawall's own, which
/// other readers skip. It lets Seawall detect a snapshot that was cut between two gzip members.
pub(crate) fn put_preamble(meta: &Meta, databases: u64, out: &mut Vec<u8>) {
    put_number(1, FORMAT.into(), out);
    put_number(4, COMPAT.into(), out);
    let mut message = Vec::new();
    put_bytes(1, meta.generation.as_bytes(), &mut message);
    put_bytes(2, meta.instance.as_bytes(), &mut message);
    put_bytes(3, meta.hostname.as_bytes(), &mut message);
    put_number(4, meta.transaction, &mut message);
    put_fixed(5, meta.stamp.0, &mut message);
    put_bytes(7, meta.database.as_bytes(), &mut message);
    put_number(8, meta.from_transaction, &mut message);
    put_bytes(2, &message, out);
    put_varint(DATABASES << 3, out);
    put_varint(databases, out);
}

/// Appends the head of a DBI whose entries take `entries` bytes.
pub(crate) fn put_database(name: &[u8], flags: u16, transform: &str, entries: u64, out: &mut Vec<u8>) {
    let mut head = Vec::new();
    put_bytes(1, name, &mut head);
    put_number(3, flags.into(), &mut head);
    put_bytes(4, transform.as_bytes(), &mut head);
    put_length(3, head.len() as u64 + entries, out);
    out.extend_from_slice(&head);
}

/// Bytes of an entry's message, without its tag and length.
fn message_size(entry: &Entry<'_>) -> u64 {
    bytes_size(entry.key.len() as u64)
        + bytes_size(entry.value.len() as u64)
        + if entry.deleted { 2 } else { 0 }
        + if entry.stamp.0 == 0 { 0 } else { 9 }
}

/// Bytes of an entry in its DBI.
pub(crate) fn entry_size(entry: &Entry<'_>) -> u64 {
    let message = message_size(entry);
    1 + varint_size(message) + message
}

/// Appends an entry.
pub(crate) fn put_entry(entry: &Entry<'_>, out: &mut Vec<u8>) {
    put_length(2, message_size(entry), out);
    put_bytes(1, entry.key, out);
    put_bytes(2, entry.value, out);
    if entry.deleted {
        out.push(4 << 3);
        put_varint(DELETED, out);
    }
    put_fixed(3, entry.stamp.0, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    #[test]
    fn sizes_are_known_ahead() {
        let large = vec![7; 70_000];
        for (key, value, stamp, deleted) in [
            (&b"k"[..], &b"v"[..], 0, false),
            (b"k", b"", 1, true),
            (&large[..511], &large[..], u64::MAX, false),
            (b"k", &large[..117], 1, false),
            (b"k", &large[..16_400], 0, true),
        ] {
            let entry = Entry { key, value, stamp: Stamp(stamp), deleted };
            let mut out = Vec::new();
            put_entry(&entry, &mut out);
            assert_eq!(out.len() as u64, entry_size(&entry));
        }
    }
}
