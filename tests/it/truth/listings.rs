//! A store that answers with old listings: what it hides isn't gone, and nothing is written over it.

use seawall_tests::{OldListings, Place, Random, Stand, digest, model, wait};

/// A stand in a bucket, and a proxy that Seawall uses.
fn behind_a_proxy() -> (Stand, OldListings, String) {
    let stand = Stand::bucket(Random::from_env().seed());
    let Place::Bucket(server, _) = &stand.place else { unreachable!("it is a bucket") };
    let proxy = OldListings::before(server);
    let url = proxy.url(&stand.place);
    (stand, proxy, url)
}

fn server(stand: &Stand) -> &seawall_tests::S3Server {
    let Place::Bucket(server, _) = &stand.place else { unreachable!("it is a bucket") };
    server
}

fn once(stand: &Stand, url: &str) -> seawall_tests::Output {
    seawall_tests::run("seawall", stand.command().args(["replicate", "--once"]).arg(stand.db()).arg(url))
}

/// What is there beside the listing is all there, by the server's own listings.
fn nothing_is_lost(stand: &Stand, committed: u64) {
    let back = stand.restore();
    assert_eq!(model::check(&back, stand.seed), committed);
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    stand.seawall(&["verify", "--strong", &stand.place.url()]).ok();
}

#[test]
fn a_start_with_a_listing_of_yesterday_neither_claims_nor_overwrites_on_s3() {
    let (stand, mut proxy, url) = behind_a_proxy();
    let mut app = stand.app();
    app.commit(20);
    once(&stand, &url).ok();
    proxy.freeze(server(&stand));
    for _ in 0..2 {
        let committed = app.commit(5);
        let _told_or_not = once(&stand, &url);
        // A refusal is honest too. Success means that the commits are in the vault.
        if once(&stand, &url).code() == 0 {
            nothing_is_lost(&stand, committed);
        }
    }
    proxy.thaw(server(&stand));
    let committed = app.commit(5);
    let _told_once_more = once(&stand, &url);
    once(&stand, &url).ok();
    nothing_is_lost(&stand, committed);
}

/// The state is lost too, and the listing is from before the first object.
#[test]
fn a_new_host_with_an_empty_listing_writes_over_nothing_on_s3() {
    let (stand, mut proxy, url) = behind_a_proxy();
    proxy.freeze(server(&stand));
    let mut app = stand.app();
    let committed = app.commit(20);
    once(&stand, &stand.place.url()).ok();
    let held = digest::of(&stand.db());
    std::fs::remove_dir_all(stand.state()).unwrap();
    app.commit(5);
    let blind = once(&stand, &url);
    assert_ne!(blind.code(), 0, "objects that it can't see are in its way: {blind}");
    let back = stand.restore();
    assert_eq!((model::check(&back, stand.seed), digest::of(&back)), (committed, held));
    stand.seawall(&["verify", "--strong", &stand.place.url()]).ok();
    proxy.thaw(server(&stand));
    once(&stand, &url).ok();
    nothing_is_lost(&stand, app.committed());
}

#[test]
fn a_restore_by_name_from_an_old_listing_is_refused_on_s3() {
    let (stand, mut proxy, url) = behind_a_proxy();
    let config = stand.path("seawall.yml");
    std::fs::write(&config, format!("databases:\n  - {{ name: app, path: app.db, vault: '{url}' }}\n")).unwrap();
    let mut app = stand.app();
    app.commit(20);
    stand.seawall(&["replicate", "--once", "--config", "seawall.yml"]).ok();
    proxy.freeze(server(&stand));
    let mut process =
        seawall_tests::Process::spawn("seawall", stand.command().args(["replicate", "--config", "seawall.yml"]));
    stand.until_protected(&mut process);
    app.commit(5);
    let before = stand.place.newest();
    wait::until("a capture", wait::SOON, || (stand.place.newest() > before || stand.place.newest() > 2).then_some(()));
    stand.until_protected(&mut process);
    process.stop().ok();
    let refused = stand.seawall(&["restore", "app", "-o", "x.db", "--config", "seawall.yml"]).exits(1);
    assert!(refused.stderr.contains("[sqlite.ends-early]"), "{refused}");
    assert!(!stand.path("x.db").exists());
    let found = stand.seawall(&["verify", "app", "--json", "--config", "seawall.yml"]).exits(1).json();
    assert_eq!(found["findings"][0]["code"], "sqlite.ends-early", "{found}");
    proxy.thaw(server(&stand));
    stand.seawall(&["restore", "app", "-o", "x.db", "--config", "seawall.yml"]).ok();
    assert_eq!(model::check(&stand.path("x.db"), stand.seed), app.committed());
}
