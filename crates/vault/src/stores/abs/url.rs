//! `abs://[ACCOUNT@]CONTAINER/PATH`, Litestream's form; `az://` means the same.

use super::settings::AbsSettings;
use crate::Error;
use crate::text::{clean_path, decode, kebab, wrong};

/// Reads the text after `abs://`.
pub(crate) fn parse(rest: &str) -> Result<AbsSettings, Error> {
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
    let mut seen = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let name = kebab(&name);
        if name == "bucket" || name == "path" {
            return Err(wrong(&name, "the URL says that already", "leave it away"));
        }
        if seen.contains(&name) {
            return Err(wrong(&name, "it is given twice", "give it once"));
        }
        settings.set(&name, &value)?;
        seen.push(name);
    }
    settings.check()?;
    Ok(settings)
}

/// The place `below` another one.
pub(crate) fn join(settings: &AbsSettings, below: &str) -> Result<AbsSettings, Error> {
    let path = clean_path(&format!("{}/{below}", settings.path));
    let settings = AbsSettings { path, ..settings.clone() };
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
            let settings = parse(text).expect(text);
            assert_eq!(settings.account.as_deref(), account, "{text}");
            assert_eq!((settings.container.as_str(), settings.path.as_str()), (container, path), "{text}");
            assert_eq!(settings.endpoint.as_deref(), endpoint, "{text}");
        }
        for text in ["", "/p", "c", "a:key@c/p", "C/p", "c/p?bucket=d", "c/p?colour=red", "a!@c/p", "c--d/p"] {
            assert!(parse(text).is_err(), "{text} was taken");
        }
        let settings = parse("acct@c/p?account-key=aHVudGVyMg==").expect("a URL");
        assert!(!format!("{settings:?} {}", settings.url()).contains("aHVudGVyMg"));
    }
}
