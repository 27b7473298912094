//! `seawall verify --restore`: restore into a throw-away place, check what came of it, and record the result.

use std::sync::Arc;

use seawall_agent::{Opener, Operation, ProofOrder, Proofs, TOO_LONG, ask, first_fault};
use seawall_archive::server::Limits;
use seawall_core::{Description, Failure, Fingerprints, Progress, Proof};
use seawall_vault::Vault;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::backup::limits;
use crate::arguments::VerifyArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, source, table};

/// Runs the command: sets of a server are proved on a server, everything else in a scratch folder.
pub(super) fn run(arguments: &VerifyArguments, found: Source, edge: &Edge, json: bool) -> Result<Output, Failure> {
    match super::prove_server::run(arguments, &found, edge, json)? {
        Some(output) => Ok(output),
        None => run_file(arguments, found, edge, json),
    }
}

fn run_file(arguments: &VerifyArguments, found: Source, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let next = "leave --to, --proof-timeout and --not-isolated out; --scratch names the folder of the proof";
    let no_server = |cause: &str, next: &str| usage("usage.server", &arguments.source, cause, next);
    if arguments.to.is_some() {
        return Err(no_server("it holds no backups of a server", next));
    }
    let (mut opener, progress) = (edge.opener(runtime::working())?, progress(edge, json));
    let limits = Limits { proof: arguments.proof_timeout, ..limits(&arguments.server)? };
    let threads = runtime::serving(limits.jobs);
    opener.limit_servers(limits);
    let Made { told, vault, proof, recorded } = runtime::run_with(threads, async {
        let is_of_server = arguments.proof_timeout.is_some() || arguments.not_isolated;
        if is_of_server || arguments.fresh.is_some() {
            let is_cluster = opener.holds_cluster(found.vault()).await?;
            if is_of_server && !is_cluster {
                return Err(no_server("it holds no backups of a server", next));
            }
            if arguments.fresh.is_some() && is_cluster {
                let cause = "--fresh: each proof of a cluster reads all that its restore needs";
                return Err(no_server(cause, "leave --fresh out"));
            }
        }
        of_file(arguments, found, &opener, edge, progress).await
    })?;
    let exit = if proof.holds() { Exit::Done } else { Exit::Failed };
    let mut document = json!({ "vault": vault.url(), "record": to_json(&proof) });
    note(&mut document, &recorded);
    let text = told + &text(&vault, &proof);
    Ok(Output { text, failures: recorded.err().into_iter().collect(), json: document, exit })
}

/// A proof that was made.
pub(crate) struct Made {
    /// Which of several vaults was read.
    pub(crate) told: String,
    /// The vault.
    pub(crate) vault: Vault,
    /// The proof.
    pub(crate) proof: Proof,
    /// Where its record is, or why there is none.
    pub(crate) recorded: Result<String, Failure>,
}

/// Makes a proof of a file or folder, and records it.
pub(crate) async fn of_file(
    arguments: &VerifyArguments,
    found: Source,
    opener: &Opener,
    edge: &Edge,
    progress: Arc<dyn Progress>,
) -> Result<Made, Failure> {
    let mut order = order(arguments, edge)?;
    let hooks = found.clone();
    let (found, told) = found.newest(opener, &order.when).await?;
    let (vault, engine) = found.open_with_vault(opener).await?;
    let described = engine.describe();
    let (records, started) = (Proofs::of(vault.clone(), &described), Instant::now());
    order.fresh = records.fresh(arguments.fresh).await?;
    let work = order.prove(ask::proofs(&*engine)?, engine.history(), &described, progress);
    let (mut proof, compared) = match between_hooks(&hooks, work, |(proof, _)| first_fault(proof)).await {
        Ok(made) => made,
        Err(failure) => {
            record_late(&records, &order, &described, &failure, started).await;
            return Err(failure);
        }
    };
    let recorded = records.record(&mut proof, &order.when, &compared).await;
    Ok(Made { told, vault, proof, recorded })
}

/// Makes a proof between its hooks. For these, a proof in which `fault` finds something has failed.
pub(super) async fn between_hooks<T>(
    source: &Source,
    work: impl Future<Output = Result<T, Failure>>,
    fault: impl FnOnce(&T) -> Option<Failure>,
) -> Result<T, Failure> {
    let mut made = None;
    let done =
        source.around(Operation::Proof, String::new(), async { fault(made.insert(work.await?)).map_or(Ok(()), Err) });
    match (done.await, made) {
        (_, Some(proof)) => Ok(proof),
        (Err(failure), None) => Err(failure),
        (Ok(()), None) => Err(usage("usage.server", "proof", "none was made", "repeat it")),
    }
}

/// Records a proof that took too long. The failure itself is the command's answer.
pub(super) async fn record_late(
    records: &Proofs,
    order: &ProofOrder,
    database: &Description,
    failure: &Failure,
    started: Instant,
) {
    if failure.code != TOO_LONG {
        return;
    }
    if let Err(error) = records.write(&order.inconclusive(database, failure, started), &Fingerprints::new()).await {
        tracing::warn!(code = error.code, "the proof that took too long isn't recorded: {error}");
    }
}

/// What the command line asks for.
pub(super) fn order(arguments: &VerifyArguments, edge: &Edge) -> Result<ProofOrder, Failure> {
    let place = edge.scratch(arguments.scratch.as_deref());
    let VerifyArguments { level, moments, within, .. } = *arguments;
    let (when, host) = (source::when(&arguments.at)?, edge.hostname.clone());
    let isolated = !arguments.not_isolated;
    Ok(ProofOrder { when, moments, level, within, place, spare: 0, host, fresh: Arc::default(), isolated })
}

/// Notes in a document where the record is, or why there is none. The proof counts all the same.
pub(super) fn note(document: &mut Value, recorded: &Result<String, Failure>) {
    let Some(fields) = document.as_object_mut() else { return };
    let (key, error) = match recorded {
        Ok(key) => (json!(key), Value::Null),
        Err(failure) => (Value::Null, to_json(failure)),
    };
    fields.insert("recorded".into(), key);
    fields.insert("record_error".into(), error);
}

/// A proof for people, in one line: what was done when, and what came of it.
pub(crate) fn line(proof: &Proof) -> String {
    let date = proof.at.to_string();
    let date = date.split('T').next().unwrap_or_default();
    let point =
        proof.point.as_ref().map_or_else(|| "no point".to_owned(), |point| format!("point {}", table::point(point)));
    let doubts = match proof.doubts.len() {
        0 => String::new(),
        count => format!(", {}", table::count(count, "doubt")),
    };
    let others = match proof.moments.len() {
        0 => String::new(),
        count => format!(" and {}", table::count(count, "other moment")),
    };
    let about = format!("level {}, {point}{others}, on host {}{doubts}", proof.level.name(), proof.host);
    match proof.faults.first() {
        None => format!(
            "restored {} in {} on {date} ({about})",
            table::bytes(proof.restored_bytes),
            table::span(proof.restore_ms)
        ),
        Some(fault) => {
            let more = match proof.faults.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            if proof.inconclusive {
                return format!(
                    "the proof of {date} couldn't be made (on host {}): {}: {}{more}",
                    proof.host, fault.object, fault.cause
                );
            }
            format!("the proof of {date} failed ({about}): {}: {}{more}", fault.object, fault.cause)
        }
    }
}

/// A proof for people, with all faults and doubts.
fn text(vault: &Vault, proof: &Proof) -> String {
    let faults = match proof.faults.is_empty() {
        true => String::new(),
        false => {
            let row = |fault: &seawall_core::Fault| vec![fault.code.clone(), fault.object.clone(), fault.cause.clone()];
            let rows = proof.faults.iter().map(row).collect();
            table::table(&["code", "object", "what is wrong"], rows, &[]) + "\n"
        }
    };
    let doubts: String = proof.doubts.iter().map(|doubt| format!("can't be told: {doubt}\n")).collect();
    let objects = table::count(usize::try_from(proof.objects).unwrap_or(usize::MAX), "object");
    let (read, took) = (table::bytes(proof.read_bytes), table::span(proof.duration_ms));
    let fresh = match proof.fresh_bytes {
        0 => String::new(),
        bytes => format!(", {} not compared again", table::bytes(bytes)),
    };
    format!("{faults}{}: {}; {objects}, {read} read{fresh}, {took} with all checks\n{doubts}", vault.url(), line(proof))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Fault, Level, Moment, Point};

    use super::*;

    #[test]
    fn a_proof_in_one_line() {
        let at = Moment::from_millis(0);
        let mut proof = Proof {
            database: "app".into(),
            engine: "sqlite".into(),
            at,
            point: Some(Point { position: "01".into(), moment: at }),
            restore_ms: 41_000,
            duration_ms: 60_000,
            objects: 2,
            read_bytes: 9,
            restored_bytes: 3 << 30,
            host: "db1".into(),
            ..Proof::default()
        };
        let about = "level content, point 1970-01-01T00:00:00.000Z (01), on host db1";
        assert_eq!(line(&proof), format!("restored 3.0 GiB in 41.0 s on 1970-01-01 ({about})"));
        proof.doubts.push("it is odd".into());
        assert_eq!(line(&proof), format!("restored 3.0 GiB in 41.0 s on 1970-01-01 ({about}, 1 doubt)"));
        proof.moments = vec![Point { position: "00".into(), moment: at }];
        let two = format!(
            "level content, point {} and 1 other moment, on host db1, 1 doubt",
            "1970-01-01T00:00:00.000Z (01)"
        );
        assert_eq!(line(&proof), format!("restored 3.0 GiB in 41.0 s on 1970-01-01 ({two})"));
        proof.moments.clear();
        let fault = Fault { code: "a.b".into(), object: "file:///v/x".into(), cause: "it is cut".into() };
        proof.faults = vec![fault.clone(), fault];
        assert_eq!(
            line(&proof),
            format!("the proof of 1970-01-01 failed ({about}, 1 doubt): file:///v/x: it is cut and 1 more")
        );
    }

    #[test]
    fn a_proof_that_could_not_be_made_in_one_line() {
        let order = ProofOrder {
            when: seawall_core::When::Latest,
            moments: 0,
            level: Level::Content,
            within: None,
            place: "/tmp".into(),
            spare: 0,
            host: "db1".into(),
            fresh: Arc::default(),
            isolated: true,
        };
        let database = Description { name: "app".into(), engine: "sqlite", source: None, vault: "v".into() };
        let late = usage(TOO_LONG, "app", "it wasn't done within 5 s", "wait");
        let shown = line(&order.inconclusive(&database, &late, Instant::now()));
        assert!(shown.ends_with("couldn't be made (on host db1): app: it wasn't done within 5 s"), "{shown}");
    }

    #[test]
    fn a_record_that_was_not_written_is_said() {
        let mut document = json!({});
        note(&mut document, &Ok("seawall/proofs/x.json".to_owned()));
        assert_eq!(document, json!({ "recorded": "seawall/proofs/x.json", "record_error": null }));
        let denied = usage("vault.denied", "file:///v", "no right to write", "ask");
        note(&mut document, &Err(denied));
        assert_eq!((&document["recorded"], &document["record_error"]["code"]), (&json!(null), &json!("vault.denied")));
    }
}
