//! The first statements of every session. They make sure that no setting of the server, the account or `init_connect` changes
//! what our statements mean, what they return, or how long they may take.

use super::Purpose;

/// The largest number, for limits.
const NO_LIMIT: &str = "18446744073709551615";

/// The first statements: a limit would end the next statement, or cut the answer to [`question`]. And `init_connect` may have left a
/// transaction open, whose end would end the session too where `completion_type` says so.
///
/// Which server this is isn't known yet. Each family runs its own comment, and passes over the other's.
pub(super) fn first() -> [String; 2] {
    let limits = format!(
        "SET SESSION sql_select_limit = {NO_LIMIT}, SESSION max_join_size = {NO_LIMIT}, SESSION sql_big_selects = 1 /*M!100101 , SESSION max_statement_time = 0 */ /*!50708 , SESSION max_execution_time = 0 */"
    );
    [limits, "ROLLBACK AND NO CHAIN NO RELEASE".to_owned()]
}

/// How often the first statements are tried, where a limit of the server's ends them.
pub(super) const ATTEMPTS: u32 = 20;

/// Whether a limit of time has ended a statement.
pub(super) fn is_out_of_time(number: Option<u16>) -> bool {
    matches!(number, Some(1969 | 3024))
}

/// The point to which a transaction returns behind each table: that releases the table's definition, so that its owner can change
/// it.
pub(crate) const BEHIND: &str = "ROLLBACK TO SAVEPOINT seawall";

/// The variables that tell which server this is.
const FACTS: [&str; 4] = ["version", "version_comment", "aurora_version", "max_allowed_packet"];

/// The longest time limit that MySQL and MariaDB take, in seconds: a year. A session may be silent while others work.
const LONG: &str = "31536000";

/// How long the server waits for bytes of ours in the middle of a statement, in seconds: longer than a store may take for a chunk.
/// Behind that our machine is gone, and with it the transaction and its locks.
const GONE: &str = "3600";

/// Variables of a session, with the values that we need, as SQL. Each exists in some versions only. None needs a right.
const SETTINGS: [(&str, &str); 33] = [
    ("autocommit", "1"),
    ("completion_type", "'NO_CHAIN'"),
    // Backslashes escape, double quotes are for text, and a zero in a column that counts up stays one.
    ("sql_mode", "'NO_AUTO_VALUE_ON_ZERO'"),
    ("old_mode", "''"),
    ("time_zone", "'+00:00'"),
    ("sql_auto_is_null", "0"),
    // How objects are told.
    ("sql_quote_show_create", "1"),
    ("show_create_table_verbosity", "0"),
    ("show_create_table_skip_secondary_engine", "0"),
    ("show_gipk_in_create_table_and_information_schema", "1"),
    ("print_identified_with_as_hex", "1"),
    ("information_schema_stats_expiry", "0"),
    ("character_set_collations", "''"),
    // Which rows are seen: all, as of now.
    ("sql_select_limit", NO_LIMIT),
    ("max_join_size", NO_LIMIT),
    ("sql_big_selects", "1"),
    ("sql_safe_updates", "0"),
    ("system_versioning_asof", "DEFAULT"),
    ("system_versioning_alter_history", "'ERROR'"),
    ("sql_buffer_result", "0"),
    ("group_concat_max_len", "16777216"),
    ("sql_notes", "1"),
    // Limits are for the sessions of applications.
    ("max_statement_time", "0"),
    ("max_execution_time", "0"),
    ("lock_wait_timeout", "60"),
    ("innodb_lock_wait_timeout", "60"),
    ("net_read_timeout", GONE),
    ("net_write_timeout", GONE),
    ("wait_timeout", LONG),
    ("idle_transaction_timeout", "0"),
    ("idle_readonly_transaction_timeout", "0"),
    ("idle_readwrite_transaction_timeout", "0"),
    ("idle_write_transaction_timeout", "0"),
];

/// Asks for the variables that the server has, with their values.
pub(super) fn question() -> String {
    let names = FACTS.into_iter().chain(SETTINGS.iter().map(|(name, _)| *name));
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!("SHOW SESSION VARIABLES WHERE Variable_name IN ({})", names.join(", "))
}

/// The statements that set up a session for `purpose`, on a server that has those variables.
pub(super) fn statements<'a>(present: impl Fn(&str) -> bool + 'a, purpose: Purpose) -> Vec<String> {
    let settings = SETTINGS.iter().filter(|(name, _)| present(name));
    let settings: Vec<String> = settings.map(|(name, value)| format!("SESSION {name} = {value}")).collect();
    let mut statements = vec!["SET NAMES utf8mb4".to_owned()];
    // A proxy may have no variables.
    if !settings.is_empty() {
        statements.push(format!("SET {}", settings.join(", ")));
    }
    statements.push("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE".to_owned());
    if purpose == Purpose::Rows {
        // Values come as they are stored, in their column's character set.
        statements.push("SET SESSION character_set_results = NULL".to_owned());
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_has_is_set() {
        let has = |name: &str| matches!(name, "autocommit" | "lock_wait_timeout");
        assert_eq!(
            statements(has, Purpose::Rows),
            [
                "SET NAMES utf8mb4",
                "SET SESSION autocommit = 1, SESSION lock_wait_timeout = 60",
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
                "SET SESSION character_set_results = NULL",
            ]
        );
        assert_eq!(statements(|_| false, Purpose::Statements).len(), 2);
        let question = question();
        assert!(
            question.contains("'version'") && question.ends_with("'idle_write_transaction_timeout')"),
            "{question}"
        );
    }
}
