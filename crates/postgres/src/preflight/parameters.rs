//! Which rights on settings of the server does it lack, and which does it have that the set hasn't? Pure.

use crate::catalog::globals::Globals;
use crate::catalog::grants::{self, Grant};
use crate::preflight::memberships::known_roles;
use crate::preflight::roles::Restorer;
use crate::quote::ident;

/// The privileges that there are on a setting.
const PRIVILEGES: [&str; 2] = ["SET", "ALTER SYSTEM"];

/// The statements that grant what is missing, and what is named: rights that roles of the set have here alone. `from` is
/// the version of the set's server; before version 15 there are no such rights.
pub(crate) fn plan(
    wanted: &Globals,
    from: u32,
    there: &Globals,
    restorer: &Restorer,
) -> (String, Vec<(String, String)>) {
    let (mut statements, mut kept) = (String::new(), Vec::new());
    let of = |all: &Globals, parameter: &str| -> Vec<Grant> {
        let its = all.parameters.iter().find(|(name, _)| name == parameter);
        its.map_or_else(Vec::new, |(_, grants)| grants.clone())
    };
    let is_same = |one: &Grant, known: &Grant| {
        (&one.grantee, &one.privilege) == (&known.grantee, &known.privilege)
            && restorer.is_grantor(one.grantor.as_deref(), known.grantor.as_deref())
    };
    for (parameter, its) in &wanted.parameters {
        let known = of(there, parameter);
        let has = |one: &&Grant| known.iter().any(|known| is_same(one, known) && known.grantable >= one.grantable);
        let missing: Vec<Grant> = its.iter().filter(|one| !has(one)).cloned().collect();
        // A parameter's name is an identifier, or two with a dot between them.
        let name = parameter.split('.').map(ident).collect::<Vec<_>>().join(".");
        statements.push_str(&grants::granting(&format!("PARAMETER {name}"), &missing, &PRIVILEGES));
    }
    let knows = known_roles(wanted);
    let compared = there.parameters.iter().filter(|_| from >= 150_000);
    for (parameter, its) in compared {
        let wanted = of(wanted, parameter);
        let differs =
            its.iter().filter(|known| known.grantee.is_empty() || knows(&known.grantee)).filter_map(|known| {
                let grantee = if known.grantee.is_empty() { "PUBLIC" } else { &known.grantee };
                match wanted.iter().find(|one| is_same(one, known)) {
                    None => Some(format!("the set has no {} for {grantee}", known.privilege)),
                    Some(one) if known.grantable && !one.grantable => {
                        Some(format!("the set has no grant option of {} for {grantee}", known.privilege))
                    }
                    Some(_) => None,
                }
            });
        let differs: Vec<String> = differs.collect();
        if !differs.is_empty() {
            kept.push((format!("rights on the setting {parameter}"), differs.join(", ")));
        }
    }
    (statements, kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::globals::Role;

    fn globals(grants: &[(&str, bool, Option<&str>)]) -> Globals {
        let grant = |(grantee, grantable, grantor): &(&str, bool, Option<&str>)| Grant {
            grantee: (*grantee).into(),
            privilege: "SET".into(),
            grantable: *grantable,
            grantor: grantor.map(str::to_owned),
        };
        let role = |name: &str| Role { name: name.into(), ..Role::default() };
        let its = grants.iter().map(grant).collect::<Vec<_>>();
        let parameters = if its.is_empty() { vec![] } else { vec![("my.own".to_owned(), its)] };
        Globals { roles: vec![role("a"), role("b"), role("me")], parameters, ..Globals::default() }
    }

    #[test]
    fn what_is_missing_is_granted_and_what_is_more_is_named() {
        let option = "GRANT SET ON PARAMETER \"my\".\"own\" TO \"a\" WITH GRANT OPTION;\n";
        let to_all = "GRANT SET ON PARAMETER \"my\".\"own\" TO PUBLIC;\n";
        for (wanted, from, there, is_superuser, made, kept) in [
            (&[("", false, None)][..], 18, &[][..], true, to_all, ""),
            (&[("a", true, None)], 18, &[("a", true, None)], true, "", ""),
            (&[("a", true, None)], 18, &[("a", false, None)], true, option, ""),
            (&[("a", false, None)], 18, &[("a", true, None)], true, "", "the set has no grant option of SET for a"),
            (
                &[],
                18,
                &[("a", false, None), ("", false, None), ("unknown", true, None)],
                true,
                "",
                "the set has no SET for a, the set has no SET for PUBLIC",
            ),
            (&[], 14, &[("a", false, None)], true, "", ""),
            (
                &[("a", true, None), ("b", false, Some("a"))],
                18,
                &[("a", true, None), ("b", false, Some("a"))],
                true,
                "",
                "",
            ),
            (&[("a", true, None)], 18, &[("a", true, Some("me"))], false, "", ""),
            (&[("a", true, None)], 18, &[("a", true, Some("me"))], true, option, "the set has no SET for a"),
        ] {
            let restorer = Restorer { version: 180_000, role: "me".to_owned(), is_superuser };
            let (statements, named) = plan(&globals(wanted), from * 10_000, &globals(there), &restorer);
            let named: Vec<String> = named.into_iter().map(|(_, how)| how).collect();
            assert_eq!((statements.as_str(), named.concat().as_str()), (made, kept), "{wanted:?} {there:?}");
        }
    }
}
