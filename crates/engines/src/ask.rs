//! Asks an engine for its optional abilities. Only this file refuses where an engine doesn't have one.

use seawall_core::{Digests, Engine, Failure, Files, Kind, Maintained, Pins, Protect, Prove, Rollback, Standby};

/// Protecting the database.
///
/// # Errors
/// For a vault alone.
pub fn protection(engine: &dyn Engine) -> Result<&dyn Protect, Failure> {
    engine.protection().ok_or_else(|| {
        let next =
            "restore it into a server with `seawall restore VAULT --to URL`; back up by the server's URL or name";
        Failure::new(
            Kind::Usage,
            "archive.only-sets",
            engine.describe().vault,
            "a vault alone can't be protected",
            next,
        )
    })
}

/// Restoring to a file or a folder.
///
/// # Errors
/// Where an engine has no files.
pub fn files(engine: &dyn Engine) -> Result<&dyn Files, Failure> {
    engine.files().ok_or_else(|| {
        let next = "restore it into a server with `seawall restore VAULT --to URL`";
        Failure::new(
            Kind::Usage,
            "archive.only-sets",
            engine.describe().vault,
            "it can't be restored into a file",
            next,
        )
    })
}

/// Proofs by the engine itself.
///
/// # Errors
/// Where an engine can't restore by itself.
pub fn proofs(engine: &dyn Engine) -> Result<&dyn Prove, Failure> {
    engine.proofs().ok_or_else(|| {
        let (cause, next) = ("it can't be restored without a server", "name the vault of its sets");
        Failure::new(Kind::Usage, "archive.only-sets", engine.describe().vault, cause, next)
    })
}

/// Going back with others that share the vault.
///
/// # Errors
/// Where databases share nothing.
pub fn rollback(engine: &dyn Engine) -> Result<&dyn Rollback, Failure> {
    files(engine)?.rollback().ok_or_else(|| {
        let (cause, next) = ("no other database shares this vault", "restore without --as-new");
        Failure::new(Kind::Usage, "usage.not-shared", engine.describe().name, cause, next)
    })
}

/// Keeping `output` at the newest point.
///
/// # Errors
/// Where an engine can't.
pub fn standby<'e>(engine: &'e dyn Engine, output: &std::path::Path) -> Result<&'e dyn Standby, Failure> {
    files(engine)?.standby().ok_or_else(|| {
        let cause = format!("{} databases can't be followed", engine.describe().engine);
        let next = "restore it, again and again if need be";
        Failure::new(Kind::Usage, "engine.no-follow", output.display().to_string(), cause, next)
    })
}

/// Comparing objects with digests.
///
/// # Errors
/// Where none are kept.
pub fn digests(engine: &dyn Engine) -> Result<&dyn Digests, Failure> {
    engine.history().digests().ok_or_else(|| {
        let (cause, next) = ("this engine keeps no digests of its objects", "verify without --strong");
        Failure::new(Kind::Refused, "agent.no-digests", engine.describe().name, cause, next)
    })
}

/// Keeping points for good.
///
/// # Errors
/// Where points can't be pinned, or need no pin.
pub fn pins(engine: &dyn Engine) -> Result<&dyn Pins, Failure> {
    engine.history().pins().ok_or_else(|| {
        let description = engine.describe();
        let (code, cause, next) = match description.engine {
            "lmdb" => (
                "lmdb.no-pins",
                "snapshots of an LMDB can't be pinned: every instance of the fleet may clean",
                "keep a copy of the snapshot, or set cleanup.must-keep to a longer time",
            ),
            _ => (
                "agent.no-pins",
                "this engine deletes nothing, so that no point needs a pin",
                "nothing: its points stay",
            ),
        };
        Failure::new(Kind::Refused, code, description.name, cause, next)
    })
}

/// Makes a complete copy first if the caller asks for it, then merges and deletes the objects that are due. An engine
/// whose objects don't change has nothing to do.
pub async fn maintain(engine: &dyn Engine, complete: bool, dry_run: bool) -> Result<Maintained, Failure> {
    let Some(maintenance) = engine.history().maintenance() else {
        return Ok(Maintained { dry_run, ..Maintained::default() });
    };
    let mut done = if complete { maintenance.complete().await? } else { Maintained::default() };
    let Maintained { dry_run, made, retired, removed } = maintenance.maintain(dry_run).await?;
    done.dry_run = dry_run;
    done.made.extend(made);
    done.retired.extend(retired);
    done.removed.extend(removed);
    Ok(done)
}
