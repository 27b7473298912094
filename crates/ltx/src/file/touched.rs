//! Which pages of a database are going to be overwritten or cut off? A rollback journal has to save these.

use std::fs::File;
use std::path::Path;

use crate::PageNo;
use crate::file::change::State;
use crate::file::error::{FileError, Result};
use crate::file::index::LtxFile;
use crate::file::sequential;

/// Pages of a database: one bit for each.
pub(super) struct Touched {
    bits: Vec<u64>,
    pages: u32,
}

/// The pages that applying these files to a database touches.
pub(super) fn pages<'f>(inputs: impl Iterator<Item = (&'f File, &'f Path)>, state: &State) -> Result<Touched> {
    let lock = state.page_size.lock_page();
    let mut touched = Touched { bits: vec![0; state.pages as usize / 64 + 1], pages: state.pages };
    for (file, path) in inputs {
        let header = sequential::header(file, path)?;
        (header.commit + 1..=state.pages).for_each(|page| touched.add(PageNo(page), lock));
        let len = file.metadata().map_err(FileError::io(path))?.len();
        if sequential::detect(file, path, len)?.is_some() {
            sequential::read(file, path, |page, _| {
                touched.add(page, lock);
                Ok(())
            })?;
            continue;
        }
        let clone = file.try_clone().map_err(FileError::io(path))?;
        let ltx = LtxFile::of(clone, path)?;
        let mut entries = ltx.entries();
        while let Some(entry) = entries.next()? {
            touched.add(entry.page, lock);
        }
    }
    Ok(touched)
}

impl Touched {
    fn add(&mut self, page: PageNo, lock: PageNo) {
        if page.0 > self.pages || page == lock {
            return;
        }
        if let Some(word) = self.bits.get_mut(page.0 as usize / 64) {
            *word |= 1 << (page.0 % 64);
        }
    }

    /// The pages, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageNo> {
        let has = |page: u32| self.bits.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1);
        (1..=self.pages).filter(move |page| has(*page)).map(PageNo)
    }
}
