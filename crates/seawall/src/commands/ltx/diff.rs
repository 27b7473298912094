//! `seawall ltx diff`: which pages differ.

use seawall_core::Failure;
use seawall_ltx::PageNo;
use seawall_ltx::file::{Difference, diff};
use serde_json::{Value, json};

use super::{Meter, failure, input, total};
use crate::arguments::ltx::DiffArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;

/// Neighbouring pages that differ in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: PageNo,
    last: PageNo,
    difference: Difference,
}

/// Runs the command: a line for each run of pages.
pub(super) fn run(arguments: &DiffArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let inputs = [input::one(&arguments.first, edge, json)?, input::one(&arguments.second, edge, json)?];
    let [first, second] = &inputs;
    let meter = Meter::begin("compare", total([first.path(), second.path()]), arguments.work, edge, json);
    let mut runs: Vec<Run> = Vec::new();
    diff(first.path(), second.path(), meter.work(), |page, difference| match runs.last_mut() {
        Some(run) if run.difference == difference && run.last.0.checked_add(1) == Some(page.0) => run.last = page,
        _ => runs.push(Run { first: page, last: page, difference }),
    })
    .map_err(|error| failure::among(&error, &inputs))?;
    drop(meter);
    let exit = if runs.is_empty() { Exit::Done } else { Exit::Failed };
    let text = runs.iter().map(|run| line(run, &first.shown, &second.shown)).collect();
    let document = json!({
        "first": first.shown,
        "second": second.shown,
        "equal": runs.is_empty(),
        "differences": runs.iter().map(entry).collect::<Vec<_>>(),
    });
    Ok(Output { text, failures: Vec::new(), json: document, exit })
}

fn line(run: &Run, first: &str, second: &str) -> String {
    let pages = if run.first == run.last {
        format!("page {}", run.first)
    } else {
        format!("pages {} to {}", run.first, run.last)
    };
    match run.difference {
        Difference::Content => format!("{pages}: content\n"),
        Difference::First => format!("{pages}: only in {first}\n"),
        Difference::Second => format!("{pages}: only in {second}\n"),
    }
}

fn entry(run: &Run) -> Value {
    let difference = match run.difference {
        Difference::Content => "content",
        Difference::First => "only-first",
        Difference::Second => "only-second",
    };
    json!({ "first_page": run.first.0, "last_page": run.last.0, "difference": difference })
}
