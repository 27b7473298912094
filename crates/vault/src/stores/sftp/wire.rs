//! The packets of SFTP version 3 (draft-ietf-secsh-filexfer-02), and of OpenSSH's extensions that are used.
//!
//! Names and handles are bytes: a server may use any. What a server sends is hostile (I11): each length is compared with
//! the bytes that are there, so a packet costs no more memory than its own size, which the session bounds.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The version of the protocol.
pub(super) const VERSION: u32 = 3;

/// The largest packet that is taken: OpenSSH's own bound.
pub(super) const LARGEST: usize = 256 << 10;

/// The most characters of a server's message that are kept.
const LONGEST_MESSAGE: usize = 200;

/// The kinds of packets that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Init = 1,
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    Lstat = 7,
    Fstat = 8,
    Opendir = 11,
    Readdir = 12,
    Remove = 13,
    Mkdir = 14,
    Rename = 18,
    Extended = 200,
}

/// How a file is opened.
pub(super) mod open {
    pub(in super::super) const READ: u32 = 1;
    pub(in super::super) const WRITE: u32 = 2;
    pub(in super::super) const CREATE: u32 = 8;
    /// Together with [`CREATE`]: only if there is none.
    pub(in super::super) const NEW: u32 = 32;
}

/// The codes of answers; those from [`FULL`] on are of later versions, and some servers send them all the same.
pub(super) mod status {
    pub(in super::super) const OK: u32 = 0;
    pub(in super::super) const END: u32 = 1;
    pub(in super::super) const NO_SUCH_FILE: u32 = 2;
    pub(in super::super) const DENIED: u32 = 3;
    pub(in super::super) const FAILURE: u32 = 4;
    pub(in super::super) const BAD_MESSAGE: u32 = 5;
    pub(in super::super) const UNSUPPORTED: u32 = 8;
    pub(in super::super) const NO_SUCH_PATH: u32 = 10;
    pub(in super::super) const EXISTS: u32 = 11;
    pub(in super::super) const READ_ONLY: u32 = 12;
    pub(in super::super) const FULL: u32 = 14;
    pub(in super::super) const QUOTA: u32 = 15;
}

/// A packet being written.
pub(super) struct Request(BytesMut);

impl Request {
    /// Begins a packet with an id; `room` is what its fields need at least.
    pub(super) fn new(kind: Kind, id: u32, room: usize) -> Self {
        let mut packet = BytesMut::with_capacity(room + 64);
        packet.put_u32(0);
        packet.put_u8(kind as u8);
        packet.put_u32(id);
        Self(packet)
    }

    /// Begins a request of an extension.
    pub(super) fn extended(name: &str, id: u32) -> Self {
        Self::new(Kind::Extended, id, 0).bytes(name.as_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn number(mut self, number: u32) -> Self {
        self.0.put_u32(number);
        self
    }

    pub(super) fn offset(mut self, offset: u64) -> Self {
        self.0.put_u64(offset);
        self
    }

    /// The attributes of a new file or folder: its mode, or none.
    pub(super) fn attributes(self, mode: Option<u32>) -> Self {
        match mode {
            Some(mode) => self.number(4).number(mode),
            None => self.number(0),
        }
    }

    /// The packet with its length.
    pub(super) fn done(mut self) -> Bytes {
        let length = u32::try_from(self.0.len().saturating_sub(4)).unwrap_or(u32::MAX);
        if let Some(head) = self.0.get_mut(..4) {
            head.copy_from_slice(&length.to_be_bytes());
        }
        self.0.freeze()
    }
}

/// The first packet of a client.
pub(super) fn hello() -> Bytes {
    // It has the version where others have an id.
    Request::new(Kind::Init, VERSION, 0).done()
}

/// What a server told about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Attributes {
    pub(super) size: Option<u64>,
    mode: Option<u32>,
    /// Seconds since 1970.
    pub(super) modified: Option<u32>,
}

impl Attributes {
    const KIND: u32 = 0o170_000;

    fn is(&self, kind: u32) -> Option<bool> {
        self.mode.map(|mode| mode & Self::KIND).filter(|found| *found != 0).map(|found| found == kind)
    }

    /// Who may do what with it, if the server said so.
    pub(super) fn rights(&self) -> Option<u32> {
        self.mode.map(|mode| mode & 0o777)
    }

    /// Whether it is a regular file; `None` if the server didn't say.
    pub(super) fn is_file(&self) -> Option<bool> {
        self.is(0o100_000)
    }

    /// Whether it is a folder; `None` if the server didn't say.
    pub(super) fn is_folder(&self) -> Option<bool> {
        self.is(0o040_000)
    }
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: Bytes,
    pub(super) attributes: Attributes,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Status(Status),
    Handle(Bytes),
    Data(Bytes),
    Names(Vec<Named>),
    Attributes(Attributes),
    Extended(Bytes),
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u32,
    pub(super) message: String,
}

/// A packet that is none of the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an answer can't be read: {0}")]
pub(super) struct Malformed(&'static str);

impl From<bytes::TryGetError> for Malformed {
    fn from(_: bytes::TryGetError) -> Self {
        Self("it ends too early")
    }
}

fn take(packet: &mut Bytes) -> Result<Bytes, Malformed> {
    let length = packet.try_get_u32()? as usize;
    if length > packet.len() {
        return Err(Malformed("a length goes beyond its end"));
    }
    Ok(packet.split_to(length))
}

fn text(bytes: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(bytes).chars().take(LONGEST_MESSAGE).collect();
    shown.escape_debug().to_string()
}

fn attributes(packet: &mut Bytes) -> Result<Attributes, Malformed> {
    let flags = packet.try_get_u32()?;
    let mut found = Attributes::default();
    if flags & 1 != 0 {
        found.size = Some(packet.try_get_u64()?);
    }
    if flags & 2 != 0 {
        // The numbers of user and group.
        packet.try_get_u64()?;
    }
    if flags & 4 != 0 {
        found.mode = Some(packet.try_get_u32()?);
    }
    if flags & 8 != 0 {
        packet.try_get_u32()?;
        found.modified = Some(packet.try_get_u32()?);
    }
    if flags & 0x8000_0000 != 0 {
        for _ in 0..packet.try_get_u32()? {
            take(packet)?;
            take(packet)?;
        }
    }
    Ok(found)
}

fn names(packet: &mut Bytes) -> Result<Vec<Named>, Malformed> {
    /// The bytes of the shortest name with its attributes.
    const LEAST: usize = 12;
    let count = packet.try_get_u32()? as usize;
    let mut found = Vec::with_capacity(count.min(packet.len() / LEAST));
    for _ in 0..count {
        let name = take(packet)?;
        // The line that a terminal would show.
        take(packet)?;
        found.push(Named { name, attributes: attributes(packet)? });
    }
    Ok(found)
}

/// Reads an answer, and the id of its request.
pub(super) fn answer(mut packet: Bytes) -> Result<(u32, Answer), Malformed> {
    let kind = packet.try_get_u8()?;
    let id = packet.try_get_u32()?;
    let answer = match kind {
        101 => {
            let code = packet.try_get_u32()?;
            // Old servers send no message.
            let message = if packet.is_empty() { Bytes::new() } else { take(&mut packet)? };
            Answer::Status(Status { code, message: text(&message) })
        }
        102 => Answer::Handle(take(&mut packet)?),
        103 => Answer::Data(take(&mut packet)?),
        104 => Answer::Names(names(&mut packet)?),
        105 => Answer::Attributes(attributes(&mut packet)?),
        201 => Answer::Extended(packet),
        _ => return Err(Malformed("it is of an unknown kind")),
    };
    Ok((id, answer))
}

/// Reads the first packet of a server: the version, and the extensions with their own versions.
pub(super) fn welcome(mut packet: Bytes) -> Result<(u32, BTreeMap<String, String>), Malformed> {
    if packet.try_get_u8()? != 2 {
        return Err(Malformed("it is no beginning of SFTP"));
    }
    let version = packet.try_get_u32()?;
    let mut extensions = BTreeMap::new();
    while !packet.is_empty() {
        let (name, value) = (take(&mut packet)?, take(&mut packet)?);
        extensions.insert(text(&name), text(&value));
    }
    Ok((version, extensions))
}

/// Reads the lengths of `limits@openssh.com`: of what one request may read, and what one may write.
pub(super) fn limits(mut reply: Bytes) -> Result<(u64, u64), Malformed> {
    reply.try_get_u64()?;
    Ok((reply.try_get_u64()?, reply.try_get_u64()?))
}

/// Reads from `statvfs@openssh.com` whether there is no room for a user without privileges: not for a few writes, or
/// for no more names.
pub(super) fn is_full(mut reply: Bytes) -> Result<bool, Malformed> {
    const LITTLE: u64 = 1 << 20;
    let mut numbers = [0; 8];
    for number in &mut numbers {
        *number = reply.try_get_u64()?;
    }
    let [_, size, _, _, blocks, names, _, free_names] = numbers;
    // A file system without a fixed number of names has none of them.
    Ok(blocks.saturating_mul(size) < LITTLE || names > 0 && free_names == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(kind: u8, id: u32) -> BytesMut {
        let mut packet = BytesMut::new();
        packet.put_u8(kind);
        packet.put_u32(id);
        packet
    }

    fn put(packet: &mut BytesMut, bytes: &[u8]) {
        packet.put_u32(u32::try_from(bytes.len()).expect("small"));
        packet.extend_from_slice(bytes);
    }

    #[test]
    fn requests() {
        assert_eq!(&hello()[..], [0, 0, 0, 5, 1, 0, 0, 0, 3]);
        let read = Request::new(Kind::Read, 7, 0).bytes(&[0x80]).offset(258).number(4).done();
        assert_eq!(&read[..], [0, 0, 0, 22, 5, 0, 0, 0, 7, 0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 4]);
    }

    #[test]
    fn answers() {
        let mut refused = packet(101, 9);
        refused.put_u32(status::DENIED);
        put(&mut refused, b"no\n");
        put(&mut refused, b"en");
        let expected = Answer::Status(Status { code: status::DENIED, message: "no\\n".into() });
        assert_eq!(answer(refused.freeze()), Ok((9, expected)));
        let mut old = packet(101, 9);
        old.put_u32(0);
        assert_eq!(answer(old.freeze()), Ok((9, Answer::Status(Status { code: 0, message: String::new() }))));
        let mut handle = packet(102, 1);
        put(&mut handle, &[0, 0, 0, 0x80]);
        assert_eq!(answer(handle.freeze()), Ok((1, Answer::Handle(Bytes::from_static(&[0, 0, 0, 0x80])))));
    }

    #[test]
    fn names_with_all_kinds_of_attributes() {
        let mut list = packet(104, 1);
        list.put_u32(2);
        put(&mut list, b"a");
        put(&mut list, b"-rw-r--r-- a");
        list.put_u32(0x8000_000f);
        list.put_u64(5);
        list.put_u64(0);
        list.put_u32(0o100_644);
        list.put_u32(1);
        list.put_u32(2);
        list.put_u32(1);
        put(&mut list, b"x@y");
        put(&mut list, b"z");
        put(&mut list, b"b");
        put(&mut list, b"");
        list.put_u32(0);
        let Ok((1, Answer::Names(names))) = answer(list.freeze()) else { panic!("names") };
        let [a, b] = &names[..] else { panic!("{names:?}") };
        assert_eq!((&a.name[..], a.attributes.size, a.attributes.modified), (&b"a"[..], Some(5), Some(2)));
        assert_eq!((a.attributes.is_file(), a.attributes.is_folder()), (Some(true), Some(false)));
        assert_eq!((&b.name[..], b.attributes.is_file()), (&b"b"[..], None));
    }

    #[test]
    fn lengths_that_lie() {
        let mut data = packet(103, 1);
        data.put_u32(u32::MAX);
        data.put_u8(1);
        assert!(answer(data.freeze()).is_err());
        let mut list = packet(104, 1);
        list.put_u32(u32::MAX);
        assert!(answer(list.freeze()).is_err());
        let mut extended = packet(105, 1);
        extended.put_u32(0x8000_0000);
        extended.put_u32(u32::MAX);
        assert!(answer(extended.freeze()).is_err());
        assert!(answer(Bytes::from_static(&[1])).is_err() && welcome(Bytes::from_static(&[2, 0])).is_err());
    }

    #[test]
    fn room() {
        let reply = |blocks: u64, names: u64, free: u64| {
            let mut reply = BytesMut::new();
            for number in [4096, 4096, 9000, 9000, blocks, names, free, free, 0, 0, 255] {
                reply.put_u64(number);
            }
            is_full(reply.freeze())
        };
        assert_eq!(
            (reply(999, 9, 3), reply(5, 9, 3), reply(999, 9, 0), reply(999, 0, 0)),
            (Ok(false), Ok(true), Ok(true), Ok(false))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 99_u8..107) {
            let bytes = Bytes::from(bytes);
            let _ = (answer(bytes.clone()), welcome(bytes.clone()), limits(bytes.clone()), is_full(bytes.clone()));
            let _ = answer([&[kind][..], &bytes].concat().into());
        }
    }
}
