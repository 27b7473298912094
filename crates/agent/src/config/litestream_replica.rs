//! A replica of a `litestream.yml`: a URL or separate keys, with defaults from the top level.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::document::Node;
use super::error::{Location, Problem};
use super::expand::Environment;
use super::fields::{At, Fields, parse_bool};
use super::litestream::{refuse, refuse_unless_false, unsupported, warn_unknown};
use super::place::{Place, Target};
use super::{Warning, absolute, s3};

/// Settings of S3 replicas that say how Litestream's client talks, where this one does what is asked for anyway.
/// The value is the only one that is taken.
const S3_FIXED: [(&str, bool, &str); 2] = [
    ("sign-payload", true, "payloads are always signed"),
    ("sign-accept-encoding", true, "there is no header to leave out"),
];

/// Keys that belong to kinds of stores that are not done yet, or that Litestream itself refuses.
const OTHER_STORES: [&str; 24] = [
    "account-name",
    "account-key",
    "sas-token",
    "host",
    "user",
    "password",
    "key-path",
    "concurrent-writes",
    "host-key",
    "webdav-url",
    "webdav-username",
    "webdav-password",
    "jwt",
    "seed",
    "creds",
    "nkey",
    "username",
    "token",
    "tls",
    "root-cas",
    "client-cert",
    "client-key",
    "max-reconnects",
    "reconnect-wait",
];

/// The replica of one database, understood.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) place: Place,
    pub(crate) sync_interval: Option<Duration>,
}

/// Replica keys at the top level: defaults for every replica.
#[derive(Debug, Default)]
pub(crate) struct Defaults(Keys);

impl Defaults {
    pub(crate) fn read(top: &mut Fields) -> Result<Self, Location> {
        Keys::read(top).map(Self)
    }
}

/// The keys of a replica that have an effect here.
#[derive(Debug, Default)]
struct Keys {
    kind: Option<At<String>>,
    path: Option<At<String>>,
    url: Option<At<String>>,
    bucket: Option<At<String>>,
    sync_interval: Option<At<Duration>>,
    settings: s3::Settings,
}

impl Keys {
    fn read(fields: &mut Fields) -> Result<Self, Location> {
        fields.take("name");
        fields.duration("validation-interval")?;
        fields.parsed("max-sync-ltx-files", "a whole number", |text| text.parse::<u64>().ok())?;
        // Lost local state is always made again from the vault and the WAL.
        fields.flag("auto-recover")?;
        refuse(fields, "age", "encryption is not done yet, and Litestream refuses it since 0.5")?;
        for (key, only, reason) in S3_FIXED {
            if let Some(At { line, value }) = fields.parsed(key, "true or false", parse_bool)?
                && value != only
            {
                return Err(unsupported(&format!("{key}: {value}"), reason).at(line));
            }
        }
        for key in OTHER_STORES {
            refuse(fields, key, "only file and s3 replicas are done yet")?;
        }
        refuse(fields, "sse-customer-key-path", "give the key itself with sse-customer-key")?;
        refuse_unless_false(fields, "timeout", "only file and s3 replicas are done yet")?;
        let mut settings = BTreeMap::new();
        for key in s3::PLAIN.into_iter().chain(s3::SECRET.into_iter().map(|(key, _)| key)) {
            if let Some(At { value, .. }) = fields.text(key)? {
                settings.insert(key, value);
            }
        }
        Ok(Self {
            kind: fields.text("type")?,
            path: fields.text("path")?,
            url: fields.text("url")?,
            bucket: fields.text("bucket")?,
            sync_interval: fields.positive_duration("sync-interval")?,
            settings,
        })
    }
}

/// Reads one replica.
pub(crate) fn read(
    node: Node,
    defaults: &Defaults,
    directory: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<Replica, Location> {
    let mut fields = Fields::new("replica", node)?;
    let line = fields.line;
    let missing = fields.missing("url");
    let own = Keys::read(&mut fields)?;
    warn_unknown(fields, warnings);

    let Defaults(defaults) = defaults;
    let kind = own.kind.as_ref().or(defaults.kind.as_ref());
    let mut settings = own.settings;
    for (key, value) in &defaults.settings {
        settings.entry(key).or_insert_with(|| value.clone());
    }
    let path = own.path.as_ref().or(defaults.path.as_ref());
    let bucket = own.bucket.as_ref().or(defaults.bucket.as_ref());
    let target = match own.url.as_ref().or(defaults.url.as_ref()) {
        Some(url) => {
            if let Some(At { line, .. }) = own.path.as_ref().or(own.bucket.as_ref()) {
                return Err(Problem::Contradiction("url stands beside path or bucket".into()).at(*line));
            }
            url_target(url, kind)?
        }
        None => match kind.map_or("file", |at| at.value.as_str()) {
            "file" => Target::Folder(absolute(Path::new(&path.ok_or(missing)?.value), directory)),
            "s3" => Target::Bucket {
                bucket: bucket
                    .ok_or(Problem::Missing { key: "bucket", section: "replica".into() }.at(line))?
                    .value
                    .clone(),
                path: path.map_or(String::new(), |at| at.value.clone()),
            },
            other => return Err(other_store(other).at(kind.map_or(line, |at| at.line))),
        },
    };
    let mut place = Place { target, settings, line };
    if !place.is_s3() {
        place.settings.clear();
    }
    Ok(Replica {
        place,
        sync_interval: own.sync_interval.or_else(|| defaults.sync_interval.clone()).map(|at| at.value),
    })
}

fn url_target(url: &At<String>, kind: Option<&At<String>>) -> Result<Target, Location> {
    let At { line, value } = url;
    let Some((scheme, rest)) = value.split_once("://") else {
        return Err(Problem::Value {
            key: "url".into(),
            expected: "takes a URL".into(),
            found: "a text without ://".into(),
        }
        .at(*line));
    };
    if let Some(kind) = kind.filter(|kind| kind.value != scheme) {
        return Err(Problem::Contradiction(format!("type {} with a URL of type {scheme}", kind.value)).at(kind.line));
    }
    match scheme {
        "file" => Ok(Target::Folder(absolute(Path::new(rest), Path::new("/")))),
        "s3" => Ok(Target::Url(value.clone())),
        other => Err(other_store(other).at(*line)),
    }
}

fn other_store(kind: &str) -> Problem {
    match kind {
        "gs" | "abs" | "sftp" | "webdav" | "webdavs" | "nats" | "oss" => {
            unsupported(&format!("type {kind}"), "only file and s3 replicas are done yet")
        }
        _ => Problem::Value { key: "type".into(), expected: "takes file or s3".into(), found: format!("\"{kind}\"") },
    }
}

/// Fills in what Litestream takes from its own environment variables when the file and AWS's variables say nothing.
pub(crate) fn apply_environment(place: &mut Place, environment: &Environment) {
    if !place.is_s3() {
        return;
    }
    let aws = environment.get("AWS_ACCESS_KEY_ID").is_some();
    for (key, variable) in [
        ("access-key-id", "LITESTREAM_ACCESS_KEY_ID"),
        ("secret-access-key", "LITESTREAM_SECRET_ACCESS_KEY"),
        ("endpoint", "LITESTREAM_S3_ENDPOINT"),
    ] {
        if let Some(value) = environment.get(variable).filter(|_| key == "endpoint" || !aws) {
            place.settings.entry(key).or_insert_with(|| value.to_owned());
        }
    }
}
