//! Finds what would refuse a backup before it reads a row, and whether this machine can make a proof. A backup makes the same checks
//! itself.

use seawall_archive::server::Readiness;

use crate::catalog::{rights, snapshot};
use crate::client::{Connection, Target};
use crate::dump::base;
use crate::error::Side;
use crate::{DumpOptions, Error, Format, World, tools};

/// Looks at a source and at the programs of this machine.
///
/// # Errors
/// When the server can't be reached, or is too old.
pub(crate) async fn examine(target: &Target, options: &DumpOptions, world: &World) -> Result<Readiness, Error> {
    let connection = base::connect(target).await.map_err(of_a_backup)?;
    let major = connection.version / 10_000;
    let pg_dump = tools::find("pg_dump", major, &options.limits, &world.environment).await;
    // A set says which pg_dump wrote its schema, and a restore needs programs that are as new.
    let least = pg_dump.as_ref().map_or(major, |tool| tool.major.max(major));
    let mut refusals = Vec::new();
    match base::databases(connection, target, options).await {
        Ok(databases) => {
            for database in databases.read {
                let checked = check(&target.with_database(&database), options.format).await;
                refusals.extend(checked.err().map(of_a_backup));
            }
        }
        Err(error) => refusals.push(of_a_backup(error)),
    }
    let initdb = tools::find("initdb", least, &options.limits, &world.environment).await;
    Ok(Readiness {
        server: format!("PostgreSQL {major}"),
        refusals: refusals.into_iter().map(Into::into).collect(),
        tool: Some(pg_dump.map(said).map_err(|error| of_a_backup(error).into())),
        proof: initdb
            .map(|tool| said(tools::Tool { path: tool.path.with_file_name("postgres"), ..tool }))
            .map_err(Into::into),
    })
}

fn of_a_backup(error: Error) -> Error {
    error.during(Side::Backup)
}

fn said(tool: tools::Tool) -> String {
    format!("{} of version {}", tool.path.display(), tool.major)
}

/// What a backup checks of one database.
async fn check(target: &Target, format: Format) -> Result<(), Error> {
    let mut connection = Connection::open(target).await?;
    snapshot::prepare(&mut connection).await?;
    snapshot::check(&mut connection, target).await?;
    if format != Format::Native {
        rights::check_large_objects(&mut connection).await?;
    }
    connection.close().await;
    Ok(())
}
