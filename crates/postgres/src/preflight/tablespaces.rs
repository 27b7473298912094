//! What does a server lack of the tablespaces of a set? Pure.
//!
//! A tablespace needs a folder on the server, which somebody else makes; so it is made by hand, by the command that is told.
//! One that has nothing but its folder and options is such a one, and gets owner, options, grants, comment and labels of
//! the set. Any other stays as it is, and is named where it differs.

use seawall_archive::preflight::Lack;

use crate::catalog::globals::{Globals, Tablespace};
use crate::catalog::grants;
use crate::catalog::properties;
use crate::client::tried::Statement;
use crate::quote::{ident, literal};

/// What is to be done about those that are there, and what isn't.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    /// The statements that must go well.
    pub(crate) statements: String,
    /// Those that may be refused.
    pub(crate) tried: Vec<Statement>,
    /// Those that differ and stay: which, and how.
    pub(crate) kept: Vec<(String, String)>,
}

/// What a server lacks that has no such tablespace: its folder is somebody else's to make.
pub(crate) fn missing(wanted: &Tablespace) -> Lack {
    let mut mend = format!("CREATE TABLESPACE {} LOCATION {}", ident(&wanted.name), literal(&wanted.location));
    let options = options(wanted);
    if !options.is_empty() {
        mend.push_str(&format!(" WITH ({options})"));
    }
    let cause = format!("the tablespace {} is missing", wanted.name);
    Lack::new(cause, mend + "; (its folder must be there, and be the server's)")
}

/// The tablespaces that a server lacks.
pub(crate) fn lacks(wanted: &Globals, there: &Globals) -> Vec<Lack> {
    wanted.tablespaces.iter().filter(|one| find(one, there).is_none()).map(missing).collect()
}

/// What gives the tablespaces that are there what the set says of them. `may` says whether the role may change one that
/// belongs to a role.
pub(crate) fn plan(wanted: &Globals, there: &Globals, may: impl Fn(&str) -> bool) -> Plan {
    let mut plan = Plan::default();
    for one in &wanted.tablespaces {
        let Some(known) = find(one, there) else { continue };
        let differs = differences(one, known);
        if differs.is_empty() {
            continue;
        }
        let is_bare = known.grants.is_none() && known.comment.is_none() && known.labels.is_empty();
        let has_no_others = known.options.is_empty() || sorted(&known.options) == sorted(&one.options);
        if is_bare && has_no_others && may(&known.owner) {
            furnish(one, known, &mut plan);
        } else {
            plan.kept.push((format!("tablespace {}", one.name), differs.join(", ")));
        }
    }
    plan
}

fn find<'a>(wanted: &Tablespace, there: &'a Globals) -> Option<&'a Tablespace> {
    there.tablespaces.iter().find(|known| known.name == wanted.name)
}

/// The statements that give a bare tablespace everything.
fn furnish(wanted: &Tablespace, known: &Tablespace, plan: &mut Plan) {
    let object = format!("TABLESPACE {}", ident(&wanted.name));
    if wanted.owner != known.owner {
        plan.statements.push_str(&format!("ALTER {object} OWNER TO {};\n", ident(&wanted.owner)));
    }
    if known.options.is_empty() && !wanted.options.is_empty() {
        plan.statements.push_str(&format!("ALTER {object} SET ({});\n", options(wanted)));
    }
    if let Some(comment) = &wanted.comment {
        plan.statements.push_str(&format!("COMMENT ON {object} IS {};\n", literal(comment)));
    }
    if let Some(grants) = &wanted.grants {
        plan.statements.push_str(&grants::statements(&object, &wanted.owner, grants, &["CREATE"]));
    }
    plan.tried.extend(properties::label(&object, &format!("tablespace {}", wanted.name), &wanted.labels));
}

fn options(tablespace: &Tablespace) -> String {
    let options = tablespace.options.iter().filter_map(|option| option.split_once('='));
    let options: Vec<String> = options.map(|(name, value)| format!("{} = {}", ident(name), literal(value))).collect();
    options.join(", ")
}

/// How they differ. Where its folder is doesn't matter.
fn differences(wanted: &Tablespace, there: &Tablespace) -> Vec<String> {
    let grants = |one: &Tablespace| one.grants.as_ref().map(|grants| sorted(grants));
    let another = |what: &str| format!("the set has another {what}");
    [
        (wanted.owner != there.owner, format!("the set has the owner {}", wanted.owner)),
        (sorted(&wanted.options) != sorted(&there.options), "the set has other options".to_owned()),
        (grants(wanted) != grants(there), "the set has other grants".to_owned()),
        (wanted.comment != there.comment, another("comment")),
        (sorted(&wanted.labels) != sorted(&there.labels), "the set has other security labels".to_owned()),
    ]
    .into_iter()
    .filter_map(|(differ, how)| differ.then_some(how))
    .collect()
}

fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::grants::Grant;

    fn fast() -> Tablespace {
        Tablespace { name: "fast".into(), owner: "postgres".into(), location: "/mnt/it's".into(), ..Default::default() }
    }

    fn with(tablespace: Tablespace) -> Globals {
        Globals { tablespaces: vec![tablespace], ..Globals::default() }
    }

    #[test]
    fn tablespaces_are_named_with_their_folder() {
        let wanted = with(fast());
        let lacks = lacks(&wanted, &Globals::default());
        assert!(lacks[0].mend.starts_with("CREATE TABLESPACE \"fast\" LOCATION '/mnt/it''s';"), "{lacks:?}");
        assert_eq!(super::lacks(&wanted, &wanted), Vec::new());
    }

    #[test]
    fn a_bare_tablespace_gets_everything_and_any_other_is_named() {
        let grant = Grant { grantee: "a".into(), privilege: "CREATE".into(), ..Grant::default() };
        let whole = Tablespace {
            owner: "app".into(),
            grants: Some(vec![grant]),
            options: vec!["random_page_cost=1.5".into()],
            comment: Some("c".into()),
            ..fast()
        };
        let wanted = with(whole.clone());
        let statements = "ALTER TABLESPACE \"fast\" OWNER TO \"app\";\n\
                          ALTER TABLESPACE \"fast\" SET (\"random_page_cost\" = '1.5');\n\
                          COMMENT ON TABLESPACE \"fast\" IS 'c';\n\
                          REVOKE ALL ON TABLESPACE \"fast\" FROM PUBLIC, \"app\";\n\
                          GRANT CREATE ON TABLESPACE \"fast\" TO \"a\";\n";
        let set = "ALTER TABLESPACE \"fast\" SET (\"random_page_cost\" = '1.5');\n";
        let all = "the set has the owner app, the set has other options, the set has other grants, the set has another comment";
        let commented = Tablespace { comment: Some("mine".into()), ..fast() };
        let with_options = Tablespace { options: whole.options.clone(), ..fast() };
        let other_options = Tablespace { options: vec!["seq_page_cost=2".into()], ..fast() };
        for (there, may, made, kept) in [
            (fast(), true, statements.to_owned(), None),
            (with_options, true, statements.replace(set, ""), None),
            (fast(), false, String::new(), Some(all)),
            (commented, true, String::new(), Some(all)),
            (other_options, true, String::new(), Some(all)),
            (whole.clone(), true, String::new(), None),
        ] {
            let plan = plan(&wanted, &with(there), |_| may);
            assert_eq!((plan.statements, plan.kept.first().map(|(_, how)| how.as_str())), (made, kept));
        }
    }
}
