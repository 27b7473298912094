-- A database with every kind of object that a backup can lose.
CREATE EXTENSION hstore; CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gist; CREATE EXTENSION postgres_fdw;
COMMENT ON EXTENSION hstore IS 'our own words';
DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET work_mem = ''5MB''', current_database());
  EXECUTE format('ALTER ROLE alice IN DATABASE %I SET enable_seqscan = off', current_database());
  EXECUTE format('COMMENT ON DATABASE %I IS %L', current_database(), 'a database''s comment');
  EXECUTE format('GRANT CREATE ON DATABASE %I TO reader', current_database());
END $$;
CREATE SCHEMA "Ein "" Schema; DROP"; CREATE SCHEMA other AUTHORIZATION alice;
CREATE TYPE state AS ENUM ('new', 'it''s paid', 'shipped'); ALTER TYPE state ADD VALUE 'lost' BEFORE 'shipped';
CREATE TYPE pair AS (a int, b text); CREATE TYPE span AS RANGE (subtype = float8);
CREATE DOMAIN positive AS int CHECK (VALUE > 0) DEFAULT 1; COMMENT ON TYPE pair IS 'composite';
CREATE COLLATION german (locale = 'C');
CREATE SEQUENCE alone START 100 INCREMENT -5 MINVALUE -1000 MAXVALUE 100 CYCLE; SELECT nextval('alone'), nextval('alone');
CREATE SEQUENCE at_its_end MAXVALUE 3; SELECT setval('at_its_end', 3);
CREATE SEQUENCE untouched START 42; CREATE SEQUENCE set_back; SELECT setval('set_back', 77, false);
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION twice(text) RETURNS text LANGUAGE sql IMMUTABLE AS $f$ SELECT $1 || $1 $f$;
CREATE FUNCTION first_calls(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN second_calls($1); END $$;
CREATE FUNCTION second_calls(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE PROCEDURE note(text) LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%; -- \restrict', $1; END $$;
CREATE AGGREGATE product(int) (SFUNC = int4mul, STYPE = int, INITCOND = '1');
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq, COMMUTATOR = ===);
CREATE FUNCTION to_pair(int) RETURNS pair LANGUAGE sql AS 'SELECT ROW($1, $1::text)::pair';
CREATE CAST (int AS pair) WITH FUNCTION to_pair(int);
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, st state DEFAULT 'new', p pair, r span, d positive,
  doc jsonb, tags text[], h hstore, note text COLLATE german, price numeric(12,2), bin bytea, at timestamptz,
  total numeric GENERATED ALWAYS AS (price * 2) STORED, gone int, "Select" text, dup int,
  CONSTRAINT "price's ok" CHECK (price >= 0), UNIQUE (dup) DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE orders DROP COLUMN gone; ALTER TABLE orders OWNER TO alice;
ALTER TABLE orders ALTER COLUMN doc SET STORAGE EXTERNAL, ALTER COLUMN note SET STATISTICS 500;
INSERT INTO orders (st, p, r, d, doc, tags, h, note, price, bin, at, "Select", dup)
SELECT (ARRAY['new', 'it''s paid', 'lost', 'shipped']::state[])[1 + i % 4], ROW(i, E'tab\tand "quotes"\\')::pair,
  span(i, i + 0.1), 1 + i % 9, jsonb_build_object('k', i, 't', E'line\nbreak', 'u', '🐘'), ARRAY[i::text, NULL, '\N'],
  hstore('a', i::text), CASE WHEN i % 7 = 0 THEN NULL ELSE repeat('\.' || i, i % 50) END, i / 3.0,
  decode(md5(i::text), 'hex'), '2024-02-29 12:00+02'::timestamptz + i * interval '1 minute', E'\\N\r\n', i
FROM generate_series(1, 5000) i;
UPDATE orders SET bin = decode(repeat(md5(id::text), 20000), 'hex') WHERE id % 1000 = 0;
CREATE TABLE big (id int PRIMARY KEY, filler text);
INSERT INTO big SELECT i, repeat(md5(i::text), 8) FROM generate_series(1, 200000) i;
CREATE TABLE nothing (); INSERT INTO nothing DEFAULT VALUES; INSERT INTO nothing DEFAULT VALUES;
CREATE TABLE empty (a int, b text); CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS a;
CREATE TABLE "Ein "" Schema; DROP"."Tab	elle
🐘 100% -- ""x""" ("Spalte ""1""" int, "b\n" text, "-lead" int);
INSERT INTO "Ein "" Schema; DROP"."Tab	elle
🐘 100% -- ""x""" VALUES (1, 'a', 2), (NULL, '', NULL);
CREATE TABLE aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa (a int); INSERT INTO aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa VALUES (1);
CREATE TABLE parts (id int NOT NULL, at date NOT NULL, v text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE parts_23 PARTITION OF parts FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE parts_24 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY HASH (id);
CREATE TABLE parts_24_0 PARTITION OF parts_24 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_24_1 PARTITION OF parts_24 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT; CREATE INDEX parts_v ON parts (v);
INSERT INTO parts SELECT i, '2022-06-01'::date + i, 'v' || i FROM generate_series(1, 1200) i;
CREATE TABLE base (a int, b text); CREATE TABLE child (c int) INHERITS (base); INSERT INTO base VALUES (1, 'base'); INSERT INTO child VALUES (2, 'child', 3);
CREATE TYPE row_type AS (x int, y text); CREATE TABLE typed OF row_type (x WITH OPTIONS PRIMARY KEY); INSERT INTO typed VALUES (1, 'y');
CREATE TABLE left_one (id int PRIMARY KEY, other int); CREATE TABLE right_one (id int PRIMARY KEY, other int REFERENCES left_one);
ALTER TABLE left_one ADD FOREIGN KEY (other) REFERENCES right_one DEFERRABLE INITIALLY DEFERRED;
BEGIN; INSERT INTO left_one VALUES (1, 1), (2, NULL); INSERT INTO right_one VALUES (1, 1); COMMIT;
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE); INSERT INTO tree SELECT i, nullif(i / 2, 0) FROM generate_series(1, 1000) i;
CREATE TABLE bad_child (id int, big int); INSERT INTO bad_child VALUES (1, -5);
ALTER TABLE bad_child ADD CONSTRAINT not_yet FOREIGN KEY (big) REFERENCES big NOT VALID, ADD CONSTRAINT also_not CHECK (big > 0) NOT VALID;
CREATE TABLE of_parts (id int, at date, FOREIGN KEY (id, at) REFERENCES parts); INSERT INTO of_parts SELECT id, at FROM parts LIMIT 10;
ALTER TABLE parts ADD FOREIGN KEY (id) REFERENCES big;
CREATE TABLE bookings (room int, during tsrange, EXCLUDE USING gist (room WITH =, during WITH &&)); INSERT INTO bookings VALUES (1, '[2024-01-01, 2024-01-02)');
CREATE INDEX orders_lower ON orders (lower(note)) WHERE st <> 'lost'; CREATE INDEX orders_doc ON orders USING gin (doc jsonb_path_ops);
CREATE INDEX orders_at ON orders USING brin (at); CREATE UNIQUE INDEX orders_n ON orders (n) INCLUDE (price); CREATE INDEX orders_twice ON orders (twice(dup));
CREATE INDEX orders_trgm ON orders USING gist (note gist_trgm_ops); CREATE INDEX "🐘 index" ON orders ("Select" DESC NULLS LAST);
ALTER TABLE orders CLUSTER ON orders_n; ALTER TABLE big REPLICA IDENTITY FULL;
CREATE STATISTICS orders_stats (dependencies, mcv) ON st, d FROM orders; ALTER STATISTICS orders_stats OWNER TO alice;
CREATE VIEW paid AS SELECT * FROM orders WHERE st = 'it''s paid' WITH CHECK OPTION; CREATE RECURSIVE VIEW walk(n) AS SELECT 1 UNION ALL SELECT n + 1 FROM walk WHERE n < 5;
CREATE VIEW grouped AS SELECT id, st, count(*) FROM orders GROUP BY id; CREATE MATERIALIZED VIEW by_key AS SELECT id, note FROM orders GROUP BY id; CREATE UNIQUE INDEX by_key_id ON by_key (id);
CREATE MATERIALIZED VIEW zz_first AS SELECT st, count(*) AS c FROM orders GROUP BY st; CREATE VIEW between_them AS SELECT * FROM zz_first;
CREATE MATERIALIZED VIEW aa_second AS SELECT sum(c) AS s FROM between_them; CREATE INDEX zz_first_c ON zz_first (c); CREATE MATERIALIZED VIEW not_filled AS SELECT 1 AS a WITH NO DATA;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a + 1000; RETURN NEW; END $$;
CREATE TRIGGER touching BEFORE INSERT OR UPDATE ON base FOR EACH ROW EXECUTE FUNCTION touch(); CREATE TRIGGER off BEFORE INSERT ON unlogged FOR EACH ROW EXECUTE FUNCTION touch(); ALTER TABLE unlogged DISABLE TRIGGER off;
CREATE FUNCTION checks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER later AFTER INSERT ON base DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION checks();
CREATE RULE no_delete AS ON DELETE TO base DO INSTEAD NOTHING;
CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF tg_tag = 'CREATE TABLE AS' THEN RAISE EXCEPTION 'no'; END IF; END $$; CREATE EVENT TRIGGER ddl ON ddl_command_end EXECUTE FUNCTION on_ddl(); ALTER EVENT TRIGGER ddl ENABLE ALWAYS;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY mine ON orders FOR SELECT TO reader USING (st <> 'lost');
CREATE PUBLICATION pub FOR TABLE orders (id, st, note), big WHERE (id > 5); CREATE PUBLICATION everything FOR ALL TABLES;
CREATE SUBSCRIPTION sub CONNECTION 'dbname=nowhere' PUBLICATION pub WITH (connect = false, slot_name = NONE);
CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'h', dbname 'd'); CREATE USER MAPPING FOR alice SERVER remote OPTIONS (user 'u', password 'p'); CREATE FOREIGN TABLE far (a int, b text) SERVER remote OPTIONS (table_name 't');
CREATE TEXT SEARCH DICTIONARY dict (TEMPLATE = simple); CREATE TEXT SEARCH CONFIGURATION cfg (COPY = simple); ALTER TEXT SEARCH CONFIGURATION cfg ALTER MAPPING FOR word WITH dict;
GRANT SELECT ON orders TO reader; GRANT UPDATE (price, note) ON orders TO "Bob's ""role""" WITH GRANT OPTION; GRANT USAGE ON SEQUENCE alone TO PUBLIC; REVOKE EXECUTE ON FUNCTION twice(int) FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE alice IN SCHEMA other GRANT SELECT ON TABLES TO reader; ALTER DEFAULT PRIVILEGES FOR ROLE alice REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
COMMENT ON TABLE orders IS E'two\nlines; \'); DROP'; COMMENT ON COLUMN orders.price IS 'money'; COMMENT ON INDEX orders_at IS 'brin'; COMMENT ON CONSTRAINT "price's ok" ON orders IS 'c'; COMMENT ON FUNCTION twice(text) IS 'f'; COMMENT ON TRIGGER touching ON base IS 't'; COMMENT ON POLICY mine ON orders IS 'p'; COMMENT ON STATISTICS orders_stats IS 's'; COMMENT ON EVENT TRIGGER ddl IS 'e';
SELECT lo_from_bytea(4711, decode(repeat('00ff5c', 3000), 'hex')), lo_from_bytea(4712, ''), lo_from_bytea(4713, 'x'); ALTER LARGE OBJECT 4711 OWNER TO alice; GRANT SELECT ON LARGE OBJECT 4711 TO reader, PUBLIC; COMMENT ON LARGE OBJECT 4713 IS 'a large object';
SELECT lo_put(4712, 10000, 'after a hole');
