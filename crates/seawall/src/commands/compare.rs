//! `seawall compare`: what changed between two points of a database, as far as the vault tells it without a restore.

use seawall_core::{Change, Compared, Contents, Failure, Kind, Part, When, compare_contents};
use serde_json::json;

use crate::arguments::CompareArguments;
use crate::edge::Edge;
use crate::output::{Output, to_json};
use crate::source::{self, Source};
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &CompareArguments, edge: &Edge) -> Result<Output, Failure> {
    let source = Source::find(&arguments.source, &arguments.config, edge)?.past(&arguments.past)?;
    let when = |argument, text: &str| source::when(text).map_err(|failure| about(argument, failure));
    let (from, to) = (when("FROM", &arguments.from)?, when("TO", &arguments.to)?);
    let opener = edge.opener(runtime::working())?;
    let (told, vault, before, after) = runtime::run(async {
        let (source, told) = source.newest(&opener, &When::Latest).await?;
        let engine = source.open(&opener).await?;
        let history = engine.history();
        let contents = async |argument, when| history.contents(when).await.map_err(|failure| about(argument, failure));
        let (before, after) = tokio::try_join!(contents("FROM", &from), contents("TO", &to))?;
        Ok::<_, Failure>((told, engine.describe().vault, before, after))
    })?;
    let compared = compare_contents(&before, &after);
    let parts = compared.as_ref().map(|all| all.iter().map(to_json).collect::<Vec<_>>());
    let document = json!({
        "vault": vault,
        "from": to_json(&before),
        "to": to_json(&after),
        "parts": parts,
    });
    Ok(Output::done(told + &render(&before, &after, compared.as_deref(), arguments.all), &document))
}

/// A failure to find a point, in the words of this command: its points are arguments, and `--at` is a flag of other commands.
fn about(argument: &str, failure: Failure) -> Failure {
    let next = failure.next.replace("--at ", "");
    match failure.kind {
        Kind::Usage => Failure { object: argument.to_owned(), ..failure },
        Kind::Refused => Failure { cause: format!("{argument}: {}", failure.cause), next, ..failure },
        _ => failure,
    }
}

fn render(before: &Contents, after: &Contents, compared: Option<&[Compared]>, all: bool) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), table::bytes);
    let row = |name: &str, one: String, other: String, change: String| vec![name.to_owned(), one, other, change];
    let rows = vec![
        row("moment", before.point.moment.to_string(), after.point.moment.to_string(), String::new()),
        row("position", before.point.position.clone(), after.point.position.clone(), String::new()),
        row("size", size(before.bytes), size(after.bytes), growth(before.bytes, after.bytes)),
        row(
            "a restore reads",
            table::bytes(before.stored_bytes),
            table::bytes(after.stored_bytes),
            growth(Some(before.stored_bytes), Some(after.stored_bytes)),
        ),
    ];
    let points = table::table(&["", "from", "to", "change"], rows, &[]);
    let list = compared.unwrap_or_default();
    let is_shown = |one: &&Compared| all || !matches!(one.change, Change::Same | Change::SameSize);
    let shown: Vec<_> = list.iter().filter(is_shown).map(part).collect();
    let hidden = list.len() - shown.len();
    let parts = match shown.is_empty() {
        true => String::new(),
        false => {
            let heading = ["what", "", "rows", "rows then", "change", "size", "size then", "change"];
            format!("\n{}", table::table(&heading, shown, &[2, 3, 4, 5, 6, 7]))
        }
    };
    let equal = match (hidden, compared) {
        (_, None) => "\nthe vault doesn't list the tables or DBIs of both points, so they aren't compared\n".to_owned(),
        (_, Some([])) => "\nno tables or DBIs are in it at these points\n".to_owned(),
        (0, Some(_)) => String::new(),
        (count, Some(list)) => format!("\n{}; --all shows them\n", unchanged(list, count)),
    };
    let mut doubts: Vec<&String> = before.doubts.iter().chain(&after.doubts).collect();
    doubts.sort();
    doubts.dedup();
    let doubts: String = doubts.into_iter().map(|doubt| format!("can't be told: {doubt}\n")).collect();
    format!("{points}{parts}{equal}{doubts}")
}

/// How many parts aren't shown, and what is known of them.
fn unchanged(compared: &[Compared], count: usize) -> String {
    match compared.iter().any(|one| one.change == Change::SameSize) {
        true => format!("{} with as many rows and bytes as before", table::count(count, "part")),
        false => format!("{} with the same content", table::count(count, "part")),
    }
}

fn part(one: &Compared) -> Vec<String> {
    let change = match one.change {
        Change::Added => "new",
        Change::Removed => "gone",
        Change::Changed => "changed",
        Change::Perhaps => "perhaps changed",
        Change::SameSize => "same size",
        Change::Same => "same",
    };
    let rows = |part: &Option<Part>| part.as_ref().and_then(|part| part.rows);
    let size = |part: &Option<Part>| part.as_ref().map(|part| part.bytes);
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let (before, after) = ((rows(&one.before), size(&one.before)), (rows(&one.after), size(&one.after)));
    vec![
        one.name.clone(),
        change.to_owned(),
        number(before.0),
        number(after.0),
        difference(before.0, after.0).map_or_else(String::new, |(sign, by)| format!("{sign}{by}")),
        before.1.map_or_else(|| "-".to_owned(), table::bytes),
        after.1.map_or_else(|| "-".to_owned(), table::bytes),
        growth(before.1, after.1),
    ]
}

/// By how many bytes something grew or shrank, for people; empty if that isn't known.
fn growth(before: Option<u64>, after: Option<u64>) -> String {
    difference(before, after).map_or_else(String::new, |(sign, by)| format!("{sign}{}", table::bytes(by)))
}

/// The sign and the size of a difference; `None` if there is none, or it isn't known.
fn difference(before: Option<u64>, after: Option<u64>) -> Option<(char, u64)> {
    let (before, after) = before.zip(after)?;
    let sign = match before.cmp(&after) {
        std::cmp::Ordering::Less => '+',
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => '-',
    };
    Some((sign, before.abs_diff(after)))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Moment, Point};

    use super::*;

    fn contents(second: i64, bytes: u64, parts: &[(&str, Option<u64>, u64)]) -> Contents {
        let part = |(name, rows, bytes): &(&str, _, _)| {
            let name = (*name).to_owned();
            Part { name, rows: *rows, bytes: *bytes, digest: None }
        };
        Contents {
            point: Point { position: second.to_string(), moment: Moment::from_millis(second * 1000) },
            bytes: Some(bytes),
            objects: 1,
            stored_bytes: bytes / 2,
            parts: Some(parts.iter().map(part).collect()),
            merged: false,
            doubts: Vec::new(),
        }
    }

    #[test]
    fn what_changed_is_shown_and_the_rest_is_counted() {
        let before = contents(1, 4096, &[("public.a", Some(3), 30), ("public.b", Some(1), 10)]);
        let after =
            contents(2, 2048, &[("public.a", Some(5), 50), ("public.b", Some(1), 10), ("public.c", Some(0), 0)]);
        let compared = compare_contents(&before, &after);
        let shown = render(&before, &after, compared.as_deref(), false);
        let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let words = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words("size"), "size 4.0 KiB 2.0 KiB -2.0 KiB");
        assert_eq!(words("public.a"), "public.a changed 3 5 +2 30 B 50 B +20 B");
        assert_eq!(words("public.c"), "public.c new - 0 - 0 B");
        assert!(
            line("public.b").is_empty() && shown.contains("1 part with as many rows and bytes as before"),
            "{shown}"
        );
        assert!(render(&before, &after, compared.as_deref(), true).contains("public.b  same size"), "{shown}");
        let none = render(&contents(1, 1, &[]), &contents(2, 1, &[]), Some(&[]), false);
        assert!(none.contains("no tables"), "{none}");
        let unlisted = render(&contents(1, 1, &[]), &contents(2, 1, &[]), None, false);
        assert!(unlisted.contains("aren't compared"), "{unlisted}");
    }
}
