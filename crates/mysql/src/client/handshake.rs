//! The messages before the first statement: the server's greeting, our request for TLS, our answer. Pure.
//!
//! Source: "Protocol::HandshakeV10", "Protocol::SSLRequest" and "Protocol::HandshakeResponse41" in MySQL's internals manual.

use super::packet::{Fields, put_text};

/// What the two sides can do, by its bit.
pub(super) mod can {
    /// MariaDB's clients leave it out; then the bytes of reserve have a meaning.
    pub(in super::super) const LONG_PASSWORD: u32 = 1;
    pub(in super::super) const LONG_FLAG: u32 = 1 << 2;
    pub(in super::super) const CONNECT_WITH_DB: u32 = 1 << 3;
    /// The server may ask for a file.
    pub(in super::super) const LOCAL_FILES: u32 = 1 << 7;
    pub(in super::super) const PROTOCOL_41: u32 = 1 << 9;
    pub(in super::super) const SSL: u32 = 1 << 11;
    pub(in super::super) const TRANSACTIONS: u32 = 1 << 13;
    pub(in super::super) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in super::super) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(in super::super) const CONNECT_ATTRS: u32 = 1 << 20;
    /// Rows end with an OK instead of an end of their own kind.
    pub(in super::super) const DEPRECATE_EOF: u32 = 1 << 24;
}

/// What a server must be able to do: versions since 5.5 (MySQL) and 5.1 (MariaDB) are.
const NEEDED: u32 = can::PROTOCOL_41 | can::SECURE_CONNECTION | can::PLUGIN_AUTH;

/// What we use where the server has it.
const USED: u32 = can::LONG_PASSWORD | can::LONG_FLAG | can::TRANSACTIONS | can::CONNECT_ATTRS | can::DEPRECATE_EOF;

/// `utf8mb4_general_ci`, which every version has, for the names in the answer.
const UTF8MB4: u8 = 45;

/// The largest payload that we take, in bytes: the protocol's limit.
const LARGEST_PAYLOAD: u32 = 1 << 30;

/// A server's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The version as it is announced. Behind a proxy it is the proxy's.
    pub(super) version: String,
    /// The number of the session on the server.
    pub(super) connection_id: u32,
    /// What the server can do.
    pub(super) abilities: u32,
    /// Random bytes for the login.
    pub(super) scramble: Vec<u8>,
    /// The way to log in that the server expects most.
    pub(super) plugin: String,
}

/// Why a greeting is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// Of another protocol, or too old.
    Old,
    /// It ends too early.
    Cut,
}

/// Reads the server's greeting.
pub(super) fn greeting(payload: &[u8]) -> Result<Greeting, Unusable> {
    let mut fields = Fields::of(payload);
    if fields.u8().ok_or(Unusable::Cut)? != 10 {
        return Err(Unusable::Old);
    }
    let greeting = read(&mut fields).ok_or(Unusable::Cut)?;
    if greeting.abilities & NEEDED != NEEDED { Err(Unusable::Old) } else { Ok(greeting) }
}

fn read(fields: &mut Fields<'_>) -> Option<Greeting> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let version = text(fields.until_zero()?);
    let connection_id = fields.u32()?;
    let mut scramble = fields.take(8)?.to_vec();
    fields.take(1)?;
    let low = fields.u16()?;
    let _charset_and_status = fields.take(3)?;
    let abilities = u32::from(fields.u16()?) << 16 | u32::from(low);
    let length = usize::from(fields.u8()?);
    let _reserve = fields.take(10)?;
    // At least 13 bytes, of which the last is zero.
    let rest = fields.take(length.saturating_sub(8).max(13))?;
    scramble.extend_from_slice(rest.strip_suffix(&[0]).unwrap_or(rest));
    // Some versions leave out the zero byte behind the name.
    let plugin = fields.until_zero().unwrap_or(fields.rest());
    Some(Greeting { version, connection_id, abilities, scramble, plugin: text(plugin) })
}

/// What we say of ourselves.
pub(super) struct Hello<'a> {
    pub(super) user: &'a str,
    /// "" is none.
    pub(super) database: &'a str,
    /// The name of the way to log in, and its first answer, of at most 250 bytes.
    pub(super) plugin: &'a str,
    pub(super) auth: &'a [u8],
    /// Whether LOCAL INFILE is going to be used.
    pub(super) local_files: bool,
    /// Within TLS.
    pub(super) tls: bool,
}

impl Hello<'_> {
    /// What both sides can do.
    pub(super) fn abilities(&self, server: u32) -> u32 {
        let mut wanted = NEEDED | USED;
        for (ability, is_wanted) in [
            (can::CONNECT_WITH_DB, !self.database.is_empty()),
            (can::LOCAL_FILES, self.local_files),
            (can::SSL, self.tls),
        ] {
            if is_wanted {
                wanted |= ability;
            }
        }
        wanted & (server | can::LONG_PASSWORD)
    }

    /// The request for TLS, which is the beginning of the answer.
    pub(super) fn request_tls(&self, server: u32) -> Vec<u8> {
        let mut out = self.abilities(server).to_le_bytes().to_vec();
        out.extend_from_slice(&LARGEST_PAYLOAD.to_le_bytes());
        out.push(UTF8MB4);
        out.extend_from_slice(&[0; 23]);
        out
    }

    /// The answer to the greeting. `None`: a name has a zero byte, or the login's answer is too long.
    pub(super) fn answer(&self, server: u32) -> Option<Vec<u8>> {
        let abilities = self.abilities(server);
        if [self.user, self.database, self.plugin].iter().any(|text| text.contains('\0')) {
            return None;
        }
        let mut out = self.request_tls(server);
        let put = |text: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        };
        put(self.user, &mut out);
        out.push(u8::try_from(self.auth.len()).ok().filter(|length| *length <= 250)?);
        out.extend_from_slice(self.auth);
        if abilities & can::CONNECT_WITH_DB != 0 {
            put(self.database, &mut out);
        }
        put(self.plugin, &mut out);
        if abilities & can::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            for text in
                ["_client_name", "seawall", "program_name", "seawall", "_client_version", env!("CARGO_PKG_VERSION")]
            {
                put_text(text.as_bytes(), &mut attributes);
            }
            put_text(&attributes, &mut out);
        }
        Some(out)
    }
}

/// Reads a request to log in by another way: its name, and its random bytes. `None`: it is the way of versions before 4.1, which
/// has no name and protects no password.
pub(super) fn switch(payload: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut fields = Fields::of(payload);
    fields.u8()?;
    let name = fields.until_zero()?;
    let data = fields.rest();
    // The 32 random bytes of MariaDB's signatures have no end, and the last of them may be zero.
    let scramble = if data.len() == 32 { data } else { data.strip_suffix(&[0]).unwrap_or(data) };
    Some((String::from_utf8_lossy(name).into_owned(), scramble.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting as MariaDB 10.11 sends it.
    fn mariadb(abilities: u32, plugin: &[u8]) -> Vec<u8> {
        let mut payload = b"\x0a5.5.5-10.11.6-MariaDB\0".to_vec();
        payload.extend_from_slice(&7_u32.to_le_bytes());
        payload.extend_from_slice(b"abcdefgh\0");
        payload.extend_from_slice(&(abilities as u16).to_le_bytes());
        payload.extend_from_slice(&[45, 2, 0]);
        payload.extend_from_slice(&((abilities >> 16) as u16).to_le_bytes());
        payload.push(21);
        payload.extend_from_slice(&[0; 10]);
        payload.extend_from_slice(b"ijklmnopqrst\0");
        payload.extend_from_slice(plugin);
        payload
    }

    #[test]
    fn greetings_are_read() {
        let abilities = NEEDED | can::DEPRECATE_EOF;
        let expected = Greeting {
            version: "5.5.5-10.11.6-MariaDB".into(),
            connection_id: 7,
            abilities,
            scramble: b"abcdefghijklmnopqrst".to_vec(),
            plugin: "mysql_native_password".into(),
        };
        for plugin in [&b"mysql_native_password\0"[..], b"mysql_native_password"] {
            assert_eq!(greeting(&mariadb(abilities, plugin)), Ok(expected.clone()));
        }
        let whole = mariadb(abilities, b"");
        for length in 0..whole.len() {
            assert_eq!(greeting(&whole[..length]), Err(Unusable::Cut), "{length}");
        }
        assert_eq!(greeting(&mariadb(can::PROTOCOL_41, b"")), Err(Unusable::Old));
        assert_eq!(greeting(b"\x09"), Err(Unusable::Old));
    }

    #[test]
    fn an_answer_has_what_both_sides_can_do() {
        let hello = |database, local_files, tls| Hello {
            user: "app",
            database,
            plugin: "mysql_native_password",
            auth: b"12345678901234567890",
            local_files,
            tls,
        };
        let all = u32::MAX;
        for (hello, server, has, has_not) in [
            (hello("", false, false), all, NEEDED, can::CONNECT_WITH_DB | can::LOCAL_FILES | can::SSL | 1 << 16),
            (hello("d", true, true), all, can::CONNECT_WITH_DB | can::LOCAL_FILES | can::SSL, 1 << 16),
            (hello("d", true, true), NEEDED, NEEDED | can::LONG_PASSWORD, can::LOCAL_FILES | can::CONNECT_ATTRS),
        ] {
            let abilities = hello.abilities(server);
            assert_eq!((abilities & has, abilities & has_not), (has, 0));
            let request = hello.request_tls(server);
            assert_eq!(request.len(), 32);
            assert!(hello.answer(server).is_some_and(|answer| answer.starts_with(&request)));
        }
        let answer = hello("shop", false, false).answer(NEEDED | can::CONNECT_WITH_DB).expect("an answer");
        assert_eq!(&answer[32..], b"app\0\x1412345678901234567890shop\0mysql_native_password\0");
        assert_eq!(hello("a\0b", false, false).answer(all), None);
    }

    #[test]
    fn requests_for_another_way_are_read() {
        for (payload, expected) in [
            (&b"\xfeclient_ed25519\0abc"[..], Some(("client_ed25519", &b"abc"[..]))),
            (b"\xfemysql_native_password\0abc\0", Some(("mysql_native_password", b"abc"))),
            (b"\xfemysql_clear_password\0", Some(("mysql_clear_password", b""))),
            (
                b"\xfeparsec\x001234567890123456789012345678901\0",
                Some(("parsec", b"1234567890123456789012345678901\0")),
            ),
            (b"\xfe", None),
            (b"\xfeabc", None),
        ] {
            let expected = expected.map(|(name, scramble)| (name.to_owned(), scramble.to_vec()));
            assert_eq!(switch(payload), expected, "{payload:?}");
        }
    }
}
