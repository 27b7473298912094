//! Codes of the running process, and of the commands that ask it.

use super::{Case, raise, raise_as};

pub(super) const CASES: &[Case] = &[
    raise("agent.duplicate", "up; ask register other.db ./vault"),
    raise("agent.exec-command", "ask replicate app.db ./vault --exec 'a \"b'"),
    raise("agent.exec-failed", "ask replicate app.db ./vault --exec ./none"),
    raise(
        "agent.interrupted",
        "for try in $(seq 20); do behind seawall replicate app.db 's3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE --once --json; appears protecting log; kill -INT $pid; appears 'second signal' log; until ! kill -INT $pid 2> /dev/null || grep -q 'stopping at once' log; do sleep 0.05; done; wait $pid && code=0 || code=$?; if grep -q agent.interrupted out; then break; fi; done; cat out; exit $code",
    ),
    raise(
        "agent.needs-restart",
        "up; conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: e1, name: e1, vault: v1, lmdb: { instance: a, create: true } }' '  - { path: e2, name: e2, vault: v2, lmdb: { instance: a, create: true } }'; ask config reload",
    ),
    raise("agent.no-answer", "ask info --socket $JUNK"),
    raise(
        "agent.no-configuration",
        "behind seawall replicate app.db ./vault --socket s.sock; until [ -S s.sock ]; do sleep 0.1; done; ask config reload --socket s.sock",
    ),
    raise("agent.no-process", "ask info"),
    raise("agent.not-running", "up; ready stop app; ask sync app"),
    raise(
        "agent.not-started",
        "cp -a vault v2; for f in v2/ltx/*/*; do echo spoiled > $f; done; conf c.yml 'databases:' '  - { path: app.db, vault: vault }' '  - { path: none.db, vault: v2, restore-if-missing: true }'; ask replicate --config c.yml --exec true",
    ),
    raise("agent.refused", "ask sync app --socket $OTHER"),
    raise("agent.register", "up; ask register other.db ./new --name 'a/b'"),
    raise(
        "agent.registry",
        "up; ready register other.db ./new; for f in .local/state/seawall/*; do echo { > $f; done; printf 'commit 1\n' | writer third.db; ask register third.db ./v3",
    ),
    raise(
        "agent.shutdown-timeout",
        "conf seawall.yml 'shutdown-timeout: 1s' 'databases:' '  - { path: app.db, name: app, vault: \"s3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE'\" }'; behind seawall replicate --json; appears protecting log; kill $pid; outcome",
    ),
    raise(
        "agent.silence",
        "mv .app.db-seawall st; mkdir shut; mv st shut/.app.db-seawall; mv app.db shut; conf seawall.yml 'databases:' '  - { path: shut/app.db, name: app, vault: vault }'; chmod 555 shut/.app.db-seawall; bound seawall silence app --for 1h --json",
    ),
    raise(
        "agent.starting",
        "up; conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: app.db, name: app, vault: vault }' '  - { path: none.db, name: none, restore-if-missing: true, vault: \"s3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE'\" }'; (seawall config reload > re.log 2>&1 &); until seawall list | grep -q none; do sleep 0.05; done; ask sync none",
    ),
    raise(
        "agent.too-late",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: app.db, name: app, vault: \"s3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE'\" }'; up; ask sync app --wait --timeout 1",
    ),
    raise("agent.unknown-database", "up; ask sync nothing"),
    raise_as(
        "agent.unusable-name",
        3,
        "mkdir f; cp app.db f; mv app.db f/$(printf 'a\\377.db'); ask replicate ./f ./new --once",
    ),
    raise(
        "command.interrupted",
        "behind seawall fleet 's3://b/p?region=x&endpoint=http://127.0.0.1:'$HOLE --json; sleep 0.7; kill -INT $pid; outcome",
    ),
    raise_as(
        "alarm.disk",
        0,
        "conf seawall.yml 'socket: { path: s.sock }' 'alarms: { state-free: 900TiB }' 'databases:' '  - { path: app.db, name: app, vault: vault }'; up; for try in $(seq 200); do ask status > st; if grep -q alarm.disk st; then break; fi; sleep 0.1; done; cat st",
    ),
    raise(
        "agent.stopping",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: app.db, name: app, vault: \"s3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE'\" }'; up; kill -TERM $pid; appears stopping log; ask start app",
    ),
];
