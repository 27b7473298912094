//! `seawall wal list`: which parts of a cluster's log a vault has, and what is missing.

use seawall_archive::log::{Contents, Log, LogError, Lsn, TimelineId};
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
    let gaps = contents.gaps();
    let held =
        contents.timelines.iter().flat_map(|(timeline, held)| held.spans.iter().map(move |span| (timeline, span)));
    let held = held.map(|(timeline, span)| (*timeline, span.start, span.end, String::new()));
    let missing = gaps.iter().map(|gap| {
        let cause = gap.cause.clone().unwrap_or_else(|| "missing".to_owned());
        (gap.timeline, gap.start, gap.end, cause)
    });
    let mut rows: Vec<_> = held.chain(missing).collect();
    rows.sort();
    let row = |(timeline, start, end, gap): (TimelineId, Lsn, Lsn, String)| {
        vec![timeline.number().to_string(), start.to_string(), end.to_string(), gap]
    };
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    let unnamed = |timeline: &TimelineId| contents.history(*timeline).is_none();
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
        "gaps": gaps,
        "holes": contents.holes,
    });
    let exit = Exit::judge(gaps.is_empty() && without.is_empty(), true);
    Output { text, failures: Vec::new(), json, exit }
}
