//! Codes of LMDB environments.

use super::{Case, raise, raise_as};

pub(super) const CASES: &[Case] = &[
    raise("lmdb.bad-name", "set -- store/*; ask lmdb snapshots put $1 --name nonsense"),
    raise_as("lmdb.bad-state", 1, "echo { > env/data.mdb-seawall.json; ask status --config env.yml"),
    raise(
        "lmdb.bad-snapshot",
        "for f in store/*; do echo spoiled > $f; done; ask restore shard --config env.yml -o back",
    ),
    raise("lmdb.corrupt", "head -c 100000 /dev/urandom > env/data.mdb; ask replicate --config env.yml --once"),
    raise("lmdb.denied", "chmod 444 env/data.mdb; bound seawall replicate --config env.yml --once --json"),
    raise("lmdb.empty", "rm -r env store; mkdir store; ask replicate --config env.yml --once"),
    raise("lmdb.exists", "ask lmdb snapshots get $(ls store | head -1) -o app.db"),
    raise(
        "lmdb.foreign-snapshot",
        "for f in store/*; do mv $f store/shard__b__20261121-193545-254819076__GX.pb.gz; done; ask verify ./store",
    ),
    raise(
        "lmdb.in-use",
        "behind seawall replicate --config env.yml; until [ -S s.sock ]; do sleep 0.1; done; ask restore shard --config env.yml --force",
    ),
    raise("lmdb.io", "rm -r env; touch env; ask replicate --config env.yml --once"),
    raise("lmdb.io-denied", "chmod 000 env; bound seawall replicate --config env.yml --once --json"),
    raise("lmdb.io-missing", "ask lmdb snapshots put shard__b__20261121-193545-254819076__GX.pb.gz"),
    raise(
        "lmdb.locked",
        "behind seawall replicate --config env.yml; until [ -S s.sock ]; do sleep 0.1; done; ask replicate --config env.yml --once",
    ),
    raise(
        "lmdb.missing",
        "rm -r env store; mkdir store; sed -i s/create:.true,// env.yml; ask replicate --config env.yml --once",
    ),
    raise("lmdb.no-pins", "ask pin shard --config env.yml"),
    raise("lmdb.no-state", "rm -r env; sed -i s/env,/env2,/ env.yml; ask status --config env.yml"),
    raise("lmdb.nothing-there", "rm store/*; ask restore shard --config env.yml -o back"),
    raise(
        "lmdb.not-the-sender",
        "rm -rf env .local; sed -i 's/instance: a,/instance: a, send-only: true,/' env.yml; cat env.yml >&2; ask replicate --config env.yml --once",
    ),
    raise_as(
        "lmdb.open-twice",
        3,
        "ln -s env env2; conf env.yml 'databases:' '  - { path: env, name: x, vault: store, lmdb: { instance: a } }' '  - { path: env2, name: y, vault: store2, lmdb: { instance: a } }'; ask replicate --config env.yml --once",
    ),
    raise(
        "lmdb.schema",
        "sed -i 's/instance: a,/instance: a, schema-tracks-changes: true,/' env.yml; ask replicate --config env.yml --once",
    ),
    raise(
        "lmdb.several-databases",
        "for f in store/shard__*; do cp $f store/$(basename $f | sed s/shard/second/); done; ask restore ./store -o back",
    ),
    raise("lmdb.unknown-schema", "ask restore ./store -o back"),
    raise("engine.no-follow", "ask restore shard --config env.yml -o back --follow"),
    raise(
        "lmdb.disk-full",
        "unshare -rm true 2> /dev/null || exit 77; mkdir small; sed -i s/env,/small,/ env.yml; unshare -rm sh -c 'mount -t tmpfs -o size=8k none small && exec seawall replicate --config env.yml --once --json'",
    ),
    raise(
        "lmdb.interrupted",
        "sed -i 's|vault: store|vault: \"s3://b/app?region=x\\&endpoint=http://127.0.0.1:'$HOLE'\"|' env.yml; for try in 1 2 3; do behind seawall replicate --config env.yml --json; appears protecting log; kill -INT $pid; appears 'second signal' log; until ! kill -INT $pid 2> /dev/null || grep -q 'stopping at once' log; do sleep 0.05; done; wait $pid && code=0 || code=$?; if grep -q lmdb.interrupted out; then break; fi; done; cat out; exit $code",
    ),
];
