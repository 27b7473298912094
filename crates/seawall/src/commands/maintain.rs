//! `seawall maintain`: merges and deletes the objects that are due.

use seawall_agent::{Keep, ask};
use seawall_core::{Failure, MadeObject, Maintained, RemovedObject, parse_duration};
use serde_json::json;

use crate::arguments::MaintainArguments;
use crate::edge::{Edge, usage};
use crate::output::{Output, to_json};
use crate::source::Source;
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &MaintainArguments, edge: &Edge) -> Result<Output, Failure> {
    let source = Source::find(&arguments.source, &arguments.config, edge)?;
    if !arguments.acknowledge.is_empty() {
        return super::acknowledge::run(arguments, &source, edge);
    }
    let keep = keep(arguments, &source)?;
    let opener = edge.opener(runtime::working())?;
    let (vault, done, locked) = runtime::run(async {
        let engine = source.open_to_maintain(&opener, &keep).await?;
        let done = ask::maintain(&*engine, arguments.base, arguments.dry_run).await?;
        let locked = if arguments.dry_run { None } else { engine.history().renew_locks().await? };
        Ok((engine.describe().vault, done, locked))
    })?;
    let mut document = to_json(&done);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(vault));
        fields.extend(locked.map(|until| ("locked_until".to_owned(), json!(until))));
    }
    let locked = locked.map(|until| format!("{vault}: the newest point stays locked until {until} at least\n"));
    Ok(Output::done(render(&vault, &done) + &locked.unwrap_or_default(), &document))
}

/// Retention for this run. For a place alone it must be given: deleting by defaults that the user didn't choose would
/// be a surprise.
fn keep(arguments: &MaintainArguments, source: &Source) -> Result<Keep, Failure> {
    if let (Source::Vault(vault), None) = (source, &arguments.keep) {
        let next = "name a database of a configuration, or say with --keep how much history stays";
        let cause = "a place alone doesn't say what may be deleted from it";
        return Err(usage("usage.no-policy", &vault.to_string(), cause, next));
    }
    let window = |text: &String| match (text.as_str(), parse_duration(text)) {
        ("forever", _) => Ok(None),
        (_, Some(window)) => Ok(Some(window)),
        (_, None) => {
            let cause = format!("\"{text}\" is no span of time");
            Err(usage("usage.keep", "--keep", &cause, "give one with its unit, such as 7d, or forever"))
        }
    };
    Ok(Keep { window: arguments.keep.as_ref().map(window).transpose()?, minimum: arguments.minimum })
}

fn render(vault: &str, done: &Maintained) -> String {
    let made = done.made.iter().map(|MadeObject { object, inputs }| {
        let inputs = table::count(usize::try_from(*inputs).unwrap_or(usize::MAX), "object");
        vec!["merge".to_owned(), object.key.clone(), table::bytes(object.bytes), format!("from {inputs}")]
    });
    let gone = |what: &'static str| {
        move |RemovedObject { object, reason }: &RemovedObject| {
            vec![what.to_owned(), object.key.clone(), table::bytes(object.bytes), (*reason).to_owned()]
        }
    };
    let (retired, removed) = (done.retired.iter().map(gone("retire")), done.removed.iter().map(gone("delete")));
    let rows: Vec<_> = made.chain(retired).chain(removed).collect();
    if rows.is_empty() {
        return format!("{vault}: nothing is due\n");
    }
    let table = table::table(&["what", "object", "size", ""], rows, &[2]);
    let freed = table::bytes(done.removed.iter().map(|removed| removed.object.bytes).sum());
    let (made, removed) = (table::count(done.made.len(), "object"), table::count(done.removed.len(), "object"));
    let retired = match done.retired.len() {
        0 => String::new(),
        sets => format!(", {} retired", table::count(sets, "set")),
    };
    let would = if done.dry_run { "would be made" } else { "made" };
    let nothing = if done.dry_run { "; nothing was done" } else { "" };
    format!("{table}\n{vault}: {made} {would}, {removed} ({freed}) deleted{retired}{nothing}\n")
}

#[cfg(test)]
mod tests {
    use seawall_core::PlannedObject;

    use super::*;

    #[test]
    fn for_people() {
        let object = |key: &str| PlannedObject { key: key.into(), bytes: 2048 };
        let mut done = Maintained {
            dry_run: true,
            made: vec![MadeObject { object: object("0001/a.ltx"), inputs: 2 }],
            retired: Vec::new(),
            removed: vec![RemovedObject { object: object("0000/b.ltx"), reason: "it is old" }],
        };
        assert_eq!(
            render("s3://b", &done),
            "what    object         size\nmerge   0001/a.ltx  2.0 KiB  from 2 objects\n\
             delete  0000/b.ltx  2.0 KiB  it is old\n\n\
             s3://b: 1 object would be made, 1 object (2.0 KiB) deleted; nothing was done\n"
        );
        let retired = vec![RemovedObject { object: object("sets/x/"), reason: "it is old" }];
        done = Maintained { retired, ..Maintained::default() };
        assert_eq!(
            render("s3://b", &done),
            "what    object      size\nretire  sets/x/  2.0 KiB  it is old\n\n\
             s3://b: 0 objects made, 0 objects (0 B) deleted, 1 set retired\n"
        );
        done = Maintained::default();
        assert_eq!(render("s3://b", &done), "s3://b: nothing is due\n");
    }
}
