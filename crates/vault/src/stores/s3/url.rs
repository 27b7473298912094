//! `s3://…` in all of Litestream's forms.

use super::provider::{self, BucketAddress};
use super::settings::S3Settings;
use crate::place::apply_query;
use crate::text::{clean_path, decode, wrong};
use crate::{Error, PlaceSettings};

/// Reads the text after `s3://`.
pub(crate) fn parse(_scheme: &str, rest: &str) -> Result<S3Settings, Error> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, authority) =
        authority.rsplit_once('@').map_or((None, authority), |(user, authority)| (Some(user), authority));
    let path = decode(path, "path")?;
    let mut settings = S3Settings::default();
    let (place, path) = if authority.starts_with("arn:") {
        let (name, path) = path.split_once('/').unwrap_or((&path, ""));
        let next = "write s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/PATH";
        let place =
            provider::access_point(authority, name).ok_or_else(|| wrong("bucket", "this is no access point", next))?;
        (place, path.to_owned())
    } else {
        let next = "write s3://BUCKET/PATH or s3://BUCKET.HOST:PORT/PATH";
        let place = provider::place(authority).ok_or_else(|| wrong("bucket", "there is no bucket", next))?;
        (place, path)
    };
    apply(&mut settings, place)?;
    settings.path = clean_path(&path);
    if let Some(user) = user {
        let (id, secret) = user.split_once(':').unwrap_or((user, ""));
        settings.set("access-key-id", &decode(id, "user")?)?;
        settings.set("secret-access-key", &decode(secret, "user")?)?;
    }
    apply_query(&mut settings, query, &["bucket", "path"])?;
    settings.check()?;
    Ok(settings)
}

fn apply(settings: &mut S3Settings, place: BucketAddress) -> Result<(), Error> {
    settings.bucket = place.bucket;
    settings.region = place.region;
    settings.force_path_style = place.path_style;
    if let Some(endpoint) = place.endpoint {
        settings.set("endpoint", &endpoint)?;
    }
    Ok(())
}
