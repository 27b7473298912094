//! The `storage` of a `lightningstream.yaml`: where its snapshots are, and what is done about them there.

use std::path::Path;
use std::time::Duration;

use seawall_lmdb::{Marker, Retention};
use seawall_vault::{AbsSettings, Pem, PlaceSettings as _, S3Settings, Secret, Tls, VaultUrl};

use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::lightningstream::{interval, span};
use super::{Surroundings, absolute, place};

/// Where snapshots are, and what is done about them there.
pub(super) struct Storage {
    pub(super) vault: VaultUrl,
    pub(super) clean: Option<Retention>,
    pub(super) marker: Option<Marker>,
}

/// Reads the section.
pub(super) fn storage(mut fields: Fields, surroundings: &Surroundings<'_>) -> Result<Storage, Location> {
    let clean = cleanup(fields.section("cleanup")?)?;
    let (missing, line) = (fields.missing("type"), fields.line);
    let kind = fields.text("type")?.ok_or(missing)?;
    let old_root = fields.text("root_path")?;
    let options = fields.section("options")?;
    fields.finish()?;
    let (vault, marker) = match kind.value.as_str() {
        "fs" => (fs(options, old_root, line, surroundings.directory)?, None),
        "s3" => {
            let missing = || Problem::Missing { key: "options", section: "storage".to_owned() }.at(line);
            s3(options.ok_or_else(missing)?, surroundings.directory)?
        }
        "azure" => {
            let missing = || Problem::Missing { key: "options", section: "storage".to_owned() }.at(line);
            azure(options.ok_or_else(missing)?, surroundings.directory)?
        }
        other => return Err(other_storage(other, kind.line)),
    };
    Ok(Storage { vault, clean, marker })
}

fn other_storage(kind: &str, line: usize) -> Location {
    let (reason, next) = match kind {
        "memory" => ("it would be gone with the process", "use type: fs, with a folder"),
        _ => {
            let found = format!("\"{kind}\"");
            return Problem::Value { key: "storage.type".into(), expected: "takes fs, s3 or azure".into(), found }
                .at(line);
        }
    };
    not_done(format!("storage.type: {kind}"), reason, next, line)
}

fn not_done(key: impl Into<String>, reason: &str, next: &'static str, line: usize) -> Location {
    Problem::NotDone { key: key.into(), reason: reason.to_owned(), next }.at(line)
}

fn cleanup(fields: Option<Fields>) -> Result<Option<Retention>, Location> {
    let Some(mut fields) = fields else { return Ok(None) };
    let enabled = fields.flag("enabled")?.is_some_and(|at| at.value);
    let rules = Retention {
        interval: interval(&mut fields, "interval", Duration::from_secs(300))?,
        keep: span(&mut fields, "must_keep_interval")?.unwrap_or(Duration::from_secs(600)),
        gone: span(&mut fields, "remove_old_instances_interval")?.unwrap_or(Duration::from_secs(168 * 3600)),
    };
    fields.finish()?;
    Ok(enabled.then_some(rules))
}

fn fs(
    options: Option<Fields>,
    old_root: Option<At<String>>,
    line: usize,
    directory: &Path,
) -> Result<VaultUrl, Location> {
    let root = match options {
        Some(mut options) => {
            let root = options.text("root_path")?;
            options.finish()?;
            root.or(old_root)
        }
        None => old_root,
    };
    let missing = || Problem::Missing { key: "root_path", section: "storage.options".to_owned() }.at(line);
    Ok(VaultUrl::File(absolute(Path::new(&root.ok_or_else(missing)?.value), directory)))
}

/// Names of settings there and here.
const S3: [(&str, &str); 7] = [
    ("access_key", "access-key-id"),
    ("secret_key", "secret-access-key"),
    ("access_key_file", "access-key-id-file"),
    ("secret_key_file", "secret-access-key-file"),
    ("region", "region"),
    ("endpoint_url", "endpoint"),
    ("storage_class", "storage-class"),
];

/// Settings of how a server is asked. Here every request has a deadline and is repeated, and key files are read again
/// every few minutes.
const CHECKED: [&str; 7] = [
    "secrets_refresh_interval",
    "init_timeout",
    "idle_conn_timeout",
    "dial_timeout",
    "dial_keep_alive",
    "tls_handshake_timeout",
    "client_timeout",
];

fn s3(mut fields: Fields, directory: &Path) -> Result<(VaultUrl, Option<Marker>), Location> {
    let line = fields.line;
    let mut settings = S3Settings::default();
    let missing = fields.missing("bucket");
    settings.bucket = fields.text("bucket")?.ok_or(missing)?.value;
    let prefix = fields.text("global_prefix")?.map(|at| at.value).unwrap_or_default();
    settings.prefix = Some(prefix.clone());
    for (theirs, ours) in S3 {
        let Some(At { line, value }) = fields.text(theirs)? else { continue };
        let value = match theirs {
            "access_key_file" | "secret_key_file" => file(&value, directory),
            _ => value,
        };
        settings.set(ours, &value).map_err(|error| place::problem(error.into()).at(line))?;
    }
    // The original's client puts the bucket into the path for any server but AWS itself.
    match settings.endpoint.as_deref().map(of_amazon) {
        Some(Some(region)) => {
            settings.region = settings.region.or(region.map(str::to_owned));
            settings.endpoint = None;
        }
        Some(None) => settings.force_path_style = Some(true),
        None => {}
    }
    settings.create_bucket = fields.flag("create_bucket")?.is_some_and(|at| at.value);
    for key in CHECKED {
        span(&mut fields, key)?;
    }
    for key in ["num_minio_threads", "max_idle_conns"] {
        fields.parsed(key, "a whole number", |text| text.parse::<u32>().ok())?;
    }
    // The last two are about what is listed below folders, and no snapshot has a slash in its name.
    for key in ["disable_send_content_md5", "hide_folders", "prefix_folders"] {
        fields.flag(key)?;
    }
    let marked = fields.flag("use_update_marker")?.is_some_and(|at| at.value);
    let force = span(&mut fields, "update_marker_force_list_interval")?.unwrap_or(Duration::from_secs(300));
    if let Some(section) = fields.section("tls")? {
        (settings.tls, settings.skip_verify) = tls(section, directory)?;
    }
    fields.finish()?;
    settings.check().map_err(|error| place::problem(error.into()).at(line))?;
    Ok((VaultUrl::S3(Box::new(settings)), marked.then_some(Marker { prefix, force })))
}

/// Names of settings of Azure there and here.
const AZURE: [(&str, &str); 5] = [
    ("account_name", "account-name"),
    ("account_key", "account-key"),
    ("account_key_file", "account-key-file"),
    ("endpoint_url", "endpoint"),
    ("container", "bucket"),
];

fn azure(mut fields: Fields, directory: &Path) -> Result<(VaultUrl, Option<Marker>), Location> {
    let line = fields.line;
    let mut settings = AbsSettings::default();
    let missing = fields.missing("container");
    let prefix = fields.text("global_prefix")?.map(|at| at.value).unwrap_or_default();
    settings.prefix = Some(prefix.clone());
    for (theirs, ours) in AZURE {
        let Some(At { line, value }) = fields.text(theirs)? else { continue };
        let value = if theirs == "account_key_file" { file(&value, directory) } else { value };
        settings.set(ours, &value).map_err(|error| place::problem(error.into()).at(line))?;
    }
    if settings.container.is_empty() {
        return Err(missing);
    }
    // Without it the original asks the environment, and the identities of the host, whatever keys are here.
    if !fields.flag("use_shared_key")?.is_some_and(|at| at.value) {
        (settings.account_key, settings.account_key_file) = (None, None);
    }
    settings.create_container = fields.flag("create_container")?.is_some_and(|at| at.value);
    for key in CHECKED {
        span(&mut fields, key)?;
    }
    for key in ["concurrency", "max_idle_conns"] {
        fields.parsed(key, "a whole number", |text| text.parse::<u32>().ok())?;
    }
    let marked = fields.flag("use_update_marker")?.is_some_and(|at| at.value);
    let force = span(&mut fields, "update_marker_force_list_interval")?.unwrap_or(Duration::from_secs(300));
    if let Some(section) = fields.section("tls")? {
        (settings.tls, settings.skip_verify) = tls(section, directory)?;
    }
    fields.finish()?;
    settings.check().map_err(|error| place::problem(error.into()).at(line))?;
    Ok((VaultUrl::Abs(Box::new(settings)), marked.then_some(Marker { prefix, force })))
}

/// The region that AWS's own address names, if it is that: `s3.amazonaws.com` names none. Others of AWS's (of a private network,
/// of dual stack) are servers as any.
fn of_amazon(endpoint: &str) -> Option<Option<&str>> {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let host = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com")?;
    let rest = host.strip_prefix("s3")?;
    if rest.is_empty() {
        return Some(None);
    }
    let region = rest.strip_prefix(['.', '-'])?;
    (!region.contains('.') && region.split('-').count() >= 3).then_some(Some(region))
}

fn file(path: &str, directory: &Path) -> String {
    absolute(Path::new(path), directory).display().to_string()
}

/// What is believed and shown, and whether any certificate is taken.
fn tls(mut fields: Fields, directory: &Path) -> Result<(Tls, bool), Location> {
    let line = fields.line;
    let authorities = pem(&mut fields, ("ca", "ca_file"), directory)?;
    let certificate = pem(&mut fields, ("cert", "cert_file"), directory)?;
    let key = pem(&mut fields, ("key", "key_file"), directory)?;
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (found, _) => {
            let key = if found.is_some() { "key_file" } else { "cert_file" };
            return Err(Problem::Missing { key, section: "tls".to_owned() }.at(line));
        }
    };
    let system_too = fields.flag("add_system_ca_pool")?.is_some_and(|at| at.value);
    let anyone = fields.flag("insecure_skip_verify")?.is_some_and(|at| at.value);
    span(&mut fields, "watch_certs_poll_interval")?;
    // Of servers, which this isn't.
    fields.flag("require_client_cert")?;
    if let Some(At { line, value: true }) = fields.flag("watch_certs")? {
        let next = "remove it, and start the process anew when certificates were renewed";
        return Err(not_done("tls.watch_certs", "certificates are read once, at the start", next, line));
    }
    if let Some(At { line, .. }) = fields.text("insecure_key_log_file")?.filter(|at| !at.value.is_empty()) {
        let next = "remove it; --log-level debug tells of requests that fail";
        return Err(not_done("tls.insecure_key_log_file", "keys of connections are never written down", next, line));
    }
    fields.finish()?;
    Ok((Tls { authorities, system_too, identity }, anyone))
}

/// PEM as it is, or in a file.
fn pem(
    fields: &mut Fields,
    (text, path): (&'static str, &'static str),
    directory: &Path,
) -> Result<Option<Pem>, Location> {
    let (given, named) = (fields.text(text)?, fields.text(path)?);
    match (given.filter(|at| !at.value.is_empty()), named.filter(|at| !at.value.is_empty())) {
        (Some(_), Some(At { line, .. })) => {
            Err(Problem::Contradiction(format!("tls.{text} and tls.{path} are both given")).at(line))
        }
        (Some(At { value, .. }), None) => Ok(Some(Pem::Text(Secret::new(value)))),
        (None, Some(At { value, .. })) => Ok(Some(Pem::File(file(&value, directory)))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use seawall_vault::Environment;

    use super::*;
    use crate::config::{ConfigError, LightningConfig};

    fn parse(storage: &str) -> Result<LightningConfig, ConfigError> {
        let environment = Environment::empty();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/srv"), pid: 7 };
        let text = format!("lmdbs:\n  main:\n    path: data\nstorage:\n{storage}");
        LightningConfig::parse(Path::new("lightningstream.yaml"), &text, &surroundings)
    }

    fn s3(options: &str) -> Result<LightningConfig, ConfigError> {
        parse(&format!("  type: s3\n  options:\n    bucket: b\n    access_key: a\n    secret_key: s\n{options}"))
    }

    #[test]
    fn any_prefix_or_none() {
        for (prefix, url) in [("", "s3://b/"), ("x/", "s3://b/x/"), ("x/y-", "s3://b/x/y-"), ("a.b", "s3://b/a.b")] {
            let config = s3(&format!("    global_prefix: '{prefix}'\n    use_update_marker: true\n")).expect(prefix);
            assert_eq!(config.vault.to_string(), url);
            assert_eq!(config.marker.expect("a marker").prefix, prefix);
        }
        assert_eq!(s3("").expect("no prefix").vault.to_string(), "s3://b/");
        for prefix in ["/x", "x//y", " x"] {
            let error = s3(&format!("    global_prefix: '{prefix}'\n")).expect_err(prefix);
            assert_eq!(seawall_core::Failure::from(error).code, "config.vault", "{prefix}");
        }
    }

    #[test]
    fn every_option_of_a_bucket_is_taken() {
        let options = "    region: r\n    endpoint_url: https://h\n    storage_class: C\n    create_bucket: true\n    \
             prefix_folders: true\n    hide_folders: true\n    disable_send_content_md5: true\n    num_minio_threads: 4\n    \
             max_idle_conns: 3\n    init_timeout: 20s\n    idle_conn_timeout: 90s\n    dial_timeout: 10s\n    \
             dial_keep_alive: 10s\n    tls_handshake_timeout: 10s\n    client_timeout: 15m\n    secrets_refresh_interval: 15s\n    \
             tls:\n      ca_file: ca.pem\n      add_system_ca_pool: true\n      cert: CERT\n      key_file: /k.pem\n      \
             insecure_skip_verify: true\n      watch_certs: false\n      watch_certs_poll_interval: 5s\n      \
             require_client_cert: true\n";
        let VaultUrl::S3(found) = s3(options).expect("a configuration").vault else { panic!("no bucket") };
        assert!(found.create_bucket && found.skip_verify);
        assert_eq!((found.region.as_deref(), found.storage_class.as_deref()), (Some("r"), Some("C")));
        let identity = (Pem::Text(Secret::new("CERT")), Pem::File("/k.pem".into()));
        let authorities = Some(Pem::File("/srv/ca.pem".into()));
        assert_eq!(found.tls, Tls { authorities, system_too: true, identity: Some(identity) });
    }

    #[test]
    fn every_option_of_a_container_is_taken() {
        let text = "  type: azure\n  options:\n    account_name: acct\n    account_key_file: key\n    use_shared_key: true\n    \
             container: c\n    create_container: true\n    endpoint_url: http://127.0.0.1:10000/acct\n    global_prefix: x/\n    \
             secrets_refresh_interval: 15s\n    init_timeout: 20s\n    idle_conn_timeout: 90s\n    dial_timeout: 10s\n    \
             dial_keep_alive: 10s\n    tls_handshake_timeout: 10s\n    client_timeout: 15m\n    use_update_marker: true\n    \
             update_marker_force_list_interval: 1m\n    concurrency: 2\n    max_idle_conns: 3\n    tls:\n      ca_file: ca.pem\n";
        let config = parse(text).expect("a configuration");
        assert_eq!(config.vault.to_string(), "abs://acct@c/x/?endpoint=http://127.0.0.1:10000/acct");
        assert_eq!(config.marker.expect("a marker").prefix, "x/");
        let VaultUrl::Abs(found) = config.vault else { panic!("no container") };
        assert_eq!((found.account_key_file.as_deref(), found.create_container), (Some("/srv/key"), true));
        assert_eq!(found.tls.authorities, Some(Pem::File("/srv/ca.pem".into())));
    }

    #[test]
    fn which_servers_are_amazons_own() {
        for (url, server, region, in_path) in [
            ("https://s3.amazonaws.com", None, None, None),
            ("https://s3.eu-west-1.amazonaws.com", None, Some("eu-west-1"), None),
            ("https://s3-eu-west-1.amazonaws.com/", None, Some("eu-west-1"), None),
            ("https://s3.cn-north-1.amazonaws.com.cn", None, Some("cn-north-1"), None),
            ("https://s3.dualstack.eu-west-1.amazonaws.com", Some(""), None, Some(true)),
            ("https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com", Some(""), None, Some(true)),
            ("https://s3-accelerate.amazonaws.com", Some(""), None, Some(true)),
            ("https://s3.example.com", Some(""), None, Some(true)),
        ] {
            let found = s3(&format!("    endpoint_url: {url}\n")).expect(url);
            let VaultUrl::S3(found) = found.vault else { panic!("no bucket") };
            assert_eq!(found.endpoint.as_deref(), server.map(|_| url), "{url}");
            assert_eq!((found.region.as_deref(), found.force_path_style), (region, in_path), "{url}");
        }
        let both = s3("    endpoint_url: https://s3.eu-west-1.amazonaws.com\n    region: eu-west-2\n").expect("both");
        let VaultUrl::S3(both) = both.vault else { panic!("no bucket") };
        assert_eq!(both.region.as_deref(), Some("eu-west-2"));
    }

    #[test]
    fn key_files_begin_where_the_configuration_is() {
        let text = "  type: s3\n  options:\n    bucket: b\n    access_key_file: id\n    secret_key_file: /key\n";
        let VaultUrl::S3(found) = parse(text).expect("a configuration").vault else { panic!("no bucket") };
        assert_eq!(found.access_key_id_file.as_deref(), Some("/srv/id"));
        assert_eq!(found.secret_access_key_file.as_deref(), Some("/key"));
    }

    #[test]
    fn what_is_refused_says_what_to_do() {
        for (storage, code, line, next) in [
            ("  type: azure\n".to_owned(), "config.missing-key", 5, "options"),
            ("  type: azure\n  options:\n    account_name: a\n".to_owned(), "config.missing-key", 7, "container"),
            ("  type: azure\n  options:\n    container: C\n".to_owned(), "config.vault", 7, "abs://"),
            ("  type: memory\n".to_owned(), "config.unsupported", 5, "type: fs"),
            ("  type: tape\n".to_owned(), "config.value", 5, "correct"),
            ("  type: fs\n".to_owned(), "config.missing-key", 5, "root_path"),
            ("  type: fs\n  options:\n    root_pth: x\n".to_owned(), "config.unknown-key", 7, "root_path"),
            ("  type: s3\n".to_owned(), "config.missing-key", 5, "options"),
            ("  type: s3\n  options:\n    access_key: x\n".to_owned(), "config.missing-key", 7, "bucket"),
        ] {
            let failure = seawall_core::Failure::from(parse(&storage).expect_err(&storage));
            assert_eq!((failure.code, failure.object), (code, format!("lightningstream.yaml:{line}")), "{storage}");
            assert!(failure.next.contains(next), "{storage}: {}", failure.next);
        }
        for (tls, code, next) in [
            ("watch_certs: true", "config.unsupported", "start the process anew"),
            ("insecure_key_log_file: keys", "config.unsupported", "remove it"),
            ("cert: x", "config.missing-key", "key_file"),
            ("key: x", "config.missing-key", "cert_file"),
            ("ca: x\n      ca_file: y", "config.contradiction", "decide"),
            ("ca_fil: x", "config.unknown-key", "ca_file"),
        ] {
            let failure = seawall_core::Failure::from(s3(&format!("    tls:\n      {tls}\n")).expect_err(tls));
            assert_eq!(failure.code, code, "{tls}");
            assert!(failure.next.contains(next), "{tls}: {}", failure.next);
        }
    }
}
