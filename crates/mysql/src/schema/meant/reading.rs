//! What does a server read in a statement? Pure.
//!
//! Servers run the text of some comments. `/*!50003 … */` is run by servers of that version and later ones, and the two families count
//! otherwise. So a statement has several readings. Quotes mean what `sql_mode` says.

/// The versions that begin the readings: no server that is older is restored into.
const OLDEST_MYSQL: u32 = 50_500;
const OLDEST_MARIADB: u32 = 100_000;

/// The last of MySQL's versions whose comments no MariaDB runs, in later releases and in earlier ones.
const GAPS: [u32; 2] = [99_999, 50_999];

/// The most numbers of versions in a statement. The statements of dumps have four at most.
const MOST_VERSIONS: usize = 8;

/// A server, as far as it decides what a statement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) mariadb: bool,
    /// 8.0.36 is 80036, and 10.11.6 is 101106.
    pub(crate) version: u32,
}

/// How a server reads the number of a version in a comment. It differs from release to release within a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    server: Server,
    /// Whether a sixth digit is a part of the number. MySQL 8.0.15 takes five, and a later one six.
    six: bool,
    /// MariaDB runs no comment for MySQL's versions from 5.7 to this one.
    gap: u32,
}

impl Dialect {
    /// How a server reads it that is like the newest.
    pub(super) fn of(server: Server) -> Self {
        Self { server, six: true, gap: GAPS[0] }
    }
}

/// What quotes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Modes {
    /// `"` stands around names (`ANSI_QUOTES`).
    pub(crate) ansi: bool,
    /// A backslash in a text is a letter (`NO_BACKSLASH_ESCAPES`).
    pub(crate) plain: bool,
    /// The client's character set has letters whose second byte may be a backslash.
    pub(crate) ambiguous: bool,
}

/// A token of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters, digits, `_` and `$`, without quotes.
    Word(&'a [u8]),
    /// A name in quotes: what is in them.
    Name(Vec<u8>),
    /// A text: what is in its quotes, as it stands there.
    Text(&'a [u8]),
    /// Any other character.
    Sign(u8),
}

/// A token, and whether it follows the one before without a blank or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read<'a> {
    pub(super) token: Token<'a>,
    pub(super) glued: bool,
}

/// Reads the tokens of a statement as one server does.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    sql: &'a [u8],
    at: usize,
    dialect: Dialect,
    modes: Modes,
    /// Whether a comment is open whose text is run.
    inside: bool,
    /// Whether there was a comment up to the end of a line.
    pub(super) has_lines: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sql: &'a [u8], dialect: Dialect, modes: Modes) -> Self {
        Self { sql, at: 0, dialect, modes, inside: false, has_lines: false }
    }

    /// Where the next token may begin, if no comment is open.
    pub(super) fn place(&self) -> Option<usize> {
        (!self.inside).then_some(self.at)
    }

    fn rest(&self) -> &'a [u8] {
        self.sql.get(self.at..).unwrap_or_default()
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Read<'a>>, &'static str> {
        let mut glued = true;
        loop {
            let rest = self.rest();
            match rest {
                [] if self.inside => return Err("a comment in it has no end"),
                [] => return Ok(None),
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'*', b'/', ..] if self.inside => {
                    self.inside = false;
                    self.at += 2;
                }
                [b'/', b'*', ..] => self.comment(rest)?,
                [b'#', ..] => self.line(rest),
                [b'-', b'-'] => self.line(rest),
                [b'-', b'-', next, ..] if next.is_ascii_control() || *next == b' ' => self.line(rest),
                _ => break,
            }
            glued = false;
        }
        let rest = self.rest();
        let (token, size) = match rest {
            [b'`', ..] => name(rest)?,
            [b'"', ..] if self.modes.ansi => name(rest)?,
            [b'\'' | b'"', ..] => {
                let size = text(rest, self.modes.plain).ok_or("a text in it has no end")?;
                (Token::Text(rest.get(1..size - 1).unwrap_or_default()), size)
            }
            [byte, ..] if is_of_word(*byte) => {
                let size = rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len());
                (Token::Word(rest.get(..size).unwrap_or_default()), size)
            }
            [byte, ..] if byte.is_ascii_graphic() && *byte != b'\\' => (Token::Sign(*byte), 1),
            _ => return Err("it has a character that no dump has outside of quotes"),
        };
        self.at += size;
        Ok(Some(Read { token, glued }))
    }

    fn line(&mut self, rest: &[u8]) {
        self.has_lines = true;
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn comment(&mut self, rest: &[u8]) -> Result<(), &'static str> {
        if self.inside {
            return Err("it has a comment within a comment");
        }
        let Dialect { server, six, gap } = self.dialect;
        let (mark, is_mariadbs) = match rest {
            [b'/', b'*', b'!', ..] => (3, false),
            [b'/', b'*', b'M', b'!', ..] if server.mariadb => (4, true),
            _ => return self.skip(rest),
        };
        let (version, digits) = version(rest.get(mark..).unwrap_or_default(), six);
        let is_of_mysql = server.mariadb && !is_mariadbs && (50_700..=gap).contains(&version);
        if version > server.version || is_of_mysql {
            return self.skip(rest);
        }
        self.inside = true;
        self.at += mark + digits;
        Ok(())
    }

    fn skip(&mut self, rest: &[u8]) -> Result<(), &'static str> {
        let inner = rest.get(2..).unwrap_or_default();
        let end = inner.windows(2).position(|two| two == b"*/").ok_or("a comment in it has no end")?;
        if inner.get(..end + 1).unwrap_or_default().windows(2).any(|two| two == b"/*") {
            return Err("it has a comment within a comment");
        }
        self.at += end + 4;
        Ok(())
    }
}

/// The version at the beginning of a comment, and its digits: 0 and none if it has none.
fn version(rest: &[u8], six: bool) -> (u32, usize) {
    let digits = rest.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    let digits = match digits {
        6 if six => 6,
        5 | 6 => 5,
        _ => 0,
    };
    let number = rest.iter().take(digits).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (number, digits)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

/// A name in quotes at the beginning. A quote within is doubled.
fn name(rest: &[u8]) -> Result<(Token<'_>, usize), &'static str> {
    let quote = rest.first().copied().unwrap_or_default();
    let (mut name, mut at) = (Vec::new(), 1);
    loop {
        let behind = rest.get(at..).unwrap_or_default();
        let end = behind.iter().position(|byte| *byte == quote).ok_or("a name in it has no end")?;
        name.extend_from_slice(behind.get(..end).unwrap_or_default());
        at += end + 1;
        if rest.get(at) != Some(&quote) {
            return Ok((Token::Name(name), at));
        }
        name.push(quote);
        at += 1;
    }
}

/// The bytes of a text at the beginning, its quotes included.
pub(super) fn text(rest: &[u8], plain: bool) -> Option<usize> {
    let quote = *rest.first()?;
    let mut at = 1;
    loop {
        let behind = rest.get(at..)?;
        let end = behind.iter().position(|byte| *byte == quote || *byte == b'\\' && !plain)?;
        at += end;
        if rest.get(at) == Some(&b'\\') && !plain {
            // Behind it stands a character of the text, also a quote.
            at += 2;
            continue;
        }
        at += 1;
        if rest.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// The servers that may read a statement differently: those for each number of a version in it, of each family.
///
/// # Errors
/// It has more numbers than any dump's statement.
pub(super) fn readers(sql: &[u8]) -> Result<Vec<Dialect>, &'static str> {
    let mut versions: Vec<u32> = Vec::new();
    let mut has_six = false;
    let mut at = 0;
    while let Some(place) = find(sql.get(at..).unwrap_or_default()) {
        at += place + 1;
        let rest = sql.get(at..).unwrap_or_default();
        for six in [true, false] {
            let (number, digits) = version(rest, six);
            has_six |= digits == 6;
            if digits > 0 && !versions.contains(&number) {
                versions.push(number);
            }
        }
        if versions.len() > 2 * MOST_VERSIONS {
            return Err("it has more comments for versions of servers than a statement of a dump");
        }
    }
    let mut servers = Vec::new();
    for (mariadb, oldest) in [(false, OLDEST_MYSQL), (true, OLDEST_MARIADB)] {
        let above = versions.iter().copied().filter(|version| *version > oldest);
        for version in above.chain([oldest]) {
            let dialect = Dialect::of(Server { mariadb, version });
            servers.push(dialect);
            match mariadb {
                true => servers.push(Dialect { gap: GAPS[1], ..dialect }),
                false if has_six => servers.push(Dialect { six: false, ..dialect }),
                false => {}
            }
        }
    }
    Ok(servers)
}

/// Where the mark of a comment that is run stands: the place of its `!`.
fn find(sql: &[u8]) -> Option<usize> {
    sql.windows(2).position(|two| two == b"*!" || two == b"M!").map(|place| place + 1)
}
