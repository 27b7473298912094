//! `seawall ltx checksum`: of a database, or of each of its pages.

use std::io::{BufWriter, IsTerminal as _, Write as _};

use seawall_core::Failure;
use seawall_ltx::file::{checksum, page_checksums};
use serde_json::json;

use super::{Meter, failure, total};
use crate::arguments::ltx::ChecksumArguments;
use crate::edge::Edge;
use crate::output::{Output, complain};

/// Runs the command.
pub(super) fn run(arguments: &ChecksumArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let path = &arguments.database;
    // Lines and a bar on one screen would overwrite each other. The lines themselves show the progress.
    let lines = arguments.pages && std::io::stdout().is_terminal();
    let meter = Meter::begin("checksum", total([path.as_path()]), arguments.work, edge, json || lines);
    if arguments.pages {
        return pages(arguments, &meter, json);
    }
    let sum = checksum(path, arguments.wal, meter.work()).map_err(|error| failure::plain(&error))?;
    drop(meter);
    if sum.wal_pages > 0 && !arguments.wal && !json {
        let (path, pages) = (path.display(), sum.wal_pages);
        complain(&format!("note: {path}-wal has {pages} newer pages that are not in this checksum; --wal adds them\n"));
    }
    let document = json!({
        "database": path,
        "checksum": sum.checksum.to_string(),
        "page_size": sum.page_size.map(seawall_ltx::PageSize::get),
        "pages": sum.pages,
        "wal_pages": sum.wal_pages,
        "wal_included": arguments.wal,
    });
    Ok(Output::done(format!("{}\n", sum.checksum), &document))
}

/// A line for each page, written as they come: there may be very many.
fn pages(arguments: &ChecksumArguments, meter: &Meter, json: bool) -> Result<Output, Failure> {
    let path = &arguments.database;
    let mut all = Vec::new();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout());
    let mut written = Ok(());
    page_checksums(path, meter.work(), |page, sum| {
        if json {
            all.push(json!({ "page": page.0, "checksum": sum.to_string() }));
        } else if written.is_ok() {
            written = writeln!(out, "{page} {sum}");
        }
    })
    .map_err(|error| failure::plain(&error))?;
    // A reader that went away (`| head`) is no failure.
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(failure::io(path, error)),
        _ => {}
    }
    Ok(Output::done("", &json!({ "database": path, "pages": all })))
}
