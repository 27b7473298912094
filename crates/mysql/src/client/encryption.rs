//! Is a connection encrypted, and which authority must have signed the server's certificate? The modes are those of
//! MySQL's `--ssl-mode`, with two exceptions: without `ssl-ca`, `VERIFY_IDENTITY` uses the system's authorities; and `ssl-ca`
//! without a mode asks for `VERIFY_CA`.

use std::path::PathBuf;

use super::url::wrong;
use crate::Error;

/// How much of TLS is asked for, in the words of `ssl-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// None.
    Disabled,
    /// With TLS if the server has it, with any certificate; otherwise without.
    #[default]
    Preferred,
    /// Encrypted, with any certificate.
    Required,
    /// The certificate's chain is checked.
    VerifyCa,
    /// The certificate's chain and name are checked.
    VerifyIdentity,
}

impl TlsMode {
    const ALL: [(&'static str, Self); 5] = [
        ("DISABLED", Self::Disabled),
        ("PREFERRED", Self::Preferred),
        ("REQUIRED", Self::Required),
        ("VERIFY_CA", Self::VerifyCa),
        ("VERIFY_IDENTITY", Self::VerifyIdentity),
    ];

    /// As `ssl-mode` spells it.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, mode)| *mode == self).map_or("PREFERRED", |(name, _)| name)
    }

    /// Whether the server's certificate is checked.
    pub(super) fn checks(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyIdentity)
    }
}

/// The requested mode. Letters may be small, and `-` may stand for `_`.
pub(super) fn mode(name: Option<&str>, has_authority: bool) -> Result<TlsMode, Error> {
    let modes = "give DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
    let Some(name) = name else {
        return Ok(if has_authority { TlsMode::VerifyCa } else { TlsMode::default() });
    };
    let name = name.to_ascii_uppercase().replace('-', "_");
    let known = TlsMode::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, mode)| mode);
    known.ok_or_else(|| wrong("ssl-mode", "there is no such mode", modes))
}

/// The authorities that may have signed a server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any certificate will do.
    Anyone,
    /// The authorities that the system trusts.
    System,
    /// The authorities in a file.
    File(PathBuf),
}

/// The authorities that must have signed. A system's authorities sign for every applicant, so with them the name must be checked.
pub(super) fn trust(mode: TlsMode, authority: Option<&PathBuf>) -> Result<Trust, Error> {
    match (mode, authority) {
        (TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required, _) => Ok(Trust::Anyone),
        (_, Some(file)) => Ok(Trust::File(file.clone())),
        (TlsMode::VerifyIdentity, None) => Ok(Trust::System),
        (TlsMode::VerifyCa, None) => Err(wrong(
            "ssl-ca",
            "VERIFY_CA is asked for, and ssl-ca doesn't say whose signature counts",
            "name the file of the authority's certificate in ssl-ca, or give ssl-mode=VERIFY_IDENTITY",
        )),
    }
}

/// Whether to encrypt; an error if that is asked for and the server can't. A socket of this machine is encrypted only where
/// the mode demands TLS, as an account with `REQUIRE SSL` needs it.
pub(super) fn encrypts(mode: TlsMode, is_local: bool, offered: bool) -> Result<bool, &'static str> {
    match mode {
        TlsMode::Disabled => Ok(false),
        TlsMode::Preferred => Ok(offered && !is_local),
        _ if offered => Ok(true),
        _ => Err("the server has no TLS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_their_vendors_names() {
        for (name, has_authority, expected) in [
            (None, false, Some(TlsMode::Preferred)),
            (None, true, Some(TlsMode::VerifyCa)),
            (Some("REQUIRED"), true, Some(TlsMode::Required)),
            (Some("verify_identity"), false, Some(TlsMode::VerifyIdentity)),
            (Some("verify-ca"), false, Some(TlsMode::VerifyCa)),
            (Some("disabled"), true, Some(TlsMode::Disabled)),
            (Some("maybe"), false, None),
            (Some(""), false, None),
        ] {
            assert_eq!(mode(name, has_authority).ok(), expected, "{name:?}");
        }
        for (name, known) in TlsMode::ALL {
            assert_eq!((mode(Some(name), false).ok(), known.name()), (Some(known), name));
        }
    }

    #[test]
    fn whose_signature_counts() {
        let file = PathBuf::from("/ca");
        for (mode, authority, expected) in [
            (TlsMode::Preferred, Some(&file), Some(Trust::Anyone)),
            (TlsMode::Required, Some(&file), Some(Trust::Anyone)),
            (TlsMode::VerifyCa, Some(&file), Some(Trust::File(file.clone()))),
            (TlsMode::VerifyCa, None, None),
            (TlsMode::VerifyIdentity, Some(&file), Some(Trust::File(file.clone()))),
            (TlsMode::VerifyIdentity, None, Some(Trust::System)),
        ] {
            assert_eq!(trust(mode, authority).ok(), expected, "{mode:?} {authority:?}");
        }
    }

    #[test]
    fn what_is_encrypted() {
        for (mode, is_local, offered, expected) in [
            (TlsMode::Disabled, false, true, Some(false)),
            (TlsMode::Preferred, false, true, Some(true)),
            (TlsMode::Preferred, false, false, Some(false)),
            (TlsMode::Preferred, true, true, Some(false)),
            (TlsMode::Required, true, true, Some(true)),
            (TlsMode::Required, false, false, None),
            (TlsMode::VerifyIdentity, false, true, Some(true)),
            (TlsMode::VerifyCa, true, false, None),
        ] {
            assert_eq!(encrypts(mode, is_local, offered).ok(), expected, "{mode:?} {is_local} {offered}");
        }
    }
}
