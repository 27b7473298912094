//! What does a statement of `pg_dumpall --globals-only` make? Pure.
//!
//! Such a script changes the server itself: roles with their passwords, tablespaces. So a statement counts only if all of it, to its end,
//! is what `pg_dumpall` writes, with one name in each place for a name, and none that the server would take for another
//! role (`CURRENT_USER`, `ALL`, `U&"…"`, a name that is too long for it).

use crate::schema::tokens::{self, Placed, Token, tokens};

/// A statement about what belongs to no database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Global {
    /// A setting of the script's own session.
    Setting,
    /// It makes this role.
    Role(String),
    /// It gives this role attributes. Those that reach beyond the role's own objects are named.
    Attributes(String, Vec<&'static str>),
    /// It says something else of this role.
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
    /// It removes this role or tablespace, as `pg_dumpall --clean` writes it before it makes it.
    Dropped(String),
    /// Nothing that such a script has.
    Unknown,
}

/// The most bytes of a name. The server cuts a longer one.
const LONGEST: usize = 63;

/// The most bytes of a statement, and its most tokens.
const LARGEST: (usize, usize) = (1 << 20, 4096);

/// Words that stand for other roles than one of this name.
const NO_NAMES: [&str; 7] = ["ALL", "CURRENT_ROLE", "CURRENT_USER", "NONE", "PUBLIC", "SESSION_USER", "USER"];

/// Attributes of roles that reach beyond a role's own objects.
const POWERS: [&str; 4] = ["SUPERUSER", "CREATEROLE", "REPLICATION", "BYPASSRLS"];

/// All other attributes without a value.
const ATTRIBUTES: [&str; 10] = [
    "NOSUPERUSER",
    "NOCREATEROLE",
    "NOREPLICATION",
    "NOBYPASSRLS",
    "INHERIT",
    "NOINHERIT",
    "CREATEDB",
    "NOCREATEDB",
    "LOGIN",
    "NOLOGIN",
];

/// What a statement makes.
pub(crate) fn global(statement: &[u8]) -> Global {
    if statement.len() > LARGEST.0 {
        return Global::Unknown;
    }
    let tokens = tokens(statement, LARGEST.1);
    let found = Reader { statement, rest: &tokens }.statement();
    found.unwrap_or(Global::Unknown)
}

/// Whether a role gives its members power over the server: those that PostgreSQL brings along do.
pub(crate) fn is_powerful(role: &str) -> bool {
    role.starts_with("pg_")
}

/// Reads a statement from its beginning. Each method takes what it reads, or nothing.
struct Reader<'a> {
    statement: &'a [u8],
    rest: &'a [Placed],
}

impl Reader<'_> {
    fn statement(mut self) -> Option<Global> {
        let found = self.first()?;
        self.rest.is_empty().then_some(found)
    }

    fn first(&mut self) -> Option<Global> {
        if self.word("SET") {
            return self.setting();
        }
        if self.words("CREATE ROLE") {
            return self.name().map(Global::Role);
        }
        if self.words("ALTER ROLE") {
            return self.alter_role();
        }
        if self.words("COMMENT ON ROLE") {
            let role = self.name()?;
            return self.is_text().then_some(Global::OfRole(role));
        }
        if self.words("COMMENT ON TABLESPACE") {
            let space = self.name()?;
            return self.is_text().then_some(Global::OfTablespace(space));
        }
        if self.words("SECURITY LABEL FOR") {
            self.name()?;
            let is_of_a_role = self.words("ON ROLE");
            if !is_of_a_role && !self.words("ON TABLESPACE") {
                return None;
            }
            let name = self.name()?;
            let found = if is_of_a_role { Global::OfRole(name) } else { Global::OfTablespace(name) };
            return self.is_text().then_some(found);
        }
        if self.words("DROP ROLE") || self.words("DROP TABLESPACE") {
            self.words("IF EXISTS");
            return self.name().map(Global::Dropped);
        }
        if self.words("CREATE TABLESPACE") {
            let space = self.name()?;
            let is_owned = self.word("OWNER") && self.name().is_some();
            return (is_owned && self.word("LOCATION") && self.text()).then_some(Global::Tablespace(space));
        }
        if self.words("ALTER TABLESPACE") {
            let space = self.name()?;
            if self.words("OWNER TO") {
                return self.name().map(|_| Global::OfTablespace(space));
            }
            let is_set = self.word("SET") && self.sign('(');
            while is_set && self.setting_of_space() {}
            return (is_set && self.sign(')')).then_some(Global::OfTablespace(space));
        }
        if self.word("GRANT") {
            return self.grant("TO");
        }
        if self.word("REVOKE") {
            self.words("GRANT OPTION FOR");
            // Membership is never taken away.
            return self.grant("FROM").filter(|found| !matches!(found, Global::Member(..)));
        }
        None
    }

    /// `default_transaction_read_only = off`
    fn setting(&mut self) -> Option<Global> {
        let is_strings = self.word("STANDARD_CONFORMING_STRINGS");
        let is_one = is_strings || self.word("DEFAULT_TRANSACTION_READ_ONLY") || self.word("CLIENT_ENCODING");
        if !is_one || !self.sign('=') {
            return None;
        }
        let is_on = self.word("ON");
        (is_on || !is_strings && (self.word("OFF") || self.text())).then_some(Global::Setting)
    }

    fn alter_role(&mut self) -> Option<Global> {
        let role = self.name()?;
        if self.words("IN DATABASE") {
            self.name()?;
            return self.is_value().then_some(Global::InDatabase(role));
        }
        if self.word("WITH") {
            return self.attributes(role);
        }
        self.is_value().then_some(Global::OfRole(role))
    }

    fn attributes(&mut self, role: String) -> Option<Global> {
        let mut powers = Vec::new();
        loop {
            let power = POWERS.iter().find(|power| self.word(power));
            powers.extend(power);
            let is_one = power.is_some()
                || ATTRIBUTES.iter().any(|word| self.word(word))
                || self.words("CONNECTION LIMIT") && self.number()
                || self.word("PASSWORD") && (self.word("NULL") || self.text())
                || self.words("VALID UNTIL") && self.text();
            if !is_one {
                return Some(Global::Attributes(role, powers));
            }
        }
    }

    /// `SET work_mem TO '1MB'`
    fn is_value(&mut self) -> bool {
        if !self.word("SET") || self.name().is_none() {
            return false;
        }
        while self.sign('.') {
            if self.name().is_none() {
                return false;
            }
        }
        if !self.word("TO") && !self.sign('=') {
            return false;
        }
        loop {
            if !self.text() && !self.number() && self.name().is_none() {
                return false;
            }
            if !self.sign(',') {
                return true;
            }
        }
    }

    /// `seq_page_cost='1'` in parentheses.
    fn setting_of_space(&mut self) -> bool {
        let is_one = self.name().is_some() && self.sign('=') && (self.text() || self.decimal());
        is_one && (self.sign(',') || self.rest.first().is_some_and(|token| token.is_sign(')')))
    }

    fn grant(&mut self, to: &str) -> Option<Global> {
        let first = self.rest;
        let mut is_list = self.right();
        while is_list && self.sign(',') {
            is_list = self.right();
        }
        if is_list && self.words("ON TABLESPACE") {
            let space = self.name()?;
            return self.is_to(to).map(|_| Global::OfTablespace(space));
        }
        if is_list && self.words("ON PARAMETER") {
            self.name()?;
            while self.sign('.') {
                self.name()?;
            }
            return self.is_to(to).map(Global::Parameter);
        }
        self.rest = first;
        let role = self.name()?;
        let member = self.word(to).then(|| self.name())??;
        if self.word("WITH") {
            loop {
                let is_one = self.words("ADMIN OPTION")
                    || (self.word("ADMIN") || self.word("INHERIT") || self.word("SET"))
                        && (self.word("TRUE") || self.word("FALSE") || self.word("OPTION"));
                if !is_one || !self.sign(',') {
                    break;
                }
            }
        }
        if self.words("GRANTED BY") {
            self.name()?;
        }
        Some(Global::Member(role, member))
    }

    /// The one role that gets a right. `PUBLIC` is everybody, who isn't a role that a restore makes.
    fn is_to(&mut self, to: &str) -> Option<String> {
        if !self.word(to) {
            return None;
        }
        let role = if self.word("PUBLIC") { "PUBLIC".to_owned() } else { self.name()? };
        self.words("WITH GRANT OPTION");
        Some(role)
    }

    /// `ALL`, `SET` or `ALTER SYSTEM`
    fn right(&mut self) -> bool {
        if self.words("ALTER SYSTEM") {
            return true;
        }
        let is_one = matches!(self.rest.first().map(|token| &token.token), Some(Token::Word(_)));
        self.take(is_one)
    }

    fn word(&mut self, word: &str) -> bool {
        let is_one = self.rest.first().is_some_and(|token| token.is(word));
        self.take(is_one)
    }

    /// All of some words, or none.
    fn words(&mut self, words: &str) -> bool {
        let before = self.rest;
        let all = words.split(' ').all(|word| self.word(word));
        if !all {
            self.rest = before;
        }
        all
    }

    fn sign(&mut self, sign: char) -> bool {
        let is_one = self.rest.first().is_some_and(|token| token.is_sign(sign));
        self.take(is_one)
    }

    fn take(&mut self, is_one: bool) -> bool {
        if is_one {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        is_one
    }

    /// `'x'`, or `E'x'` directly behind its letter.
    fn text(&mut self) -> bool {
        if let [letter, text, ..] = self.rest
            && letter.is("E")
            && text.at == letter.at + 1
        {
            self.take(true);
        }
        let is_one = self.rest.first().is_some_and(|token| token.token == Token::Text);
        self.take(is_one)
    }

    /// `IS 'x'`
    fn is_text(&mut self) -> bool {
        self.word("IS") && (self.word("NULL") || self.text())
    }

    fn number(&mut self) -> bool {
        self.sign('-');
        let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let is_one = matches!(self.rest.first().map(|token| &token.token), Some(Token::Word(word)) if digits(word));
        self.take(is_one)
    }

    /// A number with a fraction or without.
    fn decimal(&mut self) -> bool {
        self.number() && (!self.sign('.') || self.number())
    }

    /// A name, as the server takes it.
    fn name(&mut self) -> Option<String> {
        let first = self.rest.first()?;
        let is_other = NO_NAMES.iter().any(|word| first.is(word));
        if is_other || !first.is_name() {
            return None;
        }
        let name = tokens::name(self.statement.get(first.at..)?)?;
        let is_sound =
            !name.is_empty() && name.len() <= LONGEST && !name.as_bytes().first().is_some_and(u8::is_ascii_digit);
        self.take(is_sound).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_globals() {
        let role = |name: &str| Global::Role(name.to_owned());
        let of_role = |name: &str| Global::OfRole(name.to_owned());
        let space = |name: &str| Global::OfTablespace(name.to_owned());
        let member = |role: &str, member: &str| Global::Member(role.to_owned(), member.to_owned());
        for (statement, expected) in [
            ("SET default_transaction_read_only = off", Global::Setting),
            ("SET client_encoding = 'UTF8'", Global::Setting),
            ("SET standard_conforming_strings = on", Global::Setting),
            ("CREATE ROLE shop", role("shop")),
            ("CREATE ROLE \"The \"\"shop\"\"\"", role("The \"shop\"")),
            ("CREATE ROLE Shop", role("shop")),
            ("CREATE ROLE \"current_user\"", role("current_user")),
            (
                "ALTER ROLE shop WITH NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 PASSWORD 'SCRAM-SHA-256$4096:x' VALID UNTIL '2027-01-01 00:00:00+00'",
                Global::Attributes("shop".into(), vec![]),
            ),
            (
                "ALTER ROLE eve WITH SUPERUSER REPLICATION BYPASSRLS LOGIN PASSWORD E'a\\'b'",
                Global::Attributes("eve".into(), vec!["SUPERUSER", "REPLICATION", "BYPASSRLS"]),
            ),
            ("ALTER ROLE shop SET work_mem TO '1MB'", of_role("shop")),
            ("ALTER ROLE shop SET search_path TO 'a', 'b'", of_role("shop")),
            ("ALTER ROLE shop SET a.b TO '1'", of_role("shop")),
            ("ALTER ROLE shop IN DATABASE \"the shop\" SET work_mem TO '1MB'", Global::InDatabase("shop".into())),
            ("COMMENT ON ROLE shop IS 'x'", of_role("shop")),
            ("SECURITY LABEL FOR dummy ON ROLE shop IS 'x'", of_role("shop")),
            ("SECURITY LABEL FOR 'dummy' ON ROLE shop IS 'x'", Global::Unknown),
            ("GRANT staff TO shop WITH INHERIT TRUE GRANTED BY postgres", member("staff", "shop")),
            (
                "GRANT staff TO shop WITH ADMIN OPTION, INHERIT FALSE, SET TRUE GRANTED BY \"p\"",
                member("staff", "shop"),
            ),
            ("GRANT \"ON\" TO shop", member("ON", "shop")),
            ("CREATE TABLESPACE fast OWNER shop LOCATION '/mnt/fast'", Global::Tablespace("fast".into())),
            ("ALTER TABLESPACE fast SET (seq_page_cost = '1', random_page_cost=2)", space("fast")),
            ("ALTER TABLESPACE fast SET (random_page_cost=1.1, effective_io_concurrency=200)", space("fast")),
            ("GRANT ALL ON TABLESPACE fast TO shop", space("fast")),
            ("DROP ROLE shop", Global::Dropped("shop".into())),
            ("DROP ROLE IF EXISTS \"Shop\"", Global::Dropped("Shop".into())),
            ("DROP TABLESPACE fast", Global::Dropped("fast".into())),
            ("DROP ROLE a, b", Global::Unknown),
            ("DROP DATABASE shop", Global::Unknown),
            ("GRANT CREATE ON TABLESPACE fast TO PUBLIC", space("fast")),
            ("REVOKE ALL ON TABLESPACE fast FROM shop", space("fast")),
            ("COMMENT ON TABLESPACE fast IS 'x'", space("fast")),
            ("GRANT SET,ALTER SYSTEM ON PARAMETER work_mem TO shop", Global::Parameter("shop".into())),
            ("GRANT SET ON PARAMETER work_mem TO shop WITH GRANT OPTION", Global::Parameter("shop".into())),
            ("GRANT SET ON PARAMETER work_mem TO PUBLIC", Global::Parameter("PUBLIC".into())),
        ] {
            assert_eq!(global(statement.as_bytes()), expected, "{statement}");
        }
    }

    #[test]
    fn nothing_is_taken_for_another_role_than_the_server_takes_it_for() {
        let long = format!("ALTER ROLE \"{}\" WITH LOGIN", "a".repeat(64));
        for statement in [
            &*long,
            "ALTER ROLE ALL SET session_preload_libraries TO 'x'",
            "ALTER ROLE ALL IN DATABASE postgres SET a TO 'b'",
            "ALTER ROLE CURRENT_USER WITH PASSWORD 'x'",
            "ALTER ROLE session_user WITH PASSWORD 'x'",
            "ALTER ROLE CURRENT_ROLE WITH PASSWORD 'x'",
            "ALTER ROLE U&\"\\0070ostgres\" WITH PASSWORD 'x'",
            "ALTER ROLE /* */ postgres WITH PASSWORD 'x'",
            "ALTER ROLE -- x\npostgres WITH PASSWORD 'x'",
            "ALTER ROLE a WITH /* x */ LOGIN",
            "ALTER ROLE Ä WITH LOGIN",
            "ALTER ROLE a WITH LOGIN, b",
            "ALTER ROLE a RENAME TO b",
            "ALTER ROLE a WITH LOGIN IN ROLE b",
            "ALTER ROLE a RESET ALL",
            "ALTER USER a WITH LOGIN",
            "GRANT pg_execute_server_program TO newrole, app",
            "GRANT a, b TO c",
            "GRANT a TO CURRENT_USER",
            "GRANT SET ON PARAMETER x TO a, app",
            "GRANT ALL ON TABLESPACE fast, slow TO a",
            "GRANT ALL ON TABLE t TO shop",
            "GRANT ALL ON DATABASE d TO shop",
            "REVOKE a FROM b",
            "SET session_replication_role = replica",
            "SET standard_conforming_strings = off",
            "SET standard_conforming_strings = 'off'",
            "CREATE ROLE a SUPERUSER",
            "CREATE ROLE CURRENT_USER",
            "CREATE ROLE a IN ROLE b",
            "CREATE TABLESPACE t LOCATION '/x'",
            "COMMENT ON ROLE a IS E'a'\n'b'",
            "DROP DATABASE shop",
            "COPY t FROM PROGRAM 'id'",
            "SELECT 1",
            "DO $$CREATE ROLE x$$",
            "",
        ] {
            assert_eq!(global(statement.as_bytes()), Global::Unknown, "{statement}");
        }
    }
}
