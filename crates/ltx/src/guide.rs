//! The format for newcomers: what a chain of files is, what a file holds, what a reader must check.
//!
//! # A chain
//!
//! SQLite keeps a database as pages of one size, numbered from 1. A transaction changes some of them. An LTX file holds
//! the pages that one or more transactions changed, whole and in their state after the last of these transactions.
//! Transactions have numbers, their ids, which count up from 1. A file's name says which ones it holds:
//!
//! ```text
//! 0000000000000001-0000000000000001.ltx   transaction 1: a snapshot, every page of the database
//! 0000000000000002-0000000000000002.ltx   transaction 2: the pages that it changed
//! 0000000000000003-0000000000000009.ltx   transactions 3 to 9, merged: the newest copy of each page
//! ```
//!
//! Files that follow each other are a chain. To restore a database, take a snapshot and the files after it in order.
//! For each file, write its pages at `(number - 1) * page size`, then cut or extend the database to the size that the
//! header gives (`commit`, in pages). A file follows another if it begins at the next transaction or before it, and
//! ends after it: [`FileName::continues`]. To restore an earlier moment, stop earlier. To save room, merge neighbours
//! into one file, [`Merge`], and delete them once it is stored.
//!
//! # A file
//!
//! ```text
//! +------------------+ 0
//! | header           |   100 bytes: which transactions, page size, database size, time, checksum before
//! +------------------+ 100
//! | page frames      |   one for each page, ascending by page number: a page header, and the page as an LZ4 block
//! |   …              |
//! +------------------+
//! | end marker       |   6 bytes of zeros, in place of a page header
//! +------------------+
//! | page index       |   (page, offset, size) of each frame as varints, and a 0
//! | index size       |   8 bytes
//! +------------------+ length - 16
//! | trailer          |   16 bytes: checksum of the database after the file, checksum of the file
//! +------------------+ length
//! ```
//!
//! All fixed numbers are big-endian. The types have the fields: [`Header`], [`frames`] for a page frame, [`Index`],
//! [`Trailer`]. A reader of a stream needs no index. A reader with random access begins at the end: the last 24 bytes
//! give the size of the index, and the index the place of each page.
//!
//! SQLite never writes the page at 1 GiB, the *lock page* ([`PageSize::lock_page`]). No file has it, and no checksum
//! includes it.
//!
//! # Checksums
//!
//! All of them are CRC-64/GO-ISO with the top bit set, so that 0 can mean "none" ([`Checksum`]).
//!
//! | checksum | over | where | it shows |
//! |---|---|---|---|
//! | page | page number, page | nowhere; a part of the next | |
//! | database | an XOR of the page checksums | `pre_apply` in the header, `post_apply` in the trailer | that a file meets the database state for which it was made, and leaves the one that its writer had |
//! | file | header, page headers, *decompressed* pages, index, `post_apply` | trailer | damage anywhere in the file |
//!
//! Database checksums are optional ([`Header::no_checksum`]), and Litestream leaves them out. The file checksum is
//! always there. The `post_apply` of a file is the `pre_apply` of the next one. In a snapshot, `post_apply` is the
//! checksum of its own pages.
//!
//! An XOR of checksums doesn't see two pages that were swapped, or the same bits flipped in two pages. The file
//! checksum sees both. Neither is a signature: an attacker who can write a file can make its checksums fit.
//!
//! # What a reader must check
//!
//! The bytes of a file may be damaged, cut or hostile. This crate checks all of this; a reader that does less restores
//! damaged databases without a word.
//!
//! 1. The header: magic, known flags, a possible page size, transactions in order, checksums where the rules ask for
//!    them.
//! 2. Pages ascend, are inside of the database, and are not the lock page. A snapshot has *every* page, also the last.
//! 3. A frame decompresses to exactly one page. A shorter result would leave old content of the buffer in the page.
//! 4. The length in a page header is possible for the page size, before memory is allocated for it.
//! 5. The index names each frame with its offset and size, and no other.
//! 6. The file checksum; in a snapshot with checksums the database checksum too.
//! 7. The file ends after the trailer.
//!
//! Pages are known to be right only at the end of the file, once [`Splitter::finish`] or [`decode_all`] returned
//! success. Write them to a temporary file, and rename it then; `file::apply` works so. A page that was read alone,
//! through the index, is protected by nothing but the form of its LZ4 block.
//!
//! The chain needs checks too: files follow each other ([`FileName::continues`]), have one page size, and `pre_apply` is
//! the checksum of the database so far. If a database grows, the file has all new pages; some writers in the field
//! didn't keep this rule.
//!
//! # Limits
//!
//! | | |
//! |---|---|
//! | page size | a power of two from 512 to 65536 bytes |
//! | pages of a database | 2³² - 1 |
//! | transaction ids | 1 to 2⁶⁴ - 1 |
//! | time | milliseconds from 1970 in 64 bits, with sign |
//! | a page frame | 65,834 bytes at most (a page of 65536 bytes that doesn't compress) |
//! | memory of a reader or writer | a batch (1 MiB by default), and 3 to 8 bytes for each page of the file |
//! | memory of [`Index`] | 16 bytes for each page of the file |
//! | a deletion (`commit` 0) | only with checksums, because the rules for its trailer contradict each other without |
//!
//! # Generations
//!
//! The magic of all files is `LTX1`, and there is no version number. Pages were stored in four ways over the years. The
//! current form has the length of each block in its page header. [`Generation::detect`] tells the older ones apart, and
//! [`decode_any`] reads all of them. Nothing needs to write them.
//!
//! [`FileName::continues`]: crate::FileName::continues
//! [`Merge`]: crate::Merge
//! [`Header`]: crate::Header
//! [`Header::no_checksum`]: crate::Header::no_checksum
//! [`frames`]: crate::frames
//! [`Index`]: crate::Index
//! [`Trailer`]: crate::Trailer
//! [`PageSize::lock_page`]: crate::PageSize::lock_page
//! [`Checksum`]: crate::Checksum
//! [`Splitter::finish`]: crate::Splitter::finish
//! [`decode_all`]: crate::decode_all
//! [`Generation::detect`]: crate::Generation::detect
//! [`decode_any`]: crate::decode_any
