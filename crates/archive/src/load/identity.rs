//! Which restore is it? A journal belongs to one restore, and nothing else goes on with it. Pure.

use crate::{Digest, SetId};

/// What must be equal so that a restore goes on where an earlier one was interrupted. `--jobs`, `--memory`, the host and the
/// version of Seawall may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The set.
    pub set: SetId,
    /// The database that is meant, in a set of a whole server.
    pub database: Option<&'a str>,
    /// Whether only rows are restored, into tables that are there.
    pub data_only: bool,
    /// Whether owners and grants are restored. Rows alone have none.
    pub owners: bool,
    /// The chosen tables as SQL names them, in order; `None` for everything.
    pub tables: Option<Vec<String>>,
}

impl Identity<'_> {
    /// The identity as a text, which the journal keeps. Later versions must write the same text, or they go on with no restore
    /// that this version began.
    pub fn title(&self) -> String {
        let rows = match (self.data_only, self.owners) {
            (true, _) => ", rows only",
            (false, true) => "",
            (false, false) => ", without owners",
        };
        // Another database's encoding may have no letters for the name.
        let of = |name: &str| format!(" of database {}", &Digest::of(name.as_bytes()).to_string()[..16]);
        let set = format!("{}{}", self.set, self.database.map_or(String::new(), of));
        match &self.tables {
            None => format!("set {set}{rows}"),
            Some(tables) => format!("set {set}{rows}: {}", tables.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn titles_stay_as_earlier_versions_wrote_them() {
        let set = SetId::new(Moment::from_millis(0), 0);
        let whole = Identity { set, database: None, data_only: false, owners: true, tables: None };
        let tables = Some(vec!["\"a\".\"b\"".to_owned(), "\"c\".\"d\"".to_owned()]);
        for (identity, title) in [
            (whole.clone(), ""),
            (Identity { owners: false, ..whole.clone() }, ", without owners"),
            (Identity { data_only: true, ..whole.clone() }, ", rows only"),
            (Identity { data_only: true, owners: false, ..whole.clone() }, ", rows only"),
            (Identity { database: Some(""), ..whole.clone() }, " of database af1349b9f5f9a1a6"),
            (
                Identity { database: Some(""), data_only: true, tables: tables.clone(), ..whole.clone() },
                " of database af1349b9f5f9a1a6, rows only: \"a\".\"b\" \"c\".\"d\"",
            ),
            (Identity { tables, ..whole }, ": \"a\".\"b\" \"c\".\"d\""),
        ] {
            assert_eq!(identity.title(), format!("set {set}{title}"));
        }
    }
}
