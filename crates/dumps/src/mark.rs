//! The line that a whole script ends with. Pure: pieces in, the mark out.
//!
//! `pg_dump` and `mysqldump` write it last, so a script without it was cut off. A mark counts only in the last lines of the
//! script. Text of a user can't stand there at the beginning of a line in a script that was cut off: COPY escapes the ends of
//! lines, and the reader of the script is then within rows or within quotes, and refuses that end itself.

use crate::recognise::Maker;

/// The bytes of a script's end in which the mark must be.
const LAST: usize = 4096;

/// The end of a script as it comes.
#[derive(Debug, Default)]
pub(crate) struct Ending(Vec<u8>);

impl Ending {
    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let piece = piece.get(piece.len().saturating_sub(LAST)..).unwrap_or_default();
        let over = (self.0.len() + piece.len()).saturating_sub(LAST);
        self.0.drain(..over.min(self.0.len()));
        self.0.extend_from_slice(piece);
    }

    /// Whether the script of this maker ended with its mark; `None` where no mark is known.
    pub(crate) fn is_whole(&self, maker: Maker) -> Option<bool> {
        let mark: &[u8] = match maker {
            Maker::Postgres => b"-- PostgreSQL database dump complete",
            Maker::PostgresGlobals => b"-- PostgreSQL database cluster dump complete",
            Maker::Mysql => b"-- Dump completed",
            Maker::Unknown => return None,
        };
        Some(self.0.split(|byte| *byte == b'\n').any(|line| line.starts_with(mark)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_at_the_end_and_at_the_beginning_of_a_line() {
        let long = "x".repeat(2 * LAST);
        for (script, maker, whole) in [
            (
                "SELECT 1;\n--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict k\n\n",
                Maker::Postgres,
                Some(true),
            ),
            ("-- PostgreSQL database dump complete", Maker::Postgres, Some(true)),
            ("-- PostgreSQL database cluster dump complete\n", Maker::Postgres, Some(false)),
            ("-- PostgreSQL database cluster dump complete\n", Maker::PostgresGlobals, Some(true)),
            (" -- PostgreSQL database dump complete\n", Maker::Postgres, Some(false)),
            (&format!("-- PostgreSQL database dump complete\n{long}"), Maker::Postgres, Some(false)),
            (&format!("{long}\n-- Dump completed on 2026-11-28  8:00:00\n"), Maker::Mysql, Some(true)),
            ("-- Dump completed\n", Maker::Mysql, Some(true)),
            ("-- Dump complete\n", Maker::Mysql, Some(false)),
            ("", Maker::Mysql, Some(false)),
            ("-- Dump completed\n", Maker::Unknown, None),
        ] {
            for size in [1, 7, 1000, 100_000] {
                let mut ending = Ending::default();
                script.as_bytes().chunks(size).for_each(|piece| ending.take(piece));
                assert_eq!(ending.is_whole(maker), whole, "{maker:?} {size}");
                assert!(ending.0.len() <= LAST);
            }
        }
    }
}
