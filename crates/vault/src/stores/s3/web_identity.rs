//! The role that a web identity stands for, also where another server than AWS's own gives it (`AWS_ENDPOINT_URL_STS`).

use bytes::Bytes;
use http::{Request, Response, Uri};
use reqsign_aws_v4::{AssumeRoleWithWebIdentityCredentialProvider, Credential};
use reqsign_core::{Context, Error, HttpSend, ProvideCredential, Result};

use crate::stores::cloud::endpoint::{host_of, is_private};

/// The variable that names the server.
const SERVER: &str = "AWS_ENDPOINT_URL_STS";

/// Asks for the role.
#[derive(Debug)]
pub(super) struct WebIdentity;

impl ProvideCredential for WebIdentity {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> Result<Option<Credential>> {
        let role = AssumeRoleWithWebIdentityCredentialProvider::new();
        let Some(server) = context.env_var(SERVER).filter(|server| !server.is_empty()) else {
            return role.provide_credential(context).await;
        };
        let near = server.starts_with("http://") && is_private(host_of(&server));
        if !server.starts_with("https://") && !near {
            return Err(Error::config_invalid(format!("{SERVER} has no https")));
        }
        let to = To { server: server.trim_end_matches('/').to_owned(), context: context.clone() };
        role.provide_credential(&context.clone().with_http_send(to)).await
    }
}

/// Sends requests to another server.
#[derive(Debug)]
struct To {
    server: String,
    context: Context,
}

impl HttpSend for To {
    async fn http_send(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>> {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let uri = format!("{}{target}", self.server).parse::<Uri>();
        *request.uri_mut() = uri.map_err(|error| Error::config_invalid(format!("{SERVER}: {error}")))?;
        request.headers_mut().remove(http::header::HOST);
        self.context.http_send(request).await
    }
}
