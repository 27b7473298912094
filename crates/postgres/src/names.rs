//! What this engine is called, and the codes of failures that every engine of servers has.

use seawall_archive::server::EngineNames;

/// The engine's name and codes.
pub static NAMES: EngineNames = EngineNames {
    name: "postgres",
    interrupted: "postgres.interrupted",
    not_running: "postgres.not-running",
    not_backed_up: "postgres.not-backed-up",
    different: "postgres.different",
    no_file: "postgres.no-file",
    url: "postgresql://ROLE@HOST/DATABASE",
};
