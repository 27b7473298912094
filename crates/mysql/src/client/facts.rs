//! The kind of server and its version, from its variables. Pure.

/// The family of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Oracle's.
    MySql,
    /// MariaDB, Galera clusters of it included.
    MariaDb,
    /// Percona Server, Percona XtraDB Cluster included.
    Percona,
    /// Amazon Aurora, which speaks as MySQL does.
    Aurora,
}

impl Flavour {
    /// By the variables `version`, `version_comment` and `aurora_version`.
    pub(super) fn of(version: &str, comment: &str, aurora: Option<&str>) -> Self {
        let says = |word: &str| version.contains(word) || comment.contains(word);
        match aurora {
            Some(_) => Self::Aurora,
            None if says("MariaDB") => Self::MariaDb,
            None if says("Percona") => Self::Percona,
            None => Self::MySql,
        }
    }

    /// The name that people know.
    pub fn name(self) -> &'static str {
        match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
            Self::Percona => "Percona Server",
            Self::Aurora => "Aurora MySQL",
        }
    }
}

/// A version as a number: 8.0.36 is 80036, and 10.11.6 is 101106. What can't be read is 0.
pub(super) fn version(text: &str) -> u32 {
    // MariaDB announces itself to old replicas with a version of MySQL before its own.
    let text = text.strip_prefix("5.5.5-").unwrap_or(text);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0).min(9999));
    let mut next = || numbers.next().unwrap_or(0);
    let (major, minor, patch) = (next(), next(), next());
    major * 10_000 + minor.min(99) * 100 + patch.min(99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers() {
        for (text, number) in [
            ("8.0.36", 80_036),
            ("8.0.36-28", 80_036),
            ("8.0.36-0ubuntu0.22.04.1", 80_036),
            ("10.11.6-MariaDB-0+deb12u1-log", 101_106),
            ("5.5.5-10.11.6-MariaDB", 101_106),
            ("5.5.5", 50_505),
            ("5.7.44-log", 50_744),
            ("9.7.0", 90_700),
            ("11.4.2-MariaDB-ubu2404", 110_402),
            ("8.0.mysql_aurora.3.05.2", 80_000),
            ("", 0),
        ] {
            assert_eq!(version(text), number, "{text}");
        }
    }

    #[test]
    fn kinds_of_servers() {
        for (version, comment, aurora, flavour) in [
            ("8.0.36", "MySQL Community Server - GPL", None, Flavour::MySql),
            ("8.0.36", "Source distribution", None, Flavour::MySql),
            ("10.11.6-MariaDB-0+deb12u1", "Debian 12", None, Flavour::MariaDb),
            ("10.6.16", "managed by mariadb.org, MariaDB Server", None, Flavour::MariaDb),
            ("8.0.36-28", "Percona Server (GPL), Release 28", None, Flavour::Percona),
            ("8.0.28", "Source distribution", Some("3.05.2"), Flavour::Aurora),
        ] {
            assert_eq!(Flavour::of(version, comment, aurora), flavour, "{version} {comment}");
        }
    }
}
