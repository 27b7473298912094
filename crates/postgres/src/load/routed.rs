//! Which rows must go through a parent? Rows of a partition are loaded into it directly, but where another server may give
//! them another partition: the hash of an enum, of a number of an object or of a text that ICU compares isn't the same
//! everywhere. Those go into the topmost table that is partitioned so, as `pg_dump` does it, and find their partitions there.
//!
//! Asked of the target once its tables are there. A partition that is restored alone has no parent, and takes its rows itself.

use std::collections::BTreeMap;

use crate::Error;
use crate::client::Connection;

/// A schema and a name in it.
pub(crate) type Named = (String, String);

/// Every table partitioned by hash, and what its keys are compared by: the class's schema and name, whether texts are equal
/// only when their bytes are, and whether its values depend on the encoding.
const KEYS: &str = "
SELECT p.partrelid, n.nspname, o.opcname, coalesce(l.collisdeterministic, true), l.oid IS NOT NULL
FROM pg_catalog.pg_partitioned_table p
CROSS JOIN LATERAL ROWS FROM (
  pg_catalog.unnest(p.partclass::pg_catalog.oid[]), pg_catalog.unnest(p.partcollation::pg_catalog.oid[])) AS k (class, coll)
JOIN pg_catalog.pg_opclass o ON o.oid = k.class JOIN pg_catalog.pg_namespace n ON n.oid = o.opcnamespace
LEFT JOIN pg_catalog.pg_collation l ON l.oid = k.coll
WHERE p.partstrat = 'h'";

/// Every partition with rows of its own, and its ancestors, the topmost last.
const PARTITIONS: &str = "
SELECT n.nspname, c.relname, a.place, a.relid::pg_catalog.oid, an.nspname, ac.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL pg_catalog.pg_partition_ancestors(c.oid) WITH ORDINALITY AS a (relid, place)
JOIN pg_catalog.pg_class ac ON ac.oid = a.relid JOIN pg_catalog.pg_namespace an ON an.oid = ac.relnamespace
WHERE c.relispartition AND c.relkind = 'r' AND a.relid <> c.oid ORDER BY 1, 2, 3";

/// What a key of a table partitioned by hash is compared by.
struct Key<'a> {
    schema: &'a str,
    class: &'a str,
    by_bytes: bool,
    is_text: bool,
}

/// Whether a value of a key has the same hash in every server; `recoded` where the target's texts have other bytes.
fn is_the_same_everywhere(key: &Key<'_>, recoded: bool) -> bool {
    // What is made of others is as good as those, which the class doesn't tell.
    let varies = ["enum_ops", "oid_ops", "oidvector_ops", "array_ops", "record_ops", "range_ops", "multirange_ops"];
    key.schema == "pg_catalog" && !varies.contains(&key.class) && key.by_bytes && !(key.is_text && recoded)
}

/// The partitions whose rows go through a parent, and that parent. `encoding` is that of the source's database.
pub(crate) async fn roots(connection: &mut Connection, encoding: &str) -> Result<BTreeMap<Named, Named>, Error> {
    let keys = connection.query(KEYS).await?;
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let recoded = connection.one("SHOW server_encoding").await?.text(0) != encoding;
    let varies = |row: &&crate::client::Row| {
        let key = Key { schema: row.text(1), class: row.text(2), by_bytes: row.flag(3), is_text: row.flag(4) };
        !is_the_same_everywhere(&key, recoded)
    };
    let varying: Vec<u64> = keys.iter().filter(varies).map(|row| row.number(0)).collect();
    let mut roots = BTreeMap::new();
    if !varying.is_empty() {
        let named = |schema: &str, name: &str| (schema.to_owned(), name.to_owned());
        for row in connection.query(PARTITIONS).await? {
            // The topmost comes last.
            if varying.contains(&row.number(3)) {
                roots.insert(named(row.text(0), row.text(1)), named(row.text(4), row.text(5)));
            }
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_that_are_the_same_everywhere() {
        for (schema, class, by_bytes, is_text, recoded, same) in [
            ("pg_catalog", "int4_ops", true, false, true, true),
            ("pg_catalog", "uuid_ops", true, false, false, true),
            ("pg_catalog", "text_ops", true, true, false, true),
            ("pg_catalog", "text_ops", true, true, true, false),
            ("pg_catalog", "text_ops", false, true, false, false),
            ("pg_catalog", "enum_ops", true, false, false, false),
            ("pg_catalog", "array_ops", true, false, false, false),
            ("pg_catalog", "oid_ops", true, false, false, false),
            ("public", "citext_ops", true, true, false, false),
        ] {
            let key = Key { schema, class, by_bytes, is_text };
            assert_eq!(is_the_same_everywhere(&key, recoded), same, "{class} {by_bytes} {recoded}");
        }
    }
}
