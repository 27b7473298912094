//! Everything that a server says of a database, in lines that can be compared with another server's.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::Server;

/// Columns of `information_schema` that tell moments, sizes or estimates.
const VOLATILE: [&str; 22] = [
    "create_time",
    "update_time",
    "check_time",
    "table_rows",
    "avg_row_length",
    "data_length",
    "max_data_length",
    "max_index_length",
    "index_length",
    "data_free",
    "cardinality",
    "created",
    "last_altered",
    "last_executed",
    "last_update",
    "tablespace_id",
    "temporary",
    "table_catalog",
    "checksum",
    "histogram",
    "total_row_count",
    "database_name",
];

/// Tables that are about accounts, or about the server's own work.
const OTHERS: [&str; 6] = [
    "schema_privileges",
    "table_privileges",
    "column_privileges",
    "role_table_grants",
    "role_column_grants",
    "role_routine_grants",
];

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The tables of `information_schema` that have a database's objects, with the column of the database and all that count.
fn tables(server: &Server) -> Tables {
    let sql = "SELECT LOWER(table_name), LOWER(column_name) FROM information_schema.columns \
               WHERE LOWER(table_schema) = 'information_schema' ORDER BY 1, 2";
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in server.sql(sql).lines() {
        let (table, column) = line.split_once('\t').expect("two columns");
        all.entry(table.to_owned()).or_default().push(column.to_owned());
    }
    let keys = [
        "table_schema",
        "trigger_schema",
        "routine_schema",
        "event_schema",
        "constraint_schema",
        "specific_schema",
        "schema_name",
    ];
    let of = |(table, columns): (String, Vec<String>)| {
        if OTHERS.contains(&&*table) || table.starts_with("innodb") {
            return None;
        }
        let key = keys.iter().find(|key| columns.iter().any(|column| column == *key))?;
        let columns = columns.into_iter().filter(|column| !VOLATILE.contains(&&**column)).collect();
        Some((table, ((*key).to_owned(), columns)))
    };
    all.into_iter().filter_map(of).collect()
}

/// A server, and what can be asked of it.
pub(crate) struct Catalog<'a> {
    server: &'a Server,
    tables: Tables,
}

impl<'a> Catalog<'a> {
    pub(crate) fn of(server: &'a Server) -> Self {
        Self { server, tables: tables(server) }
    }

    /// All of a database: `information_schema`, every SHOW CREATE, every row.
    pub(crate) fn facts(&self, database: &str) -> BTreeSet<String> {
        facts(self.server, &self.tables, database)
    }
}

type Tables = BTreeMap<String, (String, Vec<String>)>;

fn facts(server: &Server, tables: &Tables, database: &str) -> BTreeSet<String> {
    let mut sql = String::from("SET SESSION group_concat_max_len = 1000000, SESSION time_zone = '+00:00';\n");
    for (table, (key, columns)) in tables {
        let columns: Vec<String> = columns.iter().map(|column| format!("`{column}`")).collect();
        let columns = columns.join(", ");
        sql +=
            &format!("SELECT '{table}', {columns} FROM information_schema.`{table}` WHERE `{key}` = '{database}';\n");
    }
    sql += &format!("USE `{database}`;\nSHOW CREATE DATABASE `{database}`;\n");
    let columns = server.sql(&format!(
        "SET SESSION group_concat_max_len = 1000000; \
         SELECT table_name, GROUP_CONCAT(CONCAT('HEX(`', REPLACE(column_name, '`', '``'), '`)') ORDER BY ordinal_position SEPARATOR ', ') \
         FROM information_schema.columns WHERE table_schema = '{database}' GROUP BY table_name"
    ));
    let columns: BTreeMap<&str, &str> = columns.lines().filter_map(|line| line.split_once('\t')).collect();
    let list = format!(
        "SELECT table_type, table_name FROM information_schema.tables WHERE table_schema = '{database}' \
         UNION ALL SELECT 'TRIGGER', trigger_name FROM information_schema.triggers WHERE trigger_schema = '{database}' \
         UNION ALL SELECT 'EVENT', event_name FROM information_schema.events WHERE event_schema = '{database}' \
         UNION ALL SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = '{database}'"
    );
    for line in server.sql(&list).lines() {
        let (kind, name) = line.split_once('\t').expect("two columns");
        let (word, history) = match kind {
            "BASE TABLE" => ("TABLE", Some("")),
            "SYSTEM VERSIONED" => ("TABLE", Some(" FOR SYSTEM_TIME ALL")),
            "SEQUENCE" => ("SEQUENCE", Some("")),
            other => (other, None),
        };
        // The last column of SHOW CREATE TRIGGER is the moment at which it was made.
        let shown = format!("SHOW CREATE {word} {}", quoted(name));
        if word == "TRIGGER" {
            continue;
        }
        sql += &format!("{shown};\n");
        if let Some(history) = history {
            let columns = columns.get(name).expect("columns");
            sql += &format!("SELECT 'row of', '{name}', {columns} FROM {}{history};\n", quoted(name));
        }
    }
    server.script(&sql).lines().map(str::to_owned).collect()
}

/// All accounts with their rights, and what else belongs to no database.
pub(crate) fn globals(server: &Server) -> BTreeSet<String> {
    let is_mariadb = server.sql("SELECT VERSION()").contains("MariaDB");
    let role = if is_mariadb { "is_role" } else { "'N'" };
    let mut sql =
        String::from("SELECT 'server', s.* FROM mysql.servers s; SELECT 'function', f.* FROM mysql.func f;\n");
    for line in server.sql(&format!("SELECT {role}, host, user FROM mysql.user WHERE user NOT LIKE '%.%'")).lines() {
        let mut fields = line.splitn(3, '\t');
        let (role, host, user) = (fields.next(), fields.next().expect("a host"), fields.next().unwrap_or_default());
        let user = quoted(user);
        match role {
            Some("Y") if user == "`PUBLIC`" => sql += "SHOW GRANTS FOR PUBLIC;\n",
            Some("Y") => sql += &format!("SHOW GRANTS FOR {user};\n"),
            _ => sql += &format!("SHOW CREATE USER {user}@'{host}';\nSHOW GRANTS FOR {user}@'{host}';\n"),
        }
    }
    if !is_mariadb {
        sql += "SELECT 'default role', d.* FROM mysql.default_roles d;\n";
    }
    server.script(&sql).lines().map(str::to_owned).collect()
}
