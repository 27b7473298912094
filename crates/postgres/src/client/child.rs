//! The environment of PostgreSQL's own programs. It holds the whole description of the server, because every user can
//! see arguments (I13). Nothing is left to the user's own settings, so the programs reach the same server in the same
//! way, or fail.

use super::encryption::TlsMode;
use super::session;
use super::target::{Host, Target};
use super::tls;
use crate::Error;

/// A file that doesn't exist, in place of the user's own file. A missing file is no error to `libpq`.
const NOWHERE: &str = "/dev/null/none";

/// The variables. No other variable that begins with `PG` may be set.
pub(crate) fn child_environment(target: &Target) -> Result<Vec<(&'static str, String)>, Error> {
    let (host, mode) = match &target.host {
        Host::Socket(folder) => (folder.display().to_string(), TlsMode::Disable),
        Host::Tcp(name) => (name.clone(), target.tls),
    };
    let roots = tls::roots(target)?.map_or(NOWHERE.to_owned(), |file| file.display().to_string());
    let mut variables = vec![
        ("PGHOST", host),
        ("PGPORT", target.port.to_string()),
        ("PGUSER", target.user.clone()),
        ("PGDATABASE", target.database_or_own().to_owned()),
        ("PGPASSFILE", NOWHERE.to_owned()),
        ("PGSSLMODE", mode.name().to_owned()),
        ("PGSSLROOTCERT", roots),
        ("PGSSLCRL", NOWHERE.to_owned()),
        ("PGSSLCERT", NOWHERE.to_owned()),
        ("PGGSSENCMODE", "disable".to_owned()),
        ("PGAPPNAME", "seawall".to_owned()),
        ("PGCONNECT_TIMEOUT", "30".to_owned()),
    ];
    if !target.options.is_empty() {
        variables.push(("PGOPTIONS", session::options(&target.options)));
    }
    if let Some(word) = &target.channel_binding {
        variables.push(("PGCHANNELBINDING", word.clone()));
    }
    // Without a password: the server may not ask for one.
    if let Ok(password) = target.find_password() {
        variables.push(("PGPASSWORD", password));
    }
    Ok(variables)
}
