//! `seawall init`: looks at what runs on this host, asks, and writes a configuration.
//!
//! `look` gathers, `found` says what it is, `ask` has the questions, and `text` makes the configuration of the answers. Before the
//! file is written, the configuration's own reader reads the text.

mod ask;
mod found;
mod look;
mod text;

use std::io::Write as _;
use std::path::Path;

use seawall_agent::config::Config;
use seawall_core::{Failure, Kind};
use serde_json::json;

use self::ask::{Answers, Person};
use self::found::Found;
use crate::arguments::InitArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, complain, to_json};
use crate::table::count;

/// Runs the command.
pub(crate) fn run(arguments: &InitArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let file = edge.absolute(&arguments.output);
    let asks = !arguments.yes && !json && edge.can_ask();
    if (asks || arguments.yes) && !arguments.force && file.symlink_metadata().is_ok() {
        return Err(exists(&file));
    }
    let found = look::look(Path::new("/proc"))?;
    let found = match &arguments.below {
        // A process's descriptors tell names without links.
        Some(folder) => found.below(&folder.canonicalize().map_err(|error| no_folder(folder, &error))?),
        None => found,
    };
    if found.things.is_empty() {
        let next = "start the application; if another user runs it, run this as that user or as root";
        let cause = "no process that this user may look into has a database open, and no server listens on a socket";
        let failure = Failure::new(Kind::NotFound, "command.nothing-found", "this host", cause, next);
        return Ok(without_file(&found, failure));
    }
    let answers = match arguments.yes {
        true if ask::plain(&found.things).is_empty() => Err("LMDB environments and servers need a decision"),
        true => Ok(unasked(arguments, &found, edge)?),
        false if asks => Ok(asked(arguments, &found, edge)?),
        false => Err("nobody can be asked here"),
    };
    let answers = match answers {
        Ok(answers) => answers,
        Err(cause) => return Ok(without_file(&found, ask::no_answer(cause))),
    };
    let text = text::text(&found.things, &answers);
    let config = Config::parse(&file, &text, &edge.surroundings(), true)?;
    save(&file, &text, arguments.force)?;
    let names: Vec<&str> = config.databases.iter().map(|database| database.name.as_str()).collect();
    let document = json!({ "found": found, "file": file, "databases": names, "vault": answers.vault });
    Ok(Output::done(said(arguments, &found, &names, &answers), &document))
}

fn said(arguments: &InitArguments, found: &Found, names: &[&str], answers: &Answers) -> String {
    let list = if arguments.yes { found.text() + "\n" } else { String::new() };
    let file = arguments.output.display();
    let option =
        if arguments.output == Path::new("seawall.yml") { String::new() } else { format!(" --config '{file}'") };
    let (databases, vault) = (count(names.len(), "database"), &answers.vault);
    format!(
        "{list}{file}: {databases} ({}), kept in {vault}\nnext: seawall config check{option}, then seawall replicate{option}\n",
        names.join(", ")
    )
}

/// What was found, when nothing is written.
fn without_file(found: &Found, failure: Failure) -> Output {
    let json = json!({ "found": found, "file": null, "error": failure });
    Output { text: found.text(), exit: Exit::of(failure.kind), json: to_json(&json), failures: vec![failure] }
}

/// What the command line says, and otherwise the defaults.
fn unasked(arguments: &InitArguments, found: &Found, edge: &Edge) -> Result<Answers, Failure> {
    let vault = ask::vault(arguments.vault.as_deref().unwrap_or_default(), edge)?;
    let keep = ask::keep(arguments.keep.as_deref().unwrap_or_default())?;
    Ok(Answers { taken: ask::plain(&found.things), vault, keep })
}

/// What a person answers to what the command line doesn't say.
fn asked(arguments: &InitArguments, found: &Found, edge: &Edge) -> Result<Answers, Failure> {
    complain(&format!("{}\n", found.text()));
    let mut input = std::io::stdin().lock();
    let mut person = Person { answers: &mut input, say: &mut |text| complain(text) };
    let otherwise = match ask::plain(&found.things).len() {
        0 => String::new(),
        plain => format!(" [{}]", count(plain, "SQLite database")),
    };
    let which = |answer: &str| ask::which(answer, &found.things);
    let taken = person.ask(&format!("Protect which? Numbers such as 1,3-5, or all{otherwise}: "), which)?;
    let place = |answer: &str| ask::vault(answer, edge);
    let vault = match &arguments.vault {
        Some(vault) => place(vault)?,
        None => {
            let question = format!("Keep them where? A folder, or a URL such as s3://bucket/prefix [{}]: ", ask::VAULT);
            person.ask(&question, place)?
        }
    };
    let keep = match &arguments.keep {
        Some(keep) => ask::keep(keep)?,
        None => person.ask(&format!("Restore to every moment of how long back? [{}]: ", ask::KEEP), ask::keep)?,
    };
    Ok(Answers { taken, vault, keep })
}

/// Writes the file whole or not at all. Only this user may read it, because a password may be added to it.
pub(super) fn save(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Unavailable,
        };
        let next = "name another file with -o, or make its folder writable";
        Failure::new(kind, "command.not-written", file.display().to_string(), error.to_string(), next)
    };
    let folder = seawall_host::folder_of(file);
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
    draft.write_all(text.as_bytes()).and_then(|()| draft.as_file().sync_all()).map_err(|error| failed(&error))?;
    let saved = if force { draft.persist(file) } else { draft.persist_noclobber(file) };
    match saved {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(file)),
        Err(error) => Err(failed(&error.error)),
    }
}

fn no_folder(folder: &Path, error: &std::io::Error) -> Failure {
    usage(
        "usage.arguments",
        &folder.display().to_string(),
        &error.to_string(),
        "name a folder that exists with --below",
    )
}

fn exists(file: &Path) -> Failure {
    let next = "name another file with -o, or write over it with --force";
    Failure::new(Kind::Refused, "command.exists", file.display().to_string(), "the file exists", next)
}
