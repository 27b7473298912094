//! Codes of SQLite databases, and of what reads a vault of one.

use super::{Case, raise, raise_as};

pub(super) const CASES: &[Case] = &[
    raise("sqlite.busy", "app app.db; echo sql PRAGMA locking_mode = EXCLUSIVE >&9; echo sql BEGIN EXCLUSIVE >&9; said 3; ask replicate app.db ./new --once"),
    raise("sqlite.corrupt", "printf '\\001' | dd of=other.db bs=1 seek=4096 conv=notrunc 2> dd.log; ready replicate other.db ./new --once; ask restore ./new -o b.db --integrity full"),
    raise("sqlite.corrupt-object", "for f in vault/ltx/*/*; do echo spoiled > $f; done; ask restore ./vault -o b.db"),
    raise("sqlite.cut", "truncate -s 4096 app.db; ask replicate app.db ./new --once"),
    raise("sqlite.damaged-wal", "app app.db; echo commit 9 >&9; said 2; dd if=/dev/urandom of=app.db-wal bs=1 seek=9000 count=50 conv=notrunc 2> dd.log; ask replicate app.db ./new --once"),
    raise("sqlite.denied", "mkdir shut; mv app.db shut; mkdir st; chmod 555 shut; conf c.yml 'databases:' '  - { path: shut/app.db, name: app, vault: new, state-dir: st }'; bound seawall replicate --config c.yml --once --json"),
    raise("sqlite.diverged", "behind seawall restore ./vault -o b.db --follow; until [ -s b.db ]; do sleep 0.1; done; kill $pid; wait $pid || :
        printf 'sql PRAGMA user_version = 7\\n' | writer b.db; ask restore ./vault -o b.db --follow"),
    raise("sqlite.empty", "touch empty.db; ask replicate empty.db ./new --once"),
    raise("sqlite.ends-early", "up; printf 'commit 2\\n' | writer app.db; ready sync app --wait; kill -9 $pid; sleep 0.2; rm vault/ltx/0/$(ls vault/ltx/0 | tail -1); ask restore app -o b.db"),
    raise("sqlite.interrupted", "for try in $(seq 20); do behind seawall replicate app.db 's3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE --json; appears protecting log; kill -INT $pid; appears 'second signal' log; until ! kill -INT $pid 2> /dev/null || grep -q 'stopping at once' log; do sleep 0.05; done; wait $pid && code=0 || code=$?; if grep -q sqlite.interrupted out; then break; fi; done; cat out; exit $code"),
    raise("sqlite.io", "ln -s loop.db loop.db; ask replicate loop.db ./new --once"),
    raise("sqlite.io-denied", "chmod 000 app.db; bound seawall replicate app.db ./new --once --json"),
    raise("sqlite.io-missing", "ask restore ./vault -o none/b.db"),
    raise("sqlite.locked", "up; ask replicate app.db ./new --once"),
    raise("sqlite.missing", "ask replicate none.db ./new --once"),
    raise("sqlite.no-page-index", "ask query $GOLDEN/litestream-0.3/replica 'SELECT 1'"),
    raise("sqlite.no-state", "printf 'commit 1\n' | writer third.db; ask status third.db"),
    raise("sqlite.not-a-database", "seq 999 > text.db; ask replicate text.db ./new --once"),
    raise("sqlite.not-checked", "printf \"sql CREATE TABLE t(a)\\nsql CREATE INDEX i ON t(a)\\nsql PRAGMA writable_schema = ON\\nsql UPDATE sqlite_schema SET sql = 'CREATE INDEX i ON t(a COLLATE own)' WHERE name = 'i'\\n\" | writer other.db
        ready replicate other.db ./new --once; ask restore ./new -o b.db --integrity full"),
    raise("sqlite.not-pinned", "ask pin ./vault --remove"),
    raise("sqlite.nothing-there", "mkdir none; ask restore ./none -o b.db"),
    raise("sqlite.out-of-txids", "cp $LTX/edge/txid-max.ltx vault/ltx/0/ffffffffffffffff-ffffffffffffffff.ltx; rm -r .app.db-seawall; ask replicate app.db ./vault --once"),
    raise("sqlite.target-exists", "ask restore ./vault -o other.db"),
    raise("sqlite.target-open", "up; ask restore ./other -o app.db --force"),
    raise("sqlite.unsafe-folder", "mkdir tmp; mkdir -m 777 tmp/seawall-$(id -u) tmp/seawall-locks-$(id -u); export TMPDIR=$PWD/tmp; ask replicate app.db ./new --once; ls -la tmp >&2"),
    raise("sqlite.went-back", "behind seawall restore ./vault -o b.db --follow; until [ -s b.db ]; do sleep 0.1; done; kill $pid; wait $pid || :
        rm -r vault/ltx/[1-9]; rm vault/ltx/0/$(ls vault/ltx/0 | tail -1); ask restore ./vault -o b.db --follow"),
    raise_as("sqlite.gave-up", 0, "conf seawall.yml 'socket: { path: s.sock }' 'databases:' '  - { path: app.db, name: app, vault: \"s3://b/app?region=x&endpoint=http://127.0.0.1:'$HOLE'\", wal-limit: 1MiB, sync-interval: 100ms }'; up; app app.db; echo sql PRAGMA wal_autocheckpoint = 0 >&9; echo commit 900 >&9; said 3; for i in $(seq 300); do ask status > st; grep -q gave-up st && break; sleep 0.1; done; cat st; tail -3 log >&2; ls -la >&2"),
    raise("query.damaged", "printf '\\377' | dd of=other.db bs=1 seek=4096 conv=notrunc 2> dd.log; ready replicate other.db ./new --once
        ask query ./new 'SELECT count(*) FROM rows'"),
    raise("query.not-sqlite", "ask query $GOLDEN/lightningstream/native-basic/snapshots 'SELECT 1'"),
    raise("query.read-only", "ask query ./vault 'DELETE FROM rows'"),
    raise("query.sql", "ask query ./vault 'SELEKT'"),
    raise("query.too-large", "ask query ./vault 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200) SELECT hex(zeroblob(1000000)) FROM n'"),
    raise("sqlite.disk-full", "unshare -rm true 2> /dev/null || exit 77; mkdir small; unshare -rm sh -c 'mount -t tmpfs -o size=8k none small && exec seawall restore ./vault -o small/b.db --json'"),
    raise("sqlite.read-only", "unshare -rm true 2> /dev/null || exit 77; mkdir small; unshare -rm sh -c 'mount -t tmpfs -o ro none small && exec seawall restore ./vault -o small/b.db --json'"),
    raise("sqlite.failed", "trap '' XFSZ; rm -f app.db-shm; ulimit -f 16; ask replicate app.db ./new --once"),
    raise_as("proof.failed", 0, "conf more 'hooks:' '  on-failure: [ sh, -c, \"echo [$SEAWALL_ERROR_CODE] > told\" ]'; cat more >> seawall.yml; for f in vault/ltx/9/* vault/ltx/0/*; do printf XX | dd of=$f bs=1 seek=300 conv=notrunc 2> dd.log; done; ask verify app --restore > doc || :; cat told >&2"),
];
