//! How is a row known by its primary key? Pure.
//!
//! A key is asked for in a form that is only digits, letters and a few signs, and is put into statements as a value of the column's
//! own character set: so the server compares it with the column's collation, by the index.

use crate::catalog::columns::Column;
use crate::client::quote;

/// How a column of a key is asked for, and written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// As it is told: a number.
    Number,
    /// As it is told, in quotes: a moment.
    Moment,
    /// Bytes, in the hexadecimal system; of a character set, if they are text.
    Bytes(Option<String>),
}

impl Form {
    /// `None`: a row of a table with such a column in its key is known by nothing else.
    fn of(column: &Column) -> Option<Self> {
        Some(match column.r#type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal" => Self::Number,
            "date" | "datetime" | "timestamp" | "time" => Self::Moment,
            "binary" | "varbinary" => Self::Bytes(None),
            "char" | "varchar" => {
                let charset = column.charset.clone()?;
                if !charset.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    return None;
                }
                Self::Bytes(Some(charset))
            }
            _ => return None,
        })
    }

    fn asked(&self, name: &str) -> String {
        if matches!(self, Self::Bytes(_)) { format!("HEX({name})") } else { name.to_owned() }
    }

    /// A value as SQL. `None`: it isn't one.
    fn written(&self, value: &str) -> Option<String> {
        let is = |allowed: fn(&u8) -> bool| value.bytes().all(|byte| allowed(&byte));
        match self {
            Self::Number => (!value.is_empty() && is(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.')))
                .then(|| value.to_owned()),
            Self::Moment => (!value.is_empty()
                && is(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b':' | b' ')))
            .then(|| format!("'{value}'")),
            Self::Bytes(charset) => {
                let charset = charset.as_deref().unwrap_or("binary");
                let is_hex = is(u8::is_ascii_hexdigit) && value.len().is_multiple_of(2);
                let text = if value.is_empty() { "''".to_owned() } else { format!("0x{value}") };
                is_hex.then(|| format!("_{charset} {text}"))
            }
        }
    }
}

/// The primary key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Primary {
    columns: Vec<(String, Form)>,
}

impl Primary {
    /// `None` if rows can't be told apart by it, or there is none.
    pub(super) fn of<'a>(columns: impl Iterator<Item = Option<&'a Column>>) -> Option<Self> {
        let columns: Option<Vec<_>> =
            columns.map(|column| column.and_then(|column| Some((column.name.clone(), Form::of(column)?)))).collect();
        columns.filter(|columns| !columns.is_empty()).map(|columns| Self { columns })
    }

    fn names(&self, of: &str) -> impl Iterator<Item = (String, &Form)> {
        let of = if of.is_empty() { String::new() } else { format!("{of}.") };
        self.columns.iter().map(move |(name, form)| (format!("{of}{}", quote::name(name)), form))
    }

    /// What is selected, of a table that a statement calls `of`.
    pub(super) fn asked(&self, of: &str) -> String {
        self.names(of).map(|(name, form)| form.asked(&name)).collect::<Vec<_>>().join(", ")
    }

    /// The condition that chance takes a row: the same rows each time, whatever else is in the table.
    pub(super) fn chance(&self, of: &str, per_million: u32) -> String {
        let bytes: Vec<String> = self.names(of).map(|(name, _)| format!("HEX({name})")).collect();
        format!("CRC32(CONCAT_WS(',', {})) % 1000000 < {per_million}", bytes.join(", "))
    }

    /// A key that the server told, as SQL. `None`: it isn't one.
    pub(super) fn read(&self, line: &str) -> Option<String> {
        let mut fields = line.split('\t');
        let mut values = Vec::with_capacity(self.columns.len());
        for (_, form) in &self.columns {
            values.push(form.written(fields.next()?)?);
        }
        fields.next().is_none().then(|| values.join("\t"))
    }

    /// The condition that a row has one of some keys.
    pub(super) fn among<'k>(&self, of: &str, keys: impl Iterator<Item = &'k String>) -> String {
        let names: Vec<String> = self.names(of).map(|(name, _)| name).collect();
        if let [name] = names.as_slice() {
            return format!("{name} IN ({})", keys.cloned().collect::<Vec<_>>().join(", "));
        }
        // Both servers find these by the index; of a list of pairs only one does.
        let one = |key: &String| {
            let values = names.iter().zip(key.split('\t')).map(|(name, value)| format!("{name} = {value}"));
            format!("({})", values.collect::<Vec<_>>().join(" AND "))
        };
        format!("({})", keys.map(one).collect::<Vec<_>>().join(" OR "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, r#type: &str, charset: Option<&str>) -> Column {
        Column { name: name.into(), r#type: r#type.into(), charset: charset.map(str::to_owned), ..Column::default() }
    }

    fn primary(columns: &[Column]) -> Option<Primary> {
        Primary::of(columns.iter().map(Some))
    }

    #[test]
    fn a_key_is_asked_for_and_written_so_that_nothing_gets_out() {
        let keys = [
            column("i", "bigint", None),
            column("t", "varchar", Some("latin1")),
            column("b", "binary", None),
            column("d", "datetime", None),
        ];
        let key = primary(&keys).expect("a key");
        assert_eq!(key.asked("n"), "n.`i`, HEX(n.`t`), HEX(n.`b`), n.`d`");
        assert_eq!(
            key.chance("", 10_000),
            "CRC32(CONCAT_WS(',', HEX(`i`), HEX(`t`), HEX(`b`), HEX(`d`))) % 1000000 < 10000"
        );
        let read = key.read("-5\tE9\t\t2026-01-01 00:00:00").expect("a key");
        assert_eq!(read, "-5\t_latin1 0xE9\t_binary ''\t'2026-01-01 00:00:00'");
        assert_eq!(
            key.among("n", [&read].into_iter()),
            "((n.`i` = -5 AND n.`t` = _latin1 0xE9 AND n.`b` = _binary '' AND n.`d` = '2026-01-01 00:00:00'))"
        );
        for line in [
            "5",
            "5\tE9\t\t2026-01-01\tx",
            "5 OR 1\tE9\t\t2026-01-01",
            "5\tE\t\t2026-01-01",
            "5\tE9\t'\t2026-01-01",
            "5\tE9\t\t'",
            "\tE9\t\t2026-01-01",
        ] {
            assert_eq!(key.read(line), None, "{line}");
        }
        let one = primary(&keys[..1]).expect("a key");
        assert_eq!(one.among("", ["1".to_owned(), "2".to_owned()].iter()), "`i` IN (1, 2)");
    }

    #[test]
    fn what_is_no_key_to_tell_rows_apart() {
        for columns in [
            vec![],
            vec![column("a", "double", None)],
            vec![column("a", "int", None), column("b", "enum", Some("latin1"))],
            vec![column("a", "char", Some("x'y"))],
            vec![column("a", "varchar", None)],
        ] {
            assert_eq!(primary(&columns), None, "{columns:?}");
        }
        assert_eq!(Primary::of([None].into_iter()), None);
    }
}
