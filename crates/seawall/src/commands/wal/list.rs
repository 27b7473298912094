//! `seawall wal list`: which parts of a cluster's log a vault has, and what is missing.

use seawall_archive::log::{Contents, Log, LogError};
use seawall_core::Failure;
use serde_json::{Value, json};

use super::open;
use crate::arguments::WalListArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::Output;
use crate::{runtime, table};

/// Runs the command.
pub(super) fn run(arguments: &WalListArguments, edge: &Edge) -> Result<Output, Failure> {
    let opener = edge.opener(1)?;
    let (vault, contents) = runtime::run(async {
        let vault = open(&arguments.vault, &arguments.config, None, &opener, edge).await?;
        let contents = match Log::open(&vault).await? {
            Some(log) => Some(log.contents().await?),
            None => None,
        };
        Ok((vault.url().to_owned(), contents))
    })?;
    match contents {
        Some(contents) => Ok(report(&vault, &contents)),
        None => Ok(nothing(vault)),
    }
}

fn nothing(vault: String) -> Output {
    let failure = Failure::from(LogError::NoLog { vault });
    let json = json!({ "error": failure });
    Output { text: String::new(), failures: vec![failure], json, exit: Exit::NotFound }
}

fn report(vault: &str, contents: &Contents) -> Output {
    let mut rows = Vec::new();
    let mut gaps = 0;
    for (timeline, held) in &contents.timelines {
        let mut before = None;
        for span in &held.spans {
            if let Some(end) = before {
                gaps += 1;
                let known = contents.holes.iter().find(|hole| hole.timeline == *timeline && hole.start == end);
                let cause = known.map_or("missing", |hole| hole.cause.as_str()).to_owned();
                rows.push(vec![timeline.number().to_string(), end.to_string(), span.start.to_string(), cause]);
            }
            rows.push(vec![timeline.number().to_string(), span.start.to_string(), span.end.to_string(), String::new()]);
            before = Some(span.end);
        }
    }
    let unnamed = |timeline: &seawall_archive::log::TimelineId| contents.history(*timeline).is_none();
    let without: Vec<u32> = contents.timelines.keys().filter(|id| unnamed(id)).map(|id| id.number()).collect();
    let lacking = without.iter().map(|timeline| format!("timeline {timeline}: its history file is missing\n"));
    let lacking: String = lacking.collect();
    let text = format!(
        "{vault}: the log of the cluster {}\n\n{}{lacking}",
        contents.cluster.system,
        table::table(&["timeline", "from", "to", "gap"], rows, &[])
    );
    let json = json!({
        "vault": vault,
        "system": contents.cluster.system,
        "segment_size": contents.cluster.segment_size,
        "timelines": contents.timelines.iter().map(|(timeline, held)| json!({
            "timeline": timeline,
            "spans": held.spans,
            "objects": held.objects,
            "bytes": held.bytes,
            "written": held.written,
            "came_from": contents.history(*timeline).map(|history| history.ancestors.iter().map(|ancestor| json!({
                "timeline": ancestor.timeline,
                "switch": ancestor.switch,
            })).collect::<Vec<Value>>()),
        })).collect::<Vec<Value>>(),
        "holes": contents.holes,
    });
    let exit = Exit::judge(gaps == 0 && without.is_empty(), true);
    Output { text, failures: Vec::new(), json, exit }
}
