//! `seawall verify` of a place that holds several databases. Reads them one after the other.

use seawall_agent::{Opener, VaultUrl};
use seawall_core::Failure;
use serde_json::json;

use super::verify::{Found, read};
use crate::arguments::VerifyArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;

/// A database's place, and what reading it showed.
pub(super) type Read = (String, Result<Found, Failure>);

/// Verifies every database below a place; `None` where there is none.
pub(super) async fn below(
    arguments: &VerifyArguments,
    place: &VaultUrl,
    opener: &Opener,
    edge: &Edge,
    as_json: bool,
) -> Result<Option<Vec<Read>>, Failure> {
    let found = opener.databases_below(place).await?;
    if found.databases.iter().all(|(name, _)| name.is_empty()) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for (_, place) in found.databases {
        let verified = async { read(&*opener.vault(&place).await?, arguments, progress(edge, as_json)).await };
        all.push((place.to_string(), verified.await));
    }
    all.extend(found.passed_over.map(|failure| (failure.object.clone(), Err(failure))));
    Ok(Some(all))
}

/// Verifies each vault of a database that has several.
pub(super) async fn each(
    arguments: &VerifyArguments,
    vaults: &[Source],
    opener: &Opener,
    edge: &Edge,
    as_json: bool,
) -> Vec<Read> {
    let mut all = Vec::new();
    for one in vaults {
        let verified = async { read(&*one.open(opener).await?, arguments, progress(edge, as_json)).await };
        all.push((one.vault().to_string(), verified.await));
    }
    all
}

/// One line or table for each; it has failed if one of them has.
pub(super) fn output(all: &[Read]) -> Output {
    let (mut text, mut failures, mut documents) = (String::new(), Vec::new(), Vec::new());
    let mut exits = Vec::new();
    for (vault, read) in all {
        let (exit, mut document) = match read {
            Ok(found) => {
                text += &found.text(vault);
                (found.exit(), found.document())
            }
            Err(failure) => {
                failures.push(failure.clone());
                (Exit::Failed, json!({ "error": to_json(failure) }))
            }
        };
        if let Some(fields) = document.as_object_mut() {
            fields.insert("vault".into(), json!(vault));
        }
        documents.push(document);
        exits.push(exit);
    }
    let exit = Exit::worst(&exits);
    Output { text, failures, json: json!({ "databases": documents }), exit }
}
