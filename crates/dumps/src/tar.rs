//! The members of a tar, read as a stream: the forms of POSIX (`ustar`, `pax`) and GNU's long names.
//!
//! The crates for this read the records of long names into memory without a limit, which a hostile file could use. Here each
//! of them has at most 64 KiB. Nothing is unpacked: a path is only a name.

use std::collections::BTreeMap;
use std::io::{self, Read};

use seawall_core::{Failure, Kind};

use crate::layers::{cut_off, damaged, failed};

/// The bytes of a block.
const BLOCK: usize = 512;

/// A path that can't be the name of a database.
const NO_TEXT: &str = "a member's path isn't UTF-8";

/// The most bytes of a record of long names.
const RECORD: u64 = 64 << 10;

/// A member that is no ordinary file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    File,
    Folder,
    /// A link, a device or anything else.
    Other(u8),
}

/// What stands before a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) path: String,
    pub(crate) r#type: Type,
    pub(crate) size: u64,
}

/// A tar that is read. As a reader it is the content of the member at hand.
pub(crate) struct Tar<R> {
    inner: R,
    /// Bytes that are left of the member, and of the zeros behind it.
    left: u64,
    zeros: u64,
    object: String,
}

impl<R: Read> Tar<R> {
    pub(crate) fn new(inner: R, object: &str) -> Self {
        Self { inner, left: 0, zeros: 0, object: object.to_owned() }
    }

    /// Goes to the next member; `None` at the end of the tar, which is read to the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Head>> {
        let (mut long, mut records) = (None, BTreeMap::new());
        loop {
            self.skip()?;
            let mut block = [0; BLOCK];
            self.exact(&mut block)?;
            if block.iter().all(|byte| *byte == 0) {
                return self.only_zeros().map(|()| None);
            }
            let header = header(&block).map_err(|cause| failed(damaged(&self.object, cause)))?;
            (self.left, self.zeros) = (header.size, header.size.next_multiple_of(BLOCK as u64) - header.size);
            match header.r#type {
                b'L' => long = Some(self.text()?),
                b'x' => records = pax(&self.record()?).ok_or_else(|| self.strange("it has a strange record"))?,
                // Of a long name of a link, and of all members: nothing here needs them.
                b'K' | b'g' => drop(self.record()?),
                r#type => {
                    let size = match records.get("size") {
                        Some(size) => size.parse().map_err(|_| self.strange("a member has an impossible size"))?,
                        None => header.size,
                    };
                    let padded =
                        size_with_zeros(size).ok_or_else(|| self.strange("a member has an impossible size"))?;
                    (self.left, self.zeros) = (size, padded - size);
                    let path = records.remove("path").or(long).unwrap_or(header.path);
                    let r#type = match r#type {
                        b'0' | 0 | b'7' => Type::File,
                        b'5' => Type::Folder,
                        other => Type::Other(other),
                    };
                    return Ok(Some(Head { path, r#type, size }));
                }
            }
        }
    }

    /// Reads the rest of the file. Anything but zeros there is a member whose beginning was lost, or another tar.
    fn only_zeros(&mut self) -> io::Result<()> {
        let mut piece = vec![0; 64 << 10];
        loop {
            match self.inner.read(&mut piece)? {
                0 => return Ok(()),
                read if piece.get(..read).is_some_and(|read| read.iter().all(|byte| *byte == 0)) => {}
                _ => {
                    return Err(self.strange(
                        "something follows its end, so part of it was overwritten, or it is more than one tar",
                    ));
                }
            }
        }
    }

    fn strange(&self, cause: &str) -> io::Error {
        failed(damaged(&self.object, cause))
    }

    /// Reads over what is left of the member at hand.
    fn skip(&mut self) -> io::Result<()> {
        let rest = self.left + self.zeros;
        let skipped = io::copy(&mut (&mut self.inner).take(rest), &mut io::sink())?;
        if skipped < rest {
            return Err(failed(cut_off(&self.object, "it ends within a member")));
        }
        (self.left, self.zeros) = (0, 0);
        Ok(())
    }

    fn exact(&mut self, block: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest)? {
                0 => return Err(failed(cut_off(&self.object, "it has no end: a tar ends with a block of zeros"))),
                read => filled += read,
            }
        }
        Ok(())
    }

    /// The content of a record.
    fn record(&mut self) -> io::Result<Vec<u8>> {
        if self.left > RECORD {
            return Err(self.strange("it has a record of more than 64 KiB"));
        }
        let mut content = Vec::new();
        self.read_to_end(&mut content)?;
        Ok(content)
    }

    fn text(&mut self) -> io::Result<String> {
        let content = self.record()?;
        let text = content.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8(text.to_vec()).map_err(|_| self.strange(NO_TEXT))
    }
}

impl<R: Read> Read for Tar<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(part) = buffer.get_mut(..most).filter(|part| !part.is_empty()) else { return Ok(0) };
        match self.inner.read(part)? {
            0 => Err(failed(cut_off(&self.object, "it ends within a member"))),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

fn size_with_zeros(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK as u64).filter(|size| *size < 1 << 62)
}

struct Header {
    path: String,
    size: u64,
    r#type: u8,
}

/// Reads a header.
fn header(block: &[u8; BLOCK]) -> Result<Header, &'static str> {
    let field = |from: usize, size: usize| block.get(from..from + size).unwrap_or_default();
    let sum: u64 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
    if number(field(148, 8)) != Some(sum) {
        return Err("the checksum of a member's header is wrong");
    }
    let text = |bytes: &[u8]| {
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8(bytes.to_vec()).map_err(|_| NO_TEXT)
    };
    // GNU's form has other things in the place of the prefix.
    let is_posix = field(257, 6) == b"ustar\0";
    let (name, prefix) = (text(field(0, 100))?, if is_posix { text(field(345, 155))? } else { String::new() });
    let path = if !prefix.is_empty() { format!("{prefix}/{name}") } else { name };
    let size = number(field(124, 12)).filter(|size| size_with_zeros(*size).is_some());
    let size = size.ok_or("a member has an impossible size")?;
    Ok(Header { path, size, r#type: field(156, 1).first().copied().unwrap_or_default() })
}

/// A number: octal digits, or, behind a byte of 0x80, bytes from the highest.
fn number(field: &[u8]) -> Option<u64> {
    if let Some((0x80, rest)) = field.split_first() {
        return rest.iter().try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let digits = field.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// The records of a `pax` header: `LENGTH KEY=VALUE\n`.
fn pax(mut content: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut records = BTreeMap::new();
    while !content.is_empty() {
        let blank = content.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(content.get(..blank)?).ok()?.parse().ok()?;
        let (record, rest) = content.split_at_checked(length)?;
        let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
        let at = record.iter().position(|byte| *byte == b'=')?;
        let (key, value) = record.split_at_checked(at)?;
        let (key, value) = (String::from_utf8_lossy(key).into_owned(), value.get(1..)?);
        // Only the path must be a text.
        let value = match key.as_str() {
            "path" => String::from_utf8(value.to_vec()).ok()?,
            _ => String::from_utf8_lossy(value).into_owned(),
        };
        records.insert(key, value);
        content = rest;
    }
    Some(records)
}

/// The parts of a member's path.
///
/// # Errors
/// `dump.unsafe-path` for a path that leads out of the folder in which it would be unpacked.
pub(crate) fn parts<'a>(path: &'a str, object: &str) -> Result<Vec<&'a str>, Failure> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_wrong =
        path.starts_with('/') || parts.contains(&"..") || path.chars().any(char::is_control) || path.len() > 4096;
    if is_wrong {
        let shown: String = path.chars().take(100).collect();
        return Err(not_safe(object, &format!("a member has the path {shown:?}, which leads out of the backup")));
    }
    Ok(parts)
}

/// A member that no backup has.
pub(crate) fn not_safe(object: &str, cause: &str) -> Failure {
    let next = "don't use this file: no backup program writes such a member; nothing was restored";
    Failure::new(Kind::Refused, "dump.unsafe-path", object, cause, next)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::layers::failure;

    /// A member, with its header, as `tar` writes it.
    pub(crate) fn member(path: &str, r#type: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..path.len().min(100)].copy_from_slice(&path.as_bytes()[..path.len().min(100)]);
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = r#type;
        block[257..263].copy_from_slice(b"ustar\0");
        seal(&mut block);
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    }

    fn seal(block: &mut [u8]) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }

    fn end() -> Vec<u8> {
        vec![0; 2 * BLOCK]
    }

    type Found = Result<Vec<(String, Type, Vec<u8>)>, &'static str>;

    fn members(tar: &[u8]) -> Found {
        let (mut tar, mut found) = (Tar::new(tar, "t"), Vec::new());
        let code = |error| failure(error, "t").code;
        while let Some(head) = tar.next().map_err(code)? {
            let mut content = Vec::new();
            tar.read_to_end(&mut content).map_err(code)?;
            assert_eq!(content.len() as u64, head.size);
            found.push((head.path, head.r#type, content));
        }
        Ok(found)
    }

    #[test]
    fn members_of_all_forms() {
        let long = format!("dumps/{}.dump", "n".repeat(150));
        let mut posix = member("dumps/b.dump", b'0', b"xyz");
        posix[345..350].copy_from_slice(b"front");
        seal(&mut posix[..BLOCK]);
        let record = |text: &str| {
            let length =
                (text.len() + 4..).find(|length| length.to_string().len() + 2 + text.len() == *length).expect("one");
            format!("{length} {text}\n")
        };
        let pax = record(&format!("path={long}")) + &record("mtime=1.5");
        let tar = [
            member("./", b'5', b""),
            member("./globals.sql", b'0', b"SELECT 1;"),
            posix,
            member("././@LongLink", b'L', format!("{long}\0").as_bytes()),
            member(&long, b'0', &[1; 700]),
            member("PaxHeaders/x", b'x', pax.as_bytes()),
            member("short", 0, b"pax"),
            member("link", b'2', b""),
            end(),
        ]
        .concat();
        let expected = vec![
            ("./".into(), Type::Folder, vec![]),
            ("./globals.sql".into(), Type::File, b"SELECT 1;".to_vec()),
            ("front/dumps/b.dump".into(), Type::File, b"xyz".to_vec()),
            (long.clone(), Type::File, vec![1; 700]),
            (long.clone(), Type::File, b"pax".to_vec()),
            ("link".into(), Type::Other(b'2'), vec![]),
        ];
        assert_eq!(members(&tar), Ok(expected));
        for cut in [tar.len() - 2 * BLOCK, 100, BLOCK + 100, 4 * BLOCK + 1] {
            assert_eq!(members(&tar[..cut]), Err("dump.cut-off"), "{cut}");
        }
        // The second block of zeros may be missing, and more of them may follow.
        assert!(members(&tar[..tar.len() - BLOCK]).is_ok());
        assert!(members(&[&tar[..], &[0; 9000]].concat()).is_ok());
        // A lost header, or a second tar.
        let two = [member("a", b'0', b"x"), member("b", b'0', b"y"), end()].concat();
        let mut lost = two.clone();
        lost[2 * BLOCK..3 * BLOCK].fill(0);
        assert_eq!(members(&lost), Err("dump.damaged"));
        assert_eq!(members(&[two.clone(), two].concat()), Err("dump.damaged"));
        let mut foreign = member("a", b'0', b"x");
        foreign[0] = 0xff;
        seal(&mut foreign[..BLOCK]);
        assert_eq!(members(&[foreign, end()].concat()), Err("dump.damaged"));
    }

    #[test]
    fn hostile_headers_are_refused() {
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut tar = [member("a", b'0', b"x"), end()].concat();
            change(&mut tar);
            tar
        };
        for (tar, code) in [
            (with(&|tar| tar[0] ^= 1), "dump.damaged"),
            (
                with(&|tar| {
                    tar[124..136].copy_from_slice(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
                    seal(&mut tar[..BLOCK]);
                }),
                "dump.damaged",
            ),
            (
                with(&|tar| {
                    tar[124..135].copy_from_slice(b"77777777777");
                    seal(&mut tar[..BLOCK]);
                }),
                "dump.cut-off",
            ),
            ([member("l", b'L', &vec![b'a'; 70_000]), end()].concat(), "dump.damaged"),
            ([member("x", b'x', b"99 path=a\n"), end()].concat(), "dump.damaged"),
            ([member("x", b'x', b"12 size=-44\n"), member("a", b'0', b""), end()].concat(), "dump.damaged"),
        ] {
            assert_eq!(members(&tar), Err(code));
        }
        for (path, safe) in [
            ("./dumps/a.dump", true),
            ("a/./b", true),
            ("/etc/passwd", false),
            ("../x", false),
            ("a/../../x", false),
            ("a\nb", false),
            (&"x".repeat(5000), false),
        ] {
            assert_eq!(parts(path, "t").is_ok(), safe, "{path}");
        }
    }
}
