//! Which views does a view select from, and in which order can all be made? Pure.
//!
//! MariaDB keeps no list of that, so the statement itself is looked at. Both servers tell a view in a form of their own: names in
//! backticks, texts in single quotes, and a table's name behind FROM, JOIN, a comma or a bracket, where no dot follows it.

use std::collections::{BTreeMap, BTreeSet};

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    /// A word outside of quotes, in lower case.
    Word(String),
    Mark(char),
}

/// Cuts a statement into parts. Texts are left out.
fn tokens(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut letters = sql.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '`' => {
                let mut name = String::new();
                while let Some(letter) = letters.next() {
                    if letter != '`' {
                        name.push(letter);
                    } else if letters.next_if_eq(&'`').is_some() {
                        name.push('`');
                    } else {
                        break;
                    }
                }
                tokens.push(Token::Name(name));
            }
            '\'' | '"' => {
                while let Some(inner) = letters.next() {
                    match inner {
                        '\\' => drop(letters.next()),
                        _ if inner == letter && letters.next_if_eq(&letter).is_none() => break,
                        _ => {}
                    }
                }
                tokens.push(Token::Mark(letter));
            }
            _ if letter.is_alphanumeric() || letter == '_' => {
                let mut word = letter.to_lowercase().to_string();
                while let Some(letter) = letters.next_if(|letter| letter.is_alphanumeric() || *letter == '_') {
                    word.extend(letter.to_lowercase());
                }
                tokens.push(Token::Word(word));
            }
            _ if letter.is_whitespace() => {}
            _ => tokens.push(Token::Mark(letter)),
        }
    }
    tokens
}

/// The names among `views` that a view's statement selects from.
pub(crate) fn needs(statement: &str, database: &str, own: &str, views: &BTreeSet<String>) -> Vec<String> {
    let tokens = tokens(statement);
    let mut found = BTreeSet::new();
    let begins = |token: Option<&Token>| match token {
        Some(Token::Word(word)) => matches!(&**word, "from" | "join" | "straight_join"),
        Some(Token::Mark(mark)) => matches!(mark, ',' | '('),
        _ => false,
    };
    for place in 0..tokens.len() {
        let Some(Token::Name(first)) = tokens.get(place) else { continue };
        if place == 0 || !begins(tokens.get(place - 1)) {
            continue;
        }
        let is_dot = |place| tokens.get(place) == Some(&Token::Mark('.'));
        let name = match (is_dot(place + 1), tokens.get(place + 2)) {
            (false, _) => first,
            (true, Some(Token::Name(second))) if first == database && !is_dot(place + 3) => second,
            _ => continue,
        };
        if name != own && views.contains(name) {
            found.insert(name.clone());
        }
    }
    found.into_iter().collect()
}

/// The names in an order in which each comes behind what it needs; otherwise by name. What needs itself in a circle comes last.
pub(crate) fn order(needs: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut done: Vec<String> = Vec::with_capacity(needs.len());
    let mut waiting: BTreeSet<&String> = needs.keys().collect();
    while !waiting.is_empty() {
        let is_ready = |name: &&&String| {
            needs
                .get(**name)
                .is_none_or(|needed| needed.iter().all(|other| !waiting.contains(other) || other == **name))
        };
        let mut ready: Vec<&String> = waiting.iter().filter(is_ready).copied().collect();
        if ready.is_empty() {
            ready = waiting.iter().copied().collect();
        }
        for name in ready {
            waiting.remove(name);
            done.push(name.clone());
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_view_selects_from() {
        let views: BTreeSet<String> = ["v1", "v2", "v`3", "a"].map(str::to_owned).into();
        for (sql, expected) in [
            ("select `v1`.`a` AS `a` from `v1`", &["v1"][..]),
            ("select `x`.`a` AS `v1` from `t` `x`", &[]),
            ("select 1 AS `c` from (`t` join `v2` on(`t`.`v1` = `v2`.`a`))", &["v2"]),
            ("select 1 from `shop`.`v2` `z`, `other`.`v1`", &["v2"]),
            ("select 'from `v1`' AS `c` from `v``3`", &["v`3"]),
            ("select 'it''s \\' from `v1`' AS `c` from `t`", &[]),
            ("select 1 from (select 1 from `v1`) `q` where exists(select 1 from `v2`)", &["v1", "v2"]),
            ("select 1 from `own`", &[]),
            ("select max(`v1`.`x`) AS `m` from `t`", &[]),
            ("", &[]),
            ("select ` from", &[]),
        ] {
            assert_eq!(needs(sql, "shop", "own", &views), expected, "{sql}");
        }
    }

    #[test]
    fn each_comes_behind_what_it_needs() {
        let of = |pairs: &[(&str, &[&str])]| {
            let pair = |(name, needs): &(&str, &[&str])| {
                ((*name).to_owned(), needs.iter().map(|need| (*need).to_owned()).collect())
            };
            order(&pairs.iter().map(pair).collect())
        };
        assert_eq!(of(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]), ["c", "b", "a"]);
        assert_eq!(of(&[("a", &[]), ("b", &[]), ("c", &["a", "missing"])]), ["a", "b", "c"]);
        assert_eq!(of(&[("a", &["b"]), ("b", &["a"]), ("c", &[])]), ["c", "a", "b"]);
        assert_eq!(of(&[("a", &["a"])]), ["a"]);
        assert!(of(&[]).is_empty());
    }
}
