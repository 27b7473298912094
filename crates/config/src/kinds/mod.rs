//! What configurations know of each kind of store with a server: the names of its settings. The vault knows what they
//! mean and checks their values (`seawall_vault::PlaceSettings`).
//!
//! To add a kind: a file here with its `KIND`, and a line in [`ALL`].

mod abs;
mod b2;
mod gs;
mod nats;
mod oss;
mod s3;
mod sftp;
mod webdav;

use seawall_vault::Scheme;

use crate::place::Keys;

/// All kinds, in the order in which messages list them.
pub const ALL: &[&Kind] =
    &[&s3::KIND, &abs::KIND, &gs::KIND, &oss::KIND, &b2::KIND, &sftp::KIND, &webdav::KIND, &nats::KIND];

/// The settings of one kind of store, by their names.
#[derive(Debug)]
pub struct Kind {
    /// The kind. The section with its settings has the scheme's name.
    pub scheme: Scheme,
    /// Settings that have one name in our own format and in Litestream's.
    pub common: &'static [&'static str],
    /// Settings that our own format has besides.
    pub native: &'static [&'static str],
    /// Settings of our own format that name files; relative paths begin where the configuration is.
    pub files: &'static [&'static str],
    /// What Litestream's format has, if Litestream knows the kind.
    pub litestream: Option<Litestream>,
}

/// A type of replica of Litestream.
#[derive(Debug)]
pub struct Litestream {
    /// The replica's `type`, then further schemes of its URLs.
    pub schemes: &'static [&'static str],
    /// Keys besides [`Kind::common`], each with the setting that it means.
    pub keys: &'static [(&'static str, &'static str)],
    /// The URL of a replica that has separate keys instead of one.
    ///
    /// # Errors
    /// The name of a key that is missing.
    pub url: fn(&Separate<'_>) -> Result<String, &'static str>,
}

/// The keys of a replica that has no URL.
#[derive(Debug)]
pub struct Separate<'a> {
    /// `bucket`.
    pub bucket: Option<&'a str>,
    /// `path`.
    pub path: Option<&'a str>,
    /// The settings of the kind. Some are secrets.
    pub settings: &'a Keys,
}

impl Separate<'_> {
    /// A bucket and a path, as most kinds have them.
    fn in_bucket(&self, scheme: &str) -> Result<String, &'static str> {
        let bucket = self.bucket.ok_or("bucket")?;
        Ok(format!("{scheme}://{bucket}/{}", encoded(self.path.unwrap_or_default())))
    }
}

/// A path as it stands in a URL, where `?`, `#` and `%` mean something.
fn encoded(path: &str) -> String {
    path.trim_start_matches('/').replace('%', "%25").replace('?', "%3F").replace('#', "%23")
}

/// The kind that Litestream names by a scheme of a URL.
pub fn of_litestream(scheme: &str) -> Option<(&'static Kind, &'static Litestream)> {
    let mut known = ALL.iter().filter_map(|kind| Some((*kind, kind.litestream.as_ref()?)));
    known.find(|(_, litestream)| litestream.schemes.contains(&scheme))
}

/// The URL of a replica whose bucket stands beside a URL that has none, which Litestream takes for NATS.
pub fn with_bucket(url: &str, bucket: &str) -> Option<String> {
    nats::with_bucket(url, bucket)
}

/// The types of replicas that are taken, as a list for people that ends with `last` before the last one.
pub fn litestream_types(last: &str) -> String {
    let kinds = ALL.iter().filter_map(|kind| kind.litestream.as_ref()?.schemes.first().copied());
    let mut names: Vec<&str> = std::iter::once("file").chain(kinds).collect();
    let end = names.pop().unwrap_or_default();
    format!("{} {last} {end}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seawall_vault::VaultUrl;

    use super::*;

    #[test]
    fn each_kind_with_settings_is_here_once() {
        let here: Vec<Scheme> = ALL.iter().map(|kind| kind.scheme).collect();
        let mut all: BTreeSet<Scheme> = Scheme::ALL.iter().copied().collect();
        all.remove(&Scheme::File);
        assert_eq!(here.len(), all.len());
        assert_eq!(here.into_iter().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn the_vault_knows_every_name() {
        for kind in ALL {
            let of_litestream = kind.litestream.iter().flat_map(|litestream| litestream.keys).map(|(_, name)| name);
            for name in kind.common.iter().chain(kind.native).chain(kind.files).chain(of_litestream) {
                let text = format!("{}://place/path", kind.scheme);
                let mut url = VaultUrl::parse(&text).expect("the kind's simplest URL");
                let known = url.settings_mut().expect("settings").set(name, "");
                let unknown = known.is_err_and(|error| error.to_string().contains("no such setting"));
                assert!(!unknown, "{} has no setting {name}", kind.scheme);
            }
        }
    }
}
