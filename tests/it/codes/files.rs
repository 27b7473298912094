//! Codes of single files: `seawall ltx`, and the demo.

use super::{Case, raise};

pub(super) const CASES: &[Case] = &[
    raise("ltx.beside", "seawall-test-writer app.db 0 4096 < /dev/null > /dev/null; head -c 5000 /dev/urandom > app.db-journal
        ask ltx apply --db app.db $LTX/chain-4096/0000000000000002-0000000000000002.ltx"),
    raise("ltx.checksum", "ask ltx verify $LTX/bad/commit-flip.ltx"),
    raise("ltx.database", "seq 999 > text.db; ask ltx checksum text.db"),
    raise("ltx.denied", "chmod 000 app.db; bound seawall ltx checksum app.db --json"),
    raise("ltx.exists", "ask ltx decode -o app.db $LTX/chain-512/0000000000000001-0000000000000001.ltx"),
    raise("ltx.frame", "ask ltx decode -o x.db $LTX/bad/end-marker-missing.ltx"),
    raise("ltx.gap", "cd $LTX/chain-512; ask ltx compact -o $OLDPWD/x.ltx 0000000000000001-0000000000000001.ltx 0000000000000003-0000000000000003.ltx"),
    raise("ltx.header", "ask ltx decode -o x.db $LTX/bad/hdr-flags-bit2.ltx"),
    raise("ltx.index", "ask ltx decode -o x.db $LTX/bad/index-empty.ltx"),
    raise("ltx.io", "mkdir folder; ask ltx decode -o x.db folder"),
    raise("ltx.merge", "cd $LTX; ask ltx compact -o $OLDPWD/x.ltx chain-512/0000000000000001-0000000000000001.ltx chain-4096/0000000000000002-0000000000000002.ltx"),
    raise("ltx.no-base", "ask ltx apply --db x.db $LTX/chain-512/0000000000000002-0000000000000002.ltx"),
    raise("ltx.no-lock", "printf 'sql PRAGMA locking_mode = EXCLUSIVE\\nsql BEGIN EXCLUSIVE\\n' > lines; (cat lines; sleep 30) | seawall-test-writer app.db 0 4096 > answers & pid=$!
        until [ $(grep -c ok answers) = 3 ]; do sleep 0.1; done; ask ltx encode-db -o x.ltx app.db"),
    raise("ltx.no-snapshot", "ask ltx decode -o x.db $LTX/chain-512/0000000000000002-0000000000000002.ltx"),
    raise("ltx.not-an-object", "ask ltx apply --db app.db file:///"),
    raise("ltx.not-found", "ask ltx info none.ltx"),
    raise("ltx.page-size", "ask ltx diff $LTX/chain-512/0000000000000001-0000000000000001.ltx $LTX/chain-4096/0000000000000001-0000000000000001.ltx"),
    raise("ltx.pages", "ask ltx verify $LTX/bad/lock-page.ltx"),
    raise("ltx.post-apply", "ready ltx decode -o x.db $LTX/chain-512/0000000000000001-0000000000000001.ltx
        ask ltx apply --touched-only --db x.db $LTX/edge/inc-no-pages.ltx"),
    raise("ltx.pre-apply", "ready ltx decode -o x.db $LTX/chain-512/0000000000000001-0000000000000001.ltx
        ask ltx apply --db x.db $LTX/chain-512/0000000000000003-0000000000000003.ltx"),
    raise("ltx.same-file", "cp $LTX/chain-512/0000000000000001-0000000000000001.ltx x.ltx; ask ltx compact -o x.ltx x.ltx"),
    raise("ltx.trailing", "ask ltx decode -o x.db $LTX/bad/trailing-byte.ltx"),
    raise("ltx.truncated", "ask ltx decode -o x.db $LTX/bad/cut-in-index.ltx"),
    raise("demo.folder", "mkdir shut; chmod 555 shut; cd shut; bound seawall demo --json"),
];
