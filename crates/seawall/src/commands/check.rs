//! `seawall config check`: how a configuration is understood.

use seawall_agent::config::{Format, Report};
use seawall_core::Failure;

use crate::arguments::CheckArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::{configuration, table};

/// Runs the command.
pub(crate) fn run(arguments: &CheckArguments, edge: &Edge) -> Result<Output, Failure> {
    let config = configuration::require(&arguments.config, edge)?;
    config.databases.iter().try_for_each(|database| seawall_agent::suits_encryption(database, edge.has_identity()))?;
    let report = Report::new(&config);
    Ok(Output::done(render(&report), &report))
}

/// All vaults of a database.
fn vaults(database: &seawall_agent::config::DatabaseReport) -> String {
    std::iter::once(&database.vault).chain(&database.beside).cloned().collect::<Vec<_>>().join(", ")
}

fn render(report: &Report) -> String {
    let row = |database: &seawall_agent::config::DatabaseReport| {
        vec![database.name.clone(), database.path.clone(), vaults(database)]
    };
    let mut text = match report.databases.as_slice() {
        [] => String::new(),
        databases => table::table(&["database", "path", "vault"], databases.iter().map(row).collect(), &[]) + "\n",
    };
    for folder in &report.directories {
        let below = if folder.recursive { " and the folders in it" } else { "" };
        let follows = if folder.watch { ", followed while it runs" } else { "" };
        let (pattern, dir, vault) = (&folder.pattern, &folder.dir, &folder.vault);
        text.push_str(&format!("{pattern} in {dir}{below}: each below {vault}{follows}\n"));
    }
    let services =
        [("control socket", &report.socket), ("metrics", &report.metrics), ("MCP", &report.mcp), ("page", &report.web)];
    for (what, address) in services {
        if let Some(address) = address {
            text.push_str(&format!("{what}: {address}\n"));
        }
    }
    for channel in &report.notify {
        text.push_str(&format!("notifications: {} ({}), from {} on\n", channel.name, channel.kind, channel.severity));
    }
    for warning in &report.warnings {
        text.push_str(&format!("warning: {}:{}: {}\n", report.file, warning.line, warning.text));
    }
    let format = match report.format {
        Format::Seawall => "a Seawall configuration",
        Format::Litestream => "a Litestream configuration",
    };
    let databases = report.databases.len();
    let folders = match report.directories.len() {
        0 => String::new(),
        number => format!(", {}", table::count(number, "folder")),
    };
    let warnings = report.warnings.len();
    text + &format!("{}: {format}, {databases} databases{folders}, {warnings} warnings\n", report.file)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seawall_agent::Environment;
    use seawall_agent::config::{Config, Surroundings};

    use super::*;

    #[test]
    fn what_was_understood() {
        let yaml = "addr: ':9090'\ndbs:\n  - path: /data/app.db\n    colour: red\n    replica:\n      url: s3://bucket/app\n      access-key-id: hush\n      secret-access-key: hush\n  - dir: /data/t\n    pattern: '*.db'\n    watch: true\n    replica:\n      path: /r\n";
        let environment = Environment::default();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
        let config = Config::parse(Path::new("/l.yml"), yaml, &surroundings, true);
        let report = Report::new(&config.expect("a configuration"));
        assert_eq!(
            render(&report),
            "database      path          vault\n\
             /data/app.db  /data/app.db  s3://bucket/app\n\
             \n\
             *.db in /data/t: each below file:///r, followed while it runs\n\
             metrics: [::]:9090\n\
             warning: /l.yml:4: unknown key \"colour\" in dbs: it has no effect, in Litestream neither\n\
             /l.yml: a Litestream configuration, 1 databases, 1 folder, 1 warnings\n"
        );
        assert!(!format!("{report:?}").contains("hush"));
    }
}
