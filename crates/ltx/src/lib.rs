//! The LTX transaction file format: bytes in, bytes out.
//!
//! An LTX file holds the pages that one or more transactions changed in a SQLite database. Litestream and
//! LiteFS keep databases as chains of such files. This crate writes the current form of the format and
//! reads it back, sequentially or on many threads, with memory that is bounded by settings and a few bytes
//! for each page. It does no I/O, starts no threads, and does not panic whatever the bytes are.
//!
//! New to the format? The [`guide`] says what a chain is, what a file holds and what a reader must check.
//!
//! * writing: [`Encoder`], with [`compress_batch`] on other threads
//! * reading a stream: [`Splitter`], with [`RawBatch::decode`] on other threads
//! * reading a small file: [`decode_all`]
//! * files of older generations: [`Generation::detect`], [`decode_any`]
//! * many files into one: [`Merge`], [`merge_all`]
//! * single pages: [`Index`] and [`decode_frame`]
//! * names and numbers: [`FileName`], [`Txid`], [`PageNo`], [`PageSize`], [`Checksum`], [`Position`], [`Timestamp`]
//! * SQLite's write-ahead log, from which such files are made: [`wal`]
//! * whole files by their paths, on several threads: `file`, with the feature of that name
//!
//! # Features
//!
//! | feature | default | |
//! |---|---|---|
//! | `std` | yes | compresses with LZ4's own library, in C, and hashes with the processor's own instructions |
//! | `file` | no | the module `file`: whole files by their paths, on several threads. Unix only |
//!
//! Without `std` the crate is `no_std` with `alloc`, and all Rust. It has the same functions and reads the same files;
//! compressed pages have other bytes, and it takes about three times as long. The target needs atomic pointers.

#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![warn(missing_debug_implementations)]

extern crate alloc;

mod batch;
mod checksum;
#[cfg(feature = "std")]
mod compress;
#[cfg(any(test, not(feature = "std")))]
mod compress_rust;
mod decode;
mod encode;
mod error;
#[cfg(feature = "file")]
pub mod file;
mod frame;
#[cfg(any(doc, doctest))]
pub mod guide;
mod header;
mod index;
mod ledger;
mod legacy;
mod lz4;
mod merge;
mod pagehash;
mod position;
mod register;
mod sequence;
mod shift;
mod split;
mod text;
mod types;
mod varint;
pub mod wal;

pub use batch::{Batch, Batcher, compress_batch};
pub use checksum::{Checksum, Crc64, Rolling, crc64, page_checksum};
pub use decode::{
    CheckedBatch, CheckedFrame, DecodedBatch, RawBatch, decode_all, decode_frame, decode_frame_into, frames,
};
pub use encode::{Encoder, Tail};
pub use error::{
    Error, Generation, HeaderError, IndexFault, Lz4Fault, MergeError, PageRule, Part, PostApplyRule, Result,
};
pub use header::{HEADER_SIZE, Header, TRAILER_SIZE, Trailer};
pub use index::{Index, IndexEntry};
pub use legacy::decode_any;
pub use merge::{Merge, Source, merge_all};
pub use pagehash::{PageHash, PageHasher};
pub use position::{Position, Timestamp};
pub use split::{Splitter, Summary};
pub use text::{FileName, TextError};
pub use types::{PageNo, PageSize, Txid};

/// Keeps the README's example running.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
