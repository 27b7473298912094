//! The folder in which cases run: databases, their vaults, a key, configurations, and the words of the shell.
//!
//! | name | is |
//! |---|---|
//! | `app.db`, `vault` | a SQLite database, and its vault |
//! | `other.db`, `other` | another one |
//! | `many` | a prefix with a copy of both vaults |
//! | `locked`, `owner.key`, `owner.pub` | an encrypted vault of `other.db`, the key that reads it, its recipient |
//! | `seawall.yml` | the configuration of `app`, with the control socket `s.sock` |
//! | `env`, `store`, `env.yml`, `lightningstream.yaml` | an LMDB environment, its vault, and its configurations |
//! | `$LTX`, `$GOLDEN` | the golden files |

use std::path::{Path, PathBuf};
use std::process::Command;

use seawall_tests::{Output, golden, run, seawall};
use tempfile::TempDir;

use super::stand_ins;

/// Words of every case. A process that a case began is ended with it.
const WORDS: &str = r#"set -e
ask() { command seawall "$@" --json; }                      # the command that is judged
ready() { command seawall "$@" > ready.log 2>&1 || { cat ready.log >&2; exit 99; }; rm ready.log; }
conf() { file=$1; shift; printf '%s\n' "$@" > "$file"; }    # conf FILE LINE...
writer() { while read -r line; do echo "$line"; done | seawall-test-writer "$1" 0 4096 > /dev/null; }
bound() {                                                   # permissions bind the superuser as well
    if [ "$(id -u)" = 0 ]; then setpriv --inh-caps=-all --bounding-set=-dac_override,-dac_read_search,-fowner "$@"; else "$@"; fi
}
pids=
trap 'kill -9 $pids 2> /dev/null || :' EXIT
lives() { kill -0 $pid && ! grep -q "State:.Z" /proc/$pid/status; }
behind() { rm -f out log; touch out log; "$@" > out 2> log & pid=$!; pids="$pids $pid"; }
up() { behind seawall replicate "$@"; until [ -S s.sock ] && seawall info > /dev/null 2>&1; do lives; sleep 0.05; done; }
outcome() { wait $pid && code=0 || code=$?; cat out; cat log >&2; exit $code; }
appears() { until grep -q "$1" "$2"; do lives; sleep 0.05; done; }
app() { mkfifo lines; seawall-test-writer "$1" 0 4096 < lines > answers & pids="$pids $!"; exec 9> lines; said 1; }
said() { until [ "$(grep -c '^ok' answers)" = "$1" ]; do sleep 0.05; done; }
"#;

const FOLDER: &str = r"printf 'commit 5\n' | writer app.db
ready replicate app.db ./vault --once
printf 'commit 5\n' | writer app.db
ready replicate app.db ./vault --once
printf 'commit 7\n' | writer other.db
ready replicate other.db ./other --once
mkdir many store golden-store
cp -a vault many/a
cp -a other many/b
ready vault init ./locked --generate -o owner.key
grep -o 'age1[a-z0-9]*' owner.key > owner.pub
ready replicate other.db ./locked --once --recipient $(cat owner.pub)
conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: app.db, name: app, vault: vault }'
cp $GOLDEN/lightningstream/shadow-basic/snapshots/* golden-store
GOLDEN_LMDB=$PWD/env GOLDEN_STORE=$PWD/golden-store ready lmdb receive --config $GOLDEN/lightningstream/shadow-basic/config.yaml --instance r --only-once
rm -r golden-store
conf env.yml 'socket: { path: s.sock }' 'databases:' '  - { path: env, name: shard, vault: store, lmdb: { instance: a, create: true, map-size: 64MiB } }'
conf lightningstream.yaml 'storage: { type: fs, options: { root_path: store } }' 'lmdbs: { shard: { path: env } }'
ready replicate --config env.yml --once
";

/// A folder, and stand-ins for stores and servers that it shares with its copies.
pub(super) struct Stage {
    dir: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Stage {
    /// One with databases and vaults.
    pub(super) fn new() -> Self {
        let stage = Self::empty();
        let stage = Self { variables: stand_ins::begin(stage.dir.path()), ..stage };
        stage.run(FOLDER).ok();
        stage
    }

    /// One with nothing in it.
    pub(super) fn empty() -> Self {
        let dir = TempDir::with_prefix("seawall-codes-").unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        Self { dir, variables: Vec::new() }
    }

    /// The same, with more variables.
    pub(super) fn with<const N: usize>(mut self, more: [(&'static str, String); N]) -> Self {
        self.variables.extend(more);
        self
    }

    /// A copy of this one.
    pub(super) fn fresh(&self) -> Self {
        let dir = TempDir::with_prefix("seawall-codes-").unwrap();
        let copied = Command::new("cp").arg("-a").arg(self.folder()).arg(dir.path()).status().unwrap();
        assert!(copied.success());
        Self { dir, variables: self.variables.clone() }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    /// Runs lines of shell.
    pub(super) fn run(&self, script: &str) -> Output {
        let folder = self.folder();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{WORDS}{script}")).current_dir(&folder).env_clear();
        let ours = folder.join("../bin");
        if !ours.exists() {
            std::fs::create_dir(&ours).unwrap();
            let program = seawall();
            let writer = program.with_file_name("seawall-test-writer");
            let writer = if writer.exists() { writer } else { beside() };
            std::os::unix::fs::symlink(program, ours.join("seawall")).unwrap();
            std::os::unix::fs::symlink(writer, ours.join("seawall-test-writer")).unwrap();
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", ours.display())).env("HOME", &folder);
        // Locks of vaults are there: those of a case are its own.
        let temporary = self.dir.path().join("tmp");
        std::fs::create_dir_all(&temporary).unwrap();
        command.env("TMPDIR", temporary).env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        let ltx = golden();
        command.env("GOLDEN", ltx.parent().unwrap_or(Path::new("/"))).env("LTX", &ltx);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        run("a case", &mut command)
    }
}

/// The writer that cargo built with this test.
fn beside() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.ancestors().nth(2).unwrap().join("seawall-test-writer")
}
