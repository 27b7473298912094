//! Text in a database's own encoding, converted to ours and back without loss.
//!
//! A session in UTF-8 would fail at the first byte without a counterpart there: 0x81 in WIN1252, some characters of
//! EUC_JP. So a session uses the encoding of its database, and the server converts nothing. Here bytes become
//! characters by the encoding's table. Each byte that isn't in the table becomes a character of its own ([`BYTES`]), so
//! that a name is written back as exactly the same bytes.

use std::borrow::Cow;

use encoding_rs::{
    EUC_JP, EUC_KR, Encoding, GBK, IBM866, ISO_8859_2, ISO_8859_3, ISO_8859_4, ISO_8859_5, ISO_8859_6, ISO_8859_7,
    ISO_8859_8, ISO_8859_10, ISO_8859_13, ISO_8859_14, ISO_8859_15, ISO_8859_16, KOI8_R, KOI8_U, WINDOWS_874,
    WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253, WINDOWS_1254, WINDOWS_1255, WINDOWS_1256, WINDOWS_1257,
    WINDOWS_1258,
};

/// The character of byte 0, if a byte isn't in the table; those of the other bytes follow. They are for private use,
/// and in no table.
const BYTES: u32 = 0x10_FE00;

/// An encoding that a database may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextEncoding {
    name: &'static str,
    kind: Kind,
}

impl Default for TextEncoding {
    fn default() -> Self {
        Self::UTF8
    }
}

/// How bytes become letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Utf8,
    /// The database has no encoding. UTF-8 is read as such.
    Anything,
    /// A letter is a byte.
    Single(&'static Encoding),
    /// The same, and 0x80 to 0x9F are control characters whatever the table says.
    Iso(&'static Encoding),
    /// Extended Unix code: a letter is a byte, or two or three bytes.
    Extended(&'static Encoding),
    /// There is no table here: only ASCII is letters.
    Ascii,
}

/// The encodings of databases, as servers call them.
const ALL: [(&str, Kind); 35] = [
    ("UTF8", Kind::Utf8),
    ("SQL_ASCII", Kind::Anything),
    ("EUC_JP", Kind::Extended(EUC_JP)),
    ("EUC_CN", Kind::Extended(GBK)),
    ("EUC_KR", Kind::Extended(EUC_KR)),
    ("EUC_TW", Kind::Ascii),
    ("EUC_JIS_2004", Kind::Ascii),
    ("MULE_INTERNAL", Kind::Ascii),
    ("LATIN1", Kind::Iso(WINDOWS_1252)),
    ("LATIN2", Kind::Iso(ISO_8859_2)),
    ("LATIN3", Kind::Iso(ISO_8859_3)),
    ("LATIN4", Kind::Iso(ISO_8859_4)),
    ("LATIN5", Kind::Iso(WINDOWS_1254)),
    ("LATIN6", Kind::Iso(ISO_8859_10)),
    ("LATIN7", Kind::Iso(ISO_8859_13)),
    ("LATIN8", Kind::Iso(ISO_8859_14)),
    ("LATIN9", Kind::Iso(ISO_8859_15)),
    ("LATIN10", Kind::Iso(ISO_8859_16)),
    ("ISO_8859_5", Kind::Iso(ISO_8859_5)),
    ("ISO_8859_6", Kind::Iso(ISO_8859_6)),
    ("ISO_8859_7", Kind::Iso(ISO_8859_7)),
    ("ISO_8859_8", Kind::Iso(ISO_8859_8)),
    ("KOI8R", Kind::Single(KOI8_R)),
    ("KOI8U", Kind::Single(KOI8_U)),
    ("WIN866", Kind::Single(IBM866)),
    ("WIN874", Kind::Single(WINDOWS_874)),
    ("WIN1250", Kind::Single(WINDOWS_1250)),
    ("WIN1251", Kind::Single(WINDOWS_1251)),
    ("WIN1252", Kind::Single(WINDOWS_1252)),
    ("WIN1253", Kind::Single(WINDOWS_1253)),
    ("WIN1254", Kind::Single(WINDOWS_1254)),
    ("WIN1255", Kind::Single(WINDOWS_1255)),
    ("WIN1256", Kind::Single(WINDOWS_1256)),
    ("WIN1257", Kind::Single(WINDOWS_1257)),
    ("WIN1258", Kind::Single(WINDOWS_1258)),
];

impl TextEncoding {
    /// Bytes without conversion: for a session that reads values which all databases of a server share, such as names
    /// of roles. Each is in the encoding of the database in which it was made.
    pub(crate) const AS_IT_IS: Self = Self { name: "SQL_ASCII", kind: Kind::Anything };

    /// The encoding at the beginning of a session.
    pub(crate) const UTF8: Self = Self { name: "UTF8", kind: Kind::Utf8 };

    /// The encoding that a server calls so, if a database may have it.
    pub(crate) fn of(name: &str) -> Option<Self> {
        ALL.iter().find(|(known, _)| *known == name).map(|(name, kind)| Self { name, kind: *kind })
    }

    /// The server's name for it.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Bytes as text; none where they are not UTF-8 and have to be.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        if self.kind == Kind::Utf8 || bytes.is_ascii() {
            return std::str::from_utf8(bytes).ok().map(str::to_owned);
        }
        let mut text = String::with_capacity(bytes.len());
        if self.kind == Kind::Anything {
            for chunk in bytes.utf8_chunks() {
                for letter in chunk.valid().chars() {
                    match byte_of(letter) {
                        None => text.push(letter),
                        // A character from the database that we use for a byte.
                        Some(_) => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push(of_byte(byte))),
                    }
                }
                chunk.invalid().iter().for_each(|byte| text.push(of_byte(*byte)));
            }
            return Some(text);
        }
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            let (unit, others) = rest.split_at(self.length(*first).min(rest.len()));
            match self.letter(unit) {
                Some(letter) => text.push(letter),
                None => unit.iter().for_each(|byte| text.push(of_byte(*byte))),
            }
            rest = others;
        }
        Some(text)
    }

    /// Bytes as text for people. Bytes that aren't UTF-8 are replaced if necessary.
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> String {
        self.decode(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Text as bytes.
    ///
    /// # Errors
    /// The letter that the encoding doesn't have.
    pub(crate) fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        if self.kind == Kind::Utf8 || text.is_ascii() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        let mut bytes = Vec::with_capacity(text.len());
        for letter in text.chars() {
            match byte_of(letter) {
                Some(byte) => bytes.push(byte),
                None => self.write(letter, &mut bytes).ok_or(letter)?,
            }
        }
        Ok(Cow::Owned(bytes))
    }

    /// The same bytes as text in another encoding, because names of roles are bytes that all databases of a server
    /// share. Returns the name unchanged if the bytes are no text there.
    pub(crate) fn respelled(self, name: &str, there: Self) -> String {
        let bytes = self.encode(name).ok();
        bytes.and_then(|bytes| there.decode(&bytes)).unwrap_or_else(|| name.to_owned())
    }

    /// The number of bytes of a character that begins with this byte.
    fn length(self, first: u8) -> usize {
        match (self.kind, first) {
            (Kind::Extended(_), 0x8F) => 3,
            (Kind::Extended(_), 0x80..) => 2,
            _ => 1,
        }
    }

    /// The letter that some bytes are, if writing it gives just these bytes.
    fn letter(self, unit: &[u8]) -> Option<char> {
        let letter = match (self.kind, unit) {
            (_, [byte]) if byte.is_ascii() => char::from(*byte),
            (Kind::Iso(_), [byte @ 0x80..=0x9F]) => char::from(*byte),
            (Kind::Single(table) | Kind::Iso(table) | Kind::Extended(table), _) => {
                let text = table.decode_without_bom_handling_and_without_replacement(unit)?;
                let mut letters = text.chars();
                letters.next().filter(|letter| letters.next().is_none() && byte_of(*letter).is_none())?
            }
            _ => return None,
        };
        let mut again = Vec::with_capacity(unit.len());
        self.write(letter, &mut again)?;
        (again == unit).then_some(letter)
    }

    /// Writes a character, if the encoding has it.
    fn write(self, letter: char, bytes: &mut Vec<u8>) -> Option<()> {
        let mut room = [0; 4];
        let text: &str = letter.encode_utf8(&mut room);
        match self.kind {
            _ if letter.is_ascii() => bytes.push(letter as u8),
            Kind::Utf8 | Kind::Anything => bytes.extend_from_slice(text.as_bytes()),
            Kind::Iso(_) if ('\u{80}'..='\u{9f}').contains(&letter) => bytes.push(letter as u8),
            // Characters that the table has for bytes without meaning.
            Kind::Single(_) if ('\u{80}'..='\u{9f}').contains(&letter) => return None,
            Kind::Single(table) | Kind::Iso(table) | Kind::Extended(table) => {
                let (written, _, lacks) = table.encode(text);
                let is_iso = !matches!(self.kind, Kind::Iso(_)) || !matches!(*written, [0x80..=0x9F]);
                if lacks || !is_iso {
                    return None;
                }
                bytes.extend_from_slice(&written);
            }
            Kind::Ascii => return None,
        }
        Some(())
    }
}

/// The character for a byte that isn't in the table.
fn of_byte(byte: u8) -> char {
    char::from_u32(BYTES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte of such a character.
fn byte_of(letter: char) -> Option<u8> {
    u8::try_from(u32::from(letter).checked_sub(BYTES)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> TextEncoding {
        TextEncoding::of(name).expect("an encoding")
    }

    #[test]
    fn bytes_become_letters_where_there_are_any() {
        for (name, bytes, text) in [
            ("UTF8", "Straße".as_bytes(), "Straße"),
            ("WIN1252", b"Stra\xdfe \x80", "Straße €"),
            ("WIN1252", b"a\x81b", "a\u{10fe81}b"),
            ("WIN1253", b"\xd2\xe1", "\u{10fed2}α"),
            ("LATIN1", b"\x80\xe4", "\u{80}ä"),
            ("LATIN5", b"\x80\xfd", "\u{80}ı"),
            ("LATIN9", b"\xa4", "€"),
            ("KOI8R", b"\xf1", "Я"),
            ("EUC_JP", b"\xc6\xfc\xcb\xdc", "日本"),
            ("EUC_JP", b"\x8e\xb1", "ｱ"),
            // JIS X 0212 has a table for reading alone.
            ("EUC_JP", b"\x8f\xb0\xa1", "\u{10fe8f}\u{10feb0}\u{10fea1}"),
            ("EUC_JP", b"\xad\xfe!", "\u{10fead}\u{10fefe}!"),
            ("EUC_JP", b"a\xc6", "a\u{10fec6}"),
            ("EUC_TW", b"x\xc4\xe3", "x\u{10fec4}\u{10fee3}"),
            ("SQL_ASCII", b"\xc3\xa4\xe4", "ä\u{10fee4}"),
            ("SQL_ASCII", "\u{10fe81}".as_bytes(), "\u{10fef4}\u{10fe8f}\u{10feba}\u{10fe81}"),
        ] {
            let encoding = named(name);
            assert_eq!(encoding.decode(bytes).as_deref(), Some(text), "{name}");
            assert_eq!(encoding.encode(text).as_deref(), Ok(bytes), "{name}");
        }
        assert_eq!(named("UTF8").decode(b"\xe4"), None);
        assert_eq!(named("UTF8").decode_lossy(b"\xe4"), "\u{fffd}");
    }

    #[test]
    fn letters_that_an_encoding_has_not_are_refused() {
        for (name, text, lacking) in [
            ("WIN1252", "a日", '日'),
            ("WIN1252", "\u{81}", '\u{81}'),
            ("LATIN1", "€", '€'),
            ("EUC_JP", "ä", 'ä'),
            ("EUC_TW", "ä", 'ä'),
        ] {
            assert_eq!(named(name).encode(text), Err(lacking), "{name}");
        }
    }

    #[test]
    fn names_are_the_same_bytes_elsewhere() {
        for (here, name, there, read) in [
            ("WIN1252", "mÃ¼ller", "UTF8", "müller"),
            ("UTF8", "müller", "WIN1252", "mÃ¼ller"),
            ("WIN1252", "müller", "UTF8", "müller"),
            ("WIN1252", "müller", "SQL_ASCII", "m\u{10fefc}ller"),
            ("WIN1252", "plain", "UTF8", "plain"),
            ("SQL_ASCII", "müller", "UTF8", "müller"),
        ] {
            assert_eq!(named(here).respelled(name, named(there)), read, "{here} {there} {name}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_written_as_it_was_read(bytes: Vec<u8>) {
            for (name, kind) in ALL.iter().filter(|(_, kind)| *kind != Kind::Utf8) {
                let encoding = named(name);
                let text = encoding.decode(&bytes).expect("text");
                let again = encoding.encode(&text).expect("what was read").into_owned();
                prop_assert_eq!(&again, &bytes, "{} {:?}", name, kind);
            }
        }
    }
}
