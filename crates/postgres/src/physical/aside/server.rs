//! A server that recovers in a folder of its own, apart from the rest of the host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_archive::log::Lsn;
use seawall_core::{Failure, Kind};
use seawall_host::{Apart, Folder};
use seawall_vault::Environment;
use tokio::time::Instant;

use super::super::base::BaseManifest;
use super::super::recover::{Reached, own_settings, sizes, until_recovered};
use super::io;
use super::log::Range;
use crate::client::{Host, Target};
use crate::prove::throwaway::start_apart;
use crate::{Error, Limits};

/// Nothing of the server is needed after a crash, and nothing of the source runs in it by itself: no library, no worker, no
/// replication. What the source's server could do, this one can too: prepared transactions, origins, tablespaces in its folder.
const SETTINGS: [&str; 26] = [
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "autovacuum_freeze_max_age=2000000000",
    "huge_pages=off",
    "jit=off",
    "restart_after_crash=off",
    "archive_mode=off",
    "archive_cleanup_command=",
    "recovery_end_command=",
    "primary_conninfo=",
    "shared_preload_libraries=",
    "session_preload_libraries=",
    "local_preload_libraries=",
    "max_logical_replication_workers=0",
    "ignore_checksum_failure=off",
    "zero_damaged_pages=off",
    "log_statement=none",
    "log_error_verbosity=terse",
    // What a server writes last is judged by its SQLSTATE.
    "log_line_prefix=%e ",
    // In its folder, not in the memory that the host shares: that would stay when the server is killed.
    "dynamic_shared_memory_type=mmap",
    // Without queries in the meantime a server needs no setting as large as the source's.
    "hot_standby=off",
    "allow_in_place_tablespaces=on",
    "max_prepared_transactions=200",
    "max_locks_per_transaction=256",
    "max_replication_slots=1000",
];

/// Settings of a session that no setting of a role or a database may undo: they would hide damage, or run what the source names.
const SESSION: [(&str, &str); 4] = [
    ("zero_damaged_pages", "off"),
    ("ignore_checksum_failure", "off"),
    ("session_preload_libraries", ""),
    ("local_preload_libraries", ""),
];

/// What a server says that can't replay here, although its SQLSTATE is that of damage: errors without one have it.
const OF_THIS_HOST: [(&str, &str); 9] = [
    (
        "resource manager with ID",
        "an extension of the source must be loaded to replay its log, and no library of the source is loaded",
    ),
    ("incompatible with server", OTHER_PROGRAMS),
    ("not supported by build", OTHER_PROGRAMS),
    ("could not map anonymous shared memory", TOO_LITTLE),
    ("could not create shared memory segment", TOO_LITTLE),
    ("could not create semaphores", TOO_LITTLE),
    ("could not create any", "no socket can be made in the scratch folder"),
    ("no socket created", "no socket can be made in the scratch folder"),
    // The command that copies the log ends so if a disk is full or can't be read.
    ("could not restore file", "the log can't be read or written in the scratch folder"),
];

const OTHER_PROGRAMS: &str = "the programs of this host were built otherwise than the source's";
const TOO_LITTLE: &str = "this host has too little memory for it";

/// How long to wait before looking again whether it has ended.
const PAUSE: Duration = Duration::from_millis(50);

/// How long it may take until a server that crashed has ended.
const END: Duration = Duration::from_secs(5);

/// What an error of a server says.
pub(in super::super) enum Said {
    /// The cluster can't be recovered: the server's last words.
    Wrong(String),
    /// It couldn't be tried here.
    NotHere(Failure),
}

/// A server that recovers, or has recovered.
pub(in super::super) struct Server {
    apart: Apart,
    /// Its database `postgres`, as the superuser.
    pub(in super::super) target: Target,
    version: u32,
    /// The log, if the server is to replay all of it.
    log: Option<Range>,
}

impl Server {
    /// Starts it in `folder`, where its data directory `data` and its log `wal` are: together about `size` bytes. If it is to replay
    /// all of the log, `log` is what it has to replay.
    pub(in super::super) async fn start(
        (folder, log): (Folder, Option<Range>),
        program: &Path,
        manifest: &BaseManifest,
        size: u64,
        limits: &Limits,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let (place, data) = (folder.path().to_owned(), folder.path().join("data"));
        for (name, content) in [("hba", "local all all trust\n"), ("ident", ""), ("postgresql.conf", "")] {
            folder.write(name, content).map_err(|error| io(place.join(name), &error))?;
        }
        let version = manifest.version;
        // No function of the source runs because somebody logs in.
        let without_triggers = (version >= 170_000).then_some("event_triggers=off");
        let origins = (version >= 180_000).then_some("max_active_replication_origins=1000");
        let later = without_triggers.into_iter().chain(origins).map(str::to_owned);
        let later = later.chain([format!("max_connections={}", limits.jobs.saturating_add(50).min(10_000))]);
        let settings = own_settings(&data, &place).into_iter();
        let settings = settings.chain([format!("config_file={}", place.join("postgresql.conf").display())]);
        let settings = settings.chain(SETTINGS.map(str::to_owned)).chain(sizes(manifest)).chain(later);
        let mut arguments = vec!["-D".to_owned(), data.display().to_string()];
        arguments.extend(settings.flat_map(|setting| ["-c".to_owned(), setting]));
        let libraries = environment.get("LD_LIBRARY_PATH");
        let apart = start_apart(folder, (program, &arguments), libraries, limits).await?;
        apart.admit(size);
        let mut target = Target::parse("postgresql://x@%2Ftmp:5432/postgres", &Environment::empty())?;
        target.host = Host::Socket(place);
        target.user = manifest.superuser.clone().unwrap_or_else(|| "postgres".to_owned());
        let session = SESSION.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let triggers = (version >= 170_000).then(|| ("event_triggers".to_owned(), "off".to_owned()));
        let target = target.with_options(session.chain(triggers).collect());
        Ok(Self { apart, target, version, log })
    }

    /// Waits until it has recovered.
    pub(in super::super) async fn recovered(&mut self) -> Result<Reached, Error> {
        let log = self.apart.folder().log_file();
        until_recovered(|| self.apart.ended(), &self.target, || log.read()).await
    }

    /// Its version as a number: 150018.
    pub(in super::super) fn version(&self) -> u32 {
        self.version
    }

    /// Where it stopped replaying, if it is to replay all of the log and sound records follow there.
    ///
    /// # Errors
    /// When the copied log can't be read.
    pub(in super::super) async fn stopped_short(&self, reached: &Reached) -> Result<Option<Lsn>, Error> {
        let (Some(log), Some(at)) = (&self.log, reached.lsn) else { return Ok(None) };
        let wal = self.apart.folder().inside("wal").map_err(|error| io(PathBuf::from("wal"), &error))?;
        Ok(log.goes_on(wal, at).await?.then_some(at))
    }

    /// Whether it ends because it crashed, and its last words. Its other processes may need a moment.
    pub(in super::super) async fn crash(&mut self) -> Option<String> {
        let deadline = Instant::now() + END;
        while self.apart.ended().is_none() {
            if Instant::now() > deadline {
                return None;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let log = self.apart.folder().log();
        log.lines().rev().find(|line| is_crash(line)).map(|line| line.trim().to_owned())
    }

    /// What an error means.
    pub(in super::super) fn explain(&self, error: Error) -> Said {
        if let Some(cause) = self.apart.exceeded() {
            return Said::NotHere(not_here("postgres.proof-limit", &format!("{cause}, and the server was ended")));
        }
        let Error::ToolFailed { cause, .. } = &error else { return Said::NotHere(error.unspoken().into()) };
        match why_not_here(&self.apart.folder().log()) {
            Some(why) => Said::NotHere(not_here("postgres.proof-here", &format!("{why}: {cause}"))),
            None => Said::Wrong(cause.clone()),
        }
    }

    /// What may be reached from it, if it couldn't be kept apart.
    pub(in super::super) fn not_isolated(&self) -> Option<&'static str> {
        self.apart.not_isolated()
    }

    /// Ends it and removes all of it.
    pub(in super::super) async fn stop(self) {
        self.apart.stop().await;
    }
}

/// That it couldn't be tried on this host, which says nothing about the cluster.
fn not_here(code: &'static str, cause: &str) -> Failure {
    let next = match code {
        "postgres.proof-limit" => {
            "look for a function of an index that doesn't end; give a proof longer with --proof-timeout, and name a larger disk with --scratch or prove.scratch"
        }
        _ => "do it on another host, or restore the cluster with -o and --start there",
    };
    Failure::new(Kind::Unavailable, code, "the server that is started to recover", cause, next)
}

/// Whether a line of the log says that a process of the server crashed.
fn is_crash(line: &str) -> bool {
    line.contains("PANIC:")
        || ["signal 6", "signal 7", "signal 11"]
            .iter()
            .any(|signal| line.contains(&format!("was terminated by {signal}")))
}

/// Why a server with this log couldn't replay on this host, if the cluster isn't the reason. Its lines begin with an SQLSTATE. Pure.
fn why_not_here(log: &str) -> Option<&'static str> {
    let fatal = |line: &str| {
        let (code, rest) = line.split_once(' ')?;
        let words = rest.strip_prefix("FATAL:").or(rest.strip_prefix("PANIC:"))?;
        // Those are answers to sessions.
        let is_of_session = ["28", "3D", "57P03", "53300"].iter().any(|begin| code.starts_with(begin));
        (!is_of_session).then(|| (code.to_owned(), words.to_owned()))
    };
    let Some((code, words)) = log.lines().rev().find_map(fatal) else {
        let crashed = log.lines().any(is_crash);
        return (!crashed).then_some("it ended without a word, as a process that is killed");
    };
    if let Some((_, why)) = OF_THIS_HOST.iter().find(|(said, _)| words.contains(said)) {
        return Some(why);
    }
    // Damage; a target that isn't reached; a state that isn't the one to begin in; a file that is missing.
    let is_wrong = code.starts_with("XX") || ["F0000", "55000", "58P01"].contains(&code.as_str());
    (!is_wrong).then_some("the host or the server's settings are the reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_lacks_is_no_fault_of_the_log() {
        for (said, is_here) in [
            ("XX000 FATAL:  resource manager with ID 129 not registered", true),
            ("XX000 FATAL:  could not map anonymous shared memory: Cannot allocate memory", true),
            (
                "XX000 FATAL:  could not restore file \"000000010000000000000002\" from archive: child process exited with exit code 200",
                true,
            ),
            ("53200 FATAL:  out of memory", true),
            ("53100 FATAL:  could not write to file: No space left on device", true),
            ("22023 FATAL:  \"min_wal_size\" must be at least twice \"wal_segment_size\"", true),
            ("00000 LOG:  startup process (PID 7) was terminated by signal 9: Killed", true),
            ("", true),
            ("XX000 PANIC:  could not locate a valid checkpoint record at 0/2000028", false),
            ("XX000 PANIC:  invalid redo\n57P03 FATAL:  the database system is starting up\n00000 LOG:  bye", false),
            ("00000 LOG:  startup process (PID 7) was terminated by signal 11: Segmentation fault", false),
            ("F0000 FATAL:  recovery ended before configured recovery target was reached", false),
        ] {
            assert_eq!(why_not_here(said).is_some(), is_here, "{said}");
        }
    }
}
