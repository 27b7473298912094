//! `seawall verify --restore`: restore a set of a server, compare it, and throw it away.

use seawall_agent::{ProofOrder, Proofs, prover, sets};
use seawall_archive::server::{Limits, Proved};
use seawall_archive::{Catalog, Manifest};
use seawall_core::{Checked, Clock as _, Description, Failure, Fingerprints, Kind, Level, SystemClock, Verification};
use seawall_vault::Vault;
use serde_json::json;
use tokio::time::Instant;

use super::backup::{limits, notes, tell};
use super::{prove, verify};
use crate::arguments::VerifyArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, server, table};

/// Runs the command: everything is read back first, then one set is proved. `None` if the source is no vault of sets.
pub(super) fn run(
    arguments: &VerifyArguments,
    found: &Source,
    edge: &Edge,
    json: bool,
) -> Result<Option<Output>, Failure> {
    let to = arguments.to.as_deref().map(|to| server::url(to, edge)).transpose()?;
    let order = prove::order(arguments, edge)?;
    let limits = Limits {
        proof: arguments.proof_timeout,
        scratch: Some(order.place.clone()),
        isolated: order.isolated,
        ..limits(&arguments.server)?
    };
    let (prover, progress) = (prover(to.clone(), &edge.environment), progress(edge, json));
    let done = runtime::run_with(runtime::serving(limits.jobs), async {
        let Some(vault) = sets_of(found, edge).await? else { return Ok(None) };
        if order.level != Level::Content {
            let cause = format!("--level {}: a proof of a server's set compares all of it", order.level.name());
            let next = "leave --level out, or verify without --restore";
            return Err(usage("usage.server", &arguments.source, &cause, next));
        }
        if arguments.fresh.is_some() {
            let cause = "--fresh: a proof of a server's set reads and compares all of it";
            return Err(usage("usage.server", &arguments.source, cause, "leave --fresh out"));
        }
        let (started, before) = (Instant::now(), vault.counts().bytes_down);
        let others = sets::SetProver::new(vault.clone(), to, limits.clone(), &edge.environment);
        let work = order.in_time(&arguments.source, async {
            let verification =
                seawall_archive::verify(&vault, SystemClock.now(), progress.clone(), runtime::cores()).await?;
            let proved = prover.prove(&vault, &order.when, &limits, progress.clone()).await?;
            let read_bytes = vault.counts().bytes_down.saturating_sub(before);
            let mut checked = sets::checked(Some(&verification), &proved, read_bytes);
            if order.moments > 0 {
                let engine = found.open(&edge.opener(runtime::working())?).await?;
                order.others(&mut checked, &others, engine.history(), progress).await?;
            }
            Ok((verification, proved, checked))
        });
        let (verification, proved, checked) = match prove::between_hooks(found, work, first_fault).await {
            Ok(done) => done,
            Err(failure) => {
                record_failed(found, &vault, &order, &failure, started).await;
                return Err(failure);
            }
        };
        let database = describe(found, &vault, &proved.manifest);
        let mut record = order.proof(&database, checked, started);
        let records = Proofs::of(vault.clone(), &database);
        let recorded = records.record(&mut record, &order.when, &Fingerprints::new()).await;
        Ok(Some((vault.url().to_owned(), verification, proved, record, recorded)))
    })?;
    let Some((vault, verification, proved, record, recorded)) = done else { return Ok(None) };
    let mut document = to_json(&verification);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("vault".into(), json!(vault));
        fields.insert("proof".into(), proof(&proved));
        fields.insert("record".into(), to_json(&record));
    }
    prove::note(&mut document, &recorded);
    // The record and the exit code judge alike: what is wrong elsewhere in the vault makes the result partial.
    let exit = Exit::judge(record.holds(), verification.findings.is_empty());
    let text = render(&vault, &verification, &proved);
    let output = Output { text, failures: recorded.err().into_iter().collect(), json: document, exit };
    Ok(Some(tell(output, &limits)))
}

/// Records a proof that found the set corrupt before it could compare, or that took too long. The failure itself is the command's answer.
async fn record_failed(source: &Source, vault: &Vault, order: &ProofOrder, failure: &Failure, started: Instant) {
    let Ok(catalog) = Catalog::read(vault).await else { return };
    let Ok(manifest) = catalog.find(&order.when) else { return };
    let database = describe(source, vault, manifest);
    let records = Proofs::of(vault.clone(), &database);
    if failure.kind != Kind::Corrupt {
        return prove::record_late(&records, order, &database, failure, started).await;
    }
    let Ok(checked) = sets::corrupt(vault, &order.when, failure.clone()).await else { return };
    let record = order.proof(&database, checked, started);
    if let Err(error) = records.write(&record, &Fingerprints::new()).await {
        tracing::warn!(code = error.code, "the failed proof isn't recorded: {error}");
    }
}

/// What a record calls the database: its name in the configuration, or the place of its sets.
fn describe(source: &Source, vault: &Vault, manifest: &Manifest) -> Description {
    let name = match source {
        Source::Database(database) => database.name.clone(),
        Source::Vault(_) => vault.url().to_owned(),
    };
    let engine = match manifest.engine.as_str() {
        "postgres" => "postgres",
        "mysql" => "mysql",
        _ => "server",
    };
    Description { name, engine, source: None, vault: vault.url().to_owned() }
}

/// The failure that the first difference of a proof is, or the first fault of its other moments.
fn first_fault((_, proved, checked): &(Verification, Proved, Checked)) -> Option<Failure> {
    let next = "see the output of the command";
    if let Some(found) = proved.findings.first() {
        return Some(Failure::new(Kind::Corrupt, found.code, &found.object, &found.cause, next));
    }
    let fault = checked.faults.first()?;
    Some(Failure::new(Kind::Corrupt, "proof.failed", &fault.object, format!("{} ({})", fault.cause, fault.code), next))
}

/// The vault that `source` names, if it holds sets of a server.
pub(super) async fn sets_of(source: &Source, edge: &Edge) -> Result<Option<Vault>, Failure> {
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
        but("the server was not wholly isolated", proved.not_isolated),
    );
    let row =
        |finding: &seawall_core::Finding| vec![finding.code.to_owned(), finding.object.clone(), finding.cause.clone()];
    let listed: Vec<_> = findings.iter().map(row).collect();
    let list = match listed.is_empty() {
        true => String::new(),
        false => table::table(&["code", "object", "what is different"], listed, &[]) + "\n",
    };
    verify::render(vault, verification) + &list + &summary + &notes(manifest)
}
