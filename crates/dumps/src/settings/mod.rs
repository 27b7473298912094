//! dbbackup's configuration (`.dbbackup.conf`) as Seawall's. Pure: text in, text out.
//!
//! The file is in INI's form. Its keys are known by their names, with or without the word of their section before them, because
//! versions differ in that. What has a counterpart is written; what has none stands as a comment that says why; a key that isn't known is
//! named (`keys`). No password and no key of a store is ever copied (I13): a comment says where Seawall looks for it.

mod keys;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Failure, Kind};

use self::keys::{Fate, MODES, defect, fate, is_of_cloud};

/// The most bytes of a configuration.
pub const LARGEST: usize = 1 << 20;

/// A configuration that was made of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The `seawall.yml`.
    pub yaml: String,
    /// Keys that nothing is known of: the line, and the key with its section.
    pub unknown: Vec<(u64, String)>,
    /// Keys without a counterpart, and why.
    pub left_out: Vec<(String, &'static str)>,
    /// Secrets that were not copied: the key, and where Seawall looks for it.
    pub secrets: Vec<(String, &'static str)>,
    /// Values that aren't understood: the line, the key, and what is written in their place.
    pub wrong: Vec<(u64, String, &'static str)>,
}

/// A key with its value.
struct Setting {
    line: u64,
    section: String,
    key: String,
    value: String,
}

fn settings(text: &str, file: &str) -> Result<Vec<Setting>, Failure> {
    let (mut section, mut settings) = (String::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim().to_lowercase().replace('-', "_");
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            let next = "mend the line: it should be [section], or key = value";
            let object = format!("{file}:{number}");
            return Err(Failure::new(Kind::Usage, "dump.settings", object, "this line isn't understood", next));
        };
        let key = key.trim().to_lowercase().replace('-', "_");
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        settings.push(Setting {
            line: number,
            section: section.clone(),
            key,
            value: quoted.unwrap_or(value).to_owned(),
        });
    }
    Ok(settings)
}

/// A `seawall.yml` that does what a configuration of dbbackup asks for.
///
/// # Errors
/// `dump.settings` for a line that isn't understood.
pub fn seawall_yml(text: &str, file: &str) -> Result<Imported, Failure> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    let (mut unknown, mut left_out, mut secrets, mut wrong) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for Setting { line, section, key, value } in settings(text, file)? {
        let shown = one_line(&if section.is_empty() { key.clone() } else { format!("[{section}] {key}") });
        match fate(&section, &key) {
            None => unknown.push((line, shown)),
            Some((_, Fate::None(why))) => left_out.push((shown, why)),
            Some((_, Fate::Secret(place))) if !value.is_empty() => secrets.push((shown, place)),
            Some((_, Fate::Secret(_))) => {}
            Some((name, Fate::Used)) => {
                // A name and a prefix mean another thing in the section of the store.
                let name = if is_of_cloud(&section, &key) { format!("cloud.{name}") } else { name };
                let value = match (name.as_str(), without_user(&value)) {
                    ("cloud.endpoint", Some(stripped)) => {
                        secrets.push((shown.clone(), keys::STORE));
                        stripped
                    }
                    _ => value,
                };
                if let Some(why) = defect(&name, &value).filter(|_| !value.is_empty()) {
                    wrong.push((line, shown, why));
                }
                values.insert(name, value);
            }
        }
    }
    let mut imported = Imported { yaml: String::new(), unknown, left_out, secrets, wrong };
    imported.yaml = yaml(&Values(values), &imported, file);
    Ok(imported)
}

/// A URL without the user and password that stand before its host; `None` where there are none.
fn without_user(url: &str) -> Option<String> {
    let from = url.find("://").map_or(0, |at| at + 3);
    let (before, rest) = url.split_at_checked(from)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let at = rest.get(..end)?.rfind('@')?;
    Some(format!("{before}{}", rest.get(at + 1..)?))
}

/// The values that are used.
struct Values(BTreeMap<String, String>);

impl Values {
    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.0.get(*name)).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn number(&self, names: &[&str]) -> Option<u32> {
        self.get(names)?.parse().ok()
    }

    fn is(&self, names: &[&str]) -> bool {
        self.get(names)
            .is_some_and(|value| ["true", "1", "yes", "on"].iter().any(|yes| value.eq_ignore_ascii_case(yes)))
    }
}

fn yaml(values: &Values, imported: &Imported, file: &str) -> String {
    let mut out = format!(
        "# Made of {} by `seawall config import`. `seawall config check` shows how this file is understood.\n\
         # docs/migrating.md compares the commands, docs/configuration.md has every setting.\n\n",
        one_line(file)
    );
    vault(values, &mut out);
    retention(values, &mut out);
    database(values, &mut out);
    let is_unclear = values.get(&["encrypt"]).is_some_and(|value| defect("encrypt", value).is_some());
    if values.is(&["encrypt"]) || is_unclear {
        out.push_str(
            "\n# dbbackup was to encrypt. `seawall vault init VAULT --generate` makes this vault an encrypted one, before the first backup.\n",
        );
    }
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(out, "\n# {title}\n");
            lines.iter().for_each(|line| out.push_str(&format!("#   {line}\n")));
        }
    };
    let of = |pairs: &[(String, &'static str)]| pairs.iter().map(|(key, why)| format!("{key}: {why}")).collect();
    list("Secrets, which are not copied. Seawall looks for them in:", of(&imported.secrets));
    list("Settings without a counterpart:", of(&imported.left_out));
    let unknown = imported.unknown.iter().map(|(line, key)| format!("line {line}: {key}"));
    list("Settings that aren't known, and have no effect here:", unknown.collect());
    let wrong = imported.wrong.iter().map(|(line, key, why)| format!("line {line}: {key}: {why}"));
    list("Values that aren't understood:", wrong.collect());
    out
}

/// Where backups go.
fn vault(values: &Values, out: &mut String) {
    let bucket = values.get(&["cloud.bucket"]);
    let is_wrong = |name| values.get(&[name]).is_some_and(|value| defect(name, value).is_some());
    let prefix = values.get(&["cloud.prefix"]).unwrap_or_default().trim_matches('/').to_owned();
    // Beside dbbackup's own files, and never among them: its retention deletes files by their extension.
    let prefix = if prefix.is_empty() { "seawall".to_owned() } else { format!("{prefix}/seawall") };
    let provider = values.get(&["cloud.provider"]).unwrap_or("s3").to_lowercase();
    let is_cloud = bucket.is_some() && values.get(&CLOUD).is_none_or(|_| values.is(&CLOUD));
    const CLOUD: [&str; 3] = ["cloud.enabled", "cloud", "cloud.cloud"];
    let of_store = is_cloud && (is_wrong("cloud.bucket") || is_wrong("cloud.provider"));
    let of_folder = !is_cloud && (is_wrong("backup_dir") || is_wrong("dir"));
    if of_store || of_folder {
        out.push_str("# vault: (write the URL of a store or the path of a folder here: see docs/configuration.md)\n");
        return;
    }
    out.push_str("# A place of its own beside dbbackup's files, whose retention deletes by extension.\n");
    match (bucket, provider.as_str()) {
        (Some(bucket), "s3" | "minio" | "b2") if is_cloud => {
            let _ = writeln!(out, "vault: {}", scalar(&format!("s3://{bucket}/{prefix}")));
            let mut lines = Vec::new();
            if let Some(endpoint) = values.get(&["cloud.endpoint"]) {
                lines.push(format!("  endpoint: {}", scalar(endpoint)));
            }
            if let Some(region) = values.get(&["cloud.region"]) {
                lines.push(format!("  region: {}", scalar(region)));
            }
            if provider == "minio" {
                lines.push("  force-path-style: true".to_owned());
            }
            if !lines.is_empty() {
                let _ = write!(out, "s3:\n{}\n", lines.join("\n"));
            }
        }
        (Some(bucket), "gcs" | "gs") if is_cloud => {
            let _ = writeln!(out, "vault: {}", scalar(&format!("gs://{bucket}/{prefix}")));
        }
        (bucket, provider) => {
            let folder = values.get(&["backup_dir", "dir"]).unwrap_or("/var/lib/dbbackup");
            if bucket.is_some() && is_cloud {
                let _ = writeln!(
                    out,
                    "# The store of {} can't be read off: write its URL here (docs/configuration.md), in the place of this folder.",
                    one_line(provider)
                );
            }
            let folder = folder.trim_end_matches('/');
            let folder = if folder.starts_with('/') { folder.to_owned() } else { format!("./{folder}") };
            let _ = writeln!(out, "vault: {}", scalar(&format!("{folder}/seawall")));
        }
    }
}

fn is_bucket(bucket: &str) -> bool {
    bucket.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn retention(values: &Values, out: &mut String) {
    // A value that isn't understood may ask for more than any number here: nothing is deleted then.
    let number = |name, usual| values.get(&[name]).map_or(Some(usual), |_| values.number(&[name]));
    let (days, minimum) = match (number("retention_days", 30), number("min_backups", 5)) {
        (Some(days), Some(minimum)) => (days, minimum),
        (_, minimum) => (0, minimum.unwrap_or(5)),
    };
    out.push_str("\n# Of each database by itself. dbbackup counts the backups of all databases together.\n");
    let keep = if days == 0 { "forever".to_owned() } else { format!("{days}d") };
    let _ = write!(out, "retention:\n  keep: {keep}\n  minimum: {}\n", minimum.max(1));
}

fn database(values: &Values, out: &mut String) {
    let kind = values.get(&["db_type", "type"]).unwrap_or("postgres").to_lowercase();
    let is_mysql = matches!(kind.as_str(), "mysql" | "mariadb");
    let (scheme, port) = if is_mysql { ("mysql", 3306) } else { ("postgresql", 5432) };
    let user = escaped(values.get(&["user", "username"]).unwrap_or(if is_mysql { "root" } else { "postgres" }));
    let host = values.get(&["host"]).unwrap_or("localhost");
    let port = values.number(&["port"]).filter(|port| (1..=65535).contains(port)).unwrap_or(port);
    let named = values.get(&["database", "name"]).filter(|name| *name != "postgres" && *name != "mysql");
    let strictest = |mode| if defect("ssl_mode", mode).is_some() { "verify-full" } else { mode };
    let mode = if values.is(&["insecure"]) { Some("disable") } else { values.get(&["ssl_mode"]).map(strictest) };
    let mut query = Vec::new();
    let place = match values.get(&["socket"]).filter(|_| is_mysql) {
        Some(socket) => {
            query.push(format!("socket={}", escaped(socket)));
            "localhost".to_owned()
        }
        None if host.contains(':') => format!("[{}]:{port}", escaped(host).replace("%3A", ":")),
        None => format!("{}:{port}", escaped(host)),
    };
    let of_mysql = ["DISABLED", "PREFERRED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"];
    let at =
        mode.and_then(|mode| MODES.iter().position(|known| mode.eq_ignore_ascii_case(known))).filter(|at| *at != 2);
    match (at, is_mysql) {
        (Some(at), true) => query.extend(of_mysql.get(at).map(|mode| format!("ssl-mode={mode}"))),
        (Some(at), false) => query.extend(MODES.get(at).map(|mode| format!("sslmode={mode}"))),
        (None, _) => {}
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let url = format!("{scheme}://{user}@{place}/{}{query}", named.map(escaped).unwrap_or_default());
    let name = named.map_or_else(|| if is_mysql { "mysql".to_owned() } else { "postgres".to_owned() }, clean);
    out.push_str("\ndatabases:\n");
    match named {
        None => out.push_str("  # The whole server, as `dbbackup backup cluster`. For one database write its name behind the last slash.\n"),
        Some(_) => out.push_str("  # One database, as `dbbackup backup single`. Without the name behind the last slash it is the whole server.\n"),
    }
    out.push_str("  # dbbackup's own schedule stands in its systemd timer, and isn't in its configuration.\n");
    let _ = write!(out, "  - url: {}\n    name: {}\n    schedule: H 3 * * *\n", scalar(&url), scalar(&name));
    if let Some(jobs) = values.number(&["jobs"]).filter(|jobs| (1..=64).contains(jobs)) {
        let _ = write!(out, "    backup:\n      jobs: {jobs}\n");
    }
}

/// The letters, digits and signs of a name that a configuration takes.
fn clean(name: &str) -> String {
    let clean: String = name
        .chars()
        .take(60)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' })
        .collect();
    let clean = clean.trim_matches('-').to_owned();
    if clean.is_empty() { "database".to_owned() } else { clean }
}

/// What of a part of a URL is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A part of a URL.
fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A text on one line, for comments.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{85}') { ' ' } else { c })
        .take(200)
        .collect()
}

/// A text as a value of YAML that is read back as exactly this text.
fn scalar(text: &str) -> String {
    // Seawall takes `${NAME}` for a variable.
    let mut quoted = String::from("\"");
    for c in text.replace("${", "$${").chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || !c.is_ascii() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "# written by dbbackup\n[database]\ntype = postgres\nhost = db.example\nport = 5433\nuser = backup\n\
        database = shop\nssl_mode = verify-full\npassword = hush\n\n[backup]\nbackup_dir = /srv/backups\nretention_days = 14\nmin_backups = 3\n\
        compression = 6\njobs = 4\n\n[cloud]\nenabled = true\nprovider = minio\nbucket = b\nregion = eu-1\nendpoint = http://minio:9000\n\
        prefix = /db/\naccess_key = AKIA\nsecret_key = \"very secret\"\n\n[safety]\nrestore_mode = turbo\n[blob]\nblob_mode = x\n[odd]\ncolour = red\n";

    #[test]
    fn what_has_a_counterpart_is_written_and_secrets_are_not() {
        let imported = seawall_yml(CONF, ".dbbackup.conf").expect("a configuration");
        for line in [
            "vault: \"s3://b/db/seawall\"\ns3:\n  endpoint: \"http://minio:9000\"\n  region: \"eu-1\"\n  force-path-style: true\n",
            "retention:\n  keep: 14d\n  minimum: 3\n",
            "  - url: \"postgresql://backup@db.example:5433/shop?sslmode=verify-full\"\n    name: \"shop\"\n    schedule: H 3 * * *\n",
            "    backup:\n      jobs: 4\n",
            "#   [database] password: ~/.pgpass",
            "#   line 33: [odd] colour\n",
        ] {
            assert!(imported.yaml.contains(line), "{line}\n{}", imported.yaml);
        }
        for secret in ["hush", "AKIA", "very secret"] {
            assert!(!format!("{imported:?}").contains(secret), "{secret}");
        }
        assert_eq!(imported.unknown, [(33, "[odd] colour".to_owned())]);
        assert_eq!(imported.secrets.len(), 3);
        assert_eq!(imported.left_out.len(), 3);
    }

    #[test]
    fn what_is_not_understood_is_told_and_never_loosens_anything() {
        for (text, part) in [
            ("[security]\nretention_days = 3650 ; ten years\n", "keep: forever\n  minimum: 5\n"),
            ("retention_days = 90d", "keep: forever\n"),
            ("min_backups = \"12 \"", "keep: forever\n  minimum: 5\n"),
            ("retention_days = 90\nmin_backups = many", "keep: forever\n"),
            ("ssl_mode = verify_full", "?sslmode=verify-full\""),
            ("db_type = mysql\nssl_mode = on", "?ssl-mode=VERIFY_IDENTITY\""),
            ("port = 5432x", "localhost:5432/"),
            ("port = 99999", "localhost:5432/"),
            ("jobs = all", "schedule: H 3 * * *\n"),
            ("db_type = oracle", "postgresql://"),
            ("insecure = maybe", "localhost:5432/\""),
        ] {
            let imported = seawall_yml(text, "f").expect(text);
            assert!(imported.yaml.contains(part), "{text}: {}", imported.yaml);
            assert_eq!(imported.wrong.len(), 1, "{text}");
            assert!(imported.yaml.contains("# Values that aren't understood:"), "{text}");
        }
        for text in [
            "[notifications]\nenabled=false\n",
            "[odd]\nprefix=x\n",
            "[odd]\ndir=/x\n",
            "[odd]\nencrypt=true\n",
            "[odd]\ncloud=true\n",
        ] {
            assert_eq!(seawall_yml(text, "f").expect(text).unknown.len(), 1, "{text}");
        }
    }

    #[test]
    fn places_and_servers() {
        for (text, parts) in [
            (
                "",
                &[
                    "vault: \"/var/lib/dbbackup/seawall\"",
                    "keep: 30d",
                    "minimum: 5",
                    "postgresql://postgres@localhost:5432/\"",
                ][..],
            ),
            (
                "db_type=mariadb\nuser=a b\nsocket=/run/x.sock\ndatabase=my-shop\nretention-days=0\ninsecure=true",
                &["keep: forever", "mysql://a%20b@localhost/my-shop?socket=%2Frun%2Fx.sock&ssl-mode=DISABLED"],
            ),
            ("[database]\nhost=/run/postgresql\nport=0\n", &["postgresql://postgres@%2Frun%2Fpostgresql:5432/\""]),
            ("[database]\nhost=::1\n", &["postgresql://postgres@[::1]:5432/\""]),
            ("[backup]\nbackup_dir=~/db_backups\n", &["# vault: (write", "doesn't expand ~"]),
            ("[cloud]\nprovider=azure\nbucket=b\n", &["The store of azure can't be read off", "vault: \"/var/lib"]),
            ("[cloud]\nprovider=gcs\ncloud_bucket=b\n", &["vault: \"gs://b/seawall\""]),
            ("[cloud]\nenabled=false\nbucket=b\n", &["vault: \"/var/lib/dbbackup/seawall\""]),
            ("[cloud]\nbucket=b/../c\n", &["# vault: (write", "line 2: [cloud] bucket: it isn't the name of a bucket"]),
            ("[cloud]\nprovider=s4\nbucket=b\n", &["# vault: (write"]),
            ("[backup]\ncloud_bucket=b\n", &["vault: \"s3://b/seawall\""]),
            ("encrypt=true", &["seawall vault init VAULT --generate"]),
            ("[database]\ndatabase=a\u{2028}b: ${X}\"\n", &["%E2%80%A8b%3A%20%24%7BX%7D%22", "name: \"a-b----X\""]),
        ] {
            let yaml = seawall_yml(text, "f").expect(text).yaml;
            for part in parts {
                assert!(yaml.contains(part), "{part}\n{yaml}");
            }
        }
        let hidden = seawall_yml("[cloud]\nbucket=b\nendpoint=https://AK:hu@sh@minio:9000/x\n", "f").expect("one");
        assert!(hidden.yaml.contains("endpoint: \"https://minio:9000/x\"") && !format!("{hidden:?}").contains("AK:"));
        assert_eq!(hidden.secrets.len(), 1);
        let failure = seawall_yml("[a]\nb\n", "f").expect_err("no key");
        assert_eq!((failure.code, failure.object.as_str()), ("dump.settings", "f:2"));
    }
}
