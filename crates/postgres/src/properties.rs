//! What belongs to a database and not to anything in it: owner, comment, grants, settings.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::client::Connection;
use crate::client::quote::{ident, literal};

/// Settings whose value is a list of names; the server keeps each in double quotes where it needs them.
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// They are restored when the database is made anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Properties {
    /// The owner.
    pub owner: String,
    /// The comment.
    pub comment: Option<String>,
    /// Who may do what: `(grantee, privilege, grantable)`; `None` when nothing was ever granted.
    pub grants: Option<Vec<(String, String, bool)>>,
    /// Settings: the role they are for, if not for all, and `name=value`.
    pub settings: Vec<(Option<String>, String)>,
    /// How many sessions it may have, if not any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<i32>,
    /// Whether everybody may copy it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
}

/// Those of the connection's database.
pub(crate) async fn read(connection: &mut Connection) -> Result<Properties, Error> {
    let sql = "
SELECT pg_get_userbyid(datdba), shobj_description(oid, 'pg_database'), datacl IS NOT NULL,
       (SELECT coalesce(json_agg(json_build_array(
            CASE WHEN a.grantee = 0 THEN '' ELSE pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable)), '[]')
        FROM aclexplode(datacl) a),
       (SELECT coalesce(json_agg(json_build_array(CASE WHEN setrole = 0 THEN NULL ELSE pg_get_userbyid(setrole) END, one)), '[]')
        FROM pg_db_role_setting, unnest(setconfig) one WHERE setdatabase = d.oid), datconnlimit, datistemplate
FROM pg_database d WHERE datname = current_database()";
    let row = connection.one(sql).await?;
    let wrong = |error: serde_json::Error| Error::Internal(format!("a database's properties: {error}"));
    let grants = serde_json::from_str(row.text(3)).map_err(wrong)?;
    Ok(Properties {
        owner: row.text(0).to_owned(),
        comment: row.optional(1).map(str::to_owned),
        grants: row.flag(2).then_some(grants),
        settings: serde_json::from_str(row.text(4)).map_err(wrong)?,
        connections: row.text(5).parse().ok().filter(|limit| *limit >= 0),
        template: row.flag(6),
    })
}

/// The statements that give a database its properties; owner and grants only if they are wanted.
pub(crate) fn statements(properties: &Properties, database: &str, owners: bool) -> String {
    let name = ident(database);
    let mut sql = String::new();
    if let Some(comment) = &properties.comment {
        sql.push_str(&format!("COMMENT ON DATABASE {name} IS {};\n", literal(comment)));
    }
    for (role, setting) in &properties.settings {
        // Settings of roles name roles, as owners do.
        let whose = match role {
            None => format!("DATABASE {name}"),
            Some(role) if owners => format!("ROLE {} IN DATABASE {name}", ident(role)),
            Some(_) => continue,
        };
        if let Some((setting, value)) = setting.split_once('=') {
            sql.push_str(&format!("ALTER {whose} SET {} TO {};\n", ident(setting), value_of(setting, value)));
        }
    }
    if let Some(limit) = properties.connections {
        sql.push_str(&format!("ALTER DATABASE {name} CONNECTION LIMIT {limit};\n"));
    }
    if properties.template {
        sql.push_str(&format!("ALTER DATABASE {name} IS_TEMPLATE true;\n"));
    }
    if owners {
        if let Some(grants) = &properties.grants {
            sql.push_str(&format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC, CURRENT_USER;\n"));
            for (grantee, privilege, grantable) in grants {
                let known = ["CREATE", "CONNECT", "TEMPORARY"].into_iter().find(|known| known == privilege);
                let Some(privilege) = known else { continue };
                let grantee = if grantee.is_empty() { "PUBLIC".to_owned() } else { ident(grantee) };
                let option = if *grantable { " WITH GRANT OPTION" } else { "" };
                sql.push_str(&format!("GRANT {privilege} ON DATABASE {name} TO {grantee}{option};\n"));
            }
        }
        sql.push_str(&format!("ALTER DATABASE {name} OWNER TO {};\n", ident(&properties.owner)));
    }
    sql
}

/// A setting's value as SQL.
pub(crate) fn value_of(setting: &str, value: &str) -> String {
    if !LISTS.contains(&setting) {
        return literal(value);
    }
    let (mut names, mut name, mut quoted) = (Vec::new(), String::new(), false);
    for c in value.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => names.push(std::mem::take(&mut name)),
            ' ' if !quoted => {}
            c => name.push(c),
        }
    }
    names.push(name);
    names.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_as_sql() {
        for (setting, value, sql) in [
            ("work_mem", "5MB", "'5MB'"),
            ("search_path", "\"$user\", public", "'$user', 'public'"),
            ("search_path", "\"a, b\",c", "'a, b', 'c'"),
            ("search_path", "", "''"),
            ("app.motto", "it's, a = b", "'it''s, a = b'"),
        ] {
            assert_eq!(value_of(setting, value), sql);
        }
    }
}
