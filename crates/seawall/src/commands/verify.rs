//! `seawall verify`: read everything back.

use seawall_agent::Opener;
use seawall_core::{Failure, Verification};
use serde_json::json;

use crate::arguments::VerifyArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &VerifyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let source = Source::find(&arguments.source, &arguments.config, edge)?;
    let opener = Opener::new(edge.environment.clone(), runtime::working());
    let progress = progress(edge, json);
    let (vault, verification) = runtime::run(async {
        let engine = source.open(&opener).await?;
        Ok((engine.describe().vault, engine.verify(progress).await?))
    })?;
    if verification.objects == 0 && verification.findings.is_empty() {
        return Err(super::timeline::nothing(&vault));
    }
    let mut document = to_json(&verification);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(vault));
    }
    Ok(Output { text: render(&vault, &verification), failures: Vec::new(), json: document, exit: exit(&verification) })
}

/// What can't be relied on has failed, and so has a vault from which nothing can be restored.
fn exit(verification: &Verification) -> Exit {
    let sound = verification.findings.is_empty() && verification.newest.is_some();
    if sound { Exit::Done } else { Exit::Failed }
}

fn render(vault: &str, verification: &Verification) -> String {
    let Verification { newest, objects, bytes, findings, .. } = verification;
    let read = format!(
        "{} ({}) read",
        table::count(usize::try_from(*objects).unwrap_or(usize::MAX), "object"),
        table::bytes(*bytes)
    );
    let newest = newest
        .as_ref()
        .map_or("no point can be restored".to_owned(), |point| format!("newest point {}", table::point(point)));
    if findings.is_empty() {
        return format!("{vault}: {read}, nothing wrong, {newest}\n");
    }
    let row =
        |finding: &seawall_core::Finding| vec![finding.code.to_owned(), finding.object.clone(), finding.cause.clone()];
    let rows = findings.iter().map(row).collect();
    let table = table::table(&["code", "object", "what is wrong"], rows, &[]);
    format!("{table}\n{vault}: {read}, {} wrong, {newest}\n", table::count(findings.len(), "thing"))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Finding, Moment, Point};

    use super::*;

    #[test]
    fn findings_are_listed_and_fail() {
        let newest = Some(Point { position: "01".into(), moment: Moment::from_millis(0) });
        let mut verification =
            Verification { at: Moment::from_millis(0), newest, objects: 2, bytes: 10, findings: Vec::new() };
        assert_eq!(exit(&verification), Exit::Done);
        assert_eq!(
            render("file:///v", &verification),
            "file:///v: 2 objects (10 B) read, nothing wrong, newest point 1970-01-01T00:00:00.000Z (01)\n"
        );
        verification.findings.push(Finding { code: "ltx.checksum", object: "a".into(), cause: "it differs".into() });
        assert_eq!(exit(&verification), Exit::Failed);
        let text = render("file:///v", &verification);
        assert!(text.contains("ltx.checksum  a       it differs"), "{text}");
        assert!(text.contains("1 thing wrong"), "{text}");
    }
}
