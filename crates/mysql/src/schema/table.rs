//! A `CREATE TABLE` in parts: what the table needs before its rows, and the keys that are built behind them. Pure.
//!
//! Rows go into a table faster while it has no secondary index, and an index that is built from all rows at once is smaller.
//! Foreign keys come last, because the tables that they refer to need their indexes first. What is left out of the first
//! statement is in the later ones word for word.

use super::words::{Kind, Word, words};

/// A table's statement, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: String,
    /// Definitions: columns, keys, constraints.
    definitions: Vec<Definition>,
    /// What comes behind the last definition, from the closing parenthesis on.
    tail: String,
    /// The storage engine, if it is named.
    pub(crate) engine: Option<String>,
    /// Whether the table keeps former rows.
    pub(crate) is_versioned: bool,
}

/// A definition of a table's statement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Definition {
    text: String,
    part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Column {
        name: String,
        counts_up: bool,
    },
    Primary,
    Key(Key),
    Foreign(Foreign),
    /// A check, a period: it belongs to the table from the beginning.
    Other,
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: String,
    kind: KeyKind,
    /// The first column; none where the first part is an expression.
    first: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Plain,
    Unique,
    FullText,
    Spatial,
    /// Of a kind that this version doesn't know; it is made with the table.
    Unknown,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Its name.
    pub(crate) name: String,
    /// The database of the table that it refers to, if that is named.
    pub(crate) database: Option<String>,
    /// The table that it refers to.
    pub(crate) table: String,
}

/// Something that is added to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Added {
    /// The name of the index or constraint.
    pub(crate) name: String,
    /// What follows `ADD `.
    pub(crate) text: String,
}

impl Table {
    /// Takes the statement of `SHOW CREATE TABLE` apart. `None`: it isn't one.
    pub(crate) fn parse(sql: &str) -> Option<Self> {
        let words = words(sql.as_bytes())?;
        let [create, table, name, open, ..] = words.as_slice() else { return None };
        if !(create.is("CREATE") && table.is("TABLE") && open.is_sign(b'(')) {
            return None;
        }
        let name = name.name()?;
        let mut definitions = Vec::new();
        let (mut depth, mut first, mut close) = (0_u32, 4, None);
        for (place, word) in words.iter().enumerate().skip(4) {
            let ends = depth == 0 && (word.is_sign(b',') || word.is_sign(b')'));
            if ends {
                definitions.push(Definition::parse(sql, words.get(first..place)?)?);
                first = place + 1;
            }
            match word.kind {
                Kind::Sign(b'(') => depth += 1,
                Kind::Sign(b')') if depth == 0 => {
                    close = Some(place);
                    break;
                }
                Kind::Sign(b')') => depth -= 1,
                Kind::Sign(b';') => return None,
                _ => {}
            }
        }
        let options = words.get(close?..)?;
        // A table's statement is one of a table that is empty.
        if options.iter().any(|word| word.is("SELECT") || word.is_sign(b';')) {
            return None;
        }
        let tail = sql.get(options.first()?.start..)?.to_owned();
        let engine = option(options, "ENGINE");
        let is_versioned = options.windows(2).any(|pair| pair[0].is("SYSTEM") && pair[1].is("VERSIONING"))
            && !options.windows(3).any(|three| three[0].is("WITHOUT") && three[1].is("SYSTEM"));
        Some(Self { name, definitions, tail, engine, is_versioned })
    }

    /// The statement that makes the table in a database, without what comes behind the rows.
    pub(crate) fn create(&self, database: &str, at_once: bool) -> String {
        let definitions: Vec<&str> = self
            .definitions
            .iter()
            .filter(|definition| match &definition.part {
                Part::Foreign(_) => false,
                Part::Key(key) => at_once || !self.waits(key),
                _ => true,
            })
            .map(|definition| definition.text.as_str())
            .collect();
        let name = crate::client::quote::qualified(database, &self.name);
        format!("CREATE TABLE {name} (\n  {}\n{}", definitions.join(",\n  "), self.tail_of_empty())
    }

    /// The tail of the table while it has no rows. ARCHIVE takes no row whose number is below the next one.
    fn tail_of_empty(&self) -> String {
        let is_archive = self.engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("ARCHIVE"));
        let words = words(self.tail.as_bytes()).unwrap_or_default();
        let next = words.windows(3).find(|three| three[0].is("AUTO_INCREMENT") && three[1].is_sign(b'='));
        match next.filter(|_| is_archive) {
            Some([from, _, to]) => {
                let (before, behind) = (self.tail.get(..from.start), self.tail.get(to.end()..));
                format!("{}{}", before.unwrap_or_default(), behind.unwrap_or_default())
            }
            _ => self.tail.clone(),
        }
    }

    /// Columns in whose values or default the server shows a question mark.
    pub(crate) fn question_marks(&self) -> impl Iterator<Item = &str> {
        let has_one = |text: &str| {
            let words = words(text.as_bytes()).unwrap_or_default();
            let end = words.iter().position(|word| word.is("COMMENT")).unwrap_or(words.len());
            let shown = words.get(..end).unwrap_or_default();
            shown.iter().any(|word| word.kind == Kind::Text && word.bytes.contains(&b'?'))
        };
        self.columns().filter(move |(_, text)| has_one(text)).map(|(name, _)| name)
    }

    /// Columns with an enumeration in which the server shows a question mark: for a character beyond the basic plane it does,
    /// and the column that is made from that is another one.
    pub(crate) fn doubtful_enumerations(&self) -> impl Iterator<Item = &str> {
        let is_doubtful = |text: &str| {
            let words = words(text.as_bytes()).unwrap_or_default();
            let is_enum = words.get(1).is_some_and(|word| word.is("enum"));
            let end = words.iter().position(|word| word.is_sign(b')')).unwrap_or_default();
            let has_mark = |word: &Word<'_>| word.kind == Kind::Text && word.bytes.contains(&b'?');
            is_enum && words.get(..end).unwrap_or_default().iter().any(has_mark)
        };
        self.columns().filter(move |(_, text)| is_doubtful(text)).map(|(name, _)| name)
    }

    /// The indexes that are built behind the rows.
    pub(crate) fn keys(&self) -> Vec<(Key, Added)> {
        let key = |definition: &Definition| match &definition.part {
            Part::Key(key) if self.waits(key) => {
                Some((key.clone(), Added { name: key.name.clone(), text: definition.text.clone() }))
            }
            _ => None,
        };
        self.definitions.iter().filter_map(key).collect()
    }

    /// The foreign keys.
    pub(crate) fn foreign_keys(&self) -> Vec<(Foreign, Added)> {
        let foreign = |definition: &Definition| match &definition.part {
            Part::Foreign(foreign) => {
                Some((foreign.clone(), Added { name: foreign.name.clone(), text: definition.text.clone() }))
            }
            _ => None,
        };
        self.definitions.iter().filter_map(foreign).collect()
    }

    /// Columns and their definitions.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &str)> {
        self.definitions.iter().filter_map(|definition| match &definition.part {
            Part::Column { name, .. } => Some((name.as_str(), definition.text.as_str())),
            _ => None,
        })
    }

    /// The same table with defaults that take from the sequences of another database: `from` becomes `to`.
    pub(crate) fn with_sequences_of(&self, from: &str, to: &str) -> Self {
        let mut table = self.clone();
        for definition in &mut table.definitions {
            if let Part::Column { .. } = definition.part
                && let Some(text) = moved(&definition.text, from, to)
            {
                definition.text = text;
            }
        }
        table
    }

    /// The same table with defaults that take from the sequences of the session's database; none if it takes from none of `from`.
    pub(crate) fn without_database(&self, from: &str) -> Option<Self> {
        let mut table = self.clone();
        let mut is_moved = false;
        for definition in &mut table.definitions {
            if let Part::Column { .. } = definition.part
                && let Some(text) = replaced(&definition.text, from, None)
            {
                (definition.text, is_moved) = (text, true);
            }
        }
        is_moved.then_some(table)
    }

    /// The statement with everything that belongs to the table, in the session's database.
    pub(crate) fn statement(&self) -> String {
        let definitions: Vec<&str> = self.definitions.iter().map(|definition| definition.text.as_str()).collect();
        format!(
            "CREATE TABLE {} (\n  {}\n{}",
            crate::client::quote::name(&self.name),
            definitions.join(",\n  "),
            self.tail
        )
    }

    /// The same table without character sets that a collation beside them says already. MySQL tells them only where the statement that
    /// made the table did: a table that is made from what it tells is told in other words.
    pub(crate) fn in_few_words(&self) -> Self {
        let mut table = self.clone();
        for definition in &mut table.definitions {
            if let Part::Column { .. } = definition.part
                && let Some(text) = without_charset(&definition.text)
            {
                definition.text = text;
            }
        }
        table
    }

    /// The definitions of columns whose defaults take from sequences of a database.
    pub(crate) fn columns_of_sequences(&self, database: &str) -> impl Iterator<Item = &str> {
        self.columns().map(|(_, text)| text).filter(move |text| moved(text, database, database).is_some())
    }

    /// Whether a key can be built behind the rows.
    ///
    /// The server needs a key for the column that counts up. And a table of InnoDB without a primary key is kept in the order
    /// of its first unique key: a later one would have the whole table written again.
    fn waits(&self, key: &Key) -> bool {
        if !self.engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("InnoDB")) {
            return false;
        }
        let has_primary = self.definitions.iter().any(|definition| definition.part == Part::Primary);
        let counts_up = self.definitions.iter().find_map(|definition| match &definition.part {
            Part::Column { name, counts_up: true } => Some(name.as_str()),
            _ => None,
        });
        match key.kind {
            KeyKind::Unknown => false,
            KeyKind::Unique if !has_primary => false,
            _ => counts_up.is_none() || key.first.as_deref().is_some_and(|first| Some(first) != counts_up),
        }
    }
}

/// The statements that build indexes behind the rows. InnoDB builds plain indexes of one statement in one pass over the table,
/// and one full-text index at a time.
pub(crate) fn add_keys(database: &str, table: &str, keys: &[(Key, Added)]) -> Vec<String> {
    let name = crate::client::quote::qualified(database, table);
    let alter = |added: &[&Added]| {
        let added: Vec<String> = added.iter().map(|added| format!("ADD {}", added.text)).collect();
        format!("ALTER TABLE {name} {}", added.join(", "))
    };
    let is_alone = |key: &Key| matches!(key.kind, KeyKind::FullText | KeyKind::Spatial);
    let together: Vec<&Added> = keys.iter().filter(|(key, _)| !is_alone(key)).map(|(_, added)| added).collect();
    let alone = keys.iter().filter(|(key, _)| is_alone(key)).map(|(_, added)| alter(&[added]));
    let first = (!together.is_empty()).then(|| alter(&together));
    first.into_iter().chain(alone).collect()
}

/// The statement that adds foreign keys.
pub(crate) fn add_foreign_keys(database: &str, table: &str, keys: &[Added]) -> String {
    let added: Vec<String> = keys.iter().map(|added| format!("ADD {}", added.text)).collect();
    format!("ALTER TABLE {} {}", crate::client::quote::qualified(database, table), added.join(", "))
}

/// A column's definition without the character set that its collation belongs to; none if it has no such.
fn without_charset(text: &str) -> Option<String> {
    let words = words(text.as_bytes())?;
    let five = words.windows(5).find(|five| five[0].is("CHARACTER") && five[1].is("SET") && five[3].is("COLLATE"))?;
    let (charset, collation) = (five[2].name()?, five[4].name()?);
    collation.strip_prefix(&charset)?.strip_prefix('_')?;
    Some(format!("{}{}", text.get(..five[0].start)?, text.get(five[3].start..)?))
}

/// A column's definition with the sequences of another database; none if it names no sequence of `from`.
fn moved(text: &str, from: &str, to: &str) -> Option<String> {
    replaced(text, from, Some(to))
}

/// The same, with the sequences of the session's database where no other is named.
fn replaced(text: &str, from: &str, to: Option<&str>) -> Option<String> {
    let words = words(text.as_bytes())?;
    let (mut out, mut done) = (String::new(), 0);
    for five in words.windows(5) {
        let [function, open, database, dot, sequence] = five else { continue };
        let is_function = ["nextval", "lastval", "setval"].iter().any(|name| function.is(name));
        if is_function && open.is_sign(b'(') && dot.is_sign(b'.') && database.name().as_deref() == Some(from) {
            out.push_str(text.get(done..database.start)?);
            if let Some(to) = to {
                out.push_str(&crate::client::quote::name(to));
            }
            done = if to.is_some() { database.end() } else { sequence.start };
        }
    }
    (done > 0).then(|| out + text.get(done..).unwrap_or_default())
}

/// The value of an option of a table.
fn option(options: &[Word<'_>], name: &str) -> Option<String> {
    let at = options.iter().position(|word| word.is(name))?;
    let value = options.get(at + 1..)?.iter().find(|word| !word.is_sign(b'='))?;
    value.name()
}

impl Definition {
    fn parse(sql: &str, words: &[Word<'_>]) -> Option<Self> {
        let (first, last) = (words.first()?, words.last()?);
        let text = sql.get(first.start..last.end())?.to_owned();
        let is = |place: usize, word: &str| words.get(place).is_some_and(|found| found.is(word));
        let part = match first.kind {
            Kind::Name => {
                Part::Column { name: first.name()?, counts_up: words.iter().any(|word| word.is("AUTO_INCREMENT")) }
            }
            Kind::Word if first.is("PRIMARY") => Part::Primary,
            Kind::Word if first.is("KEY") || first.is("INDEX") => key(KeyKind::Plain, words, 1)?,
            Kind::Word if is(1, "KEY") || is(1, "INDEX") => {
                let kind = match first {
                    word if word.is("UNIQUE") => KeyKind::Unique,
                    word if word.is("FULLTEXT") => KeyKind::FullText,
                    word if word.is("SPATIAL") => KeyKind::Spatial,
                    _ => KeyKind::Unknown,
                };
                key(kind, words, 2)?
            }
            Kind::Word if first.is("CONSTRAINT") && is(2, "FOREIGN") => foreign(words)?,
            Kind::Word => Part::Other,
            _ => return None,
        };
        Some(Self { text, part })
    }
}

/// A key whose name is at that place.
fn key(kind: KeyKind, words: &[Word<'_>], place: usize) -> Option<Part> {
    let name = words.get(place)?.name()?;
    let open = words.iter().position(|word| word.is_sign(b'('))?;
    let first = words.get(open + 1).filter(|word| word.kind == Kind::Name).and_then(Word::name);
    // `UNIQUE KEY … USING HASH` over a long text is made by the server itself; it is like any other.
    Some(Part::Key(Key { name, kind, first }))
}

fn foreign(words: &[Word<'_>]) -> Option<Part> {
    let name = words.get(1)?.name()?;
    let references = words.iter().position(|word| word.is("REFERENCES"))?;
    let first = words.get(references + 1)?.name()?;
    let has_database = words.get(references + 2).is_some_and(|word| word.is_sign(b'.'));
    let (database, table) = match has_database {
        true => (Some(first), words.get(references + 3)?.name()?),
        false => (None, first),
    };
    Some(Part::Foreign(Foreign { name, database, table }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORDERS: &str = "CREATE TABLE `orders` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a,b` varchar(10) DEFAULT 'x, (y' COMMENT 'KEY `k` (`a`)',\n  \
        `c` int(11) DEFAULT NULL CHECK (`c` > (1 + 2)),\n  `e` enum('a',')','it''s') DEFAULT NULL,\n  \
        `g` int GENERATED ALWAYS AS (`c` + 1) STORED,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`a,b`),\n  KEY `k``1` (`c`,`e`) USING BTREE COMMENT 'x',\n  \
        FULLTEXT KEY `f` (`a,b`) /*!50100 WITH PARSER `ngram` */ ,\n  FULLTEXT KEY `f2` (`a,b`),\n  \
        CONSTRAINT `fk1` FOREIGN KEY (`c`) REFERENCES `other` (`id`) ON DELETE CASCADE,\n  \
        CONSTRAINT `fk2` FOREIGN KEY (`c`) REFERENCES `my``db`.`t` (`id`),\n  CONSTRAINT `positive` CHECK (`c` > 0)\n\
        ) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COMMENT='a) ENGINE=MyISAM'\n/*!50100 PARTITION BY HASH (`id`)\nPARTITIONS 4 */";

    #[test]
    fn keys_come_behind_the_rows() {
        let table = Table::parse(ORDERS).expect("a table");
        let create = table.create("d", false);
        assert_eq!((table.name.as_str(), table.engine.as_deref()), ("orders", Some("InnoDB")));
        for there in [
            "`id` int(11) NOT NULL AUTO_INCREMENT,",
            "PRIMARY KEY (`id`)",
            "CHECK (`c` > 0)\n) ENGINE=InnoDB",
            "PARTITIONS 4",
        ] {
            assert!(create.contains(there), "{there}: {create}");
        }
        for absent in ["UNIQUE KEY", "KEY `k``1`", "FULLTEXT", "FOREIGN"] {
            assert!(!create.contains(absent), "{absent}: {create}");
        }
        assert!(create.starts_with("CREATE TABLE `d`.`orders` (\n  `id` int"), "{create}");
        assert_eq!(
            add_keys("d", "orders", &table.keys()),
            [
                "ALTER TABLE `d`.`orders` ADD UNIQUE KEY `u` (`a,b`), ADD KEY `k``1` (`c`,`e`) USING BTREE COMMENT 'x'",
                "ALTER TABLE `d`.`orders` ADD FULLTEXT KEY `f` (`a,b`) /*!50100 WITH PARSER `ngram` */",
                "ALTER TABLE `d`.`orders` ADD FULLTEXT KEY `f2` (`a,b`)",
            ]
        );
        let (keys, added): (Vec<Foreign>, Vec<Added>) = table.foreign_keys().into_iter().unzip();
        assert_eq!(keys[0], Foreign { name: "fk1".into(), database: None, table: "other".into() });
        assert_eq!(keys[1], Foreign { name: "fk2".into(), database: Some("my`db".into()), table: "t".into() });
        assert_eq!(
            add_foreign_keys("d", "orders", &added[..1]),
            "ALTER TABLE `d`.`orders` ADD CONSTRAINT `fk1` FOREIGN KEY (`c`) REFERENCES `other` (`id`) ON DELETE CASCADE"
        );
        assert_eq!(table.columns().map(|(name, _)| name).collect::<Vec<_>>(), ["id", "a,b", "c", "e", "g"]);
        assert!(table.create("d", true).contains("UNIQUE KEY `u`"));
    }

    #[test]
    fn keys_that_the_table_needs_are_made_with_it() {
        for (definitions, engine, waiting) in [
            ("`a` int, KEY `k` (`a`)", "InnoDB", &["k"][..]),
            ("`a` int, KEY `k` (`a`)", "MyISAM", &[]),
            ("`a` int, UNIQUE KEY `u` (`a`), KEY `k` (`a`)", "InnoDB", &["k"]),
            ("`a` int, `b` int, PRIMARY KEY (`b`), UNIQUE KEY `u` (`a`)", "InnoDB", &["u"]),
            ("`a` int AUTO_INCREMENT, `b` int, PRIMARY KEY (`b`), KEY `k` (`a`), KEY `l` (`b`,`a`)", "InnoDB", &["l"]),
            (
                "`a` int AUTO_INCREMENT, `b` int, PRIMARY KEY (`a`), KEY `e` ((`a` + 1)), KEY `k` (`b`)",
                "InnoDB",
                &["k"],
            ),
            ("`a` int, `v` vector(3) NOT NULL, PRIMARY KEY (`a`), VECTOR KEY `v` (`v`)", "InnoDB", &[]),
        ] {
            let table = Table::parse(&format!("CREATE TABLE `t` ({definitions}) ENGINE={engine}")).expect("a table");
            let keys: Vec<String> = table.keys().into_iter().map(|(key, _)| key.name).collect();
            assert_eq!(keys, waiting, "{definitions}");
        }
    }

    #[test]
    fn a_collation_says_its_character_set() {
        let told = |column: &str| {
            let sql = format!("CREATE TABLE `t` ({column}) ENGINE=InnoDB");
            Table::parse(&sql).expect("a table").in_few_words().create("d", true)
        };
        let few = told("`a` text COLLATE utf8mb4_bin DEFAULT NULL");
        assert_eq!(told("`a` text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL"), few);
        assert_ne!(told("`a` text CHARACTER SET utf8 COLLATE utf8mb4_bin DEFAULT NULL"), few);
        assert_ne!(told("`a` text CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL"), few);
        assert_ne!(told("`a` text CHARACTER SET utf8mb4 DEFAULT NULL"), few);
    }

    #[test]
    fn an_archive_counts_from_its_rows() {
        for (engine, has) in [("ARCHIVE", false), ("InnoDB", true)] {
            let sql = format!("CREATE TABLE `t` (`a` int) ENGINE={engine} AUTO_INCREMENT=3 COMMENT='AUTO_INCREMENT=3'");
            let made = Table::parse(&sql).expect("a table").create("d", false);
            assert_eq!(made.contains(" AUTO_INCREMENT=3 "), has, "{made}");
            assert!(made.ends_with("COMMENT='AUTO_INCREMENT=3'"), "{made}");
        }
    }

    #[test]
    fn enumerations_with_a_question_mark_are_doubtful() {
        let sql = "CREATE TABLE `t` (`a` enum('x','?)') DEFAULT NULL, `b` enum('y') COMMENT '?', `c` set('?'), `?` text DEFAULT '?')";
        let table = Table::parse(sql).expect("a table");
        assert_eq!(table.doubtful_enumerations().collect::<Vec<_>>(), ["a"]);
        assert_eq!(table.question_marks().collect::<Vec<_>>(), ["a", "c", "?"]);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for sql in [
            "",
            "CREATE TABLE",
            "CREATE VIEW `v` (a) AS SELECT 1",
            "CREATE TABLE `t` (`a` int) AS SELECT * FROM mysql.user",
            "CREATE TABLE `t` (`a` int); DROP TABLE x",
            "CREATE TABLE `t` (`a` int",
            "CREATE TABLE `t` LIKE `u`",
            "CREATE TABLE `t` ()",
            "DROP TABLE `t` (",
        ] {
            assert_eq!(Table::parse(sql), None, "{sql}");
        }
    }

    #[test]
    fn former_rows_are_kept_where_the_table_says_so() {
        for (tail, is_versioned) in
            [("WITH SYSTEM VERSIONING", true), ("COMMENT='WITH SYSTEM VERSIONING'", false), ("", false)]
        {
            let table = Table::parse(&format!("CREATE TABLE `t` (`a` int) ENGINE=InnoDB {tail}")).expect("a table");
            assert_eq!(table.is_versioned, is_versioned, "{tail}");
        }
    }

    #[test]
    fn defaults_take_from_the_sequences_of_the_new_database() {
        let sql = "CREATE TABLE `t` (`a` int DEFAULT nextval(`src`.`s`) COMMENT 'nextval(`src`.`s`)', `b` int DEFAULT nextval(`other`.`s`)) \
                   ENGINE=InnoDB";
        let table = Table::parse(sql).expect("a table");
        let there: Vec<&str> = table.columns_of_sequences("src").collect();
        assert_eq!(there, ["`a` int DEFAULT nextval(`src`.`s`) COMMENT 'nextval(`src`.`s`)'"]);
        let moved = table.with_sequences_of("src", "new`");
        assert!(moved.create("d", false).contains("`a` int DEFAULT nextval(`new```.`s`) COMMENT 'nextval(`src`.`s`)'"));
        assert!(moved.create("d", false).contains("`b` int DEFAULT nextval(`other`.`s`)"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(at in 0_usize..600, with in prop::sample::select(vec!["`", "'", "(", ")", ",", "/*", "*/", "\\", "é", " KEY ", " FOREIGN "])) {
            let mut sql = ORDERS.to_owned();
            let at = (0..=at.min(sql.len())).rev().find(|at| sql.is_char_boundary(*at)).unwrap_or(0);
            sql.insert_str(at, with);
            if let Some(table) = Table::parse(&sql) {
                let _ = (table.create("d", true), table.keys(), table.foreign_keys());
            }
        }
    }
}
