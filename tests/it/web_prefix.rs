//! The page of a prefix: what vaults tell without a process, and restores that are planned there and done.

use std::path::Path;

use seawall_tests::{Process, Random, Stand, ask_host, digest, model, run, wait};
use seawall_vault::testing::S3Server;

use crate::fleet::{copy_folder, golden};
use crate::web::{address, between, carry_out, page, unescaped};

const TOKEN: &str = "a-token-of-some-length";

fn show(stand: &Stand, place: &str, more: &[&str]) -> Process {
    let mut command = stand.command();
    command.args(["web", place, "--listen", "127.0.0.1:0", "--log-type", "json"]).args(more);
    Process::spawn("seawall", &mut command)
}

fn once(stand: &Stand, vault: &Path) {
    run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(vault)).ok();
}

/// The link to a database, from the list.
fn link<'a>(list: &'a str, name: &str) -> &'a str {
    let wanted = format!("><bdi>{name}</bdi>");
    let (before, _) = list.split_once(&wanted).unwrap_or_else(|| panic!("no {name} in {list}"));
    before.rsplit_once("href=\"").expect("a link").1.trim_end_matches('"')
}

#[test]
fn a_restore_from_a_prefix_is_planned_on_the_page_and_done() {
    let stand = Stand::folder(Random::from_env().seed());
    let backups = stand.path("backups");
    let mut app = stand.app();
    app.commit(5);
    let vault = backups.join("eu/shop");
    once(&stand, &vault);
    let wanted = digest::of(&stand.db());
    let position = run("seawall", stand.command().args(["timeline", "--json"]).arg(&vault)).ok().json();
    let position = position["spans"].as_array().unwrap().last().unwrap()["to"]["position"].as_str().unwrap().to_owned();
    app.commit(4);
    once(&stand, &vault);
    run("seawall", stand.command().args(["verify", "--restore"]).arg(&vault)).ok();
    copy_folder(&golden("lightningstream/native-basic/snapshots"), &backups.join("lightning"));
    std::fs::create_dir_all(backups.join("photos")).unwrap();
    std::fs::write(backups.join("photos/a.jpg"), "x").unwrap();
    let hostile = "<b>&x=1";
    std::fs::create_dir_all(backups.join(hostile).join("ltx/0")).unwrap();
    std::fs::write(backups.join(hostile).join("ltx/0/0000000000000001-0000000000000001.ltx"), "damage").unwrap();

    let mut seawall = show(&stand, backups.to_str().unwrap(), &[]);
    let address = address(&mut seawall);
    let list = page(&address, "/");
    for part in [
        "3 databases, ",
        "Databases 1 to 3 of 3.",
        "1 objects belong to no database",
        "eu/shop",
        "sqlite",
        "lmdb",
        "restored ",
    ] {
        assert!(list.contains(part), "{part} isn't in {list}");
    }
    assert!(!list.contains("<b>&") && list.contains("&lt;b&gt;&amp;x=1"), "{list}");
    assert!(page(&address, "/?q=shop").contains("Databases 1 to 1 of 1."));
    assert!(page(&address, "/?show=unproved").contains("Databases 1 to 2 of 2."));
    let proofs = page(&address, "/proofs");
    assert!(proofs.contains("1 database of 3 has a proof that holds"), "{proofs}");

    let shop = unescaped(link(&list, "eu/shop"));
    let database = page(&address, &shop);
    assert!(database.contains("<svg role=\"img\"") && database.contains(", level "), "{database}");
    let plan = page(&address, &format!("{shop}&at={position}"));
    let command = unescaped(between(&plan, "<pre tabindex=\"0\"><code>", "</code></pre>"));
    let expected = format!("seawall restore file://{} -o ./shop-restored.db --at {position}", vault.display());
    assert_eq!(command, expected);
    assert!(!stand.path("shop-restored.db").exists(), "a plan restores nothing");
    carry_out(&stand, "sh", &plan.replace("./shop-restored.db", stand.path("back.db").to_str().unwrap()));
    assert_eq!((model::check(&stand.path("back.db"), stand.seed), digest::of(&stand.path("back.db"))), (5, wanted));

    // A vault with damage is told on its own screen, and the others are shown.
    let told = page(&address, &unescaped(link(&list, "&lt;b&gt;&amp;x=1")));
    assert!(told.contains("no proof shows that it can be restored"), "{told}");
    for (target, status) in [("/database?name=nobody&vault=x", 404), ("/settings", 404), ("/live?screen=fleet", 404)] {
        assert_eq!(ask_host((&address, "localhost"), "GET", target, "", "").0, status, "{target}");
    }
    assert_eq!(ask_host((&address, "localhost"), "POST", "/do", "", "").0, 405);
    seawall.stop().ok();
}

#[test]
fn a_page_of_a_bucket_asks_only_when_somebody_looks() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(S3Server::start("a page", folder.path())).unwrap();
    let stand = Stand::folder(Random::from_env().seed());
    stand.app().commit(3);
    run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(server.url("all/one"))).ok();
    std::fs::write(stand.path("token"), TOKEN).unwrap();
    let more = ["--fresh", "1s", "--token-file", "token", "--path", "/sea"];
    let mut seawall = show(&stand, &server.url("all"), &more);
    let address = address(&mut seawall);
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let ask = |target: &str, headers: &str| ask_host((&address, "localhost"), "GET", target, headers, "");
    assert_eq!(ask("/sea/", "").0, 401);
    let (status, _, body) = ask("/sea/", &bearer);
    assert!(status == 200 && body.contains("href=\"/sea/database?name=one&amp;vault=s3"), "{status} {body}");
    // Another vault comes, and is there once the listing is old.
    std::fs::remove_dir_all(stand.state()).unwrap();
    run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(server.url("all/two"))).ok();
    wait::until("the second vault on the page", wait::SOON, || {
        let body = ask("/sea/", &bearer).2;
        body.contains("<bdi>two</bdi>").then_some(())
    });
    // The store is away: what was known is shown, and that it is old.
    drop(server);
    wait::until("the failure on the page", wait::SOON, || {
        let body = ask("/sea/", &bearer).2;
        (body.contains("The prefix can&apos;t be listed now") || body.contains("The prefix can't be listed now"))
            .then(|| assert!(body.contains("<bdi>two</bdi>"), "{body}"))
    });
    assert!(!seawall.stderr().contains(TOKEN), "the token is in the log");
    seawall.stop().ok();
}

#[test]
fn a_vault_that_is_gone_is_told_as_gone() {
    let stand = Stand::folder(Random::from_env().seed());
    let backups = stand.path("backups");
    stand.app().commit(3);
    once(&stand, &backups.join("one"));
    copy_folder(&backups.join("one"), &backups.join("two"));
    let mut seawall = show(&stand, backups.to_str().unwrap(), &["--fresh", "1s"]);
    let address = address(&mut seawall);
    let list = page(&address, "/");
    assert!(list.contains("2 databases, ") && !list.contains("it is gone"), "{list}");
    // No base: what is left restores nothing.
    std::fs::remove_dir_all(backups.join("two")).unwrap();
    wait::until("the vault that is gone", wait::SOON, || {
        let list = page(&address, "/");
        list.contains("it is gone: ").then(|| assert!(list.contains("1 of which something isn't known"), "{list}"))
    });
    assert!(page(&address, "/?show=alarms").contains("Databases 1 to 1 of 1."));
    seawall.stop().ok();
}

#[test]
fn a_page_that_cannot_begin_says_why() {
    let stand = Stand::folder(Random::from_env().seed());
    let missing = stand.path("missing");
    let place = missing.to_str().unwrap();
    std::fs::create_dir_all(stand.path("empty")).unwrap();
    std::fs::write(stand.path("short"), "short").unwrap();
    for (arguments, code, exit) in [
        (&["web", "empty", "--listen", "0.0.0.0:0"][..], "config.unsafe", 2),
        (&["web", "empty", "--host", "backup.example.org"], "config.unsafe", 2),
        (&["web", "empty", "--listen", "somewhere"], "usage.arguments", 2),
        (&["web", "empty", "--token-file", "short"], "usage.arguments", 2),
        (&["web", "empty", "--token-file", "nowhere"], "usage.arguments", 2),
        (&["web", "empty", "--path", "no/slash"], "usage.arguments", 2),
        (&["web", "empty", "--host", "a:80"], "usage.arguments", 2),
        (&["web", place], "vault.missing", 1),
        (&["fleet", place], "vault.missing", 1),
    ] {
        let told = stand.seawall(arguments);
        assert!(told.stderr.contains(code), "{arguments:?}: {told}");
        assert_eq!(told.code(), exit, "{arguments:?}: {told}");
    }
    assert!(!missing.exists());
    let mut seawall = show(&stand, "empty", &[]);
    let address = address(&mut seawall);
    assert!(page(&address, "/").contains("No database has its vault here."));
    // A proxy without a token brings everyone.
    let brought = ask_host((&address, "localhost"), "GET", "/", "x-forwarded-for: 192.0.2.1\r\n", "");
    assert!(brought.0 == 403 && brought.2.contains("--token-file"), "{brought:?}");
    // The address is taken.
    let taken = stand.seawall(&["web", "empty", "--listen", &address]);
    assert!(taken.stderr.contains("agent.listen"), "{taken}");
    seawall.stop().ok();
}
