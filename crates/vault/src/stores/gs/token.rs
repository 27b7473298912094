//! Exchanges the key of a service account, or the login of a user, for a token (RFC 7523 and RFC 6749, section 6).
//!
//! The signer's own exchange asks for a token with each request, and asks Google also where the file names another server.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, jwt};
use reqsign_google::{Credential, Token};
use serde_json::{Map, Value, json};

use crate::stores::cloud::endpoint::{host_of, is_private};

/// What the token is for.
pub(super) const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// The server that exchanges, where the file names none.
const SERVER: &str = "https://oauth2.googleapis.com/token";

/// How long an assertion holds.
const HOLDS: i64 = 3600;

/// The longest that a token is used before the file is read again.
const LONGEST: u64 = 3600;

type Document = Map<String, Value>;

/// A token for a service account.
pub(super) async fn of_service_account(context: &Context, document: &Document) -> Result<Credential, String> {
    let (server, email, key) = (server(document)?, text(document, "client_email")?, text(document, "private_key")?);
    let now = Timestamp::now().as_second();
    let claims = json!({ "iss": email, "scope": SCOPE, "aud": server, "iat": now, "exp": now + HOLDS });
    let assertion = jwt::encode_rs256_pem(&json!({ "alg": "RS256", "typ": "JWT" }), &claims, key.as_bytes());
    let assertion = assertion.map_err(|_| "private_key is no RSA key in PKCS#8".to_owned())?;
    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    exchange(context, &server, &[("grant_type", grant), ("assertion", &assertion)]).await
}

/// A token for a user that has logged in.
pub(super) async fn of_user(context: &Context, document: &Document) -> Result<Credential, String> {
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", text(document, "client_id")?),
        ("client_secret", text(document, "client_secret")?),
        ("refresh_token", text(document, "refresh_token")?),
    ];
    exchange(context, &server(document)?, &form).await
}

fn text<'a>(document: &'a Document, name: &str) -> Result<&'a str, String> {
    let found = document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    found.ok_or_else(|| format!("there is no {name}"))
}

/// The server that exchanges. A secret goes there, so it must be one that is reached by TLS, or near.
fn server(document: &Document) -> Result<String, String> {
    let server = document.get("token_uri").and_then(Value::as_str).unwrap_or(SERVER);
    let near = server.starts_with("http://") && is_private(host_of(server));
    if server.starts_with("https://") || near {
        Ok(server.to_owned())
    } else {
        Err("token_uri has no https".to_owned())
    }
}

async fn exchange(context: &Context, server: &str, form: &[(&str, &str)]) -> Result<Credential, String> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request = Request::builder().method(Method::POST).uri(server);
    let request =
        request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body.into_bytes().into());
    let request = request.map_err(|error| format!("token_uri: {error}"))?;
    let answer = context.http_send(request).await.map_err(|error| format!("{server}: {error}"))?;
    let document: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    if answer.status() != StatusCode::OK {
        // Such as `invalid_grant`: a word of the protocol.
        let code = document.get("error").and_then(Value::as_str).unwrap_or("no reason");
        let code: String =
            code.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == ' ').take(60).collect();
        return Err(format!("{server} refused a token ({}: {code})", answer.status()));
    }
    let token = document.get("access_token").and_then(Value::as_str).filter(|token| !token.is_empty());
    let access_token = token.ok_or_else(|| format!("{server} answered without a token"))?.to_owned();
    let lasts = document.get("expires_in").and_then(Value::as_u64).unwrap_or(LONGEST).min(LONGEST);
    let expires_at = Some(Timestamp::now() + Duration::from_secs(lasts));
    Ok(Credential::with_token(Token { access_token, expires_at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_servers_with_tls_or_near_ones() {
        for (uri, sound) in [
            (json!(null), true),
            (json!("https://oauth2.googleapis.com/token"), true),
            (json!("http://127.0.0.1:99/token"), true),
            (json!("http://localhost/token"), true),
            (json!("http://oauth2.example.com/token"), false),
            (json!("http://oauth2.example.com/127.0.0.1"), false),
            (json!("ftp://127.0.0.1/"), false),
            (json!(""), false),
        ] {
            let document = Map::from_iter([("token_uri".to_owned(), uri.clone())]);
            assert_eq!(server(&document).is_ok(), sound, "{uri}");
        }
    }
}
