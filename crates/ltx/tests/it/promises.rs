//! What the types promise beside their functions.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::panic::{RefUnwindSafe, UnwindSafe};

use seawall_ltx::file::{
    Applied, ApplyOptions, DatabaseSum, Difference, EncodeOptions, FileError, Journal, Verified, Work,
};
use seawall_ltx::wal::{Chain, FrameHeader, PageVersion, Salts, Scan, WalHeader, WordOrder};
use seawall_ltx::{
    Batch, Batcher, CheckedBatch, CheckedFrame, Checksum, Crc64, DecodedBatch, Encoder, FileName, Generation, Header,
    HeaderError, Index, IndexEntry, IndexFault, Lz4Fault, Merge, MergeError, PageHash, PageHasher, PageNo, PageRule,
    PageSize, Part, Position, PostApplyRule, RawBatch, Rolling, Source, Splitter, Summary, Tail, TextError, Timestamp,
    Trailer, Txid,
};

/// Goes to any thread, survives a panic, and can be looked at.
fn plain<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + Debug>() {}

fn error<T: Error + Send + Sync + 'static + Clone + Copy + PartialEq>() {}

fn value<T: Copy + Eq + Debug + Send + Sync + 'static>() {}

fn text<T: Display + std::str::FromStr<Err = TextError> + Ord + std::hash::Hash>() {}

#[test]
fn every_type_goes_to_any_thread() {
    plain::<(Batch, Batcher, CheckedBatch, CheckedFrame<'_>, DecodedBatch, Encoder, RawBatch, Splitter)>();
    plain::<(Crc64, Index, Merge, PageHasher, Scan, Tail, Applied, DatabaseSum, Verified, EncodeOptions)>();
    plain::<Journal>();
    value::<(Checksum, FileName, Generation, Header, IndexEntry, PageHash, PageNo, PageSize, Part, Position)>();
    value::<(Rolling, Source, Summary, Timestamp, Trailer, Txid)>();
    value::<(Chain, FrameHeader, PageVersion, Salts, WalHeader, WordOrder, Difference, ApplyOptions)>();
    fn work<'a>() -> impl Fn(Work<'a>) -> Box<dyn Send + Sync + 'a> {
        |work| Box::new(work)
    }
    work()(Work::new());
}

#[test]
fn errors_are_small_values_that_any_error_type_can_hold() {
    error::<seawall_ltx::Error>();
    error::<HeaderError>();
    error::<MergeError>();
    error::<TextError>();
    error::<IndexFault>();
    error::<Lz4Fault>();
    error::<PageRule>();
    error::<PostApplyRule>();
    fn file<T: Error + Send + Sync + 'static>() {}
    file::<FileError>();
    assert!(size_of::<seawall_ltx::Error>() <= 48, "every result carries the room of an error");
}

#[test]
fn what_has_a_text_form_reads_it_back() {
    text::<Txid>();
    text::<Checksum>();
    text::<Position>();
    text::<Timestamp>();
    text::<FileName>();
}
