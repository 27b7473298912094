//! Proofs of backup sets: a set is restored into a server that is thrown away, and compared.

use std::sync::Arc;

use async_trait::async_trait;
use seawall_archive::Catalog;
use seawall_archive::server::{Limits, Prove as ProveSet, Proved};
use seawall_core::{Checked, Failure, Fault, Finding, Kind, Level, Progress, ProofRequest, Prove, Verification, When};
use seawall_vault::{Environment, Vault};

use crate::server::{ServerUrl, prover};

/// Proves the sets of one vault. Everything in a set is compared, whatever level is asked for.
pub struct SetProver {
    vault: Vault,
    limits: Limits,
    prover: Box<dyn ProveSet>,
}

impl SetProver {
    /// Proves the sets of `vault` on the server `to`, or on one that is started for each proof.
    pub fn new(vault: Vault, to: Option<ServerUrl>, limits: Limits, environment: &Environment) -> Self {
        Self { vault, limits, prover: prover(to, environment) }
    }
}

#[async_trait]
impl Prove for SetProver {
    async fn prove(&self, request: &ProofRequest, progress: Arc<dyn Progress>) -> Result<Checked, Failure> {
        let before = self.vault.counts().bytes_down;
        let limits = Limits {
            scratch: Some(seawall_host::folder_of(&request.scratch).to_owned()),
            isolated: request.isolated,
            ..self.limits.clone()
        };
        let proved = self.prover.prove(&self.vault, &request.when, &limits, progress).await;
        let read_bytes = self.vault.counts().bytes_down.saturating_sub(before);
        match proved {
            Ok(proved) => Ok(checked(None, &proved, read_bytes)),
            Err(failure) if failure.kind == Kind::Corrupt => corrupt(&self.vault, &request.when, failure).await,
            Err(failure) => Err(failure),
        }
    }
}

/// What was found of a set that is corrupt, so that it couldn't be compared.
///
/// # Errors
/// The failure itself, if the set isn't known any more.
pub async fn corrupt(vault: &Vault, when: &When, failure: Failure) -> Result<Checked, Failure> {
    let Ok(catalog) = Catalog::read(vault).await else { return Err(failure) };
    let Ok(manifest) = catalog.find(when) else { return Err(failure) };
    Ok(Checked {
        point: Some(seawall_archive::point(manifest)),
        objects: manifest.objects(),
        faults: vec![failure.into()],
        ..Checked::default()
    })
}

/// What was found, in the words of a record. Findings of `verification` in other sets say nothing about a restore of this one: they are
/// a doubt.
pub fn checked(verification: Option<&Verification>, proved: &Proved, read_bytes: u64) -> Checked {
    let manifest = &proved.manifest;
    let (of_set, of_others) = apart(verification, &manifest.id.to_string());
    let fault = |finding: &Finding| Fault {
        code: finding.code.to_owned(),
        object: finding.object.clone(),
        cause: finding.cause.clone(),
    };
    let mut doubts = Vec::new();
    doubts.extend(proved.not_compared.map(|what| format!("{what} can't be compared in this kind of set")));
    doubts.extend(manifest.doubt_of_sample());
    // What wasn't compared, or isn't in the set, isn't proved to be equal.
    let reachable = if doubts.is_empty() { Level::Content } else { Level::Engine };
    doubts.extend(proved.not_isolated.map(|why| format!("the server of the proof wasn't wholly kept apart: {why}")));
    let timed = proved.restore_ms > 0;
    if !timed {
        doubts.push("the restore wasn't timed alone: its time includes the comparison".to_owned());
    }
    if !of_others.is_empty() {
        doubts.push(format!(
            "other objects of the vault are damaged, of other sets or of the chain: `seawall verify` finds {} things",
            of_others.len()
        ));
    }
    Checked {
        point: Some(seawall_archive::point(manifest)),
        restore_ms: if timed { proved.restore_ms } else { proved.duration_ms },
        objects: manifest.objects(),
        read_bytes,
        restored_bytes: manifest.totals.raw,
        faults: of_set.into_iter().chain(&proved.findings).map(fault).collect(),
        doubts,
        reachable,
        ..Checked::default()
    }
}

/// The findings of a verification that are about one set, and those about others.
fn apart<'v>(verification: Option<&'v Verification>, set: &str) -> (Vec<&'v Finding>, Vec<&'v Finding>) {
    verification.into_iter().flat_map(|found| &found.findings).partition(|finding| finding.object.contains(set))
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn findings_of_other_sets_are_apart() {
        let finding = |object: &str| Finding { code: "postgres.corrupt", object: object.into(), cause: "cut".into() };
        let verification = Verification {
            at: Moment::from_millis(0),
            newest: None,
            objects: 3,
            bytes: 9,
            findings: vec![finding("v/sets/one/a"), finding("v/sets/two/b"), finding("v/chain/3")],
            doubts: Vec::new(),
        };
        let (own, others) = apart(Some(&verification), "one");
        assert_eq!((own.len(), others.len()), (1, 2));
        assert_eq!(apart(None, "one"), (Vec::new(), Vec::new()));
    }
}
