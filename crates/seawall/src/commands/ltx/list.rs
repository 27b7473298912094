//! `seawall ltx list`: a line for each file.

use seawall_core::{Failure, Moment};
use seawall_ltx::file::Verified;
use serde_json::json;

use super::{info, input, verify};
use crate::arguments::ltx::ListArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::table;

const COLUMNS: [&str; 10] = [
    "min_txid",
    "max_txid",
    "commit",
    "pages",
    "preapply",
    "postapply",
    "timestamp",
    "wal_offset",
    "wal_size",
    "wal_salt",
];

/// Runs the command. Each file is verified. Bad files are reported on standard error, and the command fails.
pub(super) fn run(arguments: &ListArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let (mut rows, mut documents, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for name in input::expanded(&arguments.files.files, edge)? {
        match verify::check(&name, arguments.files.work, edge, json) {
            Ok((shown, found)) => {
                rows.push(row(&found));
                documents.push(info::document(&shown, &found));
            }
            Err(failure) => failures.push(failure),
        }
    }
    let text = if arguments.tsv {
        let lines = std::iter::once(COLUMNS.join("\t")).chain(rows.iter().map(|row| row.join("\t")));
        lines.map(|line| line + "\n").collect()
    } else {
        table::table(&COLUMNS, rows, &[])
    };
    let exit = verify::exit(&failures);
    Ok(Output { text, json: json!({ "files": documents, "failures": failures }), failures, exit })
}

fn row(found: &Verified) -> Vec<String> {
    let (header, trailer) = (found.summary.header, found.summary.trailer);
    vec![
        header.min_txid.to_string(),
        header.max_txid.to_string(),
        header.commit.to_string(),
        found.summary.pages.to_string(),
        header.pre_apply.to_string(),
        trailer.post_apply.to_string(),
        if header.timestamp_ms == 0 { String::new() } else { seconds(header.timestamp_ms) },
        header.wal_offset.to_string(),
        header.wal_size.to_string(),
        format!("{:08x} {:08x}", header.wal_salt1, header.wal_salt2),
    ]
}

/// A moment to the second.
fn seconds(millis: i64) -> String {
    let text = Moment::from_millis(millis.div_euclid(1000).saturating_mul(1000)).to_string();
    text.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_no_fraction() {
        assert_eq!(seconds(1_700_000_011_781), "2023-11-14T22:13:31Z");
        assert_eq!(seconds(-1), "1969-12-31T23:59:59Z");
    }
}
