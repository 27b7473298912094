//! The first statements of every session. They make sure that no object of a database's owner is found by name, and
//! that text is written and read in one format, with any settings of server, database and role.

use super::Connection;
use crate::Error;
use crate::quote::literal;

/// The first statement of every connection. Otherwise `ALTER DATABASE … SET search_path`, and functions in `public`,
/// would decide which functions our statements call, with our rights (CVE-2018-1058). PostgreSQL's own programs begin
/// with the same.
///
/// It is a statement and not a startup parameter, because poolers refuse parameters that they don't know.
pub(super) const FIRST: &str = "SELECT pg_catalog.set_config('search_path', '', false)";

/// The next query: the version of the server, and the encoding of the database, which the session then uses.
pub(super) const FACTS: &str =
    "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.current_setting('server_encoding')";

/// Settings under which the server reads a damaged page as empty, or as sound. Only superusers can change them.
const DAMAGE: [&str; 2] = ["zero_damaged_pages", "ignore_checksum_failure"];

/// The settings that are on and hide damage.
pub(crate) async fn hiding_damage(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let names = DAMAGE.map(literal).join(", ");
    let sql = format!("SELECT name FROM pg_catalog.pg_settings WHERE name IN ({names}) AND setting = 'on' ORDER BY 1");
    Ok(connection.query(&sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// How text is written and read, and how schemas are spelled.
const TEXTS: [(&str, &str); 16] = [
    ("standard_conforming_strings", "on"),
    ("backslash_quote", "safe_encoding"),
    ("quote_all_identifiers", "off"),
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
    ("array_nulls", "on"),
    ("transform_null_equals", "off"),
    // An index that returns only some of the rows would hide the others.
    ("gin_fuzzy_search_limit", "0"),
    ("synchronize_seqscans", "off"),
    ("row_security", "off"),
];

/// Time limits, read-only transactions and a default tablespace are meant for sessions of applications. None of them may end
/// a backup or a restore.
const LIMITS: [(&str, &str); 6] = [
    ("default_tablespace", ""),
    ("lock_timeout", "60s"),
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_isolation", "read committed"),
];

/// Settings that newer versions of the server have.
const LATER: [(u32, &str, &str); 3] = [
    (140_000, "idle_session_timeout", "0"),
    // Roles that a restore makes get only the memberships of the set.
    (160_000, "createrole_self_grant", ""),
    (170_000, "transaction_timeout", "0"),
];

/// The statements that set a session of a server of `version`.
pub(super) fn settings(version: u32) -> String {
    let later = LATER.iter().filter(|(since, ..)| version >= *since).map(|(_, name, value)| (*name, *value));
    let all = TEXTS.into_iter().chain(LIMITS).chain(later).chain([("client_min_messages", "warning")]);
    all.map(|(name, value)| format!("SET {name} = {}", literal(value))).collect::<Vec<_>>().join("; ")
}

/// Settings that influence how `pg_dump` writes a schema, and that `pg_dump` itself doesn't set. The last three also
/// influence rows, so for `pg_dump`'s own formats they keep the role's values.
const OF_SCHEMAS: [(&str, &str); 7] = [
    (DAMAGE[0], "off"),
    (DAMAGE[1], "off"),
    ("standard_conforming_strings", "on"),
    ("quote_all_identifiers", "off"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
];

/// How many of [`OF_SCHEMAS`], from the first on, apply to `pg_dump`'s own formats.
const OF_ARTEFACTS: usize = 4;

/// The settings that a program of PostgreSQL must be started with, so that no `ALTER ROLE … SET` changes its output: every
/// setting of [`OF_SCHEMAS`] whose value in a new session of this role and database differs. Mostly none differs. Then the
/// program starts without settings, because poolers know few of them.
pub(crate) async fn deviations(connection: &mut Connection, artefact: bool) -> Result<Vec<(String, String)>, Error> {
    let wanted = &OF_SCHEMAS[..if artefact { OF_ARTEFACTS } else { OF_SCHEMAS.len() }];
    let rows: Vec<String> =
        wanted.iter().map(|(name, value)| format!("({}, {})", literal(name), literal(value))).collect();
    let sql = format!(
        "SELECT w.name, w.value FROM (VALUES {}) AS w (name, value) \
         JOIN pg_catalog.pg_settings s ON s.name = w.name WHERE s.reset_val <> w.value ORDER BY 1",
        rows.join(", ")
    );
    Ok(connection.query(&sql).await?.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
}

/// Settings as `libpq` takes them from `PGOPTIONS`.
pub(super) fn options(settings: &[(String, String)]) -> String {
    let escape = |value: &str| value.replace('\\', "\\\\").replace(' ', "\\ ");
    settings.iter().map(|(name, value)| format!("-c {name}={}", escape(value))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_version() {
        for (version, has, has_not) in [
            (140_000, "SET idle_session_timeout = '0'", "createrole_self_grant"),
            (160_000, "SET createrole_self_grant = ''", "transaction_timeout"),
            (170_000, "SET transaction_timeout = '0'", "\0"),
        ] {
            let settings = settings(version);
            assert!(settings.contains(has) && !settings.contains(has_not), "{version}: {settings}");
            assert!(settings.starts_with("SET standard_conforming_strings = 'on'; "), "{settings}");
        }
    }

    #[test]
    fn options_for_programs() {
        let one = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (settings, text) in [
            (vec![], ""),
            (vec![one("TimeZone", "UTC")], "-c TimeZone=UTC"),
            (vec![one("a", "x y\\z"), one("b", "")], "-c a=x\\ y\\\\z -c b="),
        ] {
            assert_eq!(options(&settings), text);
        }
    }
}
