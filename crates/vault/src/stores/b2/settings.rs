//! The settings of a place in Backblaze B2: those of S3 that make sense there.

use crate::stores::s3::settings::S3Settings;
use crate::text::{kebab, unknown, wrong};
use crate::{Environment, Error, PlaceSettings};

/// Where a place in Backblaze B2 is, its keys, and its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct B2Settings {
    /// What S3 has for it. The server is complete here.
    s3: S3Settings,
    /// Whether a setting names the server.
    of_own: bool,
}

/// All names that `set` takes.
pub(crate) const NAMES: &[&str] = &[
    "access-key-id",
    "access-key-id-file",
    "bucket",
    "ca-file",
    "checksums",
    "concurrency",
    "endpoint",
    "object-lock-keep",
    "part-size",
    "path",
    "region",
    "secret-access-key",
    "secret-access-key-file",
    "skip-verify",
];

impl B2Settings {
    /// The place as one of S3, with the keys of the environment where no others are given.
    ///
    /// # Errors
    /// There are no keys.
    pub(super) fn to_s3(&self, environment: &Environment) -> Result<S3Settings, Error> {
        let mut s3 = self.s3.clone();
        if !s3.is_set("access-key-id") {
            let (id, key) = ("B2_APPLICATION_KEY_ID", "B2_APPLICATION_KEY");
            let (Some(id), Some(key)) = (environment.get(id), environment.get(key)) else {
                let next =
                    "give access-key-id and secret-access-key, or set B2_APPLICATION_KEY_ID and B2_APPLICATION_KEY";
                return Err(wrong(&self.url(), "there are no keys", next));
            };
            s3.set("access-key-id", id)?;
            s3.set("secret-access-key", key)?;
        }
        Ok(s3)
    }
}

impl PlaceSettings for B2Settings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let name = kebab(name);
        if !NAMES.contains(&name.as_str()) {
            return Err(unknown("setting", &name, NAMES));
        }
        if name == "region" && !value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(wrong(
                "region",
                "this is no region",
                "write one as in the bucket's endpoint, such as us-west-004",
            ));
        }
        self.s3.set(&name, value)?;
        match (name.as_str(), &self.s3.region) {
            ("endpoint", _) => self.of_own = self.s3.endpoint.is_some(),
            ("region", Some(region)) if !self.of_own => {
                self.s3.endpoint = Some(format!("https://s3.{region}.backblazeb2.com"));
            }
            _ => {}
        }
        Ok(())
    }

    fn is_set(&self, name: &str) -> bool {
        match name {
            "endpoint" => self.of_own,
            name => self.s3.is_set(name),
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.s3.check()
    }

    fn url(&self) -> String {
        format!("b2://{}/{}", self.s3.bucket, self.s3.path)
    }

    fn path(&self) -> &str {
        &self.s3.path
    }

    fn endpoint(&self) -> Option<&str> {
        self.s3.endpoint.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_settings_or_from_b2s_own_variables() {
        let environment = |names: &[&str]| -> Environment {
            names.iter().map(|name| ((*name).to_owned(), format!("of {name}"))).collect()
        };
        let both = ["B2_APPLICATION_KEY_ID", "B2_APPLICATION_KEY"];
        let mut settings = B2Settings::default();
        assert!(
            settings.to_s3(&environment(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])).is_err(),
            "another identity"
        );
        assert!(settings.to_s3(&environment(&both[..1])).is_err());
        let found = settings.to_s3(&environment(&both)).expect("keys");
        assert_eq!(found.access_key_id.expect("an id").reveal(), "of B2_APPLICATION_KEY_ID");
        settings.set("access-key-id", "own").expect("a setting");
        settings.set("secret-access-key", "own").expect("a setting");
        assert_eq!(settings.to_s3(&environment(&both)).expect("keys").access_key_id.expect("an id").reveal(), "own");
    }
}
