//! Codes of vaults: folders, and stores whose answers a stand-in gives. The stand-in for S3 answers every request as the bucket's name asks:
//! `a403-AccessDenied` with status 403 and this code.

use super::{Case, raise, raise_as};

pub(super) const CASES: &[Case] = &[
    raise(
        "vault.altered",
        "for f in locked/ltx/9/*; do printf XX | dd of=$f bs=1 seek=$(($(stat -c %s $f) - 40)) conv=notrunc 2> dd.log; done; ask restore ./locked -o b.db --identity owner.key",
    ),
    raise("vault.denied", "ask fleet 's3://a403-AccessDenied/app?region=x&endpoint=http://127.0.0.1:'$S3"),
    raise("vault.encrypted", "ask restore ./locked -o b.db"),
    raise(
        "vault.encryption",
        "echo { > locked/seawall/encryption.json; ask restore ./locked -o b.db --identity owner.key",
    ),
    raise(
        "vault.exchanged",
        "cp locked/ltx/9/* locked/ltx/0/$(ls locked/ltx/0 | tail -1); ask verify ./locked --identity owner.key",
    ),
    raise(
        "vault.foreign",
        "for f in locked/seawall/encryption/*; do case $f in *canary*) ;; *) rm $f;; esac; done; ask verify ./locked --identity owner.key",
    ),
    raise("vault.full", "ask replicate app.db 's3://a507/app?region=x&endpoint=http://127.0.0.1:'$S3 --once"),
    raise(
        "vault.host-keys",
        "for f in .other.db-seawall/keys/*; do echo x > $f; done; ask replicate other.db ./locked --once --recipient $(cat owner.pub)",
    ),
    raise("vault.key", "ask ltx info \"s3://b/a/$(printf '\\001').ltx?region=x&endpoint=http://127.0.0.1:$S3\""),
    raise("vault.key-file", "ask vault init ./new --generate -o app.db"),
    raise("vault.keys", "ask replicate app.db ./new --once --recipient age1nonsense"),
    raise("vault.missing", "ask fleet 's3://a404-NoSuchBucket/app?region=x&endpoint=http://127.0.0.1:'$S3"),
    raise("vault.no-folder", "touch file; ask replicate app.db ./file/vault --once"),
    raise(
        "vault.no-key",
        "ready vault init ./other-locked --generate -o stranger.key; ask restore ./locked -o b.db --identity stranger.key",
    ),
    raise("vault.no-versions", "ask restore ./vault -o b.db --as-stored-at -2h"),
    raise("vault.not-encrypted", "ask replicate app.db ./vault --once --recipient $(cat owner.pub)"),
    raise("vault.not-found", "ask lmdb snapshots get none"),
    raise(
        "vault.other",
        "ready vault init ./l2 --recipient $(cat owner.pub); ready replicate app.db ./l2 --once --recipient $(cat owner.pub); cp l2/ltx/9/*1-*1.ltx locked/ltx/9/; ask verify ./locked --identity owner.key",
    ),
    raise_as("vault.passed-over", 3, "ln -s /etc many/link; ask fleet ./many"),
    raise("vault.plaintext", "cp vault/ltx/9/*1-*.ltx locked/ltx/9/; ask verify ./locked --identity owner.key"),
    raise(
        "vault.recipient-goes",
        "ready vault init ./l2 --generate -o two.key; ask vault rekey ./locked --identity owner.key --recipient $(grep -o 'age1[a-z0-9]*' two.key)",
    ),
    raise(
        "vault.recipients",
        "ready vault init ./l2 --generate -o two.key; ask replicate other.db ./locked --once --recipient $(grep -o 'age1[a-z0-9]*' two.key)",
    ),
    raise_as(
        "vault.replaced",
        0,
        "up --log-type json; mv vault gone; mkdir vault; printf 'commit 1\\n' | writer app.db; appears vault.replaced log; cat log",
    ),
    raise("vault.short", "ask ltx info 's3://a416/app/x.ltx?region=x&endpoint=http://127.0.0.1:'$S3"),
    raise("vault.unavailable", "ask fleet 's3://b/app?region=x&endpoint=http://127.0.0.1:1'"),
    raise("vault.url", "ask replicate app.db 's3://b/app?no-such=1' --once"),
    raise_as(
        "vault.vanished",
        0,
        "up; mv vault gone; for i in $(seq 900); do ask status > st; grep -q vault.vanished st && break; sleep 0.1; done; cat st",
    ),
];
