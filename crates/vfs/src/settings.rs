//! What the parameters of a URI and the environment say. Litestream's names count as ours do.

use std::path::PathBuf;
use std::time::Duration;

use seawall_config::size::parse_size;
use seawall_core::{Failure, Kind, parse_duration};
use seawall_sqlite::DEFAULT_CACHE;

/// The least cache: some pages of any size.
const LEAST_CACHE: u64 = 1 << 20;

/// How to open a database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Settings {
    /// The vault, as it was named.
    pub(crate) vault: String,
    /// The file with the keys that open an encrypted vault.
    pub(crate) identity: Option<PathBuf>,
    /// How often to look for new transactions at most.
    pub(crate) interval: Duration,
    /// Bytes of pages in memory.
    pub(crate) cache: usize,
    /// The folder of a copy on the local disk, if there is to be one.
    pub(crate) copy: Option<PathBuf>,
    /// The point to show in the place of the newest one.
    pub(crate) time: Option<String>,
}

/// Reads the settings of one database.
///
/// # Errors
/// No vault is named, or a value is none.
pub(crate) fn read(
    parameter: &dyn Fn(&str) -> Option<String>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, Failure> {
    let find = |parameters: &[&str], variables: &[&str]| {
        let named = parameters.iter().find_map(|name| parameter(name).filter(|value| !value.is_empty()));
        named.or_else(|| variables.iter().find_map(|name| environment(name).filter(|value| !value.is_empty())))
    };
    let is_on = |value: &str| matches!(value.to_lowercase().as_str(), "1" | "on" | "true" | "yes");
    if find(&["write_enabled"], &["LITESTREAM_WRITE_ENABLED"]).is_some_and(|value| is_on(&value)) {
        let cause = "writing to a vault isn't offered: a view is read-only";
        let next = "take write_enabled away; write to the database itself, and let Seawall replicate it";
        return Err(Failure::new(Kind::Usage, "view.read-only", "write_enabled", cause, next));
    }
    if parameter("cache").is_some_and(|mode| mode.eq_ignore_ascii_case("shared")) {
        let cause = "a shared cache knows databases by their names alone, and would mix vaults";
        let next = "take cache=shared away; connections to one vault share their pages anyway";
        return Err(Failure::new(Kind::Usage, "view.setting", "cache", cause, next));
    }
    let vault = find(&["vault", "replica_url"], &["SEAWALL_VAULT", "LITESTREAM_REPLICA_URL"]).ok_or_else(|| {
        let next = "name it in the URI, as in file:app.db?vfs=seawall&vault=s3://bucket/app, or in SEAWALL_VAULT";
        Failure::new(Kind::Usage, "view.no-vault", "vault", "no vault is named", next)
    })?;
    let interval = match find(&["poll_interval"], &["SEAWALL_POLL_INTERVAL"]) {
        None => Duration::from_secs(1),
        Some(text) => parse_duration(&text)
            .filter(|interval| !interval.is_zero())
            .ok_or_else(|| wrong("poll_interval", &text, "give a time with its unit, as 1s or 500ms"))?,
    };
    let cache = match find(&["cache_size"], &["SEAWALL_CACHE_SIZE"]) {
        None => DEFAULT_CACHE,
        Some(text) => size(&text)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| wrong("cache_size", &text, "give a size of at least 1MiB, as 64MiB or a number of bytes"))?,
    };
    let is_copied = find(&["hydration_enabled"], &["SEAWALL_HYDRATION_ENABLED", "LITESTREAM_HYDRATION_ENABLED"]);
    let path = find(&["hydration_path"], &["SEAWALL_HYDRATION_PATH", "LITESTREAM_HYDRATION_PATH"]).map(PathBuf::from);
    let copy = is_copied.filter(|value| is_on(value)).map(|_| path.unwrap_or_else(std::env::temp_dir));
    Ok(Settings {
        copy,
        vault,
        identity: find(&["identity"], &["SEAWALL_IDENTITY_FILE"]).map(PathBuf::from),
        interval,
        cache,
        time: find(&["time"], &[]),
    })
}

fn wrong(name: &str, value: &str, next: &str) -> Failure {
    Failure::new(Kind::Usage, "view.setting", name, format!("`{value}` is no value of it"), next)
}

/// A size in bytes, with or without a unit.
fn size(text: &str) -> Option<u64> {
    let bytes = text.trim().parse().ok().or_else(|| parse_size(text));
    bytes.filter(|bytes| *bytes >= LEAST_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads settings from pairs of names and values: lower case is the URI, upper case the environment.
    fn read_from(pairs: &[(&str, &str)]) -> Result<Settings, &'static str> {
        let find = |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned());
        read(&find, &find).map_err(|failure| failure.code)
    }

    #[test]
    fn both_programs_names_count_and_the_uri_before_the_environment() {
        let plain = read_from(&[("vault", "/v")]).expect("settings");
        assert_eq!((plain.interval, plain.cache, plain.copy.clone()), (Duration::from_secs(1), DEFAULT_CACHE, None));
        for pairs in [
            &[("replica_url", "/v")][..],
            &[("SEAWALL_VAULT", "/v")],
            &[("LITESTREAM_REPLICA_URL", "/v"), ("vault", "")],
            &[("LITESTREAM_REPLICA_URL", "/other"), ("replica_url", "/v")],
        ] {
            assert_eq!(read_from(pairs), Ok(plain.clone()), "{pairs:?}");
        }
        let all = read_from(&[
            ("vault", "s3://bucket/app"),
            ("identity", "/k"),
            ("poll_interval", "250ms"),
            ("cache_size", "64MiB"),
            ("hydration_enabled", "true"),
            ("LITESTREAM_HYDRATION_PATH", "/d"),
            ("time", "5 minutes ago"),
        ]);
        let all = all.expect("settings");
        assert_eq!((all.interval, all.cache), (Duration::from_millis(250), 64 << 20));
        assert_eq!((all.identity, all.copy), (Some(PathBuf::from("/k")), Some(PathBuf::from("/d"))));
        assert_eq!(all.time.as_deref(), Some("5 minutes ago"));
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (pairs, code) in [
            (&[][..], "view.no-vault"),
            (&[("vault", "/v"), ("poll_interval", "often")], "view.setting"),
            (&[("vault", "/v"), ("poll_interval", "0s")], "view.setting"),
            (&[("vault", "/v"), ("cache_size", "1")], "view.setting"),
            (&[("vault", "/v"), ("cache_size", "99999999999999999999GB")], "view.setting"),
            (&[("vault", "/v"), ("cache_size", "lots")], "view.setting"),
            (&[("vault", "/v"), ("cache", "shared")], "view.setting"),
            (&[("vault", "/v"), ("write_enabled", "1")], "view.read-only"),
            (&[("vault", "/v"), ("LITESTREAM_WRITE_ENABLED", "true")], "view.read-only"),
        ] {
            assert_eq!(read_from(pairs), Err(code), "{pairs:?}");
        }
        assert!(read_from(&[("vault", "/v"), ("write_enabled", "off")]).is_ok());
    }
}
