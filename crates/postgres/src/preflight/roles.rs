//! Which statements give a server the roles, memberships and rights that a set has and it lacks? Pure: what is there
//! stays as it is, and is named where it differs.
//!
//! Memberships are decided in `memberships`, rights on settings of the server in `parameters`.

use std::collections::BTreeSet;

use crate::catalog::globals::{Attribute, Globals, Role};
use crate::catalog::properties;
use crate::client::tried::Statement;
use crate::preflight::memberships;
use crate::preflight::parameters;
use crate::quote::{ident, literal};

/// Who restores, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restorer {
    /// The server's version as a number: 150018.
    pub(crate) version: u32,
    /// The role of the session.
    pub(crate) role: String,
    pub(crate) is_superuser: bool,
}

impl Restorer {
    /// Whether a grant that is there was made by whom the set says. What the first superuser of the source has granted is
    /// granted by the role that restores; a superuser grants as the first one.
    pub(crate) fn is_grantor(&self, wanted: Option<&str>, there: Option<&str>) -> bool {
        wanted == there || wanted.is_none() && !self.is_superuser && there == Some(&self.role)
    }
}

/// Which passwords can be compared. That of a role is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passwords {
    /// The set has none.
    NotInSet,
    /// The role that restores may not read those of the server.
    Unreadable,
    Known,
}

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

/// What makes `there` hold everything of `wanted`, which a server of version `from` had. `reads_passwords` says whether
/// `there` has the passwords of its roles.
pub(crate) fn plan(wanted: &Globals, from: u32, there: &Globals, reads_passwords: bool, restorer: &Restorer) -> Plan {
    let passwords = match (wanted.roles.iter().any(|role| role.password.is_some()), reads_passwords) {
        (false, _) => Passwords::NotInSet,
        (true, false) => Passwords::Unreadable,
        (true, true) => Passwords::Known,
    };
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
                let differs = differences(role, known, passwords);
                if !differs.is_empty() {
                    plan.kept.push((format!("role {}", role.name), differs.join(", ")));
                }
            }
        }
    }
    let members = memberships::plan(wanted, there, restorer);
    plan.statements.extend(members.missing.iter().map(|one| memberships::grant(one, restorer.version)));
    plan.kept.extend(members.kept);
    let (statements, kept) = parameters::plan(wanted, from, there, restorer);
    plan.statements.push_str(&statements);
    plan.kept.extend(kept);
    plan.set_for_all(&wanted.settings, &there.settings);
    plan
}

impl Plan {
    /// What is set for all roles.
    fn set_for_all(&mut self, wanted: &[String], there: &[String]) {
        let sets = |all: &[String], name: &str| all.iter().any(|one| name_of(one) == name);
        for setting in wanted.iter().filter(|setting| !there.contains(setting)) {
            let Some((name, value)) = setting.split_once('=') else { continue };
            if sets(there, name) {
                self.kept.push((format!("setting {name} of all roles"), format!("the set has {value}")));
            } else {
                self.tried.extend(properties::set("ROLE ALL", "all roles", setting));
            }
        }
        for name in there.iter().map(|setting| name_of(setting)).filter(|name| !sets(wanted, name)) {
            self.kept.push((format!("setting {name} of all roles"), "the set has none".to_owned()));
        }
    }
}

/// The name of a setting `name=value`.
fn name_of(setting: &str) -> &str {
    setting.split_once('=').map_or(setting, |(name, _)| name)
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

/// How a role of the set and the one that is there differ.
fn differences(wanted: &Role, there: &Role, passwords: Passwords) -> Vec<String> {
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
    match passwords {
        Passwords::Unreadable => {
            differences.push("the password can't be compared: the role may not read it".to_owned())
        }
        Passwords::Known if wanted.password.is_none() && there.password.is_some() => {
            differences.push("the set has no password".to_owned());
        }
        Passwords::Known if wanted.password != there.password => {
            differences.push("the set has another password".to_owned());
        }
        _ => {}
    }
    let settings = |role: &Role| -> BTreeSet<String> { role.settings.iter().cloned().collect() };
    let (of_set, here) = (settings(wanted), settings(there));
    let names: BTreeSet<&str> = of_set.symmetric_difference(&here).map(|setting| name_of(setting)).collect();
    for name in names {
        let is_in_set = wanted.settings.iter().any(|setting| name_of(setting) == name);
        differences.push(format!("the set has {} setting {name}", if is_in_set { "another" } else { "no" }));
    }
    let labels = |role: &Role| -> BTreeSet<(String, String)> { role.labels.iter().cloned().collect() };
    if labels(wanted) != labels(there) {
        differences.push("the set has other security labels".to_owned());
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::globals::Membership;
    use crate::catalog::grants;

    fn role(name: &str, attributes: &[Attribute]) -> Role {
        Role { name: name.into(), attributes: attributes.to_vec(), connections: -1, ..Role::default() }
    }

    fn superuser(version: u32) -> Restorer {
        Restorer { version, role: "postgres".to_owned(), is_superuser: true }
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
            memberships: vec![Membership {
                role: "same".into(),
                member: "a\"b".into(),
                admin: true,
                inherit: Some(true),
                set: Some(false),
                grantor: None,
            }],
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
        let made = plan(&wanted, 180_000, &there, true, &superuser(180_000));
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
        let again = plan(&wanted, 180_000, &wanted, true, &superuser(180_000));
        assert_eq!(again, Plan::default(), "a second time there is nothing to do");
        let older = plan(&wanted, 180_000, &there, true, &superuser(150_000));
        assert!(older.statements.contains("TO \"a\"\"b\" WITH ADMIN OPTION;\n"));
        let settings = |some: &[&str]| Globals {
            settings: some.iter().map(|one| (*one).to_owned()).collect(),
            ..Globals::default()
        };
        let for_all =
            plan(&settings(&["a.b=1", "c.d=1"]), 180_000, &settings(&["a.b=2", "e.f=1"]), true, &superuser(180_000));
        assert_eq!(for_all.tried.len(), 1);
        let named = |name: &str, how: &str| (format!("setting {name} of all roles"), how.to_owned());
        assert_eq!(for_all.kept, [named("a.b", "the set has 1"), named("e.f", "the set has none")]);
    }

    #[test]
    fn whatever_differs_of_a_role_is_named() {
        let plain = role("r", &[Attribute::Inherit]);
        let with = |change: fn(&mut Role)| {
            let mut changed = plain.clone();
            change(&mut changed);
            changed
        };
        for (wanted, there, how) in [
            (plain.clone(), plain.clone(), ""),
            (with(|role| role.connections = 3), plain.clone(), "the set has another connection limit"),
            (plain.clone(), with(|role| role.valid_until = Some("infinity".into())), "the set has another time limit"),
            (plain.clone(), with(|role| role.comment = Some("c".into())), "the set has another comment"),
            (with(|role| role.settings = vec!["a.b=1".into()]), plain.clone(), "the set has another setting a.b"),
            (
                with(|role| role.settings = vec!["a.b=1".into()]),
                with(|role| role.settings = vec!["work_mem=5MB".into(), "a.b=2".into()]),
                "the set has another setting a.b, the set has no setting work_mem",
            ),
            (
                with(|role| role.settings = vec!["a.b=1".into(), "c.d=1".into()]),
                with(|role| role.settings = vec!["c.d=1".into(), "a.b=1".into()]),
                "",
            ),
            (
                plain.clone(),
                with(|role| role.labels = vec![("dummy".into(), "x".into())]),
                "the set has other security labels",
            ),
        ] {
            assert_eq!(differences(&wanted, &there, Passwords::Known).join(", "), how);
        }
    }

    #[test]
    fn passwords_are_compared_where_the_set_has_them_and_never_shown() {
        let with = |password: Option<&str>| Role { password: password.map(str::to_owned), ..role("r", &[]) };
        for (wanted, there, passwords, how) in [
            (Some("secret"), Some("secret"), Passwords::Known, ""),
            (Some("secret"), Some("other"), Passwords::Known, "the set has another password"),
            (Some("secret"), None, Passwords::Known, "the set has another password"),
            (None, Some("other"), Passwords::Known, "the set has no password"),
            (None, Some("other"), Passwords::NotInSet, ""),
            (Some("secret"), None, Passwords::Unreadable, "the password can't be compared: the role may not read it"),
        ] {
            assert_eq!(differences(&with(wanted), &with(there), passwords).concat(), how);
        }
        let globals = |password| Globals { roles: vec![with(password)], ..Globals::default() };
        for (wanted, reads, named) in
            [(Some("secret"), true, 1), (Some("secret"), false, 1), (None, true, 0), (None, false, 0)]
        {
            let made = plan(&globals(wanted), 180_000, &globals(Some("other")), reads, &superuser(180_000));
            assert_eq!(made.kept.len(), named, "{wanted:?}");
        }
    }
}
