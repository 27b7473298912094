//! What does a directory of `pg_dump` hold, in which order, and how is it read as one file? Pure: bytes in, bytes out.
//!
//! `pg_restore` reads a directory only from a disk, and an archive of one file (`custom`) from a pipe as well. Both hold the
//! same: a table of contents that differs in where the rows are, and the rows, with a header and cut into blocks in the one
//! file. So a directory is made into such an archive on its way, and needs no disk. The rows must come in the order of the
//! table of contents: in that order a set keeps the files.

use std::collections::BTreeSet;

use crate::schema::toc::{self, Form, Toc};

/// The file with the table of contents.
pub(crate) const CONTENTS: &str = "toc.dat";

/// What stands before the rows of an entry, and before its large objects.
const ROWS: u8 = 1;
const OBJECTS: u8 = 3;

/// What an archive says of rows that are somewhere behind it, and where there are none.
const SOMEWHERE: u8 = 1;
const NOWHERE: u8 = 3;

/// A file that an entry of the table of contents names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) file: String,
    /// Whether it is a list of large objects, whose files come next.
    pub(crate) objects: bool,
    /// What stands before its content in an archive of one file.
    pub(crate) header: Vec<u8>,
}

/// A directory, by its table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The table of contents as an archive of one file has it.
    pub(crate) contents: Vec<u8>,
    /// The other files, but for those of large objects, in order.
    pub(crate) parts: Vec<Part>,
    /// How numbers are written in it.
    pub(crate) int: Int,
}

/// How many bytes a number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Int(usize);

impl Int {
    /// A number, as archives have it: a sign, and bytes from the lowest.
    pub(crate) fn number(self, value: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u64::from(value).to_le_bytes().iter().take(self.0));
        bytes
    }
}

impl Directory {
    /// Reads a table of contents.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let Toc { form, compressed, sizes: (int, offset), data, .. } = toc::read(bytes)?;
        if form != Form::Directory {
            return Err("it isn't of a directory".to_owned());
        }
        if int < 4 {
            return Err("its numbers are too short".to_owned());
        }
        if compressed {
            return Err("its files are compressed, and those of a set aren't".to_owned());
        }
        let mut directory = Self { contents: Vec::with_capacity(bytes.len()), parts: Vec::new(), int: Int(int) };
        let (mut done, mut files) = (0, BTreeSet::new());
        for data in data {
            directory.contents.extend_from_slice(&bytes[done..data.said.start]);
            done = data.said.end;
            directory.contents.push(if data.file.is_some() { SOMEWHERE } else { NOWHERE });
            directory.contents.resize(directory.contents.len() + offset, 0);
            let Some(file) = data.file else { continue };
            if !files.insert(file.clone()) || file == CONTENTS {
                return Err(format!("two of its entries have the file {file:?}"));
            }
            let mut header = vec![if data.objects { OBJECTS } else { ROWS }];
            header.extend(directory.int.number(data.id));
            directory.parts.push(Part { file, objects: data.objects, header });
        }
        directory.contents.extend_from_slice(&bytes[done..]);
        directory.contents[toc::FORM_AT] = toc::CUSTOM;
        Ok(directory)
    }
}

/// The large objects of a list: their numbers and files, in order.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn objects(list: &[u8]) -> Result<Vec<(u32, String)>, String> {
    let text = std::str::from_utf8(list).map_err(|_| "a list of large objects is no text".to_owned())?;
    let object = |line: &str| {
        let (oid, file) = line.split_once(' ')?;
        Some((oid.parse().ok()?, file.to_owned()))
    };
    text.lines()
        .map(|line| object(line).ok_or_else(|| "a list of large objects has a strange line".to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::toc::tests::directory;

    #[test]
    fn a_directory_becomes_one_file() {
        let bytes = directory(&[(258, "TABLE DATA", "258.dat"), (3, "BLOBS", "blobs.toc")]);
        let Directory { contents, parts, int } = Directory::read(&bytes).expect("a directory");
        let part = |file: &str, objects, header: &[u8]| Part { file: file.into(), objects, header: header.into() };
        let expected = [part("258.dat", false, b"\x01\0\x02\x01\0\0"), part("blobs.toc", true, b"\x03\0\x03\0\0\0")];
        assert_eq!((&parts[..], int), (&expected[..], Int(4)));
        let custom = toc::read(&contents).expect("an archive");
        assert_eq!((custom.form, &custom.entries), (Form::Custom, &toc::parse(&bytes).expect("the same")));
        let said: Vec<&[u8]> = custom.data.iter().map(|data| &contents[data.said.clone()]).collect();
        let states: Vec<u8> = said.iter().map(|said| said[0]).collect();
        assert_eq!((said[0].len(), states), (9, vec![NOWHERE, SOMEWHERE, SOMEWHERE]));
        assert_eq!(custom.data.last().map(|data| data.said.end), Some(contents.len()));
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let bytes = directory(&[(2, "TABLE DATA", "2.dat")]);
        for size in 0..bytes.len() {
            assert!(Directory::read(&bytes[..size]).is_err(), "cut at {size}");
        }
        let mut compressed = bytes.clone();
        compressed[12] = 6;
        assert!(Directory::read(&compressed).expect_err("compressed").contains("compressed"));
        for twice in [["2.dat", "2.dat"], ["2.dat", "toc.dat"]] {
            let bytes = directory(&[(2, "TABLE DATA", twice[0]), (3, "TABLE DATA", twice[1])]);
            assert!(Directory::read(&bytes).is_err(), "{twice:?}");
        }
    }

    #[test]
    fn lists_of_large_objects() {
        let two = vec![(16400, "blob_16400.dat".to_owned()), (7, "blob_7.dat".to_owned())];
        assert_eq!(objects(b"16400 blob_16400.dat\n7 blob_7.dat\n"), Ok(two));
        assert_eq!(objects(b""), Ok(Vec::new()));
        for wrong in [&b"x blob_x.dat\n"[..], b"7\n", b"99999999999 f\n", b"7 \xff\n", b"-1 f\n"] {
            assert!(objects(wrong).is_err(), "{wrong:?}");
        }
    }
}
