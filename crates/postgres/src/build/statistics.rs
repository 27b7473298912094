//! Statistics for the planner, with many connections at once: `ANALYZE` by itself works through one table after another.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use futures::future::try_join_all;

use crate::Error;
use crate::build::passing;
use crate::client::{Connection, Target};
use crate::load::connect::connect;
use crate::quote::{literal, qualified};

/// Small tables share a statement until they are this large together: reading more makes no statistics better.
const TOGETHER: u64 = 16 << 20;

/// The most tables in one statement.
const AT_ONCE: usize = 200;

/// Tables and their sizes, of those for which a condition holds.
const TABLES: &str = "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname), \
     (SELECT pg_catalog.sum(pg_catalog.pg_relation_size(part)) FROM (SELECT c.oid UNION SELECT relid \
     FROM pg_catalog.pg_partition_tree(c.oid)) AS p (part)) \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND NOT c.relisshared AND ";

/// A table that got no statistics, and why.
pub(crate) type Without = (String, String);

/// Gathers the statistics of all tables, or of the `chosen` ones, with `jobs` connections. Returns those that can't have
/// any.
pub(crate) async fn gather(
    connection: &mut Connection,
    target: &Target,
    encoding: &str,
    chosen: Option<&BTreeSet<(String, String)>>,
    jobs: usize,
) -> Result<Vec<Without>, Error> {
    let batches = batches(tables(connection, chosen).await?);
    let jobs = jobs.min(batches.len());
    let left = Mutex::new(VecDeque::from(batches));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = async || {
        let (mut connection, mut without) = (connect(target, encoding).await?, Vec::new());
        while let Some(names) = next() {
            without.extend(analyze(&mut connection, names).await?);
        }
        connection.close().await;
        Ok::<_, Error>(without)
    };
    Ok(try_join_all((0..jobs).map(|_| worker())).await?.concat())
}

/// Gathers the statistics of all tables with the connection itself.
pub(crate) async fn gather_here(connection: &mut Connection) -> Result<Vec<Without>, Error> {
    let mut without = Vec::new();
    for names in batches(tables(connection, None).await?) {
        without.extend(analyze(connection, names).await?);
    }
    Ok(without)
}

/// The tables and their sizes.
async fn tables(
    connection: &mut Connection,
    chosen: Option<&BTreeSet<(String, String)>>,
) -> Result<Vec<(String, u64)>, Error> {
    // A partitioned table is looked at with all its partitions, whichever it is asked for: the topmost is enough.
    let condition = match chosen {
        None => "NOT c.relispartition".to_owned(),
        Some(chosen) => {
            let names: Vec<String> = chosen.iter().map(|(schema, name)| literal(&qualified(schema, name))).collect();
            let chosen = format!("ANY (ARRAY[{}]::pg_catalog.regclass[])", names.join(", "));
            format!(
                "c.oid = {chosen} AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i \
                 WHERE c.relispartition AND i.inhrelid = c.oid AND i.inhparent = {chosen})"
            )
        }
    };
    let rows = connection.query(&format!("{TABLES}{condition}")).await?;
    Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.number(1))).collect())
}

/// Runs one statement; where that fails, one for each of its tables. Statistics are no content: a table that can't have any
/// is named, and the restore goes on. Its owner mustn't call the function of an index, a function of a type fails, or the
/// server behind a foreign partition doesn't answer.
async fn analyze(connection: &mut Connection, names: Vec<String>) -> Result<Vec<Without>, Error> {
    let together = connection.execute(&format!("ANALYZE {}", names.join(", "))).await;
    let Err(error) = together else { return Ok(Vec::new()) };
    if error.sqlstate().is_none_or(passing::passes) {
        let (first, others) = (names.first().map_or("", String::as_str), names.len().saturating_sub(1));
        let all = if others == 0 { first.to_owned() } else { format!("{first} and {others} other tables") };
        return Err(error.about(all));
    }
    if let [name] = &names[..] {
        return Ok(vec![(name.clone(), error.to_string())]);
    }
    let mut without = Vec::new();
    for name in names {
        without.extend(Box::pin(analyze(connection, vec![name])).await?);
    }
    Ok(without)
}

/// Which tables share a statement: the largest come first and alone, the others as many as are worth it.
fn batches(mut tables: Vec<(String, u64)>) -> Vec<Vec<String>> {
    tables.sort_unstable_by(|(a, bytes_a), (b, bytes_b)| bytes_b.cmp(bytes_a).then_with(|| a.cmp(b)));
    let (mut batches, mut size) = (Vec::<Vec<String>>::new(), 0);
    for (name, bytes) in tables {
        match batches.last_mut() {
            Some(batch) if size + bytes <= TOGETHER && batch.len() < AT_ONCE => {
                batch.push(name);
                size += bytes;
            }
            _ => {
                batches.push(vec![name]);
                size = bytes;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tables_stand_alone_and_small_ones_share() {
        let of = |sizes: &[u64]| {
            let tables = (0..).zip(sizes).map(|(number, mib)| (format!("t{number}"), mib << 20)).collect();
            batches(tables).into_iter().map(|batch| batch.join(" ")).collect::<Vec<_>>()
        };
        assert!(of(&[]).is_empty());
        assert_eq!(of(&[1, 100, 15, 16, 0]), ["t1", "t3", "t2 t0 t4"]);
        assert_eq!(of(&[8, 8, 8]), ["t0 t1", "t2"]);
        let many = of(&[0; 450]);
        assert_eq!(many.iter().map(|batch| batch.split(' ').count()).collect::<Vec<_>>(), [200, 200, 50]);
    }
}
