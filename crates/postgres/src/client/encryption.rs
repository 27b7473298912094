//! Is a connection encrypted, and which authority must have signed the server's certificate? The rules are those of
//! `libpq`, with two exceptions: without other authorities, `verify-full` uses the system's; and `allow` and `prefer`,
//! which promise nothing, check no certificate.

use std::path::{Path, PathBuf};

use super::url::wrong;
use crate::Error;

/// How much of TLS is asked for, in the words of `sslmode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// None.
    Disable,
    /// Only if the server refuses to talk without it, whatever its certificate.
    Allow,
    /// With TLS if the server has it, with any certificate; otherwise without.
    #[default]
    Prefer,
    /// Encrypted; the certificate's chain is checked if `~/.postgresql/root.crt` or `sslrootcert` is there.
    Require,
    /// The certificate's chain is checked.
    VerifyCa,
    /// The certificate's chain and name are checked.
    VerifyFull,
}

impl TlsMode {
    const ALL: [(&'static str, Self); 6] = [
        ("disable", Self::Disable),
        ("allow", Self::Allow),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    /// As `sslmode` spells it.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, mode)| *mode == self).map_or("prefer", |(name, _)| name)
    }
}

/// Where the certificates are that may sign a server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Not set: in `~/.postgresql/root.crt`, if that file exists.
    Default(Option<PathBuf>),
    /// The system's authorities.
    System,
    /// In a file.
    File(PathBuf),
}

impl Roots {
    /// The meaning of `sslrootcert`.
    pub(crate) fn named(name: Option<&str>, home: Option<&Path>) -> Self {
        match name {
            None => Self::Default(home.map(|home| home.join(".postgresql/root.crt"))),
            Some("system") => Self::System,
            Some(file) => Self::File(file.into()),
        }
    }
}

/// The requested mode. The system's authorities sign certificates for every applicant, so with them the name must be checked.
pub(crate) fn mode(name: Option<&str>, roots: &Roots) -> Result<TlsMode, Error> {
    let modes = "give disable, allow, prefer, require, verify-ca or verify-full";
    let mode = match name {
        None if *roots == Roots::System => TlsMode::VerifyFull,
        None => TlsMode::default(),
        Some(name) => {
            let known = TlsMode::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, mode)| mode);
            known.ok_or_else(|| wrong("sslmode", "there is no such mode", modes))?
        }
    };
    if *roots == Roots::System && mode != TlsMode::VerifyFull {
        let cause =
            format!("{} is too weak for sslrootcert=system, whose authorities sign for every applicant", mode.name());
        return Err(wrong("sslmode", &cause, "give sslmode=verify-full, or name a file in sslrootcert"));
    }
    Ok(mode)
}

/// Channel binding isn't implemented, so a demand for it is refused.
pub(crate) fn channel_binding(asked: Option<&str>) -> Result<(), Error> {
    match asked {
        None | Some("disable" | "prefer") => Ok(()),
        Some("require") => Err(wrong(
            "channel_binding",
            "channel binding is not built",
            "leave it out (also PGCHANNELBINDING), and give sslmode=verify-full, which proves that the server is the right one",
        )),
        Some(_) => Err(wrong("channel_binding", "there is no such word", "give disable or prefer")),
    }
}

/// The authorities that may have signed a server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Any certificate will do.
    Anyone,
    /// The authorities that the system trusts.
    System,
    /// The authorities in a file.
    File(PathBuf),
}

/// The authorities that must have signed.
pub(crate) fn trust(mode: TlsMode, roots: &Roots, is_there: impl Fn(&Path) -> bool) -> Result<Trust, Error> {
    match (mode, roots) {
        (TlsMode::Disable | TlsMode::Allow | TlsMode::Prefer, _) => Ok(Trust::Anyone),
        (_, Roots::File(file)) => Ok(Trust::File(file.clone())),
        (_, Roots::Default(Some(file))) if is_there(file) => Ok(Trust::File(file.clone())),
        (TlsMode::Require, _) => Ok(Trust::Anyone),
        (TlsMode::VerifyFull, _) => Ok(Trust::System),
        (TlsMode::VerifyCa, _) => Err(wrong(
            "sslrootcert",
            "verify-ca is asked for, and neither sslrootcert nor ~/.postgresql/root.crt says whose signature counts",
            "name the file of the authority's certificate in sslrootcert, or give sslmode=verify-full",
        )),
    }
}

/// A way to begin a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Without TLS.
    Plain,
    /// Within TLS.
    Tls,
}

/// The ways to try, in order. A socket of this host is never encrypted.
pub(crate) fn ways(mode: TlsMode, local: bool) -> &'static [Way] {
    match mode {
        _ if local => &[Way::Plain],
        TlsMode::Disable => &[Way::Plain],
        TlsMode::Allow => &[Way::Plain, Way::Tls],
        TlsMode::Prefer => &[Way::Tls, Way::Plain],
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => &[Way::Tls],
    }
}

/// Whether another way may succeed: there was no TLS, or `pg_hba.conf` has no line for this way.
pub(crate) fn is_about_the_way(error: &Error) -> bool {
    matches!(error, Error::Tls { .. }) || error.sqlstate() == Some("28000")
}

/// Which failure of several ways to report: an answer of the server, preferably to the encrypted way.
pub(crate) fn telling(failures: Vec<(Way, Error)>) -> Option<Error> {
    let rank = |(way, error): &(Way, Error)| (matches!(error, Error::Server { .. }), *way == Way::Tls);
    failures.into_iter().max_by_key(rank).map(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerError;

    #[test]
    fn whose_signature_counts() {
        let home = || Roots::Default(Some("/home/.postgresql/root.crt".into()));
        let (file, at_home) = (Trust::File("/ca".into()), Trust::File("/home/.postgresql/root.crt".into()));
        let named = || Roots::File("/ca".into());
        for (mode, roots, there, trust) in [
            ("disable", named(), true, Some(Trust::Anyone)),
            ("allow", home(), true, Some(Trust::Anyone)),
            ("prefer", home(), true, Some(Trust::Anyone)),
            ("prefer", named(), true, Some(Trust::Anyone)),
            ("require", home(), true, Some(at_home.clone())),
            ("require", home(), false, Some(Trust::Anyone)),
            ("require", Roots::Default(None), true, Some(Trust::Anyone)),
            // A missing file that was named is reported when it is read.
            ("require", named(), false, Some(file.clone())),
            ("verify-ca", named(), true, Some(file.clone())),
            ("verify-ca", home(), true, Some(at_home.clone())),
            ("verify-ca", home(), false, None),
            ("verify-full", named(), true, Some(file)),
            ("verify-full", home(), true, Some(at_home)),
            ("verify-full", home(), false, Some(Trust::System)),
            ("verify-full", Roots::Default(None), true, Some(Trust::System)),
            ("verify-full", Roots::System, true, Some(Trust::System)),
        ] {
            let parsed = super::mode(Some(mode), &roots).expect(mode);
            assert_eq!(parsed.name(), mode);
            assert_eq!(super::trust(parsed, &roots, |_| there).ok(), trust, "{mode} {roots:?} {there}");
        }
    }

    #[test]
    fn the_systems_authorities_go_with_verify_full_alone() {
        assert_eq!(mode(None, &Roots::System).ok(), Some(TlsMode::VerifyFull));
        assert_eq!(mode(None, &Roots::Default(None)).ok(), Some(TlsMode::Prefer));
        for weak in ["disable", "allow", "prefer", "require", "verify-ca"] {
            assert!(mode(Some(weak), &Roots::System).is_err(), "{weak}");
        }
    }

    #[test]
    fn what_is_told_of_two_failures() {
        let said = |message: &str| {
            let error = ServerError { code: "28000".into(), message: message.into(), detail: None, hint: None };
            Error::Server { object: "o".into(), error }
        };
        let none =
            || Error::Tls { code: "postgres.tls", server: "o".into(), cause: "none".into(), next: String::new() };
        for (failures, told) in [
            (vec![(Way::Plain, said("plain")), (Way::Tls, none())], "o: plain [SQLSTATE 28000]"),
            (vec![(Way::Tls, none()), (Way::Plain, said("plain"))], "o: plain [SQLSTATE 28000]"),
            (vec![(Way::Tls, said("tls")), (Way::Plain, said("plain"))], "o: tls [SQLSTATE 28000]"),
            (vec![(Way::Plain, said("plain")), (Way::Tls, said("tls"))], "o: tls [SQLSTATE 28000]"),
            (vec![(Way::Tls, none())], "o: none"),
        ] {
            assert!(failures.iter().all(|(_, error)| is_about_the_way(error)));
            assert_eq!(telling(failures).map(|error| error.to_string()).as_deref(), Some(told));
        }
    }
}
