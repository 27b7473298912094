//! One database below a prefix: what its vault tells, and the restore planner.

use std::path::PathBuf;

use hyper::StatusCode;
use maud::{Markup, html};
use seawall_core::{Clock as _, Failure, Status, SystemClock};
use seawall_engines::catalog::Row;
use seawall_engines::read_when;

use super::look::Shelved;
use super::{Catalogue, list};
use crate::figures::{bytes, span};
use crate::http::Answer;
use crate::restoring::{Named, Target};
use crate::web::page::{self, Screen};
use crate::web::plan::{Planned, planned};
use crate::web::screens::database::{Shown, alarms, of_proofs, restore};
use crate::web::screens::{badge, time};

impl Catalogue {
    /// The screen of a database. `at` is the moment whose restore is planned, if one is asked for.
    pub(super) async fn database(&self, name: &str, vault: &str, at: Option<&str>) -> Answer {
        let told = self.look.all().await;
        if told.shelves.is_none() {
            let mut answer = self.page(Screen::Database, "A database", &told, &html! {});
            answer.status = StatusCode::SERVICE_UNAVAILABLE;
            return answer;
        }
        let is_it = |one: &&Shelved| one.row.name == name && one.row.vault == vault;
        let Some(one) = told.shelves.as_ref().and_then(|shelves| shelves.all.iter().find(is_it)) else {
            let next = "The prefix has no such database, or not any more.";
            return page::refusal(&self.prefix, StatusCode::NOT_FOUND, "No such database", next);
        };
        let planned = async {
            match at {
                Some(at) => Some(self.plan(&one.row, at).await),
                None => None,
            }
        };
        let (history, planned) = tokio::join!(self.look.history(&one.row), planned);
        let named = [("name", name), ("vault", vault)];
        let shown = Shown { prefix: &self.prefix, named: &named, at, planned: planned.as_ref(), history: &history };
        let body = html! {
            (facts(one))
            (alarms(&Status { alarms: one.row.alarms.clone(), ..one.status.clone() }))
            (restore(&shown, |_, _| None))
            (of_proofs(&history))
        };
        self.page(Screen::Database, list::name(&one.row), &told, &body)
    }

    /// Plans a restore of the moment that `text` means.
    async fn plan(&self, row: &Row, text: &str) -> Result<Planned, Failure> {
        let when = read_when(text, SystemClock.now())?;
        let target = target(&row.name, row.engine);
        let work = async {
            let (_, engine) = self.look.opener().catalogued(self.look.place(), row).await?;
            // The command runs elsewhere: what is in this host's folders says nothing.
            planned(&*engine, when, (target.file(), true), (&Named::Vault(row.vault.clone()), &target)).await
        };
        self.look.turns().in_time(&row.name, work).await
    }
}

/// Where a restore goes. The vault doesn't know where the database was, so it is a file or a folder of the database's name where the
/// command runs, or a server that the reader names.
fn target(name: &str, engine: &str) -> Target {
    let last = name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or("database");
    match engine {
        "lmdb" => Target::Beside(PathBuf::from(format!("./{last}-restored"))),
        "mysql" => Target::Server("mysql://USER@NEW_SERVER/".to_owned()),
        "postgres" | "server" => Target::Server("postgresql://USER@NEW_SERVER/".to_owned()),
        _ => Target::Beside(PathBuf::from(format!("./{last}-restored.db"))),
    }
}

fn facts(one: &Shelved) -> Markup {
    let row = &one.row;
    html! {
        dl {
            dt { "Newest point" }
            dd {
                @match &row.newest {
                    Some(point) => { (time(point.moment)) " (" code { (point.position) } ")" }
                    None => "none",
                }
            }
            @if let Some(age) = row.age_s { dt { "Its age" } dd { (span(age.saturating_mul(1000))) } }
            @match (&row.schedule, row.every_s) {
                (Some(schedule), _) => { dt { "Backups" } dd { "by the schedule " code { (schedule) } } }
                (None, Some(every)) => { dt { "Backups" } dd { "usually every " (span(every.saturating_mul(1000))) } }
                (None, None) => {}
            }
            @if let Some(gaps) = row.gaps { dt { "Missing backups" } dd { (gaps) } }
            @if let Some(holes) = row.holes { dt { "Holes" } dd { (holes) } }
            dt { "Last proof" } dd { (badge(&list::proof(one))) }
            dt { "Engine" } dd { (row.engine) }
            dt { "Vault" } dd { bdi { (row.vault) } }
            dt { "Encrypted" } dd { (if row.encrypted { "yes" } else { "no" }) }
            dt { "Stored" } dd { (bytes(row.bytes)) " in " (row.objects) " objects" }
            @if let Some(copy) = row.copy_bytes { dt { "Newest complete copy" } dd { (bytes(copy)) } }
            @if let Some(growth) = row.growth_bytes_per_day { dt { "It grows" } dd { (list::a_day(growth)) } }
            @if let Some(forecast) = row.forecast_bytes { dt { "In 30 days" } dd { (bytes(forecast)) } }
            @if !row.writers.is_empty() { dt { "Writers" } dd { @for writer in &row.writers { div { bdi { (writer) } } } } }
            @if !row.doubts.is_empty() { dt { "Can't be told" } dd { @for doubt in &row.doubts { div { bdi { (doubt) } } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_restore_goes() {
        for (name, engine, expected) in [
            ("app", "sqlite", Target::Beside("./app-restored.db".into())),
            ("eu/app", "sqlite", Target::Beside("./app-restored.db".into())),
            ("", "sqlite", Target::Beside("./database-restored.db".into())),
            ("-rf", "sqlite", Target::Beside("./-rf-restored.db".into())),
            ("dns/main", "lmdb", Target::Beside("./main-restored".into())),
            ("crm", "mysql", Target::Server("mysql://USER@NEW_SERVER/".into())),
            ("crm", "postgres", Target::Server("postgresql://USER@NEW_SERVER/".into())),
        ] {
            assert_eq!(target(name, engine), expected, "{name} {engine}");
        }
    }
}
