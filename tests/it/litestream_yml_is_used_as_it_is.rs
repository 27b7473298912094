//! A `litestream.yml` with a file and an S3 replica, in both programs' hands without a change.

use std::fs;
use std::path::PathBuf;

use seawall_tests::{App, Place, Process, Random, Stand, digest, run, wait};

struct Two {
    stand: Stand,
    folder: Place,
    second: PathBuf,
    config: PathBuf,
}

/// Two databases: `app.db` goes to the bucket, `two.db` to a folder. The bucket's keys come from the environment.
fn two_databases() -> Two {
    let stand = Stand::bucket(Random::from_env().seed());
    let (second, config) = (stand.path("two.db"), stand.path("litestream.yml"));
    let folder = Place::Folder(stand.path("replica"));
    let Place::Bucket(server, prefix) = &stand.place else { unreachable!("made so above") };
    let text = format!(
        "# our databases\naccess-key-id: $AWS_ACCESS_KEY_ID\nsecret-access-key: ${{AWS_SECRET_ACCESS_KEY}}\n\ndbs:\n  \
         - path: {}\n    replica:\n      url: s3://{}/{prefix}\n      endpoint: {}\n      region: us-east-1\n      \
         force-path-style: true\n      sync-interval: 200ms\n  \
         - path: {}\n    monitor-interval: 500ms\n    replicas:\n      - type: file\n        path: {}\n",
        stand.db().display(),
        seawall_tests::S3Server::BUCKET,
        server.endpoint(),
        second.display(),
        stand.path("replica").display(),
    );
    fs::write(&config, text).unwrap();
    Two { stand, folder, second, config }
}

impl Two {
    fn restore_both(&self) {
        let config = self.config.to_str().unwrap();
        for db in [self.stand.db(), self.second.clone()] {
            let source = digest::without_litestream_tables(&db);
            let (ours, theirs) = (self.stand.new_file(), self.stand.new_file());
            self.stand
                .seawall(&["restore", "--config", config, "-o", ours.to_str().unwrap(), db.to_str().unwrap()])
                .ok();
            let mut command = self.stand.litestream_command();
            run("litestream", command.args(["restore", "-config", config, "-o"]).arg(&theirs).arg(&db)).ok();
            assert_eq!(digest::without_litestream_tables(&ours), source, "seawall, {}", db.display());
            assert_eq!(digest::without_litestream_tables(&theirs), source, "litestream, {}", db.display());
        }
    }
}

#[test]
fn with_a_file_and_an_s3_replica() {
    let two = two_databases();
    let config = two.config.to_str().unwrap();
    two.stand.seawall(&["config", "check", "--config", config]).ok();
    let mut apps = [two.stand.app(), App::start(&two.second, two.stand.seed)];
    for turn in 0..3 {
        let mut command = if turn == 1 { two.stand.litestream_command() } else { two.stand.command() };
        let before = (two.stand.place.newest(), two.folder.newest());
        for app in &mut apps {
            app.commit(20);
        }
        // Go's flags take two dashes as well.
        let mut process = Process::spawn("replicate", command.args(["replicate", "--config", config]));
        wait::until("both databases' first transactions", wait::SOON, || {
            (two.stand.place.newest() > before.0 && two.folder.newest() > before.1).then_some(())
        });
        for app in &mut apps {
            app.commit(50);
        }
        process.stop().ok();
        two.stand.place.unbroken();
        two.folder.unbroken();
        two.restore_both();
    }
}

#[test]
fn what_litestream_knows_and_we_do_not_is_said() {
    let two = two_databases();
    let config = two.config.to_str().unwrap();
    let text = fs::read_to_string(config).unwrap();
    fs::write(config, text.clone() + "    replica-of-nothing: 1\n").unwrap();
    let output = two.stand.seawall(&["config", "check", "--config", config]).ok();
    assert!((output.stdout.clone() + &output.stderr).contains("replica-of-nothing"), "{output}");
    fs::write(config, text + "logging: { source: true }\n").unwrap();
    let output = two.stand.seawall(&["config", "check", "--config", config]).exits(2);
    assert!(output.stderr.contains("source") && output.stderr.contains("config.unsupported"), "{output}");
}
