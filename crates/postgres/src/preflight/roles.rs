//! Which statements give a server the roles, memberships and rights that a set has and it lacks? Pure: what is there
//! stays as it is, and is named where it differs.

use crate::catalog::globals::{Attribute, Globals, Membership, Role};
use crate::catalog::grants;
use crate::catalog::properties;
use crate::client::quote::{ident, literal};
use crate::schema::tried::Statement;

/// What is to be done, and what isn't.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// The roles that are made.
    pub(crate) made: Vec<String>,
    /// The statements that make them, and everything about them.
    pub(crate) statements: String,
    /// Those that the server may refuse.
    pub(crate) tried: Vec<Statement>,
    /// Roles that are there already and differ: which, and how.
    pub(crate) kept: Vec<(String, String)>,
}

const WORDS: [(Attribute, &str); 7] = [
    (Attribute::Superuser, "SUPERUSER"),
    (Attribute::Inherit, "INHERIT"),
    (Attribute::Createrole, "CREATEROLE"),
    (Attribute::Createdb, "CREATEDB"),
    (Attribute::Login, "LOGIN"),
    (Attribute::Replication, "REPLICATION"),
    (Attribute::Bypassrls, "BYPASSRLS"),
];

/// What makes `there`, of a server of `version`, hold everything of `wanted`.
pub(crate) fn plan(wanted: &Globals, there: &Globals, version: u32) -> Plan {
    let mut plan = Plan::default();
    for role in &wanted.roles {
        match there.roles.iter().find(|known| known.name == role.name) {
            None => {
                plan.made.push(role.name.clone());
                plan.statements.push_str(&create(role));
                let (object, shown) = (format!("ROLE {}", ident(&role.name)), format!("role {}", role.name));
                plan.tried.extend(role.settings.iter().filter_map(|one| properties::set(&object, &shown, one)));
                plan.tried.extend(properties::label(&object, &shown, &role.labels));
            }
            Some(known) => {
                let differs = differences(role, known);
                if !differs.is_empty() {
                    plan.kept.push((format!("role {}", role.name), differs.join(", ")));
                }
            }
        }
    }
    let is_there = |one: &Membership| {
        there.memberships.iter().any(|known| (&known.role, &known.member) == (&one.role, &one.member))
    };
    let missing = wanted.memberships.iter().filter(|one| !is_there(one)).cloned().collect();
    for membership in in_order(missing, &there.memberships) {
        plan.statements.push_str(&grant(&membership, version));
    }
    for (parameter, its) in &wanted.parameters {
        let known = there.parameters.iter().find(|(name, _)| name == parameter).map_or(&[][..], |(_, known)| known);
        let missing: Vec<grants::Grant> = its.iter().filter(|grant| !known.contains(grant)).cloned().collect();
        // A parameter's name is an identifier, or two with a dot between them.
        let name = parameter.split('.').map(ident).collect::<Vec<_>>().join(".");
        plan.statements.push_str(&grants::granting(&format!("PARAMETER {name}"), &missing, &["SET", "ALTER SYSTEM"]));
    }
    for setting in wanted.settings.iter().filter(|setting| !there.settings.contains(setting)) {
        let Some((name, value)) = setting.split_once('=') else { continue };
        let is_set = there.settings.iter().any(|known| known.split_once('=').is_some_and(|(known, _)| known == name));
        if is_set {
            plan.kept.push((format!("setting {name} of all roles"), format!("the set has {value}")));
        } else {
            plan.tried.extend(properties::set("ROLE ALL", "all roles", setting));
        }
    }
    plan
}

/// The statement that makes a role, as far as one can say it: with all that it may, but without a password.
pub(crate) fn create_plainly(role: &Role) -> String {
    let words = WORDS.iter().filter(|(attribute, _)| *attribute != Attribute::Inherit);
    let words: Vec<&str> = words.filter(|(one, _)| role.attributes.contains(one)).map(|(_, word)| *word).collect();
    format!("CREATE ROLE {}{}{};", ident(&role.name), if words.is_empty() { "" } else { " " }, words.join(" "))
}

fn create(role: &Role) -> String {
    let name = ident(&role.name);
    let mut sql = format!("CREATE ROLE {name} WITH");
    for (attribute, word) in WORDS {
        sql.push_str(if role.attributes.contains(&attribute) { " " } else { " NO" });
        sql.push_str(word);
    }
    if role.connections >= 0 {
        sql.push_str(&format!(" CONNECTION LIMIT {}", role.connections));
    }
    if let Some(password) = &role.password {
        sql.push_str(&format!(" PASSWORD {}", literal(password)));
    }
    if let Some(until) = &role.valid_until {
        sql.push_str(&format!(" VALID UNTIL {}", literal(until)));
    }
    sql.push_str(";\n");
    if let Some(comment) = &role.comment {
        sql.push_str(&format!("COMMENT ON ROLE {name} IS {};\n", literal(comment)));
    }
    sql
}

/// How a role of the set and the one that is there differ. Passwords aren't compared: they can't be read.
fn differences(wanted: &Role, there: &Role) -> Vec<String> {
    let mut differences = Vec::new();
    for (attribute, word) in WORDS {
        match (wanted.attributes.contains(&attribute), there.attributes.contains(&attribute)) {
            (true, false) => differences.push(format!("the set has {word}")),
            (false, true) => differences.push(format!("the set has no {word}")),
            _ => {}
        }
    }
    for (what, differ) in [
        ("connection limit", wanted.connections != there.connections),
        ("time limit", wanted.valid_until != there.valid_until),
        ("comment", wanted.comment != there.comment),
    ] {
        if differ {
            differences.push(format!("the set has another {what}"));
        }
    }
    if wanted.settings.iter().any(|setting| !there.settings.contains(setting)) {
        differences.push("the set has other settings".to_owned());
    }
    if wanted.labels.iter().any(|label| !there.labels.contains(label)) {
        differences.push("the set has other security labels".to_owned());
    }
    differences
}

/// Memberships in an order in which each grantor may grant already. What fits nowhere comes last, and the server says
/// what is wrong with it.
fn in_order(mut left: Vec<Membership>, there: &[Membership]) -> Vec<Membership> {
    let mut admins: Vec<(String, String)> =
        there.iter().filter(|one| one.admin).map(|one| (one.role.clone(), one.member.clone())).collect();
    let mut ordered = Vec::with_capacity(left.len());
    loop {
        let may = |one: &Membership| match &one.grantor {
            None => true,
            Some(grantor) => admins.iter().any(|(role, admin)| *role == one.role && admin == grantor),
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(may);
        if ready.is_empty() {
            ordered.extend(waiting);
            return ordered;
        }
        admins.extend(ready.iter().filter(|one| one.admin).map(|one| (one.role.clone(), one.member.clone())));
        ordered.extend(ready);
        left = waiting;
    }
}

fn grant(membership: &Membership, version: u32) -> String {
    let Membership { role, member, admin, inherit, set, grantor } = membership;
    let mut sql = format!("GRANT {} TO {}", ident(role), ident(member));
    if version < 160_000 {
        sql.push_str(if *admin { " WITH ADMIN OPTION" } else { "" });
    } else {
        let word = |value: bool| if value { "TRUE" } else { "FALSE" };
        sql.push_str(&format!(" WITH ADMIN {}", word(*admin)));
        for (option, value) in [("INHERIT", inherit), ("SET", set)] {
            if let Some(value) = value {
                sql.push_str(&format!(", {option} {}", word(*value)));
            }
        }
        if let Some(grantor) = grantor {
            sql.push_str(&format!(" GRANTED BY {}", ident(grantor)));
        }
    }
    sql + ";\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, attributes: &[Attribute]) -> Role {
        Role { name: name.into(), attributes: attributes.to_vec(), connections: -1, ..Role::default() }
    }

    fn member(role: &str, member: &str, admin: bool, grantor: Option<&str>) -> Membership {
        let grantor = grantor.map(str::to_owned);
        Membership { role: role.into(), member: member.into(), admin, inherit: Some(true), set: Some(false), grantor }
    }

    #[test]
    fn what_is_missing_is_made_and_what_is_there_stays() {
        let wanted = Globals {
            roles: vec![
                Role {
                    password: Some("SCRAM-SHA-256$it's".into()),
                    valid_until: Some("2030-01-01 00:00:00+00".into()),
                    settings: vec!["search_path=a, \"B\"".into()],
                    connections: 3,
                    ..role("a\"b", &[Attribute::Login, Attribute::Inherit])
                },
                role("postgres", &[Attribute::Superuser, Attribute::Inherit]),
                role("same", &[Attribute::Inherit]),
            ],
            memberships: vec![member("same", "a\"b", true, None)],
            parameters: vec![("my.own".into(), vec![grants::Grant { privilege: "SET".into(), ..Default::default() }])],
            ..Globals::default()
        };
        let there = Globals {
            roles: vec![
                role("postgres", &[Attribute::Superuser, Attribute::Login]),
                role("same", &[Attribute::Inherit]),
            ],
            ..Globals::default()
        };
        let made = plan(&wanted, &there, 180_000);
        assert_eq!(made.made, ["a\"b"]);
        assert_eq!(
            made.statements,
            "CREATE ROLE \"a\"\"b\" WITH NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN NOREPLICATION NOBYPASSRLS \
             CONNECTION LIMIT 3 PASSWORD 'SCRAM-SHA-256$it''s' VALID UNTIL '2030-01-01 00:00:00+00';\n\
             GRANT \"same\" TO \"a\"\"b\" WITH ADMIN TRUE, INHERIT TRUE, SET FALSE;\n\
             GRANT SET ON PARAMETER \"my\".\"own\" TO PUBLIC;\n"
        );
        let setting = "ALTER ROLE \"a\"\"b\" SET \"search_path\" TO 'a', 'B'";
        assert_eq!(made.tried, [Statement::may_fail(setting.to_owned(), "setting search_path of role a\"b")]);
        assert_eq!(made.kept, [("role postgres".to_owned(), "the set has INHERIT, the set has no LOGIN".to_owned())]);
        assert_eq!(plan(&wanted, &wanted, 180_000), Plan::default(), "a second time there is nothing to do");
        assert!(plan(&wanted, &there, 150_000).statements.contains("TO \"a\"\"b\" WITH ADMIN OPTION;\n"));
    }

    #[test]
    fn who_grants_is_made_an_admin_first() {
        for (there, left, order) in [
            (
                vec![],
                vec![
                    member("r", "c", false, Some("b")),
                    member("r", "b", true, Some("a")),
                    member("r", "a", true, None),
                ],
                ["a", "b", "c"],
            ),
            (
                vec![member("r", "x", true, None)],
                vec![
                    member("r", "b", false, Some("nobody")),
                    member("r", "a", true, Some("x")),
                    member("r", "c", false, None),
                ],
                ["a", "c", "b"],
            ),
        ] {
            let ordered: Vec<String> = in_order(left, &there).into_iter().map(|one| one.member).collect();
            assert_eq!(ordered, order);
        }
    }
}
