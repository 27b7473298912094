//! Finds what would refuse a backup before it reads a row, and whether this machine can make a proof. A backup makes the same checks
//! itself.

use seawall_archive::server::Readiness;

use crate::client::Target;
use crate::dump::base::Source;
use crate::error::Side;
use crate::prove::throwaway;
use crate::{DumpOptions, Error, World};

/// Looks at a source and at the programs of this machine.
///
/// # Errors
/// When the server can't be reached, or is too old.
pub(crate) async fn examine(target: &Target, options: &DumpOptions, world: &World) -> Result<Readiness, Error> {
    let source = Source::ask(target, options).await.map_err(|error| error.during(Side::Backup))?;
    let server = &source.facts.server;
    let refusal = source.check_rights().err().map(|error| error.during(Side::Backup).into());
    let program = throwaway::find(server, &options.limits, &world.environment).await;
    Ok(Readiness {
        server: format!("{} {}", if source.facts.mariadb { "MariaDB" } else { "MySQL" }, server.version_text),
        refusals: refusal.into_iter().collect(),
        tool: None,
        proof: program.map(|program| program.to_string()).map_err(Into::into),
    })
}
