//! The objects of a database, from its catalogs as one snapshot sees them.

use std::collections::BTreeMap;

use crate::catalog::binary::{Kind, Kinds};
use crate::catalog::grants::{self, Grant};
use crate::catalog::journals::IS_OURS;
use crate::catalog::properties;
use crate::catalog::records::{After, LargeObject, Locale, Name, Needs, Sequence};
use crate::client::{Connection, Row};
use crate::quote::{literal, qualified};
use crate::{CopyFormat, Error};

/// A table whose rows are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Table {
    pub(crate) oid: u64,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// Columns with stored values, in order. Generated columns have none.
    pub(crate) columns: Vec<String>,
    /// The type of each, by number.
    pub(crate) types: Vec<u32>,
    /// Where its rows are read in binary, the form of each column: see [`crate::catalog::binary`].
    pub(crate) binary: Vec<String>,
    /// Bytes of rows, on the server.
    pub(crate) bytes: u64,
    /// Pages of the table itself.
    pub(crate) pages: u64,
    /// Whether it is stored as PostgreSQL's own heap.
    pub(crate) heap: bool,
    /// Whether planning a query on it runs expressions that another role wrote: see [`EVALUATING`].
    pub(crate) evaluates: bool,
    /// For an extension's configuration: which rows are the user's.
    pub(crate) condition: Option<String>,
    /// Whether it is a parent without rows of its own, and not a leaf of a partitioned table or an ordinary table.
    pub(crate) parent: bool,
    /// Its file as the snapshot sees it, and its file now. They differ after a TRUNCATE in between.
    pub(crate) files: (String, String),
}

impl Table {
    /// Its name as SQL.
    pub(crate) fn sql(&self) -> String {
        qualified(&self.schema, &self.name)
    }

    /// How its rows are read.
    pub(crate) fn format(&self) -> CopyFormat {
        if self.binary.is_empty() { CopyFormat::Text } else { CopyFormat::Binary }
    }

    /// Its name for people.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

/// Tables and partitioned tables of users, and the configuration of extensions, without the tables of an unfinished
/// restore.
const TABLES: &str = "
SELECT c.oid, n.nspname, c.relname, c.relkind = 'p',
       (SELECT coalesce(pg_catalog.json_agg(a.attname ORDER BY a.attnum), '[]') FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''),
       coalesce(pg_catalog.pg_table_size(c.oid), 0),
       coalesce(pg_catalog.pg_relation_size(c.oid), 0) / pg_catalog.current_setting('block_size')::bigint,
       coalesce(am.amname = 'heap', false), c.relfilenode, coalesce(pg_catalog.pg_relation_filenode(c.oid), 0), x.condition,
       (SELECT coalesce(pg_catalog.json_agg(a.atttypid::bigint ORDER BY a.attnum), '[]') FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''), e.rel IS NOT NULL
FROM pg_catalog.pg_class c
LEFT JOIN ({evaluating}) e ON e.rel = c.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
LEFT JOIN (SELECT pg_catalog.unnest(extconfig) AS oid, pg_catalog.unnest(extcondition) AS condition
  FROM pg_catalog.pg_extension) x ON x.oid = c.oid
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
  AND (x.oid IS NOT NULL OR NOT EXISTS (
       SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND d.objid = c.oid AND d.deptype = 'e'))
  AND NOT {journal}
ORDER BY c.oid";

/// The tables for which a query runs functions of other roles with our rights. To plan a query, PostgreSQL simplifies
/// the expressions of the table's indexes and statistics, and calls immutable functions whose arguments are constants.
/// COPY of a table plans nothing.
const EVALUATING: &str = "
SELECT DISTINCT x.rel FROM (
  SELECT indrelid AS rel, indexrelid AS object, 'pg_catalog.pg_class'::pg_catalog.regclass AS class FROM pg_catalog.pg_index
  UNION ALL
  SELECT stxrelid, oid, 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass FROM pg_catalog.pg_statistic_ext) x
JOIN pg_catalog.pg_depend d ON d.classid = x.class AND d.objid = x.object
LEFT JOIN pg_catalog.pg_operator o ON d.refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND o.oid = d.refobjid
JOIN pg_catalog.pg_proc f ON f.oid = CASE d.refclassid WHEN 'pg_catalog.pg_proc'::pg_catalog.regclass
  THEN d.refobjid ELSE o.oprcode END
JOIN pg_catalog.pg_roles r ON r.oid = f.proowner
WHERE NOT r.rolsuper AND r.rolname <> current_user";

/// The names of all tables: each is locked before a snapshot is taken.
pub(crate) async fn names(connection: &mut Connection) -> Result<Vec<(u64, String)>, Error> {
    Ok(tables(connection).await?.into_iter().map(|table| (table.oid, table.sql())).collect())
}

/// Indexes that an interrupted or failed `CREATE INDEX CONCURRENTLY` has left. No query uses them, and `pg_dump` skips
/// them.
pub(crate) async fn invalid_indexes(connection: &mut Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT i.indexrelid::pg_catalog.regclass FROM pg_catalog.pg_index i \
               JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
               WHERE NOT (i.indisvalid AND i.indisready) AND c.relkind = 'i' ORDER BY 1";
    Ok(connection.query(sql).await?.iter().map(|row| row.text(0).to_owned()).collect())
}

/// Every table.
pub(crate) async fn tables(connection: &mut Connection) -> Result<Vec<Table>, Error> {
    let rows = connection.query(&TABLES.replace("{journal}", IS_OURS).replace("{evaluating}", EVALUATING)).await?;
    rows.iter().map(table).collect()
}

fn table(row: &Row) -> Result<Table, Error> {
    let (columns, types) = (serde_json::from_str(row.text(4)), serde_json::from_str(row.text(11)));
    Ok(Table {
        oid: row.number(0),
        schema: row.text(1).to_owned(),
        name: row.text(2).to_owned(),
        parent: row.flag(3),
        columns: columns.map_err(|error| Error::Internal(format!("a list of columns: {error}")))?,
        types: types.map_err(|error| Error::Internal(format!("a list of types: {error}")))?,
        binary: Vec::new(),
        bytes: row.number(5),
        pages: row.number(6),
        heap: row.flag(7),
        evaluates: row.flag(12),
        files: (row.text(8).to_owned(), row.text(9).to_owned()),
        condition: row.optional(10).filter(|condition| !condition.is_empty()).map(str::to_owned),
    })
}

/// Users' domains, ranges, multiranges and enums, with the type that each is made of.
pub(crate) async fn kinds(connection: &mut Connection) -> Result<Kinds, Error> {
    let sql = "
SELECT t.oid, t.typtype, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE coalesce(r.rngsubtype, 0) END
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid) WHERE t.typtype
  IN ('e', 'd', 'r', 'm')";
    let number = |row: &Row, column| u32::try_from(row.number(column)).unwrap_or_default();
    let kind = |row: &Row| match row.text(1) {
        "e" => Kind::Enum,
        "d" => Kind::Domain(number(row, 2)),
        "r" => Kind::Range(number(row, 2)),
        _ => Kind::Multirange(number(row, 2)),
    };
    Ok(connection.query(sql).await?.iter().map(|row| (number(row, 0), kind(row))).collect())
}

/// The names of types, as messages show them.
pub(crate) async fn names_of_types(connection: &mut Connection, types: &[u32]) -> Result<BTreeMap<u32, String>, Error> {
    let list: Vec<String> = types.iter().map(u32::to_string).collect();
    let sql = format!(
        "SELECT number, pg_catalog.format_type(number::pg_catalog.oid, NULL) \
         FROM pg_catalog.unnest('{{{}}}'::bigint[]) number",
        list.join(",")
    );
    let rows = connection.query(&sql).await?;
    Ok(rows.iter().map(|row| (u32::try_from(row.number(0)).unwrap_or_default(), row.text(1).to_owned())).collect())
}

/// How the database was created, its size, and its extensions.
pub(crate) async fn database(connection: &mut Connection) -> Result<(String, Locale, u64, Vec<String>), Error> {
    let locale = match connection.version {
        170_000.. => "datlocale",
        150_000.. => "daticulocale",
        _ => "NULL::text",
    };
    let rules = if connection.version >= 160_000 { "daticurules" } else { "NULL::text" };
    let provider = if connection.version >= 150_000 { "datlocprovider" } else { "'c'" };
    let sql = format!(
        "SELECT datname, pg_catalog.pg_encoding_to_char(encoding), datcollate, datctype, {provider}, {locale}, \
         pg_catalog.pg_database_size(oid), {rules}, \
         (SELECT spcname FROM pg_catalog.pg_tablespace WHERE oid = dattablespace AND spcname <> 'pg_default') \
         FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
    );
    let row = connection.one(&sql).await?;
    let locale = Locale {
        encoding: row.text(1).to_owned(),
        collate: row.text(2).to_owned(),
        ctype: row.text(3).to_owned(),
        provider: row.text(4).to_owned(),
        locale: row.optional(5).map(str::to_owned),
        rules: row.optional(7).map(str::to_owned),
        tablespace: row.optional(8).map(str::to_owned),
    };
    let extensions =
        connection.query("SELECT extname FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY 1").await?;
    let extensions = extensions.iter().map(|row| row.text(0).to_owned()).collect();
    Ok((row.text(0).to_owned(), locale, row.number(6), extensions))
}

/// The roles and tablespaces that an artefact of `pg_dump` depends on. The server records these dependencies of a
/// database's objects, except for its first superuser and the default tablespace.
pub(crate) async fn needs(connection: &mut Connection) -> Result<Needs, Error> {
    let roles = "
SELECT DISTINCT pg_catalog.pg_get_userbyid(refobjid) FROM pg_catalog.pg_shdepend
WHERE refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND dbid = (SELECT oid FROM pg_catalog.pg_database
  WHERE datname = pg_catalog.current_database())
UNION SELECT pg_catalog.pg_get_userbyid(10) WHERE EXISTS (
  SELECT FROM pg_catalog.pg_class WHERE relowner = 10 AND oid >= 16384 UNION ALL SELECT FROM pg_catalog.pg_namespace
  WHERE nspowner = 10 AND oid >= 16384
  UNION ALL SELECT FROM pg_catalog.pg_proc WHERE proowner = 10 AND oid >= 16384 UNION ALL SELECT
  FROM pg_catalog.pg_type WHERE typowner = 10 AND oid >= 16384)
ORDER BY 1";
    let tablespaces = "
SELECT DISTINCT spcname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_tablespace t ON t.oid = c.reltablespace
WHERE c.relnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND spcname !~ '^pg_' ORDER BY 1";
    let names = |rows: Vec<Row>| rows.iter().map(|row| row.text(0).to_owned()).collect();
    // The settings as another session of the same role has them. Amounts of money can't be read without their locale,
    // so the locale is noted only if there are any.
    let settings = "
SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name IN ('TimeZone', 'bytea_output') OR name = 'lc_monetary'
  AND EXISTS (
  SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  WHERE a.atttypid IN ('pg_catalog.money'::pg_catalog.regtype, 'pg_catalog.money[]'::pg_catalog.regtype) AND c.oid >= 16384
  UNION ALL SELECT FROM pg_catalog.pg_type WHERE typbasetype
  IN ('pg_catalog.money'::pg_catalog.regtype, 'pg_catalog.money[]'::pg_catalog.regtype))
ORDER BY 1";
    let settings = connection.query(settings).await?;
    Ok(Needs {
        settings: settings.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect(),
        roles: names(connection.query(roles).await?),
        tablespaces: names(connection.query(tablespaces).await?),
        properties: properties::read(connection).await?,
    })
}

/// The parts of a database that are neither rows nor schema.
pub(crate) async fn after(connection: &mut Connection) -> Result<After, Error> {
    Ok(After {
        sequences: sequences(connection).await?,
        refresh: materialized_views(connection).await?,
        large_objects: large_objects(connection).await?,
        properties: properties::read(connection).await?,
    })
}

/// How many sequences one statement asks for.
const SEQUENCES: usize = 200;

async fn sequences(connection: &mut Connection) -> Result<Vec<Sequence>, Error> {
    let sql = "
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname !~ '^pg_(toast|temp)'
  AND (c.oid IN (SELECT pg_catalog.unnest(extconfig) FROM pg_catalog.pg_extension) OR NOT EXISTS (
       SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND d.objid = c.oid AND d.deptype = 'e'))
ORDER BY 1, 2";
    let names = connection.query(sql).await?;
    let mut sequences = Vec::with_capacity(names.len());
    for some in names.chunks(SEQUENCES) {
        let select = |row: &Row| {
            let (schema, name) = (row.text(0), row.text(1));
            let from = qualified(schema, name);
            format!("SELECT {}, {}, last_value, is_called FROM {from}", literal(schema), literal(name))
        };
        let sql = some.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ");
        for row in connection.query(&sql).await? {
            let last = row.text(2).parse();
            let last = last.map_err(|_| Error::Internal(format!("the sequence {} has no value", row.text(1))))?;
            let (schema, name) = (row.text(0).to_owned(), row.text(1).to_owned());
            sequences.push(Sequence { schema, name, last, called: row.flag(3) });
        }
    }
    Ok(sequences)
}

/// Materialized views with rows, each after the materialized views that it reads from, directly or through views.
async fn materialized_views(connection: &mut Connection) -> Result<Vec<Name>, Error> {
    let sql = "
WITH RECURSIVE uses AS (
  SELECT DISTINCT r.ev_class AS reader, d.refobjid AS source
  FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
  WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid <> r.ev_class
), depth AS (
  SELECT c.oid, 0 AS level FROM pg_catalog.pg_class c WHERE c.relkind IN ('m', 'v')
  UNION
  SELECT u.reader, depth.level + 1 FROM depth JOIN uses u ON u.source = depth.oid WHERE depth.level < 1000
)
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN depth ON depth.oid = c.oid
WHERE c.relkind = 'm' AND c.relispopulated
GROUP BY c.oid, n.nspname, c.relname ORDER BY pg_catalog.max(depth.level), c.oid";
    let rows = connection.query(sql).await?;
    Ok(rows.iter().map(|row| Name { schema: row.text(0).to_owned(), name: row.text(1).to_owned() }).collect())
}

async fn large_objects(connection: &mut Connection) -> Result<Vec<LargeObject>, Error> {
    let sql = format!(
        "SELECT m.oid, pg_catalog.pg_get_userbyid(m.lomowner), m.lomacl IS NOT NULL, {}, pg_catalog.obj_description(m.oid, 'pg_largeobject'), \
         (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(l.provider, l.label) ORDER BY l.provider), '[]') FROM pg_catalog.pg_seclabel l \
          WHERE l.classoid = 'pg_catalog.pg_largeobject'::pg_catalog.regclass AND l.objoid = m.oid) \
         FROM pg_catalog.pg_largeobject_metadata m ORDER BY m.oid",
        grants::query("m.lomacl", "m.lomowner")
    );
    let mut objects = Vec::new();
    for row in connection.query(&sql).await? {
        let wrong = |error| Error::Internal(format!("the grants of a large object: {error}"));
        let grants: Vec<Grant> = serde_json::from_str(row.text(3)).map_err(wrong)?;
        objects.push(LargeObject {
            oid: u32::try_from(row.number(0)).unwrap_or_default(),
            owner: row.text(1).to_owned(),
            grants: row.flag(2).then_some(grants),
            comment: row.optional(4).map(str::to_owned),
            labels: serde_json::from_str(row.text(5)).map_err(wrong)?,
        });
    }
    Ok(objects)
}
