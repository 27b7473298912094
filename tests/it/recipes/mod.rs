//! The recipes in `docs/recipes`, one test for each: its configuration is valid, its commands are accepted, its files parse, and the
//! recipe is carried out from the start to the restore on a new machine. What comes back is compared with what was recorded.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use seawall_tests::{App, Random, digest, model, run, wait};

mod containers;
mod django;
mod host;
mod nas;
mod page;
mod powerdns;
mod systemd;

use host::Host;
use page::Page;

/// Checks a page without carrying it out: each configuration, and each command of `seawall`.
fn check(page: &Page) {
    let host = Host::new();
    let mut configurations = 0;
    for (number, text) in page.files("seawall.yml").into_iter().enumerate() {
        // As the page has it, with its own paths and places.
        let file = host.path(&format!("checked-{number}.yml"));
        fs::write(&file, text).unwrap();
        let checked = run("config check", host.command("seawall").args(["config", "check", "--config"]).arg(file)).ok();
        assert!(checked.stdout.contains(" 0 warnings"), "{checked}");
        configurations += 1;
    }
    assert!(configurations > 0, "a recipe has a configuration");
    let lines = page.seawall_lines();
    assert!(lines.iter().any(|line| line.contains(" status ")), "a recipe looks at the status");
    for line in lines {
        accepts(&host, &line);
    }
    for heading in ["## Start", "## Restore", "## Traps"] {
        assert!(page.text.contains(heading), "no '{heading}'");
    }
}

/// Insists that a command line is understood. There is no configuration, and every path is in an empty folder: whatever it does
/// after that fails or does nothing.
fn accepts(host: &Host, line: &str) {
    // The user of a NAS is on no network of this machine.
    let line = line.replace("sftp://seawall@nas.example/", "/mnt/");
    let line = host.relocate(&line.replace(['?', '&'], "-"));
    let output = run(&line, host.command("timeout").args(["20", "sh", "-c", &line]));
    assert!(!output.stderr.contains("error[usage."), "{output}");
    assert_ne!(output.code(), 124, "{output}");
}

/// A database of a stand-in for an application: its path in the recipe, its name, and the application's pragmas.
struct Database<'a> {
    path: &'a str,
    name: &'a str,
    pragmas: &'a [&'a str],
}

/// Protects the databases as the page says, loses the folders, and restores as the page says. The page's second block of the
/// restore goes back to an earlier moment. If the first one has a moment too, it goes back to that.
fn comes_back(page: &Page, databases: &[Database<'_>], lost: &[&str]) {
    check(page);
    let prepare = |host: &Host| {
        host.write("/etc/seawall.yml", page.file("seawall.yml"));
        host.write("/etc/seawall/alert-url", "http://127.0.0.1:9/");
    };
    comes_back_from(&prepare, &page.commands("Start")[0], &page.commands("Restore"), databases, lost);
}

/// The same with the lines themselves, on a host that `prepare` configures.
fn comes_back_from(
    prepare: &dyn Fn(&Host),
    start: &[String],
    restore: &[Vec<String>],
    databases: &[Database<'_>],
    lost: &[&str],
) {
    let mut host = Host::new();
    prepare(&host);
    let names: Vec<&str> = databases.iter().map(|database| database.name).collect();
    let seed = Random::from_env().seed();
    let files: Vec<PathBuf> = databases.iter().map(|database| host.path(database.path)).collect();
    let mut apps = Vec::new();
    for (file, database) in files.iter().zip(databases) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut app = App::start(file, seed);
        for pragma in database.pragmas {
            app.sql(&format!("PRAGMA {pragma}"));
        }
        apps.push(app);
    }
    host.carry_all_out(&local(start));
    let earlier: Vec<u64> = apps.iter_mut().map(|app| app.commit(20)).collect();
    host.settle(&names);
    let moment = host.moment.clone();
    wait::pass(Duration::from_millis(20));
    let newest: Vec<u64> = apps.iter_mut().map(|app| app.commit(15)).collect();
    host.settle(&names);
    let digests: Vec<String> = files.iter().map(|file| digest::of(file)).collect();
    drop(apps);

    host.lose(lost);
    for file in &files {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
    }
    host.moment = moment;
    let first = local(&restore[0]);
    host.carry_all_out(&first);
    if first.iter().any(|line| line.contains("--at ")) {
        compare(&files, &earlier, seed);
    } else {
        compare(&files, &newest, seed);
        assert_eq!(files.iter().map(|file| digest::of(file)).collect::<Vec<_>>(), digests);
    }
    if let Some(second) = restore.get(1) {
        host.carry_all_out(&local(second));
        for ((file, name), commits) in files.iter().zip(&names).zip(&earlier) {
            if second.iter().any(|line| line.contains(" --all") || line.contains(&format!("restore {name} "))) {
                compare(std::slice::from_ref(file), &[*commits], seed);
            }
        }
    }
    // The application goes on, and so does the history.
    host.start_if_stopped();
    let committed = App::start(&files[0], seed).commit(1);
    host.settle(&names[..1]);
    host.stop();
    let back = host.path("back.db");
    host.sh(&format!("seawall restore {} -o {}", names[0], back.display())).ok();
    assert_eq!(model::check(&back, seed), committed);
}

/// Lines without programs of the application, which aren't here.
fn local(lines: &[String]) -> Vec<String> {
    let ours = |line: &&String| page::seawall_part(line).is_some() || line.starts_with("systemctl ");
    lines.iter().filter(ours).cloned().collect()
}

fn compare(files: &[PathBuf], commits: &[u64], seed: u64) {
    for (file, commits) in files.iter().zip(commits) {
        assert_eq!(model::check(file, seed), *commits, "{}", file.display());
    }
}

#[test]
fn each_recipe_is_in_the_index_and_the_index_is_true() {
    let index = Page::read("README");
    let names = page::names();
    assert_eq!(names.len(), 10);
    for name in &names {
        assert!(index.text.contains(&format!("({name}.md)")), "{name} isn't in the index");
    }
    let host = Host::new();
    for line in index.commands("What holds").concat().iter().filter_map(|line| page::seawall_part(line)) {
        accepts(&host, &line);
    }
}

/// A stand-in: the files of Rails 8 in `storage/` with the pragmas of its SQLite adapter, and beside them a cache and an upload.
#[test]
fn rails_comes_back_with_its_queue_and_without_its_cache() {
    let page = Page::read("rails");
    let pragmas =
        ["foreign_keys = 1", "synchronous = normal", "mmap_size = 134217728", "journal_size_limit = 67108864"];
    let storage = "/srv/shop/storage";
    let database = |path, name| Database { path, name, pragmas: &pragmas };
    let databases = [
        database("/srv/shop/storage/production.sqlite3", "production"),
        database("/srv/shop/storage/production_queue.sqlite3", "production_queue"),
    ];
    comes_back(&page, &databases, &[storage]);
    assert!(!page.file("seawall.yml").contains("cache"), "a cache isn't protected");
}

/// A stand-in: the two databases of `pb_data`, with the pragmas of PocketBase's connections. At midnight PocketBase asks for a
/// `TRUNCATE` checkpoint, which must neither succeed nor lose anything while Seawall runs.
#[test]
fn pocketbase_comes_back_also_after_its_checkpoint_at_midnight() {
    let page = Page::read("pocketbase");
    let pragmas =
        ["busy_timeout = 10000", "journal_size_limit = 200000000", "synchronous = normal", "temp_store = memory"];
    let database = |path, name| Database { path, name, pragmas: &pragmas };
    let databases = [
        database("/opt/pocketbase/pb_data/data.db", "data"),
        database("/opt/pocketbase/pb_data/auxiliary.db", "auxiliary"),
    ];
    comes_back(&page, &databases, &["/opt/pocketbase/pb_data"]);

    let mut host = Host::with(&page);
    let seed = Random::from_env().seed();
    fs::create_dir_all(host.path("/opt/pocketbase/pb_data")).unwrap();
    let [mut data, _auxiliary] = databases.map(|database| App::start(&host.path(database.path), seed));
    host.start();
    data.commit(10);
    data.sql("PRAGMA busy_timeout = 100");
    assert_eq!(data.sql("PRAGMA wal_checkpoint(TRUNCATE)"), "1", "busy");
    data.sql("PRAGMA busy_timeout = 10000");
    let committed = data.commit(10);
    host.settle(&["data"]);
    host.stop();
    let back = host.path("back.db");
    host.sh(&format!("seawall restore data -o {}", back.display())).ok();
    assert_eq!(model::check(&back, seed), committed);
}

/// A stand-in: `gitea.db` in SQLite's own journal mode, in which Gitea makes it when `SQLITE_JOURNAL_MODE` is empty.
#[test]
fn gitea_comes_back_to_the_moment_of_its_file_backup() {
    let page = Page::read("gitea");
    let pragmas = ["journal_mode = delete", "busy_timeout = 500"];
    let databases = [Database { path: "/srv/gitea/gitea/gitea.db", name: "gitea", pragmas: &pragmas }];
    comes_back(&page, &databases, &["/srv/gitea"]);

    // What the page says of the journal mode.
    let mut host = Host::with(&page);
    let file = host.path("/srv/gitea/gitea/gitea.db");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch("PRAGMA journal_mode = delete; CREATE TABLE t(x)").unwrap();
    drop(db);
    host.start();
    let db = digest::open(&file);
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    db.busy_timeout(std::time::Duration::from_millis(100)).unwrap();
    let refused = db.query_row("PRAGMA journal_mode = delete", [], |row| row.get::<_, String>(0)).unwrap_err();
    assert!(refused.to_string().contains("database is locked"), "{refused}");
}
