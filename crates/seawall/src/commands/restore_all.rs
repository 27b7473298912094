//! `seawall restore --all`: every database of a vault, or of a configuration, a few at a time.
//!
//! A database that fails doesn't stop the others. Then the exit code is 3.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use futures::stream;
use seawall_agent::config::DatabaseConfig;
use seawall_agent::{Opener, VaultUrl, ask};
use seawall_core::{Failure, NoProgress, RestoreRequest, Restored};
use serde_json::json;

use crate::arguments::RestoreArguments;
use crate::edge::{Edge, usage};
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::source::Source;
use crate::{configuration, runtime, source, table};

/// How many databases are restored at once.
const AT_ONCE: usize = 4;

/// A database to restore.
struct Item {
    name: String,
    source: Source,
    output: PathBuf,
}

/// What became of one.
enum Done {
    Restored(Restored),
    Skipped,
    Failed(Failure),
}

/// Runs the command. `request` has everything but the output.
pub(crate) fn run(arguments: &RestoreArguments, request: &RestoreRequest, edge: &Edge) -> Result<Output, Failure> {
    let folder = arguments.output.as_ref().map(|folder| edge.absolute(folder));
    let threads = (runtime::working() / AT_ONCE).max(1);
    let opener = edge.opener(threads)?;
    let (done, passed_over) = runtime::run(async {
        let (items, passed_over) = match &arguments.source {
            Some(text) => below(text, arguments, folder, edge, &opener).await?,
            None => configured(arguments, folder.as_deref(), edge, &opener).await?,
        };
        let restore = |item: Item| async {
            let done = restore(&item, request, arguments.if_missing, &opener).await;
            (item, done)
        };
        let done = stream::iter(items).map(restore).buffered(AT_ONCE).collect::<Vec<_>>().await;
        Ok((done, passed_over))
    })?;
    Ok(render(&done, passed_over))
}

/// Databases to restore, and names in their vaults that were passed over.
type Chosen = (Vec<Item>, Vec<Failure>);

/// The databases of a vault.
async fn below(
    text: &str,
    arguments: &RestoreArguments,
    folder: Option<PathBuf>,
    edge: &Edge,
    opener: &Opener,
) -> Result<Chosen, Failure> {
    let Source::Vault(vault) = Source::find(text, &arguments.config, edge)?.there()?.past(&arguments.past)? else {
        let next = "name a vault, or leave the name out for every database of the configuration";
        return Err(usage("usage.arguments", text, "--all is for several databases, and this is one", next));
    };
    let Some(folder) = folder else {
        let cause = "no folder to restore into is named";
        return Err(usage("usage.no-output", &vault.to_string(), cause, "name one with -o FOLDER"));
    };
    let found = opener.databases_below(&vault).await?;
    if found.databases.is_empty() {
        return Err(super::timeline::nothing(&vault.to_string()));
    }
    let items = found.databases.into_iter().map(|(name, place)| item(name, place, &folder)).collect();
    Ok((items, found.passed_over.into_iter().collect()))
}

/// The vault's own database is called like the vault.
fn item(name: String, place: VaultUrl, folder: &Path) -> Item {
    let name = if name.is_empty() { last_segment(&place) } else { name };
    Item { output: folder.join(&name), name, source: Source::Vault(place) }
}

fn last_segment(place: &VaultUrl) -> String {
    let text = place.to_string();
    let path = text.split('?').next().unwrap_or_default().trim_end_matches('/');
    let last = path.rsplit('/').next().filter(|last| !last.is_empty() && *last != "." && *last != "..");
    last.unwrap_or("database").to_owned()
}

/// The databases of the configuration, and those in the vaults of its folders. Each is restored into the folder, or to
/// its own path.
async fn configured(
    arguments: &RestoreArguments,
    folder: Option<&Path>,
    edge: &Edge,
    opener: &Opener,
) -> Result<Chosen, Failure> {
    let mut config = configuration::require(&arguments.config, edge)?;
    if let Some(at) = source::past(&arguments.past)? {
        for database in &mut config.databases {
            database.vault = database.vault.as_stored_at(at)?;
        }
        for directory in &mut config.directories {
            directory.template.vault = directory.template.vault.as_stored_at(at)?;
        }
    }
    let named: BTreeSet<PathBuf> = config.databases.iter().filter_map(|one| one.path().map(Path::to_owned)).collect();
    let item = |database: DatabaseConfig| {
        // A server's database has no path. Its restore fails with advice.
        let path = database.path().map_or_else(|| PathBuf::from(database.source().to_string()), Path::to_owned);
        let file = path.file_name().map(PathBuf::from).unwrap_or_default();
        let inside = if Path::new(&database.name).is_absolute() { file } else { PathBuf::from(&database.name) };
        let output = folder.map_or(path, |folder| folder.join(inside));
        Item { name: database.name.clone(), output, source: Source::Database(Box::new(database)) }
    };
    let mut items: Vec<Item> = config.databases.into_iter().map(item).collect();
    let mut passed_over = Vec::new();
    for directory in &config.directories {
        let found = opener.databases_below(&directory.template.vault).await?;
        passed_over.extend(found.passed_over);
        for (below, _) in found.databases.into_iter().filter(|(below, _)| directory.holds(below)) {
            let found = directory.database(Path::new(&below))?;
            // One that is named with its path as well is what that item says.
            let Some(path) = found.path().filter(|path| !named.contains(*path)).map(Path::to_owned) else { continue };
            let inside = if Path::new(&found.name).is_absolute() { below } else { found.name.clone() };
            let output = folder.map_or(path, |folder| folder.join(inside));
            items.push(Item { name: found.name.clone(), output, source: Source::Database(Box::new(found)) });
        }
    }
    let mut outputs: Vec<&Path> = items.iter().map(|item| item.output.as_path()).collect();
    outputs.sort_unstable();
    match outputs.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let cause = "two databases of the configuration would be restored to this file";
            let next = "leave out -o, so that each goes to its own path, or restore them one by one";
            Err(usage("usage.arguments", &pair[0].display().to_string(), cause, next))
        }
        None => Ok((items, passed_over)),
    }
}

async fn restore(item: &Item, request: &RestoreRequest, if_missing: bool, opener: &Opener) -> Done {
    if if_missing && std::fs::symlink_metadata(&item.output).is_ok() {
        return Done::Skipped;
    }
    let request = RestoreRequest { output: item.output.clone(), ..request.clone() };
    let work = async {
        if let Some(folder) = item.output.parent().filter(|_| !request.dry_run) {
            std::fs::create_dir_all(folder).map_err(|error| no_folder(folder, &error))?;
        }
        let restored = |source: crate::source::Source| {
            let request = &request;
            async move { ask::files(&*source.open(opener).await?)?.restore(request, std::sync::Arc::new(NoProgress)).await }
        };
        let (told, restored) = item.source.with_newest(opener, &request.when, restored).await?;
        told.lines().for_each(|line| tracing::info!("{}: {line}", item.output.display()));
        Ok(restored)
    };
    match work.await {
        Ok(restored) => Done::Restored(restored),
        Err(failure) => Done::Failed(failure),
    }
}

fn no_folder(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        seawall_core::Kind::Denied,
        "command.no-folder",
        folder.display().to_string(),
        format!("the folder can't be made: {error}"),
        "name another one with -o, or make it writable",
    )
}

fn render(done: &[(Item, Done)], passed_over: Vec<Failure>) -> Output {
    let (mut rows, mut failures, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for (item, done) in done {
        let (mut restored, mut error) = (json!(null), json!(null));
        let row = match done {
            Done::Restored(found) => {
                restored = to_json(found);
                let read = found.objects.iter().map(|object| object.bytes).sum();
                let state = if found.dry_run { "would be restored" } else { "restored" };
                [state.to_owned(), table::point(&found.point), table::bytes(read)]
            }
            Done::Skipped => ["it exists".to_owned(), String::new(), String::new()],
            Done::Failed(failure) => {
                failures.push(failure.clone());
                error = to_json(failure);
                [format!("error[{}]", failure.code), String::new(), String::new()]
            }
        };
        let [state, point, read] = row;
        rows.push(vec![item.name.clone(), state, point, read, item.output.display().to_string()]);
        let skipped = matches!(done, Done::Skipped);
        documents.push(json!({
            "name": item.name, "output": item.output, "restored": restored, "skipped": skipped, "error": error,
        }));
    }
    let results = done.iter().map(|(_, done)| match done {
        Done::Failed(failure) => Err(failure),
        _ => Ok(()),
    });
    let exit = Exit::of_all(results.chain(passed_over.iter().map(Err)));
    failures.extend(passed_over);
    let text = table::table(&["database", "state", "point", "read", "file"], rows, &[3]);
    Output { text, failures, json: json!({ "databases": documents }), exit }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Kind, Moment, Point};

    use super::*;

    fn place(text: &str) -> VaultUrl {
        VaultUrl::parse(text).expect("a place")
    }

    #[test]
    fn a_vault_with_a_database_of_its_own() {
        for (text, name) in [("s3://bucket/app", "app"), ("s3://bucket/app/", "app"), ("file:///backup/x", "x")] {
            assert_eq!(item(String::new(), place(text), Path::new("/out")).output, Path::new("/out").join(name));
        }
        assert_eq!(item("a/b".into(), place("s3://bucket/a/b"), Path::new("/out")).output, Path::new("/out/a/b"));
    }

    #[test]
    fn one_that_failed_doesnt_hide_the_others() {
        let item = |name: &str| item(name.to_owned(), place("file:///vault"), Path::new("/out"));
        let point = Point { position: "000000000000000a".into(), moment: Moment::from_millis(0) };
        let (objects, output) = (Vec::new(), "/out/a".into());
        let restored =
            Restored { point, output, bytes: 1, objects, duration_ms: 1, dry_run: false, doubts: Vec::new() };
        let failure = Failure::new(Kind::Corrupt, "test.code", "o", "c", "n");
        let output = render(
            &[
                (item("a"), Done::Restored(restored)),
                (item("b"), Done::Failed(failure.clone())),
                (item("c"), Done::Skipped),
            ],
            Vec::new(),
        );
        assert_eq!(output.exit, Exit::Partly);
        assert_eq!(output.failures, [failure]);
        assert_eq!(
            output.text,
            "database  state             point                                        read  file\n\
             a         restored          1970-01-01T00:00:00.000Z (000000000000000a)   0 B  /out/a\n\
             b         error[test.code]                                                     /out/b\n\
             c         it exists                                                            /out/c\n"
        );
        assert_eq!(output.json["databases"][1]["error"]["code"], "test.code");
    }
}
