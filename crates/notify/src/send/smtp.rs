//! Sends a mail.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use super::{Again, Trouble, reveal};
use crate::channel::{Security, Smtp};
use crate::message::Message;

/// Letters of a mail, at most.
const LONGEST: usize = 100_000;

/// Sends it once.
pub(crate) async fn send(server: &Smtp, message: &Message, limit: Duration) -> Result<(), Trouble> {
    let mail = written(server, message)?;
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
        .port(server.port)
        .timeout(Some(limit))
        .tls(match server.security {
            Security::Plain => Tls::None,
            Security::StartTls => Tls::Required(trust(server).await?),
            Security::Tls => Tls::Wrapper(trust(server).await?),
        });
    if let Some(domain) = domain_of(&message.host) {
        builder = builder.hello_name(ClientId::Domain(domain));
    }
    if let Some((user, password)) = &server.login {
        builder = builder.credentials(Credentials::new(user.clone(), reveal(password).await?));
    }
    let transport = builder.build();
    let sent = tokio::time::timeout(limit, transport.send(mail)).await;
    match sent {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(trouble(&error)),
        Err(_) => Err(late()),
    }
}

/// Which servers are trusted.
async fn trust(server: &Smtp) -> Result<TlsParameters, Trouble> {
    let unusable = |cause: String| {
        Trouble::new(cause, "make ca-file name a file of PEM certificates that can be read", Again::Later)
    };
    let mut builder = TlsParameters::builder(server.host.clone());
    if let Some(file) = &server.authorities {
        let path = file.clone();
        let pem = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let pem = pem.map_err(|error| unusable(error.to_string()))?;
        let pem = pem.map_err(|error| unusable(format!("{}: {error}", file.display())))?;
        let wrong = |_| unusable(format!("{}: there are no certificates in it", file.display()));
        builder = builder.add_root_certificate(Certificate::from_pem(&pem).map_err(wrong)?);
    }
    builder.build_rustls().map_err(|error| unusable(format!("TLS can't be set up: {error}")))
}

/// The mail. Nothing of a message can become a header: its title is one line, and the library encodes it.
fn written(server: &Smtp, message: &Message) -> Result<Mail, Trouble> {
    let address = |text: &String| {
        let wrong = |_| Trouble::new("no address of a mail", "correct from and to", Again::Later);
        text.parse::<Mailbox>().map_err(wrong)
    };
    let domain = domain_of(&message.host).unwrap_or_else(|| "localhost".to_owned());
    let mut builder = Mail::builder()
        .from(address(&server.from)?)
        .subject(&message.title)
        .message_id(Some(format!("<{}@{domain}>", message.id)))
        .header(ContentType::TEXT_PLAIN)
        // No holiday notice comes back.
        .raw_header(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned()));
    for to in &server.to {
        builder = builder.to(address(to)?);
    }
    let mut text = vec![message.title.clone(), String::new()];
    text.extend(message.lines(LONGEST));
    let body = text.join("\r\n") + "\r\n";
    builder.body(body).map_err(|error| Trouble::new(error.to_string(), "correct from and to", Again::Later))
}

/// The host as a name in a mail, if it can be one.
fn domain_of(host: &str) -> Option<String> {
    let is_plain = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    is_plain.then(|| host.to_owned())
}

/// What an error means. A server's own words aren't shown: it could repeat a password.
fn trouble(error: &lettre::transport::smtp::Error) -> Trouble {
    if error.is_timeout() {
        return late();
    }
    if let Some(code) = error.status() {
        let code = u16::from(code);
        let cause = format!("the server answers {code}");
        return match code {
            530 | 534 | 535 | 538 => Trouble::new(cause, "give the user and the password that it takes", Again::Later),
            500.. => Trouble::new(cause, "look into the server's log for the reason", Again::Later),
            _ => Trouble::new(cause, "look whether the server is well", Again::Soon),
        };
    }
    if error.is_tls() {
        return Trouble::new(causes(error), "look whether tls and ca-file fit to the server", Again::Later);
    }
    if error.is_client() {
        let next = "look whether the server offers STARTTLS and a way to log in, or correct tls";
        return Trouble::new("it doesn't offer what is asked for", next, Again::Later);
    }
    if error.is_response() {
        return Trouble::new("it doesn't speak SMTP", "look whether host, port and tls are right", Again::Later);
    }
    Trouble::new(causes(error), "look whether the server is up and can be reached", Again::Soon)
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn late() -> Trouble {
    Trouble::new("no answer in time", "look whether the server is up and can be reached", Again::Soon)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Event;
    use crate::message::tests::message;

    fn server(to: &[&str]) -> Smtp {
        Smtp {
            host: "mail.example".to_owned(),
            port: 25,
            security: Security::Plain,
            authorities: None,
            login: None,
            from: "Seawall <seawall@example.org>".to_owned(),
            to: to.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn a_name_is_no_header() {
        let hostile = message(Event::Raised, &["a\r\nBcc: evil@example.org\r\n\r\nHello", "ä"]);
        let mail = written(&server(&["ops@example.org", "b@example.org"]), &hostile).expect("a mail");
        let text = String::from_utf8(mail.formatted()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("Subject: Seawall on db1: critical: 2 alarms"), "{head}");
        assert!(head.contains("To: ops@example.org, b@example.org"), "{head}");
        assert!(!head.lines().any(|line| line.to_ascii_lowercase().starts_with("bcc")), "{head}");
        assert!(head.contains("Auto-Submitted: auto-generated") && head.contains(&hostile.id), "{head}");
        assert!(body.contains("evil@example.org"), "it is a part of the name: {body}");
        assert_eq!(mail.envelope().to().len(), 2);
        let one = message(Event::Raised, &["a\r\nBcc: evil@example.org"]);
        let text = String::from_utf8(written(&server(&["a@example.org"]), &one).expect("a mail").formatted());
        let text = text.expect("text");
        let (head, _) = text.split_once("\r\n\r\n").expect("a head");
        assert!(!head.lines().any(|line| line.to_ascii_lowercase().starts_with("bcc")), "{head}");
        assert!(written(&server(&["nobody"]), &one).is_err());
    }
}
