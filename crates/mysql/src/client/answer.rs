//! The answers of a server that aren't rows: OK, an error, the end of rows. Pure.

use super::packet::Fields;
use crate::error::ServerError;

/// The first byte of an OK.
pub(super) const OK: u8 = 0x00;
/// The first byte of an answer that asks for a file.
pub(super) const LOCAL_INFILE: u8 = 0xFB;
/// The first byte of the end of rows, and of a request to log in by another way.
pub(super) const END: u8 = 0xFE;
/// The first byte of an error.
pub(super) const ERROR: u8 = 0xFF;

/// The flag of a status that says: another answer follows.
const MORE_RESULTS: u16 = 0x0008;

/// The flag of a status that says: a backslash means itself within quotes.
const NO_BACKSLASH_ESCAPES: u16 = 0x0200;

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// How many rows it changed.
    pub affected: u64,
    /// How many warnings it left for `SHOW WARNINGS`, at most 65535.
    pub warnings: u16,
    /// The server's message, as `Records: 3  Deleted: 0  Skipped: 0  Warnings: 0`.
    pub message: String,
    /// The flags of the session's state.
    pub(super) status: u16,
}

impl Done {
    /// Whether another answer follows.
    pub(super) fn has_more(&self) -> bool {
        self.status & MORE_RESULTS != 0
    }

    /// Whether a backslash means itself within quotes of the session's statements, as `sql_mode` says.
    pub(crate) fn has_plain_backslashes(&self) -> bool {
        self.status & NO_BACKSLASH_ESCAPES != 0
    }
}

/// Reads an OK, with its first byte. The end of rows has the same form where the client announced it.
pub(super) fn ok(payload: &[u8]) -> Option<Done> {
    let mut fields = Fields::of(payload);
    fields.u8()?;
    let affected = fields.number()?;
    let _last_insert_id = fields.number()?;
    let status = fields.u16()?;
    let warnings = fields.u16()?;
    // A text behind its length where there is any; servers leave the length out of an empty one.
    let rest = fields.rest();
    let message = fields.value().flatten().unwrap_or(rest);
    Some(Done { affected, warnings, message: String::from_utf8_lossy(message).into_owned(), status })
}

/// Reads the end of rows as it is without `DEPRECATE_EOF`.
pub(super) fn end(payload: &[u8]) -> Option<Done> {
    let mut fields = Fields::of(payload);
    fields.u8()?;
    let warnings = fields.u16()?;
    let status = fields.u16()?;
    Some(Done { warnings, status, ..Done::default() })
}

/// Reads an error, with its first byte. Before the handshake a server leaves SQLSTATE out.
pub(super) fn error(payload: &[u8]) -> Option<ServerError> {
    let mut fields = Fields::of(payload);
    fields.u8()?;
    let number = fields.u16()?;
    let rest = fields.rest();
    let (state, message) = match rest.split_first() {
        Some((b'#', with_state)) => with_state.split_at_checked(5)?,
        _ => (&b"HY000"[..], rest),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(ServerError { number, state: text(state), message: text(message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ok_tells_rows_warnings_and_a_message() {
        let done = |affected, status, warnings, message: &str| {
            Some(Done { affected, warnings, message: message.into(), status })
        };
        for (payload, expected) in [
            (&b"\x00\x03\x00\x02\x00\x01\x00"[..], done(3, 2, 1, "")),
            (b"\x00\xfc\x01\x02\x00\x0a\x00\x00\x00Records: 1", done(0x201, 10, 0, "Records: 1")),
            (b"\x00\x00\x00\x02\x00\x00\x00\x0aRecords: 1", done(0, 2, 0, "Records: 1")),
            (b"\xfe\x00\x00\x02\x00\x00\x00", done(0, 2, 0, "")),
            (b"\x00\x03\x00\x02\x00\x01", None),
            (b"\x00", None),
            (b"", None),
        ] {
            assert_eq!(ok(payload), expected, "{payload:?}");
        }
        assert!(ok(b"\x00\x00\x00\x0a\x00\x00\x00").is_some_and(|done| done.has_more()));
        assert_eq!(end(b"\xfe\x02\x00\x22\x00"), done(0, 0x22, 2, ""));
        assert_eq!(end(b"\xfe\x02\x00\x22"), None);
    }

    #[test]
    fn an_error_has_a_state_or_comes_before_there_is_one() {
        let error_of = |number, state: &str, message: &str| {
            Some(ServerError { number, state: state.into(), message: message.into() })
        };
        for (payload, expected) in [
            (&b"\xff\x15\x04#28000Access denied"[..], error_of(1045, "28000", "Access denied")),
            (b"\xff\x10\x04Too many connections", error_of(1040, "HY000", "Too many connections")),
            (b"\xff\x10\x04", error_of(1040, "HY000", "")),
            (b"\xff\x10\x04#28", None),
            (b"\xff\x10", None),
        ] {
            assert_eq!(error(payload), expected, "{payload:?}");
        }
    }
}
