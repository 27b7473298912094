//! Proofs, and their records in the vault, where every host finds them.
//!
//! `settings` reads the section `prove` of a configuration. `due` decides when a proof is due, and `moments` which moments it restores.
//! `order` makes a proof, with the engine of a file, or by `sets` for a server. `records` keeps what came of it, in the form that
//! `record` reads and writes. `beyond` decides whether a record names more than the vault holds. `by_schedule` is all of that for a database of a configuration.

mod beyond;
mod by_schedule;
mod compared;
mod due;
mod moments;
mod order;
mod record;
mod records;
pub mod sets;
mod settings;

pub(crate) use self::record::moment_of;
pub use beyond::beyond;
pub use by_schedule::{Asked, KnownProofs, Made};
pub use due::{Last, TOO_LONG, due, standing, standings, successor_due};
pub(crate) use order::random_below;
pub use order::{ProofOrder, SCRATCH, first_fault};
pub(crate) use records::EARLIER;
pub use records::{Proofs, Recorded, is_record};
pub use settings::{MOST_MOMENTS, Proving};

/// Reads bytes as the name of a record, as a record, and as a list of compared objects, for the fuzz target.
pub(crate) fn read_anything(bytes: &[u8]) {
    if let Ok(compared) = compared::parse(bytes) {
        assert_eq!(compared::parse(&compared::bytes(&compared)).as_ref(), Ok(&compared));
    }
    let (name, content) = bytes.split_at(bytes.len().min(33));
    let Ok(name) = std::str::from_utf8(name) else { return };
    if let Some(list) = compared::name(name) {
        let _record = compared::record_of(&list);
    }
    let _proof = record::parse(name, content);
}
