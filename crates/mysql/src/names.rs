//! What this engine is called, and the codes of failures that every engine of servers has.

use seawall_archive::server::EngineNames;

/// The engine's name and codes.
pub static NAMES: EngineNames = EngineNames {
    name: "mysql",
    interrupted: "mysql.interrupted",
    not_running: "mysql.not-running",
    not_backed_up: "mysql.not-backed-up",
    different: "mysql.different",
    no_file: "mysql.no-file",
    url: "mysql://USER@HOST/DATABASE",
};
