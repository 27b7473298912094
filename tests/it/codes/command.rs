//! Codes of the command line and of a configuration.

use super::{Case, raise, raise_as};

pub(super) const CASES: &[Case] = &[
    raise("usage.arguments", "ask restore ./vault --no-such-flag"),
    raise("usage.filter", "ask fleet . --filter colour=red"),
    raise("usage.format", "ask backup postgresql://r@h/d ./v --format papyrus"),
    raise("usage.keep", "ask maintain ./vault --keep soon"),
    raise("usage.not-shared", "ask restore ./vault -o b.db --as-new"),
    raise("usage.no-output", "ask restore ./vault"),
    raise("usage.no-policy", "ask maintain ./vault"),
    raise("usage.server", "ask backup gopher://h/d ./v"),
    raise("usage.silence", "ask silence app --for 31d"),
    raise("usage.source", "ask replicate app.db ./new --once --recursive"),
    raise_as("usage.wal-file", 126, "seawall wal fetch nonsense out --vault ./vault --json"),
    raise("usage.when", "ask restore ./vault -o b.db --at yesterday-ish"),
    raise("copy.empty", "mkdir none; ask copy ./none ./to"),
    raise("copy.encrypted", "ask copy ./vault ./locked"),
    raise("copy.no-part", "ask copy ./many ./to --at latest"),
    raise(
        "copy.other-history",
        "cp -a other to; for f in to/ltx/*/*; do mv $f $(echo $f | sed s/00000000000000/000000000000f0/g); done; ask copy ./vault ./to",
    ),
    raise("copy.same-place", "ask copy ./vault ./vault"),
    raise("copy.several", "ask copy ./many ./to --recipient $(cat owner.pub)"),
    raise("proof.scratch", "ask verify ./vault --restore --scratch /proc/nowhere"),
    raise("command.empty-vault", "mkdir none; ask restore ./none --all -o back"),
    raise("command.exists", "ask init ./v --yes -o app.db"),
    raise("command.no-folder", "touch file; ask restore ./many --all -o file/below"),
    raise("command.no-runtime", "ulimit -n 5; ask timeline ./vault"),
    raise("command.no-state", "rm seawall.yml; mkdir none; cd none; ask status"),
    raise("command.no-terminal", "seawall ui"),
    raise("command.unknown-code", "ask explain no.code"),
    raise("command.unknown-source", "ask timeline nothing"),
    raise(
        "config.contradiction",
        "conf c.yml 'databases:' '  - { path: app.db, vault: v, vaults: [v, w] }'; ask config check --config c.yml",
    ),
    raise(
        "config.duplicate",
        "conf c.yml 'databases:' '  - { path: app.db, vault: v }' '  - { path: app.db, vault: w }'; ask config check --config c.yml",
    ),
    raise("config.missing-key", "conf c.yml 'databases:' '  - { path: app.db }'; ask config check --config c.yml"),
    raise("config.no-databases", "conf c.yml 'databases: []'; ask replicate --config c.yml"),
    raise("config.none", "mkdir none; cd none; ask config check"),
    raise("config.syntax", "conf c.yml 'databases: ['; ask config check --config c.yml"),
    raise(
        "config.undefined-variable",
        "conf c.yml 'databases:' '  - { path: \"${NOTHING}\", vault: v }'; ask config check --config c.yml",
    ),
    raise(
        "config.unknown-key",
        "conf c.yml 'databases:' '  - { path: app.db, vault: v, vaullt: w }'; ask config check --config c.yml",
    ),
    raise("config.unreadable", "ask config check --config none.yml"),
    raise(
        "config.unsafe",
        "conf c.yml 'web: { listen: \"0.0.0.0:1\" }' 'databases: []'; ask config check --config c.yml",
    ),
    raise(
        "config.value",
        "conf c.yml 'databases:' '  - { path: app.db, vault: v, sync-interval: soon }'; ask config check --config c.yml",
    ),
    raise(
        "config.vault",
        "conf c.yml 'databases:' '  - { path: app.db, vault: gopher://h/v }'; ask config check --config c.yml",
    ),
    raise("notify.none", "ask notify test"),
    raise(
        "notify.unknown-channel",
        "conf more 'notify:' '  - { name: pager, type: command, command: [ false ] }'; cat more >> seawall.yml; ask notify test bell",
    ),
    raise(
        "notify.failed",
        "conf more 'notify:' '  - { name: pager, type: command, command: [ \"false\" ] }'; cat more >> seawall.yml; ask notify test",
    ),
    raise_as(
        "notify.test",
        0,
        "conf more 'notify:' '  - { name: pager, type: command, command: [ sh, -c, cat > told ] }'; cat more >> seawall.yml; ask notify test > done.log; cat told",
    ),
    raise("dump.io", "ask config import none.conf"),
    raise("dump.settings", "echo nonsense > x.conf; ask config import x.conf"),
    raise("dump.sidecar", "gzip -c seawall.yml > x.sql.gz; echo nonsense > x.sql.gz.sha256; ask verify x.sql.gz"),
    raise("copy.sealed-names", "ask copy ./locked 's3://empty/app?region=x&endpoint=http://127.0.0.1:'$S3"),
    raise("demo.sqlite", "trap '' XFSZ; ulimit -f 8; ask demo"),
    raise(
        "proof.no-room",
        "unshare -rm true 2> /dev/null || exit 77; mkdir small; unshare -rm sh -c 'mount -t tmpfs -o size=8k none small && exec seawall verify ./vault --restore --scratch small --json'",
    ),
];
