//! Reads `notify` of a configuration. Strict: an unknown key is an error, and no text that could be a secret is shown.

use std::path::Path;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use lettre::message::Mailbox;
use seawall_config::absolute;
use seawall_config::document::{Node, Value};
use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_config::pattern::Pattern;
use seawall_core::Severity;
use seawall_vault::Secret;

use crate::channel::{Channel, Held, Security, Smtp, Template, Way};
use crate::payload::{Escape, Text, topic_of};

/// An alarm that ended isn't told again for this long, unless something else is said.
const INTERVAL: Duration = Duration::from_secs(900);

/// How long one attempt may take, unless something else is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the channels, if there are any; files are relative to `here`.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(top: &mut Fields, here: &Path) -> Result<Vec<Channel>, Location> {
    let mut channels: Vec<(usize, Channel)> = Vec::new();
    for node in top.list("notify")?.map(|at| at.value).unwrap_or_default() {
        let fields = Fields::new("notify", node)?;
        let line = fields.line;
        let channel = channel(fields, here)?;
        if let Some((first, _)) = channels.iter().find(|(_, known)| known.name == channel.name) {
            return Err(Problem::Duplicate { what: format!("the name \"{}\"", channel.name), first: *first }.at(line));
        }
        channels.push((line, channel));
    }
    Ok(channels.into_iter().map(|(_, channel)| channel).collect())
}

fn channel(mut fields: Fields, here: &Path) -> Result<Channel, Location> {
    let kinds = "webhook, slack, discord, teams, ntfy, template, smtp or command";
    let kind = fields.text("type")?.ok_or_else(|| fields.missing("type"))?;
    let way = match kind.value.as_str() {
        "webhook" => {
            Way::Webhook { url: url(&mut fields, here)?, secret: held(&mut fields, ("secret", "secret-file"), here)? }
        }
        "slack" => Way::Slack(url(&mut fields, here)?),
        "discord" => Way::Discord(url(&mut fields, here)?),
        "teams" => Way::Teams(url(&mut fields, here)?),
        "ntfy" => ntfy(&mut fields, here)?,
        "template" => template(&mut fields, here)?,
        "smtp" => smtp(&mut fields, here)?,
        "command" => Way::Command(command(&mut fields)?),
        other => return Err(value("type", format!("takes {kinds}"), format!("\"{other}\"")).at(kind.line)),
    };
    let name = fields.parsed("name", "letters, digits, \".\", \"_\" and \"-\"", |text| {
        seawall_config::is_name(text).then(|| text.to_owned())
    })?;
    let severity = fields.parsed("severity", "warning or critical", |text| {
        [Severity::Warning, Severity::Critical].into_iter().find(|severity| severity.name() == text)
    })?;
    let mut databases = Vec::new();
    for At { line, value: text } in fields.texts("databases")? {
        let wrong =
            || value("databases", "takes names or patterns of names".to_owned(), format!("\"{text}\"")).at(line);
        databases.push(Pattern::parse(&text).ok_or_else(wrong)?);
    }
    let interval = fields.positive_duration("interval")?.map_or(INTERVAL, |at| at.value);
    let remind = fields.parsed("remind", "a time of at least 1m", |text| {
        seawall_core::parse_duration(text).filter(|span| *span >= Duration::from_secs(60))
    })?;
    let timeout = fields.parsed("timeout", "a time from 1s to 10m", |text| {
        let range = Duration::from_secs(1)..=Duration::from_secs(600);
        seawall_core::parse_duration(text).filter(|span| range.contains(span))
    })?;
    fields.finish()?;
    Ok(Channel {
        name: name.map_or_else(|| kind.value.clone(), |at| at.value),
        severity: severity.map_or(Severity::Warning, |at| at.value),
        databases,
        interval,
        remind: remind.map(|at| at.value),
        timeout: timeout.map_or(TIMEOUT, |at| at.value),
        way,
    })
}

fn value(key: &str, expected: String, found: impl Into<String>) -> Problem {
    Problem::Value { key: key.to_owned(), expected, found: found.into() }
}

/// Whether a text can be a URL to send to.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty()) && !text.chars().any(|c| c.is_control() || c == ' ')
}

/// A required URL, which often is the secret itself.
fn url(fields: &mut Fields, here: &Path) -> Result<Held, Location> {
    let line = fields.line;
    let url = held(fields, ("url", "url-file"), here)?.ok_or_else(|| fields.missing("url"))?;
    match &url {
        Held::Here(text) if !is_url(text.reveal()) => {
            let expected = "takes a URL that begins with https:// or http://".to_owned();
            Err(value("url", expected, "something else").at(line))
        }
        _ => Ok(url),
    }
}

/// A secret, or the file that holds it.
fn held(fields: &mut Fields, keys: (&'static str, &'static str), here: &Path) -> Result<Option<Held>, Location> {
    let (own, file) = (fields.text(keys.0)?, fields.text(keys.1)?);
    match (own, file) {
        (Some(_), Some(At { line, .. })) => {
            Err(Problem::Contradiction(format!("{} and {} are both given", keys.0, keys.1)).at(line))
        }
        (Some(At { line, value: text }), None) if text.trim().is_empty() => {
            Err(value(keys.0, "takes a text".to_owned(), "nothing").at(line))
        }
        (Some(own), None) => Ok(Some(Held::Here(Secret::new(own.value)))),
        (None, file) => Ok(file.map(|at| Held::In(absolute(Path::new(&at.value), here)))),
    }
}

fn ntfy(fields: &mut Fields, here: &Path) -> Result<Way, Location> {
    let (line, url) = (fields.line, url(fields, here)?);
    if let Held::Here(text) = &url
        && topic_of(text.reveal()).is_none()
    {
        let expected = "takes the URL of a topic, such as https://ntfy.example/topic".to_owned();
        return Err(value("url", expected, "something else").at(line));
    }
    Ok(Way::Ntfy { url, token: held(fields, ("token", "token-file"), here)? })
}

fn template(fields: &mut Fields, here: &Path) -> Result<Way, Location> {
    let url = url(fields, here)?;
    let body = fields.text("body")?.ok_or_else(|| fields.missing("body"))?;
    let body = Text::parse(&body.value)
        .map_err(|found| value("body", "takes a text with places".to_owned(), found).at(body.line))?;
    let escape = fields.parsed("escape", "json, form or text", Escape::named)?.map_or(Escape::Json, |at| at.value);
    let mut headers = Vec::new();
    if let Some(Node { line, value: found }) = fields.take("headers") {
        let Value::Map(entries) = found else {
            return Err(value("headers", "takes a mapping of names to values".to_owned(), found.shape()).at(line));
        };
        for entry in entries {
            let is_own = |name: &str| !matches!(name, "content-length" | "content-type" | "host" | "transfer-encoding");
            let name = HeaderName::from_bytes(entry.key.as_bytes()).ok().filter(|name| is_own(name.as_str()));
            let text = match entry.node.value {
                Value::Text(text) if HeaderValue::from_str(&text).is_ok() => Some(text),
                _ => None,
            };
            let (Some(name), Some(text)) = (name, text) else {
                let expected = "takes names and values of headers, each in one line".to_owned();
                return Err(value("headers", expected, "something else").at(entry.line));
            };
            headers.push((name.as_str().to_owned(), Secret::new(text)));
        }
    }
    Ok(Way::Template(Template { url, headers, body, escape }))
}

fn smtp(fields: &mut Fields, here: &Path) -> Result<Way, Location> {
    let line = fields.line;
    let host = fields.parsed("host", "the name of a server", |text| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        (!text.is_empty() && text.chars().all(is_plain)).then(|| text.to_owned())
    })?;
    let host = host.ok_or_else(|| fields.missing("host"))?.value;
    let security = fields.parsed("tls", "tls, starttls or none", |text| match text {
        "tls" => Some(Security::Tls),
        "starttls" => Some(Security::StartTls),
        "none" => Some(Security::Plain),
        _ => None,
    })?;
    let security = security.map_or(Security::StartTls, |at| at.value);
    let port = fields.parsed("port", "a port", |text| text.parse().ok().filter(|port| *port > 0))?;
    let port = port.map_or_else(|| usual_port(security), |at| at.value);
    let user = fields.text("username")?;
    let password = held(fields, ("password", "password-file"), here)?;
    let login = match (user, password) {
        (None, None) => None,
        (Some(At { value: user, .. }), Some(password)) => Some((user, password)),
        _ => return Err(Problem::Contradiction("of username and password only one is given".into()).at(line)),
    };
    if login.is_some() && security == Security::Plain {
        let cause = "tls is none, and a password would be sent without encryption".to_owned();
        return Err(Problem::Contradiction(cause).at(line));
    }
    let authorities = fields.text("ca-file")?.map(|at| absolute(Path::new(&at.value), here));
    let from = fields.text("from")?.ok_or_else(|| fields.missing("from"))?;
    let to = fields.texts("to")?;
    if to.is_empty() {
        return Err(fields.missing("to"));
    }
    for (key, At { line, value: text }) in std::iter::once(("from", &from)).chain(to.iter().map(|to| ("to", to))) {
        if text.parse::<Mailbox>().is_err() {
            let expected = "takes the address of a mailbox, such as ops@example.org".to_owned();
            return Err(value(key, expected, format!("\"{text}\"")).at(*line));
        }
    }
    let to = to.into_iter().map(|at| at.value).collect();
    Ok(Way::Smtp(Smtp { host, port, security, authorities, login, from: from.value, to }))
}

/// The port that a kind of connection usually has.
fn usual_port(security: Security) -> u16 {
    match security {
        Security::Tls => 465,
        Security::StartTls => 587,
        Security::Plain => 25,
    }
}

/// A program with its arguments. Its words aren't shown: they may hold secrets.
fn command(fields: &mut Fields) -> Result<Vec<String>, Location> {
    let line = fields.line;
    let words = fields.texts("command")?;
    let program = words.first().ok_or_else(|| fields.missing("command"))?;
    if program.value.is_empty() || words.iter().any(|word| word.value.contains('\0')) {
        let expected = "takes a list of a program and its arguments".to_owned();
        return Err(value("command", expected, "something else").at(line));
    }
    Ok(words.into_iter().map(|at| at.value).collect())
}

#[cfg(test)]
mod tests {
    use seawall_config::document::parse;

    use super::*;

    fn channels(text: &str) -> Result<Vec<Channel>, Location> {
        let mut fields = Fields::new("the top level", parse(text)?)?;
        let channels = read(&mut fields, Path::new("/etc"))?;
        fields.finish()?;
        Ok(channels)
    }

    #[test]
    fn every_type_is_read() {
        let text = "notify:\n\
            - { type: webhook, name: pager, url: 'https://a.example/hush', secret: hush, severity: critical }\n\
            - { type: slack, url-file: slack.url, databases: [app, 'shop-*'], interval: 5m, remind: 12h, timeout: 5s }\n\
            - { type: discord, url: 'https://d.example/hush' }\n\
            - { type: teams, url: 'https://t.example/hush' }\n\
            - { type: ntfy, url: 'https://ntfy.sh/hush', token: tk_hush }\n\
            - { type: template, url: 'https://p.example', headers: { X-Key: hush }, escape: form, body: 'token=hush&m={{text}}' }\n\
            - { type: smtp, host: mail.example, username: u, password: hush, from: 'S <s@example.org>', to: o@example.org }\n\
            - { type: command, command: [/usr/bin/tell, hush] }\n";
        let read = channels(text).expect("channels");
        let names: Vec<&str> = read.iter().map(|channel| channel.name.as_str()).collect();
        assert_eq!(names, ["pager", "slack", "discord", "teams", "ntfy", "template", "smtp", "command"]);
        assert_eq!((read[0].severity, read[1].severity), (Severity::Critical, Severity::Warning));
        assert_eq!((read[0].interval, read[1].interval), (INTERVAL, Duration::from_secs(300)));
        assert_eq!((read[0].remind, read[1].remind), (None, Some(Duration::from_secs(43_200))));
        assert_eq!((read[0].timeout, read[1].timeout), (TIMEOUT, Duration::from_secs(5)));
        assert!(read[1].concerns("shop-1") && read[1].concerns("app") && !read[1].concerns("web"));
        assert_eq!(read[1].way, Way::Slack(Held::In("/etc/slack.url".into())));
        let Way::Smtp(smtp) = &read[6].way else { panic!("no mail") };
        assert_eq!((smtp.port, smtp.security), (587, Security::StartTls));
        let shown = format!("{:?}", &read[..7]);
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(channels("{}"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_refused_shows_no_secret() {
        for (text, code) in [
            ("{ url: hush }", "type"),
            ("{ type: pigeon, url: hush }", "type"),
            ("{ type: slack }", "url"),
            ("{ type: slack, url: hush }", "url"),
            ("{ type: slack, url: 'https://a.example/hu sh' }", "url"),
            ("{ type: slack, url: 'https://a.example/hush', url-file: x }", "url"),
            ("{ type: slack, url: 'https://a.example/hush', secret: hush }", "secret"),
            ("{ type: webhook, url: 'https://a.example/hush', secret: '' }", "secret"),
            ("{ type: ntfy, url: 'https://ntfy.sh/?hush' }", "url"),
            ("{ type: template, url: 'https://a.example/hush' }", "body"),
            ("{ type: template, url: 'https://a.example/hush', body: 'hush {{hush}}' }", "body"),
            ("{ type: template, url: 'https://a.example/hush', body: x, headers: { 'a b': hush } }", "headers"),
            ("{ type: template, url: 'https://a.example/hush', body: x, headers: { a: \"hush\\nb: c\" } }", "headers"),
            ("{ type: template, url: 'https://a.example/hush', body: x, headers: { Host: hush } }", "headers"),
            ("{ type: smtp, host: m, from: a@b.c, to: d@e.f, password: hush }", "password"),
            ("{ type: smtp, host: m, from: a@b.c, to: d@e.f, username: u, password: hush, tls: none }", "password"),
            ("{ type: smtp, host: m, from: a@b.c }", "to"),
            ("{ type: smtp, host: m, from: nobody, to: d@e.f }", "from"),
            ("{ type: smtp, host: m, from: \"a@b.c\\nBcc: x@y.z\", to: d@e.f }", "from"),
            ("{ type: command }", "command"),
            ("{ type: command, command: [] }", "command"),
            ("{ type: discord, url: 'https://a.example/hush', severity: grave }", "severity"),
            ("{ type: discord, url: 'https://a.example/hush', databases: ['[a'] }", "databases"),
            ("{ type: discord, url: 'https://a.example/hush', remind: 1s }", "remind"),
            ("{ type: discord, url: 'https://a.example/hush', timeout: 1h }", "timeout"),
            ("{ type: discord, url: 'https://a.example/hush', colour: red }", "colour"),
            (
                "{ type: discord, url: 'https://a.example/hush' }\n- { type: discord, url: 'https://b.example' }",
                "discord",
            ),
        ] {
            let location = channels(&format!("notify:\n- {text}\n")).expect_err(text);
            let problem = location.problem.to_string();
            assert!(!problem.contains("hush"), "{text}: {problem}");
            assert!(problem.contains(code), "{text}: {problem}");
        }
    }
}
