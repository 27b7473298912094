//! Which rows contradict a foreign key? Asked after rows were loaded into tables that had their keys already, with
//! triggers off: a foreign key is a trigger too.

use std::collections::BTreeSet;

use crate::Error;
use crate::client::Connection;
use crate::error::ServerError;
use crate::load::held;
use crate::quote::qualified;

/// A key that refers to a partitioned table has a constraint for each partition, which a row need not fulfil: only the
/// whole one is asked about.
///
/// Each checked foreign key as its name, its table and the query that finds a row without the one that it refers to; of a
/// key with a PERIOD, without those that cover its period together. Which keys have one is asked by `{period}`.
const KEYS: &str = "
SELECT c.conname, n.nspname, t.relname, pg_catalog.format(
    CASE WHEN {period} THEN
      'SELECT 1 FROM ONLY %s f WHERE %s \
      AND NOT coalesce((SELECT f.%5$I OPERATOR(pg_catalog.<@) pg_catalog.range_agg(p.%6$I) \
       FROM %3$s p WHERE %4$s AND p.%6$I OPERATOR(pg_catalog.&&) f.%5$I), false) LIMIT 1'
    ELSE 'SELECT 1 FROM ONLY %s f WHERE %s AND NOT EXISTS (SELECT FROM %s p WHERE %s) LIMIT 1' END,
    c.conrelid::pg_catalog.regclass,
    (SELECT pg_catalog.string_agg(pg_catalog.format('f.%I IS NOT NULL', a.attname), CASE c.confmatchtype WHEN 'f' \
    THEN ' OR ' ELSE ' AND ' END)
     FROM pg_catalog.unnest(c.conkey) k JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k),
    c.confrelid::pg_catalog.regclass,
    (SELECT pg_catalog.string_agg(pg_catalog.format('p.%I OPERATOR(%s.%s) f.%I', pa.attname, pg_catalog.quote_ident(o.nspname), o.oprname, fa.attname), ' AND ')
     FROM pg_catalog.generate_subscripts(c.conkey, 1) i
     JOIN pg_catalog.pg_attribute fa ON fa.attrelid = c.conrelid AND fa.attnum = c.conkey[i]
     JOIN pg_catalog.pg_attribute pa ON pa.attrelid = c.confrelid AND pa.attnum = c.confkey[i]
     JOIN (SELECT op.oid, op.oprname, ns.nspname FROM pg_catalog.pg_operator op \
     JOIN pg_catalog.pg_namespace ns ON ns.oid = op.oprnamespace) o
       ON o.oid = c.conpfeqop[i]
     WHERE NOT ({period} AND i = pg_catalog.cardinality(c.conkey))),
    (SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = c.conrelid \
    AND attnum = c.conkey[pg_catalog.cardinality(c.conkey)]),
    (SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = c.confrelid \
    AND attnum = c.confkey[pg_catalog.cardinality(c.confkey)])), rn.nspname, r.relname
FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid = c.conrelid \
JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
JOIN pg_catalog.pg_class r ON r.oid = c.confrelid JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
WHERE c.contype = 'f' AND c.convalidated AND NOT EXISTS (
  SELECT FROM pg_catalog.pg_constraint whole WHERE whole.oid = c.conparentid AND whole.conrelid = c.conrelid)
ORDER BY c.oid";

/// Refuses when a row of `tables` contradicts a foreign key, by the key's name.
pub(crate) async fn check<'a>(
    connection: &mut Connection,
    tables: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), Error> {
    let loaded: BTreeSet<(&str, &str)> = tables.collect();
    // The period is the last column of its key. Before version 18 there are none.
    let period = if connection.version >= 180_000 { "c.conperiod" } else { "false" };
    for key in connection.query(&KEYS.replace("{period}", period)).await? {
        let (name, schema, table) = (key.text(0), key.text(1), key.text(2));
        if !loaded.contains(&(schema, table)) {
            continue;
        }
        let about = format!("foreign key {name} of {}", qualified(schema, table));
        connection.execute("BEGIN").await?;
        held::hold(connection, [(schema, table), (key.text(4), key.text(5))].into_iter()).await?;
        let found = connection.query(key.text(3)).await.map_err(|error| error.about(&*about))?;
        connection.execute("COMMIT").await?;
        if !found.is_empty() {
            // What the server itself would have said, had it been asked.
            let message = "a row refers to one that isn't there".to_owned();
            let error = ServerError { code: "23503".to_owned(), message, detail: None, hint: None };
            return Err(Error::Server { object: about, error });
        }
    }
    Ok(())
}
