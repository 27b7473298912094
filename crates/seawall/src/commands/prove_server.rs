//! `seawall verify --restore`: restore a set of a server, compare it, and throw it away.

use seawall_agent::{Operation, prover};
use seawall_archive::server::{Limits, Proved};
use seawall_core::{Clock as _, Failure, Kind, SystemClock, Verification};
use seawall_vault::Vault;
use serde_json::json;

use super::backup::limits;
use super::verify;
use crate::arguments::VerifyArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, server, source, table};

/// Runs the command: everything is read back first, then one set is proved.
pub(super) fn run(arguments: &VerifyArguments, found: &Source, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let to = arguments.to.as_deref().map(|to| server::url(to, edge)).transpose()?;
    let limits = Limits { proof: arguments.proof_timeout, ..limits(&arguments.server)? };
    let when = source::when(&arguments.at)?;
    let (prover, progress) = (prover(to, &edge.environment), progress(edge, json));
    let (vault, verification, proved) = runtime::run_with(runtime::serving(limits.jobs), async {
        let Some(vault) = sets(found, edge).await? else {
            let next = "leave --restore out; files of SQLite are proved by `seawall restore --integrity full`";
            return Err(usage("usage.server", &arguments.source, "it holds no backups of a server", next));
        };
        let verification =
            seawall_archive::verify(&vault, SystemClock.now(), progress.clone(), runtime::cores()).await?;
        let proved = between_hooks(found, prover.prove(&vault, &when, &limits, progress)).await?;
        Ok((vault.url().to_owned(), verification, proved))
    })?;
    let mut document = to_json(&verification);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(vault));
        fields.insert("proof".into(), proof(&proved));
    }
    let sound = verification.findings.is_empty() && proved.findings.is_empty();
    let exit = if sound { Exit::Done } else { Exit::Failed };
    let text = render(&vault, &verification, &proved);
    Ok(Output { text, failures: Vec::new(), json: document, exit })
}

/// Makes a proof between its hooks. For these, a proof that finds a difference has failed.
async fn between_hooks(
    source: &Source,
    work: impl Future<Output = Result<Proved, Failure>>,
) -> Result<Proved, Failure> {
    let mut made = None;
    let done = source.around(Operation::Proof, String::new(), async {
        let proved = made.insert(work.await?);
        match proved.findings.first() {
            None => Ok(()),
            Some(found) => {
                let next = "see the output of the command";
                Err(Failure::new(Kind::Corrupt, found.code, &found.object, &found.cause, next))
            }
        }
    });
    match (done.await, made) {
        (_, Some(proved)) => Ok(proved),
        (Err(failure), None) => Err(failure),
        (Ok(()), None) => Err(usage("usage.server", "proof", "none was made", "repeat it")),
    }
}

/// The vault that `source` names, if it holds sets of a server.
pub(super) async fn sets(source: &Source, edge: &Edge) -> Result<Option<Vault>, Failure> {
    let opener = edge.opener(runtime::working())?;
    opener.sets(source.vault()).await
}

fn proof(proved: &Proved) -> serde_json::Value {
    json!({
        "set": to_json(&proved.manifest),
        "server_version": proved.server_version,
        "rows": proved.rows,
        "databases": proved.databases,
        "tables": proved.tables,
        "objects": proved.objects,
        "not_compared": proved.not_compared,
        "not_isolated": proved.not_isolated,
        "findings": to_json(&proved.findings),
        "duration_ms": proved.duration_ms,
    })
}

fn render(vault: &str, verification: &Verification, proved: &Proved) -> String {
    let Proved { manifest, server, rows, tables, objects, findings, duration_ms, .. } = proved;
    let but = |what: &str, which: Option<&str>| which.map_or_else(String::new, |which| format!("; {what}: {which}"));
    let found = match findings.len() {
        0 => "all as in the set".to_owned(),
        count => format!("{} different", table::count(count, "thing")),
    };
    let sample = manifest.sample.map_or_else(String::new, |sample| format!("a sample of {sample}: "));
    let summary = format!(
        "{}: restored into {server} and compared in {}: {sample}{rows} rows of {tables} tables, {objects} objects, {found}{}{}\n",
        manifest.id,
        table::span(*duration_ms),
        but("not compared", proved.not_compared),
        but("the server was not isolated", proved.not_isolated),
    );
    let row =
        |finding: &seawall_core::Finding| vec![finding.code.to_owned(), finding.object.clone(), finding.cause.clone()];
    let listed: Vec<_> = findings.iter().map(row).collect();
    let list = match listed.is_empty() {
        true => String::new(),
        false => table::table(&["code", "object", "what is different"], listed, &[]) + "\n",
    };
    verify::render(vault, verification) + &list + &summary
}
