//! Which rights does an account have? Reads the lines of SHOW GRANTS. Pure.

use std::collections::BTreeSet;

/// What a grant reaches over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    /// `*.*`.
    Everywhere,
    /// `db.*`: a pattern in which `_` and `%` are wildcards, and a backslash takes that from them.
    Databases(String),
    /// `db.table`.
    Table(String, String),
}

/// A line of SHOW GRANTS.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Whether it takes the rights away again: MySQL's partial revokes.
    revokes: bool,
    privileges: BTreeSet<String>,
    scope: Scope,
}

/// The rights of an account. Rights that reach over single columns don't count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rights {
    lines: Vec<Line>,
}

impl Rights {
    /// Reads all lines.
    pub(crate) fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        Self { lines: lines.into_iter().filter_map(line).collect() }
    }

    /// Whether the account has a privilege everywhere. `ALL PRIVILEGES` has each.
    pub(crate) fn everywhere(&self, privilege: &str) -> bool {
        self.lines.iter().any(|line| !line.revokes && line.scope == Scope::Everywhere && line.has(privilege))
    }

    /// Whether the account has a privilege on everything in a database.
    pub(crate) fn in_database(&self, privilege: &str, database: &str) -> bool {
        let reaches = |line: &&Line| match &line.scope {
            Scope::Everywhere => true,
            Scope::Databases(pattern) => is_like(database, pattern),
            Scope::Table(..) => false,
        };
        let of = |revokes| self.lines.iter().filter(reaches).any(|line| line.revokes == revokes && line.has(privilege));
        of(false) && !of(true)
    }

    /// Whether the account has a privilege on a table.
    pub(crate) fn on_table(&self, privilege: &str, database: &str, table: &str) -> bool {
        let is_it = |line: &Line| matches!(&line.scope, Scope::Table(of, name) if of == database && name == table);
        self.in_database(privilege, database) || self.lines.iter().any(|line| is_it(line) && line.has(privilege))
    }
}

impl Line {
    fn has(&self, privilege: &str) -> bool {
        let all = ["ALL PRIVILEGES", "ALL"].iter().any(|all| self.privileges.contains(*all));
        // GRANT OPTION and PROXY aren't in ALL; neither are asked for here.
        all || self.privileges.contains(privilege)
    }
}

/// Reads `GRANT a, b (columns), c ON [TABLE] scope TO …`; `None` for lines that grant roles or proxies, or no such line.
fn line(text: &str) -> Option<Line> {
    let (revokes, rest) = match text.strip_prefix("GRANT ") {
        Some(rest) => (false, rest),
        None => (true, text.strip_prefix("REVOKE ")?),
    };
    let mut privileges = BTreeSet::new();
    let (mut word, mut rest) = (String::new(), rest);
    loop {
        if let Some(after) = rest.strip_prefix(" ON ") {
            privileges.insert(std::mem::take(&mut word));
            rest = after;
            break;
        }
        let mut letters = rest.chars();
        match letters.next()? {
            // A role, and no privilege.
            '`' | '\'' | '"' => return None,
            ',' => {
                privileges.insert(std::mem::take(&mut word));
            }
            // Rights on single columns.
            '(' => {
                word.clear();
                rest = after_columns(rest)?;
                continue;
            }
            ' ' if word.is_empty() => {}
            letter => word.push(letter.to_ascii_uppercase()),
        }
        rest = letters.as_str();
    }
    privileges.remove("");
    for kind in ["TABLE ", "FUNCTION ", "PROCEDURE ", "PACKAGE BODY ", "PACKAGE "] {
        match rest.strip_prefix(kind) {
            Some(after) if kind == "TABLE " => rest = after,
            Some(_) => return None,
            None => {}
        }
    }
    let (database, rest) = part(rest)?;
    let (name, _) = part(rest.strip_prefix('.')?)?;
    let scope = match (database, name) {
        (None, None) => Scope::Everywhere,
        (Some(database), None) => Scope::Databases(database),
        (Some(database), Some(name)) => Scope::Table(database, name),
        (None, Some(_)) => return None,
    };
    Some(Line { revokes, privileges, scope })
}

/// What is behind a list of columns in brackets. Names in it may have brackets.
fn after_columns(text: &str) -> Option<&str> {
    let mut quoted = false;
    for (place, letter) in text.char_indices() {
        match letter {
            '`' => quoted = !quoted,
            ')' if !quoted => return text.get(place + 1..),
            _ => {}
        }
    }
    None
}

/// A name in backticks or quotes, or `*` for all; and what is behind it.
fn part(text: &str) -> Option<(Option<String>, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((None, rest));
    }
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '"' | '\''))?;
    let mut name = String::new();
    let mut letters = text.get(1..)?.chars();
    while let Some(letter) = letters.next() {
        if letter != mark {
            name.push(letter);
            continue;
        }
        match letters.as_str().strip_prefix(mark) {
            Some(rest) => {
                name.push(mark);
                letters = rest.chars();
            }
            None => return Some((Some(name), letters.as_str())),
        }
    }
    None
}

/// Whether a name is like a pattern, as LIKE has it.
fn is_like(name: &str, pattern: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // `reached[i]`: the first i letters of the name are like what was read of the pattern.
    let mut reached: Vec<bool> = (0..=name.len()).map(|place| place == 0).collect();
    let mut letters = pattern.iter();
    while let Some(letter) = letters.next() {
        let mut next = vec![false; reached.len()];
        if *letter == '%' {
            let mut any = false;
            for (now, before) in next.iter_mut().zip(&reached) {
                any |= before;
                *now = any;
            }
        } else {
            let literal =
                if *letter == '\\' { letters.clone().next().filter(|_| letters.next().is_some()) } else { None };
            let is_same = |other: &char| match literal {
                Some(literal) => other == literal,
                None => *letter == '_' || other == letter,
            };
            for ((now, before), other) in next.iter_mut().skip(1).zip(&reached).zip(&name) {
                *now = *before && is_same(other);
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read() {
        let rights = Rights::of([
            "GRANT SELECT, RELOAD, LOCK TABLES ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*A' WITH GRANT OPTION",
            "GRANT BACKUP_ADMIN,SHOW_ROUTINE ON *.* TO `u`@`%`",
            "GRANT TRIGGER, SELECT (`a`, `b) ON `), SHOW VIEW ON `shop`.* TO `u`@`%`",
            "GRANT EVENT ON `test\\_%`.* TO `u`@`%`",
            "GRANT ALL PRIVILEGES ON `all`.* TO `u`@`%`",
            "GRANT INSERT, UPDATE (`x`) ON `shop`.`or``ders` TO `u`@`%`",
            "GRANT EXECUTE ON FUNCTION `shop`.`f` TO `u`@`%`",
            "GRANT `role`@`%` TO `u`@`%`",
            "GRANT PROXY ON ''@'' TO 'root'@'localhost' WITH GRANT OPTION",
            "SET DEFAULT ROLE `r1` FOR `u1`@`%`",
            "REVOKE SELECT ON `secret`.* FROM `u`@`%`",
            "GRANT CREATE ON TABLE `shop`.`t` TO `u`@`%`",
        ]);
        for (privilege, expected) in [
            ("SELECT", true),
            ("RELOAD", true),
            ("LOCK TABLES", true),
            ("BACKUP_ADMIN", true),
            ("SHOW_ROUTINE", true),
            ("TRIGGER", false),
            ("EXECUTE", false),
            ("PROXY", false),
        ] {
            assert_eq!(rights.everywhere(privilege), expected, "{privilege}");
        }
        for (privilege, database, expected) in [
            ("SELECT", "shop", true),
            ("SELECT", "secret", false),
            ("RELOAD", "secret", true),
            ("TRIGGER", "shop", true),
            ("SHOW VIEW", "shop", true),
            ("SHOW VIEW", "shops", false),
            ("EVENT", "test_1", true),
            ("EVENT", "testx1", false),
            ("EVENT", "all", true),
            ("UPDATE", "shop", false),
            ("INSERT", "shop", false),
        ] {
            assert_eq!(rights.in_database(privilege, database), expected, "{privilege} {database}");
        }
        assert!(rights.on_table("INSERT", "shop", "or`ders"));
        assert!(!rights.on_table("UPDATE", "shop", "or`ders"), "one column isn't the table");
        assert!(rights.on_table("CREATE", "shop", "t"));
        assert!(rights.on_table("SELECT", "shop", "any"));
        assert_eq!(rights.lines.len(), 8);
    }

    #[test]
    fn what_is_no_grant_is_none() {
        for text in
            ["", "GRANT", "GRANT SELECT", "GRANT SELECT ON", "GRANT SELECT ON `a", "GRANT SELECT (`a ON *.*", "x"]
        {
            assert_eq!(line(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_like_patterns() {
        for (name, pattern, expected) in [
            ("shop", "shop", true),
            ("shop", "sh%", true),
            ("shop", "%", true),
            ("", "%", true),
            ("shop", "s__p", true),
            ("shop", "s_p", false),
            ("s%p", "s\\%p", true),
            ("shop", "s\\%p", false),
            ("a\\", "a\\", true),
            ("shop", "%o%p", true),
            ("shop", "", false),
            ("é", "_", true),
        ] {
            assert_eq!(is_like(name, pattern), expected, "{name} {pattern}");
        }
    }
}
