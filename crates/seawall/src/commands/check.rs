//! `seawall config check`: how a configuration is understood.

use seawall_agent::config::{Format, Report};
use seawall_core::Failure;

use crate::arguments::CheckArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::{configuration, table};

/// Runs the command.
pub(crate) fn run(arguments: &CheckArguments, edge: &Edge) -> Result<Output, Failure> {
    let report = Report::new(&configuration::require(&arguments.config, edge)?);
    Ok(Output::done(render(&report), &report))
}

fn render(report: &Report) -> String {
    let row = |database: &seawall_agent::config::DatabaseReport| {
        vec![database.name.clone(), database.path.clone(), database.vault.clone()]
    };
    let mut text = match report.databases.as_slice() {
        [] => String::new(),
        databases => table::table(&["database", "path", "vault"], databases.iter().map(row).collect(), &[]) + "\n",
    };
    for warning in &report.warnings {
        text.push_str(&format!("warning: {}:{}: {}\n", report.file, warning.line, warning.text));
    }
    let format = match report.format {
        Format::Seawall => "a Seawall configuration",
        Format::Litestream => "a Litestream configuration",
    };
    let (databases, warnings) = (report.databases.len(), report.warnings.len());
    text + &format!("{}: {format}, {databases} databases, {warnings} warnings\n", report.file)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use seawall_agent::Environment;
    use seawall_agent::config::{Config, Surroundings};

    use super::*;

    #[test]
    fn what_was_understood() {
        let yaml = "dbs:\n  - path: /data/app.db\n    colour: red\n    replica:\n      url: s3://bucket/app\n      access-key-id: hush\n      secret-access-key: hush\n";
        let environment = Environment::default();
        let surroundings = Surroundings { environment: &environment, directory: Path::new("/"), pid: 1 };
        let config = Config::parse(Path::new("/l.yml"), yaml, &surroundings, true);
        let report = Report::new(&config.expect("a configuration"));
        assert_eq!(
            render(&report),
            "database      path          vault\n\
             /data/app.db  /data/app.db  s3://bucket/app\n\
             \n\
             warning: /l.yml:3: unknown key \"colour\" in dbs: it has no effect, in Litestream neither\n\
             /l.yml: a Litestream configuration, 1 databases, 1 warnings\n"
        );
        assert!(!format!("{report:?}").contains("hush"));
    }
}
