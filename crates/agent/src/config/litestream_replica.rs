//! A replica of a `litestream.yml`: a URL or separate keys, with defaults from the top level.

use std::time::Duration;

use seawall_core::Failure;
use seawall_vault::{Environment, Scheme, VaultUrl};

use super::document::Node;
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::litestream::{expand_home, refuse, warn_unknown};
use super::place::{self, Precedence};
use super::{Registering, Surroundings, Warning, kinds};

/// The replica of one database, understood.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) vault: VaultUrl,
    pub(crate) sync_interval: Option<Duration>,
}

/// Replica keys at the top level: defaults for every replica.
#[derive(Debug, Default)]
pub(crate) struct Defaults(Keys);

impl Defaults {
    pub(crate) fn read(top: &mut Fields) -> Result<Self, Location> {
        Keys::read(top).map(Self)
    }

    /// What a database gets that is registered later. Litestream gives it nothing.
    pub(crate) fn registering(&self, surroundings: &Surroundings<'_>, shutdown_timeout: Duration) -> Registering {
        Registering {
            settings: (self.0.settings.clone(), Precedence::Setting),
            fallback: of_environment(surroundings.environment),
            sync_interval: self.0.sync_interval.as_ref().map(|at| at.value),
            ..Registering::plain(surroundings.directory, shutdown_timeout)
        }
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
    settings: place::Settings,
}

impl Keys {
    fn read(fields: &mut Fields) -> Result<Self, Location> {
        fields.take("name");
        fields.duration("validation-interval")?;
        fields.parsed("max-sync-ltx-files", "a whole number", |text| text.parse::<u64>().ok())?;
        // Lost local state is always made again from the vault and the WAL.
        fields.flag("auto-recover")?;
        refuse(
            fields,
            "age",
            "Litestream refuses it since 0.5; Seawall encrypts with `encryption.recipients` in a seawall.yml",
        )?;
        let settings = place::Settings::take_litestream(fields)?;
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
    surroundings: &Surroundings<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Replica, Location> {
    let mut fields = Fields::new("replica", node)?;
    let line = fields.line;
    let missing = fields.missing("url");
    let own = Keys::read(&mut fields)?;
    warn_unknown(fields, warnings);

    let Defaults(defaults) = defaults;
    let kind = own.kind.as_ref().or(defaults.kind.as_ref());
    let url = own.url.as_ref().or(defaults.url.as_ref());
    let text = match url {
        Some(url) => {
            let completed = own.bucket.as_ref().and_then(|bucket| kinds::with_bucket(&url.value, &bucket.value));
            let beside = own.path.as_ref().or(own.bucket.as_ref().filter(|_| completed.is_none()));
            if let Some(At { line, .. }) = beside {
                return Err(Problem::Contradiction("url stands beside path or bucket".into()).at(*line));
            }
            if own.settings.get(Scheme::Sftp).is_some_and(|keys| keys.contains_key("host")) {
                return Err(Problem::Contradiction("url stands beside host".into()).at(url.line));
            }
            check_kind(url, kind)?;
            completed.unwrap_or_else(|| url.value.clone())
        }
        None => {
            let path = own.path.as_ref().or(defaults.path.as_ref()).map(|at| at.value.as_str());
            match kind.map_or("file", |at| at.value.as_str()) {
                "file" => expand_home(path.ok_or(missing)?, surroundings.environment).display().to_string(),
                name => match kinds::of_litestream(name) {
                    Some((store, litestream)) if litestream.schemes.first() == Some(&name) => {
                        let mut settings = own.settings.clone();
                        settings.fill(&defaults.settings);
                        let none = place::Keys::new();
                        let separate = kinds::Separate {
                            bucket: own.bucket.as_ref().or(defaults.bucket.as_ref()).map(|at| at.value.as_str()),
                            path,
                            settings: settings.get(store.scheme).unwrap_or(&none),
                        };
                        let missing = |key| Problem::Missing { key, section: "replica".into() }.at(line);
                        (litestream.url)(&separate).map_err(missing)?
                    }
                    _ => return Err(other_store(name).at(kind.map_or(line, |at| at.line))),
                },
            }
        }
    };
    let line = url.map_or(line, |at| at.line);
    let vault =
        open(&text, own.settings, defaults, surroundings).map_err(|failure| place::problem(failure).at(line))?;
    let sync_interval = own.sync_interval.or_else(|| defaults.sync_interval.clone()).map(|at| at.value);
    Ok(Replica { vault, sync_interval })
}

/// The place with its settings: those of the replica, else those for all, else Litestream's own variables, over
/// what the URL says.
fn open(
    text: &str,
    mut settings: place::Settings,
    defaults: &Keys,
    surroundings: &Surroundings<'_>,
) -> Result<VaultUrl, Failure> {
    settings.fill(&defaults.settings);
    let url = place::read_place(text, surroundings.directory)?;
    let url = place::with_settings(url, &settings, Precedence::Setting)?;
    let url = place::with_settings(url, &of_environment(surroundings.environment), Precedence::Url)?;
    place::as_litestream(url)
}

fn check_kind(url: &At<String>, kind: Option<&At<String>>) -> Result<(), Location> {
    let scheme = match url.value.split_once("://") {
        Some((scheme, _)) => scheme,
        None => {
            let found = "a text without ://".to_owned();
            return Err(Problem::Value { key: "url".into(), expected: "takes a URL".into(), found }.at(url.line));
        }
    };
    let of_url = kinds::of_litestream(scheme).map(|(store, _)| store.scheme);
    if scheme != "file" && of_url.is_none() {
        return Err(other_store(scheme).at(url.line));
    }
    let same = |name: &str| name == scheme || kinds::of_litestream(name).is_some_and(|(k, _)| Some(k.scheme) == of_url);
    match kind.filter(|kind| !same(&kind.value)) {
        Some(kind) => {
            let cause = format!("type {} with a URL of type {scheme}", kind.value);
            Err(Problem::Contradiction(cause).at(kind.line))
        }
        None => Ok(()),
    }
}

fn other_store(kind: &str) -> Problem {
    Problem::Value {
        key: "type".into(),
        expected: format!("takes {}", kinds::litestream_types("or")),
        found: format!("\"{kind}\""),
    }
}

/// What Litestream takes from variables of its own when AWS's say nothing. Those for Azure the vault reads itself.
fn of_environment(environment: &Environment) -> place::Settings {
    let mut s3 = place::Keys::new();
    let value = |name| environment.get(name).map(str::to_owned);
    if let Some(endpoint) = value("LITESTREAM_S3_ENDPOINT") {
        s3.insert("endpoint", endpoint);
    }
    if let (None, Some(id), Some(secret)) =
        (environment.get("AWS_ACCESS_KEY_ID"), value("LITESTREAM_ACCESS_KEY_ID"), value("LITESTREAM_SECRET_ACCESS_KEY"))
    {
        s3.insert("access-key-id", id);
        s3.insert("secret-access-key", secret);
    }
    place::Settings::of(Scheme::S3, s3)
}
