//! Large objects of a set: made empty, with owner, grants and comment. Their pages are rows of the set.

use crate::client::Connection;
use crate::client::quote::{ident, literal};
use crate::journal::Journal;
use crate::{Error, LargeObject};

/// How many are made in one transaction: each may hold a lock.
const AT_ONCE: usize = 1000;

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
        let sql = format!("BEGIN; {made} {}; COMMIT", Journal::note(&step));
        connection.execute(&sql).await.map_err(|error| error.about("large objects"))?;
    }
    Ok(())
}

/// The statements that make one large object.
fn statements(object: &LargeObject, owners: bool) -> String {
    let oid = object.oid;
    let mut sql = format!("SELECT lo_create({oid});\n");
    if let Some(comment) = &object.comment {
        sql.push_str(&format!("COMMENT ON LARGE OBJECT {oid} IS {};\n", literal(comment)));
    }
    if !owners {
        return sql;
    }
    if let Some(grants) = &object.grants {
        sql.push_str(&format!("REVOKE ALL ON LARGE OBJECT {oid} FROM CURRENT_USER;\n"));
        for (grantee, privilege, grantable) in grants {
            let privilege = if privilege == "UPDATE" { "UPDATE" } else { "SELECT" };
            let grantee = if grantee.is_empty() { "PUBLIC".to_owned() } else { ident(grantee) };
            let option = if *grantable { " WITH GRANT OPTION" } else { "" };
            sql.push_str(&format!("GRANT {privilege} ON LARGE OBJECT {oid} TO {grantee}{option};\n"));
        }
    }
    sql.push_str(&format!("ALTER LARGE OBJECT {oid} OWNER TO {};\n", ident(&object.owner)));
    sql
}
