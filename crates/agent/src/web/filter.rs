//! Which databases does a screen show, and in which order? Pure.

use std::cmp::Reverse;
use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::{Severity, Status};

/// Rows of one page of a table.
pub(super) const ROWS: usize = 100;

/// Letters of a search that count.
const LETTERS: usize = 200;

/// The databases that are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Filter {
    /// Words that the name, the engine, the source, the vault or the phase must hold.
    pub(super) text: String,
    pub(super) show: Show,
    pub(super) sort: Sort,
    /// From 0.
    pub(super) page: usize,
}

/// A choice of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Show {
    #[default]
    All,
    /// Those with an alarm.
    Alarms,
    /// Those with a critical alarm.
    Critical,
    /// Those with changes that aren't in the vault yet.
    Behind,
    /// Those without a proof that holds.
    Unproved,
}

impl Show {
    /// Each with its name in a link, and for people.
    pub(super) const ALL: [(Self, &str, &str); 5] = [
        (Self::All, "all", "All databases"),
        (Self::Alarms, "alarms", "With an alarm"),
        (Self::Critical, "critical", "With a critical alarm"),
        (Self::Behind, "behind", "With a lag"),
        (Self::Unproved, "unproved", "Without a proof that holds"),
    ];

    fn takes(self, status: &Status) -> bool {
        match self {
            Self::All => true,
            Self::Alarms => !status.alarms.is_empty(),
            Self::Critical => status.alarms.iter().any(|alarm| alarm.severity == Severity::Critical),
            Self::Behind => status.lag_bytes > 0 || status.lag_ms > 0 || status.protected.is_none(),
            Self::Unproved => !status.proof.as_ref().is_some_and(|proof| proof.holds()),
        }
    }
}

/// An order of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// The ones that need a person first.
    #[default]
    Urgency,
    Name,
    /// The longest lag first.
    Lag,
    /// The largest first.
    Size,
    /// The oldest proof first.
    Proof,
}

impl Sort {
    /// Each with its name in a link, and for people.
    pub(super) const ALL: [(Self, &str, &str); 5] = [
        (Self::Urgency, "urgency", "Urgency"),
        (Self::Name, "name", "Name"),
        (Self::Lag, "lag", "Lag"),
        (Self::Size, "size", "Size"),
        (Self::Proof, "proof", "Oldest proof"),
    ];
}

/// The part of all databases that a page shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// Their places in the list of all.
    pub(super) rows: Vec<usize>,
    /// How many the filter takes.
    pub(super) taken: usize,
    /// The page that is shown, and how many there are.
    pub(super) page: (usize, usize),
}

impl Filter {
    /// What a query asks for. What isn't understood counts as not said.
    pub(super) fn parse(query: &HashMap<String, String>) -> Self {
        let said = |key: &str| query.get(key).map_or("", String::as_str);
        let (show, sort) = (named(&Show::ALL, said("show")), named(&Sort::ALL, said("sort")));
        let page = said("page").parse::<usize>().unwrap_or(1).saturating_sub(1);
        Self { text: said("q").trim().chars().take(LETTERS).collect(), show, sort, page }
    }

    /// The query of a link that asks for the same, from the `?` on; of another page if one is named.
    pub(super) fn link(&self, page: usize) -> String {
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(format!("q={}", utf8_percent_encode(&self.text, NON_ALPHANUMERIC)));
        }
        parts.extend(Show::ALL[1..].iter().find(|one| one.0 == self.show).map(|one| format!("show={}", one.1)));
        parts.extend(Sort::ALL[1..].iter().find(|one| one.0 == self.sort).map(|one| format!("sort={}", one.1)));
        if page > 0 {
            parts.push(format!("page={}", page + 1));
        }
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }

    /// The databases of the page. A page behind the last one is the last one.
    pub(super) fn select<'a>(&self, all: impl IntoIterator<Item = &'a Status>) -> Selection {
        let words: Vec<String> = self.text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut taken: Vec<(usize, &Status)> =
            all.into_iter().enumerate().filter(|(_, status)| self.takes(status, &words)).collect();
        match self.sort {
            Sort::Urgency => taken.sort_by_cached_key(|(_, status)| (Reverse(urgency(status)), status.name.clone())),
            Sort::Name => taken.sort_by_key(|(_, status)| &status.name),
            Sort::Lag => taken.sort_by_key(|(_, status)| Reverse((status.lag_ms, status.lag_bytes))),
            Sort::Size => taken.sort_by_key(|(_, status)| Reverse(status.source_bytes)),
            Sort::Proof => taken
                .sort_by_key(|(_, status)| status.proof.as_ref().filter(|proof| proof.holds()).map(|proof| proof.at)),
        }
        let pages = taken.len().div_ceil(ROWS).max(1);
        let page = self.page.min(pages - 1);
        let rows = taken.iter().skip(page * ROWS).take(ROWS).map(|(place, _)| *place).collect();
        Selection { rows, taken: taken.len(), page: (page, pages) }
    }

    fn takes(&self, status: &Status, words: &[String]) -> bool {
        let texts = [&*status.name, &status.engine, &status.source, &status.vault, status.phase.name()];
        let holds = |word: &String| texts.iter().any(|text| text.to_lowercase().contains(word));
        self.show.takes(status) && words.iter().all(holds)
    }
}

/// The choice with a name; the usual one if none has it.
fn named<T: Copy + Default>(all: &[(T, &str, &str)], name: &str) -> T {
    all.iter().find(|one| one.1 == name).map(|one| one.0).unwrap_or_default()
}

/// How much a database needs a person. A silenced alarm counts less than one that isn't silenced.
fn urgency(status: &Status) -> u8 {
    let of_alarm = |alarm: &seawall_core::Alarm| match (alarm.severity, alarm.silenced_until) {
        (Severity::Critical, None) => 5,
        (Severity::Warning, None) => 4,
        (Severity::Critical, Some(_)) => 3,
        (Severity::Warning, Some(_)) => 2,
    };
    status.alarms.iter().map(of_alarm).max().unwrap_or(u8::from(status.protected.is_none()))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Alarm, Description, Moment, Phase, Point};

    use super::*;

    fn status(name: &str, change: impl FnOnce(&mut Status)) -> Status {
        let described = Description {
            name: name.into(),
            engine: "sqlite",
            source: Some(format!("/data/{name}.db")),
            vault: "s3://bucket/x".into(),
        };
        let point = Point { position: "1".into(), moment: Moment::default() };
        let plain = Status::new(described, Phase::Protecting, Moment::default());
        let mut status = Status { protected: Some(point), ..plain };
        change(&mut status);
        status
    }

    fn alarm(severity: Severity, silenced: bool) -> Alarm {
        Alarm {
            code: "alarm.lag".into(),
            severity,
            cause: String::new(),
            next: String::new(),
            since: Moment::default(),
            silenced_until: silenced.then(Moment::default),
        }
    }

    fn parse(query: &str) -> Filter {
        Filter::parse(&form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    #[test]
    fn what_is_shown_and_in_which_order() {
        let all = [
            status("b", |s| s.source_bytes = Some(7)),
            status("a", |s| s.lag_ms = 9),
            status("Shop", |s| s.alarms = vec![alarm(Severity::Warning, false)]),
            status("d", |s| s.alarms = vec![alarm(Severity::Critical, true)]),
            status("e", |s| (s.alarms, s.protected) = (vec![alarm(Severity::Critical, false)], None)),
            status("f", |s| s.protected = None),
        ];
        for (query, expected) in [
            ("", &["e", "Shop", "d", "f", "a", "b"][..]),
            ("sort=name", &["Shop", "a", "b", "d", "e", "f"]),
            ("sort=lag", &["a", "b", "Shop", "d", "e", "f"]),
            ("sort=size", &["b", "a", "Shop", "d", "e", "f"]),
            ("sort=nothing", &["e", "Shop", "d", "f", "a", "b"]),
            ("show=alarms", &["e", "Shop", "d"]),
            ("show=critical", &["e", "d"]),
            ("show=behind&sort=name", &["a", "e", "f"]),
            ("q=SHOP", &["Shop"]),
            ("q=bucket+shop", &["Shop"]),
            ("q=data/d", &["d"]),
            ("q=nobody", &[]),
            ("page=99", &["e", "Shop", "d", "f", "a", "b"]),
            ("page=0&q=shop", &["Shop"]),
            ("page=18446744073709551615&q=shop", &["Shop"]),
        ] {
            let found = parse(query).select(&all);
            let names: Vec<&str> = found.rows.iter().map(|row| &*all[*row].name).collect();
            assert_eq!(names, expected, "{query}");
            assert_eq!(found.taken, expected.len(), "{query}");
        }
    }

    #[test]
    fn pages_hold_each_database_once() {
        let all: Vec<Status> = (0..2 * ROWS + 1).map(|n| status(&format!("{n:05}"), |_| ())).collect();
        let mut seen = Vec::new();
        for page in 1..=3 {
            let found = parse(&format!("page={page}")).select(&all);
            assert_eq!((found.page, found.taken), ((page - 1, 3), all.len()));
            seen.extend(found.rows);
        }
        assert_eq!(seen, (0..all.len()).collect::<Vec<_>>());
        assert_eq!(parse("").select([]), Selection { rows: vec![], taken: 0, page: (0, 1) });
    }

    #[test]
    fn a_link_asks_for_the_same() {
        for query in ["", "q=a+b%26c%22", "show=critical&sort=size&page=4", "q=%E2%80%AE&page=2"] {
            let filter = parse(query);
            let link = filter.link(filter.page);
            assert_eq!(parse(link.trim_start_matches('?')), filter, "{query} {link}");
            assert!(link.is_ascii() && !link.contains('"'), "{link}");
        }
    }
}
