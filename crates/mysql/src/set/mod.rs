//! A set that can be restored: what is in it.
//!
//! The room: `scope` (what of it is wanted?), `definers` (what becomes of definers?).

pub(crate) mod definers;
pub(crate) mod scope;

use std::sync::Arc;

use seawall_archive::{Frame, Item, Manifest, SetReader, Totals};
use seawall_vault::Vault;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::artefact::{PLAIN, Script, Section};
use crate::catalog::users::Globals;
use crate::detail::{DatabaseDetail, ItemDetail, ServerDetail, ServerFacts, SetDetail};
use crate::names::NAMES;
use crate::schema::Schema;
use crate::schema::table::Table;
use crate::schema::words;
use crate::set::scope::Scope;

/// The most bytes of a schema, which is taken into memory.
const LARGEST_SCHEMA: u64 = 1 << 30;

/// Opens a set of this engine.
pub(crate) async fn open(vault: &Vault, manifest: Manifest) -> Result<Arc<SetReader>, Error> {
    if manifest.engine != NAMES.name {
        return Err(Error::Refused {
            code: "mysql.other-engine",
            object: format!("set {}", manifest.id),
            cause: format!("it is one of {}", manifest.engine),
            next: "restore it into such a server".to_owned(),
        });
    }
    if let Some(artefact) = manifest.artefact.as_ref().filter(|artefact| *artefact != PLAIN) {
        return Err(Error::Refused {
            code: "mysql.artefact",
            object: format!("set {}", manifest.id),
            cause: format!("it holds a file in the format {artefact}, which this version doesn't know"),
            next: "export the file, and load it with the vendor's client; or use a newer version".to_owned(),
        });
    }
    Ok(Arc::new(SetReader::open(vault.clone(), manifest).await?))
}

/// Opens everything of a set that a restore reads before it asks a server anything.
pub(crate) async fn can_be_opened(reader: &Arc<SetReader>) -> Result<(), Error> {
    for database in databases(reader)? {
        let set = Set::open(Arc::clone(reader), database.as_deref()).await?;
        set.tables()?;
    }
    globals(reader).await.map(drop)
}

/// The databases of a set: `None` stands for the only one.
pub(crate) fn databases(reader: &SetReader) -> Result<Vec<Option<String>>, Error> {
    Ok(match whole(reader) {
        Some(server) => server.databases.into_iter().map(Some).collect(),
        None => vec![None],
    })
}

/// What a set says of its server, if it is one of a whole server.
pub(crate) fn whole(reader: &SetReader) -> Option<ServerDetail> {
    ServerDetail::deserialize(&reader.manifest().detail).ok()
}

/// Accounts of a set, if it has some.
pub(crate) async fn globals(reader: &SetReader) -> Result<Globals, Error> {
    let items = items(reader, None)?;
    Ok(document(reader, &items, &ItemDetail::Globals).await?.unwrap_or_default())
}

/// One database of a set, opened.
pub(crate) struct Set {
    pub(crate) reader: Arc<SetReader>,
    /// Its name there, of a whole server's set.
    pub(crate) database: Option<String>,
    pub(crate) detail: DatabaseDetail,
    pub(crate) server: ServerFacts,
    /// What each item is; none for those of other databases. Behind them come the tables of a script, which are no items.
    pub(crate) items: Vec<Option<ItemDetail>>,
    /// The script that its rows are in, if they are in one.
    pub(crate) script: Option<Script>,
    pub(crate) schema: Schema,
}

/// What is wrong with a set.
pub(crate) fn corrupt(reader: &SetReader, cause: impl Into<String>) -> Error {
    Error::Different { object: format!("set {}", reader.manifest().id), cause: cause.into() }
}

/// What the items of a set are: those of one database, and those of none.
fn items(reader: &SetReader, database: Option<&str>) -> Result<Vec<Option<ItemDetail>>, Error> {
    let detail = |item: &Item| {
        if item.database.as_deref() != database {
            return Ok(None);
        }
        ItemDetail::deserialize(&item.detail).map(Some).map_err(|error| corrupt(reader, error.to_string()))
    };
    reader.index().items.iter().map(detail).collect()
}

/// A document of a set: the only item that is `wanted`.
async fn document<T: DeserializeOwned>(
    reader: &SetReader,
    items: &[Option<ItemDetail>],
    wanted: &ItemDetail,
) -> Result<Option<T>, Error> {
    let Some(place) = items.iter().position(|item| item.as_ref() == Some(wanted)) else { return Ok(None) };
    let bytes = reader.file(u32::try_from(place).unwrap_or(u32::MAX), LARGEST_SCHEMA).await?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| corrupt(reader, error.to_string()))
}

/// The script of a set, if it has one.
async fn script(
    reader: &SetReader,
    items: &[Option<ItemDetail>],
    server: &ServerFacts,
) -> Result<Option<Script>, Error> {
    let item = items.iter().position(|item| item.as_ref() == Some(&ItemDetail::Script));
    let Some(item) = item.and_then(|place| u32::try_from(place).ok()) else { return Ok(None) };
    let sections: Option<Vec<Section>> = document(reader, items, &ItemDetail::Sections).await?;
    let sections = sections.ok_or_else(|| corrupt(reader, "it doesn't say where the rows of its script are"))?;
    let script = Script { item, mariadb: server.family == "mariadb", sections };
    if !script.is_in_order(reader.size(item)) {
        return Err(corrupt(reader, "the rows of its script aren't where it says"));
    }
    Ok(Some(script))
}

impl Set {
    /// Opens a set of one database, or `database` of a whole server's.
    pub(crate) async fn open(reader: Arc<SetReader>, database: Option<&str>) -> Result<Self, Error> {
        let mut items = items(&reader, database)?;
        let (detail, server) = match database {
            None => {
                let detail = SetDetail::deserialize(&reader.manifest().detail);
                let detail = detail.map_err(|error| corrupt(&reader, error.to_string()))?;
                (detail.database, detail.server)
            }
            Some(_) => {
                let detail = document(&reader, &items, &ItemDetail::Database).await?;
                let detail = detail.ok_or_else(|| corrupt(&reader, "it says nothing of this database"))?;
                let server = whole(&reader).ok_or_else(|| corrupt(&reader, "it says nothing of its server"))?;
                (detail, server.server)
            }
        };
        let schema = document(&reader, &items, &ItemDetail::Schema).await?;
        let schema = schema.ok_or_else(|| corrupt(&reader, "it has no schema"))?;
        let script = script(&reader, &items, &server).await?;
        for Section { table, engine, columns, history, .. } in script.iter().flat_map(|script| script.sections.clone())
        {
            items.push(Some(ItemDetail::Table { name: table, engine, columns, history }));
        }
        Ok(Self { database: database.map(str::to_owned), detail, server, items, script, schema, reader })
    }

    /// The statements of its tables, in parts, each with its storage engine.
    pub(crate) fn tables(&self) -> Result<Vec<Table>, Error> {
        let parse = |table: &crate::schema::TableStatement| {
            let parsed = words::readable(table.statement.bytes()).as_deref().and_then(Table::parse);
            let parsed = parsed.filter(|parsed| parsed.name == table.name);
            parsed.ok_or_else(|| corrupt(&self.reader, format!("the statement of table {} can't be read", table.name)))
        };
        self.schema.tables.iter().map(parse).collect()
    }

    /// The part of `SHOW CREATE DATABASE` that follows the name: character set, collation, encryption, comment.
    pub(crate) fn options(&self) -> Result<String, Error> {
        let sql = self.schema.database.text().into_owned();
        let words = words::words(sql.as_bytes()).unwrap_or_default();
        let options = match words.as_slice() {
            [create, database, name, ..] if create.is("CREATE") && database.is("DATABASE") => {
                sql.get(name.end()..).filter(|rest| !rest.contains(';'))
            }
            _ => None,
        };
        let wrong = || corrupt(&self.reader, "the statement of its database can't be read");
        Ok(options.ok_or_else(wrong)?.trim().to_owned())
    }

    /// Whether its database takes no changes. MySQL tells that in a comment which no server runs.
    pub(crate) fn is_read_only(&self) -> bool {
        let sql = self.schema.database.text().into_owned();
        let words = words::words(sql.as_bytes()).unwrap_or_default();
        words.iter().any(|word| word.kind == words::Kind::Comment && word.bytes == b"/* READ ONLY = 1 */")
    }

    /// Sums over those of its items that are meant: of a whole server's set, only of this database.
    pub(crate) fn totals(&self, what: &Scope<'_>) -> Totals {
        let all = &self.reader.index().chunks;
        let meant: Vec<bool> =
            self.items.iter().map(|item| item.as_ref().is_some_and(|item| is_meant(item, what))).collect();
        let is_meant = |frame: &Frame| meant.get(frame.item as usize).copied().unwrap_or(false);
        let frames = || all.iter().flat_map(|chunk| &chunk.frames).filter(|frame| is_meant(frame));
        let sections =
            self.script.iter().flat_map(|script| &script.sections).filter(|section| what.has(&section.table));
        Totals {
            items: meant.iter().filter(|meant| **meant).count() as u64,
            rows: frames().map(|frame| frame.rows).sum::<u64>() + sections.map(|section| section.rows).sum::<u64>(),
            raw: frames().map(|frame| frame.raw).sum(),
            stored: frames().map(|frame| frame.stored).sum(),
            chunks: all.iter().filter(|chunk| chunk.frames.iter().any(is_meant)).count() as u64,
        }
    }
}

/// Whether an item is part of what is restored: rows that are loaded, and what isn't rows.
fn is_meant(item: &ItemDetail, what: &Scope<'_>) -> bool {
    match item {
        ItemDetail::Table { name, .. } => what.has(name),
        _ => true,
    }
}
