//! Which point does a user mean? Only this file reads `--at`.

use seawall_core::{Failure, Kind, Moment, When};

use crate::{lmdb, sets};

/// Reads a moment, or a position in the form of any engine; the forms can't be confused. `now` anchors relative times.
///
/// # Errors
/// When the text is neither a moment nor a position.
pub fn read_when(text: &str, now: Moment) -> Result<When, Failure> {
    if lmdb::is_position(text) || sets::is_position(text) {
        return Ok(When::Position(text.to_owned()));
    }
    // SQLite's, a TXID of 16 hexadecimal digits, is among the forms that every engine has.
    When::parse(text, now).map_err(|error| {
        let next = "correct the moment, or give the name of a set or a snapshot as `seawall timeline` shows it";
        Failure::new(Kind::Usage, "usage.when", "--at", error.to_string(), next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_told_apart() {
        let (now, position) = (Moment::from_millis(600_000), |text: &str| Ok(When::Position(text.to_owned())));
        for (text, expected) in [
            ("latest", Ok(When::Latest)),
            ("5 minutes ago", Ok(When::Moment(Moment::from_millis(300_000)))),
            ("1970-01-01T00:00:01Z", Ok(When::Moment(Moment::from_millis(1_000)))),
            ("00000000000000af", position("00000000000000af")),
            ("20261121T101112000Z-0000000a", position("20261121T101112000Z-0000000a")),
            (
                "main__ns1__20261123-101112-000000001__GX.pb.gz",
                position("main__ns1__20261123-101112-000000001__GX.pb.gz"),
            ),
            ("yesterday", Err("usage.when")),
        ] {
            assert_eq!(read_when(text, now).map_err(|failure| failure.code), expected, "{text}");
        }
    }
}
