//! `restore` as a user types it: which file it makes, which moment it restores, and what it never overwrites.

use std::fs;

use seawall_tests::{Random, Stand, digest, model};

fn vault() -> Stand {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(30);
    stand.replicate_once();
    app.commit(30);
    stand.replicate_once();
    stand
}

#[test]
fn an_existing_target_is_refused_without_force() {
    let stand = vault();
    let file = stand.path("letter.txt");
    fs::write(&file, "precious").unwrap();
    let (url, target) = (stand.place.url(), file.to_str().unwrap().to_owned());
    let output = stand.seawall(&["restore", &url, "-o", &target]).exits(1);
    assert!(output.stderr.contains("--force") && output.stderr.contains('['), "{output}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    stand.seawall(&["restore", &url, "-o", &target, "--if-missing"]).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    stand.seawall(&["restore", &url, "-o", &target, "--force"]).ok();
    assert_eq!(model::check(&file, stand.seed), 60);
}

/// A start script goes on at the very first start, and never where a database could have been saved.
#[test]
fn an_empty_vault_is_a_success_if_that_is_allowed() {
    let stand = Stand::folder(Random::from_env().seed());
    let (url, file) = (stand.place.url(), stand.new_file());
    let args = ["restore", &url, "-o", file.to_str().unwrap(), "--if-missing", "--allow-empty"];
    // The disk that isn't mounted.
    assert_ne!(stand.seawall(&args).code(), 0);
    fs::create_dir(&url).unwrap();
    stand.seawall(&args[..args.len() - 1]).exits(4);
    let output = stand.seawall(&args).ok();
    assert!(output.stdout.contains("no backup yet") && !file.exists(), "{output}");
    let skipped = stand.seawall(&[&args[..], &["--json"]].concat()).ok().json();
    assert_eq!((&skipped["skipped"], &skipped["output"]), (&true.into(), &args[3].into()));

    let mut app = stand.app();
    app.commit(30);
    stand.replicate_once();
    stand.seawall(&args).ok();
    assert_eq!(model::check(&file, stand.seed), 30);
    // A backup of which the beginning is missing isn't an empty vault.
    fs::remove_file(&file).unwrap();
    app.commit(30);
    stand.replicate_once();
    fs::remove_dir_all(stand.place.level(9)).unwrap();
    assert_ne!(stand.seawall(&args).code(), 0);
    assert!(!file.exists());
}

#[test]
fn leftovers_of_another_database_beside_the_target_are_refused_too() {
    let stand = vault();
    for sidecar in ["-wal", "-shm", "-journal"] {
        let file = stand.new_file();
        let beside = file.with_file_name(format!("{}{sidecar}", file.file_name().unwrap().to_str().unwrap()));
        fs::write(&beside, "leftover").unwrap();
        let (url, target) = (stand.place.url(), file.to_str().unwrap().to_owned());
        stand.seawall(&["restore", &url, "-o", &target]).exits(1);
        assert!(!file.exists());
        assert_eq!(fs::read_to_string(&beside).unwrap(), "leftover");
        stand.seawall(&["restore", &url, "-o", &target, "--force"]).ok();
        assert_eq!(model::check(&file, stand.seed), 60);
    }
}

#[test]
fn relative_paths_and_relative_times() {
    let stand = vault();
    stand.seawall(&["restore", "./vault", "-o", "back.db"]).ok();
    assert_eq!(model::check(&stand.path("back.db"), stand.seed), 60);
    stand.seawall(&["restore", "vault", "-o", "back2.db", "--at", "latest"]).ok();
    let url = format!("file://{}", stand.path("vault").display());
    stand.seawall(&["restore", &url, "-o", "back3.db", "--at", "0s ago", "--integrity", "full"]).ok();
    assert_eq!(digest::of_file(&stand.path("back2.db")), digest::of_file(&stand.path("back.db")));
    assert_eq!(digest::of_file(&stand.path("back3.db")), digest::of_file(&stand.path("back.db")));
    let timeline = stand.seawall(&["timeline", "./vault", "--json"]).ok().json();
    let from = timeline["spans"][0]["from"]["moment"].as_str().unwrap().to_owned();
    stand.seawall(&["restore", "./vault", "-o", "first.db", "--at", &from]).ok();
    assert_eq!(model::check(&stand.path("first.db"), stand.seed), 30);
}

#[test]
fn by_path_and_by_name_from_our_own_configuration() {
    let stand = vault();
    let config = stand.path("seawall.yml");
    let text =
        format!("databases:\n  - name: shop\n    path: {}\n    vault: {}\n", stand.db().display(), stand.place.url());
    fs::write(&config, text).unwrap();
    for (source, file) in [("shop", "a.db"), (stand.db().to_str().unwrap(), "b.db")] {
        stand.seawall(&["restore", "--config", "seawall.yml", "-o", file, source]).ok();
        assert_eq!(model::check(&stand.path(file), stand.seed), 60);
    }
    for command in ["timeline", "verify"] {
        stand.seawall(&[command, "--config", "seawall.yml", "shop"]).ok();
    }
    let status = stand.seawall(&["status", "--config", "seawall.yml", "--json"]).ok().json();
    assert_eq!(status[0]["name"], "shop", "{status}");
    stand.seawall(&["restore", "--config", "seawall.yml", "-o", "c.db", "shoe"]).exits(4);
}

#[test]
fn a_restored_database_is_a_plain_file_that_others_can_use() {
    let stand = vault();
    let back = stand.restore();
    for sidecar in ["-wal", "-shm", "-journal"] {
        assert!(!back.with_file_name(format!("back-1.db{sidecar}")).exists());
    }
    let mut app = seawall_tests::App::start(&back, stand.seed);
    assert_eq!(app.commit(5), 65);
    app.close();
    assert_eq!(model::check(&back, stand.seed), 65);
}

#[test]
fn hooks_run_around_a_restore_and_can_refuse_it() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(4);
    stand.replicate_once();
    let configure = |before: &str| {
        let note = "printf '%s %s %s %s\\n' \"$SEAWALL_HOOK\" \"$SEAWALL_DATABASE\" \"$${SEAWALL_TARGET##*/}\" \
                    \"$SEAWALL_ERROR_CODE\" >> notes";
        let text = format!(
            "hooks:\n  shell: true\n  before-restore: |\n    {note}; {before}\n  after-restore: |\n    {note}\n  \
             on-failure: |\n    {note}\n\
             databases:\n  - path: app.db\n    vault: {}\n",
            stand.place.url()
        );
        std::fs::write(stand.path("seawall.yml"), text).unwrap();
    };
    let notes = || std::fs::read_to_string(stand.path("notes")).unwrap_or_default();
    configure("false");
    let output = stand.seawall(&["restore", "app", "-o", "back.db"]).exits(1);
    assert!(output.stderr.contains("error[hook.refused]: app: the restore was not begun"), "{output}");
    assert!(!stand.path("back.db").exists());
    assert_eq!(notes(), "before-restore app back.db \non-failure app back.db hook.refused\n");
    std::fs::remove_file(stand.path("notes")).unwrap();
    configure("true");
    stand.seawall(&["restore", "app", "-o", "back.db", "--dry-run"]).ok();
    assert_eq!(notes(), "");
    stand.seawall(&["restore", "app", "-o", "back.db"]).ok();
    assert_eq!(notes(), "before-restore app back.db \nafter-restore app back.db \n");
    assert_eq!(model::check(&stand.path("back.db"), stand.seed), 4);
    stand.seawall(&["restore", "app", "-o", "back.db"]).exits(1);
    assert!(notes().ends_with("on-failure app back.db sqlite.target-exists\n"), "{}", notes());
}
