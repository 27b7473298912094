//! Large objects of a set: made empty, with owner, grants and comment. Their pages are rows of the set.

use crate::catalog::grants;
use crate::catalog::pages;
use crate::catalog::properties;
use crate::client::Connection;
use crate::client::tried::{self, Refused, Statement};
use crate::journal::Journal;
use crate::quote::{ident, literal};
use crate::{Error, LargeObject};

/// How many are made in one transaction: each may hold a lock.
const AT_ONCE: usize = 1000;

/// Gives them their security labels, which the server may refuse.
pub(crate) async fn label(objects: &[LargeObject], connection: &mut Connection) -> Result<Vec<Refused>, Error> {
    tried::run(connection, &labels(objects)).await
}

/// The statements that give them their security labels.
pub(crate) fn labels(objects: &[LargeObject]) -> Vec<Statement> {
    let labels = |object: &LargeObject| {
        let name = format!("LARGE OBJECT {}", object.oid);
        properties::label(&name, &format!("large object {}", object.oid), &object.labels)
    };
    objects.iter().flat_map(labels).collect()
}

/// Makes those that the journal doesn't have.
pub(crate) async fn make(
    objects: &[LargeObject],
    connection: &mut Connection,
    journal: &Journal,
    owners: bool,
) -> Result<(), Error> {
    for (number, some) in objects.chunks(AT_ONCE).enumerate() {
        let step = format!("large objects {number}");
        if journal.has(&step) {
            continue;
        }
        let made: String = some.iter().map(|object| statements(object, owners)).collect();
        let sql = format!("BEGIN; {made} {}; COMMIT", journal.note(&step));
        connection.execute(&sql).await.map_err(|error| error.about("large objects"))?;
    }
    Ok(())
}

/// The statements that write what is in a table of pages of `size` bytes into large objects that are there, and empty that
/// table.
///
/// A page without bytes says where an object ends, or is a part of a hole: the object is made as long as that, unless it is longer
/// already, because another connection has written what comes behind it.
pub(crate) fn write(pages: &str, size: u64) -> String {
    let at = pages::place("page", size);
    // 131072 is INV_WRITE, 2 is SEEK_END. `lo_truncate64` gives 0, and only then is the object closed.
    format!(
        "SELECT pg_catalog.count(pg_catalog.lo_close(CASE WHEN pg_catalog.lo_lseek64(fd, 0, 2) <= at \
           THEN fd + pg_catalog.lo_truncate64(fd, at) ELSE fd END)) FROM \
           (SELECT pg_catalog.lo_open(oid, 131072) AS fd, {at} AS at FROM {pages} WHERE pg_catalog.length(data) = 0 \
            ORDER BY oid, page OFFSET 0) AS empty; \
         SELECT pg_catalog.count(pg_catalog.lo_put(oid, {at}, data)) FROM {pages} WHERE pg_catalog.length(data) > 0; TRUNCATE {pages}"
    )
}

/// The statements that make one large object.
fn statements(object: &LargeObject, owners: bool) -> String {
    let oid = object.oid;
    let mut sql = format!("SELECT pg_catalog.lo_create({oid});\n");
    if let Some(comment) = &object.comment {
        sql.push_str(&format!("COMMENT ON LARGE OBJECT {oid} IS {};\n", literal(comment)));
    }
    if !owners {
        return sql;
    }
    sql.push_str(&format!("ALTER LARGE OBJECT {oid} OWNER TO {};\n", ident(&object.owner)));
    if let Some(grants) = &object.grants {
        sql += &grants::statements(&format!("LARGE OBJECT {oid}"), &object.owner, grants, &["SELECT", "UPDATE"]);
    }
    sql
}
