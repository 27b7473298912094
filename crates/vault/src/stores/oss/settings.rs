//! The settings of a place in Alibaba Cloud. URL queries and configuration keys both end here, so each setting has one
//! name, one reader and one default.

use crate::stores::cloud::endpoint::{endpoint, host_of};
use crate::stores::cloud::limits::{concurrency, part_size};
use crate::text::{boolean, clean_path, kebab, unknown, wrong};
use crate::{Error, PlaceSettings, Secret};

/// The region where none is given; Litestream's default.
const REGION: &str = "cn-hangzhou";

/// Where a place in Alibaba Cloud is, its keys, and its options. Names are Litestream's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OssSettings {
    /// The bucket.
    pub bucket: String,
    /// The prefix of all names, without `/` at its ends.
    pub path: String,
    /// The region.
    pub region: Option<String>,
    /// The server with its scheme, for anything but the region's own public one.
    pub endpoint: Option<String>,
    /// The key's id.
    pub access_key_id: Option<Secret>,
    /// The key.
    pub secret_access_key: Option<Secret>,
    /// Token of temporary keys.
    pub session_token: Option<Secret>,
    /// A file with certificate authorities that are trusted beside the system's.
    pub ca_file: Option<String>,
    /// Take any certificate.
    pub skip_verify: bool,
    /// Size of the parts of streamed uploads.
    pub part_size: Option<usize>,
    /// Parts of one streamed upload in flight.
    pub concurrency: Option<usize>,
}

/// All names that `set` takes.
pub(crate) const NAMES: &[&str] = &[
    "access-key-id",
    "bucket",
    "ca-file",
    "concurrency",
    "endpoint",
    "part-size",
    "path",
    "region",
    "secret-access-key",
    "session-token",
    "skip-verify",
];

/// The region that a server of the service has in its name, `oss-REGION[-internal].aliyuncs.com`.
pub(super) fn region_of(host: &str) -> Option<&str> {
    let region = host.strip_suffix(".aliyuncs.com")?.strip_prefix("oss-")?;
    let region = region.strip_suffix("-internal").unwrap_or(region);
    is_region(region).then_some(region)
}

fn is_region(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

impl OssSettings {
    /// The region to sign for.
    pub(super) fn region(&self) -> String {
        let of_server =
            || self.endpoint.as_deref().and_then(|endpoint| region_of(host_of(endpoint))).map(str::to_owned);
        self.region.clone().or_else(of_server).unwrap_or_else(|| REGION.to_owned())
    }

    /// The server of the region, or the one that is set.
    pub(super) fn server(&self) -> String {
        self.endpoint.clone().unwrap_or_else(|| format!("https://oss-{}.aliyuncs.com", self.region()))
    }
}

impl PlaceSettings for OssSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if value.chars().any(char::is_control) {
            return Err(wrong(&name, "it holds a control character", "remove it"));
        }
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        match name.as_str() {
            "bucket" => value.clone_into(&mut self.bucket),
            "path" => self.path = clean_path(value),
            "region" if !value.is_empty() && !is_region(value) => {
                return Err(wrong("region", "this is no region", "write one such as cn-hangzhou"));
            }
            "region" => self.region = text(),
            "endpoint" => self.endpoint = if value.is_empty() { None } else { Some(endpoint(value)?) },
            "access-key-id" => self.access_key_id = secret(),
            "secret-access-key" => self.secret_access_key = secret(),
            "session-token" => self.session_token = secret(),
            "ca-file" => self.ca_file = text(),
            "skip-verify" => self.skip_verify = boolean(&name, value)?,
            "part-size" => self.part_size = Some(part_size(value)?),
            "concurrency" => self.concurrency = Some(concurrency(value)?),
            _ => return Err(unknown("setting", &name, NAMES)),
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "access-key-id" | "secret-access-key" | "session-token" => self.access_key_id.is_some(),
            "ca-file" => self.ca_file.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "endpoint" => self.endpoint.is_some(),
            "part-size" => self.part_size.is_some(),
            "region" => self.region.is_some(),
            _ => false,
        }
    }

    /// Names of buckets are checked as the manual has them ("Bucket naming conventions").
    fn check(&self) -> Result<(), Error> {
        let bucket = &self.bucket;
        let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if bucket.is_empty() {
            return Err(wrong("bucket", "there is no bucket", "write oss://BUCKET/PATH"));
        }
        let plain = bucket.chars().all(|c| edge(c) || c == '-');
        if !plain || !(3..=63).contains(&bucket.len()) || !bucket.starts_with(edge) || !bucket.ends_with(edge) {
            let next = "use 3 to 63 small letters, digits and `-`";
            return Err(wrong("bucket", "this is no bucket's name", next));
        }
        if self.path.len() > 500 {
            return Err(wrong("path", "it is longer than 500 bytes", "use a shorter one"));
        }
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            let next = "give access-key-id and secret-access-key";
            return Err(wrong("access-key-id", "half of the credentials is missing", next));
        }
        Ok(())
    }

    fn url(&self) -> String {
        format!("oss://{}/{}", self.bucket, self.path)
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read() {
        for name in NAMES {
            let value = match *name {
                "endpoint" => "https://h",
                "skip-verify" => "true",
                "part-size" => "6MiB",
                "concurrency" => "3",
                _ => "x",
            };
            assert_eq!(OssSettings::default().set(name, value), Ok(()), "{name}");
        }
    }
}
