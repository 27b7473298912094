//! The statement of a view, routine, trigger or event, made ready for another database: its definer, its database and its status.
//! Pure.
//!
//! Only what stands before the object's own text is looked at. The text itself stays as it is, byte for byte.

use std::borrow::Cow;

use super::words::{Kind, Word, first_words};
use crate::schema::StoredKind;

/// The words before an object's own text: at most so many.
const HEAD: usize = 200;

/// What becomes of an object's definer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Definer<'a> {
    /// It stays.
    Kept,
    /// Who restores becomes the definer. Views and routines then run with the rights of their users, so that the source's
    /// owner gets no rights of the account that restores.
    Stripped,
    /// Another account takes its place, as it stands in a statement.
    Given(Cow<'a, str>),
}

/// Whether an event may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// As it was.
    AsItWas,
    /// Not until someone enables it.
    Disabled,
}

/// A statement that makes an object in the session's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The statement.
    pub(crate) sql: Vec<u8>,
    /// Whether an event would run, once it is made as it was.
    pub(crate) is_enabled: bool,
}

/// The statement of an object of that kind. `None`: it makes something else.
pub(crate) fn program(sql: &[u8], kind: StoredKind, definer: &Definer<'_>, status: Status) -> Option<Program> {
    let words = first_words(sql, HEAD);
    if !words.first()?.is("CREATE") {
        return None;
    }
    let at = words.iter().position(|word| is_kind(word, kind))?;
    let head = words.get(..at)?;
    if head
        .iter()
        .any(|word| [";", "AS", "SELECT", "DO", "BEGIN"].iter().any(|wrong| word.is(wrong)) || word.is_sign(b';'))
    {
        return None;
    }
    let mut edits: Vec<(std::ops::Range<usize>, &[u8])> = Vec::new();
    let given = match definer {
        Definer::Given(account) => format!("DEFINER={account}"),
        Definer::Kept | Definer::Stripped => String::new(),
    };
    if !given.is_empty() {
        edits.extend(definer_of(head).map(|range| (range, given.as_bytes())));
    }
    if *definer == Definer::Stripped {
        edits.extend(definer_of(head).map(|range| (range, &b""[..])));
        let is_definers = |three: &&[Word<'_>]| three[0].is("SQL") && three[1].is("SECURITY") && three[2].is("DEFINER");
        if let Some([_, _, rights]) = head.windows(3).find(is_definers) {
            edits.push((rights.start..rights.end(), b"INVOKER"));
        }
    }
    let mut name = at + 1;
    if kind == StoredKind::PackageBody {
        name += 1;
    }
    let is = |place: usize, wanted: &str| words.get(place).is_some_and(|word: &Word<'_>| word.is(wanted));
    if is(name, "IF") && is(name + 1, "NOT") && is(name + 2, "EXISTS") {
        name += 3;
    }
    edits.extend(database_of(&words, name).map(|range| (range, &b""[..])));
    if kind == StoredKind::Trigger {
        let on = words.iter().skip(name + 1).position(|word| word.is("ON")).map(|place| place + name + 1)?;
        edits.extend(database_of(&words, on + 1).map(|range| (range, &b""[..])));
    }
    let mut is_enabled = false;
    if kind == StoredKind::Event {
        let end = words.iter().position(|word| word.is("DO"))?;
        let enable = words.get(name + 1..end)?.iter().find(|word| word.is("ENABLE"));
        let says = words.get(name + 1..end)?.iter().any(|word| word.is("DISABLE"));
        is_enabled = !says;
        if status == Status::Disabled {
            match (enable, says) {
                (Some(word), _) => edits.push((word.start..word.end(), b"DISABLE")),
                (None, true) => {}
                (None, false) => return None,
            }
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let (mut out, mut done) = (Vec::with_capacity(sql.len()), 0);
    for (range, with) in edits {
        out.extend_from_slice(sql.get(done..range.start)?);
        out.extend_from_slice(with);
        done = range.end;
    }
    out.extend_from_slice(sql.get(done..)?);
    Some(Program { sql: out, is_enabled })
}

/// Whether it is the word that stands before the object's name.
fn is_kind(word: &Word<'_>, kind: StoredKind) -> bool {
    word.is(match kind {
        StoredKind::Package | StoredKind::PackageBody => "PACKAGE",
        StoredKind::Function => "FUNCTION",
        StoredKind::Procedure => "PROCEDURE",
        StoredKind::View => "VIEW",
        StoredKind::Trigger => "TRIGGER",
        StoredKind::Event => "EVENT",
    })
}

/// Where `DEFINER = user@host` is.
fn definer_of(head: &[Word<'_>]) -> Option<std::ops::Range<usize>> {
    let at = head.iter().position(|word| word.is("DEFINER"))?;
    if !head.get(at + 1)?.is_sign(b'=') {
        return None;
    }
    let user = head.get(at + 2)?;
    let end = match (head.get(at + 3), head.get(at + 4)) {
        (Some(sign), Some(host)) if sign.is_sign(b'@') => host.end(),
        _ => user.end(),
    };
    Some(head.get(at)?.start..end)
}

/// Where the database before a name is, with the dot behind it.
fn database_of(words: &[Word<'_>], name: usize) -> Option<std::ops::Range<usize>> {
    let (database, dot, object) = (words.get(name)?, words.get(name + 1)?, words.get(name + 2)?);
    let is_name = |word: &Word<'_>| matches!(word.kind, Kind::Name | Kind::Word | Kind::Text);
    (is_name(database) && dot.is_sign(b'.') && is_name(object)).then_some(database.start..object.start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(sql: &str, kind: StoredKind, definer: &Definer<'_>, status: Status) -> Option<String> {
        program(sql.as_bytes(), kind, definer, status).map(|program| String::from_utf8_lossy(&program.sql).into_owned())
    }

    const VIEW: &str = "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`local``host` SQL SECURITY DEFINER VIEW `v` AS select `DEFINER`=`x`@`y`";
    const EVENT: &str = "CREATE DEFINER=`u`@`%` EVENT `enable` ON SCHEDULE EVERY 1 DAY STARTS '2026-01-01 00:00:00' ON COMPLETION PRESERVE \
                         ENABLE COMMENT 'ENABLE' DO SET @x = 'ENABLE'";

    #[test]
    fn definers_are_stripped_with_their_rights() {
        use Definer::{Given, Kept, Stripped};
        for (sql, kind, definer, expected) in [
            (VIEW, StoredKind::View, Kept, Some(VIEW)),
            (
                VIEW,
                StoredKind::View,
                Stripped,
                Some("CREATE ALGORITHM=UNDEFINED  SQL SECURITY INVOKER VIEW `v` AS select `DEFINER`=`x`@`y`"),
            ),
            (
                "CREATE DEFINER=\"a b\"@\"%\" PROCEDURE \"p\"() SELECT 'DEFINER=`x`@`y`'",
                StoredKind::Procedure,
                Stripped,
                Some("CREATE  PROCEDURE \"p\"() SELECT 'DEFINER=`x`@`y`'"),
            ),
            (
                VIEW,
                StoredKind::View,
                Given("`x`@`%`".into()),
                Some(
                    "CREATE ALGORITHM=UNDEFINED DEFINER=`x`@`%` SQL SECURITY DEFINER VIEW `v` AS select `DEFINER`=`x`@`y`",
                ),
            ),
            (
                "CREATE DEFINER=`r` FUNCTION f() RETURNS int RETURN 1",
                StoredKind::Function,
                Stripped,
                Some("CREATE  FUNCTION f() RETURNS int RETURN 1"),
            ),
            (
                "CREATE DEFINER=`r`@`h` PACKAGE BODY `p` AS END",
                StoredKind::PackageBody,
                Stripped,
                Some("CREATE  PACKAGE BODY `p` AS END"),
            ),
        ] {
            assert_eq!(shown(sql, kind, &definer, Status::AsItWas).as_deref(), expected, "{sql}");
        }
    }

    #[test]
    fn a_trigger_loses_the_database_that_its_maker_wrote() {
        for (sql, expected) in [
            (
                "CREATE DEFINER=`r`@`h` trigger `shop`.`tr` before insert on shop . `t` for each row set new.a = shop.f(1)",
                "CREATE DEFINER=`r`@`h` trigger `tr` before insert on `t` for each row set new.a = shop.f(1)",
            ),
            (
                "CREATE DEFINER=`r`@`h` TRIGGER IF NOT EXISTS tr AFTER UPDATE ON t FOR EACH ROW BEGIN END",
                "CREATE DEFINER=`r`@`h` TRIGGER IF NOT EXISTS tr AFTER UPDATE ON t FOR EACH ROW BEGIN END",
            ),
        ] {
            assert_eq!(
                shown(sql, StoredKind::Trigger, &Definer::Kept, Status::AsItWas).as_deref(),
                Some(expected),
                "{sql}"
            );
        }
    }

    #[test]
    fn events_are_made_without_running() {
        let of =
            |sql: &str, status| program(sql.as_bytes(), StoredKind::Event, &Definer::Kept, status).expect("an event");
        let disabled = of(EVENT, Status::Disabled);
        assert_eq!(disabled.sql, EVENT.replace("PRESERVE ENABLE", "PRESERVE DISABLE").into_bytes());
        assert!(disabled.is_enabled);
        assert_eq!(of(EVENT, Status::AsItWas).sql, EVENT.as_bytes());
        for off in ["DISABLE", "DISABLE ON SLAVE"] {
            let sql = EVENT.replace("PRESERVE ENABLE", &format!("PRESERVE {off}"));
            let event = of(&sql, Status::Disabled);
            assert_eq!((event.sql.as_slice(), event.is_enabled), (sql.as_bytes(), false));
        }
    }

    #[test]
    fn what_makes_something_else_is_refused() {
        for (sql, kind) in [
            ("DROP VIEW v", StoredKind::View),
            ("CREATE TABLE t AS SELECT 1 VIEW", StoredKind::View),
            ("CREATE TABLE t (a int)", StoredKind::View),
            ("", StoredKind::Trigger),
            ("CREATE TRIGGER t", StoredKind::Trigger),
            ("CREATE EVENT e ON SCHEDULE AT 1 DO BEGIN END", StoredKind::Event),
            ("GRANT ALL ON *.* TO x", StoredKind::Procedure),
        ] {
            assert_eq!(shown(sql, kind, &Definer::Kept, Status::Disabled), None, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut sql in Just(VIEW.as_bytes().to_vec()), at in 0_usize..120, with in any::<u8>()) {
            if let Some(byte) = sql.get_mut(at) {
                *byte = with;
            }
            let _ = program(&sql, StoredKind::View, &Definer::Stripped, Status::AsItWas);
            let _ = program(&sql, StoredKind::Event, &Definer::Stripped, Status::Disabled);
        }
    }
}
