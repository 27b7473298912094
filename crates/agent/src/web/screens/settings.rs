//! The configuration as the process understood it, without secrets: what `seawall config check` tells of the file.

use maud::{Markup, html};
use seawall_core::LastError;

use super::{Site, time};
use crate::config::Report;
use crate::http::Answer;
use crate::reload::ConfigStatus;
use crate::web::page::{Content, Screen};

/// Databases that are listed.
const MOST: usize = 200;

/// The page.
pub(in crate::web) async fn answer(site: &Site<'_>) -> Answer {
    let actions = site.look.actions();
    let config = actions.reloader().status();
    let file = config.as_ref().map(|config| config.file.clone()).unwrap_or_default();
    let report = actions.reloader().in_force(|job| Report::of(file, &job.databases, &job.directories, &job.services));
    let info = actions.info();
    let body = html! {
        h2 { "Process" }
        dl {
            dt { "Version" } dd { (info.version) }
            dt { "Process id" } dd { (info.pid) }
            dt { "Running since" } dd { (time(info.started_at)) }
            dt { "Databases" } dd { (info.database_count) }
            dt { "You may act on this page" } dd { (yes(site.form.is_some())) }
        }
        h2 { "Configuration" }
        @match config {
            Some(config) => (of_file(&config)),
            None => p { "The process was started without a configuration: its arguments say everything." }
        }
        @match report {
            Some(report) => (of_report(&report)),
            None => p.warn { "The configuration is being read again now. Load this page again in a moment." }
        }
    };
    site.page(&Content { screen: Screen::Settings, title: "Settings".into(), live: None, body })
}

fn of_file(config: &ConfigStatus) -> Markup {
    html! {
        dl {
            dt { "File" } dd { bdi { (config.file) } }
            dt { "Read" } dd { (time(config.loaded_at)) }
            @if !config.needs_restart.is_empty() {
                dt { "Waits for a restart" } dd { (config.needs_restart.join(", ")) }
            }
        }
        @if let Some(LastError { code, message, next, at, .. }) = &config.error {
            div.card {
                h3 { "The last reload failed " code { (code) } }
                p { bdi { (message) } }
                p { "Next: " (next) }
                p.quiet { (time(*at)) }
            }
        }
    }
}

fn of_report(report: &Report) -> Markup {
    let services = [
        ("Control socket", &report.socket),
        ("Metrics", &report.metrics),
        ("Assistants (MCP)", &report.mcp),
        ("Page", &report.web),
    ];
    html! {
        h2 { "Services" }
        dl {
            @for (name, address) in services { dt { (name) } dd { bdi { (address.as_deref().unwrap_or("off")) } } }
            dt { "Heartbeats" } dd { (if report.heartbeat { "sent; the address is a secret" } else { "off" }) }
            dt { "Notifications" }
            dd {
                @if report.notify.is_empty() { "off" }
                @for channel in &report.notify {
                    div { bdi { (channel.name) } " (" (channel.kind) "), from " (channel.severity) " on" }
                }
            }
        }
        h2 { "Databases that are named" }
        table role="table" {
            caption {
                (report.databases.len()) " in all"
                @if report.databases.len() > MOST { "; the first " (MOST) " are listed" }
            }
            thead role="rowgroup" {
                tr role="row" { @for name in ["Name", "Engine", "Source", "Vaults", "If its file is missing"] { th scope="col" role="columnheader" { (name) } } }
            }
            tbody role="rowgroup" {
                @for database in report.databases.iter().take(MOST) {
                    tr role="row" {
                        th scope="row" role="rowheader" { bdi { (database.name) } }
                        td role="cell" data-l="Engine" { (database.engine) }
                        td role="cell" data-l="Source" { bdi { (database.path) } }
                        td role="cell" data-l="Vaults" {
                            bdi { (database.vault) }
                            @for beside in &database.beside { div { bdi { (beside) } } }
                        }
                        td role="cell" data-l="If its file is missing" {
                            (if database.restore_if_missing { "it is restored" } else { "nothing is done" })
                        }
                    }
                }
            }
        }
        @if !report.directories.is_empty() {
            h2 { "Folders" }
            table role="table" {
                caption { "Databases that are found in them are protected, each below the folder's vault." }
                thead role="rowgroup" {
                    tr role="row" { @for name in ["Folder", "File names", "Folders in it", "Followed", "Vault"] { th scope="col" role="columnheader" { (name) } } }
                }
                tbody role="rowgroup" {
                    @for folder in &report.directories {
                        tr role="row" {
                            th scope="row" role="rowheader" { bdi { (folder.dir) } }
                            td role="cell" data-l="File names" { bdi { (folder.pattern) } }
                            td role="cell" data-l="Folders in it" { (yes(folder.recursive)) }
                            td role="cell" data-l="Followed" { (yes(folder.watch)) }
                            td role="cell" data-l="Vault" { bdi { (folder.vault) } }
                        }
                    }
                }
            }
        }
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
