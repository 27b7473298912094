//! A set that can be restored: what is in it, and what stands in its way.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::preflight::{Lack, Look};
use seawall_archive::{Frame, Item, Manifest, SetReader, Totals};
use seawall_vault::Vault;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::catalog::globals::Globals;
use crate::catalog::inventory;
use crate::catalog::records::{After, Needs};
use crate::client::{Connection, Row};
use crate::detail::{ItemDetail, ServerDetail, SetDetail};
use crate::load::held;
use crate::preflight::restorer::Destination;
use crate::preflight::{self, Request};
use crate::quote::{literal, qualified};
use crate::restore::ANYTHING;
use crate::restore::scope::Scope;
use crate::schema::Schema;
use crate::schema::toc::Entry;

/// The most bytes of a schema, which is taken into memory.
const LARGEST_SCHEMA: u64 = 1 << 30;

/// Tables that are looked into with one statement.
const TABLES: usize = 200;

/// Opens a set of this engine.
pub(crate) async fn open(vault: &Vault, manifest: Manifest) -> Result<Arc<SetReader>, Error> {
    if manifest.engine != "postgres" {
        return Err(Error::Refused {
            code: "postgres.other-engine",
            object: format!("set {}", manifest.id),
            cause: format!("it is one of {}", manifest.engine),
            next: "restore it into such a server".to_owned(),
        });
    }
    Ok(Arc::new(SetReader::open(vault.clone(), manifest).await?))
}

/// Opens everything of a set that a restore reads before it asks a server anything.
pub(crate) async fn can_be_opened(reader: &Arc<SetReader>) -> Result<(), Error> {
    let detail = &reader.manifest().detail;
    if reader.manifest().artefact.is_some() {
        let items = items(reader, None)?;
        let detail = SetDetail::deserialize(detail).map_err(|error| corrupt(reader, error.to_string()))?;
        if detail.text_encoding().is_none() || detail.page() == 0 {
            return Err(corrupt(reader, format!("its rows have the encoding {}", detail.encoding)));
        }
        let needs: Option<Needs> = document(reader, &items, &ItemDetail::Needs).await?;
        return needs.map(drop).ok_or_else(|| corrupt(reader, "it has nothing beside its artefact"));
    }
    match ServerDetail::deserialize(detail) {
        Ok(server) => {
            for database in &server.databases {
                Set::open(Arc::clone(reader), Some(database)).await?;
            }
            Ok(())
        }
        Err(_) => Set::open(Arc::clone(reader), None).await.map(drop),
    }
}

/// One database of a set, opened.
pub(crate) struct Set {
    pub(crate) reader: Arc<SetReader>,
    /// Its name there, of a whole server's set.
    pub(crate) database: Option<String>,
    pub(crate) detail: SetDetail,
    pub(crate) items: Vec<ItemDetail>,
    pub(crate) schema: Schema,
    pub(crate) after: After,
    pub(crate) globals: Globals,
}

/// What is wrong with a set.
pub(crate) fn corrupt(reader: &SetReader, cause: impl Into<String>) -> Error {
    Error::Different { object: format!("set {}", reader.manifest().id), cause: cause.into() }
}

/// What the items of a set are, with those of other databases left out.
pub(crate) fn items(reader: &SetReader, database: Option<&str>) -> Result<Vec<ItemDetail>, Error> {
    let detail = |item: &Item| match (item.database.as_deref(), database) {
        (Some(its), Some(ours)) if its != ours => Ok(ItemDetail::Elsewhere),
        _ => ItemDetail::deserialize(&item.detail).map_err(|error| corrupt(reader, error.to_string())),
    };
    reader.index().items.iter().map(detail).collect()
}

/// A document of a set: the only item that is `wanted`.
pub(crate) async fn document<T: DeserializeOwned>(
    reader: &SetReader,
    items: &[ItemDetail],
    wanted: &ItemDetail,
) -> Result<Option<T>, Error> {
    let Some(place) = items.iter().position(|item| item == wanted) else { return Ok(None) };
    let bytes = reader.file(u32::try_from(place).unwrap_or(u32::MAX), LARGEST_SCHEMA).await?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| corrupt(reader, error.to_string()))
}

/// What a set says of what belongs to its server and to no database.
pub(crate) async fn globals_of(reader: &SetReader) -> Result<Globals, Error> {
    Ok(document(reader, &items(reader, Some(""))?, &ItemDetail::Globals).await?.unwrap_or_default())
}

/// What a relation is in the way of, and what to do about it. What `--clean` can't be combined with isn't mended by it.
fn way(relation: &str, in_parts: bool, data_only: bool) -> Lack {
    let (how, next) = match (in_parts, data_only) {
        (_, true) => ("has rows already", format!("TRUNCATE {relation}; or name another database")),
        (true, false) => ("is there already", format!("DROP TABLE {relation}; or name another database")),
        (false, false) => {
            let next = "name another database, or replace this one with --clean";
            ("is in the database, which should be empty", next.to_owned())
        }
    };
    Lack::new(format!("{relation} {how}"), next)
}

/// The extensions of the databases of a set: `None` stands for the only one.
pub(crate) async fn extensions(reader: &SetReader, databases: &[Option<String>]) -> Result<BTreeSet<String>, Error> {
    let mut all = BTreeSet::new();
    for database in databases {
        let detail = match database {
            None => SetDetail::deserialize(&reader.manifest().detail).ok(),
            Some(name) => document(reader, &items(reader, Some(name))?, &ItemDetail::Database).await?,
        };
        all.extend(detail.into_iter().flat_map(|detail: SetDetail| detail.extensions));
    }
    Ok(all)
}

impl Set {
    /// Opens a set of one database, or `database` of a whole server's.
    pub(crate) async fn open(reader: Arc<SetReader>, database: Option<&str>) -> Result<Self, Error> {
        let corrupt = |cause: String| corrupt(&reader, cause);
        let items = items(&reader, database)?;
        let detail = match database {
            None => SetDetail::deserialize(&reader.manifest().detail).map_err(|error| corrupt(error.to_string()))?,
            Some(_) => {
                let detail = document(&reader, &items, &ItemDetail::Database).await?;
                detail.ok_or_else(|| corrupt("it says nothing of this database".to_owned()))?
            }
        };
        let globals = globals_of(&reader).await?;
        if detail.page() == 0 {
            return Err(corrupt(format!("its server had blocks of {} bytes", detail.block_size.unwrap_or_default())));
        }
        if detail.text_encoding().is_none() {
            return Err(corrupt(format!("its rows have the encoding {}", detail.encoding)));
        }
        let place = |wanted: &ItemDetail| items.iter().position(|item| item == wanted).map(|place| place as u32);
        let after = document(&reader, &items, &ItemDetail::After).await?;
        let (Some(schema), Some(after)) = (place(&ItemDetail::Schema), after) else {
            return Err(corrupt("it has no schema".to_owned()));
        };
        let schema = reader.file(schema, LARGEST_SCHEMA).await?;
        let schema = Schema::parse(schema, detail.pg_dump).map_err(|cause| corrupt(format!("its schema: {cause}")))?;
        Ok(Self { database: database.map(str::to_owned), detail, items, schema, after, globals, reader })
    }

    /// Sums over those of its items that are meant: of a whole server's set, only of this database.
    pub(crate) fn totals(&self, meant: impl Fn(&ItemDetail) -> bool) -> Totals {
        let all = &self.reader.index().chunks;
        let meant: Vec<bool> = self.items.iter().map(|item| *item != ItemDetail::Elsewhere && meant(item)).collect();
        let is_meant = |frame: &Frame| meant.get(frame.item as usize).copied().unwrap_or(false);
        let frames = || all.iter().flat_map(|chunk| &chunk.frames).filter(|frame| is_meant(frame));
        Totals {
            items: meant.iter().filter(|meant| **meant).count() as u64,
            rows: frames().map(|frame| frame.rows).sum(),
            raw: frames().map(|frame| frame.raw).sum(),
            stored: frames().map(|frame| frame.stored).sum(),
            chunks: all.iter().filter(|chunk| chunk.frames.iter().any(is_meant)).count() as u64,
        }
    }

    /// What the target lacks, where the database will be called `database` and the roles `made` are made first.
    pub(crate) async fn lacks(
        &self,
        connection: &mut Connection,
        (database, into): (&str, Destination),
        what: &Scope<'_>,
        made: &[String],
    ) -> Result<Look, Error> {
        let options = what.options;
        let is_made = |entry: &&Entry| !options.data_only && what.has(entry);
        let entries: Vec<Entry> = self.schema.entries.iter().filter(is_made).cloned().collect();
        let request = Request {
            detail: &self.detail,
            database,
            into,
            entries: &entries,
            at_once: true,
            after: &self.after,
            known: &self.globals,
            made,
            owners: options.owners,
            tries: options.without_superuser,
            whole: what.chosen.is_none() && !options.data_only,
        };
        let mut look = preflight::look(connection, &request).await?;
        if options.data_only {
            let lacks = &mut look.lacks;
            lacks.extend(preflight::may_turn_triggers_off(connection).await?);
            let tables: Vec<(&str, &str)> = self.tables(what).collect();
            lacks.extend(preflight::may_add_rows(connection, &tables).await?);
        }
        Ok(look)
    }

    /// Tables with rows, and whether they are restored.
    pub(crate) fn tables<'a>(&'a self, what: &'a Scope<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.items.iter().filter_map(|item| match item {
            ItemDetail::Table { schema, name, .. } if what.has_table(schema, name) => {
                Some((schema.as_str(), name.as_str()))
            }
            _ => None,
        })
    }

    /// A table of an extension that has rows of a user's already, if the set has rows of it as well.
    async fn rows_of_extensions(&self, connection: &mut Connection) -> Result<Option<Row>, Error> {
        let made = self.of_the_schema();
        let items = || self.items.iter().zip(&made).filter(|(_, made)| !**made);
        let names: BTreeSet<(&str, &str)> = items()
            .filter_map(|(item, _)| match item {
                ItemDetail::Table { schema, name, .. } => Some((schema.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        if names.is_empty() {
            return Ok(None);
        }
        let tables = inventory::tables(connection).await?;
        for table in tables.iter().filter(|table| names.contains(&(table.schema.as_str(), table.name.as_str()))) {
            let (name, condition) = (table.sql(), table.condition.as_deref().unwrap_or_default());
            let sql = format!("SELECT {} FROM ONLY {name} {condition} LIMIT 1", literal(&name));
            if let Some(found) = connection.query(&sql).await?.pop() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What is in a new restore's way, and what to do about it.
    pub(crate) async fn in_the_way(
        &self,
        connection: &mut Connection,
        what: &Scope<'_>,
    ) -> Result<Option<Lack>, Error> {
        let found = match (&what.chosen, what.options.data_only) {
            (_, true) => {
                let name = |(schema, name): (&str, &str)| {
                    let name = qualified(schema, name);
                    format!("(SELECT {} FROM ONLY {name} LIMIT 1)", literal(&name))
                };
                let all: Vec<(&str, &str)> = self.tables(what).collect();
                let mut found = None;
                for some in all.chunks(TABLES) {
                    let each: Vec<String> = some.iter().copied().map(name).collect();
                    let sql = format!("SELECT * FROM ({}) AS found LIMIT 1", each.join(" UNION ALL "));
                    connection.execute("BEGIN").await?;
                    held::hold(connection, some.iter().copied()).await?;
                    found = connection.query(&sql).await?.pop();
                    connection.execute("COMMIT").await?;
                    if found.is_some() {
                        break;
                    }
                }
                found
            }
            (Some(chosen), false) => {
                let name = |(schema, name): &(String, String)| literal(&qualified(schema, name));
                let names: Vec<String> = chosen.tables.iter().map(name).collect();
                let sql = format!(
                    "SELECT name FROM pg_catalog.unnest(ARRAY[{}]) name WHERE pg_catalog.to_regclass(name) IS NOT NULL",
                    names.join(", ")
                );
                connection.query(&sql).await?.pop()
            }
            (None, false) => match connection.query(ANYTHING).await?.pop() {
                Some(found) => Some(found),
                None => self.rows_of_extensions(connection).await?,
            },
        };
        Ok(found.map(|row| way(row.text(0), what.chosen.is_some(), what.options.data_only)))
    }

    /// For each item, whether it is a table of the schema. Those of extensions aren't, and may have rows from the start.
    pub(crate) fn of_the_schema(&self) -> Vec<bool> {
        let tables = self.schema.entries.iter().filter(|entry| entry.kind == "TABLE");
        let tables: BTreeSet<(&str, &str)> = tables.map(|entry| (entry.schema.as_str(), entry.tag.as_str())).collect();
        let is_one = |item: &ItemDetail| match item {
            ItemDetail::Table { schema, name, .. } => tables.contains(&(schema.as_str(), name.as_str())),
            _ => false,
        };
        self.items.iter().map(is_one).collect()
    }

    /// Whether an item is part of what is restored: rows that are loaded, and what isn't rows.
    pub(crate) fn is_restored(&self, item: &ItemDetail, what: &Scope<'_>) -> bool {
        let is_rows = matches!(item, ItemDetail::Table { .. } | ItemDetail::LargeObjects);
        !is_rows || self.is_loaded(item, what)
    }

    /// Whether an item's rows are loaded.
    pub(crate) fn is_loaded(&self, item: &ItemDetail, what: &Scope<'_>) -> bool {
        match item {
            ItemDetail::Table { schema, name, .. } => what.has_table(schema, name),
            ItemDetail::LargeObjects => what.chosen.is_none() && !what.is_later,
            _ => false,
        }
    }
}
