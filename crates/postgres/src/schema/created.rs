//! How was a database created, by the statement of an archive of `pg_dump`? Pure.

use crate::catalog::records::Locale;
use crate::client::TextEncoding;

/// The locale in `CREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE_PROVIDER = libc LOCALE = 'C.UTF-8';`.
/// `None`: it isn't such a statement, or names no locale.
pub(crate) fn locale(statement: &str) -> Option<Locale> {
    let settings = settings(statement)?;
    let value = |name: &str| settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let both = value("LOCALE");
    let provider = match value("LOCALE_PROVIDER").as_deref() {
        Some("icu") => "i",
        Some("builtin") => "b",
        _ => "c",
    };
    let encoding = value("ENCODING").filter(|encoding| TextEncoding::of(encoding).is_some())?;
    Some(Locale {
        encoding,
        collate: value("LC_COLLATE").or_else(|| both.clone())?,
        ctype: value("LC_CTYPE").or(both)?,
        provider: provider.to_owned(),
        locale: value("ICU_LOCALE").or_else(|| value("BUILTIN_LOCALE")),
        rules: value("ICU_RULES"),
        // A restore takes the usual one: the source's may not be there.
        tablespace: None,
    })
}

/// What stands behind `WITH`: names in capitals, and values with or without quotes.
fn settings(statement: &str) -> Option<Vec<(String, String)>> {
    let mut rest = statement.strip_prefix("CREATE DATABASE ")?.split_once(" WITH ")?.1.trim();
    let mut settings = Vec::new();
    while let Some((name, behind)) = rest.split_once('=') {
        let behind = behind.trim_start();
        let value = match behind.strip_prefix('\'') {
            Some(mut text) => {
                let mut value = String::new();
                loop {
                    let (part, behind) = text.split_once('\'')?;
                    value.push_str(part);
                    match behind.strip_prefix('\'') {
                        Some(more) => (value, text) = (value + "'", more),
                        None => break rest = behind,
                    }
                }
                value
            }
            None => {
                let end = behind.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(behind.len());
                rest = behind.get(end..)?;
                behind.get(..end)?.to_owned()
            }
        };
        settings.push((name.trim().to_owned(), value));
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_of_all_providers() {
        let of =
            |encoding: &str, collate: &str, ctype: &str, provider: &str, locale: Option<&str>, rules: Option<&str>| {
                Some(Locale {
                    encoding: encoding.into(),
                    collate: collate.into(),
                    ctype: ctype.into(),
                    provider: provider.into(),
                    locale: locale.map(Into::into),
                    rules: rules.map(Into::into),
                    tablespace: None,
                })
            };
        let create = |rest: &str| format!("CREATE DATABASE shop WITH TEMPLATE = template0 {rest};\n");
        for (rest, expected) in [
            (
                "ENCODING = 'UTF8' LOCALE_PROVIDER = libc LOCALE = 'C.UTF-8'",
                of("UTF8", "C.UTF-8", "C.UTF-8", "c", None, None),
            ),
            ("ENCODING = 'LATIN1' LC_COLLATE = 'C' LC_CTYPE = 'de_AT'", of("LATIN1", "C", "de_AT", "c", None, None)),
            (
                "ENCODING = 'UTF8' LOCALE_PROVIDER = icu LOCALE = 'en_US.UTF-8' ICU_LOCALE = 'en-US' ICU_RULES = '&a''b'",
                of("UTF8", "en_US.UTF-8", "en_US.UTF-8", "i", Some("en-US"), Some("&a'b")),
            ),
            (
                "ENCODING = 'UTF8' LOCALE_PROVIDER = builtin LOCALE = 'C' BUILTIN_LOCALE = 'C.UTF-8'",
                of("UTF8", "C", "C", "b", Some("C.UTF-8"), None),
            ),
            ("ENCODING = 'x'; DROP DATABASE y' LOCALE = 'C'", None),
            ("ENCODING = 'KLINGON' LOCALE = 'C'", None),
            ("ENCODING = 'UTF8", None),
            ("ENCODING = 'UTF8'", None),
            ("", None),
        ] {
            assert_eq!(locale(&create(rest)), expected, "{rest}");
        }
        assert_eq!(locale("SELECT 1"), None);
    }
}
