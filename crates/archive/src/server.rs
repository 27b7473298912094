//! What engines of servers do with backup sets: a backup, a restore into a server, a proof. Each is one call for every
//! engine, with the same options and results.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{Failure, Finding, Progress, When};
use seawall_vault::Vault;

use crate::preflight::Lack;
use crate::{Budget, Machine, Manifest, Profile, Stages};

/// How much of the machine a run may use, and with which programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections that move data, and cores that compress.
    pub jobs: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// The profile that they were chosen by, if there was one.
    pub profile: Option<Profile>,
    /// The folder of the vendor's programs, such as `pg_dump`; the engine looks for them if there is none.
    pub bindir: Option<PathBuf>,
    /// How long the proof of a database may take on a server that is started for it; if there is none, the database's
    /// size decides.
    pub proof: Option<Duration>,
    /// The folder in which a server that is started here has its own; the system's folder for large temporary files, if there is none.
    pub scratch: Option<PathBuf>,
    /// Whether a server that is started here must be kept from our files, our environment and the network. What it is made from is the
    /// work of the source's owner.
    pub isolated: bool,
}

/// What to do where a server can't be kept apart.
pub const ISOLATE: &str = "use a host whose kernel has Landlock (`cat /sys/kernel/security/lsm`), or a server of your own with --to; where \
    the owner of the source may read everything that this user can, and change it, say so: prove.isolated: false, or --not-isolated";

impl Default for Limits {
    fn default() -> Self {
        Self { jobs: 2, memory: 128 << 20, profile: None, bindir: None, proof: None, scratch: None, isolated: true }
    }
}

impl Limits {
    /// Takes what was said, and the rest from a profile on a machine, if there is one.
    pub fn choose(&mut self, profile: Option<Profile>, machine: Machine, said: (Option<usize>, Option<u64>)) {
        (self.jobs, self.memory) = match profile {
            Some(profile) => profile.on(machine, said),
            None => (said.0.unwrap_or(self.jobs), said.1.unwrap_or(self.memory)),
        };
        self.profile = profile;
    }

    /// Why the memory isn't enough for the connections, if it isn't.
    pub fn lack(&self) -> Option<String> {
        Budget::new(self.memory, self.jobs).err().map(|error| error.to_string())
    }
}

/// A database of a server, or a whole server, with the way in which it is backed up.
#[async_trait]
pub trait BackUp: Send + Sync {
    /// The engine and the stable codes of its failures.
    fn engine(&self) -> &'static EngineNames;

    /// The source as a URL without its password.
    fn url(&self) -> String;

    /// Makes a set of the source and lets it count. `nth` differs in each call of a process, so that two sets of the
    /// same moment get different names.
    async fn back_up(&self, vault: &Vault, nth: u32, progress: Arc<dyn Progress>) -> Result<Dumped, Failure>;
}

/// The name of an engine of servers, and the stable codes of failures that every such engine has.
#[derive(Debug, PartialEq, Eq)]
pub struct EngineNames {
    /// As the status shows it: `postgres`.
    pub name: &'static str,
    /// A stop came before the backup was whole.
    pub interrupted: &'static str,
    /// No process backs the source up by its schedule now.
    pub not_running: &'static str,
    /// The backup that was asked for failed.
    pub not_backed_up: &'static str,
    /// What was restored is not what the set says.
    pub different: &'static str,
    /// A set of rows can't be restored into a file.
    pub no_file: &'static str,
    /// What the URL of a server looks like, for messages.
    pub url: &'static str,
}

/// A server that sets are restored into.
#[async_trait]
pub trait RestoreInto: Send + Sync {
    /// Restores a set, or only says what a restore would do.
    async fn restore(
        &self,
        vault: &Vault,
        options: &RestoreOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<Restored, Failure>;
}

/// Proofs of an engine's sets.
#[async_trait]
pub trait Prove: Send + Sync {
    /// Restores the set that `when` names into a database that is thrown away, and compares.
    async fn prove(
        &self,
        vault: &Vault,
        when: &When,
        limits: &Limits,
        progress: Arc<dyn Progress>,
    ) -> Result<Proved, Failure>;
}

/// A set that was made.
#[derive(Debug, Clone)]
pub struct Dumped {
    /// What the chain says of it.
    pub manifest: Manifest,
    /// Whether it is one of a whole server.
    pub whole: bool,
    /// The databases that are in it.
    pub databases: Vec<String>,
    /// Invalid indexes that aren't in the set, by database: the vendor's program passes over them.
    pub invalid: Vec<(String, String)>,
    /// Tables that were read as text where binary was asked for.
    pub as_text: Vec<AsText>,
    /// Schemas that aren't, by database: each is the journal of a restore that isn't done.
    pub journals: Vec<(String, String)>,
    /// Of a whole server: databases that aren't, because a restore that isn't done is in them, or a proof, or because they
    /// can't be read any more.
    pub left_out: Vec<String>,
    /// Where the time went.
    pub stages: Stages,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// A table that was read as text where binary was asked for, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AsText {
    /// Its database.
    pub database: String,
    /// The table: `public.orders`.
    pub table: String,
    /// The first column whose type has no binary form that means the same in every server.
    pub column: String,
    /// That type.
    pub r#type: String,
}

/// What a backup and a proof of a source need, and whether this machine and the source's user have it.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The server, as people name it: `PostgreSQL 15`.
    pub server: String,
    /// Why a backup would be refused before it reads a row; empty if nothing is known that refuses it.
    pub refusals: Vec<Failure>,
    /// The vendor's program that a backup runs, with its version, or why there is none; `None` if it runs none.
    pub tool: Option<Result<String, Failure>>,
    /// The server that a proof starts on this machine, with its version, or why there is none.
    pub proof: Result<String, Failure>,
}

/// How to restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Which set.
    pub when: When,
    /// Replace a database that is there already.
    pub clean: bool,
    /// Only these tables, as `schema.table` or `table`; none are all.
    pub tables: Vec<String>,
    /// Only rows, sequences' values and large objects, into tables that are there and empty.
    pub data_only: bool,
    /// Restore owners and grants; without, everything belongs to who restores.
    pub owners: bool,
    /// MySQL: what becomes of definers, in the words of the command line; none keeps them.
    pub definers: Vec<String>,
    /// Try what the server leaves to superusers, as a provider may allow it; what is refused is left out and named.
    pub without_superuser: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Of a whole server's set: the database that is meant. Without it, the one that is called as the target's, and all of
    /// them into a target without a database.
    pub database: Option<String>,
    /// How much of the machine.
    pub limits: Limits,
}

impl RestoreOptions {
    /// All of the set of this id, or of one database in it, as it was.
    pub fn whole(set: &str, database: Option<String>, limits: Limits) -> Self {
        Self {
            when: When::Position(set.to_owned()),
            clean: false,
            tables: Vec::new(),
            data_only: false,
            owners: true,
            definers: Vec::new(),
            without_superuser: false,
            dry_run: false,
            database,
            limits,
        }
    }
}

/// What a restore did, or would do.
#[derive(Debug, Clone)]
pub struct Restored {
    /// The set.
    pub manifest: Manifest,
    /// The database, as a URL without its password.
    pub target: String,
    /// Whether an earlier restore was continued.
    pub resumed: bool,
    /// What belongs to the chosen tables and was left out: what, and what it needs that isn't restored.
    pub left_out: Vec<(String, String)>,
    /// Tables that the planner has no statistics of, and why: gathering them fails in the source as well.
    pub without_statistics: Vec<(String, String)>,
    /// Materialized views that were left without rows, and why: their query fails now, whatever it did when they were filled.
    pub unfilled: Vec<(String, String)>,
    /// Of a whole server's set: the databases that were restored.
    pub databases: Vec<String>,
    /// Of a whole server: the roles that were made.
    pub roles: Vec<String>,
    /// Of a whole server: what belongs to the server (roles, memberships, rights, tablespaces), was there already and isn't as
    /// the set has it: which, and how it differs.
    pub kept: Vec<(String, String)>,
    /// What the server refused without harm to everything else, and what it said.
    pub refused: Vec<(String, String)>,
    /// Whether nothing was done because only the plan was asked for.
    pub dry_run: bool,
    /// What a dry run found that the target lacks.
    pub lacks: Vec<Lack>,
    /// What will be tried, because only the server knows whether it allows it.
    pub doubts: Vec<String>,
    /// What is made when the database has its name, because it is bound to that.
    pub later: Vec<String>,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

impl Restored {
    /// What is said of a restore into `target`, a URL without its password, before anything is done.
    pub fn begin(manifest: Manifest, target: String, dry_run: bool) -> Self {
        Self {
            manifest,
            target,
            resumed: false,
            left_out: Vec::new(),
            without_statistics: Vec::new(),
            unfilled: Vec::new(),
            databases: Vec::new(),
            roles: Vec::new(),
            kept: Vec::new(),
            refused: Vec::new(),
            dry_run,
            lacks: Vec::new(),
            doubts: Vec::new(),
            later: Vec::new(),
            duration_ms: 0,
        }
    }
}

/// What a restore of a file that another program left came to, for one database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filled {
    /// What the target lacks. Only a dry run returns any: otherwise they are an error.
    pub lacks: Vec<Lack>,
    /// What will be tried, because only the server knows whether it allows it.
    pub doubts: Vec<String>,
    /// What a file has and a restore leaves out on purpose, for people.
    pub notes: Vec<String>,
    /// What the server refused without harm to everything else, and what it said.
    pub refused: Vec<(String, String)>,
    /// Tables that the planner has no statistics of, and why.
    pub without_statistics: Vec<(String, String)>,
    /// Warnings of the server that a value isn't as it was in the file.
    pub warnings: Vec<String>,
    /// Rows that the server took.
    pub rows: u64,
    /// Statements of a script that aren't run, because they are about the database as a whole, and not about what is in it.
    pub passed_over: Vec<String>,
}

/// What was proved.
#[derive(Debug, Clone)]
pub struct Proved {
    /// The set.
    pub manifest: Manifest,
    /// Databases that were restored and compared: one, or all of a server's.
    pub databases: u64,
    /// The server into which it was restored, for people: `PostgreSQL 15.18`.
    pub server: String,
    /// The version of that server, as the vendor counts it: 150018.
    pub server_version: u32,
    /// Rows of those that were compared.
    pub rows: u64,
    /// Tables that were compared.
    pub tables: u64,
    /// Objects of the schema that were compared.
    pub objects: u64,
    /// What can't be compared in this kind of set.
    pub not_compared: Option<&'static str>,
    /// What a server that was started for the proof could reach, because the system doesn't let it be kept apart wholly; nothing
    /// where it was, or where a server was named.
    pub not_isolated: Option<&'static str>,
    /// What differs; none is a proof.
    pub findings: Vec<Finding>,
    /// Wall time of the restores alone in milliseconds; 0 if they weren't timed alone.
    pub restore_ms: u64,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

impl Proved {
    /// What is said of a proof of a set before anything is compared.
    pub fn begin(manifest: Manifest) -> Self {
        Self {
            manifest,
            databases: 0,
            server: String::new(),
            server_version: 0,
            rows: 0,
            tables: 0,
            objects: 0,
            not_compared: None,
            not_isolated: None,
            findings: Vec::new(),
            restore_ms: 0,
            duration_ms: 0,
        }
    }
}
