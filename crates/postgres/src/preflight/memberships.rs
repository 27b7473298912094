//! Which memberships does a server lack, and which of those that are there differ from the set's? Pure.
//!
//! Before version 16 a role is a member of another one once, and whether it inherits is said of the role itself. Since then
//! it may be a member by the grants of several roles, each with options of its own. Missing grants are made. A grant that is
//! there stays as it is, and is named where it differs.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::globals::{Attribute, Globals, Membership};
use crate::preflight::roles::Restorer;
use crate::quote::ident;

/// What is granted, and what is named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// Memberships that are granted, in an order in which each grantor may grant already.
    pub(crate) missing: Vec<Membership>,
    /// Those that differ and stay: which, and how.
    pub(crate) kept: Vec<(String, String)>,
}

/// A membership as version 16 and later have it: everything is said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Granted {
    admin: bool,
    inherit: bool,
    set: bool,
}

/// What makes `there`, of the server of `restorer`, hold all memberships of `wanted`.
pub(crate) fn plan(wanted: &Globals, there: &Globals, restorer: &Restorer) -> Plan {
    match restorer.version {
        160_000.. => by_grants(wanted, there, restorer),
        _ => by_pairs(wanted, there),
    }
}

/// The statement that makes somebody a member, on a server of `version`.
pub(crate) fn grant(membership: &Membership, version: u32) -> String {
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

/// Before version 16: one membership for a role in another.
fn by_pairs(wanted: &Globals, there: &Globals) -> Plan {
    let (wanted_pairs, there_pairs) = (pairs(&wanted.memberships), pairs(&there.memberships));
    let mut plan = Plan::default();
    for ((role, member), some) in &wanted_pairs {
        let admin = some.iter().any(|one| one.admin);
        let mut differs = Vec::new();
        match there_pairs.get(&(*role, *member)) {
            None => plan.missing.push(Membership {
                role: (*role).to_owned(),
                member: (*member).to_owned(),
                admin,
                ..Membership::default()
            }),
            Some(known) => differs.extend(option("ADMIN", admin, known.iter().any(|one| one.admin))),
        }
        // A set of version 16 or later says more, which this server can't hold.
        let inherits = inherits(member, wanted, there);
        let says = |value: fn(&Membership) -> Option<bool>| {
            let said: Vec<bool> = some.iter().filter_map(|one| value(one)).collect();
            (!said.is_empty()).then(|| said.contains(&true))
        };
        for (word, said, here) in [("INHERIT", says(|one| one.inherit), inherits), ("SET", says(|one| one.set), true)] {
            let cannot = |how: String| format!("{how}, which this version of PostgreSQL can't say of a membership");
            differs.extend(said.and_then(|said| option(word, said, here)).map(cannot));
        }
        plan.name(role, member, None, &differs);
    }
    let known = known_roles(wanted);
    for (role, member) in there_pairs.keys().filter(|pair| !wanted_pairs.contains_key(pair)) {
        if known(role) && known(member) {
            plan.name(role, member, None, &["the set has none".to_owned()]);
        }
    }
    plan.order(&there.memberships)
}

/// Since version 16: one membership for each grantor.
fn by_grants(wanted: &Globals, there: &Globals, restorer: &Restorer) -> Plan {
    let whole = |one: &Membership| Granted {
        admin: one.admin,
        inherit: one.inherit.unwrap_or_else(|| inherits(&one.member, wanted, there)),
        set: one.set.unwrap_or(true),
    };
    // Sets of earlier versions don't say who granted, since it didn't matter: any grant will do.
    let by_anybody = |one: &Membership| one.inherit.is_none() && one.set.is_none();
    let is_same = |one: &Membership, known: &Membership| {
        (&one.role, &one.member) == (&known.role, &known.member)
            && (by_anybody(one) || restorer.is_grantor(one.grantor.as_deref(), known.grantor.as_deref()))
    };
    let mut plan = Plan::default();
    for one in &wanted.memberships {
        let known: Vec<&Membership> = there.memberships.iter().filter(|known| is_same(one, known)).collect();
        match known.first() {
            None => plan.missing.push(one.clone()),
            Some(_) if known.iter().any(|known| whole(known) == whole(one)) => {}
            Some(first) => {
                let (one, here) = (whole(one), whole(first));
                let options = [
                    ("ADMIN", one.admin, here.admin),
                    ("INHERIT", one.inherit, here.inherit),
                    ("SET", one.set, here.set),
                ];
                let differs: Vec<String> =
                    options.iter().filter_map(|(word, one, here)| option(word, *one, *here)).collect();
                plan.name(&first.role, &first.member, first.grantor.as_deref(), &differs);
            }
        }
    }
    let known = known_roles(wanted);
    for extra in there.memberships.iter().filter(|known| !wanted.memberships.iter().any(|one| is_same(one, known))) {
        // PostgreSQL makes the maker of a role its admin.
        let is_of_the_maker = extra.grantor.is_none()
            && !restorer.is_superuser
            && extra.member == restorer.role
            && whole(extra) == Granted { admin: true, inherit: false, set: false };
        if known(&extra.role) && known(&extra.member) && !is_of_the_maker {
            plan.name(&extra.role, &extra.member, extra.grantor.as_deref(), &["the set has none".to_owned()]);
        }
    }
    plan.order(&there.memberships)
}

impl Plan {
    /// Names a membership that differs.
    fn name(&mut self, role: &str, member: &str, grantor: Option<&str>, differs: &[String]) {
        if !differs.is_empty() {
            let by = grantor.map_or(String::new(), |grantor| format!(", granted by {grantor}"));
            self.kept.push((format!("membership of {member} in {role}{by}"), differs.join(", ")));
        }
    }

    /// Brings what is missing into an order in which each grantor may grant already. Where one never may, because what is
    /// there stays, the membership is named.
    fn order(mut self, there: &[Membership]) -> Self {
        let (ready, waiting) = in_order(std::mem::take(&mut self.missing), there);
        for Membership { role, member, grantor, .. } in &waiting {
            let grantor = grantor.as_deref();
            let how = format!("not granted: {} isn't its admin here", grantor.unwrap_or_default());
            self.name(role, member, grantor, &[how]);
        }
        self.missing = ready;
        self
    }
}

/// Memberships by role and member.
fn pairs(memberships: &[Membership]) -> BTreeMap<(&str, &str), Vec<&Membership>> {
    let mut pairs: BTreeMap<_, Vec<&Membership>> = BTreeMap::new();
    for one in memberships {
        pairs.entry((one.role.as_str(), one.member.as_str())).or_default().push(one);
    }
    pairs
}

/// How an option differs.
fn option(word: &str, wanted: bool, there: bool) -> Option<String> {
    match (wanted, there) {
        (true, false) => Some(format!("the set has {word}")),
        (false, true) => Some(format!("the set has no {word}")),
        _ => None,
    }
}

/// Whether a member has the rights of its roles unless its membership says otherwise. A role that is there stays as it is;
/// PostgreSQL's own do.
fn inherits(member: &str, wanted: &Globals, there: &Globals) -> bool {
    let role = there.roles.iter().chain(&wanted.roles).find(|role| role.name == member);
    role.is_none_or(|role| role.attributes.contains(&Attribute::Inherit))
}

/// Whether the set says something of a role: it has it, or every server has.
pub(crate) fn known_roles(wanted: &Globals) -> impl Fn(&str) -> bool {
    let names: BTreeSet<&str> = wanted.roles.iter().map(|role| role.name.as_str()).collect();
    move |name| name.starts_with("pg_") || names.contains(name)
}

/// Memberships in an order in which each grantor may grant already, and those whose grantor never may.
fn in_order(mut left: Vec<Membership>, there: &[Membership]) -> (Vec<Membership>, Vec<Membership>) {
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
            return (ordered, waiting);
        }
        admins.extend(ready.iter().filter(|one| one.admin).map(|one| (one.role.clone(), one.member.clone())));
        ordered.extend(ready);
        left = waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::globals::Role;

    /// Of version 16 and later: `role member options grantor`, with a letter for each option.
    fn since_16(text: &str) -> Membership {
        let mut words = text.split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        let (role, member, options, grantor) = (next(), next(), next(), next());
        let has = |letter| options.contains(letter);
        let grantor = (!grantor.is_empty()).then_some(grantor);
        Membership { role, member, admin: has('a'), inherit: Some(has('i')), set: Some(has('s')), grantor }
    }

    /// Of versions before.
    fn before_16(text: &str) -> Membership {
        Membership { inherit: None, set: None, grantor: None, ..since_16(text) }
    }

    fn globals(memberships: Vec<Membership>) -> Globals {
        let role = |name: &str, attributes: &[Attribute]| Role {
            name: name.into(),
            attributes: attributes.to_vec(),
            ..Role::default()
        };
        let mut roles: Vec<Role> = ["r", "a", "b", "me"].iter().map(|name| role(name, &[Attribute::Inherit])).collect();
        roles.push(role("plain", &[]));
        Globals { roles, memberships, ..Globals::default() }
    }

    fn told(wanted: Vec<Membership>, there: Vec<Membership>, version: u32, is_superuser: bool) -> (String, String) {
        let restorer = Restorer { version, role: "me".to_owned(), is_superuser };
        let Plan { missing, kept } = plan(&globals(wanted), &globals(there), &restorer);
        let missing: Vec<String> = missing.iter().map(|one| grant(one, version).replace('"', "")).collect();
        let kept: Vec<String> = kept.into_iter().map(|(what, how)| format!("{what}: {how}")).collect();
        (missing.concat().trim_end().to_owned(), kept.join("; "))
    }

    #[test]
    fn what_is_missing_is_granted_and_what_differs_is_named() {
        let all = |some: &[&str]| some.iter().map(|text| before_16(text)).collect::<Vec<_>>();
        let since = |some: &[&str]| some.iter().map(|text| since_16(text)).collect::<Vec<_>>();
        let cannot = "which this version of PostgreSQL can't say of a membership";
        for (wanted, there, version, missing, kept) in [
            // Version 15 to version 15.
            (all(&["r a", "r b a"]), all(&[]), 15, "GRANT r TO a;\nGRANT r TO b WITH ADMIN OPTION;", String::new()),
            (all(&["r a a"]), all(&["r a a"]), 15, "", String::new()),
            (all(&["r a a"]), all(&["r a"]), 15, "", "membership of a in r: the set has ADMIN".into()),
            (all(&["r a"]), all(&["r a a"]), 15, "", "membership of a in r: the set has no ADMIN".into()),
            (all(&[]), all(&["r a", "pg_monitor a", "r unknown", "unknown a"]), 15, "", "membership of a in pg_monitor: the set has none; membership of a in r: the set has none".into()),
            // Version 18 to version 15: one membership of several grants, and what can't be said.
            (since(&["r a is", "r a ais b"]), all(&["r a a"]), 15, "", String::new()),
            (since(&["r a s"]), all(&[]), 15, "GRANT r TO a;", format!("membership of a in r: the set has no INHERIT, {cannot}")),
            (since(&["r plain s"]), all(&[]), 15, "GRANT r TO plain;", String::new()),
            (since(&["r a i"]), all(&["r a"]), 15, "", format!("membership of a in r: the set has no SET, {cannot}")),
            // Version 15 to version 18: any grantor.
            (all(&["r a", "r plain a"]), since(&["r a is b", "r plain as"]), 18, "", String::new()),
            (all(&["r a"]), since(&["r a s b"]), 18, "", "membership of a in r, granted by b: the set has INHERIT".into()),
            (all(&["r a a"]), since(&[]), 18, "GRANT r TO a WITH ADMIN TRUE;", String::new()),
            // Version 18 to version 18: each grant by itself.
            (since(&["r a ais", "r b is a"]), since(&["r b is a", "r a ais"]), 18, "", String::new()),
            (since(&["r a is"]), since(&["r a a"]), 18, "", "membership of a in r: the set has no ADMIN, the set has INHERIT, the set has SET".into()),
            (since(&["r b is a", "r a ais"]), since(&["r b is"]), 18,
             "GRANT r TO a WITH ADMIN TRUE, INHERIT TRUE, SET TRUE;\nGRANT r TO b WITH ADMIN FALSE, INHERIT TRUE, SET TRUE GRANTED BY a;",
             "membership of b in r: the set has none".into()),
            (since(&["r b is a", "r a ais"]), since(&["r a is"]), 18, "",
             "membership of a in r: the set has ADMIN; membership of b in r, granted by a: not granted: a isn't its admin here".into()),
            (since(&["r a is"]), since(&["r a is", "r a a b"]), 18, "", "membership of a in r, granted by b: the set has none".into()),
        ] {
            let found = told(wanted.clone(), there.clone(), version * 10_000, true);
            assert_eq!(found, (missing.to_owned(), kept), "{wanted:?} {there:?}");
        }
    }

    #[test]
    fn what_the_role_that_restores_has_granted_is_as_the_set_has_it() {
        let maker = "r me a";
        for (is_superuser, kept) in [
            (false, ""),
            (true, "membership of me in r: the set has none; membership of a in r, granted by me: the set has none"),
        ] {
            let there = [maker, "r a is me"].iter().map(|text| since_16(text)).collect();
            let (missing, found) = told(vec![since_16("r a is")], there, 160_000, is_superuser);
            assert_eq!((missing.is_empty(), found.as_str()), (!is_superuser, kept));
        }
    }

    #[test]
    fn who_grants_is_made_an_admin_first() {
        for (there, left, order, waiting) in [
            (vec![], vec!["r c is b", "r b a a", "r a a"], vec!["a", "b", "c"], vec![]),
            (vec!["r x a"], vec!["r b is unknown", "r a a x", "r c is"], vec!["a", "c"], vec!["b"]),
        ] {
            let all = |some: Vec<&str>| some.into_iter().map(since_16).collect::<Vec<_>>();
            let (ready, left) = in_order(all(left), &all(there));
            let names = |some: Vec<Membership>| some.into_iter().map(|one| one.member).collect::<Vec<_>>();
            assert_eq!(
                (names(ready), names(left)),
                (order.into_iter().map(str::to_owned).collect(), waiting.into_iter().map(str::to_owned).collect())
            );
        }
    }
}
