//! Restores every database of a vault, or of a configuration, with one command.

use std::fs;

use seawall_tests::{App, Random, Stand, digest, model, run};

/// Three databases below one prefix, one of them deeper. Their names, and the commits in each.
fn tenants(stand: &Stand) -> Vec<(&'static str, u64)> {
    let names = ["a.db", "eu/b.db", "eu/c.db"];
    let mut made = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let file = stand.path(&format!("data/{name}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let commits = App::start(&file, stand.seed).commit(10 + index as u64);
        let mut command = stand.command();
        command.args(["replicate", "--once"]).arg(&file).arg(below(stand, name));
        run("seawall", &mut command).ok();
        made.push((name, commits));
    }
    made
}

fn below(stand: &Stand, name: &str) -> String {
    let url = stand.place.url();
    match url.split_once('?') {
        Some((place, query)) => format!("{place}/{name}?{query}"),
        None => format!("{url}/{name}"),
    }
}

#[test]
fn a_folder_of_databases_comes_back_in_one_command() {
    comes_back(&Stand::folder(Random::from_env().seed()));
}

#[test]
fn a_prefix_on_s3_comes_back_in_one_command() {
    comes_back(&Stand::bucket(Random::from_env().seed()));
}

fn comes_back(stand: &Stand) {
    let made = tenants(stand);
    let url = stand.place.url();
    let dry = stand.seawall(&["restore", &url, "--all", "-o", "out", "--dry-run", "--json"]).ok().json();
    assert_eq!(dry["databases"].as_array().map(Vec::len), Some(3), "{dry}");
    assert!(!stand.path("out").exists());
    stand.seawall(&["restore", &url, "--all", "-o", "out", "--integrity", "quick"]).ok();
    for (name, commits) in made {
        let back = stand.path(&format!("out/{name}"));
        assert_eq!(model::check(&back, stand.seed), commits);
        assert_eq!(digest::of(&back), digest::of(&stand.path(&format!("data/{name}"))));
    }
    // Existing files stay.
    stand.seawall(&["restore", &url, "--all", "-o", "out"]).exits(1);
    stand.seawall(&["restore", &url, "--all", "-o", "out", "--if-missing"]).ok();
}

#[test]
fn one_that_fails_doesnt_stop_the_others() {
    let stand = Stand::folder(Random::from_env().seed());
    let made = tenants(&stand);
    let base = stand.path("vault/eu/b.db/ltx/9");
    let object = fs::read_dir(&base).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&object, bytes).unwrap();
    let output = stand.seawall(&["restore", &stand.place.url(), "--all", "-o", "out", "--json"]).exits(3).json();
    let codes: Vec<_> = output["databases"].as_array().unwrap().iter().map(|d| d["error"]["code"].clone()).collect();
    assert_eq!(codes, [serde_json::Value::Null, "sqlite.corrupt-object".into(), serde_json::Value::Null], "{output}");
    assert!(!stand.path("out/eu/b.db").exists());
    for (name, commits) in [made[0], made[2]] {
        assert_eq!(model::check(&stand.path(&format!("out/{name}")), stand.seed), commits);
    }
}

#[test]
fn every_database_of_a_configuration_goes_to_its_own_path() {
    let stand = Stand::folder(Random::from_env().seed());
    let made = tenants(&stand);
    let entry = |name: &str| {
        let id = name.replace(['/', '.'], "-");
        format!("  - {{ name: {id}, path: data/{name}, vault: vault/{name} }}\n")
    };
    let yaml: String = made.iter().map(|(name, _)| entry(name)).collect();
    fs::write(stand.path("seawall.yml"), format!("databases:\n{yaml}")).unwrap();
    fs::rename(stand.path("data"), stand.path("lost")).unwrap();
    stand.seawall(&["restore", "--all"]).ok();
    stand.seawall(&["restore", "--all", "-o", "out"]).ok();
    for (name, commits) in made {
        assert_eq!(model::check(&stand.path(&format!("data/{name}")), stand.seed), commits);
        let flat = name.replace(['/', '.'], "-");
        assert_eq!(model::check(&stand.path(&format!("out/{flat}")), stand.seed), commits);
    }
    stand.seawall(&["restore", "--all", "--config", "nowhere.yml"]).exits(2);
}

/// For a `dir` of the configuration the vault's content counts: the folder itself is lost.
#[test]
fn a_folder_of_the_configuration_comes_back_with_the_others() {
    let stand = Stand::folder(Random::from_env().seed());
    let made = tenants(&stand);
    let native = "databases:\n  - { dir: data, recursive: true, name: tenants, vault: vault, pattern: '*.db' }\n  \
                  - { name: first, path: data/a.db, vault: vault/a.db }\n";
    fs::write(stand.path("seawall.yml"), native).unwrap();
    let (data, vault) = (stand.path("data"), stand.path("vault"));
    let theirs = format!(
        "dbs:\n  - dir: {}\n    pattern: '*.db'\n    recursive: true\n    replica: {{ type: file, path: {} }}\n",
        data.display(),
        vault.display()
    );
    fs::write(stand.path("litestream.yml"), theirs).unwrap();
    for config in ["seawall.yml", "litestream.yml"] {
        fs::rename(&data, stand.path(&format!("lost-{config}"))).unwrap();
        let line = ["restore", "--all", "--config", config, "--json"];
        let output = stand.seawall(&line).ok().json();
        assert_eq!(output["databases"].as_array().map(Vec::len), Some(made.len()), "each once: {output}");
        for (name, commits) in &made {
            assert_eq!(model::check(&data.join(name), stand.seed), *commits, "{config}");
        }
        let out = format!("out-{config}");
        stand.seawall(&["restore", "--all", "--config", config, "-o", &out]).ok();
        let inside = if config == "seawall.yml" { "tenants/eu/b.db" } else { "eu/b.db" };
        assert_eq!(model::check(&stand.path(&format!("{out}/{inside}")), stand.seed), made[1].1, "{config}");
    }
}

#[test]
fn a_prefix_without_databases_is_told() {
    let stand = Stand::folder(Random::from_env().seed());
    fs::create_dir_all(stand.path("vault/x")).unwrap();
    fs::write(stand.path("vault/x/readme.txt"), "nothing").unwrap();
    let output = stand.seawall(&["restore", "./vault", "--all", "-o", "out"]).exits(4);
    assert!(output.stderr.contains("command.empty-vault"), "{output}");
    stand.seawall(&["restore", "./vault", "--all"]).exits(2);
}
