//! How is a column read, so that its value comes back exactly? Pure.

use crate::client::quote;
use crate::detail::ColumnDetail;

/// Whether the server makes a column's values itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Generated {
    /// It doesn't.
    #[default]
    No,
    /// From the row's other values.
    FromRow,
    /// It is the start of the period of a table with system versioning.
    RowStart,
    /// It is the end of that period.
    RowEnd,
}

impl Generated {
    /// By the columns EXTRA and GENERATION_EXPRESSION of `information_schema.columns`. MySQL's DEFAULT_GENERATED is a default, and
    /// no generated column.
    pub(crate) fn of(extra: &str, expression: &str) -> Self {
        let word = |wanted: &str| extra.split([' ', ',']).any(|word| word.eq_ignore_ascii_case(wanted));
        // Old versions of MariaDB call them PERSISTENT and VIRTUAL alone.
        let generated = word("GENERATED") || word("VIRTUAL") || word("PERSISTENT") || word("STORED");
        match expression.trim() {
            "ROW START" if generated => Self::RowStart,
            "ROW END" if generated => Self::RowEnd,
            _ if generated => Self::FromRow,
            _ => Self::No,
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type without its length: `varchar`.
    pub(crate) r#type: String,
    /// The whole type: `varchar(20)`, `int(10) unsigned`.
    pub(crate) full_type: String,
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    pub(crate) generated: Generated,
}

impl Column {
    /// What is selected for it. A FLOAT is told as a double, because the server rounds a FLOAT to six digits when it tells it; times one,
    /// because plus zero would lose the sign of a zero. The largest number of a FLOAT(9,2) is stored as a float beyond it, which the server
    /// takes back only with a warning, so that such a value is told as that largest number. The types of MariaDB that have a text and bytes are told as bytes, because
    /// LOAD DATA takes what it reads as binary for bytes.
    pub(crate) fn expression(&self) -> String {
        let name = quote::name(&self.name);
        match self.r#type.as_str() {
            "float" => match self.digits() {
                Some((before, behind)) => {
                    let most = format!("(1e{before}-1e0/1e{behind})");
                    format!("LEAST(GREATEST({name}*1e0, -{most}), {most})")
                }
                None => format!("{name}*1e0"),
            },
            "uuid" | "inet6" => format!("CAST({name} AS BINARY(16))"),
            "inet4" => format!("CAST({name} AS BINARY(4))"),
            _ => name,
        }
    }

    /// How many digits its declaration allows before and behind the point: `float(9,2)` allows 7 and 2.
    fn digits(&self) -> Option<(u32, u32)> {
        let (all, behind) = self.full_type.strip_prefix("float(")?.split_once(')')?.0.split_once(',')?;
        let (all, behind): (u32, u32) = (all.trim().parse().ok()?, behind.trim().parse().ok()?);
        Some((all.checked_sub(behind)?, behind))
    }

    /// What the set says of it.
    pub(crate) fn detail(&self) -> ColumnDetail {
        ColumnDetail { name: self.name.clone(), r#type: self.r#type.clone(), charset: self.charset.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_makes_itself() {
        for (extra, expression, generated) in [
            ("", "", Generated::No),
            ("auto_increment", "", Generated::No),
            ("DEFAULT_GENERATED", "", Generated::No),
            ("DEFAULT_GENERATED on update CURRENT_TIMESTAMP", "", Generated::No),
            ("INVISIBLE", "", Generated::No),
            ("VIRTUAL GENERATED", "`a` + 1", Generated::FromRow),
            ("STORED GENERATED", "`a` + 1", Generated::FromRow),
            ("STORED GENERATED, INVISIBLE", "`a` + 1", Generated::FromRow),
            ("STORED GENERATED INVISIBLE", "(`a` + 1)", Generated::FromRow),
            ("PERSISTENT", "", Generated::FromRow),
            ("STORED GENERATED", "ROW START", Generated::RowStart),
            ("STORED GENERATED, INVISIBLE", "ROW END", Generated::RowEnd),
            ("", "ROW END", Generated::No),
        ] {
            assert_eq!(Generated::of(extra, expression), generated, "{extra} {expression}");
        }
    }

    #[test]
    fn a_float_with_digits_is_told_within_them() {
        let of = |full: &str| {
            let column =
                Column { name: "f".into(), r#type: "float".into(), full_type: full.into(), ..Column::default() };
            column.expression()
        };
        let bound = "LEAST(GREATEST(`f`*1e0, -(1e7-1e0/1e2)), (1e7-1e0/1e2))";
        for (full, expected) in [
            ("float", "`f`*1e0"),
            ("float unsigned", "`f`*1e0"),
            ("float(9,2)", bound),
            ("float(9,2) unsigned", bound),
            ("float(x", "`f`*1e0"),
        ] {
            assert_eq!(of(full), expected, "{full}");
        }
    }

    #[test]
    fn expressions_keep_values() {
        for (name, r#type, expression) in [
            ("a", "int", "`a`"),
            ("a`b", "float", "`a``b`*1e0"),
            ("a", "double", "`a`"),
            ("a", "uuid", "CAST(`a` AS BINARY(16))"),
            ("a", "inet4", "CAST(`a` AS BINARY(4))"),
            ("a", "geometry", "`a`"),
            ("a", "bit", "`a`"),
        ] {
            let column = Column { name: name.into(), r#type: r#type.into(), ..Column::default() };
            assert_eq!(column.expression(), expression);
        }
    }
}
