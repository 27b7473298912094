//! Wrong usage, missing things, stores that are away: each error has the right exit code, a stable code, and a next
//! step.

use std::fs;

use seawall_tests::{Output, Place, Random, S3Server, Stand};

/// An error names its code in brackets, and says something beyond it.
#[track_caller]
fn tells(output: &Output) {
    let text = &output.stderr;
    let code = text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split(']').next())
        .find(|code| code.contains('.') && code.chars().all(|c| c.is_ascii_lowercase() || c == '.' || c == '-'));
    assert!(code.is_some(), "no stable code: {output}");
    assert!(text.trim().lines().count() >= 2, "no next step: {output}");
    assert!(!text.contains("panicked"), "{output}");
}

/// `/dev/full` answers every write as a full disk does.
#[test]
fn an_output_that_cannot_be_written_is_told() {
    let stand = Stand::folder(0);
    stand.app().commit(3);
    stand.replicate_once();
    let (url, back) = (stand.place.url(), stand.new_file());
    let back = back.to_str().unwrap();
    for (args, told) in [
        (&["restore", &url, "-o", back][..], "; the work itself is done\n"),
        (&["timeline", &url, "--json"], "; the work itself is done\n"),
        (&["restore", "--json", &url, "-o", back], "error[sqlite.target-exists]"),
        (&["--help"], "the output can't be written"),
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = stand.command().args(args).stdout(full).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("error[command.output]: standard output: ") && said.contains(told), "{args:?}: {said}");
    }
    assert!(fs::metadata(back).unwrap().len() > 0, "it was restored");
}

#[test]
fn wrong_usage_is_2() {
    let stand = Stand::folder(0);
    for args in [
        &[][..],
        &["frobnicate"],
        &["replicate", "app.db"],
        &["replicate", "app.db", "./vault", "--once", "--exec", "true"],
        &["restore", "./vault", "-o", "back.db", "--at", "yesterday"],
        &["restore", "./vault", "--no-such-flag"],
        &["status", "--config"],
    ] {
        let output = stand.seawall(args).exits(2);
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{output}");
    }
    let output = stand.seawall(&["replicate", "app.db", "gopher://host/vault"]).exits(2);
    tells(&output);
}

#[test]
fn help_and_version_are_0() {
    let stand = Stand::folder(0);
    let commands = ["replicate", "restore", "timeline", "verify", "status", "demo"];
    for command in commands {
        let output = stand.seawall(&[command, "--help"]).ok();
        assert!(output.stdout.contains("Example"), "{output}");
    }
    let help = stand.seawall(&["--help"]).ok();
    assert!(commands.iter().all(|command| help.stdout.contains(command)), "{help}");
    assert!(stand.seawall(&["--version"]).ok().stdout.starts_with("seawall "));
}

#[test]
fn an_empty_or_missing_vault_is_4() {
    let stand = Stand::folder(0);
    for made in [false, true] {
        if made {
            fs::create_dir(stand.path("vault")).unwrap();
        }
        let file = stand.new_file();
        // Only a place that is there proves that nothing can be restored.
        let restored =
            stand.seawall(&["restore", &format!("file://{}", stand.place.url()), "-o", file.to_str().unwrap()]);
        tells(&restored);
        assert_eq!(
            (restored.code(), restored.stderr.contains("vault.missing")),
            if made { (4, false) } else { (1, true) }
        );
        assert!(!file.exists());
        tells(&stand.seawall(&["timeline", &stand.place.url()]).exits(4));
        tells(&stand.seawall(&["verify", &stand.place.url()]).exits(4));
    }
    tells(&stand.seawall(&["status", "no-such.db"]).exits(4));
}

/// An application that has its database starts, whether its vault is there or not.
#[test]
fn a_database_that_is_there_needs_no_vault_to_be_kept() {
    let stand = Stand::folder(0);
    let file = stand.new_file();
    let vaults = [stand.path("away").display().to_string(), "s3://b/app?endpoint=http://127.0.0.1:1".to_owned()];
    for vault in vaults {
        let vault = if vault.starts_with('/') { format!("file://{vault}") } else { vault };
        let restore = || stand.seawall(&["restore", &vault, "-o", file.to_str().unwrap(), "--if-missing"]);
        std::fs::write(&file, "kept").unwrap();
        let skipped = restore().ok();
        assert!(skipped.stdout.contains("nothing was restored"), "{skipped}");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        if vault.starts_with("file") {
            std::fs::remove_file(&file).unwrap();
            assert!(restore().exits(1).stderr.contains("vault.missing"));
            assert!(!file.exists());
        }
    }
}

#[test]
fn a_bucket_that_does_not_exist_is_no_empty_vault_on_s3() {
    let stand = Stand::bucket(0);
    let (url, file) = (stand.place.url(), stand.new_file());
    let wrong = url.replacen("harbour", "harbor", 1);
    let restore = |url: &str| stand.seawall(&["restore", url, "-o", file.to_str().unwrap()]);
    tells(&restore(&url).exits(4));
    let missing = restore(&wrong).exits(1);
    assert!(missing.stderr.contains("error[vault.missing]"), "{missing}");
    // By Litestream's name, too: the program would begin a new database.
    let link = |url: &str| {
        let mut command = stand.drop_in_command();
        command.args(["restore", "-if-replica-exists", "-o", file.to_str().unwrap(), url]);
        seawall_tests::run("the link", &mut command)
    };
    link(&url).ok();
    let missing = link(&wrong).exits(1);
    assert!(missing.stderr.contains("bucket"), "{missing}");
    assert!(!file.exists());
}

#[test]
fn a_moment_or_a_transaction_that_was_never_is_refused() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    stand.replicate_once();
    for at in ["2001-01-01T00:00:00Z", "00000000000000ff", "1000 weeks ago"] {
        let file = stand.new_file();
        let output = stand.seawall(&["restore", &stand.place.url(), "-o", file.to_str().unwrap(), "--at", at]);
        assert!([1, 4].contains(&output.code()), "{output}");
        tells(&output);
        assert!(!file.exists());
    }
}

#[test]
fn a_configuration_is_strict_and_names_line_and_nearest_key() {
    let stand = Stand::folder(0);
    let config = stand.path("seawall.yml");
    let good = format!("databases:\n  - path: {}\n    vault: {}\n", stand.db().display(), stand.place.url());
    fs::write(&config, &good).unwrap();
    let config = config.to_str().unwrap();
    stand.seawall(&["config", "check", "--config", config]).ok();
    fs::write(config, good + "    sync-intervall: 2s\n").unwrap();
    let output = stand.seawall(&["config", "check", "--config", config]).exits(2);
    tells(&output);
    assert!(output.stderr.contains("seawall.yml:4"), "{output}");
    assert!(output.stderr.contains("sync-intervall") && output.stderr.contains("\"sync-interval\""), "{output}");
    tells(&stand.seawall(&["replicate", "--config", config]).exits(2));
    tells(&stand.seawall(&["config", "check", "--config", "none.yml"]));
}

#[test]
fn a_store_that_is_away_or_denies_on_s3() {
    let mut stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    stand.replicate_once();
    let (url, file) = (stand.place.url(), stand.new_file());
    let restore = ["restore", &url, "-o", file.to_str().unwrap()];
    let mut command = stand.command();
    command.env("AWS_SECRET_ACCESS_KEY", "wrong-on-purpose").args(restore);
    let output = seawall_tests::run("seawall", &mut command).exits(1);
    tells(&output);
    for secret in ["wrong-on-purpose", S3Server::SECRET_KEY] {
        assert!(!output.stderr.contains(secret), "a secret is told: {output}");
    }
    let Place::Bucket(server, _) = &mut stand.place else { unreachable!("made so above") };
    server.stop();
    let output = stand.seawall(&restore).exits(1);
    tells(&output);
    assert!(!file.exists());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let stand = Stand::folder(0);
    fs::write(stand.db(), "not a database, but somebody's letter\n".repeat(200)).unwrap();
    let before = fs::read(stand.db()).unwrap();
    let output = stand.replicate_with(&["--once"]).wait(seawall_tests::wait::SOON * 2);
    assert!(output.code() != 0, "{output}");
    tells(&output);
    assert_eq!(fs::read(stand.db()).unwrap(), before);
    assert_eq!(stand.place.newest(), 0);
}
