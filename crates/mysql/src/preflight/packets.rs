//! Which rows are larger than a statement, or a value, may be on the target? Pure.
//!
//! `LOAD DATA` takes rows of any size, in small packets. Rows that go by `INSERT` are part of a statement, and a value that goes through
//! a function is no larger than `max_allowed_packet`. A set doesn't record the sizes of rows and values: what is known is in how many
//! frames a large row was cut. What isn't known here the server refuses, and the restore goes on when that is mended.

use seawall_archive::Chunk;
use seawall_archive::preflight::{Lack, Look};

use crate::detail::ItemDetail;
use crate::load::statement::Into;
use crate::preflight::Server;
use crate::set::Set;
use crate::set::scope::Scope;

/// Tells rows that are too large for a statement, and rows of which a value may be.
pub(super) fn look(set: &Set, what: &Scope<'_>, server: &Server, max_packet: u64, look: &mut Look) {
    for (item, detail) in (0..).zip(&set.items) {
        let Some(ItemDetail::Table { name, columns, .. }) = detail else { continue };
        let into = Into { database: "", table: name, columns, mariadb: server.facts.mariadb };
        let by_insert = !server.infile || into.needs_insert();
        if !what.has(name) || !(by_insert || into.converts()) {
            continue;
        }
        let least = largest_row(&set.reader.index().chunks, item);
        if least < max_packet {
            continue;
        }
        let mend = format!("SET GLOBAL max_allowed_packet = {};", least.saturating_mul(2).next_multiple_of(1024));
        if by_insert {
            let cause = format!("a row of {name} has at least {least} bytes, and a statement at most {max_packet}");
            look.lacks.push(Lack::new(cause, mend));
        } else {
            look.doubts.push(format!(
                "a row of {name} has at least {least} bytes, and the server refuses a JSON value of more than {max_packet}: {mend}"
            ));
        }
    }
}

/// How many bytes the largest row of an item has at least: those of frames one behind another in which no row ends.
fn largest_row(chunks: &[Chunk], item: u32) -> u64 {
    let mut largest = 0;
    for chunk in chunks {
        let mut open: u64 = 0;
        for frame in chunk.frames.iter().filter(|frame| frame.item == item) {
            open = if frame.rows == 0 { open.saturating_add(frame.raw) } else { 0 };
            largest = largest.max(open);
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_archive::{Digest, Frame};

    #[test]
    fn a_row_has_at_least_the_bytes_of_the_frames_that_it_fills() {
        let chunk = |frames: &[(u32, u64, u64)]| Chunk {
            blake3: Digest::of(b""),
            frames: frames
                .iter()
                .map(|(item, rows, raw)| Frame { item: *item, rows: *rows, raw: *raw, stored: 1 })
                .collect(),
            continues: None,
        };
        for (chunks, largest) in [
            (vec![], 0),
            (vec![chunk(&[(1, 5, 100), (1, 7, 100)])], 0),
            (vec![chunk(&[(1, 0, 100), (1, 0, 50), (1, 1, 9)])], 150),
            (vec![chunk(&[(1, 0, 100), (2, 0, 500), (1, 1, 9), (1, 0, 70)])], 100),
            (vec![chunk(&[(1, 0, 100)]), chunk(&[(1, 0, 120), (1, 1, 3)])], 120),
        ] {
            assert_eq!(largest_row(&chunks, 1), largest, "{chunks:?}");
        }
    }
}
