//! What would a restore, a backup or a proof do? The answer names the command that is then carried out.

use std::path::Path;
use std::sync::Arc;

use seawall_agent::Opener;
use seawall_agent::restoring::{Named, Target, command, in_shell};
use seawall_core::{Failure, NoProgress};

use super::{Source, work};
use crate::arguments::ConfigArguments;
use crate::edge::Edge;
use crate::ui::model::{Entry, Preview, Verb, Wish};
use crate::{source, table};

/// Finds out what a wish comes to. Nothing is written.
pub(super) async fn plan(
    own: &Source,
    wish: &Wish,
    entry: &Entry,
    opener: &Opener,
    edge: &Edge,
) -> Result<Preview, Failure> {
    match wish.verb {
        Verb::Ship => Ok(ship(own, entry)),
        Verb::Restore => {
            let (named, target) = (named(own, entry).await?, target(own, wish, entry, edge));
            match &target {
                Target::Beside(_) => restore_file(&named, &target, wish, opener, edge).await,
                Target::Database(_) | Target::Server(_) => restore_server(&named, &target, wish, opener, edge).await,
            }
        }
        Verb::Prove => prove(&named(own, entry).await?, entry, opener, edge).await,
    }
}

async fn named(own: &Source, entry: &Entry) -> Result<Named, Failure> {
    match own {
        Source::Process(process) => process.named(entry).await,
        Source::Vault(_) => Ok(Named::Vault(entry.vault.clone())),
    }
}

/// Where a restore goes to: the file that was typed, else one beside the original, else one in the current folder.
fn target(own: &Source, wish: &Wish, entry: &Entry, edge: &Edge) -> Target {
    let here = edge.absolute(Path::new(Path::new(&entry.name).file_name().unwrap_or("database".as_ref())));
    match (own, entry.has_file(), &*wish.into) {
        (_, true, into) if !into.is_empty() => Target::Beside(edge.absolute(Path::new(into))),
        (Source::Process(_), true, _) => Target::of(Some(Path::new(&entry.source)), &entry.source),
        (Source::Vault(_), true, _) => Target::of(Some(&here), ""),
        (Source::Process(_), false, _) => Target::of(None, &entry.source),
        (Source::Vault(_), false, _) if entry.engine == "mysql" => Target::of(None, "mysql://"),
        (Source::Vault(_), false, _) => Target::of(None, "postgresql://"),
    }
}

fn ship(own: &Source, entry: &Entry) -> Preview {
    let socket = own.place();
    let words = ["seawall", "sync", "--wait", "--socket", &socket, "--", &entry.source].map(str::to_owned).to_vec();
    let waiting = format!("{} wait since {}", table::bytes(entry.lag_bytes), table::span(entry.lag_ms));
    let note = if entry.has_file() {
        waiting
    } else {
        "a complete backup is made now; of a continuous cluster, its log is shipped".to_owned()
    };
    let notes = vec![note];
    Preview { command: in_shell(&words), words, point: None, read: None, notes, is_offered: true }
}

async fn restore_file(
    named: &Named,
    target: &Target,
    wish: &Wish,
    opener: &Opener,
    edge: &Edge,
) -> Result<Preview, Failure> {
    let mut dry = command(named, target, &wish.at);
    dry.insert(2, "--dry-run".to_owned());
    let (told, found) = work::restore(&dry, opener, edge, Arc::new(NoProgress)).await?;
    // The command names the point that was found, so it reaches this point at any later time too.
    let words = command(named, target, &found.point.position);
    let read = found.objects.iter().map(|object| object.bytes).sum();
    let notes = told.lines().map(str::to_owned).chain(found.doubts).collect();
    let read = Some((found.objects.len() as u64, read));
    Ok(Preview { command: in_shell(&words), words, point: Some(found.point), read, notes, is_offered: true })
}

/// A restore into a server needs rights and a choice that a shell asks for.
async fn restore_server(
    named: &Named,
    target: &Target,
    wish: &Wish,
    opener: &Opener,
    edge: &Edge,
) -> Result<Preview, Failure> {
    let when = source::when(&wish.at)?;
    let found = open(named, opener, edge).await?.history().contents(&when).await?;
    let words = command(named, target, &found.point.position);
    let mut notes = vec!["a restore into a server isn't done from here: run the command in a shell".to_owned()];
    if target.has_gap() {
        notes.push("name the new server and its user in it first".to_owned());
    }
    notes.extend(found.doubts);
    let read = Some((found.objects, found.stored_bytes));
    Ok(Preview { command: in_shell(&words), words, point: Some(found.point), read, notes, is_offered: false })
}

async fn prove(named: &Named, entry: &Entry, opener: &Opener, edge: &Edge) -> Result<Preview, Failure> {
    let found = open(named, opener, edge).await?.history().contents(&seawall_core::When::Latest).await?;
    let mut words = ["seawall", "verify", "--restore"].map(str::to_owned).to_vec();
    match named {
        Named::In(file, name) => words.extend(["--config", file, "--", name].map(str::to_owned)),
        Named::Vault(vault) => words.extend(["--", vault].map(str::to_owned)),
    }
    let mut notes = match entry.has_file() {
        true => vec!["the restored copy is thrown away, and the proof is recorded in the vault".to_owned()],
        false => vec!["a proof of a server isn't made from here: run the command in a shell".to_owned()],
    };
    notes.extend(found.doubts);
    let (point, read) = (Some(found.point), Some((found.objects, found.stored_bytes)));
    Ok(Preview { command: in_shell(&words), words, point, read, notes, is_offered: entry.has_file() })
}

/// Opens what a command names.
async fn open(named: &Named, opener: &Opener, edge: &Edge) -> Result<Arc<dyn seawall_core::Engine>, Failure> {
    let (config, name) = match named {
        Named::In(file, name) => (Some(file.into()), name),
        Named::Vault(vault) => (None, vault),
    };
    let config = ConfigArguments { config, no_expand_env: false };
    source::Source::find(name, &config, edge)?.open(opener).await
}
