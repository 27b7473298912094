//! The compressor of builds without `std`: a library in Rust, because LZ4's own needs a C library.
//!
//! Memory: a table of 8 or 16 KiB, and a page with a tenth more.

use alloc::vec::Vec;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Compresses pages one after the other.
#[derive(Default)]
pub(crate) struct Compressor {
    table: CompressTable,
    /// The library asks for more room than a block can need.
    block: Vec<u8>,
}

impl Compressor {
    /// Writes the block of a page to the front of `out`, which has the room of a [`bound`](crate::lz4::bound); returns
    /// its length.
    pub(crate) fn compress(&mut self, page: &[u8], out: &mut [u8]) -> usize {
        self.block.resize(get_maximum_output_size(page.len()), 0);
        let len = compress_into_with_table(page, &mut self.block, &mut self.table).expect("it has the room asked for");
        let block = self.block.get(..len).unwrap_or_default();
        out.get_mut(..len).expect("a block always fits into its bound").copy_from_slice(block);
        len
    }
}
