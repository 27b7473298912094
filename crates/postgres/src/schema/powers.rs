//! Who runs a statement of a set on a server that is started for a proof? Pure: from a statement's words to a role.
//!
//! The rule: whatever evaluates anything that users wrote is run by a plain role, and that is every statement but for those
//! that are named here. A superuser runs what changes catalogs alone: owners, grants, comments, and the objects that
//! PostgreSQL lets no other role make. To read a constant is to evaluate: its type may be an array of a domain, whose checks are
//! functions. So no statement of a superuser's has a default, a condition or a body of statements (see `routine`).

use crate::schema::bare::bare;

/// Who runs a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The plain role.
    Loader,
    /// The plain role, which may name a file of the server in this statement, and in no other.
    Reader,
    /// The superuser, as itself.
    Keeper,
    /// The superuser, while another role is one as well: PostgreSQL wants it of the new owner.
    KeeperFor(String),
    /// The superuser as the plain role, which is one inside this transaction alone.
    Raised,
    /// The plain role, but for what superusers alone may say of a function: see [`crate::schema::routine`].
    Routine,
    /// Each in its session: how texts are read.
    Both,
}

/// Beginnings of statements that make what superusers alone may make, and evaluate nothing.
const RAISED: [&str; 18] = [
    "CREATE ACCESS METHOD ",
    "CREATE CAST ",
    "CREATE EVENT TRIGGER ",
    "CREATE EXTENSION ",
    "CREATE FOREIGN DATA WRAPPER ",
    "CREATE LANGUAGE ",
    "CREATE OPERATOR CLASS ",
    "CREATE OPERATOR FAMILY ",
    "CREATE OR REPLACE LANGUAGE ",
    "CREATE OR REPLACE PROCEDURAL LANGUAGE ",
    "CREATE OR REPLACE TRUSTED LANGUAGE ",
    "CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE ",
    "CREATE PROCEDURAL LANGUAGE ",
    "CREATE TEXT SEARCH PARSER ",
    "CREATE TEXT SEARCH TEMPLATE ",
    "CREATE TRANSFORM ",
    "CREATE TRUSTED LANGUAGE ",
    "CREATE TRUSTED PROCEDURAL LANGUAGE ",
];

/// Beginnings of statements that only say something of an object.
const SAYS: [&str; 7] = [
    "ALTER DEFAULT PRIVILEGES ",
    "ALTER EVENT TRIGGER ",
    "ALTER OPERATOR FAMILY ",
    "COMMENT ON ",
    "RESET SESSION AUTHORIZATION",
    "SECURITY LABEL ",
    "SET SESSION AUTHORIZATION ",
];

/// Kinds whose owner must be a superuser, at the moment in which it gets the object.
const OF_SUPERUSERS: [&str; 3] = ["ALTER EVENT TRIGGER ", "ALTER FOREIGN DATA WRAPPER ", "ALTER SUBSCRIPTION "];

/// Kinds whose names are followed by types in parentheses.
const WITH_TYPES: [&str; 5] =
    ["ALTER AGGREGATE ", "ALTER FUNCTION ", "ALTER OPERATOR ", "ALTER PROCEDURE ", "ALTER ROUTINE "];

/// Who runs a statement.
pub(crate) fn runner(statement: &[u8]) -> Runner {
    let (text, bare) = (String::from_utf8_lossy(statement), bare(statement));
    if text.len() != bare.len() {
        return Runner::Loader;
    }
    let begins = |list: &[&str]| list.iter().any(|words| bare.starts_with(words));
    if let Some(owner) = new_owner(&text, &bare) {
        return match () {
            // What belongs to such a role runs with its rights, which may be to run programs.
            () if owner.starts_with("pg_") && owner != "pg_database_owner" => Runner::Loader,
            () if begins(&OF_SUPERUSERS) => Runner::KeeperFor(owner),
            () => Runner::Keeper,
        };
    }
    if bare.starts_with("SET STANDARD_CONFORMING_STRINGS = ") {
        return Runner::Both;
    }
    if begins(&SAYS) || is_grant(&bare) || is_of_schemas(&bare) {
        return Runner::Keeper;
    }
    if begins(&RAISED) || is_raised(&bare) {
        return Runner::Raised;
    }
    if ["CREATE FUNCTION ", "CREATE PROCEDURE "].iter().any(|words| bare.starts_with(words)) {
        return Runner::Routine;
    }
    if is_of_a_file(&bare) {
        return Runner::Reader;
    }
    Runner::Loader
}

/// Whether it makes a foreign table of a file, and evaluates nothing else meanwhile.
fn is_of_a_file(bare: &str) -> bool {
    let evaluates = [" DEFAULT ", "CHECK", "GENERATED", "PARTITION OF"].iter().any(|words| bare.contains(words));
    bare.starts_with("CREATE FOREIGN TABLE ") && bare.contains(" FILENAME '") && !evaluates
}

/// Whether a statement is about event triggers, which see what is done once they are there.
pub(crate) fn is_of_event_triggers(statement: &[u8]) -> bool {
    let bare = bare(statement);
    ["CREATE EVENT TRIGGER ", "ALTER EVENT TRIGGER ", "COMMENT ON EVENT TRIGGER "]
        .iter()
        .any(|words| bare.starts_with(words))
        || bare.starts_with("SECURITY LABEL ") && bare.contains(" ON EVENT TRIGGER ")
}

/// Whether a statement says who may call the server's own functions, of which some reach its files. Nothing of a set runs
/// once that is so.
pub(crate) fn is_of_server_functions(statement: &[u8]) -> bool {
    let bare = bare(statement);
    is_grant(&bare) && bare.contains(" ON FUNCTION PG_CATALOG.")
}

/// Whether a session is somebody else's behind a statement that says so.
pub(crate) fn session_role(statement: &[u8]) -> Option<bool> {
    match () {
        () if statement.starts_with(b"SET SESSION AUTHORIZATION ") => Some(true),
        () if statement.starts_with(b"RESET SESSION AUTHORIZATION") => Some(false),
        () => None,
    }
}

/// The statement of a foreign data wrapper in two: a validator is a function that may belong to any role, and is called with the
/// rights of who makes the wrapper. Set behind it, it isn't called.
pub(crate) fn without_validator(statement: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let bare = bare(statement);
    let rest = bare.strip_prefix("CREATE FOREIGN DATA WRAPPER ")?;
    let name = &statement[bare.len() - rest.len()..][..rest.find(' ').unwrap_or(rest.len())];
    let at = bare.find(" VALIDATOR ")?;
    let from = at + " VALIDATOR ".len();
    let end = bare[from..].find([' ', '\n']).map_or(bare.len(), |end| from + end);
    let made = [&statement[..at], &statement[end..]].concat();
    let set = [b"ALTER FOREIGN DATA WRAPPER ", name, b" VALIDATOR ", &statement[from..end]].concat();
    Some((made, set))
}

/// The role that an object is given to by a statement that does nothing else.
fn new_owner(text: &str, bare: &str) -> Option<String> {
    const TO: &str = " OWNER TO ";
    let (object, role) = bare.strip_prefix("ALTER ")?.split_once(TO)?;
    let role = &text[text.len() - role.len()..];
    let is_simple = WITH_TYPES.iter().any(|kind| bare.starts_with(kind)) || !object.contains([',', '(', '\'']);
    let plain = role.strip_prefix('"').and_then(|role| role.strip_suffix('"'));
    let is_word = |role: &str| !role.is_empty() && role.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    match plain {
        Some(role) if is_simple => Some(role.replace("\"\"", "\"")),
        None if is_simple && is_word(role) => Some(role.to_owned()),
        _ => None,
    }
}

/// Whether it grants or revokes rights on objects, not membership in a role nor a setting.
fn is_grant(bare: &str) -> bool {
    let is_one = bare.starts_with("GRANT ") || bare.starts_with("REVOKE ");
    is_one && bare.contains(" ON ") && !bare.contains(" ON PARAMETER ")
}

/// Whether it adds schemas to a publication.
fn is_of_schemas(bare: &str) -> bool {
    let is_list = !bare.contains([',', '(']);
    bare.starts_with("ALTER PUBLICATION ") && bare.contains(" ADD TABLES IN SCHEMA ") && is_list
}

/// Whether its words make it a superuser's.
fn is_raised(bare: &str) -> bool {
    // The first value of any other state is read by its type, and a type may have checks.
    if bare.starts_with("CREATE AGGREGATE ") {
        return bare.contains("STYPE = INTERNAL") && !bare.contains("INITCOND");
    }
    if let Some(rest) = bare.strip_prefix("CREATE TYPE ") {
        return !rest.contains(' ') || rest.contains("\n    INPUT = ");
    }
    bare.starts_with("CREATE PUBLICATION ") && bare.contains(" FOR ALL TABLES")
        || bare.starts_with("CREATE SUBSCRIPTION ") && bare.contains("CONNECT = FALSE")
}

#[cfg(test)]
mod tests {
    use super::Runner::{Both, Keeper, Loader, Raised, Reader, Routine};
    use super::*;

    fn keeper_for(role: &str) -> Runner {
        Runner::KeeperFor(role.to_owned())
    }

    #[test]
    fn what_evaluates_anything_is_run_by_the_plain_role() {
        for statement in [
            "CREATE TABLE public.t (\n    a integer DEFAULT public.f(),\n    CONSTRAINT c CHECK (public.f(a))\n)",
            "ALTER TABLE ONLY public.parts ATTACH PARTITION public.part FOR VALUES FROM ('a') TO ('b')",
            "ALTER TABLE public.t ADD COLUMN a text DEFAULT public.f(), OWNER TO app",
            "ALTER TABLE public.t ALTER a TYPE text USING (public.f(a)), OWNER TO app",
            "CREATE DOMAIN public.d AS text\n\tCONSTRAINT c CHECK (public.f(VALUE))",
            "CREATE AGGREGATE public.a(text) (\n    SFUNC = public.f,\n    STYPE = public.d,\n    INITCOND = 'x'\n)",
            "CREATE AGGREGATE public.a(text) (\n    SFUNC = public.f,\n    STYPE = internal,\n    MSTYPE = public.d,\n    MINITCOND = 'x'\n)",
            "CREATE INDEX i ON public.t USING btree (public.f(a))",
            "REFRESH MATERIALIZED VIEW public.v",
            "SELECT pg_catalog.set_config('search_path', '', false)",
            "SELECT pg_catalog.setval('public.s', 1, true)",
            "COPY public.t (a) FROM stdin",
            "COPY public.t TO PROGRAM 'sh'",
            "CREATE TRIGGER t BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()",
            "CREATE OR REPLACE FUNCTION public.f() RETURNS integer\n    LANGUAGE c\n    AS 'x'",
            "CREATE AGGREGATE public.a(text) (\n    SFUNC = public.f,\n    STYPE = public.d,\n    MSTYPE = internal,\n    INITCOND='x'\n)",
            "ALTER FUNCTION public.f(integer) SET log_statement TO 'none'",
            "ALTER PUBLICATION p ADD TABLE ONLY public.t WHERE ((a = '{1}'::public.d[]))",
            "ALTER PUBLICATION p ADD TABLES IN SCHEMA s, TABLE public.t WHERE (a = '{1}'::public.d[])",
            "CREATE FOREIGN TABLE public.t (\n    a public.d[] DEFAULT '{1}'\n)\nSERVER s\nOPTIONS (\n    filename '/x'\n)",
            "CREATE FOREIGN TABLE public.t (\n    a text,\n    CONSTRAINT c CHECK((a = '{1}'))\n)\nSERVER s\nOPTIONS (\n    filename '/x'\n)",
            "CREATE STATISTICS public.s ON (a = '{1}'::public.d[]) FROM public.t",
            "CREATE TEXT SEARCH DICTIONARY public.d (\n    TEMPLATE = public.t )",
            "ALTER TABLE public.t ALTER a TYPE text USING\nE'\\'' || public.f(), OWNER TO app",
            "CREATE TYPE public.pair AS (\n\ta integer\n)",
            "CREATE TYPE public.r AS RANGE (\n    subtype = integer\n)",
            "CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (slot_name = 's')",
            "CREATE FOREIGN TABLE public.t (\n    a integer\n)\nSERVER s\nOPTIONS (\n    program 'sh'\n)",
            "CREATE PUBLICATION p WITH (publish = 'insert')",
            "CREATE VIEW public.v AS\n SELECT ' OWNER TO app'::text AS a",
            "GRANT pg_execute_server_program TO app",
            "GRANT \" ON \" TO app",
            "GRANT SET ON PARAMETER log_statement TO app",
            "ALTER FUNCTION public.f() OWNER TO pg_execute_server_program",
            "ALTER FUNCTION public.f() OWNER TO \"pg_write_server_files\"",
            "ALTER ROLE app SUPERUSER",
            "ALTER SYSTEM SET archive_command = 'x'",
            "SET ROLE app",
            "SET session_preload_libraries = 'x'",
            "DO $$ BEGIN END $$",
            "/* GRANT ALL ON */ DO $$ BEGIN END $$",
            "",
        ] {
            assert_eq!(runner(statement.as_bytes()), Loader, "{statement}");
        }
    }

    #[test]
    fn what_changes_catalogs_alone_may_be_a_superusers() {
        for (statement, who) in [
            ("ALTER TABLE public.t OWNER TO app", Keeper),
            ("ALTER TABLE public.\"a, (b\" OWNER TO \"o\"\"x\"", Keeper),
            ("ALTER FUNCTION public.f(a integer, b text) OWNER TO postgres", Keeper),
            ("ALTER OPERATOR public.=== (public.pair, public.pair) OWNER TO app", Keeper),
            ("ALTER OPERATOR FAMILY one.f USING btree OWNER TO app", Keeper),
            ("ALTER SCHEMA public OWNER TO pg_database_owner", Keeper),
            ("ALTER EVENT TRIGGER e OWNER TO \"o\"\"x\"", keeper_for("o\"x")),
            ("ALTER FOREIGN DATA WRAPPER w OWNER TO postgres", keeper_for("postgres")),
            ("ALTER SUBSCRIPTION s OWNER TO postgres", keeper_for("postgres")),
            ("ALTER EVENT TRIGGER e ENABLE ALWAYS", Keeper),
            ("ALTER OPERATOR FAMILY one.f USING btree ADD\n    OPERATOR 1 <(integer,bigint)", Keeper),
            ("ALTER PUBLICATION p ADD TABLES IN SCHEMA s", Keeper),
            ("ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO reader", Keeper),
            ("GRANT SELECT ON TABLE public.t TO reader", Keeper),
            ("REVOKE ALL ON SCHEMA public FROM PUBLIC", Keeper),
            ("COMMENT ON TABLE public.t IS 'x'", Keeper),
            ("SECURITY LABEL FOR dummy ON TABLE public.t IS 'x'", Keeper),
            ("SET SESSION AUTHORIZATION app", Keeper),
            ("RESET SESSION AUTHORIZATION", Keeper),
            ("SET standard_conforming_strings = off", Both),
            ("CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public", Raised),
            ("CREATE EVENT TRIGGER e ON ddl_command_end\n   EXECUTE FUNCTION public.f()", Raised),
            ("CREATE TRUSTED PROCEDURAL LANGUAGE l HANDLER public.h", Raised),
            ("CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE l HANDLER public.h", Raised),
            ("CREATE CAST (public.a AS integer) WITHOUT FUNCTION", Raised),
            ("CREATE TYPE public.shell", Raised),
            ("CREATE TYPE public.base (\n    INTERNALLENGTH = 4,\n    INPUT = public.base_in,\n", Raised),
            ("CREATE AGGREGATE public.a(text) (\n    SFUNC = public.f,\n    STYPE = internal\n)", Raised),
            ("CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE c\n    AS '$libdir/x', 'f'", Routine),
            (
                "CREATE FUNCTION public.f(a public.d[] DEFAULT '{1}') RETURNS integer\n    LANGUAGE sql\n    SET a TO 'b'\n    AS 'x'",
                Routine,
            ),
            ("CREATE PROCEDURE public.f()\n    LANGUAGE plpgsql\n    AS 'x'", Routine),
            ("CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert')", Raised),
            ("CREATE SUBSCRIPTION s CONNECTION 'x' PUBLICATION p WITH (connect = false, slot_name = 's')", Raised),
            ("CREATE FOREIGN TABLE public.t (\n    a integer\n)\nSERVER s\nOPTIONS (\n    filename '/x'\n)", Reader),
        ] {
            assert_eq!(runner(statement.as_bytes()), who, "{statement}");
        }
    }

    #[test]
    fn a_wrapper_gets_its_validator_behind_itself() {
        let made = |statement: &str| {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            without_validator(statement.as_bytes()).map(|(made, set)| (text(made), text(set)))
        };
        let pair = |made: &str, set: &str| Some((made.to_owned(), set.to_owned()));
        assert_eq!(
            made(
                "CREATE FOREIGN DATA WRAPPER odd HANDLER a.h VALIDATOR public.\"v x\" OPTIONS (\n    host ' VALIDATOR b'\n)"
            ),
            pair(
                "CREATE FOREIGN DATA WRAPPER odd HANDLER a.h OPTIONS (\n    host ' VALIDATOR b'\n)",
                "ALTER FOREIGN DATA WRAPPER odd VALIDATOR public.\"v x\""
            )
        );
        assert_eq!(
            made("CREATE FOREIGN DATA WRAPPER \"o d\" VALIDATOR v"),
            pair("CREATE FOREIGN DATA WRAPPER \"o d\"", "ALTER FOREIGN DATA WRAPPER \"o d\" VALIDATOR v")
        );
        assert_eq!(made("CREATE FOREIGN DATA WRAPPER bare OPTIONS (host ' VALIDATOR b')"), None);
        assert_eq!(made("CREATE SERVER s FOREIGN DATA WRAPPER w"), None);
        // Whatever its bytes are in.
        let (made, _) =
            without_validator(b"CREATE FOREIGN DATA WRAPPER w VALIDATOR v OPTIONS (a '\xe9')").expect("one");
        assert_eq!(made, b"CREATE FOREIGN DATA WRAPPER w OPTIONS (a '\xe9')");
    }

    #[test]
    fn rights_to_call_the_servers_functions_are_known() {
        for (statement, is_so) in [
            ("GRANT ALL ON FUNCTION pg_catalog.pg_read_file(text) TO app", true),
            ("REVOKE ALL ON FUNCTION pg_catalog.pg_sleep(double precision) FROM PUBLIC", true),
            ("GRANT ALL ON FUNCTION public.f() TO app", false),
            ("GRANT SELECT ON TABLE pg_catalog.pg_authid TO app", false),
            ("COMMENT ON FUNCTION public.f() IS ' ON FUNCTION pg_catalog.'", false),
        ] {
            assert_eq!(is_of_server_functions(statement.as_bytes()), is_so, "{statement}");
        }
    }

    #[test]
    fn event_triggers_are_known() {
        for (statement, is_so) in [
            ("CREATE EVENT TRIGGER e ON sql_drop EXECUTE FUNCTION f()", true),
            ("ALTER EVENT TRIGGER e OWNER TO x", true),
            ("COMMENT ON EVENT TRIGGER e IS 'x'", true),
            ("SECURITY LABEL FOR d ON EVENT TRIGGER e IS 'x'", true),
            ("CREATE TRIGGER e BEFORE INSERT ON t EXECUTE FUNCTION f()", false),
            ("COMMENT ON TABLE t IS 'ON EVENT TRIGGER '", false),
        ] {
            assert_eq!(is_of_event_triggers(statement.as_bytes()), is_so, "{statement}");
        }
    }
}
