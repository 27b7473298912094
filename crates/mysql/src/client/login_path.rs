//! Login paths: the file of `mysql_config_editor`, `.mylogin.cnf`. Its lines are those of an option file, each hidden with a key
//! that is in the file as well: it keeps a password from being read over a shoulder, and from nothing else.
//!
//! The file: four bytes without a meaning, 20 bytes of a key, then for each line its length (four bytes, little-endian) and its
//! bytes, encrypted by AES-128 (ECB, with the padding of PKCS #7). The key of AES are the first sixteen bytes of the key, XOR the
//! other four. Source: "MySQL Configuration Utility" in MySQL's manual, and the file itself.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use aes::Aes128;
use aes::cipher::{BlockDecrypt as _, KeyInit as _};
use seawall_vault::Environment;

use super::option_file::{self, Line};
use super::url::{Parts, wrong};
use crate::Error;

/// The largest file, in bytes.
const LARGEST: u64 = 1 << 20;

const BLOCK: usize = 16;

/// Every program of MySQL reads this one.
const CLIENT: &str = "client";

/// Where the file is, if there is one.
pub(super) fn file(environment: &Environment) -> Option<PathBuf> {
    let named = environment.get("MYSQL_TEST_LOGIN_FILE").map(PathBuf::from);
    let file = named.or_else(|| environment.get("HOME").map(|home| Path::new(home).join(".mylogin.cnf")))?;
    std::fs::metadata(&file).is_ok().then_some(file)
}

/// Takes the settings of the login path `client` over, and those of `wanted`, which must be there. A file that can't be used is
/// an error if a path is wanted, and passed over otherwise, as MySQL's programs do.
pub(super) fn read(file: Option<&Path>, wanted: Option<&str>, parts: &mut Parts) -> Result<(), Error> {
    let Some(file) = file else {
        return match wanted {
            None => Ok(()),
            Some(_) => {
                let next = "make one with mysql_config_editor, or name its file in MYSQL_TEST_LOGIN_FILE";
                Err(wrong("login-path", "there is no ~/.mylogin.cnf", next))
            }
        };
    };
    let lines = match lines(file) {
        Ok(lines) => lines,
        Err(cause) if wanted.is_none() => {
            tracing::warn!("{} isn't used: {cause}", file.display());
            return Ok(());
        }
        Err(cause) => {
            return Err(wrong(&file.display().to_string(), &cause, "make it again with mysql_config_editor"));
        }
    };
    apply(&lines, wanted, parts)?
        .then_some(())
        .ok_or_else(|| wrong("login-path", "the file has no such login path", "mysql_config_editor print --all"))
}

fn lines(file: &Path) -> Result<Vec<String>, String> {
    let metadata = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err("this is no file of login paths".to_owned());
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err("others can read it: chmod 600".to_owned());
    }
    let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
    reveal(&bytes).ok_or_else(|| "it is damaged".to_owned())
}

/// The lines of a file. `None`: it is none.
pub(super) fn reveal(bytes: &[u8]) -> Option<Vec<String>> {
    let (mut key, mut rest) = ([0; BLOCK], bytes.get(24..)?);
    for (place, byte) in bytes.get(4..24)?.iter().enumerate() {
        *key.get_mut(place % BLOCK)? ^= byte;
    }
    let cipher = Aes128::new(&key.into());
    let mut lines = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let (hidden, behind) = behind.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        rest = behind;
        let mut line = Vec::with_capacity(hidden.len());
        for block in hidden.chunks(BLOCK) {
            let mut block = <[u8; BLOCK]>::try_from(block).ok()?.into();
            cipher.decrypt_block(&mut block);
            line.extend_from_slice(&block);
        }
        let padding = usize::from(*line.last()?);
        let end = line.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding))?;
        line.truncate(end);
        lines.push(String::from_utf8(line).ok()?);
    }
    Some(lines)
}

/// Takes settings over; false if the wanted login path isn't there.
fn apply(lines: &[String], wanted: Option<&str>, parts: &mut Parts) -> Result<bool, Error> {
    let mut found = wanted.is_none();
    // A named login path counts before `client`, which every program reads.
    for path in std::iter::once(CLIENT).chain(wanted) {
        let mut is_it = false;
        for text in lines {
            match option_file::line(text) {
                Some(Line::Section(section)) => {
                    is_it = section == path;
                    found |= Some(section.as_str()) == wanted;
                }
                Some(Line::Setting(name, value)) if is_it => option_file::apply(&name, value.as_deref(), parts)?,
                _ => {}
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with OpenSSL: `[client]`, `user = "backup"`, `[prod]`, `password = "p#w \\ x"`, `host = "db"`.
    const FILE: &str = "000000000102030405060708090a0b0c0d0e0f101112131410000000f2d64a89a933cff9946fa9196b944127200000009bf2573b73f5cf\
         fec5aae2886c53dbcbed269b5c8b113e1d78a7b4ff2aba62ac100000000766b7b90cd6e580dad900b3547a27c320000000e82a0d475a10\
         32a34b9a84e3f6644952a3a34260558ca79e450ea5f190f1af9c10000000ebd9596d369aa6af0aac5669965f842d";

    fn bytes() -> Vec<u8> {
        (0..FILE.len()).step_by(2).map(|at| u8::from_str_radix(&FILE[at..at + 2], 16).expect("hex")).collect()
    }

    fn read_as(wanted: Option<&str>, mode: u32) -> Result<Parts, Error> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes()).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        let mut parts = Parts::default();
        read(Some(file.path()), wanted, &mut parts).map(|()| parts)
    }

    #[test]
    fn a_login_path_is_read() {
        let parts = read_as(None, 0o600).expect("read");
        assert_eq!(parts, Parts { user: Some("backup".into()), ..Parts::default() });
        let parts = read_as(Some("prod"), 0o600).expect("read");
        let (user, password, host) = (Some("backup".into()), Some("p#w \\ x".into()), Some("db".into()));
        assert_eq!(parts, Parts { user, password, host, ..Parts::default() });
        assert!(read_as(Some("other"), 0o600).is_err());
        assert_eq!(read_as(None, 0o644).expect("passed over"), Parts::default());
        assert!(read_as(Some("prod"), 0o644).expect_err("others can read it").to_string().contains("chmod 600"));
        assert!(read(None, Some("prod"), &mut Parts::default()).is_err());
        assert!(read(None, None, &mut Parts::default()).is_ok());
    }

    #[test]
    fn a_url_may_leave_everything_to_a_login_path() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes()).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).expect("set");
        let named = ("MYSQL_TEST_LOGIN_FILE".to_owned(), file.path().display().to_string());
        let environment: Environment = [named, ("MYSQL_PWD".to_owned(), "other".to_owned())].into_iter().collect();
        let parse = |url: &str| crate::Target::parse(url, &environment);
        let target = parse("mysql:///shop?login-path=prod").expect("parsed");
        assert_eq!(target.to_string(), "mysql://backup@db:3306/shop");
        assert_eq!(target.find_password().expect("found").as_deref(), Some("p#w \\ x"));
        let target = parse("mysql://me@here/shop?login-path=prod").expect("parsed");
        assert_eq!(target.to_string(), "mysql://me@here:3306/shop");
        assert_eq!(parse("mysql://here/").expect("parsed").to_string(), "mysql://backup@here:3306/");
        assert!(parse("mysql://here/?login-path=other").is_err());
    }

    #[test]
    fn damage_is_noticed_and_panics_nowhere() {
        let whole = bytes();
        assert_eq!(reveal(&whole).map(|lines| lines.len()), Some(5));
        let mut refused = 0;
        for length in 0..whole.len() {
            refused += usize::from(reveal(&whole[..length]).is_none());
        }
        // At the end of a line nothing tells that others followed.
        assert_eq!(refused, whole.len() - 5);
        for place in 24..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x5A;
            assert_ne!(reveal(&damaged), reveal(&whole), "{place}");
        }
    }
}
