//! Which databases of a catalog are shown, and in which order? Pure.

use std::cmp::Reverse;

use super::Row;

/// The engines of rows.
const ENGINES: [&str; 5] = ["sqlite", "lmdb", "postgres", "mysql", "server"];

/// A condition on a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Its name holds this text, in any case of letters.
    Name(String),
    /// It is of this engine.
    Engine(String),
    /// It has alarms (`true`) or none.
    Alarms(bool),
    /// It is encrypted, or not.
    Encrypted(bool),
    /// It has a proof, or none.
    Proved(bool),
}

impl Filter {
    /// Reads a condition: a text for the name, or `engine=sqlite`, `alarms=yes`, `encrypted=no`, `proved=no`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let Some((key, value)) = text.split_once('=') else { return Ok(Self::Name(text.to_lowercase())) };
        let truth = || match value {
            "yes" | "true" => Ok(true),
            "no" | "false" => Ok(false),
            _ => Err(format!("{key} is yes or no, and not \"{value}\"")),
        };
        match key {
            "name" => Ok(Self::Name(value.to_lowercase())),
            "engine" if !ENGINES.contains(&value) => {
                Err(format!("\"{value}\" is no engine: there are {}", ENGINES.join(", ")))
            }
            "engine" => Ok(Self::Engine(value.to_owned())),
            "alarms" => truth().map(Self::Alarms),
            "encrypted" => truth().map(Self::Encrypted),
            "proved" => truth().map(Self::Proved),
            _ => Err(format!("\"{key}\" is none of name, engine, alarms, encrypted, proved")),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        match self {
            Self::Name(text) => row.name.to_lowercase().contains(text),
            // Which server it is of may be unknown.
            Self::Engine(engine) => row.engine == engine,
            Self::Alarms(any) => row.alarms.is_empty() != *any,
            Self::Encrypted(encrypted) => row.encrypted == *encrypted,
            Self::Proved(proved) => row.proved_at.is_some() == *proved,
        }
    }
}

/// The order of databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By name.
    #[default]
    Name,
    /// The oldest newest point first; those without any point before all.
    Age,
    /// The largest first.
    Size,
    /// The fastest growing first.
    Growth,
    /// The oldest proof first; those without a proof before all.
    Proof,
}

/// Which databases are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choose {
    /// All of these hold.
    pub filters: Vec<Filter>,
    /// The order.
    pub order: Order,
    /// At most so many.
    pub limit: Option<usize>,
}

impl Choose {
    /// Whether objects must be read before it can be decided.
    pub(super) fn needs_content(&self) -> bool {
        // Which backup sets count decides their age and growth.
        let chooses_by_points = self.limit.is_some() && matches!(self.order, Order::Age | Order::Growth);
        let is_of_content = |filter: &Filter| matches!(filter, Filter::Alarms(_) | Filter::Engine(_));
        chooses_by_points || self.filters.iter().any(is_of_content)
    }

    /// The databases that are shown.
    pub(super) fn choose(&self, mut rows: Vec<Row>) -> Vec<Row> {
        rows.retain(|row| self.filters.iter().all(|filter| filter.holds(row)));
        match self.order {
            Order::Name => rows.sort_by(|one, other| one.name.cmp(&other.name)),
            Order::Age => rows.sort_by_key(|row| Reverse(row.age_s.unwrap_or(u64::MAX))),
            Order::Size => rows.sort_by_key(|row| Reverse(row.bytes)),
            Order::Growth => rows.sort_by_key(|row| Reverse(row.growth_bytes_per_day.unwrap_or(i64::MIN))),
            Order::Proof => rows.sort_by_key(|row| row.proved_at),
        }
        rows.truncate(self.limit.unwrap_or(usize::MAX));
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seawall_core::Moment;
    use seawall_vault::VaultUrl;

    use super::super::names::Fact;
    use super::super::rows;
    use super::super::tally::Tally;
    use super::*;

    /// Three databases: a large old one, a small encrypted one with a proof, one of a server.
    fn catalog() -> Vec<Row> {
        let at = |hours: i64| Moment::from_millis(hours * 3_600_000);
        let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
        for (root, fact, size, hours) in [
            ("Alpha", Fact::Ltx(0, 1, 3), 900, 1),
            ("beta", Fact::Ltx(0, 1, 3), 10, 5),
            ("beta", Fact::Encryption, 10, 5),
            ("beta", Fact::Proof(at(6)), 10, 6),
            ("gamma", Fact::Index(seawall_archive::SetId::new(at(3), 1)), 100, 3),
            ("gamma", Fact::Link(1), 0, 3),
            ("nothing", Fact::Other, 10_000, 3),
        ] {
            tallies.entry((root.to_owned(), String::new())).or_default().add(fact, size, at(hours));
        }
        rows(tallies, &VaultUrl::parse("file:///backups").expect("a URL"), at(10))
    }

    fn chosen(filters: &[&str], order: Order, limit: Option<usize>) -> Vec<String> {
        let filters = filters.iter().map(|filter| Filter::read(filter).expect("a filter")).collect();
        Choose { filters, order, limit }.choose(catalog()).into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn filters_and_orders() {
        use Order::{Age, Growth, Name, Proof, Size};
        for (filters, order, limit, expected) in [
            (&[][..], Name, None, &["Alpha", "beta", "gamma"][..]),
            (&[], Age, None, &["Alpha", "gamma", "beta"]),
            (&[], Size, Some(2), &["Alpha", "gamma"]),
            (&[], Growth, None, &["Alpha", "beta", "gamma"]),
            (&[], Proof, None, &["Alpha", "gamma", "beta"]),
            (&["ALPH"], Name, None, &["Alpha"]),
            (&["name=a", "engine=sqlite"], Name, None, &["Alpha", "beta"]),
            (&["engine=server"], Name, None, &["gamma"]),
            (&["encrypted=yes"], Name, None, &["beta"]),
            (&["encrypted=no", "proved=no"], Name, None, &["Alpha", "gamma"]),
            (&["alarms=yes"], Name, None, &[]),
            (&[], Name, Some(0), &[]),
        ] {
            assert_eq!(chosen(filters, order, limit), expected, "{filters:?} {order:?}");
        }
    }

    #[test]
    fn wrong_filters() {
        for text in ["alarms=maybe", "nme=x", "=", "encrypted=", "engine=postgresql"] {
            assert!(Filter::read(text).is_err(), "{text}");
        }
        assert_eq!(Filter::read("Shop"), Ok(Filter::Name("shop".into())));
    }
}
