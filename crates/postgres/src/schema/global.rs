//! What does a statement of `pg_dumpall --globals-only` make? Pure.
//!
//! Such a script changes the server itself: roles with their passwords, tablespaces. So only statements that it is known to have are
//! run, and none that is about a role or a tablespace that was there before.

/// A statement about what belongs to no database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Global {
    /// A setting of the script's own session.
    Setting,
    /// It makes this role.
    Role(String),
    /// It says something of this role.
    OfRole(String),
    /// It says something of this role in one database, which must be there.
    InDatabase(String),
    /// It puts the second role into the first one.
    Member(String, String),
    /// It makes this tablespace.
    Tablespace(String),
    /// It says something of this tablespace.
    OfTablespace(String),
    /// It gives this role a right on a setting of the server.
    Parameter(String),
    /// Nothing that such a script has.
    Unknown,
}

/// What a statement makes.
pub(crate) fn global(statement: &[u8]) -> Global {
    let text = String::from_utf8_lossy(statement);
    let words = words(&text);
    let is = |place: usize, wanted: &str| words.get(place).is_some_and(|word| word.is(wanted));
    let name = |place: usize| words.get(place).map(Word::name).unwrap_or_default();
    let has = |wanted: [&str; 2]| words.windows(2).any(|two| two[0].is(wanted[0]) && two[1].is(wanted[1]));
    if is(0, "SET")
        && (is(1, "default_transaction_read_only") || is(1, "client_encoding") || is(1, "standard_conforming_strings"))
    {
        return Global::Setting;
    }
    if is(0, "CREATE") && is(1, "ROLE") && words.len() == 3 {
        return Global::Role(name(2));
    }
    if is(0, "ALTER") && is(1, "ROLE") {
        return if has(["IN", "DATABASE"]) { Global::InDatabase(name(2)) } else { Global::OfRole(name(2)) };
    }
    if is(0, "COMMENT") && is(1, "ON") && is(2, "ROLE") {
        return Global::OfRole(name(3));
    }
    if is(0, "SECURITY") && is(1, "LABEL") {
        let on = words.iter().position(|word| word.is("ON")).unwrap_or_default();
        if is(on + 1, "ROLE") {
            return Global::OfRole(name(on + 2));
        }
        return if is(on + 1, "TABLESPACE") { Global::OfTablespace(name(on + 2)) } else { Global::Unknown };
    }
    if is(0, "CREATE") && is(1, "TABLESPACE") {
        return Global::Tablespace(name(2));
    }
    if is(0, "ALTER") && is(1, "TABLESPACE") {
        return Global::OfTablespace(name(2));
    }
    if is(0, "COMMENT") && is(1, "ON") && is(2, "TABLESPACE") {
        return Global::OfTablespace(name(3));
    }
    if is(0, "GRANT") || is(0, "REVOKE") {
        if let Some(on) = words.iter().position(|word| word.is("ON")) {
            if is(on + 1, "TABLESPACE") {
                return Global::OfTablespace(name(on + 2));
            }
            let to = words.iter().position(|word| word.is("TO")).unwrap_or(words.len());
            return if is(on + 1, "PARAMETER") { Global::Parameter(name(to + 1)) } else { Global::Unknown };
        }
        if is(0, "GRANT") && is(2, "TO") {
            return Global::Member(name(1), name(3));
        }
    }
    Global::Unknown
}

/// A word or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
}

impl Word {
    fn is(&self, word: &str) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case(word)
    }

    /// The name that it is. One without quotes is in lower case.
    fn name(&self) -> String {
        if self.is_quoted { self.text.clone() } else { self.text.to_lowercase() }
    }
}

/// The words and names of a statement, up to its first text.
fn words(text: &str) -> Vec<Word> {
    let (mut words, mut letters) = (Vec::new(), text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let mut name = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        '"' if letters.peek() == Some(&'"') => name.extend(letters.next()),
                        '"' => break,
                        letter => name.push(letter),
                    }
                }
                words.push(Word { text: name, is_quoted: true });
            }
            letter if letter.is_alphanumeric() || letter == '_' => {
                let mut word = letter.to_string();
                while let Some(letter) =
                    letters.next_if(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$'))
                {
                    word.push(letter);
                }
                words.push(Word { text: word, is_quoted: false });
            }
            '\'' | '$' => break,
            letter if letter.is_whitespace() => {}
            sign => words.push(Word { text: sign.to_string(), is_quoted: true }),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_globals() {
        let role = |name: &str| Global::Role(name.to_owned());
        let of_role = |name: &str| Global::OfRole(name.to_owned());
        let space = |name: &str| Global::OfTablespace(name.to_owned());
        for (statement, expected) in [
            ("SET default_transaction_read_only = off", Global::Setting),
            ("SET client_encoding = 'UTF8'", Global::Setting),
            ("SET standard_conforming_strings = on", Global::Setting),
            ("SET session_replication_role = replica", Global::Unknown),
            ("CREATE ROLE shop", role("shop")),
            ("CREATE ROLE \"The \"\"shop\"\"\"", role("The \"shop\"")),
            ("CREATE ROLE Shop", role("shop")),
            ("CREATE ROLE a SUPERUSER", Global::Unknown),
            ("ALTER ROLE shop WITH NOSUPERUSER LOGIN PASSWORD 'SCRAM-SHA-256$4096:x'", of_role("shop")),
            ("ALTER ROLE shop SET work_mem TO '1MB'", of_role("shop")),
            ("ALTER ROLE shop IN DATABASE shop SET work_mem TO '1MB'", Global::InDatabase("shop".into())),
            ("COMMENT ON ROLE shop IS 'x'", of_role("shop")),
            ("SECURITY LABEL FOR dummy ON ROLE shop IS 'x'", of_role("shop")),
            (
                "GRANT staff TO shop WITH INHERIT TRUE GRANTED BY postgres",
                Global::Member("staff".into(), "shop".into()),
            ),
            ("GRANT \"ON\" TO shop", Global::Member("ON".into(), "shop".into())),
            ("CREATE TABLESPACE fast OWNER shop LOCATION '/mnt/fast'", Global::Tablespace("fast".into())),
            ("ALTER TABLESPACE fast SET (seq_page_cost = '1')", space("fast")),
            ("GRANT ALL ON TABLESPACE fast TO shop", space("fast")),
            ("REVOKE ALL ON TABLESPACE fast FROM shop", space("fast")),
            ("COMMENT ON TABLESPACE fast IS 'x'", space("fast")),
            ("GRANT SET ON PARAMETER work_mem TO shop", Global::Parameter("shop".into())),
            ("GRANT ALL ON TABLE t TO shop", Global::Unknown),
            ("DROP ROLE shop", Global::Unknown),
            ("DROP DATABASE shop", Global::Unknown),
            ("COPY t FROM PROGRAM 'id'", Global::Unknown),
            ("SELECT 1", Global::Unknown),
            ("DO $$CREATE ROLE x$$", Global::Unknown),
            ("", Global::Unknown),
        ] {
            assert_eq!(global(statement.as_bytes()), expected, "{statement}");
        }
    }
}
