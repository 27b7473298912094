//! Is the server the one that the user means? Decided from its key, and from the keys that the user recorded.
//!
//! The key is always checked. A server whose key isn't recorded is refused with the line to record, and one whose key is
//! another than the recorded one is refused as well: somebody else may answer in its place.

use ring::hmac;
use russh::keys::ssh_key::known_hosts::{Entry, HostPatterns, KnownHosts, Marker};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey};

/// What is recorded of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Recorded {
    /// Its keys, each with the place where it stands.
    pub(super) keys: Vec<(PublicKey, String)>,
    /// Keys that no server may have any more.
    pub(super) revoked: Vec<(PublicKey, String)>,
}

/// What a server's key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the server's.
    Same,
    /// No key of the server is recorded.
    Unknown,
    /// Another key is recorded there.
    Changed(String),
    /// The key was revoked there.
    Revoked(String),
}

impl Recorded {
    /// Adds what a file in the format of `known_hosts` says about `server`, a name or `[NAME]:PORT`. Lines that can't be
    /// read are left out: a key in them is not trusted.
    pub(super) fn add(&mut self, file: &str, text: &str, server: &str) {
        // One line at a time, so that a message can name it.
        for (number, line) in text.lines().enumerate() {
            let Some(Ok(entry)) = KnownHosts::new(line.trim_start()).next() else { continue };
            if !is_for(&entry, server) {
                continue;
            }
            let key = (plain(entry.public_key()), format!("{file}, line {}", number + 1));
            match entry.marker() {
                None => self.keys.push(key),
                Some(Marker::Revoked) => self.revoked.push(key),
                // Certificates of servers aren't asked for.
                Some(Marker::CertAuthority) => {}
            }
        }
    }

    /// What the key that a server showed says.
    pub(super) fn judge(&self, shown: &PublicKey) -> Verdict {
        let shown = plain(shown);
        let place =
            |keys: &[(PublicKey, String)]| keys.iter().find(|(key, _)| *key == shown).map(|(_, place)| place.clone());
        match (place(&self.revoked), place(&self.keys), self.keys.first()) {
            (Some(place), ..) => Verdict::Revoked(place),
            (None, Some(_), _) => Verdict::Same,
            // Also if only a key of another kind is recorded: whoever answers chooses the kind.
            (None, None, Some((_, place))) => Verdict::Changed(place.clone()),
            (None, None, None) => Verdict::Unknown,
        }
    }

    /// The kinds of keys that a server is asked for: those that are recorded, otherwise all that can be checked. A server
    /// shows only one of its keys.
    pub(super) fn kinds(&self) -> Vec<Algorithm> {
        let all = [
            Algorithm::Ed25519,
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
            Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
        ];
        let recorded = |kind: &Algorithm| self.keys.iter().any(|(key, _)| key.algorithm() == *kind);
        let known: Vec<Algorithm> = all.iter().filter(|kind| recorded(kind)).cloned().collect();
        if known.is_empty() { all.to_vec() } else { known }
    }
}

/// A key without its comment.
fn plain(key: &PublicKey) -> PublicKey {
    PublicKey::new(key.key_data().clone(), "")
}

/// A key's fingerprint, as `ssh-keygen -l` prints it.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The line that records a server's key.
pub(super) fn line(server: &str, key: &PublicKey) -> String {
    format!("{server} {}", plain(key).to_openssh().unwrap_or_default())
}

fn is_for(entry: &Entry, server: &str) -> bool {
    match entry.host_patterns() {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, server.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let is_met = |pattern: &str| matches(pattern.to_lowercase().as_bytes(), server.as_bytes());
            let refused = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).any(is_met);
            let named = patterns.iter().filter(|pattern| !pattern.starts_with('!')).any(|pattern| is_met(pattern));
            named && !refused
        }
    }
}

/// Whether a pattern with `*` and `?` meets a name. Goes back to the last `*` only, so it takes no time to speak of.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while let Some(byte) = name.get(n) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILIG2T/B0l0gaqj3puu510tu9N1OkQ4znY3LYuEm5zCF";
    const HASHED: &str = "|1|O33ESRMWPVkMYIwJ1Uw+n877jTo=|nuuC5vEqXlEZ/8BXQR7m619W6Ak=";

    fn key(text: &str) -> PublicKey {
        PublicKey::from_openssh(text).expect("a key")
    }

    fn recorded(text: &str, server: &str) -> Recorded {
        let mut recorded = Recorded::default();
        recorded.add("known_hosts", text, server);
        recorded
    }

    #[test]
    fn verdicts() {
        let line = |number: usize| format!("known_hosts, line {number}");
        for (text, server, expected) in [
            (format!("h {ONE} comment"), "h", Verdict::Same),
            (format!("H,192.0.2.1 {ONE}"), "h", Verdict::Same),
            (format!("h {OTHER}\nh {ONE}"), "h", Verdict::Same),
            (format!("[h]:2222 {ONE}"), "[h]:2222", Verdict::Same),
            (format!("[h]:2222 {ONE}"), "h", Verdict::Unknown),
            (format!("h {ONE}"), "[h]:2222", Verdict::Unknown),
            (format!("*.example.com,!bad.example.com {ONE}"), "a.example.com", Verdict::Same),
            (format!("*.example.com,!bad.example.com {ONE}"), "bad.example.com", Verdict::Unknown),
            (format!("{HASHED} {ONE}"), "example.com", Verdict::Same),
            (format!("{HASHED} {ONE}"), "example.org", Verdict::Unknown),
            (format!("# h {ONE}\n\nnonsense\nh {OTHER}"), "h", Verdict::Changed(line(4))),
            (format!("h {ONE}\n@revoked * {ONE}"), "h", Verdict::Revoked(line(2))),
            (format!("@cert-authority h {ONE}"), "h", Verdict::Unknown),
            ("h ssh-ed25519 AAAA".to_owned(), "h", Verdict::Unknown),
            (String::new(), "h", Verdict::Unknown),
        ] {
            assert_eq!(recorded(&text, server).judge(&key(ONE)), expected, "{text}");
        }
    }

    #[test]
    fn recorded_kinds_are_asked_for() {
        assert_eq!(recorded(&format!("h {ONE}"), "h").kinds(), [Algorithm::Ed25519]);
        assert_eq!(recorded("", "h").kinds().len(), 4);
    }

    #[test]
    fn what_a_message_shows() {
        assert!(fingerprint(&key(ONE)).starts_with("SHA256:"));
        assert_eq!(line("[h]:2222", &key(&format!("{ONE} me@there"))), format!("[h]:2222 {ONE}"));
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "x", true),
            ("a*c", "abc", true),
            ("a*c", "acd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxb", true),
            ("a**", "a", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
