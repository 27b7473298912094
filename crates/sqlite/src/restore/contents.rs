//! What does a point hold, without a restore? Of SQLite's objects only the newest header tells something: how large the database is.

use std::path::PathBuf;
use std::sync::Arc;

use seawall_core::{Contents, IntegrityCheck, Moment, NoProgress, RestoreRequest, When};
use seawall_ltx::Txid;
use seawall_vault::Vault;

use crate::error::Error;
use crate::heads::Heads;
use crate::layout::{Layout, parse_key};
use crate::restore::restore;

/// What the point holds that `when` names. `recorded` is the acknowledged position of this database, if it is known here.
pub(crate) async fn contents(
    vault: &Vault,
    when: &When,
    recorded: Option<Txid>,
    now: Moment,
) -> Result<Contents, Error> {
    let order = RestoreRequest {
        output: PathBuf::from("nothing-is-written"),
        when: when.clone(),
        force: false,
        dry_run: true,
        integrity: IntegrityCheck::None,
    };
    let planned = restore(vault, &order, recorded, now, Arc::new(NoProgress), 1).await?;
    let newest = planned.objects.last().and_then(|object| parse_key(Layout::of(vault), &object.key, object.bytes));
    let mut doubts = planned.doubts;
    let bytes = match newest {
        Some(newest) => {
            let header = Heads::of(vault).header(&newest).await?;
            Some(u64::from(header.commit) * u64::from(header.page_size.get()))
        }
        None => {
            doubts.push("objects of Litestream before 0.5 don't say how large the database is".to_owned());
            None
        }
    };
    Ok(Contents {
        point: planned.point,
        bytes,
        objects: planned.objects.len() as u64,
        stored_bytes: planned.objects.iter().map(|object| object.bytes).sum(),
        parts: None,
        merged: false,
        doubts,
    })
}
