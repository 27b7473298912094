//! The checks of sources that are servers: can they be reached, may their users read everything, and are the programs here that a
//! backup and a proof need? The engines look; a pure function judges.

use seawall_agent::config::{Config, DatabaseConfig, EngineConfig};
use seawall_agent::{Examined, examine};
use seawall_archive::server::{ISOLATE, Readiness};
use seawall_core::Failure;
use seawall_host::missing_walls;

use super::finding::Finding;
use crate::edge::Edge;
use crate::runtime;

/// Looks at each database of a server.
///
/// # Errors
/// When the command is interrupted.
pub(super) fn of_all(config: &Config, edge: &Edge) -> Result<Vec<Finding>, Failure> {
    let mut found = Vec::new();
    for database in &config.databases {
        if let EngineConfig::Cluster(cluster) = &database.engine {
            let looked = runtime::run(examine(&cluster.target, cluster.receive.as_ref()));
            if let Some(failure) = looked.as_ref().err().filter(|failure| runtime::is_interrupted(failure)) {
                return Err(failure.clone());
            }
            found.extend(of_cluster(&database.name, &cluster.target.to_string(), looked));
        }
        let EngineConfig::Server(server) = &database.engine else { continue };
        let looked = runtime::run(server.source.examine(&edge.environment));
        if let Some(failure) = looked.as_ref().err().filter(|failure| runtime::is_interrupted(failure)) {
            return Err(failure.clone());
        }
        found.extend(of_one(
            &database.name,
            &server.source.url(),
            looked,
            database.prove.as_ref().is_some_and(|proving| proving.here),
        ));
    }
    found.extend(of_walls(config)?);
    Ok(found)
}

/// Whether the servers that proofs start can be kept apart here. One finding, if any database of a server is proved by a schedule.
fn of_walls(config: &Config) -> Result<Option<Finding>, Failure> {
    let is_server =
        |database: &&DatabaseConfig| matches!(database.engine, EngineConfig::Server(_) | EngineConfig::Cluster(_));
    let proofs = config
        .databases
        .iter()
        .filter(is_server)
        .filter_map(|database| database.prove.as_ref())
        .filter(|proving| proving.here);
    let isolated: Vec<bool> = proofs.map(|proving| proving.isolated).collect();
    if isolated.is_empty() {
        return Ok(None);
    }
    let missing = runtime::run(async { Ok(missing_walls().await) })?;
    Ok(Some(walls(missing, isolated.contains(&true))))
}

/// What missing walls mean where some proofs must have them (`isolated`), or none must.
fn walls(missing: std::io::Result<Option<&'static str>>, isolated: bool) -> Finding {
    const CHECK: &str = "isolation";
    const OBJECT: &str = "proofs of servers";
    let why = match missing {
        Ok(None) => return Finding::fine(CHECK, OBJECT, "the servers that proofs start can be kept apart"),
        Ok(Some(why)) => why.to_owned(),
        Err(error) => format!("no thread can be started: {error}"),
    };
    if isolated {
        Finding::warning(CHECK, OBJECT, format!("no proof of a server can be made on this machine: {why}"), ISOLATE)
    } else {
        Finding::fine(
            CHECK,
            OBJECT,
            format!("the servers that proofs start aren't kept apart, as is configured: {why}"),
        )
    }
}

/// What a look at a cluster means.
fn of_cluster(name: &str, url: &str, looked: Result<Examined, Failure>) -> Vec<Finding> {
    let told = |failure: &Failure| format!("{}: {} ({})", failure.object, failure.cause, failure.code);
    let Examined { server, refusals, warnings } = match looked {
        Ok(examined) => examined,
        Err(failure) => return vec![Finding::wrong("connection", name, told(&failure), failure.next)],
    };
    let mut found = vec![Finding::fine("connection", name, format!("{server} answers at {url}"))];
    found.extend(refusals.iter().map(|failure| Finding::wrong("grants", name, told(failure), &failure.next)));
    if refusals.is_empty() {
        found.push(Finding::fine("grants", name, "its user may make bases and receive the log"));
    }
    let settings = |failure: Failure| Finding::warning("settings", name, told(&failure), failure.next);
    found.extend(warnings.into_iter().map(settings));
    found
}

/// What a look at a source means. `proves` says that proofs are made by a schedule.
fn of_one(name: &str, url: &str, looked: Result<Readiness, Failure>, proves: bool) -> Vec<Finding> {
    let Readiness { server, refusals, tool, proof } = match looked {
        Ok(ready) => ready,
        Err(failure) => {
            let meaning = format!("{}: {} ({})", failure.object, failure.cause, failure.code);
            return vec![Finding::wrong("connection", name, meaning, failure.next)];
        }
    };
    let mut found = vec![Finding::fine("connection", name, format!("{server} answers at {url}"))];
    for failure in &refusals {
        let meaning = format!("no backup can be made, {}: {} ({})", failure.object, failure.cause, failure.code);
        found.push(Finding::wrong("grants", name, meaning, &failure.next));
    }
    if refusals.is_empty() {
        found.push(Finding::fine("grants", name, "its user may read everything that a backup reads"));
    }
    match tool {
        Some(Err(failure)) => {
            let meaning =
                format!("no backup can be made without {}: {} ({})", failure.object, failure.cause, failure.code);
            found.push(Finding::wrong("tools", name, meaning, failure.next));
        }
        Some(Ok(tool)) => found.push(Finding::fine("tools", name, format!("a backup runs {tool}"))),
        None => {}
    }
    found.push(match (proof, proves) {
        (Ok(program), _) => Finding::fine("tools", name, format!("a proof starts {program}")),
        (Err(failure), true) => {
            let meaning = format!(
                "no proof of it can be made on this machine, {}: {} ({})",
                failure.object, failure.cause, failure.code
            );
            Finding::warning("tools", name, meaning, failure.next)
        }
        (Err(failure), false) => {
            let meaning = format!(
                "this machine has no server for a proof ({}: {}), and none is configured",
                failure.object, failure.cause
            );
            Finding::fine("tools", name, meaning)
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use seawall_core::Kind;

    use super::super::finding::Verdict::{self, Fine, Warning, Wrong};
    use super::*;

    #[test]
    fn what_missing_walls_mean() {
        let verdict = |missing, isolated| walls(missing, isolated).verdict;
        assert_eq!(verdict(Ok(None), true), Fine);
        assert_eq!(verdict(Ok(Some("no Landlock")), true), Warning);
        assert_eq!(verdict(Ok(Some("no Landlock")), false), Fine);
        assert_eq!(verdict(Err(std::io::Error::other("x")), true), Warning);
        assert!(walls(Ok(Some("no Landlock")), true).meaning.contains("no Landlock"));
    }

    #[test]
    fn what_a_look_at_a_cluster_means() {
        let failure = || Failure::new(Kind::Denied, "postgres.denied", "role b", "it may not", "GRANT x;");
        let good = || Examined { server: "PostgreSQL 18".into(), refusals: Vec::new(), warnings: Vec::new() };
        for (looked, expected) in [
            (Ok(good()), vec![("connection", Fine), ("grants", Fine)]),
            (Ok(Examined { refusals: vec![failure()], ..good() }), vec![("connection", Fine), ("grants", Wrong)]),
            (
                Ok(Examined { warnings: vec![failure()], ..good() }),
                vec![("connection", Fine), ("grants", Fine), ("settings", Warning)],
            ),
            (Err(failure()), vec![("connection", Wrong)]),
        ] {
            let found = of_cluster("main", "postgresql://b@db/", looked);
            assert_eq!(found.iter().map(|finding| (finding.check, finding.verdict)).collect::<Vec<_>>(), expected);
            assert!(found.iter().all(|finding| finding.next.is_empty() == (finding.verdict == Fine)), "{found:?}");
        }
    }

    #[test]
    fn what_a_look_means() {
        let failure = || Failure::new(Kind::Denied, "postgres.denied", "role b", "it may not read t", "GRANT x;");
        let good = || Readiness {
            server: "PostgreSQL 15".into(),
            refusals: Vec::new(),
            tool: Some(Ok("/bin/pg_dump of version 15".into())),
            proof: Ok("/bin/postgres of version 15".into()),
        };
        let without_server = || Readiness { proof: Err(failure()), ..good() };
        let all = [("connection", Fine), ("grants", Fine), ("tools", Fine), ("tools", Fine)];
        let with = |place: usize, verdict: Verdict| {
            let mut expected = all.to_vec();
            expected[place].1 = verdict;
            expected
        };
        for (looked, proves, expected) in [
            (Ok(good()), true, all.to_vec()),
            (Ok(Readiness { tool: None, ..good() }), true, all[..3].to_vec()),
            (Ok(Readiness { refusals: vec![failure()], ..good() }), true, with(1, Wrong)),
            (Ok(Readiness { tool: Some(Err(failure())), ..good() }), true, with(2, Wrong)),
            (Ok(without_server()), true, with(3, Warning)),
            (Ok(without_server()), false, all.to_vec()),
            (Err(failure()), true, vec![("connection", Wrong)]),
        ] {
            let found = of_one("shop", "postgresql://b@db/shop", looked, proves);
            assert_eq!(
                found.iter().map(|finding| (finding.check, finding.verdict)).collect::<Vec<_>>(),
                expected,
                "{found:?}"
            );
            assert!(found.iter().all(|finding| finding.next.is_empty() == (finding.verdict == Fine)), "{found:?}");
        }
    }
}
