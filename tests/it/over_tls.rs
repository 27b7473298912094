//! An S3 server with a certificate that only `AWS_CA_BUNDLE` makes trusted. With the variable set, Litestream v0.5.18
//! can't start.

use seawall_tests::{Process, Random, S3Server, Stand, digest, run, wait};

#[test]
fn a_bundle_of_certificates_is_trusted_from_the_first_capture_to_the_restore_on_s3() {
    let stand = Stand::bucket_over_tls(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(20);
    let with_bundle = || {
        let mut command = stand.command();
        command.env("AWS_CA_BUNDLE", S3Server::authority());
        command
    };
    let mut seawall = Process::spawn("seawall", with_bundle().arg("replicate").arg(stand.db()).arg(stand.place.url()));
    let before = stand.until_protected(&mut seawall);
    app.commit(5);
    wait::until("the commits to be in the bucket", wait::SOON, || (stand.place.newest() > before).then_some(()));
    seawall.stop().ok();
    let back = stand.new_file();
    run("seawall", with_bundle().arg("restore").arg(stand.place.url()).arg("-o").arg(&back)).ok();
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    // The same through a litestream.yml, which knows no key for it.
    app.commit(5);
    let config = stand.litestream_yml("");
    run("seawall", with_bundle().args(["replicate", "--once", "--config"]).arg(&config)).ok();
    let back = stand.new_file();
    run("seawall", with_bundle().args(["restore", "--config"]).arg(&config).arg(stand.db()).arg("-o").arg(&back)).ok();
    assert_eq!(digest::of(&back), digest::of(&stand.db()));
    run("seawall", with_bundle().arg("verify").arg(stand.place.url())).ok();
}

#[test]
fn without_the_bundle_or_with_a_wrong_one_nothing_is_sent_on_s3() {
    let stand = Stand::bucket_over_tls(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let garbage = stand.path("garbage.pem");
    std::fs::write(&garbage, "no certificate").unwrap();
    for (bundle, exit, code) in [(None, 1, "vault.unavailable"), (Some(&garbage), 2, "vault.url")] {
        let mut command = stand.command();
        bundle.map(|bundle| command.env("AWS_CA_BUNDLE", bundle));
        let output = run("seawall", command.args(["timeline"]).arg(stand.place.url())).exits(exit);
        assert!(output.stderr.contains(code) && output.stderr.to_lowercase().contains("certificate"), "{output}");
    }
    assert_eq!(stand.place.newest(), 0);
}
