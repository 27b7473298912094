//! A server that recovers in a folder of its own, apart from the rest of the host.

#![expect(clippy::disallowed_methods, reason = "this module reads what a server has written")]

use std::path::{Path, PathBuf};

use seawall_core::Failure;
use seawall_host::{Apart, Folder};
use seawall_vault::Environment;

use super::super::base::BaseManifest;
use super::super::recover::{Reached, own_settings, replayable, until_recovered};
use super::io;
use crate::client::Target;
use crate::{Error, Limits};

/// Nothing of the server is needed after a crash, and nothing of the source runs in it by itself: no library, no worker, no
/// replication.
const SETTINGS: [&str; 20] = [
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "max_wal_size=1GB",
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
    // In its folder, not in the memory that the host shares: that would stay when the server is killed.
    "dynamic_shared_memory_type=mmap",
];

/// What a server says that can't replay here, although nothing is wrong with the log.
const OF_THIS_HOST: [(&str, &str); 5] = [
    (
        "resource manager with ID",
        "an extension of the source must be loaded to replay its log, and a proof loads no library of it",
    ),
    ("could not map anonymous shared memory", "this host has too little memory for it"),
    ("could not create shared memory segment", "this host has too little memory for it"),
    ("No space left on device", "the disk of the scratch folder is full"),
    ("out of memory", "this host has too little memory for it"),
];

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
}

impl Server {
    /// Starts it in `folder`, where its data directory `data` and its log `wal` are: together about `size` bytes.
    pub(in super::super) async fn start(
        folder: Folder,
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
        let later = (version >= 170_000).then(|| "event_triggers=off".to_owned());
        let settings = own_settings(&data, &place).into_iter();
        let settings = settings.chain([format!("config_file={}", place.join("postgresql.conf").display())]);
        let settings = settings.chain(SETTINGS.map(str::to_owned)).chain(replayable(manifest)).chain(later);
        let mut arguments = vec!["-D".to_owned(), data.display().to_string()];
        arguments.extend(settings.flat_map(|setting| ["-c".to_owned(), setting]));
        let libraries = environment.get("LD_LIBRARY_PATH");
        let apart = Apart::start(folder, program, &arguments, "QUIT", libraries, limits.proof).await;
        let apart = apart.map_err(|error| io(program.to_owned(), &error))?;
        apart.admit(size);
        let socket = place.display().to_string().replace('%', "%25").replace('/', "%2F");
        let mut target = Target::parse(&format!("postgresql://x@{socket}:5432/postgres"), &Environment::empty())?;
        target.user = manifest.superuser.clone().unwrap_or_else(|| "postgres".to_owned());
        Ok(Self { apart, target, version })
    }

    /// Waits until it has recovered.
    pub(in super::super) async fn recovered(&mut self) -> Result<Reached, Error> {
        let log = self.apart.folder().path().join("log");
        let log =
            || std::fs::read(&log).map_or_else(|_| String::new(), |all| String::from_utf8_lossy(&all).into_owned());
        until_recovered(|| self.apart.ended(), &self.target, log).await
    }

    /// Its version as a number: 150018.
    pub(in super::super) fn version(&self) -> u32 {
        self.version
    }

    /// Where the copied log is.
    pub(in super::super) fn wal(&self) -> PathBuf {
        self.apart.folder().path().join("wal")
    }

    /// What an error means.
    pub(in super::super) fn explain(&self, error: Error) -> Said {
        if let Some(cause) = self.apart.exceeded() {
            return Said::NotHere(crate::prove::throwaway::exceeded(&cause).into());
        }
        let Error::ToolFailed { cause, .. } = &error else { return Said::NotHere(error.into()) };
        let Some(why) = why_not_here(cause) else { return Said::Wrong(cause.clone()) };
        let error = Error::Refused {
            code: "postgres.proof-here",
            object: "the server that is started to recover".to_owned(),
            cause: format!("{why}: {cause}"),
            next: "do it on another host, or restore the cluster with --start there".to_owned(),
        };
        Said::NotHere(error.into())
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

/// Why a server that said this couldn't replay on this host, if the log isn't the reason.
fn why_not_here(said: &str) -> Option<&'static str> {
    OF_THIS_HOST.iter().find(|(words, _)| said.contains(words)).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_lacks_is_no_fault_of_the_log() {
        for (said, is_here) in [
            ("FATAL:  resource manager with ID 129 not registered", true),
            ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", true),
            ("PANIC:  could not locate a valid checkpoint record at 0/2000028", false),
            ("FATAL:  recovery ended before configured recovery target was reached", false),
        ] {
            assert_eq!(why_not_here(said).is_some(), is_here, "{said}");
        }
    }
}
