//! Whether commits of a server wait for this receiver, as its `synchronous_standby_names` says. Pure.
//!
//! Source: PostgreSQL's documentation of `synchronous_standby_names`. A list of names, `FIRST 1 (list)` and `1 (list)` mean the same.

/// The name by which a server knows this receiver.
const NAME: &str = "seawall";

/// When commits wait for this receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// No other server can take its place.
    Always,
    /// Another server takes its place while it isn't connected.
    Connected,
}

/// What a `synchronous_standby_names` says.
#[derive(Debug, PartialEq, Eq)]
struct Standbys {
    /// Whether any of them are enough (`ANY`), and not the first ones that are connected.
    any: bool,
    /// How many of them a commit waits for.
    number: usize,
    names: Vec<String>,
}

/// How a list names this receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// By its name.
    Ours,
    /// As it names every server: by `*`.
    Any,
}

/// How a list names this receiver; `None` if it doesn't.
pub(super) fn named(list: &str) -> Option<Named> {
    let Standbys { names, .. } = parse(list)?;
    match names.iter().any(|name| is_ours(name)) {
        true => Some(Named::Ours),
        false => names.iter().any(|name| name == "*").then_some(Named::Any),
    }
}

/// When commits of a server wait for this receiver; `None` where they may go on through other servers, or that isn't known because
/// `*` names them.
pub(super) fn waits(list: &str) -> Option<Waits> {
    let Standbys { any, number, names } = parse(list)?;
    let place = names.iter().position(|name| is_ours(name))?;
    let is_open = |names: &[String]| names.iter().any(|name| name == "*");
    let others = names.iter().filter(|name| !is_ours(name)).count();
    if !is_open(&names) && others < number {
        return Some(Waits::Always);
    }
    let before = names.get(..place)?;
    (!any && !is_open(before) && place < number).then_some(Waits::Connected)
}

/// The list without this receiver, so that commits wait for what else it names. `*` would name it again.
pub(super) fn without_us(list: &str) -> String {
    let Some(Standbys { any, number, names }) = parse(list) else { return String::new() };
    let is_other = |name: &&String| !is_ours(name) && *name != "*";
    let others: Vec<String> = names.iter().filter(is_other).map(|name| written(name)).collect();
    let number = number.min(others.len());
    match others.is_empty() {
        true => String::new(),
        false => format!("{} {number} ({})", if any { "ANY" } else { "FIRST" }, others.join(", ")),
    }
}

/// PostgreSQL compares names without regard to case.
fn is_ours(name: &str) -> bool {
    name.eq_ignore_ascii_case(NAME)
}

/// A name as a list has it.
fn written(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !["first", "any"].iter().any(|word| name.eq_ignore_ascii_case(word));
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A word of a list: a name, or a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Name(String),
    Sign(char),
}

/// The words of a list; `None` if a quote isn't closed.
fn words(list: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = list.chars().peekable();
    while let Some(first) = rest.next() {
        match first {
            '"' => {
                let mut name = String::new();
                loop {
                    match rest.next()? {
                        '"' if rest.peek() == Some(&'"') => name.extend(rest.next()),
                        '"' => break,
                        other => name.push(other),
                    }
                }
                words.push(Word::Name(name));
            }
            ',' | '(' | ')' => words.push(Word::Sign(first)),
            space if space.is_whitespace() => {}
            '*' => words.push(Word::Name("*".to_owned())),
            _ => {
                let mut name = String::from(first);
                let goes_on = |c: &char| !c.is_whitespace() && !matches!(c, ',' | '(' | ')' | '"' | '*');
                while let Some(next) = rest.next_if(goes_on) {
                    name.push(next);
                }
                words.push(Word::Name(name));
            }
        }
    }
    Some(words)
}

/// Reads a list; `None` if it is empty or makes no sense, as no server has it then.
fn parse(list: &str) -> Option<Standbys> {
    let words = words(list)?;
    let is = |word: &str, expected: &str| word.eq_ignore_ascii_case(expected);
    let (any, number, names) = match words.as_slice() {
        [Word::Name(how), Word::Name(number), Word::Sign('('), names @ .., Word::Sign(')')]
            if is(how, "any") || is(how, "first") =>
        {
            (is(how, "any"), number.parse().ok()?, names)
        }
        [Word::Name(number), Word::Sign('('), names @ .., Word::Sign(')')] => (false, number.parse().ok()?, names),
        names => (false, 1, names),
    };
    let names = names.chunks(2).map(|chunk| match chunk {
        [Word::Name(name)] | [Word::Name(name), Word::Sign(',')] => Some(name.clone()),
        _ => None,
    });
    let names: Vec<String> = names.collect::<Option<_>>()?;
    (!names.is_empty() && number > 0).then_some(Standbys { any, number, names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_commits_wait_and_what_lets_them_go_on() {
        use Waits::{Always, Connected};
        let (ours, any) = (Some(Named::Ours), Some(Named::Any));
        for (list, named, expected, without) in [
            ("", None, None, ""),
            ("seawall", ours, Some(Always), ""),
            ("\"Seawall\"", ours, Some(Always), ""),
            ("seawall2", None, None, "FIRST 1 (seawall2)"),
            ("seawall, s1", ours, Some(Connected), "FIRST 1 (s1)"),
            ("s1, seawall", ours, None, "FIRST 1 (s1)"),
            ("2 (s1, seawall)", ours, Some(Always), "FIRST 1 (s1)"),
            ("first 2 (s1, seawall, s2)", ours, Some(Connected), "FIRST 2 (s1, s2)"),
            ("FIRST 1(seawall)", ours, Some(Always), ""),
            ("ANY 1 (seawall, s1)", ours, None, "ANY 1 (s1)"),
            ("any 2 (seawall,\"s-1\")", ours, Some(Always), "ANY 1 (\"s-1\")"),
            ("ANY 2 (seawall, s1, s2)", ours, None, "ANY 2 (s1, s2)"),
            ("*", any, None, ""),
            ("seawall, *", ours, Some(Connected), ""),
            ("2 (*, seawall, s1)", ours, None, "FIRST 1 (s1)"),
            ("ANY 2 (seawall, *)", ours, None, ""),
            ("\"first\", \"a\"\"b\", seawall", ours, None, "FIRST 1 (\"first\", \"a\"\"b\")"),
            ("\"seawall", None, None, ""),
            ("ANY x (seawall)", None, None, ""),
            ("FIRST 0 (seawall)", None, None, ""),
            ("seawall s1", None, None, ""),
        ] {
            assert_eq!((super::named(list), waits(list)), (named, expected), "{list}");
            assert_eq!(without_us(list), without, "{list}");
        }
    }
}
