//! What PostgreSQL's own programs are told of a server: by their environment, because arguments can be seen by every user
//! (I13); and all of it by us, so that they come to the same server in the same way, or not at all.

use super::encryption::TlsMode;
use super::session;
use super::target::{Host, Target};
use super::tls;
use crate::Error;

/// A file that nobody has, where one that is the user's would be looked for. It is no error to `libpq` that there is none.
const NOWHERE: &str = "/dev/null/none";

/// The variables. No other that begins with `PG` may be set.
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
    // Without one: the server may not ask.
    if let Ok(password) = target.find_password() {
        variables.push(("PGPASSWORD", password));
    }
    Ok(variables)
}
