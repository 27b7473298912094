//! Makes a container, if the settings ask for it: the one request that OpenDAL doesn't have (Azure's "Create Container").

use http::{Method, Request, StatusCode, header};
use opendal_core::{Buffer, HttpTransporter};
use reqsign_azure_storage::{Credential, RequestSigner};
use reqsign_core::{Context, SignRequest as _};

use super::credentials::{self, Source};
use crate::Error;
use crate::text::wrong;

/// The version of the protocol.
const VERSION: &str = "2022-11-02";

/// The credential of a source that is given.
pub(super) async fn credential(source: &Source, account: Option<&str>) -> Result<Credential, Error> {
    let account = account.unwrap_or_default();
    match source {
        Source::Key(key) => Ok(Credential::with_shared_key(account, key.reveal())),
        Source::Signature(token) => Ok(Credential::with_sas_token(token.reveal())),
        Source::File(file) => {
            let key = credentials::key_of(file).await;
            let key = key.map_err(|cause| wrong("account-key-file", &cause, "check the file"))?;
            Ok(Credential::with_shared_key(account, key.reveal()))
        }
        Source::Ambient => {
            let cause = "a container is only made with a key that is given";
            Err(wrong("create-container", cause, "make the container yourself, and leave this setting away"))
        }
    }
}

/// Makes the container, unless it exists.
pub(super) async fn make(
    transport: &HttpTransporter,
    address: &str,
    name: &str,
    credential: &Credential,
    url: &str,
) -> Result<(), Error> {
    let away = |cause: String| Error::Unavailable { object: url.to_owned(), cause, retryable: true };
    let request = Request::builder()
        .method(Method::PUT)
        .uri(format!("{address}/{name}?restype=container"))
        .header("x-ms-version", VERSION)
        .header(header::CONTENT_LENGTH, 0)
        .body(Buffer::new());
    let request = request.map_err(|error| wrong("endpoint", &error.to_string(), "check the endpoint"))?;
    let (mut head, body) = request.into_parts();
    let signed = RequestSigner::new().sign_request(&Context::new(), &mut head, Some(credential), None).await;
    signed.map_err(|error| wrong("create-container", &error.to_string(), "check the credentials"))?;
    let answer = transport.send(Request::from_parts(head, body)).await;
    let answer = answer.map_err(|error| away(format!("the container can't be asked for: {}", error.message())))?;
    match answer.status() {
        StatusCode::CREATED => {
            tracing::info!(container = name, "made the container");
            Ok(())
        }
        StatusCode::CONFLICT => Ok(()),
        status => {
            let cause = format!("the container isn't there, and the server refused to make it ({status})");
            Err(Error::Missing { object: url.to_owned(), cause })
        }
    }
}
