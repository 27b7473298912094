//! Whatever the judge takes names no second database: checked by another reader of the same rules.

use proptest::prelude::*;

use super::*;

const JUDGES: [Option<Server>; 3] =
    [None, Some(Server { mariadb: false, version: 80_036 }), Some(Server { mariadb: true, version: 101_119 })];

/// Servers of whom each reads a statement in its own way.
const SERVERS: [(bool, u32); 7] = [
    (false, 50_744),
    (false, 80_015),
    (false, 80_036),
    (false, 90_704),
    (true, 100_339),
    (true, 101_119),
    (true, 120_100),
];

/// What such a server runs: the statement without texts, names in quotes and comments. Another reading of the same rules, for tests.
fn run_by(sql: &str, mariadb: bool, version: u32) -> String {
    let (sql, mut out, mut at, mut open) = (sql.as_bytes(), String::new(), 0, false);
    while at < sql.len() {
        let rest = &sql[at..];
        if rest.starts_with(b"/*") && !open {
            let mark = if rest.starts_with(b"/*!") { 3 } else { 4 };
            let is_marked = mark == 3 || mariadb && rest.starts_with(b"/*M!");
            let digits = rest[mark.min(rest.len())..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
            let most = if mariadb || version >= 80_036 { 6 } else { 5 };
            let digits = if digits < 5 { 0 } else { digits.min(most) };
            let number: u32 =
                sql[at + mark..at + mark + digits].iter().fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0'));
            let gap = if version < 101_100 { 50_999 } else { 99_999 };
            let is_passed = mariadb && mark == 3 && (50_700..=gap).contains(&number);
            let is_run = is_marked && number <= version && !is_passed;
            if is_run {
                (open, at) = (true, at + mark + digits);
            } else {
                at += rest.windows(2).skip(2).position(|two| two == b"*/").map_or(rest.len(), |end| end + 4);
            }
            out.push(' ');
        } else if rest.starts_with(b"*/") && open {
            (open, at) = (false, at + 2);
            out.push(' ');
        } else if matches!(rest[0], b'\'' | b'"' | b'`') {
            let quote = rest[0];
            out.push(char::from(quote));
            at += 1;
            while at < sql.len() && sql[at] != quote {
                if quote == b'`' && sql[at].is_ascii_alphanumeric() {
                    out.push(char::from(sql[at]));
                }
                at += if sql[at] == b'\\' && quote != b'`' { 2 } else { 1 };
            }
            at += 1;
            out.push(char::from(quote));
        } else if rest[0] == b'#' || rest.starts_with(b"-- ") {
            at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        } else {
            out.push(char::from(rest[0]).to_ascii_lowercase());
            at += 1;
        }
    }
    out
}

/// A statement without what stands in parentheses, where a column may be called as it likes, and without names.
fn without_groups(sql: &str) -> String {
    let (mut depth, mut out, mut is_name) = (0_usize, String::new(), false);
    for letter in sql.chars() {
        match letter {
            '`' => is_name = !is_name,
            _ if is_name => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    out
}

fn fragments() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "SET",
        "@a",
        "=",
        "1",
        ",",
        "GLOBAL",
        "general_log",
        "@@global.x",
        "CREATE",
        "DROP",
        "ALTER",
        "TABLE",
        "DATABASE",
        "VIEW",
        "t",
        "`t`",
        "prod.t",
        "`prod`.`t`",
        "(",
        ")",
        "(a int)",
        "INSERT INTO",
        "VALUES",
        "(1)",
        "SELECT",
        "IF EXISTS",
        "ENGINE",
        "FEDERATED",
        "InnoDB",
        "USER",
        "eve",
        "/*!50003",
        "/*!50800",
        "/*!80000",
        "/*!999999",
        "/*!100100",
        "/*M!100000",
        "/*",
        "*/",
        "'",
        "\"",
        "`",
        "\\",
        "-- ",
        "#",
        "\n",
        ";",
        ".",
        "UNION",
        "RENAME TO",
        "NAMES",
        "utf8",
        "gbk",
        "sql_mode",
        "'ANSI'",
        "BEGIN",
        "COMMIT",
        "INTO OUTFILE",
        "'/x'",
        "SETVAL",
        "s",
        "PARTITION BY HASH",
        "DATA DIRECTORY",
        "SONAME",
        "FUNCTION",
        "COMMENT",
        "SESSION",
    ]);
    prop::collection::vec((parts, any::<bool>()), 0..10).prop_map(|parts| {
        parts.into_iter().map(|(part, is_apart)| format!("{part}{}", if is_apart { " " } else { "" })).collect()
    })
}

/// Valid statements into which something is put.
fn disturbed() -> impl Strategy<Value = String> {
    let valid = prop::sample::select(vec![
        "",
        "SET @a=@b, SQL_MODE='x'",
        "/*!50003 SET sql_mode = 'x' */",
        "DROP TABLE IF EXISTS `t`",
        "CREATE TABLE `t` (`a` int, `b` text COMMENT 'x') ENGINE=InnoDB /*!50100 PARTITION BY HASH (a) (PARTITION p ENGINE = InnoDB) */",
        "INSERT INTO `t` (`a`) VALUES (1,'x')",
        "ALTER TABLE t ADD KEY `k` (`a`)",
        "ALTER DATABASE shop CHARACTER SET utf8 COLLATE utf8_bin",
        "SELECT SETVAL(`s`, 1, 0)",
        "CREATE SEQUENCE s start with 1 ENGINE=InnoDB",
        "COMMIT",
    ]);
    (valid, fragments(), any::<prop::sample::Index>()).prop_map(|(valid, more, at)| {
        let mut places: Vec<usize> = valid.char_indices().map(|(at, _)| at).collect();
        places.push(valid.len());
        let at = places[at.index(places.len())];
        format!("{}{more}{}", &valid[..at], &valid[at..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn what_is_run_names_no_second_database(sql in prop_oneof![fragments(), disturbed()]) {
        for server in JUDGES {
            let meant = Judge::new(server).judge(sql.as_bytes());
            if !matches!(meant, Meant::Session(_) | Meant::Table | Meant::Rows) {
                continue;
            }
            for (mariadb, version) in SERVERS {
                let run = run_by(&sql, mariadb, version);
                prop_assert!(!run.contains("prod") || !run.contains('.'), "{sql}: {run}");
                let has = |text: &str, word: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|one| one == word);
                for word in ["select", "outfile"] {
                    let is_setval = word == "select" && has(&run, "setval");
                    prop_assert!(!has(&run, word) || is_setval, "{sql}: {run}");
                }
                let outer = without_groups(&run);
                for word in ["federated", "global", "user", "database", "directory", "rename", "soname"] {
                    // As the value of a setting, a word is only a word.
                    let is_value = word != "global" && matches!(meant, Meant::Session(_));
                    prop_assert!(is_value || !has(&outer, word), "{sql}: {run}");
                }
                prop_assert!(!run.contains(';'), "{sql}: {run}");
            }
        }
    }

    #[test]
    fn nothing_panics(sql in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut judge = Judge::default();
        let _ = (judge.judge(&sql), judge.judge(&sql));
    }
}
