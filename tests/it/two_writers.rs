//! Two replicators of one database, or of one vault: the second is refused, and the first one's data isn't touched.

use seawall_tests::{App, Process, Random, Stand, model, wait};

#[test]
fn a_second_process_on_the_same_database_is_refused() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut first = stand.replicate();
    stand.until_protected(&mut first);
    let mut second = stand.replicate();
    let output = second.wait(wait::SOON).exits(1);
    assert!(output.stderr.contains('[') && output.stderr.contains("lock"), "{output}");
    let output = stand.replicate_with(&["--once"]).wait(wait::SOON).exits(1);
    assert!(output.stderr.contains("lock"), "{output}");
    app.commit(10);
    first.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
    stand.replicate_once();
}

#[test]
fn a_lock_ends_with_its_process() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut first = stand.replicate();
    stand.until_protected(&mut first);
    first.kill_9();
    app.commit(10);
    stand.replicate_once();
    assert_eq!(model::check(&stand.restore(), stand.seed), 20);
}

#[test]
fn two_databases_into_one_vault_do_not_mix() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut first = stand.replicate();
    stand.until_protected(&mut first);
    let other = stand.path("other.db");
    let mut stranger = App::start(&other, stand.seed + 1);
    stranger.commit(300);
    let mut command = stand.command();
    command.arg("replicate").arg(&other).arg(stand.place.url());
    let mut second = Process::spawn("seawall (other.db)", &mut command);
    for _ in 0..20 {
        app.commit(5);
        stranger.commit(5);
        wait::pass(std::time::Duration::from_millis(20));
    }
    // The refused process gets a code, and the vault stays the first one's.
    let output = second.wait(wait::SOON).exits(1);
    assert!(output.stderr.contains('['), "{output}");
    first.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), app.committed());
}

#[test]
fn two_hosts_with_one_bucket_on_s3() {
    let stand = Stand::bucket(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(10);
    let mut first = stand.replicate();
    stand.until_protected(&mut first);
    let other = stand.path("other.db");
    let mut stranger = App::start(&other, stand.seed + 1);
    stranger.commit(300);
    let mut command = stand.command();
    command.arg("replicate").arg(&other).arg(stand.place.url());
    let mut second = Process::spawn("seawall (other.db)", &mut command);
    let mut ended = [false; 2];
    wait::until("one of the two to give way", wait::SOON, || {
        app.commit(5);
        stranger.commit(5);
        ended = [!first.running(), !second.running()];
        (ended != [false; 2]).then_some(())
    });
    let loser = if ended[0] { &mut first } else { &mut second };
    let output = loser.wait(wait::SOON).exits(1);
    assert!(output.stderr.contains('['), "{output}");
    // The vault holds one of the two databases, whole, up to the end.
    let back = stand.restore();
    let seed = if ended[0] { stand.seed + 1 } else { stand.seed };
    model::check(&back, seed);
    stand.seawall(&["verify", &stand.place.url()]).ok();
}

#[test]
fn equal_names_on_two_stores_are_two_vaults_on_s3() {
    let (one, two) = (Stand::bucket_at(1, "app"), Stand::bucket_at(2, "app"));
    let (mut app_one, mut app_two) = (one.app(), two.app());
    let (mut first, mut second) = (one.replicate(), two.replicate());
    app_one.commit(10);
    app_two.commit(20);
    one.until_protected(&mut first);
    two.until_protected(&mut second);
    first.stop().ok();
    second.stop().ok();
    assert_eq!(model::check(&one.restore(), 1), 10);
    assert_eq!(model::check(&two.restore(), 2), 20);
}
