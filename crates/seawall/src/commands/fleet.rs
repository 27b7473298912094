//! `seawall fleet`: every database below a prefix, from the vault alone.

use std::borrow::Cow;
use std::time::Duration;

use seawall_agent::catalog::{Catalogued, Choose, Filter, Order, Row};
use seawall_core::{Failure, Kind, Moment, Proof, Severity};

use crate::arguments::{FleetArguments, Sort};
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, print_document, unprinted};
use crate::{runtime, server, table};

/// Runs the command.
pub(crate) fn run(arguments: &FleetArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let choose = choose(arguments)?;
    let place = server::place(&arguments.vault, edge)?;
    let opener = edge.opener(runtime::working())?;
    let found = runtime::run(opener.catalogue(&place, &choose))?;
    let untold: Vec<Failure> = found.passed_over.iter().chain(&found.cut_short).cloned().collect();
    if found.found == 0 && found.cut_short.is_none() {
        let cause = match found.foreign_objects {
            0 => "there is nothing here".to_owned(),
            objects => format!("none of the {objects} objects here belongs to a database that Seawall knows"),
        };
        let next = "check the place: name the bucket, or the prefix that the vaults share";
        return Err(Failure::new(Kind::NotFound, "command.empty-vault", place.to_string(), cause, next));
    }
    let is_proved = |row: &Row| arguments.proved_within.is_none_or(|within| is_proved(row, found.at, within));
    let exit = match arguments.check {
        true => check(&found.databases, untold.is_empty() && found.databases.iter().all(is_proved)),
        false => Exit::judge(true, untold.is_empty()),
    };
    if json {
        print_document(&found).map_err(|error| unprinted(&error, Exit::Failed))?;
        return Ok(Output { exit, ..Output::printed() });
    }
    let text = if arguments.csv { csv(&found.databases) } else { text(&found) };
    Ok(Output { text, exit, failures: untold, ..Output::printed() })
}

fn choose(arguments: &FleetArguments) -> Result<Choose, Failure> {
    let read = |text: &String| {
        Filter::read(text).map_err(|why| {
            let next = "write a part of a name, or one such as engine=sqlite, alarms=yes, encrypted=no, proved=no";
            usage("usage.filter", text, &why, next)
        })
    };
    let order = match arguments.sort {
        Sort::Name => Order::Name,
        Sort::Age => Order::Age,
        Sort::Size => Order::Size,
        Sort::Growth => Order::Growth,
        Sort::Proof => Order::Proof,
    };
    let filters = arguments.filter.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Choose { filters, order, limit: arguments.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)) })
}

/// The exit code that alarms make, as `status --check` has it. What couldn't be found out, was passed over, or has no point, counts as a
/// warning, and so does a choice of nothing.
fn check(rows: &[Row], is_whole: bool) -> Exit {
    let is_critical = |row: &Row| row.alarms.iter().any(|alarm| alarm.severity == Severity::Critical);
    Exit::judge(!rows.iter().any(is_critical), is_whole && !rows.is_empty() && rows.iter().all(Row::is_fine))
}

/// Whether a proof of a database ended within a time before `now`. Whether it holds is told by an alarm.
fn is_proved(row: &Row, now: Moment, within: Duration) -> bool {
    let is_conclusive = row.proof.as_ref().is_none_or(|proof| !proof.inconclusive);
    is_conclusive && row.proved_at.is_some_and(|at| now.since(at) <= within)
}

fn text(found: &Catalogued) -> String {
    let rows = found.databases.iter().map(|row| {
        vec![
            if row.name.is_empty() {
                "(the prefix itself)".to_owned()
            } else {
                row.name.replace(['\n', '\t'], "\u{fffd}")
            },
            row.engine.to_owned(),
            row.newest.as_ref().map_or_else(|| "-".to_owned(), |newest| newest.moment.to_string()),
            row.age_s.map_or_else(|| "-".to_owned(), table::rough),
            row.every_s.map_or_else(|| "-".to_owned(), table::rough),
            table::bytes(row.bytes),
            row.growth_bytes_per_day.map_or_else(|| "-".to_owned(), growth),
            proof(row),
            told(row),
        ]
    });
    let header = ["database", "engine", "newest point", "age", "every", "size", "a day", "proved", ""];
    let table = table::table(&header, rows.collect(), &[3, 4, 5, 6]);
    let shown = found.databases.len();
    let all = usize::try_from(found.found).unwrap_or(usize::MAX);
    let shown = if shown == all { String::new() } else { format!("{shown} of ") };
    let alarms: usize = found.databases.iter().map(|row| row.alarms.len()).sum();
    let alarms = if alarms > 0 { format!(", {}", table::count(alarms, "alarm")) } else { String::new() };
    let size = table::bytes(found.databases.iter().fold(0, |sum: u64, row| sum.saturating_add(row.bytes)));
    let foreign = match found.foreign_objects {
        0 => String::new(),
        objects => {
            let objects = table::count(usize::try_from(objects).unwrap_or(usize::MAX), "object");
            format!(", and {objects} ({}) of no database", table::bytes(found.foreign_bytes))
        }
    };
    format!("{table}\n{shown}{}, {size}{alarms}{foreign}\n", table::count(all, "database"))
}

fn growth(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "+" };
    format!("{sign}{}", table::bytes(bytes.unsigned_abs()))
}

/// The newest proof in a word.
fn proof(row: &Row) -> String {
    let day = |at: seawall_core::Moment| at.to_string().chars().take(10).collect::<String>();
    match (&row.proof, row.proved_at) {
        (Some(proof), _) => format!("{} {}", day(proof.at), word(proof)),
        (None, Some(at)) => format!("{} unread", day(at)),
        (None, None) => "-".to_owned(),
    }
}

/// What came of a proof.
fn word(proof: &Proof) -> &'static str {
    match (proof.holds(), proof.inconclusive) {
        (true, _) => proof.level.name(),
        (false, true) => "not made",
        (false, false) => "failed",
    }
}

/// What else there is to know, in some words.
fn told(row: &Row) -> String {
    let count = |number: Option<u64>, noun: &str| {
        let number = number.filter(|number| *number > 0)?;
        Some(table::count(usize::try_from(number).unwrap_or(usize::MAX), noun))
    };
    let alarms = row.alarms.iter().map(|alarm| alarm.code.clone());
    let holes = count(row.holes, "hole").into_iter().chain(count(row.gaps, "gap"));
    let encrypted = row.encrypted.then(|| "encrypted".to_owned());
    let writers = match &row.writers[..] {
        [] => None,
        writers => Some(format!("by {}", writers.join(", "))),
    };
    let doubts = row.doubts.iter().cloned();
    alarms.chain(holes).chain(encrypted).chain(writers).chain(doubts).collect::<Vec<_>>().join("; ")
}

/// The table for spreadsheets, as RFC 4180 has it. Names come from the vault: a text that a spreadsheet would take for a formula gets
/// an apostrophe.
fn csv(rows: &[Row]) -> String {
    let header = [
        "name",
        "vault",
        "engine",
        "position",
        "newest",
        "age_s",
        "schedule",
        "every_s",
        "gaps",
        "objects",
        "bytes",
        "copy_bytes",
        "growth_bytes_per_day",
        "forecast_bytes",
        "holes",
        "proved_at",
        "proof",
        "writers",
        "encrypted",
        "alarms",
        "doubts",
    ];
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let line = |row: &Row| {
        let proof = row.proof.as_ref().map(|proof| word(proof).to_owned());
        let alarms: Vec<&str> = row.alarms.iter().map(|alarm| alarm.code.as_str()).collect();
        [
            row.name.clone(),
            row.vault.clone(),
            row.engine.to_owned(),
            row.newest.as_ref().map(|newest| newest.position.clone()).unwrap_or_default(),
            row.newest.as_ref().map(|newest| newest.moment.to_string()).unwrap_or_default(),
            number(row.age_s),
            row.schedule.clone().unwrap_or_default(),
            number(row.every_s),
            number(row.gaps),
            row.objects.to_string(),
            row.bytes.to_string(),
            number(row.copy_bytes),
            row.growth_bytes_per_day.map(|bytes| bytes.to_string()).unwrap_or_default(),
            number(row.forecast_bytes),
            number(row.holes),
            row.proved_at.map(|at| at.to_string()).unwrap_or_default(),
            proof.unwrap_or_default(),
            row.writers.join(" "),
            row.encrypted.to_string(),
            alarms.join(" "),
            row.doubts.join("; "),
        ]
        .map(|text: String| field(&text).into_owned())
        .join(",")
    };
    let lines = rows.iter().map(line);
    std::iter::once(header.join(",")).chain(lines).map(|line| line + "\r\n").collect()
}

/// A text as a field.
fn field(text: &str) -> Cow<'_, str> {
    let is_number = text.parse::<i64>().is_ok();
    let is_formula =
        |text: &str| text.starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    let is_formula = !is_number && is_formula(text.trim_start());
    if !is_formula && !text.contains(['"', ',', ';', '\t', '\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let apostrophe = if is_formula { "'" } else { "" };
    Cow::Owned(format!("\"{apostrophe}{}\"", text.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_spreadsheet() {
        for (text, expected) in [
            ("shop", "shop"),
            ("", ""),
            ("-12", "-12"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=cmd()", "\"'=cmd()\""),
            ("@x", "\"'@x\""),
            ("-x", "\"'-x\""),
            ("  =x", "\"'  =x\""),
            ("\u{ff1d}x", "\"'\u{ff1d}x\""),
            ("a;=x", "\"a;=x\""),
            ("a\nb", "\"a\nb\""),
        ] {
            assert_eq!(field(text), expected, "{text}");
        }
    }

    #[test]
    fn growth_has_a_sign() {
        assert_eq!((growth(2048), growth(-1), growth(0)), ("+2.0 KiB".into(), "-1 B".into(), "+0 B".into()));
    }
}
