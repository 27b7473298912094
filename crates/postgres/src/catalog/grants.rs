//! The grants on an object, with their grantors: read from the server, and as statements that grant them again.
//!
//! A grant by another role than the owner is made again by that role (`SET ROLE`), after the grant that allows it. The
//! object gets its owner before anything is granted: `ALTER … OWNER TO` would move the old owner's grants to the new
//! one.

use serde::{Deserialize, Serialize};

use crate::quote::ident;

/// A privilege that a role has on an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Grant {
    /// The role that has it; empty for PUBLIC.
    pub grantee: String,
    /// The privilege, in the server's word: `SELECT`.
    pub privilege: String,
    /// Whether the grantee may grant it to other roles.
    pub grantable: bool,
    /// Who granted it, if not the object's owner.
    pub grantor: Option<String>,
}

/// As sets have it: three values, and a fourth where the owner isn't the grantor.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    ByOwner(String, String, bool),
    ByAnother(String, String, bool, Option<String>),
}

impl From<Written> for Grant {
    fn from(written: Written) -> Self {
        match written {
            Written::ByOwner(grantee, privilege, grantable) => Self { grantee, privilege, grantable, grantor: None },
            Written::ByAnother(grantee, privilege, grantable, grantor) => {
                Self { grantee, privilege, grantable, grantor }
            }
        }
    }
}

impl From<Grant> for Written {
    fn from(Grant { grantee, privilege, grantable, grantor }: Grant) -> Self {
        match grantor {
            None => Self::ByOwner(grantee, privilege, grantable),
            grantor => Self::ByAnother(grantee, privilege, grantable, grantor),
        }
    }
}

/// A query for the grants in an access control list, as JSON; both arguments are SQL.
pub(crate) fn query(list: &str, owner: &str) -> String {
    format!(
        "(SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(\
         CASE WHEN a.grantee = 0 THEN '' ELSE pg_catalog.pg_get_userbyid(a.grantee) END, a.privilege_type, a.is_grantable, \
         CASE WHEN a.grantor <> {owner} THEN pg_catalog.pg_get_userbyid(a.grantor) END)), '[]') FROM pg_catalog.aclexplode({list}) a)"
    )
}

/// The roles that grants name.
pub(crate) fn roles(grants: &[Grant]) -> impl Iterator<Item = &str> {
    grants.iter().flat_map(|grant| [Some(grant.grantee.as_str()), grant.grantor.as_deref()]).flatten()
}

/// The statements that leave an object with exactly these grants. It belongs to `owner` already, and `known` are the
/// privileges of its kind.
pub(crate) fn statements(object: &str, owner: &str, grants: &[Grant], known: &[&str]) -> String {
    format!("REVOKE ALL ON {object} FROM PUBLIC, {};\n", ident(owner)) + &granting(object, grants, known)
}

/// The statements that add these grants.
pub(crate) fn granting(object: &str, grants: &[Grant], known: &[&str]) -> String {
    in_order(grants).into_iter().map(|grant| granting_one(object, grant, known)).collect()
}

fn granting_one(object: &str, grant: &Grant, known: &[&str]) -> String {
    // A set may come from an attacker: none of its words gets into a statement without quotes.
    let Some(privilege) = known.iter().find(|known| **known == grant.privilege) else { return String::new() };
    let grantee = if grant.grantee.is_empty() { "PUBLIC".to_owned() } else { ident(&grant.grantee) };
    let option = if grant.grantable { " WITH GRANT OPTION" } else { "" };
    let sql = format!("GRANT {privilege} ON {object} TO {grantee}{option};\n");
    match &grant.grantor {
        None => sql,
        Some(grantor) => format!("SET ROLE {};\n{sql}RESET ROLE;\n", ident(grantor)),
    }
}

/// The grants in an order in which each grantor already has the right to grant. A grant that fits nowhere comes last,
/// and the server reports the error.
fn in_order(grants: &[Grant]) -> Vec<&Grant> {
    let mut left: Vec<&Grant> = grants.iter().collect();
    let mut ordered: Vec<&Grant> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let may = |one: &&Grant| match &one.grantor {
            None => true,
            Some(grantor) => ordered
                .iter()
                .any(|known| known.grantable && (&known.grantee, &known.privilege) == (grantor, &one.privilege)),
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(may);
        if ready.is_empty() {
            ordered.extend(waiting);
            break;
        }
        ordered.extend(ready);
        left = waiting;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(grantee: &str, grantable: bool, grantor: Option<&str>) -> Grant {
        let grantor = grantor.map(str::to_owned);
        Grant { grantee: grantee.into(), privilege: "CONNECT".into(), grantable, grantor }
    }

    #[test]
    fn each_grantor_grants_behind_what_allows_it() {
        let grants =
            [grant("c", false, Some("b")), grant("b", true, Some("a")), grant("", false, None), grant("a", true, None)];
        assert_eq!(
            statements("DATABASE \"d\"", "o\"x", &grants, &["CONNECT"]),
            "REVOKE ALL ON DATABASE \"d\" FROM PUBLIC, \"o\"\"x\";\n\
             GRANT CONNECT ON DATABASE \"d\" TO PUBLIC;\n\
             GRANT CONNECT ON DATABASE \"d\" TO \"a\" WITH GRANT OPTION;\n\
             SET ROLE \"a\";\nGRANT CONNECT ON DATABASE \"d\" TO \"b\" WITH GRANT OPTION;\nRESET ROLE;\n\
             SET ROLE \"b\";\nGRANT CONNECT ON DATABASE \"d\" TO \"c\";\nRESET ROLE;\n"
        );
        assert_eq!(granting("DATABASE \"d\"", &grants, &["CREATE"]), "", "a privilege that isn't known is none");
        assert_eq!(in_order(&[grant("x", false, Some("nobody"))]).len(), 1);
    }

    #[test]
    fn a_grant_is_written_with_its_grantor_only_where_that_is_not_the_owner() {
        for (grant, text) in [
            (grant("a", true, None), r#"["a","CONNECT",true]"#),
            (grant("", false, Some("b")), r#"["","CONNECT",false,"b"]"#),
        ] {
            assert_eq!(serde_json::to_string(&grant).expect("written"), text);
            assert_eq!(serde_json::from_str::<Grant>(text).expect("read"), grant);
        }
        let as_the_server_says = r#"["a","CONNECT",true,null]"#;
        assert_eq!(serde_json::from_str::<Grant>(as_the_server_says).expect("read"), grant("a", true, None));
    }
}
