//! Makes a bucket, if the settings ask for it: the one request that OpenDAL doesn't have.

use http::{Method, Request, StatusCode, header};
use opendal_core::{Buffer, HttpTransporter};
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, ProvideCredential, SignRequest as _};

use super::connect::Decided;
use super::credentials::Source;
use super::provider::amazon_server;
use super::settings::S3Settings;
use crate::Error;
use crate::text::wrong;

/// The region of a bucket for which none is configured.
const FIRST: &str = "us-east-1";

/// A bucket that may have to be made.
pub(super) struct Bucket<'a> {
    pub(super) settings: &'a S3Settings,
    pub(super) decided: &'a Decided,
    pub(super) region: &'a str,
    /// The place, for people.
    pub(super) url: &'a str,
}

impl Bucket<'_> {
    /// Makes the bucket, unless it exists. If anything else is wrong with it, the next request tells.
    pub(super) async fn make(&self, transport: &HttpTransporter, source: Source) -> Result<(), Error> {
        let credential = self.credential(source).await?;
        let there = self.ask(transport, &credential, Method::HEAD, Buffer::new()).await?;
        if there != StatusCode::NOT_FOUND {
            return Ok(());
        }
        let made = self.ask(transport, &credential, Method::PUT, Buffer::from(body(self.region))).await?;
        // Another process was quicker.
        if made.is_success() || made == StatusCode::CONFLICT {
            tracing::info!(bucket = self.settings.bucket, "made the bucket");
            return Ok(());
        }
        let cause = format!("the bucket isn't there, and the server refused to make it ({made})");
        Err(Error::Missing { object: self.url.to_owned(), cause })
    }

    async fn credential(&self, source: Source) -> Result<Credential, Error> {
        match source {
            Source::Keys { id, key, token } => Ok(Credential {
                access_key_id: id.reveal().to_owned(),
                secret_access_key: key.reveal().to_owned(),
                session_token: token.map(|token| token.reveal().to_owned()),
                expires_in: None,
            }),
            Source::Files(files) => {
                let read = files.provide_credential(&Context::new()).await;
                let unreadable = |cause: String| wrong("access-key-id-file", &cause, "check the key files");
                read.map_err(|error| unreadable(error.to_string()))?.ok_or_else(|| unreadable("no keys".to_owned()))
            }
            Source::Profile(_) | Source::Ambient => {
                let cause = "a bucket is only made with keys that are given";
                Err(wrong("create-bucket", cause, "make the bucket yourself, and leave this setting away"))
            }
        }
    }

    async fn ask(
        &self,
        transport: &HttpTransporter,
        credential: &Credential,
        method: Method,
        body: Buffer,
    ) -> Result<StatusCode, Error> {
        let away = |cause: String| Error::Unavailable { object: self.url.to_owned(), cause, retryable: true };
        let request = Request::builder().method(method).uri(self.address()).header(header::CONTENT_LENGTH, body.len());
        let request =
            request.body(body).map_err(|error| wrong("endpoint", &error.to_string(), "check the endpoint"))?;
        let (mut head, body) = request.into_parts();
        let signer = RequestSigner::new("s3", self.region);
        let signed = signer.sign_request(&Context::new(), &mut head, Some(credential), None).await;
        signed.map_err(|error| wrong("create-bucket", &error.to_string(), "check the credentials"))?;
        let answer = transport.send(Request::from_parts(head, body)).await;
        Ok(answer.map_err(|error| away(format!("the bucket can't be asked for: {}", error.message())))?.status())
    }

    fn address(&self) -> String {
        address(&self.settings.bucket, self.decided.endpoint.as_deref(), self.region, self.decided.virtual_host)
    }
}

/// The bucket's address: in the path, or in the host's name. AWS makes a bucket only at the region's own server.
pub(super) fn address(bucket: &str, endpoint: Option<&str>, region: &str, virtual_host: bool) -> String {
    let server = endpoint.map_or_else(|| amazon_server(region), str::to_owned);
    match server.split_once("://") {
        Some((scheme, host)) if virtual_host => format!("{scheme}://{bucket}.{host}/"),
        _ => format!("{server}/{bucket}"),
    }
}

/// The region of a bucket that may have to be made, from AWS's answer to the question for it. A bucket that doesn't
/// exist yet is made in the first region.
pub(super) fn region_for(asked: Result<String, Error>) -> Result<String, Error> {
    match asked {
        Err(Error::Missing { .. }) => Ok(FIRST.to_owned()),
        asked => asked,
    }
}

/// The body of the request, with the region; the first region has no name there.
fn body(region: &str) -> String {
    if region == FIRST || region == "auto" {
        return String::new();
    }
    let region: String = region.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    format!(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_asked_of_the_server_of_its_region() {
        let at = |endpoint, region, virtual_host| address("b", endpoint, region, virtual_host);
        assert_eq!(at(None, "us-east-1", true), "https://b.s3.us-east-1.amazonaws.com/");
        assert_eq!(at(None, "eu-west-1", true), "https://b.s3.eu-west-1.amazonaws.com/");
        assert_eq!(at(None, "eu-west-1", false), "https://s3.eu-west-1.amazonaws.com/b");
        assert_eq!(at(None, "cn-north-1", true), "https://b.s3.cn-north-1.amazonaws.com.cn/");
        assert_eq!(at(Some("http://localhost:9000"), "eu-west-1", false), "http://localhost:9000/b");
        assert_eq!(at(Some("https://h"), "eu-west-1", true), "https://b.h/");
    }

    #[test]
    fn a_bucket_that_is_not_there_has_the_first_region() {
        let missing = || Error::Missing { object: "s3://b".into(), cause: "the bucket does not exist".into() };
        let away = || Error::Unavailable { object: "s3://b".into(), cause: "no route".into(), retryable: true };
        assert_eq!(region_for(Ok("eu-west-1".into())), Ok("eu-west-1".into()));
        assert_eq!(region_for(Err(missing())), Ok("us-east-1".into()));
        assert_eq!(region_for(Err(away())), Err(away()));
    }

    #[test]
    fn only_regions_with_a_name_are_named() {
        assert_eq!((body("us-east-1"), body("auto")), (String::new(), String::new()));
        assert!(body("eu-west-1<x>").contains("<LocationConstraint>eu-west-1x</LocationConstraint>"));
    }
}
