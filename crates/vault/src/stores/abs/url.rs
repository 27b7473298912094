//! `abs://[ACCOUNT@]CONTAINER/PATH`, Litestream's form; `az://` means the same.

use super::settings::AbsSettings;
use crate::place::apply_query;
use crate::text::{clean_path, decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `abs://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<AbsSettings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (account, container) =
        authority.rsplit_once('@').map_or((None, authority), |(account, container)| (Some(account), container));
    let mut settings = AbsSettings::default();
    settings.set("bucket", &decode(container, "container")?)?;
    settings.path = clean_path(&decode(path, "path")?);
    if let Some(account) = account {
        if account.contains(':') {
            let next = "leave the key away, and set LITESTREAM_AZURE_ACCOUNT_KEY";
            return Err(wrong("account", "a key doesn't belong before the `@`", next));
        }
        settings.set("account-name", &decode(account, "account")?)?;
    }
    apply_query(&mut settings, query, &["bucket", "path"])?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, account, container, path, endpoint) in [
            ("c/p", None, "c", "p", None),
            ("acct@c/a/b/", Some("acct"), "c", "a/b", None),
            ("acct@c/p?endpoint=http://127.0.0.1:1/acct", Some("acct"), "c", "p", Some("http://127.0.0.1:1/acct")),
            ("c/p?account-name=other", Some("other"), "c", "p", None),
        ] {
            let settings = parse("abs", text).expect(text);
            assert_eq!(settings.account.as_deref(), account, "{text}");
            assert_eq!((settings.container.as_str(), settings.path.as_str()), (container, path), "{text}");
            assert_eq!(settings.endpoint.as_deref(), endpoint, "{text}");
        }
        for text in ["", "/p", "c", "a:key@c/p", "C/p", "c/p?bucket=d", "c/p?colour=red", "a!@c/p", "c--d/p"] {
            assert!(parse("abs", text).is_err(), "{text} was taken");
        }
        let settings = parse("abs", "acct@c/p?account-key=aHVudGVyMg==").expect("a URL");
        assert!(!format!("{settings:?} {}", settings.url()).contains("aHVudGVyMg"));
    }
}
