//! `seawall copy`: copies a vault, or a part of its history, to another place.

use seawall_agent::config::read_place;
use seawall_agent::{Copied, CopyRequest, Part, Protected};
use seawall_core::Failure;

use crate::arguments::CopyArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::when;
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &CopyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let part = match (&arguments.at, &arguments.since) {
        (Some(text), _) => Part::At(when(text)?),
        (None, Some(text)) => Part::Since(when(text)?),
        (None, None) => Part::All,
    };
    let protected = match arguments.encryption.read(edge)? {
        Some(encryption) => Protected::For(encryption),
        None if arguments.decrypt => Protected::Plain,
        None => Protected::AsItIs,
    };
    let request = CopyRequest {
        from: read_place(&arguments.from, &edge.directory)?,
        to: read_place(&arguments.to, &edge.directory)?,
        part,
        protected,
        dry_run: arguments.dry_run,
    };
    let opener = edge.opener(runtime::working())?;
    let copied = runtime::run(opener.copy(&request, progress(edge, json)))?;
    let is_sound = copied.databases.iter().all(|database| database.findings.is_empty());
    let passed_over: Vec<Failure> = copied.passed_over.iter().cloned().collect();
    Ok(Output {
        text: render(&copied),
        json: to_json(&copied),
        exit: Exit::judge(is_sound, passed_over.is_empty()),
        failures: passed_over,
    })
}

fn render(copied: &Copied) -> String {
    let count = |objects: u64| table::count(usize::try_from(objects).unwrap_or(usize::MAX), "object");
    let would = if copied.dry_run { "would be copied" } else { "copied" };
    let mut text = format!(
        "{} to {}: {} ({}) {would}, {} ({}) there already\n",
        copied.from,
        copied.to,
        count(copied.copied.objects),
        table::bytes(copied.copied.bytes),
        count(copied.present.objects),
        table::bytes(copied.present.bytes),
    );
    if copied.dry_run {
        return text;
    }
    if !copied.opened {
        text += "the copy was read back: its bytes are those of the vault. Without the owner's key nothing more can be told\n";
    }
    for database in &copied.databases {
        let name = if database.name.is_empty() { String::new() } else { format!("{}: ", database.name) };
        for finding in &database.findings {
            text += &format!("{name}{} {}: {}\n", finding.code, finding.object, finding.cause);
        }
        text += &match (&database.earliest, &database.newest) {
            _ if !database.findings.is_empty() => format!("{name}the copy is not sound\n"),
            (Some(earliest), Some(newest)) => {
                format!("{name}read back; restores from {} to {}\n", table::point(earliest), table::point(newest))
            }
            _ => format!("{name}nothing can be restored\n"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use seawall_agent::{CopiedDatabase, Count};
    use seawall_core::{Finding, Moment, Point};

    use super::*;

    #[test]
    fn for_people() {
        let point = |n: i64| Some(Point { position: format!("{n:02}"), moment: Moment::from_millis(n * 1000) });
        let (earliest, newest) = (point(1), point(2));
        let database = CopiedDatabase { name: String::new(), earliest, newest, findings: Vec::new() };
        let mut copied = Copied {
            from: "file:///v".into(),
            to: "s3://b".into(),
            dry_run: false,
            copied: Count { objects: 2, bytes: 2048 },
            present: Count { objects: 1, bytes: 10 },
            databases: vec![database],
            opened: true,
            passed_over: None,
        };
        let first = "file:///v to s3://b: 2 objects (2.0 KiB) copied, 1 object (10 B) there already\n";
        assert_eq!(
            render(&copied),
            format!("{first}read back; restores from 1970-01-01T00:00:01.000Z (01) to 1970-01-01T00:00:02.000Z (02)\n")
        );
        let finding = Finding { code: "ltx.checksum", object: "a.ltx".into(), cause: "it differs".into() };
        copied.databases.iter_mut().for_each(|database| database.findings.push(finding.clone()));
        assert_eq!(render(&copied), format!("{first}ltx.checksum a.ltx: it differs\nthe copy is not sound\n"));
        copied.dry_run = true;
        assert!(render(&copied).contains("would be copied"));
    }
}
