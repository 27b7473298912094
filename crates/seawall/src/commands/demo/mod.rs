//! `seawall demo`: protects, kills and restores a demo database in seconds.
//!
//! The same binary protects the database as a child process, which is killed without warning while the application
//! writes. The restored database must be a state that the database really had, and no older than the position that was
//! reported as protected. After a restart and a graceful stop it must be the newest state. Anything else is a failure.

mod replicator;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_agent::{VaultUrl, ask, read_status};
use seawall_core::{
    Clock as _, Failure, IntegrityCheck, Kind, Moment, NoProgress, RestoreRequest, Restored, SystemClock, When,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::replicator::Replicator;
use self::writer::{State, Writer, differs};
use crate::edge::Edge;
use crate::output::Output;
use crate::{runtime, table};

/// Time between two commits of the demo's application.
const PAUSE: Duration = Duration::from_millis(4);

/// How long anything may take before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the command.
pub(crate) fn run(edge: &Edge, json: bool) -> Result<Output, Failure> {
    let stage = Stage::prepare(&edge.directory)?;
    let document = runtime::run(play(&stage, edge, json))?;
    Ok(Output::done(closing(&stage, edge), &document))
}

/// Where everything of one run is. Nothing else is touched.
#[derive(Debug)]
struct Stage {
    folder: PathBuf,
    database: PathBuf,
    vault: PathBuf,
}

impl Stage {
    /// Makes a new folder for this run: earlier ones are left alone.
    fn prepare(directory: &Path) -> Result<Self, Failure> {
        let (folders, vaults) = (directory.join("seawall-demo"), directory.join("vault"));
        let free = (1..u32::MAX).map(|number| format!("demo-{number}")).find(|name| {
            std::fs::symlink_metadata(folders.join(name)).is_err()
                && std::fs::symlink_metadata(vaults.join(name)).is_err()
        });
        let name = free.unwrap_or_else(|| "demo".into());
        let folder = folders.join(&name);
        std::fs::create_dir_all(&folder).map_err(|error| {
            let object = folder.display().to_string();
            Failure::new(Kind::Denied, "demo.folder", object, error.to_string(), "run it in a folder of your own")
        })?;
        Ok(Self { database: folder.join("app.db"), vault: vaults.join(name), folder })
    }
}

async fn play(stage: &Stage, edge: &Edge, json: bool) -> Result<Value, Failure> {
    let began = Instant::now();
    let say = |text: String| {
        if !json {
            Output::done(text + "\n", &()).print(false);
        }
    };
    let mut writer = Writer::create(&stage.database)?;
    say(format!("made       {}", shown(&stage.database, edge)));
    let mut replicator = Replicator::start(&stage.database, &stage.vault, &stage.folder.join("first.log"))?;
    say(format!("protecting it in {} with `seawall replicate`, while it is written to", shown(&stage.vault, edge)));
    write_for(&mut writer, Duration::from_millis(500)).await?;
    let acknowledged = until_protected(&mut writer, stage, &mut replicator).await?;
    say(format!("protected  {} commits, and more to come", acknowledged.commits));

    write_for(&mut writer, Duration::from_millis(300)).await?;
    replicator.kill().await?;
    let at_kill = writer.state();
    write_for(&mut writer, Duration::from_millis(200)).await?;
    say(format!(
        "killed     the protecting process (SIGKILL) after {} commits; the application went on",
        at_kill.commits
    ));

    let back = stage.folder.join("after-kill.db");
    let restored = restore(stage, &back, edge).await?;
    let after_kill = writer::read(&back)?;
    if !writer.was(after_kill) {
        return Err(differs(&shown(&back, edge), "the database never was in the state that was restored"));
    }
    if after_kill.commits < acknowledged.commits {
        return Err(differs(&shown(&back, edge), "commits that were told to be protected are missing"));
    }
    say(format!(
        "restored   {} commits in {}, exactly as they were",
        after_kill.commits,
        table::span(restored.duration_ms)
    ));

    let replicator = Replicator::start(&stage.database, &stage.vault, &stage.folder.join("second.log"))?;
    write_for(&mut writer, Duration::from_millis(500)).await?;
    let newest = writer.state();
    replicator.stop(PATIENCE).await?;
    say(format!("restarted  protection, wrote up to {} commits, stopped it gracefully", newest.commits));

    let back = stage.folder.join("at-end.db");
    let restored_end = restore(stage, &back, edge).await?;
    if writer::read(&back)? != newest {
        return Err(differs(&shown(&back, edge), "what was restored is not what the database holds"));
    }
    say(format!("restored   all {} commits in {}: equal", newest.commits, table::span(restored_end.duration_ms)));

    Ok(json!({
        "database": stage.database,
        "vault": stage.vault,
        "acknowledged_commits": acknowledged.commits,
        "after_kill": { "commits": after_kill.commits, "point": restored.point },
        "at_end": { "commits": newest.commits, "point": restored_end.point },
        "equal": true,
        "duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
}

async fn write_for(writer: &mut Writer, time: Duration) -> Result<(), Failure> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        writer.commit()?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Keeps writing until a present state is reported as protected, and returns that state.
async fn until_protected(writer: &mut Writer, stage: &Stage, replicator: &mut Replicator) -> Result<State, Failure> {
    let wanted = writer.state();
    // Strictly later than the last commit, whatever the clock's resolution.
    let after = Moment::from_millis(SystemClock.now().as_millis() + 1);
    let end = Instant::now() + PATIENCE;
    loop {
        let status = read_status(&stage.database, None);
        let protected = status.as_ref().ok().and_then(|status| status.protected.as_ref());
        if protected.is_some_and(|point| point.moment > after) {
            return Ok(wanted);
        }
        replicator.check()?;
        if Instant::now() > end {
            let object = stage.database.display().to_string();
            let cause = match status {
                Ok(status) => status.error.map_or("it lags behind".to_owned(), |error| error.message),
                Err(failure) => failure.cause,
            };
            let cause = format!("not protected within {}: {cause}", table::span(20_000));
            return Err(Failure::new(Kind::Unavailable, "demo.slow", object, cause, "try again on a quieter machine"));
        }
        write_for(writer, Duration::from_millis(20)).await?;
    }
}

async fn restore(stage: &Stage, output: &Path, edge: &Edge) -> Result<Restored, Failure> {
    let request = RestoreRequest {
        output: output.to_owned(),
        when: When::Latest,
        force: false,
        dry_run: false,
        integrity: IntegrityCheck::None,
    };
    let opener = edge.opener(runtime::working())?;
    let engine = opener.vault(&VaultUrl::File(stage.vault.clone())).await?;
    ask::files(&*engine)?.restore(&request, Arc::new(NoProgress)).await
}

/// A path as the user would type it.
fn shown(path: &Path, edge: &Edge) -> String {
    match path.strip_prefix(&edge.directory) {
        Ok(below) => format!("./{}", below.display()),
        Err(_) => path.display().to_string(),
    }
}

fn closing(stage: &Stage, edge: &Edge) -> String {
    let vault = shown(&stage.vault, edge);
    format!(
        "\nLook at what it made:\n  \
         seawall timeline {vault}\n  \
         seawall verify {vault}\n  \
         seawall restore {vault} -o back.db --at '2 seconds ago'\n\n\
         Protect a database of your own:\n  \
         seawall replicate app.db ./vault/app\n  \
         seawall restore ./vault/app -o back.db\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("vault/demo-1")).expect("an earlier vault");
        let second = Stage::prepare(folder.path()).expect("a stage");
        assert_eq!(second.vault, folder.path().join("vault/demo-2"));
        let third = Stage::prepare(folder.path()).expect("a stage");
        assert_eq!(third.database, folder.path().join("seawall-demo/demo-3/app.db"));
    }
}
