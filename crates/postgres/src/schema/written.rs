//! Is a statement one that programs write who back up one PostgreSQL database? Pure.
//!
//! A file that another program left is run as the role that restores it, which is often a superuser. So only statements of `pg_dump`,
//! `pg_restore` and dbbackup's engine are run: those that make objects of the database at hand, fill them, and say something of them.
//! What reaches the server, its roles or another database is refused (I8). The judge looks at the words that a statement begins
//! with, and at all of it where only the end tells. It doesn't look into functions and expressions: these run as the role that restores.

use std::collections::BTreeSet;

use crate::schema::copied::{Copy, copy};
use crate::schema::powers::is_of_event_triggers;
use crate::schema::target::{self, Target};
use crate::schema::tokens::{Placed, Token, all, first, name};

/// What becomes of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    /// It is run, alone.
    Run,
    /// It is run, and rows follow it.
    Rows,
    /// It is about the database as a whole, as `pg_dump --create` writes it. The target's name and properties aren't the script's matter.
    OfDatabase,
    /// The same, and it makes a database of this name.
    MakesDatabase(String),
    /// It has `psql` connect to this database.
    Connects(Option<String>),
    Refused(Why),
}

/// Why a statement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// No such program writes it.
    Other,
    /// It has the server read or write a file, or run a program.
    File,
    /// It has rows in another form than text.
    RowsInAnotherForm,
    /// It lets a backslash end texts elsewhere.
    Escapes,
    /// Its rows go to a foreign table, and so to another server.
    Foreign,
    /// It makes a function, has no end, and goes on to rows: dbbackup 5.3 and 6 write no semicolon behind a function.
    NoEnd,
}

/// The kinds of objects of a database, behind CREATE, ALTER, DROP and COMMENT ON.
const KINDS: [&str; 44] = [
    "ACCESS METHOD",
    "AGGREGATE",
    "CAST",
    "COLLATION",
    "COLUMN",
    "CONSTRAINT",
    "CONVERSION",
    "DEFAULT CONVERSION",
    "DEFAULT PRIVILEGES",
    "DOMAIN",
    "EVENT TRIGGER",
    "EXTENSION",
    "FOREIGN DATA WRAPPER",
    "FOREIGN TABLE",
    "FUNCTION",
    "INDEX",
    "LANGUAGE",
    "LARGE OBJECT",
    "MATERIALIZED VIEW",
    "OPERATOR",
    "POLICY",
    "PROCEDURAL LANGUAGE",
    "PROCEDURE",
    "PUBLICATION",
    "RECURSIVE VIEW",
    "ROUTINE",
    "RULE",
    "SCHEMA",
    "SEQUENCE",
    "SERVER",
    "STATISTICS",
    "SUBSCRIPTION",
    "TABLE",
    "TEXT SEARCH",
    "TRANSFORM",
    "TRIGGER",
    "TRUSTED LANGUAGE",
    "TRUSTED PROCEDURAL LANGUAGE",
    "TYPE",
    "UNIQUE INDEX",
    "UNLOGGED SEQUENCE",
    "UNLOGGED TABLE",
    "USER MAPPING",
    "VIEW",
];

/// The functions that scripts call by themselves, all of them the server's own.
const CALLED: [&str; 10] = [
    "LOWRITE",
    "LO_CLOSE",
    "LO_CREATE",
    "LO_OPEN",
    "LO_UNLINK",
    "PG_RESTORE_ATTRIBUTE_STATS",
    "PG_RESTORE_EXTENDED_STATS",
    "PG_RESTORE_RELATION_STATS",
    "SETVAL",
    "SET_CONFIG",
];

/// What a statement means.
pub(crate) fn meant(statement: &[u8]) -> Meant {
    if let Some(rest) = statement.strip_prefix(b"\\connect ") {
        return Meant::Connects(connected(rest));
    }
    let tokens = first(statement);
    let words = words(&tokens);
    let begins = |first: &str| words.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let behind = |verb: &str| words.strip_prefix(verb).and_then(|rest| rest.strip_prefix(' '));
    let is_kind =
        |rest: &str| KINDS.iter().any(|kind| rest.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')));
    let run = |is_one: bool| if is_one { Meant::Run } else { Meant::Refused(Why::Other) };
    // Those about event triggers are put aside and run together, so that each must end where it seems to.
    if is_of_event_triggers(statement) && !has_one_end(statement) {
        return Meant::Refused(Why::Other);
    }
    match tokens.first().map(|first| &first.token) {
        Some(Token::Word(verb)) => match verb.as_str() {
            "COPY" => match copy(statement) {
                Copy::Rows if !target::of_rows(statement).is_some_and(|target| target.is_of_users()) => {
                    Meant::Refused(Why::Other)
                }
                Copy::Rows => Meant::Rows,
                Copy::RowsInAnotherForm => Meant::Refused(Why::RowsInAnotherForm),
                Copy::OfAFile => Meant::Refused(Why::File),
            },
            "INSERT" => run(target::inserted(statement).is_some_and(|(target, _)| target.is_of_users())),
            "SET" => set(&tokens),
            "SELECT" => run(is_call(statement)),
            "GRANT" | "REVOKE" => grant(statement),
            "SECURITY" => label(statement),
            "BEGIN" | "COMMIT" => run(tokens.len() == 1),
            "RESET" => run(words == "RESET SESSION AUTHORIZATION"),
            "REFRESH" => run(begins("REFRESH MATERIALIZED VIEW")),
            "UPDATE" if begins("UPDATE PG_CATALOG . PG_DATABASE SET DATISTEMPLATE") => Meant::OfDatabase,
            "CREATE" | "ALTER" | "DROP" if behind(verb).is_some_and(|rest| rest.starts_with("DATABASE ")) => {
                let made = tokens.get(2).and_then(|token| name(statement.get(token.at..)?));
                match (verb.as_str(), made) {
                    ("CREATE", Some(made)) => Meant::MakesDatabase(made),
                    ("CREATE", None) => Meant::Refused(Why::Other),
                    _ => Meant::OfDatabase,
                }
            }
            "ALTER" if is_of_a_role_in_a_database(&tokens) => Meant::OfDatabase,
            // It would tell the publisher, a server in use, to forget what it keeps for the subscriber. A new database has none.
            "DROP" if begins("DROP SUBSCRIPTION") => Meant::OfDatabase,
            "CREATE" | "ALTER" if behind(verb).is_some_and(|rest| rest.starts_with("SUBSCRIPTION ")) => {
                run(connects_to_no_server(statement))
            }
            "CREATE" => {
                let rest = behind("CREATE").unwrap_or_default();
                let rest = rest.strip_prefix("OR REPLACE ").unwrap_or(rest);
                let is_routine = rest.starts_with("FUNCTION ") || rest.starts_with("PROCEDURE ");
                match is_routine && goes_on_to_rows(statement) {
                    true => Meant::Refused(Why::NoEnd),
                    false => run(is_kind(rest) || rest.starts_with("CONSTRAINT TRIGGER ")),
                }
            }
            "ALTER" | "DROP" => run(behind(verb).is_some_and(is_kind)),
            "COMMENT" => match behind("COMMENT ON") {
                Some(rest) if rest.starts_with("DATABASE ") => Meant::OfDatabase,
                rest => run(rest.is_some_and(is_kind)),
            },
            _ => run(false),
        },
        _ => run(false),
    }
}

/// Whether no text that escapes, and no comment, lets a statement end elsewhere than it seems to.
fn has_one_end(statement: &[u8]) -> bool {
    let tokens = all(statement);
    let is_comment = |token: &Placed| token.is_sign('/') || token.is_sign('-');
    !tokens.is_empty() && !escapes(&tokens) && !tokens.iter().any(is_comment)
}

/// Whether there is a text in which backslashes or codes stand for letters: `E'…'`, `U&'…'`.
fn escapes(tokens: &[Placed]) -> bool {
    tokens.windows(2).any(|two| match two {
        [word, text] => (word.is("E") || word.is("U")) && (text.token == Token::Text || text.is_sign('&')),
        _ => false,
    })
}

/// Tokens as one text: words and signs with a blank between them.
fn words(tokens: &[Placed]) -> String {
    let word = |placed: &Placed| match &placed.token {
        Token::Word(word) => word.clone(),
        Token::Name => "\"".to_owned(),
        Token::Text => "'".to_owned(),
        Token::Sign(sign) => sign.to_string(),
    };
    tokens.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A setting of the session: one name and its value, and no other role.
fn set(tokens: &[Placed]) -> Meant {
    let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.is(word));
    if is(1, "SESSION") && is(2, "AUTHORIZATION") && tokens.len() == 4 {
        return Meant::Run;
    }
    let mut at = 1;
    while matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_)))
        && tokens.get(at + 1).is_some_and(|token| token.is_sign('.'))
    {
        at += 2;
    }
    let is_plain = matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_)));
    let is_set = tokens.get(at + 1).is_some_and(|token| token.is_sign('=') || token.is("TO"));
    let is_role = is(at, "ROLE") || is(at, "SESSION_AUTHORIZATION");
    match () {
        () if !is_plain || !is_set || is_role => Meant::Refused(Why::Other),
        () if is(at, "STANDARD_CONFORMING_STRINGS") && !(is(at + 2, "ON") && tokens.len() == at + 3) => {
            Meant::Refused(Why::Escapes)
        }
        () => Meant::Run,
    }
}

/// Whether it is a call of one of the functions that scripts call, with nothing but constants.
fn is_call(statement: &[u8]) -> bool {
    let tokens = all(statement);
    let mut rest = tokens.get(1..).unwrap_or_default();
    if let [star, from, behind @ ..] = rest
        && star.is_sign('*')
        && from.is("FROM")
    {
        rest = behind;
    }
    let [schema, dot, called, open, arguments @ ..] = rest else { return false };
    let is_known = matches!(&called.token, Token::Word(word) if CALLED.contains(&word.as_str()));
    if !schema.is("PG_CATALOG")
        || !dot.is_sign('.')
        || !is_known
        || !open.is_sign('(')
        || !statement.is_ascii() && called.is("SET_CONFIG")
    {
        return false;
    }
    let Some(end) = arguments.iter().position(|token| token.is_sign(')')) else { return false };
    let (arguments, behind) = (arguments.get(..end).unwrap_or_default(), arguments.get(end + 1..).unwrap_or_default());
    let is_constant = |token: &Placed| match &token.token {
        // An escaping text may end elsewhere.
        Token::Word(word) => word != "E" && word != "U",
        Token::Text => true,
        Token::Sign(sign) => matches!(sign, ',' | ':' | '-' | '[' | ']' | '.'),
        Token::Name => false,
    };
    let begins_comment = |two: &[Placed]| two.iter().all(|token| token.is_sign('-'));
    if !arguments.iter().all(is_constant) || arguments.windows(2).any(begins_comment) {
        return false;
    }
    if called.is("SET_CONFIG") {
        let first = arguments.first().and_then(|token| statement.get(token.at..)).unwrap_or_default();
        return behind.is_empty() && first.starts_with(b"'search_path'");
    }
    let of_large_objects = "FROM PG_CATALOG . PG_LARGEOBJECT_METADATA WHERE OID = '";
    behind.is_empty() || called.is("LO_UNLINK") && words(behind) == of_large_objects
}

/// A grant of rights on objects of the database; not membership in a role, nor anything of the server's.
fn grant(statement: &[u8]) -> Meant {
    let tokens = all(statement);
    let on = tokens.iter().position(|token| token.is("ON") || token.is("TO") || token.is("FROM"));
    let Some(on) = on.filter(|on| tokens.get(*on).is_some_and(|token| token.is("ON"))) else {
        return Meant::Refused(Why::Other);
    };
    let is_plain = tokens.iter().all(|token| match &token.token {
        Token::Text => false,
        Token::Sign(sign) => matches!(sign, ',' | '.' | '(' | ')' | '[' | ']'),
        Token::Word(_) | Token::Name => true,
    });
    let is = |word: &str| tokens.get(on + 1).is_some_and(|token| token.is(word));
    match () {
        () if is("DATABASE") => Meant::OfDatabase,
        () if !is_plain || is("TABLESPACE") || is("PARAMETER") => Meant::Refused(Why::Other),
        () => Meant::Run,
    }
}

/// A security label of an object of the database.
fn label(statement: &[u8]) -> Meant {
    let tokens = first(statement);
    let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.is(word));
    let on = if is(2, "FOR") { 4 } else { 2 };
    match () {
        () if !is(1, "LABEL") || !is(on, "ON") => Meant::Refused(Why::Other),
        () if is(on + 1, "DATABASE") => Meant::OfDatabase,
        () if is(on + 1, "ROLE") || is(on + 1, "TABLESPACE") => Meant::Refused(Why::Other),
        () => Meant::Run,
    }
}

/// Whether it is `ALTER ROLE a IN DATABASE b …`.
fn is_of_a_role_in_a_database(tokens: &[Placed]) -> bool {
    let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.is(word));
    is(1, "ROLE") && tokens.get(2).is_some_and(Placed::is_name) && is(3, "IN") && is(4, "DATABASE")
}

/// Whether a statement about a subscription has the server connect to no other one.
fn connects_to_no_server(statement: &[u8]) -> bool {
    let tokens = all(statement);
    let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| token.is(word));
    if is(0, "ALTER") {
        return is(3, "OWNER") && is(4, "TO") && tokens.len() == 6;
    }
    let off = |four: &[Placed]| {
        let [before, connect, equal, off] = four else { return false };
        (before.is_sign('(') || before.is_sign(',')) && connect.is("CONNECT") && equal.is_sign('=') && off.is("FALSE")
    };
    let is_of_comments = tokens.iter().any(|token| token.is_sign('/') || token.is_sign('-'));
    tokens.windows(4).any(off) && !escapes(&tokens) && !is_of_comments
}

/// Whether a function goes on to a COPY whose rows follow.
fn goes_on_to_rows(statement: &[u8]) -> bool {
    let bare = crate::schema::bare::bare(statement);
    bare.trim_ascii_end().ends_with(" FROM STDIN") && bare.contains("\nCOPY ")
}

/// The database in the arguments of `\connect`: `shop`, `"The shop"` or `-reuse-previous=on "dbname='The shop'"`.
fn connected(arguments: &[u8]) -> Option<String> {
    let arguments = arguments.trim_ascii();
    let (text, is_long) = match arguments.strip_prefix(b"-reuse-previous=on ") {
        Some(rest) => (rest, true),
        None => (arguments, false),
    };
    let one = match text.first()? {
        b'"' => name(text)?,
        // psql leaves letters as they are.
        _ if text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) => {
            String::from_utf8(text.to_vec()).ok()?
        }
        _ => return None,
    };
    if !is_long {
        return Some(one);
    }
    let inner = one.strip_prefix("dbname='")?.strip_suffix('\'')?;
    let (mut name, mut letters) = (String::new(), inner.chars());
    while let Some(letter) = letters.next() {
        name.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(name)
}

/// What a script has said so far of the database as a whole.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// The database that it makes.
    made: Option<String>,
    /// Its foreign tables: rows of these would go to another server.
    foreign: BTreeSet<String>,
    /// Whether a transaction that the script began is open.
    pub(crate) in_transaction: bool,
    /// Statements that were to be run.
    pub(crate) statements: u64,
    /// Rows in INSERT statements of those.
    pub(crate) inserted: u64,
}

impl Judge {
    /// What becomes of the next statement. A connection to the database that the script makes is one of its statements about that.
    pub(crate) fn judge(&mut self, statement: &[u8]) -> Meant {
        let is_foreign = |target: &Target| self.foreign.contains(&target.name);
        let meant = meant(statement);
        let inserted = match meant {
            Meant::Run if target::is_insert(statement) => target::inserted(statement),
            _ => None,
        };
        match meant {
            Meant::Rows if !self.foreign.is_empty() && target::of_rows(statement).is_none_or(|to| is_foreign(&to)) => {
                Meant::Refused(Why::Foreign)
            }
            Meant::Run if inserted.as_ref().is_some_and(|(to, _)| is_foreign(to)) => Meant::Refused(Why::Foreign),
            Meant::MakesDatabase(name) => {
                self.made = Some(name);
                Meant::OfDatabase
            }
            Meant::Connects(name) if name.is_some() && name == self.made => Meant::OfDatabase,
            meant => {
                self.inserted += inserted.map_or(0, |(_, rows)| rows);
                self.foreign.extend(target::foreign(statement).map(|target| target.name));
                self.statements += u64::from(matches!(meant, Meant::Run | Meant::Rows));
                let first = first(statement);
                let is = |word: &str| first.first().is_some_and(|token| token.is(word));
                self.in_transaction = is("BEGIN") || self.in_transaction && !is("COMMIT");
                meant
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Meant::{Connects, MakesDatabase, OfDatabase, Refused, Run};
    use super::*;

    #[test]
    fn what_backups_of_one_database_have_is_run() {
        for statement in [
            "SET statement_timeout = 0",
            "SET client_encoding = 'UTF8'",
            "SET standard_conforming_strings = on",
            "SET default_tablespace = ''",
            "SET search_path TO public, pg_catalog",
            "SET SESSION AUTHORIZATION 'shop'",
            "SET SESSION AUTHORIZATION DEFAULT",
            "RESET SESSION AUTHORIZATION",
            "SELECT pg_catalog.set_config('search_path', '', false)",
            "SELECT pg_catalog.setval('public.s', -5, true)",
            "SELECT pg_catalog.lo_create('16402')",
            "SELECT pg_catalog.lo_open('16402', 131072)",
            "SELECT pg_catalog.lowrite(0, '\\x00')",
            "SELECT pg_catalog.lo_close(0)",
            "SELECT pg_catalog.lo_unlink('1')",
            "SELECT pg_catalog.lo_unlink(oid) FROM pg_catalog.pg_largeobject_metadata WHERE oid = '1'",
            "SELECT * FROM pg_catalog.pg_restore_attribute_stats(\n\t'version', '180000'::integer,\n\t'schemaname', 'public',\n\t'inherited', 'f'::boolean,\n\t'null_frac', '0'::real,\n\t'most_common_freqs', '{0.5,0.5}'::real[]\n)",
            "BEGIN",
            "COMMIT",
            "CREATE TABLE public.t (a int)",
            "CREATE UNLOGGED TABLE \"T\" ()",
            "CREATE TABLE IF NOT EXISTS \"public\".\"t\" (\n  \"id\" integer\n)",
            "CREATE OR REPLACE VIEW public.v AS SELECT 1",
            "CREATE FUNCTION public.f() RETURNS void LANGUAGE sql AS $$COPY t FROM stdin$$",
            "CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE l",
            "CREATE UNIQUE INDEX i ON t USING btree (a)",
            "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON a",
            "CREATE USER MAPPING FOR a SERVER s OPTIONS (password 'x')",
            "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p WITH (connect = false, slot_name = 's')",
            "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION e WITH (connect = false, slot_name = 's')",
            "ALTER SUBSCRIPTION s OWNER TO a",
            "ALTER TABLE ONLY public.t ADD CONSTRAINT c PRIMARY KEY (a)",
            "ALTER DEFAULT PRIVILEGES FOR ROLE a GRANT SELECT ON TABLES TO b",
            "ALTER TABLE t OWNER TO \"DATABASE\"",
            "DROP TABLE IF EXISTS public.t",
            "DROP USER MAPPING IF EXISTS FOR a SERVER s",
            "COMMENT ON COLUMN t.a IS 'DROP DATABASE x'",
            "SECURITY LABEL FOR dummy ON TABLE t IS 'x'",
            "GRANT SELECT(a),INSERT(b) ON TABLE public.t TO \"Shop\" WITH GRANT OPTION",
            "GRANT ALL ON FUNCTION f(a integer[], OUT b text) TO a",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
            "GRANT SELECT ON LARGE OBJECT 5 TO a",
            "INSERT INTO t VALUES (1, 'DROP DATABASE x')",
            "INSERT INTO public.t (id, \"Name\") OVERRIDING SYSTEM VALUE VALUES (-1.5e+10, NULL), (2, B'101') ON CONFLICT DO NOTHING",
            "INSERT INTO public.t DEFAULT VALUES",
            "CREATE EVENT TRIGGER e ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.f()",
            "ALTER EVENT TRIGGER e OWNER TO a",
            "COMMENT ON EVENT TRIGGER e IS 'it''s; CREATE ROLE eve'",
            "REFRESH MATERIALIZED VIEW public.v",
        ] {
            assert_eq!(meant(statement.as_bytes()), Run, "{statement}");
        }
    }

    #[test]
    fn what_reaches_beyond_the_database_is_refused() {
        for statement in [
            "ALTER SYSTEM SET archive_command = 'id'",
            "CREATE ROLE eve",
            "CREATE USER eve",
            "CREATE GROUP eve",
            "ALTER ROLE postgres PASSWORD 'x'",
            "ALTER USER postgres SUPERUSER",
            "ALTER ROLE ALL SET a = 'b'",
            "DROP ROLE a",
            "DROP OWNED BY a",
            "REASSIGN OWNED BY a TO b",
            "CREATE TABLESPACE t LOCATION '/x'",
            "ALTER TABLESPACE t OWNER TO a",
            "DROP TABLESPACE t",
            "GRANT pg_execute_server_program TO app",
            "GRANT \"ON\" TO app",
            "GRANT a TO app /* ON TABLE t */",
            "GRANT a TO b GRANTED BY \"x ON y\"",
            "REVOKE a FROM b",
            "GRANT CREATE ON TABLESPACE t TO a",
            "GRANT SET ON PARAMETER work_mem TO a",
            "COMMENT ON ROLE a IS 'x'",
            "COMMENT ON TABLESPACE a IS 'x'",
            "SECURITY LABEL ON ROLE a IS 'x'",
            "SECURITY LABEL FOR \"x\" ON TABLESPACE a IS 'x'",
            "DO $$BEGIN EXECUTE 'x'; END$$",
            "CALL p()",
            "LOAD 'x'",
            "PREPARE x AS SELECT 1",
            "EXECUTE x",
            "SET ROLE postgres",
            "SET role TO postgres",
            "SET LOCAL role = 'postgres'",
            "SET SESSION ROLE postgres",
            "SET session_authorization = 'postgres'",
            "SET \"role\" = 'postgres'",
            "RESET ROLE",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT pg_catalog.lo_export(1, '/x')",
            "SELECT pg_catalog.setval('s', 1, pg_catalog.pg_reload_conf())",
            "SELECT pg_catalog.setval('s', 1), pg_catalog.pg_reload_conf()",
            "SELECT pg_catalog.setval(E'\\'', 1) FROM f()",
            "SELECT pg_catalog.set_config('role', 'x', false)",
            "SELECT pg_catalog.set_config('standard_conforming_strings', 'off', false)",
            "SELECT E'a'\n'\\'; COPY t FROM PROGRAM ''id'' --'",
            "SELECT 1",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "EXPLAIN ANALYZE SELECT 1",
            "INSERT INTO pg_catalog.pg_authid VALUES (1)",
            "INSERT INTO \"pg_catalog\".pg_db_role_setting VALUES (0, 0, '{session_preload_libraries=/x}')",
            "INSERT INTO pg_authid VALUES (1)",
            "INSERT INTO information_schema.sql_features VALUES (1)",
            "INSERT INTO shop.public.t VALUES (1)",
            "INSERT INTO t SELECT * FROM pg_authid",
            "INSERT INTO t VALUES (lo_export(1, '/x'))",
            "INSERT INTO t VALUES ((SELECT rolpassword FROM pg_authid LIMIT 1))",
            "INSERT INTO t VALUES (E'\\'', f(), '')",
            "INSERT INTO t VALUES (1) RETURNING f()",
            "INSERT INTO t AS x VALUES (1)",
            "COPY pg_catalog.pg_authid FROM stdin",
            "COPY pg_db_role_setting (a) FROM stdin",
            "COPY \"pg_catalog\".\"pg_auth_members\" FROM stdin",
            "COMMENT ON EVENT TRIGGER e IS E'a'\n'\\''; CREATE ROLE eve SUPERUSER LOGIN; --'",
            "COMMENT ON EVENT TRIGGER e IS 'a' /* ; */",
            "SECURITY LABEL FOR x ON EVENT TRIGGER e IS U&'a'",
            "UPDATE pg_catalog.pg_authid SET rolsuper = true",
            "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p",
            "CREATE SUBSCRIPTION s CONNECTION E'x' PUBLICATION p WITH (connect = false)",
            "CREATE SUBSCRIPTION s CONNECTION 'x (connect = false' PUBLICATION p",
            "CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p /* (connect = false */",
            "ALTER SUBSCRIPTION s ENABLE",
            "CREATE/**/DATABASE x",
            "CREATE /* */ ROLE x",
            "DROP\u{b}DATABASE x",
            "\u{b}COPY t FROM PROGRAM 'id'",
            "CREATE OR REPLACE ROLE x",
            "CREATE",
            "\"COPY\"",
            "",
        ] {
            assert_eq!(meant(statement.as_bytes()), Refused(Why::Other), "{statement}");
        }
        assert_eq!(meant(b"SET standard_conforming_strings = off"), Refused(Why::Escapes));
        assert_eq!(meant(b"SET standard_conforming_strings TO 'on'"), Refused(Why::Escapes));
        let unended =
            b"CREATE OR REPLACE FUNCTION f() RETURNS int AS $$ SELECT 1; $$\n\n-- Data\nCOPY \"t\" (\"a\") FROM stdin";
        assert_eq!(meant(unended), Refused(Why::NoEnd));
    }

    #[test]
    fn what_is_of_the_database_itself_is_passed_over() {
        for statement in [
            "DROP DATABASE shop",
            "DROP DATABASE IF EXISTS \"The shop\"",
            "ALTER DATABASE shop OWNER TO a",
            "ALTER DATABASE other SET work_mem TO '1MB'",
            "ALTER ROLE a IN DATABASE shop SET work_mem TO '1MB'",
            "COMMENT ON DATABASE shop IS 'x'",
            "SECURITY LABEL FOR d ON DATABASE shop IS 'x'",
            "GRANT CONNECT ON DATABASE shop TO a",
            "DROP SUBSCRIPTION IF EXISTS s",
            "UPDATE pg_catalog.pg_database SET datistemplate = false WHERE datname = 'shop'",
        ] {
            assert_eq!(meant(statement.as_bytes()), OfDatabase, "{statement}");
        }
        assert_eq!(
            meant(b"CREATE DATABASE \"The shop\" WITH TEMPLATE = template0"),
            MakesDatabase("The shop".to_owned())
        );
        for (command, name) in [
            ("\\connect shop", Some("shop")),
            ("\\connect \"The shop\"", Some("The shop")),
            ("\\connect -reuse-previous=on \"dbname='it\\'s'\"", Some("it's")),
            ("\\connect - eve", None),
            ("\\connect `id`", None),
            ("\\connect -reuse-previous=on \"host=x\"", None),
        ] {
            assert_eq!(meant(command.as_bytes()), Connects(name.map(Into::into)), "{command}");
        }
        let (mut judge, made) = (Judge::default(), b"CREATE DATABASE shop");
        assert_eq!(judge.judge(b"\\connect shop"), Connects(Some("shop".to_owned())));
        assert_eq!(judge.judge(made), OfDatabase);
        assert_eq!(judge.judge(b"\\connect shop"), OfDatabase);
        assert_eq!(judge.judge(b"\\connect other"), Connects(Some("other".to_owned())));
        assert_eq!(judge.statements, 0);
        assert_eq!((judge.judge(b"SET a = 1"), judge.statements), (Run, 1));
    }

    #[test]
    fn a_transaction_that_has_no_end_is_noticed() {
        for (statements, is_open) in [
            (&["BEGIN", "SET a = 1", "COMMIT"][..], false),
            (&["BEGIN", "SET a = 1"], true),
            (&["BEGIN", "COMMIT", "BEGIN"], true),
            (&["COMMIT"], false),
        ] {
            let mut judge = Judge::default();
            for statement in statements {
                assert_eq!(judge.judge(statement.as_bytes()), Run);
            }
            assert_eq!(judge.in_transaction, is_open, "{statements:?}");
        }
    }

    #[test]
    fn rows_go_to_no_other_server() {
        let mut judge = Judge::default();
        assert_eq!(judge.judge(b"COPY public.far (a) FROM stdin"), Meant::Rows);
        assert_eq!(judge.judge(b"CREATE FOREIGN TABLE public.far (a integer) SERVER s"), Run);
        for statement in
            ["COPY public.far (a) FROM stdin", "COPY \"far\" FROM stdin", "INSERT INTO public.far VALUES (1)"]
        {
            assert_eq!(judge.judge(statement.as_bytes()), Refused(Why::Foreign), "{statement}");
        }
        assert_eq!(judge.judge(b"COPY public.near (a) FROM stdin"), Meant::Rows);
        assert_eq!(judge.judge(b"INSERT INTO near VALUES (1)"), Run);
    }
}
