//! What becomes of definers: the accounts with whose rights views, routines, triggers and events run. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::Error;
use crate::client::quote::name;
use crate::schema::program::Definer;

/// What becomes of the definers of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Definers {
    /// They stay.
    #[default]
    Kept,
    /// The account that restores becomes the definer of everything.
    Stripped,
    /// Some are replaced.
    Mapped {
        /// Definers as the set has them, and who takes their places.
        each: BTreeMap<String, String>,
        /// Who takes the place of all others; without it they stay.
        others: Option<String>,
    },
}

impl Definers {
    /// Reads them as a command line has them: `keep`, `strip`, `OLD=NEW`, or `NEW` for all that aren't named.
    pub(crate) fn parse(words: &[String], owners: bool) -> Result<Self, Error> {
        let wrong = |word: &str, cause: &str| {
            Error::Url {
                object: format!("--definer {word}"),
                cause: cause.to_owned(),
                next: "give keep, strip, USER@HOST for all definers, or OLD_USER@HOST=NEW_USER@HOST, which may be given more than once"
                    .to_owned(),
            }
        };
        match words {
            [] if owners => return Ok(Self::Kept),
            [] => return Ok(Self::Stripped),
            [word, ..] if !owners => return Err(wrong(word, "--no-owner strips all definers already")),
            [word] if word == "keep" => return Ok(Self::Kept),
            [word] if word == "strip" => return Ok(Self::Stripped),
            _ => {}
        }
        let (mut each, mut others) = (BTreeMap::new(), None);
        for word in words {
            let (old, new) = word.split_once('=').map_or((None, word.as_str()), |(old, new)| (Some(old), new));
            if new.rsplit_once('@').is_none_or(|(user, host)| user.is_empty() || host.is_empty()) {
                return Err(wrong(word, "this is no account"));
            }
            let known = match old {
                Some(old) => each.insert(old.to_owned(), new.to_owned()),
                None => others.replace(new.to_owned()),
            };
            if known.is_some() {
                return Err(wrong(word, "the same definers are replaced twice"));
            }
        }
        Ok(Self::Mapped { each, others })
    }

    pub(crate) fn are_stripped(&self) -> bool {
        *self == Self::Stripped
    }

    /// Who takes the place of a definer.
    fn replacing(&self, definer: &str) -> Option<&str> {
        match self {
            Self::Kept | Self::Stripped => None,
            Self::Mapped { each, others } => each.get(definer).or(others.as_ref()).map(String::as_str),
        }
    }

    /// The account that a definer is on the target.
    pub(crate) fn on_target<'a>(&'a self, definer: &'a str) -> &'a str {
        self.replacing(definer).unwrap_or(definer)
    }

    /// What becomes of the definer of one object.
    pub(crate) fn of(&self, definer: &str) -> Definer<'static> {
        match self.replacing(definer) {
            Some(account) => Definer::Given(Cow::Owned(sql(account))),
            None if self.are_stripped() => Definer::Stripped,
            None => Definer::Kept,
        }
    }

    /// Definers that are replaced, and that nothing has.
    pub(crate) fn unused<'a>(&'a self, used: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'a str> {
        let each = match self {
            Self::Mapped { each, .. } => Some(each),
            Self::Kept | Self::Stripped => None,
        };
        each.into_iter().flat_map(BTreeMap::keys).map(String::as_str).filter(move |definer| !used(definer))
    }

    /// What a journal's title says of them, so that nothing goes on with other ones.
    pub(crate) fn title(&self, owners: bool) -> String {
        match self {
            Self::Kept => String::new(),
            Self::Stripped if !owners => String::new(),
            Self::Stripped => ", definers stripped".to_owned(),
            Self::Mapped { each, others } => {
                let each = each.iter().map(|(old, new)| format!("{}={}", name(old), name(new)));
                let all: Vec<String> = each.chain(others.iter().map(|new| name(new))).collect();
                format!(", definers {}", all.join(" "))
            }
        }
    }
}

/// An account in a statement.
pub(crate) fn sql(account: &str) -> String {
    match account.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", name(user), name(host)),
        None => name(account),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str], owners: bool) -> Result<Definers, Error> {
        Definers::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), owners)
    }

    #[test]
    fn words_of_a_command_line() {
        for (words, owners, definer, expected) in [
            (&[][..], true, "a@h", Definer::Kept),
            (&["keep"], true, "a@h", Definer::Kept),
            (&["strip"], true, "a@h", Definer::Stripped),
            (&[], false, "a@h", Definer::Stripped),
            (&["b@%"], true, "a@h", Definer::Given("`b`@`%`".into())),
            (&["a@h=b@%"], true, "a@h", Definer::Given("`b`@`%`".into())),
            (&["a@h=b@%"], true, "c@h", Definer::Kept),
            (&["a@h=b@%", "x@y@z"], true, "c@h", Definer::Given("`x@y`@`z`".into())),
            (&["role=b`@h"], true, "role", Definer::Given("`b```@`h`".into())),
        ] {
            assert_eq!(parsed(words, owners).expect("known").of(definer), expected, "{words:?}");
        }
        for words in [
            &["keep", "strip"][..],
            &["b"],
            &["@h"],
            &["b@"],
            &["a@h=b"],
            &["a@h="],
            &["a@h=b@c", "a@h=d@e"],
            &["a@b", "c@d"],
        ] {
            assert!(parsed(words, true).is_err(), "{words:?}");
        }
        assert!(parsed(&["a@b"], false).is_err());
    }

    #[test]
    fn other_definers_are_another_restore() {
        let titles: Vec<String> = [&[][..], &["strip"], &["a@b"], &["a@b=c@d"], &["a@b=c@d", "a@b"]]
            .into_iter()
            .map(|words| parsed(words, true).expect("known").title(true))
            .collect();
        assert!(titles.iter().enumerate().all(|(place, title)| !titles[..place].contains(title)), "{titles:?}");
        // As earlier versions wrote them.
        assert_eq!((titles[0].as_str(), Definers::Stripped.title(false).as_str()), ("", ""));
        let mapped = parsed(&["a@b=c@d"], true).expect("known");
        assert_eq!(mapped.unused(|definer| definer == "x@y").collect::<Vec<_>>(), ["a@b"]);
        assert_eq!((mapped.on_target("a@b"), mapped.on_target("e@f")), ("c@d", "e@f"));
    }
}
