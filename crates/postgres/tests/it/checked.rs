//! A constraint that is checked in the source is checked in a restored database, whatever its name is.

use seawall_postgres::RestoreOptions;
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, content, options, recover, vault};

/// Tables and keys with confusable names: table and key of one pair, joined, read like another pair. Also names with
/// quotes, dots and line breaks; keys of children and of partitions; and constraints that the source hasn't checked,
/// because rows contradict them.
const NAMES: &str = r#"
CREATE TABLE "a b" (id int PRIMARY KEY); INSERT INTO "a b" SELECT generate_series(1, 30);
CREATE TABLE pk (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE pk1 PARTITION OF pk FOR VALUES FROM (0) TO (15); CREATE TABLE "pk 2" PARTITION OF pk FOR VALUES FROM (15) TO (40);
INSERT INTO pk SELECT id FROM "a b";
CREATE TABLE a (x int CONSTRAINT "b c" REFERENCES "a b", y int CONSTRAINT c REFERENCES pk, z int CONSTRAINT "b ""c" REFERENCES "a b");
INSERT INTO a SELECT id, id, id FROM "a b";
ALTER TABLE "a b" ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES "a b", ADD CONSTRAINT "c"" d" FOREIGN KEY (id) REFERENCES pk;
CREATE SCHEMA "s.a ""b"; CREATE TABLE "s.a ""b"."a.b" (x int CONSTRAINT "c.d ADD CONSTRAINT e" REFERENCES public."a b");
CREATE TABLE "s.a ""b"."a
b" (x int CONSTRAINT "
c" REFERENCES public."a b", y int CONSTRAINT "c ""
FOREIGN KEY (" REFERENCES public."a b");
INSERT INTO "s.a ""b"."a.b" SELECT id FROM "a b"; INSERT INTO "s.a ""b"."a
b" SELECT id, id FROM "a b";
CREATE TABLE parent (id int, CONSTRAINT few CHECK (id > 0)); CREATE TABLE child () INHERITS (parent);
CREATE TABLE "child b" (CONSTRAINT own CHECK (id < 100)) INHERITS (parent);
ALTER TABLE child ADD CONSTRAINT "b c" FOREIGN KEY (id) REFERENCES "a b"; ALTER TABLE "child b" ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES pk;
INSERT INTO child SELECT id FROM "a b"; INSERT INTO "child b" SELECT id FROM "a b";
ALTER TABLE parent ADD CONSTRAINT open CHECK (id > 5) NOT VALID;
CREATE TABLE parts (id int, CONSTRAINT "b c" FOREIGN KEY (id) REFERENCES "a b", CONSTRAINT d FOREIGN KEY (id) REFERENCES pk) PARTITION BY RANGE (id);
CREATE TABLE "parts b" PARTITION OF parts FOR VALUES FROM (0) TO (15); CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (15) TO (40);
ALTER TABLE "parts b" ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES "a b"; INSERT INTO parts SELECT id FROM "a b";
CREATE TABLE loose (x int); INSERT INTO loose VALUES (99);
ALTER TABLE loose ADD CONSTRAINT "b c" FOREIGN KEY (x) REFERENCES "a b" NOT VALID, ADD CONSTRAINT "b ""d" CHECK (x < 50) NOT VALID;
"#;

/// The further kinds of unchecked constraints since version 18.
const SINCE_18: &str = r#"
CREATE TABLE since (x int CONSTRAINT "a b c" REFERENCES "a b" NOT ENFORCED, y int); INSERT INTO since VALUES (99, NULL);
ALTER TABLE since ADD CONSTRAINT "y z" NOT NULL y NOT VALID;
CREATE TABLE "loose parts" (x int) PARTITION BY RANGE (x); CREATE TABLE "loose parts b" PARTITION OF "loose parts" FOR VALUES FROM (0) TO (100);
INSERT INTO "loose parts" VALUES (99);
ALTER TABLE "loose parts" ADD CONSTRAINT "b c" FOREIGN KEY (x) REFERENCES "a b" NOT VALID;
"#;

/// Every constraint with its state. Constraints that a key made for partitions are without their names, because the
/// server chooses these.
const CONSTRAINTS: &str = "SELECT conrelid::regclass, CASE WHEN conparentid = 0 THEN conname END, contype, convalidated, confrelid::regclass \
     FROM pg_constraint WHERE conrelid <> 0 ORDER BY conrelid::regclass::text, 2, 3, confrelid::regclass::text";

#[tokio::test]
async fn what_the_source_has_checked_is_checked_whatever_its_name_is() {
    for major in [15, 18] {
        let server = Server::start(major);
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", NAMES);
        if major >= 18 {
            server.sql("shop", SINCE_18);
        }
        let vault = vault(&MemoryStore::new());
        backup(&server, &server.url("shop"), &vault).await.expect("backed up");
        recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
        assert_eq!(server.sql("copy", CONSTRAINTS), server.sql("shop", CONSTRAINTS), "{major}");
        assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0], "{major}");
        // And of some tables, beside a key of the target's own that isn't checked.
        server.sql("postgres", "CREATE DATABASE few");
        let own = "CREATE TABLE t (a int UNIQUE, b int); INSERT INTO t VALUES (1, 2); \
                   ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (b) REFERENCES t (a) NOT VALID";
        server.sql("few", own);
        let tables = ["a", "a b", "pk"].map(str::to_owned).to_vec();
        recover(&vault, &server.url("few"), &RestoreOptions { tables, ..options(&server) }).await.expect("restored");
        let open = "SELECT string_agg(conname, ' ') FROM pg_constraint WHERE NOT convalidated";
        assert_eq!(server.sql("few", open), "k");
        assert_eq!(
            server.sql("few", "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0"),
            "6"
        );
    }
}

/// A child may have checked a constraint that its parent leaves unchecked. `pg_dump` doesn't record that.
#[tokio::test]
async fn what_a_child_has_checked_alone_comes_back_as_the_parent_has_it() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql(
        "shop",
        "CREATE TABLE parent (id int); CREATE TABLE child () INHERITS (parent); CREATE TABLE grandchild () INHERITS (child); \
         INSERT INTO child VALUES (7); INSERT INTO parent VALUES (1); \
         ALTER TABLE parent ADD CONSTRAINT open CHECK (id > 5) NOT VALID; ALTER TABLE child VALIDATE CONSTRAINT open",
    );
    let vault = vault(&MemoryStore::new());
    backup(&server, &server.url("shop"), &vault).await.expect("backed up");
    recover(&vault, &server.url("copy"), &options(&server)).await.expect("restored");
    let open = "SELECT count(*) FROM pg_constraint WHERE NOT convalidated";
    assert_eq!((server.sql("shop", open), server.sql("copy", open)), ("1".into(), "3".into()));
    assert_eq!(content(&server, "copy")[0], content(&server, "shop")[0]);
}
