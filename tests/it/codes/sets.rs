//! Codes of the backups of a real server. Each folder also has `sets`, with a backup of the database `shop`; for PostgreSQL also `plain`, with
//! what `pg_dump` wrote. `$SHOP` is the URL of that database, `$ALL` that of the server, `$NEW` that of a database that isn't there.

use super::{Case, raise, raise_as};

/// What makes the folders.
pub(super) const POSTGRES_FOLDER: &str =
    r#"ready backup "$SHOP" ./sets; ready backup "$SHOP" ./plain --format plain; ready backup "$ALL" ./whole"#;

/// What makes the folders.
pub(super) const MYSQL_FOLDER: &str = r#"ready backup "$SHOP" ./sets; ready backup "$ALL" ./whole"#;

/// Those of any engine of servers are raised with PostgreSQL.
pub(super) const POSTGRES: &[Case] = &[
    raise_as(
        "archive.broken-chain",
        1,
        "ready backup \"$SHOP\" ./sets; ready backup \"$SHOP\" ./other-sets; cp other-sets/chain/00000001.json sets/chain/00000001.json; ask verify ./sets",
    ),
    raise(
        "archive.folder-in-use",
        "ready backup \"$SHOP\" ./dir --format directory; mkdir x; touch x/y; ask restore ./dir -o x --force",
    ),
    raise("archive.io", "touch file; ask restore ./plain -o file/x.sql"),
    raise("archive.no-integrity", "ask restore ./plain -o x.sql --integrity full"),
    raise("archive.no-set", "ask restore ./sets --to \"$NEW\" --at 20200101T000000000Z-00000000"),
    raise("archive.only-sets", "ask restore ./sets -o x.db"),
    raise("archive.target-exists", "ask restore ./plain -o app.db"),
    raise(
        "archive.unreadable-link",
        "ready backup \"$SHOP\" ./sets; echo { > sets/chain/00000002.json; ask restore ./sets --to \"$NEW\"",
    ),
    raise("archive.other-database", "ask backup \"$ALL\" ./sets"),
    raise("archive.corrupt", "for f in sets/sets/*/*.zst; do echo x > $f; done; ask restore ./sets --to \"$NEW\""),
    raise(
        "postgres.no-file",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: '$SHOP', name: app, vault: sets, schedule: '0 3 * * *' }\"; ask restore app -o x.sql",
    ),
    raise("postgres.no-table", "ask restore ./sets --to \"$NEW\" --table public.none"),
    raise("postgres.which-database", "ask restore ./whole --to \"$ALL\" --table public.t"),
    raise("postgres.not-empty", "ask restore ./sets --to \"$SHOP\""),
    raise(
        "postgres.not-backed-up",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: 'postgresql://r@127.0.0.1:1/d', name: app, vault: w, schedule: '0 3 * * *' }\"; up; ask sync app --wait",
    ),
    raise(
        "postgres.interrupted",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: 'postgresql://r@127.0.0.1:$HOLE/d', name: app, vault: w, schedule: '0 3 * * *' }\"; for try in 1 2 3; do behind seawall replicate --once --json; appears protecting log; sleep 0.3; kill -INT $pid 2> /dev/null || true; appears 'second signal' log; until ! kill -INT $pid 2> /dev/null || grep -q 'stopping at once' log; do sleep 0.05; done; wait $pid && code=0 || code=$?; if grep -q postgres.interrupted out; then break; fi; done; cat out; exit $code",
    ),
    raise("postgres.tool", "ask backup \"$SHOP\" ./w --format custom --pg-bindir /nowhere"),
    raise("bench.unencrypted", "ask bench \"$SHOP\" ./locked"),
    raise("log.not-a-segment", "seq 99 > 000000010000000000000001; ask wal push 000000010000000000000001 --vault ./w"),
    raise_as("log.none", 126, "ask wal fetch 000000010000000000000001 x --vault ./w"),
    raise(
        "postgres.no-contents",
        "ready backup \"$ALL\" ./base --physical; ready backup \"$ALL\" ./base --physical; ask compare ./base -1d",
    ),
    raise_as("postgres.io", 126, "ask wal fetch 000000010000000000000001 x --handed-over none.json"),
];

pub(super) const MYSQL: &[Case] = &[
    raise(
        "mysql.no-file",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: '$SHOP', name: app, vault: sets, schedule: '0 3 * * *' }\"; ask restore app -o x.sql",
    ),
    raise("mysql.no-table", "ask restore ./sets --to \"$NEW\" --table none"),
    raise("mysql.which-database", "ask restore ./whole --to \"$ALL\" --table t"),
    raise("mysql.system-database", "ask backup \"$(echo \"$SHOP\" | sed s/shop/mysql/)\" ./w"),
    raise("mysql.not-ready", "ask restore ./sets --to \"$SHOP\""),
    raise(
        "mysql.not-backed-up",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: 'mysql://r@127.0.0.1:1/d', name: app, vault: w, schedule: '0 3 * * *' }\"; up; ask sync app --wait",
    ),
    raise(
        "mysql.interrupted",
        "conf seawall.yml 'socket: { path: s.sock }' 'databases:' \"  - { url: 'mysql://r@127.0.0.1:$HOLE/d', name: app, vault: w, schedule: '0 3 * * *' }\"; for try in 1 2 3; do behind seawall replicate --once --json; appears protecting log; sleep 0.3; kill -INT $pid 2> /dev/null || true; appears 'second signal' log; until ! kill -INT $pid 2> /dev/null || grep -q 'stopping at once' log; do sleep 0.05; done; wait $pid && code=0 || code=$?; if grep -q mysql.interrupted out; then break; fi; done; cat out; exit $code",
    ),
    raise("mysql.password", "ask backup mysql://e1045@127.0.0.1:$MYSQL/d ./v"),
];

/// Those that need both servers: `$OTHER` is the URL of the other one.
pub(super) const BOTH: &[Case] = &[raise("mysql.other-engine", "ask restore ./sets --to \"$OTHER\"")];
