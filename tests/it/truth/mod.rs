//! The truth suite: attempts to make Seawall claim what isn't true, one file for each class of lie.
//!
//! Each test makes a lie possible (an object of another database, a damaged base, a vault that goes away), and looks at
//! what the real binary says. Where something can be restored, its content is compared with a recorded state: an exit
//! code alone proves nothing.

mod clocks;
mod damaged;
mod environments;
mod listings;
mod mixed;
mod overwritten;
mod records;
mod rolled_back;
mod sets;
mod sources;
mod watched;
mod withdrawn;

use std::path::Path;
use std::process::Command;

/// Makes a folder what another one is, with the times of its files.
fn copy_folder(from: &Path, to: &Path) {
    if to.exists() {
        std::fs::remove_dir_all(to).unwrap();
    }
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}
