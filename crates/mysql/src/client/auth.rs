//! What a server gets when it asks for a password. Pure decisions; [`super::scramble`] has the arithmetic.
//!
//! A password itself is sent only to a server that is known: through a socket of this machine, or within TLS whose certificate
//! was checked. `mysql_native_password`, `client_ed25519`, `parsec` and the fast way of `caching_sha2_password` send a proof instead,
//! which any server may get. A server may ask for another way at any time (it "switches"), so every request is decided
//! here, and a switch can't weaken the rule.
//!
//! The user may allow more: a key of the server in a file (`server-public-key-path`), or any key and any certificate
//! (`get-server-public-key`). Both names, and the second one's risk, are those of MySQL's own programs.

use super::scramble::{self, BadKey};

/// The ways to log in that are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    Native,
    CachingSha2,
    Sha256,
    Ed25519,
    Parsec,
    Clear,
    /// By the user of the process, which the server asks the system for.
    Socket,
}

impl Plugin {
    const ALL: [(&'static str, Self); 8] = [
        ("mysql_native_password", Self::Native),
        ("caching_sha2_password", Self::CachingSha2),
        ("sha256_password", Self::Sha256),
        ("client_ed25519", Self::Ed25519),
        ("parsec", Self::Parsec),
        ("mysql_clear_password", Self::Clear),
        ("auth_socket", Self::Socket),
        ("unix_socket", Self::Socket),
    ];

    /// The one of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, plugin)| plugin)
    }

    /// Its name in the protocol.
    pub(super) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, plugin)| *plugin == self).map_or("mysql_native_password", |(name, _)| name)
    }

    /// The one to begin with, if the server expects this one most. It must give away nothing, and must be content with the
    /// random bytes of a greeting.
    pub(super) fn to_begin_with(expected: &str) -> Self {
        match Self::of(expected) {
            Some(Self::CachingSha2) => Self::CachingSha2,
            _ => Self::Native,
        }
    }
}

/// What protects the bytes on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// A socket of this machine.
    Socket,
    /// TLS, with a checked certificate.
    Checked,
    /// TLS, with any certificate.
    Encrypted,
    /// Nothing.
    Plain,
}

impl Channel {
    fn is_of_a_known_server(self) -> bool {
        matches!(self, Self::Socket | Self::Checked)
    }
}

/// Which public RSA key of the server is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerKey {
    /// None is known.
    Unknown,
    /// Any that the server sends.
    Any,
    /// This one, in PEM.
    Pem(String),
}

/// Why a password isn't sent, and what the user can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Withheld {
    pub(super) cause: String,
    pub(super) next: &'static str,
}

const KNOW_IT: &str =
    "give ssl-mode=VERIFY_IDENTITY (or VERIFY_CA) with ssl-ca, or connect through the server's socket";
const KNOW_IT_OR_ITS_KEY: &str = "give ssl-mode=VERIFY_CA with ssl-ca, or, without TLS (ssl-mode=DISABLED), the server's key in \
                                  server-public-key-path; where the network is safe, get-server-public-key=1 trusts any server";
const GIVE_ONE: &str = "set the password in ~/.my.cnf ([client], mode 0600), in a password file or in MYSQL_PWD";

fn withheld(cause: impl Into<String>, next: &'static str) -> Withheld {
    Withheld { cause: cause.into(), next }
}

/// A login under way.
#[derive(Debug)]
pub(super) struct Login {
    /// `None`: none is known, and the server may not need any.
    pub(super) password: Option<String>,
    pub(super) channel: Channel,
    pub(super) key: ServerKey,
    pub(super) plugin: Plugin,
    pub(super) scramble: Vec<u8>,
    /// Random bytes of ours, for one signature.
    pub(super) random: [u8; 32],
    /// Whether the server's key was asked for, or a signature was given.
    pub(super) asked_for_key: bool,
}

impl Login {
    /// Goes on by the way that the server asks for.
    pub(super) fn switch(&mut self, name: &str, scramble: Vec<u8>) -> Result<Vec<u8>, Withheld> {
        let known = "known are caching_sha2_password, sha256_password, mysql_native_password, client_ed25519, parsec, \
                     mysql_clear_password and the sockets' own";
        self.plugin = Plugin::of(name).ok_or_else(|| {
            withheld(
                format!("it asks for the way of logging in {name:?}, which is not built: {known}"),
                "ALTER USER … IDENTIFIED with one of these",
            )
        })?;
        (self.scramble, self.asked_for_key) = (scramble, false);
        self.begin()
    }

    /// The first answer of the chosen way.
    pub(super) fn begin(&mut self) -> Result<Vec<u8>, Withheld> {
        let password = self.password.as_deref().unwrap_or_default();
        match self.plugin {
            Plugin::Native => Ok(scramble::native(password, &self.scramble)),
            Plugin::CachingSha2 => Ok(scramble::caching_sha2(password, &self.scramble)),
            Plugin::Ed25519 => scramble::ed25519(password, &self.scramble)
                .ok_or_else(|| withheld("its request for a signature makes no sense", "report this")),
            // Nothing asks for the salt.
            Plugin::Parsec => Ok(Vec::new()),
            Plugin::Sha256 if password.is_empty() => Ok(vec![0]),
            Plugin::Sha256 => self.whole(),
            Plugin::Clear if self.channel.is_of_a_known_server() => Ok(scramble::clear(self.needed()?)),
            Plugin::Clear => {
                let cause =
                    "it asks for the password in clear (mysql_clear_password), and nothing proves which server it is";
                Err(withheld(cause, KNOW_IT))
            }
            Plugin::Socket if self.channel == Channel::Socket => Ok(Vec::new()),
            Plugin::Socket => {
                let cause = "the account logs in through the server's socket alone";
                Err(withheld(cause, "connect through the socket, or give the account a password"))
            }
        }
    }

    /// The answer to more data of the server; `None`: the server goes on by itself.
    pub(super) fn more(&mut self, data: &[u8]) -> Result<Option<Vec<u8>>, Withheld> {
        match (self.plugin, data) {
            (Plugin::CachingSha2 | Plugin::Sha256, key) if self.asked_for_key => {
                self.asked_for_key = false;
                self.encrypted(&String::from_utf8_lossy(key)).map(Some)
            }
            (Plugin::Parsec, salt) if !self.asked_for_key => {
                // A server that asks again gets no second signature.
                self.asked_for_key = true;
                self.signed(salt).map(Some)
            }
            // The server knows the password's hash.
            (Plugin::CachingSha2, [3]) => Ok(None),
            // It doesn't, since its start, and needs the password.
            (Plugin::CachingSha2, [4]) => self.whole().map(Some),
            _ => Err(withheld("it sends what doesn't belong to a login", "report this")),
        }
    }

    /// The signature of `parsec`, with the salt that the server sent.
    fn signed(&self, salt: &[u8]) -> Result<Vec<u8>, Withheld> {
        let password = self.password.as_deref().unwrap_or_default();
        scramble::parsec(password, &self.scramble, salt, self.random)
            .ok_or_else(|| withheld("its request for a signature makes no sense", "report this"))
    }

    /// The password itself, or a request for the key to encrypt it with.
    fn whole(&mut self) -> Result<Vec<u8>, Withheld> {
        let password = self.needed()?;
        match (self.channel, &self.key) {
            (Channel::Socket | Channel::Checked, _) | (Channel::Encrypted, ServerKey::Any) => {
                Ok(scramble::clear(password))
            }
            (Channel::Plain, ServerKey::Pem(pem)) => self.encrypted(pem),
            (Channel::Plain, ServerKey::Any) => {
                self.asked_for_key = true;
                Ok(vec![if self.plugin == Plugin::Sha256 { 1 } else { 2 }])
            }
            (Channel::Encrypted, _) => {
                let cause = "it asks for the password itself, and its certificate isn't checked";
                Err(withheld(cause, KNOW_IT_OR_ITS_KEY))
            }
            (Channel::Plain, ServerKey::Unknown) => {
                let cause = "it asks for the password itself, and the connection isn't encrypted";
                Err(withheld(cause, KNOW_IT_OR_ITS_KEY))
            }
        }
    }

    fn needed(&self) -> Result<&str, Withheld> {
        self.password.as_deref().ok_or_else(|| withheld("it asks for a password, and none is known", GIVE_ONE))
    }

    fn encrypted(&self, pem: &str) -> Result<Vec<u8>, Withheld> {
        scramble::encrypted(self.needed()?, &self.scramble, pem).map_err(|bad| match bad {
            BadKey::NoKey => withheld(
                "the server's public key is none",
                "name a file with the server's public RSA key in PEM in server-public-key-path, or use TLS",
            ),
            BadKey::Unfit => withheld("the password can't be encrypted with the server's public key", KNOW_IT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(plugin: Plugin, channel: Channel, key: ServerKey) -> Login {
        let password = Some("s3cret".to_owned());
        Login { password, channel, key, plugin, scramble: vec![7; 20], random: [9; 32], asked_for_key: false }
    }

    const CHANNELS: [Channel; 4] = [Channel::Socket, Channel::Checked, Channel::Encrypted, Channel::Plain];

    /// What a server that asks for a password in some way gets.
    #[derive(Debug, PartialEq, Eq)]
    enum Gets {
        Password,
        Proof,
        RequestForKey,
        Nothing,
    }

    fn gets(answer: Result<Vec<u8>, Withheld>) -> Gets {
        match answer {
            Err(withheld) => {
                assert!(!format!("{withheld:?}").contains("s3cret"));
                Gets::Nothing
            }
            Ok(sent) if sent == b"s3cret\0" => Gets::Password,
            Ok(sent) if sent.len() == 1 => Gets::RequestForKey,
            Ok(_) => Gets::Proof,
        }
    }

    #[test]
    fn a_password_goes_only_to_a_known_server_or_where_the_user_allows_any() {
        use Gets::{Nothing, Password, Proof, RequestForKey};
        for (plugin, key, expected) in [
            (Plugin::Native, ServerKey::Unknown, [Proof, Proof, Proof, Proof]),
            (Plugin::Ed25519, ServerKey::Unknown, [Proof, Proof, Proof, Proof]),
            (Plugin::Parsec, ServerKey::Unknown, [Proof, Proof, Proof, Proof]),
            (Plugin::CachingSha2, ServerKey::Any, [Proof, Proof, Proof, Proof]),
            (Plugin::Sha256, ServerKey::Unknown, [Password, Password, Nothing, Nothing]),
            (Plugin::Sha256, ServerKey::Any, [Password, Password, Password, RequestForKey]),
            (Plugin::Sha256, ServerKey::Pem("x".into()), [Password, Password, Nothing, Nothing]),
            (Plugin::Clear, ServerKey::Unknown, [Password, Password, Nothing, Nothing]),
            (Plugin::Clear, ServerKey::Any, [Password, Password, Nothing, Nothing]),
            (Plugin::Socket, ServerKey::Any, [Proof, Nothing, Nothing, Nothing]),
        ] {
            for (channel, expected) in CHANNELS.into_iter().zip(expected) {
                assert_eq!(
                    gets(login(plugin, channel, key.clone()).begin()),
                    expected,
                    "{plugin:?} {channel:?} {key:?}"
                );
                // A switch comes to the same decision.
                let mut switched = login(Plugin::Native, channel, key.clone());
                let answer = switched.switch(plugin.name(), vec![7; 20]);
                assert_eq!(answer, login(plugin, channel, key.clone()).begin(), "{plugin:?} {channel:?}");
            }
        }
    }

    #[test]
    fn the_full_way_of_caching_sha2_is_as_careful() {
        use Gets::{Nothing, Password, RequestForKey};
        for (key, expected) in [
            (ServerKey::Unknown, [Password, Password, Nothing, Nothing]),
            (ServerKey::Any, [Password, Password, Password, RequestForKey]),
        ] {
            for (channel, expected) in CHANNELS.into_iter().zip(expected) {
                let mut login = login(Plugin::CachingSha2, channel, key.clone());
                assert_eq!(login.more(&[3]), Ok(None));
                let answer = login.more(&[4]).map(Option::unwrap_or_default);
                assert_eq!(gets(answer), expected, "{channel:?} {key:?}");
                if expected == RequestForKey {
                    assert_eq!(gets(login.more(b"no key").map(Option::unwrap_or_default)), Nothing);
                }
            }
        }
        let mut native = login(Plugin::Native, Channel::Socket, ServerKey::Any);
        assert!(native.more(&[4]).is_err(), "data that belongs to no such login");
    }

    #[test]
    fn without_a_password_proofs_are_empty_and_nothing_is_made_up() {
        for (plugin, expected) in [
            (Plugin::Native, Ok(Vec::new())),
            (Plugin::CachingSha2, Ok(Vec::new())),
            (Plugin::Sha256, Ok(vec![0])),
            (Plugin::Clear, Err(withheld("it asks for a password, and none is known", GIVE_ONE))),
        ] {
            let mut login = Login { password: None, ..login(plugin, Channel::Socket, ServerKey::Any) };
            assert_eq!(login.begin(), expected, "{plugin:?}");
        }
    }

    #[test]
    fn the_first_way_gives_nothing_away() {
        for (expected, plugin) in [
            ("caching_sha2_password", Plugin::CachingSha2),
            ("mysql_native_password", Plugin::Native),
            ("mysql_clear_password", Plugin::Native),
            ("sha256_password", Plugin::Native),
            ("client_ed25519", Plugin::Native),
            ("parsec", Plugin::Native),
            ("dialog", Plugin::Native),
        ] {
            assert_eq!(Plugin::to_begin_with(expected), plugin, "{expected}");
        }
        let unknown = login(Plugin::Native, Channel::Socket, ServerKey::Any).switch("dialog", Vec::new());
        assert!(unknown.is_err_and(|withheld| withheld.cause.contains("dialog")));
    }
}
