//! `seawall ltx`: the tool for LTX files and the checksums of databases.
//!
//! Arguments and output are those of the `ltx` tool, so that its scripts keep working: options with one dash or two,
//! the same lines on success. Errors go to standard error, and the exit code gives the result.

mod apply;
mod checksum;
mod dashes;
mod decode;
mod diff;
mod dump;
mod encode;
mod failure;
mod hold;
mod info;
mod input;
mod list;
mod remote;
mod strong;
mod verify;

use std::sync::Arc;

use seawall_core::{Failure, Progress};
use seawall_ltx::file::Work;
use serde_json::json;

pub(crate) use dashes::doubled;

use crate::arguments::ltx::{LtxCommand, WorkArguments};
use crate::edge::Edge;
use crate::output::Output;
use crate::progress::progress;

/// Runs one of the commands.
pub(crate) fn run(command: &LtxCommand, edge: &Edge, json: bool) -> Result<Output, Failure> {
    match command {
        LtxCommand::Apply(arguments) => apply::run(arguments, edge, json),
        LtxCommand::Checksum(arguments) => checksum::run(arguments, edge, json),
        LtxCommand::Compact(arguments) => decode::compact(arguments, edge, json),
        LtxCommand::Decode(arguments) => decode::run(arguments, edge, json),
        LtxCommand::Diff(arguments) => diff::run(arguments, edge, json),
        LtxCommand::Dump(arguments) => dump::run(arguments, edge, json),
        LtxCommand::EncodeDb(arguments) => encode::run(arguments, edge, json),
        LtxCommand::Info(arguments) => info::run(arguments, edge, json),
        LtxCommand::List(arguments) => list::run(arguments, edge, json),
        LtxCommand::Verify(arguments) => verify::run(arguments, edge, json),
        LtxCommand::Version(_) => {
            let version = env!("CARGO_PKG_VERSION");
            Ok(Output::done(format!("seawall ltx {version}\n"), &json!({ "version": version })))
        }
    }
}

/// Threads and progress of a command.
struct Meter {
    shown: Arc<dyn Progress>,
    advance: Box<dyn Fn(u64) + Sync>,
    jobs: WorkArguments,
}

impl Meter {
    /// Shows a stage of `total` bytes.
    fn begin(stage: &str, total: u64, jobs: WorkArguments, edge: &Edge, json: bool) -> Meter {
        let shown = progress(edge, json);
        shown.begin(stage, Some(total));
        let told = shown.clone();
        Meter { shown, advance: Box::new(move |bytes| told.advance(bytes)), jobs }
    }

    fn work(&self) -> Work<'_> {
        let work = Work { progress: &*self.advance, ..Work::new() };
        self.jobs.jobs.map_or(work, |jobs| work.with_jobs(jobs))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.shown.finish();
    }
}

/// The bytes of files that are there.
fn total<'p>(paths: impl IntoIterator<Item = &'p std::path::Path>) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the sizes of files, for the progress bar")]
    let size = |path| std::fs::metadata(path).ok();
    paths.into_iter().filter_map(size).map(|found| found.len()).sum()
}
