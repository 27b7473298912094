//! Which page may come next? The order rules of the format, the same for writer and reader.
//!
//! Pages ascend, stay within the database, and are never the lock page. A snapshot moreover has every page: a hole is
//! found at the page after it, and a missing end when the file is closed. (Other programs omit this last check; a short
//! snapshot then restores as a damaged database.)

use crate::error::{Error, PageRule, Result};
use crate::header::Header;
use crate::types::{PageNo, PageSize};

/// The pages seen so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    page_size: PageSize,
    commit: u32,
    snapshot: bool,
    last: PageNo,
    pages: u64,
}

impl Sequence {
    /// No page yet of a file with this header.
    pub(crate) fn new(header: &Header) -> Sequence {
        Sequence {
            page_size: header.page_size,
            commit: header.commit,
            snapshot: header.is_snapshot(),
            last: PageNo(0),
            pages: 0,
        }
    }

    /// Counts the next page, or returns the rule that the page breaks, and then changes nothing.
    pub(crate) fn admit(&mut self, page: PageNo) -> Result<()> {
        let rule = if page == PageNo(0) {
            Some(PageRule::Zero)
        } else if page.0 > self.commit {
            Some(PageRule::BeyondCommit { commit: self.commit })
        } else if page == self.page_size.lock_page() {
            Some(PageRule::Lock)
        } else if page <= self.last {
            Some(PageRule::Order { previous: self.last })
        } else {
            None
        };
        if let Some(rule) = rule {
            return Err(Error::Page { page, rule });
        }
        match self.missing() {
            Some(missing) if self.snapshot && missing != page => Err(Error::SnapshotHole { missing }),
            _ => {
                self.last = page;
                self.pages += 1;
                Ok(())
            }
        }
    }

    /// Whether the file may end here.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.missing() {
            Some(missing) if self.snapshot => Err(Error::SnapshotHole { missing }),
            _ => Ok(()),
        }
    }

    /// How many pages were counted.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The next page of a complete copy, unless the copy is complete.
    fn missing(&self) -> Option<PageNo> {
        self.page_size.page_after(self.last).filter(|next| next.0 <= self.commit)
    }
}
