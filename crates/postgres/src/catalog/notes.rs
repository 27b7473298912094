//! The notes of restores: comments on databases that are made, or put aside, until everything is there.

use seawall_archive::names::{ProofName, unfinished};

use crate::quote::{ident, literal};

/// What the comment on a database says of which all is made, before the name that it was made under.
pub(crate) const WHOLE: &str = "Seawall: all of it is made, and its name comes next: ";

/// What the comment on a replaced database says, before the name of the one that replaced it.
pub(crate) const REPLACED: &str = "Seawall: another database has replaced it, and it may be dropped: ";

/// What a database that is replaced is called until it is dropped: this, and the name of the one that replaces it.
const ASIDE: &str = "replaced-by-";

/// Whether a restore or a proof makes databases under such a name.
pub(crate) fn is_made_as(name: &str) -> bool {
    unfinished::is_one(name) || unfinished::may_be_of_before(name) || ProofName::of(name).is_some()
}

/// Whether a comment on a database is a restore's own note, which belongs into no set.
pub(crate) fn is_note(comment: &str) -> bool {
    [WHOLE, REPLACED].into_iter().filter_map(|begins| comment.strip_prefix(begins)).any(is_made_as)
}

/// A column with the note of a restore on the database `d`, if there is one. Its owner `r` could write any note: only those of
/// trusted owners count, and that another database has replaced one that was put aside. Other comments may be in any encoding.
pub(crate) fn note_column() -> String {
    let comment = "pg_catalog.shobj_description(d.oid, 'pg_database')";
    let aside = replaced("").len() + 1;
    format!(
        "CASE WHEN (r.rolsuper OR r.rolname = current_user) AND pg_catalog.starts_with({comment}, 'Seawall: ') THEN {comment} \
         WHEN {comment} = {} || pg_catalog.substr(d.datname::pg_catalog.text, {aside}) THEN {comment} END",
        literal(REPLACED)
    )
}

/// A column that says whether the database `d` is open to the role that restores alone.
pub(crate) const CLOSED_COLUMN: &str = "d.datallowconn AND (d.datconnlimit = 0 \
                                        OR NOT pg_catalog.has_database_privilege('public', d.oid, 'CONNECT'))";

/// Whether the note on a database says that the restore isn't done with it, or that another database has replaced it. A database
/// that has its own name and was opened since is in use, whatever the note says.
pub(crate) fn is_in_the_making(name: &str, note: &str, is_closed: bool) -> bool {
    let whole = note.strip_prefix(WHOLE).is_some_and(|made| is_closed && is_made_as(made));
    let replaced = note.strip_prefix(REPLACED);
    whole || replaced.is_some_and(|made| is_made_as(made) && name == self::replaced(made))
}

/// The statement that says of a database that all of it is made.
pub(crate) fn says_whole(database: &str, made: &str) -> String {
    format!("COMMENT ON DATABASE {} IS {};\n", ident(database), literal(&format!("{WHOLE}{made}")))
}

/// The statement that says of a database that another one, which was made as `made`, has its place.
pub(crate) fn says_replaced(made: &str) -> String {
    let comment = literal(&format!("{REPLACED}{made}"));
    format!("COMMENT ON DATABASE {} IS {comment};\n", ident(&replaced(made)))
}

/// What a database is called that is put aside for the one that was made as `made`.
pub(crate) fn replaced(made: &str) -> String {
    format!("{ASIDE}{made}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_restores_are_told_from_comments_of_users() {
        let made = unfinished::name("set 1", "shop");
        let (whole, replaced) = (format!("{WHOLE}{made}"), format!("{REPLACED}{made}"));
        let aside = super::replaced(&made);
        for (name, comment, is_closed, note, in_the_making) in [
            ("shop", whole.as_str(), true, true, true),
            ("shop", &whole, false, true, false),
            (&aside, &replaced, false, true, true),
            ("shop", &replaced, true, true, false),
            ("shop", &format!("{WHOLE}shop"), true, false, false),
            (&aside, "the shop", true, false, false),
            ("shop", "Seawall: mine", true, false, false),
        ] {
            assert_eq!(
                (is_note(comment), is_in_the_making(name, comment, is_closed)),
                (note, in_the_making),
                "{name}: {comment}"
            );
        }
    }
}
